//! Transactions on real threads: each key has a list, and whoever writes appends to it, so that the lists say by themselves in which order who wrote, and what a reader saw
//! (the idea is Elle's, Kingsbury and Alvaro 2020). Locks are waited for, handed over and found in circles; commits meet in groups. Where the engine can, words are appended by merges, which
//! read nothing, lists are in two families, locks are shared, and transactions are prepared before they are decided about.

use super::checker::Anomaly;
use super::cycles::{Circles, Edges};
use super::run::Draw;
use super::sessions::{Read, Session};
use siltstone_base::engine::Isolation;
use siltstone_base::plant::{planted, with_planted};
use siltstone_base::{ErrorKind, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};

pub const THREADS: usize = 4;
/// Transactions of a thread.
const TRANSACTIONS: usize = 12;
const KEYS: u64 = 5;
const STEPS: u64 = 5;

/// Who appended, and which of its appends it is.
pub type Stamp = (usize, usize);

/// Something that a transaction did.
#[derive(Debug, Clone)]
pub struct Op {
    pub key: u64,
    /// What the list was for it, before it appended; `None`: it did not look.
    pub seen: Option<Vec<Stamp>>,
    /// What it appended, if that stayed.
    pub appended: Option<Stamp>,
    /// The moment before.
    pub since: usize,
}

/// What became of a transaction. Moments are counted by all threads together.
#[derive(Debug, Clone, Default)]
pub struct Done {
    /// Before it began, and after.
    pub begun: (usize, usize),
    /// Before it committed, and after.
    pub committed: Option<(usize, usize)>,
    pub ops: Vec<Op>,
}

/// All transactions of a history by number, and the lists that they left.
#[derive(Debug, Default)]
pub struct Lists {
    pub transactions: Vec<Done>,
    pub lists: BTreeMap<u64, Vec<Stamp>>,
}

/// Begins a transaction.
pub type Begin<'a> = &'a (dyn Fn(Isolation) -> Result<Box<dyn Session + 'a>> + Sync);

struct Worker<'a, 'm> {
    begin: Begin<'a>,
    level: Isolation,
    prefix: String,
    moments: &'m AtomicUsize,
}

/// A history under keys that no other one has.
pub fn run(begin: Begin<'_>, number: u64, level: Isolation, seed: u64) -> Result<Lists> {
    let moments = AtomicUsize::new(0);
    let worker = Worker { begin, level, prefix: format!("t{number:08}/"), moments: &moments };
    let bug = planted();
    let work = |thread: usize| {
        let mut draw = Draw(seed ^ (thread as u64) << 40);
        let ids = thread * TRANSACTIONS..(thread + 1) * TRANSACTIONS;
        ids.map(|id| worker.transaction(id, &mut draw)).collect::<Result<Vec<_>>>()
    };
    let work = |thread| match bug {
        Some(bug) => with_planted(bug, || work(thread)),
        None => work(thread),
    };
    let mut transactions = Vec::new();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || work(thread))).collect();
        threads.into_iter().try_for_each(|thread| {
            transactions.extend(thread.join().unwrap()?);
            Ok(())
        })
    })?;
    let mut reader = begin(Isolation::ReadCommitted)?;
    let lists = (0..KEYS).map(|key| Ok((key, worker.list(&mut *reader, key, Read::Plain)?))).collect::<Result<_>>()?;
    reader.rollback()?;
    Ok(Lists { transactions, lists })
}

impl Worker<'_, '_> {
    fn now(&self) -> usize {
        self.moments.fetch_add(1, Ordering::SeqCst)
    }

    fn key(&self, key: u64) -> Vec<u8> {
        format!("{}{key}", self.prefix).into_bytes()
    }

    fn list(&self, session: &mut dyn Session, key: u64, how: Read) -> Result<Vec<Stamp>> {
        let value = session.read(&self.key(key), how)?;
        let text = std::str::from_utf8(&value).unwrap();
        let stamp =
            |word: &str| word.split_once('.').map(|(id, number)| (id.parse().unwrap(), number.parse().unwrap()));
        Ok(text.split_whitespace().map(|word| stamp(word).unwrap()).collect())
    }

    fn transaction(&self, id: usize, draw: &mut Draw) -> Result<Done> {
        let before = self.now();
        let mut session = (self.begin)(self.level)?;
        let mut done = Done { begun: (before, self.now()), ..Done::default() };
        for number in 0..=draw.below(STEPS) as usize {
            let (key, kind) = (draw.below(KEYS), draw.below(14));
            match self.step(&mut *session, key, kind, (id, number)) {
                Ok(op) => done.ops.push(op),
                Err(error) if is_refusal(error.kind()) => {
                    session.rollback()?;
                    return Ok(done);
                }
                Err(error) => return Err(error),
            }
        }
        let (commits, in_two_phases) = (draw.below(10) > 0, draw.below(4) == 0);
        let before = self.now();
        let outcome = match in_two_phases {
            true => session.decide_in_two_phases(format!("{}{id}", self.prefix).as_bytes(), commits),
            false if commits => session.commit(),
            false => session.rollback(),
        };
        match outcome {
            Ok(()) if commits => done.committed = Some((before, self.now())),
            Ok(()) => {}
            Err(error) if is_refusal(error.kind()) => {}
            Err(error) => return Err(error),
        }
        Ok(done)
    }

