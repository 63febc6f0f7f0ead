//! Batches without what they themselves supersede.

use siltstone_base::engine::{KvBatch, KvOp};
use std::collections::HashSet;

/// The last operation on each key, in their order. All operations of a batch get one sequence number from fjall, and a read that is not of a snapshot sees what is applied of a batch so far: a key that is
/// deleted and put by one batch would be missing in between.
pub(super) fn last_ops(batch: &KvBatch) -> Vec<KvOp<'_>> {
    let mut ops: Vec<_> = batch.into_iter().collect();
    if ops.iter().any(|op| !matches!(op, KvOp::Put { .. })) {
        let mut seen = HashSet::with_capacity(ops.len());
        ops.reverse();
        ops.retain(|op| seen.insert(key(op)));
        ops.reverse();
    }
    ops
}

fn key<'a>(op: &KvOp<'a>) -> &'a [u8] {
    match *op {
        KvOp::Put { key, .. } | KvOp::Delete { key } | KvOp::DeleteOnce { key } => key,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Else a client that looks for a row finds none while another one replaces it.
    #[test]
    fn a_key_that_a_batch_deletes_and_puts_is_only_put() {
        let mut batch = KvBatch::new();
        batch.delete(b"replaced");
        batch.delete_once(b"gone");
        batch.put(b"deleted", b"before");
        batch.put(b"replaced", b"row");
        batch.delete(b"deleted");
        let expected = [
            KvOp::DeleteOnce { key: b"gone" },
            KvOp::Put { key: b"replaced", value: b"row" },
            KvOp::Delete { key: b"deleted" },
        ];
        assert_eq!(last_ops(&batch), expected);
    }
}
