//! Every version of keys that is stored, newest first: what a compaction would meet, without one.

use super::Db;
use super::column_family::ColumnFamily;
use super::super_version::SuperVersion;
use crate::iterator::{ChildIter, InternalIterator, MergingIter};
use crate::key::{LookupKey, MAX_SEQNO, ParsedKey, SeqNo, ValueType};
use crate::options::ReadOptions;
use crate::snapshot::Snapshot;
use siltstone_base::Result;
use siltstone_base::sync::Arc;

/// A walk over the versions of the keys in a range, up to those that a snapshot sees. Which older ones are there is chance: whatever compactions have left.
pub(crate) struct KeyVersions {
    merged: MergingIter<ChildIter>,
    end: Vec<u8>,
    seqno: SeqNo,
    /// Keeps what is walked over.
    _pinned: Arc<SuperVersion>,
}

/// A version of a key.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeyVersion<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) seqno: SeqNo,
    pub(crate) value_type: ValueType,
    pub(crate) value: &'a [u8],
}

impl Db {
    /// The versions of the keys in `begin..end` that are visible to `snapshot` or older. Blocks that are read are not kept in the cache. Range tombstones are not looked at.
    pub(crate) fn key_versions(
        &self,
        family: &ColumnFamily,
        begin: &[u8],
        end: &[u8],
        snapshot: &Snapshot,
    ) -> Result<KeyVersions> {
        let family = &family.0;
        let pinned = family.super_version.load_full();
        let mut children = vec![ChildIter::Memtable(pinned.memtable.iter())];
        children.extend(pinned.immutables.newest_first().iter().map(|memtable| ChildIter::Memtable(memtable.iter())));
        let options = ReadOptions::default().fill_cache(false);
        pinned.version.add_iterators(&family.table_cache, &options, None, None, &mut children)?;
        let mut merged = MergingIter::new(family.comparator.clone(), children);
        merged.seek(LookupKey::new(begin, MAX_SEQNO).internal_key());
        Ok(KeyVersions { merged, end: end.to_vec(), seqno: snapshot.seqno(), _pinned: pinned })
    }
}

impl KeyVersions {
    /// The version at hand; `None` at the end.
    pub(crate) fn current(&mut self) -> Result<Option<KeyVersion<'_>>> {
        loop {
            if !self.merged.valid() {
                return self.merged.status().map(|()| None);
            }
            let ParsedKey { user_key, seqno, .. } = ParsedKey::parse(self.merged.key())?;
            if user_key >= &self.end[..] {
                return Ok(None);
            }
            if seqno <= self.seqno {
                break;
            }
            self.merged.next();
        }
        let ParsedKey { user_key, seqno, value_type } = ParsedKey::parse(self.merged.key())?;
        Ok(Some(KeyVersion { key: user_key, seqno, value_type, value: self.merged.value() }))
    }

    /// Goes on to the first one of the next key, in the bytewise order. REQUIRES: there is one at hand.
    pub(crate) fn skip_key(&mut self) {
        if let Ok(ParsedKey { user_key, .. }) = ParsedKey::parse(self.merged.key()) {
            let next = [user_key, b"\0"].concat();
            self.merged.seek(LookupKey::new(&next, MAX_SEQNO).internal_key());
        } else {
            // Who looks at it is told.
            self.merged.next();
        }
    }

    /// Goes on to the next one. REQUIRES: there is one at hand.
    pub(crate) fn advance(&mut self) {
        self.merged.next();
    }
}
