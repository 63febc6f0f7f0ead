//! A script with operations that fail: what the engine says, what it shows, what it keeps, and whether it goes on.

use super::{DIR, History, Life, Op, Runner, State, new_disk, read_all, recover};
use siltstone_base::checksum::xxh3_64;
use siltstone_base::env::sim::{CrashModel, FaultKind, FaultPlan, OpInfo, SimDisk};
use siltstone_base::env::{FileKind, FileOptions, IoContext, IoPriority};
use siltstone_base::executor::Executor;
use siltstone_btree::{DbOptions, Error, ErrorKind};
use std::path::Path;
use std::time::Duration;

type Outcome<T = ()> = Result<T, String>;

/// How a run with a fault ended.
#[derive(Debug, Clone, Copy)]
pub struct Verdict {
    /// The first operation that failed.
    pub hit: OpInfo,
    /// Calls that returned an error.
    pub failed_calls: usize,
    /// Whether the engine took no more writes, and had to be opened again.
    pub is_read_only: bool,
    /// Whether opening failed.
    pub has_open_failed: bool,
}

struct FaultRun {
    runner: Runner,
    disk: SimDisk,
    options: DbOptions,
    /// States that calls which failed would have led to. Whether they did is known when the database was opened again.
    open_ends: Vec<State>,
    /// Whether a failed sync takes back what was acknowledged without one.
    reverts: bool,
    /// Whether the disk is full at times.
    is_full: bool,
    failed_calls: usize,
    has_open_failed: bool,
}

/// Runs a script with a fault. `None` if the script ended before the fault was due.
pub fn run_with_fault(ops: &[Op], options: &DbOptions, plan: FaultPlan) -> Outcome<Option<Verdict>> {
    run_with_fault_on(&new_disk(), History::new(), ops, options, plan)
}

/// The same on a disk whose database holds the last state of `history`.
pub fn run_with_fault_on(
    disk: &SimDisk,
    history: History,
    ops: &[Op],
    options: &DbOptions,
    plan: FaultPlan,
) -> Outcome<Option<Verdict>> {
    disk.start_recording();
    disk.set_fault(plan);
    let mut run = FaultRun::new(disk, options);
    run.runner.history = history;
    run.reverts = plan.kind == FaultKind::SyncFailsReverted;
    let outcome = run.script(ops);
    let hit = disk.fault_hits().first().copied();
    disk.power_off();
    run.runner.db = None;
    run.runner.life.executor.abandon_all();
    let is_read_only = outcome.map_err(|message| format!("{plan:?} hit {hit:?}: {message}"))?;
    let FaultRun { failed_calls, has_open_failed, .. } = run;
    Ok(hit.map(|hit| Verdict { hit, failed_calls, is_read_only, has_open_failed }))
}

/// Runs a script on a disk that has room for so many bytes, and for more at its end. Returns how many calls failed; `None` if none did.
pub fn run_on_full_disk(ops: &[Op], options: &DbOptions, bytes: u64) -> Outcome<Option<usize>> {
    let disk = new_disk();
    disk.start_recording();
    disk.set_capacity(Some(bytes));
    let mut run = FaultRun::new(&disk, options);
    run.is_full = true;
    let outcome = run.script(ops);
    disk.power_off();
    run.runner.db = None;
    run.runner.life.executor.abandon_all();
    outcome.map_err(|message| format!("room for {bytes} bytes: {message}"))?;
    Ok((run.failed_calls > 0).then_some(run.failed_calls))
}

impl FaultRun {
    fn new(disk: &SimDisk, options: &DbOptions) -> Self {
        let life = Life::new(disk, options);
        Self {
            runner: Runner { life, db: None, history: History::new(), failed: None },
            disk: disk.clone(),
            options: options.clone(),
            open_ends: Vec::new(),
            reverts: false,
            is_full: false,
            failed_calls: 0,
            has_open_failed: false,
        }
    }

    /// Ends the fault.
    fn lift(&self) {
        self.disk.clear_fault();
        self.disk.set_capacity(None);
    }

