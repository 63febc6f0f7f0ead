//! The undo log: what rows were before transactions changed them. `docs/src/formats/undo.md` has the bytes.
//!
//! It is a tree in a tablespace of its own, and so has all that trees have: its pages go through the pool, its changes through the redo log, it is checked like any other. Its keys
//! are the number of a transaction and the number of a change; the records of one transaction lie together, in the order of its changes. A row's stamp is the key of
//! the record of what the row was before.
//!
//! Record 0 of a transaction says what became of it. While there is none the transaction is not finished, and recovery rolls it back.
//!
//! Only who holds the lock of writers changes it.

mod record;
mod touched;

pub(crate) use record::{Changed, Fate, UndoRecord};

use crate::buffer::Pool;
use crate::mtr::Close;
use crate::page::{self, FLAG_OVERFLOW, Stamp};
use crate::space::UNDO_SPACE;
use crate::tree::{Chunk, Position, Start, Tree, TreeReport, Value};
use siltstone_base::sync::Arc;
use siltstone_base::{Error, Result};
use std::collections::BTreeMap;
use touched::Touched;

/// The first byte of a key: what the row is.
const META: u8 = 0;
const RECORD: u8 = 1;

/// The key of the row that says below which number no transaction begins.
const NEXT_ID: [u8; 1] = [META];

/// Bytes of a key of a record.
const KEY_LEN: usize = 13;

fn key_of(stamp: Stamp) -> [u8; KEY_LEN] {
    let mut key = [0; KEY_LEN];
    key[0] = RECORD;
    key[1..9].copy_from_slice(&stamp.id.to_be_bytes());
    key[9..].copy_from_slice(&stamp.number.to_be_bytes());
    key
}

fn stamp_of(key: &[u8]) -> Option<Stamp> {
    let key: &[u8; KEY_LEN] = key.try_into().ok()?;
    let id = key[1..9].iter().fold(0, |id, byte| id << 8 | u64::from(*byte));
    let number = key[9..].iter().fold(0, |number, byte| number << 8 | u32::from(*byte));
    (key[0] == RECORD && id > 0).then_some(Stamp { id, number })
}

/// The undo log of an open database.
#[derive(Debug)]
pub(crate) struct UndoLog {
    tree: Tree,
    touched: Touched,
}

impl UndoLog {
    /// The log in the tablespace that is open.
    pub(crate) fn new(pool: Arc<Pool>) -> Self {
        Self { tree: Tree::new(UNDO_SPACE, pool), touched: Touched::new() }
    }

    #[cold]
    pub(crate) fn damaged(&self, what: &'static str) -> Error {
        Error::corrupt(what).with_file(&self.tree.pool().spaces.path(UNDO_SPACE))
    }

    fn put(&self, key: &[u8], value: &[u8], close: Close) -> Result<()> {
        let mut ignore = |_: Option<Value<'_>>| Ok(());
        if !self.tree.is_long(key, value) {
            return self.tree.put(key, Value::inline(value), false, close, Close::Open, &mut ignore);
        }
        let reference = self.tree.write_long(value)?.encode();
        self.tree.put(key, Value::new(FLAG_OVERFLOW, &reference), false, close, Close::Open, &mut ignore)
    }

    /// Adds the record of a change, as part of an open group.
    pub(crate) fn add(&self, stamp: Stamp, changed: &Changed<'_>, before: Option<(u8, &[u8])>) -> Result<()> {
        self.put(&key_of(stamp), &record::encode(changed, before), Close::Open)?;
        if changed.is_entry {
            self.touched.note(changed.space, changed.key);
        }
        Ok(())
    }

    /// Removes the record of a change, as part of an open group. Returns whether its page should be merged.
    pub(crate) fn remove_change(&self, stamp: Stamp, changed: &Changed<'_>) -> Result<bool> {
        let is_underfull = self.remove(stamp)?;
        if changed.is_entry {
            self.touched.forget(stamp.id, changed.space, changed.key);
        }
        Ok(is_underfull)
    }

    /// Whether there may be records of an entry. Where there are none, the entry is there for everyone or for nobody. For who holds the lock of writers.
    pub(crate) fn may_have_records(&self, space: u32, key: &[u8]) -> bool {
        self.touched.may_have(space, key)
    }

    /// Takes note of the transactions of earlier lives, of which nothing is known but that their numbers are below `first`.
    pub(crate) fn note_recovered(&self, count: usize, first: u64) {
        self.touched.note_recovered(count, first);
    }

    /// Takes note that a transaction has no records any more.
    pub(crate) fn note_gone(&self, id: u64) {
        self.touched.note_gone(id);
    }

    /// The record of a change, if it is still there.
    pub(crate) fn get(&self, stamp: Stamp) -> Result<Option<UndoRecord>> {
        let found = self.tree.get(&key_of(stamp), |_, bytes| record::decode(bytes))?;
        match found {
            None => Ok(None),
            Some(Some(record)) => Ok(Some(record)),
            Some(None) => Err(self.damaged("a record of the undo log is malformed")),
        }
    }

    /// Removes a row that is no record of an entry, as part of an open group. Returns whether its page should be merged.
    pub(crate) fn remove(&self, stamp: Stamp) -> Result<bool> {
        self.tree.delete(&key_of(stamp), false, Close::Open, &mut |_| Ok(()))
    }

    /// Merges the page on which a record was.
    pub(crate) fn merge(&self, stamp: Stamp) {
        // That it can't be done now is no error: the tree is as good as before.
        let _ = self.tree.merge_at(&key_of(stamp), Close::Group);
    }

