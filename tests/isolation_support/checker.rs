//! What a level of isolation forbids, looked for in a history.
//!
//! The checker knows no engine. It is told what each transaction read and wrote, every written value being unlike any other, and which value of each key somebody
//! outside of all transactions saw after every step. From that it derives the order of versions and the edges between transactions.

use super::cycles::{Circles, Edges};
use siltstone_base::engine::Isolation;
use std::collections::{BTreeMap, BTreeSet};

pub type Key = u8;

/// Which write made a version, be it a value or that there is none: the transaction and the number of its operation. Nobody: the key was not there yet.
pub type Stamp = Option<(usize, usize)>;

#[derive(Debug, Clone)]
pub enum Op {
    /// What was seen. `for_update`: nobody else may change the key before the transaction ends.
    Read {
        key: Key,
        seen: Stamp,
        for_update: bool,
        /// When.
        at: usize,
        /// What was committed last by then.
        newest: Stamp,
    },
    Write {
        key: Key,
        /// Whether it removes the key.
        deletes: bool,
    },
}

#[derive(Debug, Clone, Default)]
pub struct Transaction {
    /// Moments, of which each is another.
    pub begun: usize,
    pub ended: usize,
    pub is_committed: bool,
    pub ops: Vec<Op>,
}

#[derive(Debug, Clone, Default)]
pub struct History {
    pub transactions: Vec<Transaction>,
    /// The values of each key in the order in which they were there, the first one being none.
    pub versions: BTreeMap<Key, Vec<Stamp>>,
}

/// What is forbidden on some level, or on all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Anomaly {
    /// A transaction does not see its own write, or sees what nobody wrote.
    WrongRead,
    /// A version is there that no committed transaction left, or one is not there that a committed transaction left.
    WrongVersion,
    /// Something of a transaction was read that was rolled back.
    AbortedRead,
    /// Something was read that its writer had replaced before it committed.
    IntermediateRead,
    /// G0: transactions replace one another's writes in a circle.
    WriteCycle,
    /// G1c: information flows in a circle.
    InformationCycle,
    /// G-single: a circle with one transaction that read what another one of it replaced.
    SingleAntiDependency,
    /// A row that was read for update was changed by somebody else before the reader ended.
    LostUpdate,
    /// Something was read although it was replaced by then, where each read sees what is committed.
    StaleRead,
    /// Something was read that was not there when the transaction began.
    NotOfTheSnapshot,
    /// Two transactions that ran at the same time changed the same row, and both committed.
    BothChanged,
}

impl Anomaly {
    pub fn is_forbidden(self, level: Isolation) -> bool {
        use Anomaly::{BothChanged, NotOfTheSnapshot, SingleAntiDependency, StaleRead};
        match level {
            Isolation::Snapshot => self != StaleRead,
            Isolation::ReadCommitted => !matches!(self, SingleAntiDependency | NotOfTheSnapshot | BothChanged),
        }
    }
}

impl History {
    fn final_writes(&self, index: usize) -> BTreeMap<Key, usize> {
        let ops = self.transactions[index].ops.iter().enumerate();
        ops.filter_map(|(number, op)| match op {
            Op::Write { key, .. } => Some((*key, number)),
            Op::Read { .. } => None,
        })
        .collect()
    }

    /// What is forbidden on `level` and happened.
    pub fn anomalies(&self, level: Isolation) -> BTreeSet<Anomaly> {
        let mut found = BTreeSet::new();
        self.check_versions(&mut found);
        let committed: Vec<usize> =
            (0..self.transactions.len()).filter(|index| self.transactions[*index].is_committed).collect();
        let mut edges = Edges::default();
        // The node behind the last transaction is whoever made the first version of every key.
        let nobody = self.transactions.len();
        let node = |stamp: Stamp| stamp.map_or(nobody, |(index, _)| index.min(nobody));
        for versions in self.versions.values() {
            versions.windows(2).for_each(|pair| Edges::add(&mut edges.ww, node(pair[0]), node(pair[1])));
        }
        for index in &committed {
            self.check_reads(*index, level, &mut found);
            for (key, seen) in self.foreign_reads(*index) {
                Edges::add(&mut edges.wr, node(seen), *index);
                let versions = self.versions.get(&key).map_or(&[][..], Vec::as_slice);
                if let Some(place) = versions.iter().position(|version| *version == seen)
                    && let Some(next) = versions.get(place + 1)
                {
                    Edges::add(&mut edges.rw, *index, node(*next));
                }
            }
            let others = committed.iter().filter(|other| *other < index);
            if others.into_iter().any(|other| self.both_changed(*index, *other)) {
                found.insert(Anomaly::BothChanged);
            }
        }
        let Circles { g0, g1c, g_single } = edges.circles(nobody + 1);
        found.extend(g0.map(|_| Anomaly::WriteCycle));
        found.extend(g1c.map(|_| Anomaly::InformationCycle));
        found.extend(g_single.map(|_| Anomaly::SingleAntiDependency));
        found.retain(|anomaly| anomaly.is_forbidden(level));
        found
    }