    /// Returns whether the engine became read-only.
    fn script(&mut self, ops: &[Op]) -> Outcome<bool> {
        self.open()?;
        for op in ops {
            if matches!(op, Op::Reopen) {
                self.reopen()?;
                continue;
            }
            match self.runner.step(op) {
                Ok(()) => {}
                Err(error) => {
                    self.failed(&error)?;
                    self.after_failure()?;
                    if error.kind() == ErrorKind::ReadOnly {
                        break;
                    }
                }
            }
        }
        self.lift();
        let mut last = read_all(self.db()?);
        if let Err(error) = &last
            && error.kind() == ErrorKind::Io
        {
            // A write that did not last is noticed by who syncs first: a reader who needs room.
            self.failed(error)?;
            last = read_all(self.db()?);
        }
        match last {
            Ok(seen) if seen == *self.runner.history.last() => {}
            Ok(_) => return Err("it shows something else than what was acknowledged".to_owned()),
            // A small pool full of pages that can't be written any more has no room for others.
            Err(error) if error.kind() == ErrorKind::ReadOnly => self.failed(&error)?,
            Err(error) => return Err(format!("reading failed: {error}")),
        }
        self.after_power_loss()?;
        // What background work could not do shows now at the latest.
        self.runner.life.executor.sleep(Duration::from_millis(300));
        let whole = {
            let db = self.db()?;
            db.sync().and_then(|()| db.flush())
        };
        match &whole {
            Ok(()) => {
                let made = (self.runner.history.commits.len(), self.disk.recorded());
                self.runner.history.barriers.push(made);
                self.open_ends.clear();
            }
            Err(error) => self.failed(error)?,
        }
        self.after_power_loss()?;
        if whole.is_err() {
            self.reopen()?;
        }
        self.db()?.check().map_err(|error| format!("the trees are damaged: {error}"))?;
        self.db()?.put("after", "all").map_err(|error| format!("it takes no writes afterwards: {error}"))?;
        let mut expected = self.runner.history.last().clone();
        let rows = expected.get_mut("default").ok_or("no default tree")?;
        rows.insert(b"after".to_vec(), b"all".to_vec());
        self.db()?.close().map_err(|error| format!("closing afterwards failed: {error}"))?;
        if !is_marked_clean(&self.disk)? {
            return Err("it was closed, and is not marked so".to_owned());
        }
        let found = recover(&self.disk.after_power_loss(), &self.options)?;
        if found != expected {
            return Err("what was closed is not what was opened again".to_owned());
        }
        Ok(whole.is_err())
    }

    fn db(&self) -> Outcome<&siltstone_btree::Db> {
        self.runner.db.as_ref().ok_or_else(|| "the database is not open".to_owned())
    }

    /// Takes note of an error, and demands that it says what happened where.
    fn failed(&mut self, error: &Error) -> Outcome {
        self.failed_calls += 1;
        self.open_ends.extend(self.runner.failed.take());
        if self.disk.fault_hits().is_empty() && !(self.is_full && is_of_space(error)) {
            return Err(format!("a call failed before any operation did: {error}"));
        }
        let is_typed = match error.kind() {
            ErrorKind::Io | ErrorKind::NoSpace => error.file().is_some(),
            ErrorKind::ReadOnly => std::error::Error::source(error).is_some(),
            _ => false,
        };
        if is_typed { Ok(()) } else { Err(format!("an error that does not say what failed where: {error:?}")) }
    }

    /// A call that failed did nothing; creating and dropping a tree may have done all, and could not say so.
    fn after_failure(&mut self) -> Outcome {
        let Ok(seen) = read_all(self.db()?) else { return Ok(()) };
        if seen == *self.runner.history.last() {
            return Ok(());
        }
        let is_open = self.open_ends.last() == Some(&seen);
        if !is_open || seen.keys().eq(self.runner.history.last().keys()) {
            return Err("a call that failed had an effect".to_owned());
        }
        self.adopt(seen);
        Ok(())
    }

    fn adopt(&mut self, state: State) {
        let now = self.disk.recorded();
        self.runner.history.commits.push(super::Commit { issued: now, acked: Some(now) });
        self.runner.history.states.push(state);
    }

