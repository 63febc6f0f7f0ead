//! Several keys at once: memtables one by one, then the tables, each asked once for all keys that come to it.
//!
//! The keys are sorted, and go through the levels together in batches. The blocks that a table must read for them are read together; the path of a single get is left as
//! it is. Keys with timestamps, and operands, take that path.

use super::column_family::Family;
use super::read::{PinnedValue, has_timestamps};
use super::state::DbInner;
use super::super_version::SuperVersion;
use crate::key::{LookupKey, SeqNo, ValueType};
use crate::metrics::{Counter, HistogramKind};
use crate::options::ReadOptions;
use crate::sst::{Asked, GetCounts, TableReadOptions};
use siltstone_base::checksum::xxph3;
use siltstone_base::{Error, ErrorKind, Result};

/// Keys that go through the tables together: the blocks of so many are held at the same time.
const BATCH: usize = 256;

/// What one key has.
type Found = Result<Option<PinnedValue>>;

impl DbInner {
    /// The values of several keys of one family, all as of the same moment.
    pub(crate) fn multi_get(&self, family: &Family, keys: &[&[u8]], options: &ReadOptions) -> Vec<Found> {
        let found = self.timed(HistogramKind::DbMultiGet, || self.multi_get_now(family, keys, options));
        let values = found.iter().filter_map(|found| found.as_ref().ok()?.as_ref());
        let (count, bytes) = values.fold((0, 0), |(count, bytes), value| (count + 1, bytes + value.len() as u64));
        self.metrics.add_all([
            (Counter::MultiGets, 1),
            (Counter::MultiGetKeysRead, keys.len() as u64),
            (Counter::MultiGetKeysFound, count),
            (Counter::MultiGetBytesRead, bytes),
        ]);
        if self.metrics.times_operations() {
            self.metrics.record(HistogramKind::BytesPerMultiGet, bytes);
        }
        found
    }

    fn multi_get_now(&self, family: &Family, keys: &[&[u8]], options: &ReadOptions) -> Vec<Found> {
        // The order matters: see `SuperVersion`.
        let pinned = family.super_version.load();
        let seqno = match self.check_readable(family).and_then(|()| self.read_seqno(options)) {
            Ok(seqno) => seqno,
            Err(error) => return keys.iter().map(|_| Err(error.clone())).collect(),
        };
        if has_timestamps(family, options) {
            return keys.iter().map(|key| self.get_timestamped(family, &pinned, key, seqno, options)).collect();
        }
        let time = family.expiry.is_some().then(|| self.read_time(options));
        let found = self.get_sorted(family, &pinned, keys, seqno, &options.into(), time);
        match (&family.expiry, time) {
            (Some(expiry), Some(time)) => {
                let unexpired = |(key, found): (&&[u8], Found)| Ok(self.unexpired(expiry, key, found?, time));
                keys.iter().zip(found).map(unexpired).collect()
            }
            _ => found,
        }
    }

    /// Goes through the keys in their order, in batches; answers in the order of the caller.
    fn get_sorted(
        &self,
        family: &Family,
        pinned: &SuperVersion,
        keys: &[&[u8]],
        seqno: SeqNo,
        options: &TableReadOptions,
        expired_at: Option<u64>,
    ) -> Vec<Found> {
        if let [key] = keys {
            return vec![self.get_pinned(family, pinned, key, seqno, options, expired_at)];
        }
        let mut order: Vec<usize> = (0..keys.len()).collect();
        order.sort_by(|a, b| family.comparator.compare_user(keys[*a], keys[*b]));
        let mut found: Vec<Option<Found>> = keys.iter().map(|_| None).collect();
        let mut asked = Vec::with_capacity(keys.len().min(BATCH));
        let mut places = Vec::with_capacity(keys.len().min(BATCH));
        for batch in order.chunks(BATCH) {
            for place in batch {
                let lookup = LookupKey::new(keys[*place], seqno);
                found[*place] = self.get_in_memory(family, pinned, &lookup, options);
                if found[*place].is_none() {
                    let hash = xxph3(keys[*place]);
                    asked.push(Asked { lookup, hash, counts: GetCounts::default(), answer: None });
                    places.push(*place);
                }
            }
            pinned.version.get_many(&family.table_cache, options, expired_at, &mut asked);
            for (key, place) in asked.drain(..).zip(places.drain(..)) {
                let entry = key.answer.map(|(level, found)| found.map(|entry| (level, entry))).transpose();
                found[place] = Some(
                    entry.and_then(|entry| self.finish_get(family, pinned, &key.lookup, entry, key.counts, options)),
                );
            }
        }
        let unanswered = || Err(Error::new(ErrorKind::NotSupported, "a key was not looked for"));
        found.into_iter().map(|found| found.unwrap_or_else(unanswered)).collect()
    }

    /// What the memtables say of a key; `None` if they have no entry of it.
    fn get_in_memory(
        &self,
        family: &Family,
        pinned: &SuperVersion,
        lookup: &LookupKey,
        options: &TableReadOptions,
    ) -> Option<Found> {
        let entry = match pinned.memtable.get_pinned(lookup) {
            None if !pinned.immutables.is_empty() => pinned.immutables.get_pinned(lookup),
            found => found,
        }?;
        let bytes = if entry.value_type == ValueType::Put { entry.value.len() as u64 } else { 0 };
        self.metrics.add_all([(Counter::KeysRead, 1), (Counter::MemtableHit, 1), (Counter::BytesRead, bytes)]);
        if entry.value_type == ValueType::Put {
            return Some(Ok(Some(PinnedValue::in_memtable(entry.value))));
        }
        Some(self.get_special(family, pinned, lookup, entry.value_type, &entry.value, options))
    }
}