    /// Every version but the first is the last write of a committed transaction to the key, and each of those is a version once.
    fn check_versions(&self, found: &mut BTreeSet<Anomaly>) {
        let mut left: BTreeSet<(Key, usize, usize)> = BTreeSet::new();
        for (index, _) in self.transactions.iter().enumerate().filter(|(_, transaction)| transaction.is_committed) {
            left.extend(self.final_writes(index).into_iter().map(|(key, number)| (key, index, number)));
        }
        for (key, versions) in &self.versions {
            let made = |version: &Stamp| version.is_some_and(|(index, number)| left.remove(&(*key, index, number)));
            if versions.first() != Some(&None) || !versions[1..].iter().all(made) {
                found.insert(Anomaly::WrongVersion);
            }
        }
        if !left.is_empty() {
            found.insert(Anomaly::WrongVersion);
        }
    }

    /// What a transaction read that it had not written itself.
    fn foreign_reads(&self, index: usize) -> Vec<(Key, Stamp)> {
        let reads = self.transactions[index].ops.iter().filter_map(|op| match op {
            Op::Read { key, seen, .. } if seen.is_none_or(|(writer, _)| writer != index) => Some((*key, *seen)),
            _ => None,
        });
        reads.collect()
    }

    fn check_reads(&self, index: usize, level: Isolation, found: &mut BTreeSet<Anomaly>) {
        let transaction = &self.transactions[index];
        let mut own: BTreeMap<Key, usize> = BTreeMap::new();
        for (number, op) in transaction.ops.iter().enumerate() {
            let (key, seen, newest) = match op {
                Op::Write { key, .. } => {
                    own.insert(*key, number);
                    continue;
                }
                Op::Read { key, seen, for_update, at, newest } => {
                    let since = if level == Isolation::Snapshot { transaction.begun } else { *at };
                    if *for_update && self.is_changed_by_others(index, *key, since) {
                        found.insert(Anomaly::LostUpdate);
                    }
                    (key, *seen, *newest)
                }
            };
            if let Some(written) = own.get(key) {
                if seen != Some((index, *written)) {
                    found.insert(Anomaly::WrongRead);
                }
                continue;
            }
            if seen != newest {
                found.insert(Anomaly::StaleRead);
            }
            self.check_read(transaction, *key, seen, found);
        }
    }

    /// Whether another transaction that committed after `since`, and before the one at `index` ended, changed the key.
    fn is_changed_by_others(&self, index: usize, key: Key, since: usize) -> bool {
        let end = self.transactions[index].ended;
        let others = self.transactions.iter().enumerate().filter(|(other, _)| *other != index);
        let mut between = others.filter(|(_, other)| other.is_committed && since < other.ended && other.ended < end);
        between.any(|(other, _)| self.final_writes(other).contains_key(&key))
    }

    /// Looks at a value that was read by a transaction that had not written the key.
    fn check_read(&self, reader: &Transaction, key: Key, seen: Stamp, found: &mut BTreeSet<Anomaly>) {
        if let Some((writer, number)) = seen {
            let Some(other) = self.transactions.get(writer) else {
                found.insert(Anomaly::WrongRead);
                return;
            };
            if !matches!(other.ops.get(number), Some(Op::Write { key: written, .. }) if *written == key) {
                found.insert(Anomaly::WrongRead);
            } else if !other.is_committed {
                found.insert(Anomaly::AbortedRead);
            } else if self.final_writes(writer).get(&key) != Some(&number) {
                found.insert(Anomaly::IntermediateRead);
            }
        }
        let is_there_before = |version: &Stamp| match version {
            None => true,
            Some((writer, _)) => self.transactions.get(*writer).is_some_and(|writer| writer.ended < reader.begun),
        };
        let versions = self.versions.get(&key).map_or(&[][..], Vec::as_slice);
        if versions.iter().rfind(|version| is_there_before(version)) != Some(&seen) {
            found.insert(Anomaly::NotOfTheSnapshot);
        }
    }

    fn both_changed(&self, one: usize, other: usize) -> bool {
        let (first, second) = (&self.transactions[one], &self.transactions[other]);
        let is_beside = first.begun < second.ended && second.begun < first.ended;
        is_beside && {
            let theirs = self.final_writes(other);
            self.final_writes(one).keys().any(|key| theirs.contains_key(key))
        }
    }
}