    fn open(&mut self) -> Outcome {
        let outcome = self.runner.life.open().or_else(|error| {
            self.has_open_failed = true;
            self.failed(&error)?;
            self.lift();
            self.runner.life.open().map_err(|error| format!("opening without the fault failed: {error}"))
        });
        let mut db = outcome?;
        let mut seen = read_all(&db);
        if seen.is_err() {
            self.lift();
            seen = read_all(&db);
        }
        if let Err(error) = &seen
            && error.kind() == ErrorKind::ReadOnly
        {
            // Reading brings in what waits for leaves, and writes pages to make room: a sync of those failed.
            self.failed(error)?;
            drop(db);
            self.runner.life.executor.abandon_all();
            let again = self.runner.life.open();
            db = again.map_err(|error| format!("opening without the fault failed: {error}"))?;
            seen = read_all(&db);
        }
        let seen = seen.map_err(|error| format!("reading failed: {error}"))?;
        self.runner.db = Some(db);
        let cut = self.disk.recorded();
        let model = if self.reverts { CrashModel::SyncedOnly } else { CrashModel::ProcessDeath };
        self.resolve(&seen, cut, model)?;
        let history = &mut self.runner.history;
        if seen != *history.last() {
            self.adopt(seen);
        }
        self.open_ends.clear();
        let made = (self.runner.history.commits.len(), self.disk.recorded());
        self.runner.history.barriers.push(made);
        // What an open database showed stays.
        self.after_power_loss().map_err(|message| format!("after opening: {message}"))
    }

    /// Demands that a state is one that may be there.
    fn resolve(&self, seen: &State, cut: usize, model: CrashModel) -> Outcome {
        let history = &self.runner.history;
        let promised = history.promised(cut, model, self.options.durability);
        let is_known = history.states[promised..].contains(seen) || self.open_ends.contains(seen);
        if is_known {
            return Ok(());
        }
        let shorter = history.states.iter().rposition(|state| state == seen);
        Err(format!("{shorter:?} of {} commits are there; {promised} were promised", history.commits.len()))
    }

    fn reopen(&mut self) -> Outcome {
        let Some(db) = self.runner.db.take() else { return Err("the database is not open".to_owned()) };
        let hits = self.disk.fault_hits().len();
        let closed = db.close();
        drop(db);
        match closed {
            Ok(()) => {
                let made = (self.runner.history.commits.len(), self.disk.recorded());
                self.runner.history.barriers.push(made);
            }
            Err(error) => {
                self.failed(&error)?;
                let now = self.disk.fault_hits();
                let is_log = now.get(hits).is_some_and(|hit| hit.file == FileKind::Redo);
                if !is_log && is_marked_clean(&self.disk)? {
                    return Err("closing failed, and it is marked as clean".to_owned());
                }
            }
        }
        self.runner.life.executor.abandon_all();
        self.open()
    }

    /// Demands that a power loss at this moment would leave every promised commit.
    fn after_power_loss(&self) -> Outcome {
        let cut = self.disk.recorded();
        let found = recover(&self.disk.after_power_loss(), &self.options)
            .map_err(|message| format!("after a power loss: {message}"))?;
        let resolved = self.resolve(&found, cut, CrashModel::SyncedOnly);
        resolved.map_err(|message| format!("after a power loss: {message}"))
    }
}

/// Whether an error, or what caused it, is that the disk is full.
fn is_of_space(error: &Error) -> bool {
    let cause = std::error::Error::source(error).and_then(|cause| cause.downcast_ref::<Error>());
    error.kind() == ErrorKind::NoSpace || cause.is_some_and(is_of_space)
}

/// Whether the newest checkpoint says that the database was closed.
fn is_marked_clean(disk: &SimDisk) -> Outcome<bool> {
    let rest = disk.after_process_death();
    let path = Path::new(DIR).join("redo-0.log");
    let file = rest.env().open_random(&path, &FileOptions::new(FileKind::Redo)).map_err(|error| error.to_string())?;
    let mut newest = (0, false);
    for at in [4 << 10, 8 << 10] {
        let mut block = [0; 512];
        let context = IoContext::new(FileKind::Redo, IoPriority::User);
        file.read_at(at, &mut block, context).map_err(|error| error.to_string())?;
        let word = |index: usize| u64::from_le_bytes(block[8 * index..8 * index + 8].try_into().unwrap_or_default());
        let sequence = word(0) as u32;
        if word(5) == xxh3_64(&block[..40]) && sequence > newest.0 {
            newest = (sequence, word(4) != 0);
        }
    }
    Ok(newest.1)
}
