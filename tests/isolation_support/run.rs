//! Runs sessions beside one another on one thread: who takes the next step is drawn.

use super::checker::{History, Key, Op, Stamp, Transaction};
use super::engines::Engine;
use siltstone_base::engine::{Isolation, KvCursor};
use siltstone_base::{ErrorKind, Result};
use std::collections::BTreeMap;

/// Keys of one history.
const KEYS: u64 = 4;
/// Sessions, transactions of each, and most steps of a transaction.
const SESSIONS: usize = 4;
const TRANSACTIONS: usize = 3;
const STEPS: u64 = 6;
/// What makes values longer.
const PADDING: &str = "~";
/// How often a step is tried that has to wait.
const TRIES: usize = 3;

/// A small generator; the seed alone decides.
pub struct Draw(pub u64);

impl Draw {
    pub fn next(&mut self) -> u64 {
        // splitmix64
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Read(Key),
    Lock(Key),
    Scan,
    Write(Key),
    Delete(Key),
}

#[derive(Default)]
struct Session {
    open: Option<Open>,
    left: usize,
}

struct Open {
    transaction: Box<dyn siltstone_base::engine::Transaction>,
    index: usize,
    /// The next step is the last.
    plan: Vec<Step>,
    tries: usize,
    aborts: bool,
    /// The newest versions when it began.
    then: BTreeMap<Key, Stamp>,
}

struct Run<'a> {
    engine: &'a Engine,
    prefix: String,
    level: Isolation,
    history: History,
    moment: usize,
    /// The transaction that committed in the last step.
    committed: Option<usize>,
}

/// A history under keys that no other one has.
pub fn run(engine: &Engine, number: u64, level: Isolation, seed: u64) -> Result<History> {
    let mut draw = Draw(seed);
    let mut run = Run {
        engine,
        prefix: format!("h{number:08}/"),
        level,
        history: History::default(),
        moment: 0,
        committed: None,
    };
    run.history.versions = (0..KEYS as Key).map(|key| (key, vec![None])).collect();
    let mut sessions: Vec<Session> = (0..SESSIONS).map(|_| Session { open: None, left: TRANSACTIONS }).collect();
    while let Some(last) = sessions.iter().rposition(|session| session.left > 0 || session.open.is_some()) {
        let session = &mut sessions[draw.below(last as u64 + 1) as usize];
        if session.left == 0 && session.open.is_none() {
            continue;
        }
        run.step(session, &mut draw)?;
        run.look()?;
        if draw.below(25) == 0 {
            (engine.pause)(draw.next());
        }
    }
    Ok(run.history)
}