    fn step(&self, session: &mut dyn Session, key: u64, kind: u64, stamp: Stamp) -> Result<Op> {
        let since = self.now();
        let mut op = Op { key, seen: None, appended: None, since };
        let savepoint = if matches!(kind, 9 | 13) { Some(session.savepoint()?) } else { None };
        let word = |(id, number): &Stamp| format!("{id}.{number}");
        let is_appended = kind >= 11 && session.append(&self.key(key), word(&stamp).as_bytes())?;
        if !is_appended {
            let how = match kind {
                0..4 => Read::Plain,
                10 => Read::Shared,
                _ => Read::ForUpdate,
            };
            let seen = self.list(session, key, how)?;
            if kind >= 5 && kind != 10 {
                let words: Vec<_> = seen.iter().chain([&stamp]).map(word).collect();
                session.put(&self.key(key), words.join(" ").as_bytes())?;
            }
            op.seen = Some(seen);
        }
        if kind >= 5 && kind != 10 {
            match savepoint {
                Some(savepoint) => session.rollback_to(savepoint)?,
                None => op.appended = Some(stamp),
            }
        }
        Ok(op)
    }
}

/// Whether a transaction was refused for the sake of others.
fn is_refusal(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Busy | ErrorKind::Deadlock | ErrorKind::TimedOut)
}

impl Lists {
    /// What is forbidden on `level` and happened.
    pub fn anomalies(&self, level: Isolation) -> BTreeSet<Anomaly> {
        let mut found = BTreeSet::new();
        let mut edges = Edges::default();
        let nobody = self.transactions.len();
        self.check_lists(&mut found);
        for list in self.lists.values() {
            list.windows(2).for_each(|pair| Edges::add(&mut edges.ww, pair[0].0, pair[1].0));
        }
        for (id, reader) in self.transactions.iter().enumerate().filter(|(_, done)| done.committed.is_some()) {
            let mut own: BTreeMap<u64, Vec<Stamp>> = BTreeMap::new();
            for op in &reader.ops {
                let own = own.entry(op.key).or_default();
                let foreign = op.seen.as_ref().map(|seen| seen.strip_suffix(&own[..]));
                own.extend(op.appended);
                let Some(foreign) = foreign else { continue };
                let Some(foreign) = foreign else {
                    found.insert(Anomaly::WrongRead);
                    continue;
                };
                self.check_read(op, foreign, level, reader, &mut found);
                Edges::add(&mut edges.wr, foreign.last().map_or(nobody, |stamp| stamp.0), id);
                let list = self.lists.get(&op.key).map_or(&[][..], Vec::as_slice);
                if let Some(next) = list.get(foreign.len()) {
                    Edges::add(&mut edges.rw, id, next.0);
                }
            }
        }
        let Circles { g0, g1c, g_single } = edges.circles(nobody + 1);
        found.extend(g0.map(|_| Anomaly::WriteCycle));
        found.extend(g1c.map(|_| Anomaly::InformationCycle));
        found.extend(g_single.map(|_| Anomaly::SingleAntiDependency));
        found.retain(|anomaly| anomaly.is_forbidden(level));
        found
    }

    /// Every list has what committed transactions appended, once, and nothing else.
    fn check_lists(&self, found: &mut BTreeSet<Anomaly>) {
        let committed = self.transactions.iter().filter(|done| done.committed.is_some());
        let appends = committed.flat_map(|done| done.ops.iter().filter_map(|op| Some((op.key, op.appended?))));
        let expected: BTreeSet<(u64, Stamp)> = appends.collect();
        let there = self.lists.iter().flat_map(|(key, list)| list.iter().map(|stamp| (*key, *stamp)));
        let count = self.lists.values().map(Vec::len).sum::<usize>();
        let there: BTreeSet<_> = there.collect();
        if there.len() != count || there.difference(&expected).next().is_some() {
            found.insert(Anomaly::WrongVersion);
        }
        if expected.difference(&there).next().is_some() {
            found.insert(Anomaly::LostUpdate);
        }
    }

    /// A list that was read is one that committed transactions left, neither older nor newer than it may be.
    fn check_read(&self, op: &Op, seen: &[Stamp], level: Isolation, reader: &Done, found: &mut BTreeSet<Anomaly>) {
        let list = self.lists.get(&op.key).map_or(&[][..], Vec::as_slice);
        if !list.starts_with(seen) {
            let is_aborted = |stamp: &Stamp| self.transactions[stamp.0].committed.is_none();
            found.insert(if seen.iter().any(is_aborted) { Anomaly::AbortedRead } else { Anomaly::WrongRead });
            return;
        }
        if let (Some(last), Some(next)) = (seen.last(), list.get(seen.len()))
            && last.0 == next.0
        {
            found.insert(Anomaly::IntermediateRead);
        }
        // Reads for update see the newest; of the others, those of a snapshot what was there when it was taken.
        let of_snapshot = level == Isolation::Snapshot;
        let (oldest, newest) = if of_snapshot { (reader.begun.0, reader.begun.1) } else { (op.since, usize::MAX) };
        let committed = |stamp: &Stamp| self.transactions[stamp.0].committed;
        let is_missing = |stamp: &Stamp| committed(stamp).is_some_and(|(_, after)| after < oldest);
        let is_early = |stamp: &Stamp| committed(stamp).is_some_and(|(before, _)| before > newest);
        if list[seen.len()..].iter().any(is_missing) || seen.iter().any(is_early) {
            found.insert(if of_snapshot { Anomaly::NotOfTheSnapshot } else { Anomaly::StaleRead });
        }
    }
}