    /// Says what became of a transaction, as part of an open group.
    pub(crate) fn set_fate(&self, id: u64, fate: &Fate) -> Result<()> {
        self.put(&key_of(Stamp { id, number: 0 }), &fate.encode(), Close::Open)
    }

    /// The last record of a transaction, other than of its fate.
    pub(crate) fn last(&self, id: u64) -> Result<Option<(u32, UndoRecord)>> {
        let last = key_of(Stamp { id, number: u32::MAX });
        let found = self.read(Start::At(&last), false)?;
        let Some((stamp, bytes)) = found.filter(|(stamp, _)| stamp.id == id && stamp.number > 0) else {
            return Ok(None);
        };
        let record = record::decode(&bytes).ok_or_else(|| self.damaged("a record of the undo log is malformed"))?;
        Ok(Some((stamp.number, record)))
    }

    /// Records of a transaction from a number on: up to `count`, and those of one page. None only at their end.
    pub(crate) fn records(&self, id: u64, from: u32, count: usize) -> Result<Vec<(u32, UndoRecord)>> {
        let first = key_of(Stamp { id, number: from });
        let (mut position, mut chunk) = (Position::default(), Chunk::default());
        self.tree.read_chunk(Start::At(&first), true, &mut position, count, &mut chunk)?;
        let mut records = Vec::new();
        for index in 0..chunk.len() {
            let Some((key, bytes)) = chunk.get(index) else { break };
            let stamp = stamp_of(key).ok_or_else(|| self.damaged("a key of the undo log is malformed"))?;
            if stamp.id != id {
                break;
            }
            let record = record::decode(bytes).ok_or_else(|| self.damaged("a record of the undo log is malformed"))?;
            records.push((stamp.number, record));
        }
        Ok(records)
    }

    fn read(&self, start: Start<'_>, is_forward: bool) -> Result<Option<(Stamp, Vec<u8>)>> {
        let (mut position, mut chunk) = (Position::default(), Chunk::default());
        self.tree.read_chunk(start, is_forward, &mut position, 1, &mut chunk)?;
        let Some((key, bytes)) = chunk.get(0).filter(|(key, _)| *key != NEXT_ID) else { return Ok(None) };
        let stamp = stamp_of(key).ok_or_else(|| self.damaged("a key of the undo log is malformed"))?;
        Ok(Some((stamp, bytes.to_vec())))
    }

    /// The transactions that have records, in the order of their numbers, and what became of them; `None`: they were not finished.
    pub(crate) fn transactions(&self) -> Result<Vec<(u64, Option<Fate>)>> {
        let mut found = Vec::new();
        let end = self.next_id()?;
        let mut next = Some(1);
        while let Some(id) = next {
            let Some((stamp, bytes)) = self.read(Start::At(&key_of(Stamp { id, number: 0 })), true)? else { break };
            if stamp.id >= end {
                return Err(self.damaged("a transaction has a number that was not given yet"));
            }
            if stamp.id < id {
                return Err(self.damaged("the undo log is out of order"));
            }
            let fate = match stamp.number {
                0 => Some(Fate::decode(&bytes).ok_or_else(|| self.damaged("the fate of a transaction is malformed"))?),
                _ => None,
            };
            found.push((stamp.id, fate));
            next = stamp.id.checked_add(1);
        }
        Ok(found)
    }

    /// Every transaction that ever began has a lower number.
    pub(crate) fn next_id(&self) -> Result<u64> {
        let found = self.tree.get(&NEXT_ID, |_, bytes| bytes.first_chunk().map(|bytes| u64::from_le_bytes(*bytes)))?;
        match found {
            None => Ok(1),
            Some(Some(next)) if next > 0 => Ok(next),
            Some(_) => Err(self.damaged("the next number of a transaction is malformed")),
        }
    }

    /// Puts bytes in the place of a record that no version writes.
    #[cfg(test)]
    pub(crate) fn damage(&self, stamp: Stamp) {
        self.put(&key_of(stamp), &[0xff], Close::Group).unwrap();
    }

    /// Says, as a group of its own, below which number transactions have begun.
    pub(crate) fn set_next_id(&self, next: u64) -> Result<()> {
        self.put(&NEXT_ID, &next.to_le_bytes(), Close::Group)
    }

    /// Checks the tree, and every record. Also returns how many pages of long values records keep, in each tablespace.
    pub(crate) fn check(&self) -> Result<(TreeReport, BTreeMap<u32, u64>)> {
        let report = self.tree.check()?;
        let page_len = self.tree.pool().page_len();
        let mut kept = BTreeMap::new();
        for (id, _) in self.transactions()? {
            let mut from = 1;
            loop {
                let records = self.records(id, from, 64)?;
                let Some(next) = records.last().and_then(|(last, _)| last.checked_add(1)) else { break };
                from = next;
                for (_, record) in records {
                    let chain = record.before.and_then(|(flags, bytes)| page::chain(flags, &bytes));
                    *kept.entry(record.space).or_default() += chain.map_or(0, |chain| chain.pages(page_len) as u64);
                }
            }
        }
        Ok((report, kept))
    }
}

/// Reads any bytes as what the undo log has in its rows.
#[cfg(feature = "testing")]
pub(crate) fn decode_any(bytes: &[u8]) {
    let _ = (record::decode(bytes), Fate::decode(bytes), stamp_of(bytes));
}

/// What it has in its rows.
#[cfg(all(test, feature = "testing"))]
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    vec![Fate::Prepared(b"name".to_vec()).encode(), Fate::Committed.encode(), b"\x03\x01\x01k\x02value".to_vec()]
}
