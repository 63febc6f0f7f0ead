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
}

struct Run<'a> {
    engine: &'a Engine,
    prefix: String,
    level: Isolation,
    history: History,
    moment: usize,
}

/// A history under keys that no other one has.
pub fn run(engine: &Engine, number: u64, level: Isolation, seed: u64) -> Result<History> {
    let mut draw = Draw(seed);
    let mut run = Run { engine, prefix: format!("h{number:08}/"), level, history: History::default(), moment: 0 };
    run.history.versions = (0..KEYS as Key).map(|key| (key, vec![None])).collect();
    let mut sessions: Vec<Session> = (0..SESSIONS).map(|_| Session { open: None, left: TRANSACTIONS }).collect();
    while let Some(last) = sessions.iter().rposition(|session| session.left > 0 || session.open.is_some()) {
        let session = &mut sessions[draw.below(last as u64 + 1) as usize];
        if session.left == 0 && session.open.is_none() {
            continue;
        }
        run.step(session, &mut draw)?;
        run.look()?;
        if draw.below(60) == 0 {
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
                _ => Step::Write(key),
            }
        });
        let plan = plan.collect();
        let transaction = (self.engine.begin)(self.level)?;
        let index = self.history.transactions.len();
        self.history.transactions.push(Transaction { begun: self.moment, ..Transaction::default() });
        Ok(Open { transaction, index, plan, tries: 0, aborts: draw.below(8) == 0 })
    }

    fn try_step(&mut self, open: &mut Open, step: Step) -> Result<()> {
        let mut value = Vec::new();
        let ops = &mut self.history.transactions[open.index].ops;
        let key_of = |key: Key| format!("{}{key}", self.prefix).into_bytes();
        match step {
            Step::Read(key) => {
                let found = open.transaction.get(&key_of(key), &mut value)?;
                ops.push(Op::Read { key, seen: stamp(found.then_some(&value)), for_update: false });
            }
            Step::Lock(key) => {
                let found = open.transaction.get_for_update(&key_of(key), &mut value)?;
                ops.push(Op::Read { key, seen: stamp(found.then_some(&value)), for_update: true });
            }
            Step::Write(key) => {
                let value = format!("{}.{}", open.index, ops.len());
                open.transaction.put(&key_of(key), value.as_bytes())?;
                ops.push(Op::Write { key });
            }
            Step::Scan => {
                let seen = scan(&mut *open.transaction.cursor()?, self.prefix.as_bytes())?;
                let read = |key: Key| Op::Read { key, seen: seen.get(&key).copied().flatten(), for_update: false };
                ops.extend((0..KEYS as Key).map(read));
            }
        }
        Ok(())
    }

    fn end(&mut self, open: Open) -> Result<()> {
        self.history.transactions[open.index].ended = self.moment;
        if open.aborts {
            return open.transaction.rollback();
        }
        match open.transaction.commit() {
            Ok(()) => self.history.transactions[open.index].is_committed = true,
            Err(error) if error.kind() == ErrorKind::Busy => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Looks at all keys from outside.
    fn look(&mut self) -> Result<()> {
        for key in 0..KEYS as Key {
            let now = stamp((self.engine.read)(&self.key(key))?.as_ref());
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
    let text = std::str::from_utf8(value?).ok();
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
