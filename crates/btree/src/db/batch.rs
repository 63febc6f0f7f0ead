//! A batch of writes to one or several trees.

use super::TreeHandle;
use siltstone_base::engine::{KvBatch, KvOp};

/// Puts and deletes that become visible and safe together.
#[derive(Debug, Clone, Default)]
pub struct WriteBatch {
    ops: KvBatch,
    /// The tree of each operation; `None` is the default one.
    trees: Vec<Option<TreeHandle>>,
}

impl WriteBatch {
    /// An empty batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a key of the default tree.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        self.ops.put(key.as_ref(), value.as_ref());
        self.trees.push(None);
    }

    /// Removes a key of the default tree.
    pub fn delete(&mut self, key: impl AsRef<[u8]>) {
        self.ops.delete(key.as_ref());
        self.trees.push(None);
    }

    /// Sets a key of a tree.
    pub fn put_in(&mut self, tree: &TreeHandle, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        self.ops.put(key.as_ref(), value.as_ref());
        self.trees.push(Some(tree.clone()));
    }

    /// Removes a key of a tree.
    pub fn delete_in(&mut self, tree: &TreeHandle, key: impl AsRef<[u8]>) {
        self.ops.delete(key.as_ref());
        self.trees.push(Some(tree.clone()));
    }

    /// The number of operations.
    pub fn len(&self) -> usize {
        self.ops.len()
    }

    /// Whether there is no operation.
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    /// Forgets the operations and keeps the memory.
    pub fn clear(&mut self) {
        self.ops.clear();
        self.trees.clear();
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Option<&TreeHandle>, KvOp<'_>)> {
        self.trees.iter().map(Option::as_ref).zip(self.ops.iter())
    }
}