impl Run<'_> {
    fn key(&self, key: Key) -> Vec<u8> {
        format!("{}{key}", self.prefix).into_bytes()
    }

    fn step(&mut self, session: &mut Session, draw: &mut Draw) -> Result<()> {
        self.moment += 1;
        self.committed = None;
        let Some(open) = &mut session.open else {
            session.left -= 1;
            session.open = Some(self.begin(draw)?);
            return Ok(());
        };
        let Some(step) = open.plan.last().copied() else {
            if let Some(open) = session.open.take() {
                self.end(open)?;
            }
            return Ok(());
        };
        let outcome = self.try_step(open, step);
        match outcome.map_err(|error| (error.kind(), error)) {
            Ok(()) => {
                open.plan.pop();
            }
            Err((ErrorKind::TimedOut, _)) if open.tries < TRIES => open.tries += 1,
            Err((ErrorKind::TimedOut | ErrorKind::Busy | ErrorKind::Deadlock, _)) => {
                if let Some(open) = session.open.take() {
                    self.history.transactions[open.index].ended = self.moment;
                    open.transaction.rollback()?;
                }
            }
            Err((_, error)) => return Err(error),
        }
        Ok(())
    }

    fn begin(&mut self, draw: &mut Draw) -> Result<Open> {
        let plan = (0..=draw.below(STEPS)).map(|_| {
            let key = draw.below(KEYS) as Key;
            match draw.below(10) {
                0..4 => Step::Read(key),
                4 => Step::Lock(key),
                5 => Step::Scan,
                6 => Step::Delete(key),
                _ => Step::Write(key),
            }
        });
        let plan = plan.collect();
        let transaction = (self.engine.begin)(self.level)?;
        let index = self.history.transactions.len();
        self.history.transactions.push(Transaction { begun: self.moment, ..Transaction::default() });
        let then = (0..KEYS as Key).map(|key| (key, self.newest(key))).collect();
        Ok(Open { transaction, index, plan, tries: 0, aborts: draw.below(8) == 0, then })
    }

    fn try_step(&mut self, open: &mut Open, step: Step) -> Result<()> {
        let mut value = Vec::new();
        let mut ops = Vec::new();
        match step {
            Step::Read(key) => {
                let found = open.transaction.get(&self.key(key), &mut value)?;
                ops.push(self.read(open, key, stamp(found.then_some(&value)), false));
            }
            Step::Lock(key) => {
                let found = open.transaction.get_for_update(&self.key(key), &mut value)?;
                ops.push(self.read(open, key, stamp(found.then_some(&value)), true));
            }
            Step::Write(key) => {
                let (number, padding) = (self.history.transactions[open.index].ops.len(), self.engine.padding);
                let value = format!("{}.{number}{}", open.index, PADDING.repeat(padding));
                open.transaction.put(&self.key(key), value.as_bytes())?;
                ops.push(Op::Write { key, deletes: false });
            }
            Step::Delete(key) => {
                let found = open.transaction.get(&self.key(key), &mut value)?;
                open.transaction.delete(&self.key(key))?;
                // Where nothing is, there is nothing to change: it is a row that nobody else may change, like one that is read for update.
                ops.push(match found {
                    true => Op::Write { key, deletes: true },
                    false => self.read(open, key, None, true),
                });
            }
            Step::Scan => {
                let seen = scan(&mut *open.transaction.cursor()?, self.prefix.as_bytes())?;
                let seen_of = |key: Key| seen.get(&key).copied().flatten();
                ops.extend((0..KEYS as Key).map(|key| self.read(open, key, seen_of(key), false)));
            }
        }
        self.history.transactions[open.index].ops.extend(ops);
        Ok(())
    }

    /// The version of a key that somebody outside saw last.
    fn newest(&self, key: Key) -> Stamp {
        self.history.versions.get(&key).and_then(|versions| versions.last().copied()).flatten()
    }

    /// The last write of a key by a transaction: its number, and whether it deletes.
    fn last_write(&self, index: usize, key: Key) -> Option<(usize, bool)> {
        let ops = self.history.transactions[index].ops.iter().enumerate().rev();
        ops.filter_map(|(number, op)| match op {
            Op::Write { key: written, deletes } if *written == key => Some((number, *deletes)),
            _ => None,
        })
        .next()
    }

    fn is_delete(&self, (writer, number): (usize, usize)) -> bool {
        let op = self.history.transactions.get(writer).and_then(|writer| writer.ops.get(number));
        matches!(op, Some(Op::Write { deletes: true, .. }))
    }

    /// What was seen. That nothing was there has no stamp: it is that of the delete that the level makes visible, if there is one.
    fn read(&self, open: &Open, key: Key, found: Stamp, for_update: bool) -> Op {
        let newest = self.newest(key);
        let is_delete = |stamp: &(usize, usize)| self.is_delete(*stamp);
        let visible = if self.level == Isolation::Snapshot { open.then.get(&key).copied().flatten() } else { newest };
        let seen = found.or_else(|| match self.last_write(open.index, key) {
            Some((number, deletes)) => deletes.then_some((open.index, number)),
            None => visible.filter(is_delete),
        });
        Op::Read { key, seen, for_update, at: self.moment, newest }
    }

    fn end(&mut self, open: Open) -> Result<()> {
        self.history.transactions[open.index].ended = self.moment;
        if open.aborts {
            return open.transaction.rollback();
        }
        match open.transaction.commit() {
            Ok(()) => {
                self.history.transactions[open.index].is_committed = true;
                self.committed = Some(open.index);
            }
            Err(error) if error.kind() == ErrorKind::Busy => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Looks at all keys from outside.
    fn look(&mut self) -> Result<()> {
        for key in 0..KEYS as Key {
            let found = stamp((self.engine.read)(&self.key(key))?.as_ref());
            let deleted = self.committed.and_then(|index| Some((index, self.last_write(index, key)?)));
            let now = match (found, deleted) {
                (None, Some((index, (number, true)))) => Some((index, number)),
                // As it was before, or a value that vanished.
                (None, _) => self.newest(key).filter(|stamp| self.is_delete(*stamp)),
                (found, _) => found,
            };
            let versions = self.history.versions.entry(key).or_default();
            if versions.last() != Some(&now) {
                versions.push(now);
            }
        }
        Ok(())
    }
}

/// Which write made a value; one that nobody can have made for what is none.
fn stamp(value: Option<&Vec<u8>>) -> Stamp {
    let text = std::str::from_utf8(value?).ok().map(|text| text.trim_end_matches(PADDING));
    let parts = text.and_then(|text| text.split_once('.'));
    let numbers = parts.and_then(|(index, number)| Some((index.parse().ok()?, number.parse().ok()?)));
    Some(numbers.unwrap_or((usize::MAX, usize::MAX)))
}

/// The keys of one history that a cursor shows.
fn scan(cursor: &mut dyn KvCursor, prefix: &[u8]) -> Result<BTreeMap<Key, Stamp>> {
    let mut seen = BTreeMap::new();
    let mut found = cursor.seek(prefix)?;
    while found && let Some(rest) = cursor.key().strip_prefix(prefix) {
        seen.insert(rest.first().map_or(0, |digit| digit - b'0'), stamp(Some(&cursor.value().to_vec())));
        found = cursor.next()?;
    }
    Ok(seen)
}
