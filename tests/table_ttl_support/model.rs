//! What tables whose rows expire must show.

use crate::expiry_support::START;
use siltstone_base::index_spec::IndexExtractor;
use std::collections::{BTreeMap, BTreeSet};

/// Where the column of the time begins.
pub const COLUMN: u32 = 3;

/// A row's value and its stamp.
pub type Rows = BTreeMap<u8, (Vec<u8>, u64)>;

/// What an index yields: the whole entry, by which it is sorted, index key, primary key, covered columns, value.
pub type Entries = BTreeMap<Vec<u8>, [Vec<u8>; 4]>;

pub fn name(key: u8) -> Vec<u8> {
    // Some are prefixes of others.
    format!("{}{}", key / 2, "x".repeat(usize::from(key % 2))).into_bytes()
}

pub fn value(kind: u8, number: u8, other: u8, stamp: u64, len: usize) -> Vec<u8> {
    [&[b'a' + kind, number, other][..], &stamp.to_be_bytes(), &vec![b'v'; len]].concat()
}

/// As many bytes as the kind says, and then a smaller one; rows of one kind have no entry.
#[derive(Debug)]
pub struct Word;

impl IndexExtractor for Word {
    fn extract(&self, _: &[u8], value: &[u8], index_key: &mut Vec<u8>) -> bool {
        let [kind, number, ..] = value else { return false };
        index_key.extend(std::iter::repeat_n(number % 3 + 10, usize::from(kind % 4)));
        index_key.push(1);
        *kind != b'd'
    }
}

/// A duration, and the first and the last second in which it was in force.
#[derive(Debug, Clone)]
struct Step {
    since: u64,
    until: u64,
    duration: u64,
}

/// Durations of a table over time. Of two that were in force in the second of an opening, both count.
#[derive(Debug, Clone)]
pub struct Durations(Vec<Step>);

impl Durations {
    pub fn new(duration: u64) -> Self {
        Self(vec![Step { since: 0, until: u64::MAX, duration }])
    }

    pub fn current(&self) -> u64 {
        self.0.last().unwrap().duration
    }

    /// Counts from the next second on; one that is replaced within its second never was.
    pub fn set(&mut self, duration: u64, now: u64) {
        if self.current() == duration {
            return;
        }
        self.0.retain(|step| step.since <= now);
        let last = self.0.last_mut().unwrap();
        last.until = u64::MAX;
        if last.duration != duration {
            last.until = now;
            self.0.push(Step { since: now + 1, until: u64::MAX, duration });
        }
    }

    /// Nobody reads while a database is opened: what was given last is in force.
    pub fn reopened(&mut self, now: u64) {
        let last = self.0.last_mut().unwrap();
        last.since = last.since.min(now);
    }

    /// The latest stamp that is expired, found second by second.
    fn bound(&self, now: u64) -> u64 {
        let shortest = |second: u64| {
            let in_force = self.0.iter().filter(|step| (step.since..=step.until).contains(&second));
            in_force.map(|step| step.duration).min().unwrap()
        };
        (START..=now).map(|second| second - shortest(second)).max().unwrap()
    }

    pub fn visible(&self, rows: &Rows, now: u64) -> Rows {
        let bound = self.bound(now);
        rows.iter().filter(|(_, (_, stamp))| *stamp > bound).map(|(key, row)| (*key, row.clone())).collect()
    }
}

/// Whether no two rows have the same number.
pub fn is_unique(rows: &Rows) -> bool {
    let mut numbers = BTreeSet::new();
    rows.values().all(|(value, _)| numbers.insert(value[1]))
}

pub fn entries(rows: &Rows, extractor: &dyn IndexExtractor, covered: Option<&dyn IndexExtractor>) -> Entries {
    let mut entries = Entries::new();
    for (key, (value, _)) in rows {
        let (mut index_key, mut other) = (Vec::new(), Vec::new());
        if extractor.extract(&name(*key), value, &mut index_key) {
            if !covered.is_some_and(|covered| covered.extract(&name(*key), value, &mut other)) {
                other.clear();
            }
            entries.insert([&index_key[..], &name(*key)].concat(), [index_key, name(*key), other, value.clone()]);
        }
    }
    entries
}
