//! A script with one operation that fails: what the engine says, what it shows, what it keeps, and whether it goes on.

use super::Outcome;
use super::model::{Commit, Contents, Death, History, State, apply};
use super::rig::empty_disk;
use super::run::{Runner, Stopped};
use super::script::{Script, Step};
use super::verify::{Depth, read_all, recover, write_on};
use crate::demand;
use siltstone_base::env::FileKind;
use siltstone_base::env::sim::{FaultKind, FaultPlan, OpClass, OpInfo, SimDisk};
use siltstone_lsm::{Error, ErrorKind};

/// Most failed commits of which every subset is tried; later ones are taken to be lost.
const SUBSETS: usize = 6;

/// Steps of background work within which an engine must come to rest.
const STEPS_TO_REST: u64 = 20_000;

/// How a run with a fault ended.
#[derive(Debug, Clone)]
pub struct Verdict {
    /// The first operation that failed.
    pub hit: OpInfo,
    /// Calls that returned an error.
    pub failed_calls: usize,
    /// Whether the engine became read-only, and had to be opened again.
    pub read_only: bool,
    /// Whether opening failed.
    pub open_failed: bool,
}

/// Runs a script with a fault. `None` if the script ended before the fault was due.
pub fn run_with_fault(script: &Script, plan: FaultPlan) -> Outcome<Option<Verdict>> {
    let disk = empty_disk();
    disk.start_recording();
    disk.set_fault(plan);
    let mut run = FaultRun {
        runner: Runner::new(disk.clone(), &script.profile),
        disk: disk.clone(),
        reverts: plan.kind == FaultKind::SyncFailsReverted,
        is_told_late: plan.kind == FaultKind::WriteBackFails,
        failed_calls: 0,
        read_only: false,
        open_failed: false,
    };
    let outcome = run.script(script);
    let hit = disk.fault_hits().first().copied();
    let FaultRun { runner, failed_calls, read_only, open_failed, .. } = run;
    runner.rig.kill(runner.db);
    let at = |message: String| format!("{}: {plan:?} hit {hit:?}: {message}", script.name);
    outcome.map_err(at)?;
    Ok(hit.map(|hit| Verdict { hit, failed_calls, read_only, open_failed }))
}

struct FaultRun {
    runner: Runner,
    disk: SimDisk,
    /// Whether a failed sync may take back what was acknowledged without a sync.
    reverts: bool,
    /// Whether a fault may be told only at the next sync.
    is_told_late: bool,
    failed_calls: usize,
    read_only: bool,
    open_failed: bool,
}

impl FaultRun {
    fn script(&mut self, script: &Script) -> Outcome {
        self.open()?;
        for step in &script.steps {
            self.step(step)?;
            // A read-only engine has nothing more to show.
            if self.is_read_only() {
                break;
            }
        }
        self.disk.clear_fault();
        let Some(db) = self.runner.db.clone() else { return Err("the engine is not open at the end".into()) };
        self.runner.check(&db).map_err(Stopped::message)?;
        if self.is_told_late {
            // What could not be written back is told now at the latest.
            if let Err(error) = db.sync_wal() {
                self.failed(&error)?;
            }
        }
        self.after_power_loss(script)?;
        if self.is_read_only() {
            self.read_only = true;
            drop(db);
            self.reopen()?;
        }
        let Some(db) = self.runner.db.clone() else { return Err("the engine is not open at the end".into()) };
        let before = self.runner.rig.executor.steps();
        write_on(&db)?;
        self.runner.check_contents(&db, |key| key != b"zz-after").map_err(Stopped::message)?;
        let steps = self.runner.rig.executor.steps() - before;
        demand!(steps <= STEPS_TO_REST, "{steps} steps until the engine was at rest");
        db.check().map_err(|error| format!("the tree is damaged: {error}"))?;
        let closed = self.runner.close().map_err(Stopped::message);
        closed.map_err(|message| format!("after the fault was gone: {message}"))
    }

    fn is_read_only(&self) -> bool {
        self.runner.db.as_ref().is_some_and(|db| db.background_error().is_some())
    }

    fn step(&mut self, step: &Step) -> Outcome {
        match step {
            Step::Reopen => self.reopen(),
            step => match self.runner.step(step) {
                Ok(()) => Ok(()),
                Err(Stopped::Failed(error)) => self.failed(&error),
                Err(Stopped::Wrong(message)) => Err(message),
            },
        }
    }

    /// Takes note of an error, and demands that it says what happened where.
    fn failed(&mut self, error: &Error) -> Outcome {
        self.failed_calls += 1;
        demand!(!self.disk.fault_hits().is_empty(), "a call failed before any operation did: {error}");
        let is_typed = match error.kind() {
            ErrorKind::Io | ErrorKind::NoSpace => error.file().is_some(),
            ErrorKind::ReadOnly => std::error::Error::source(error).is_some(),
            _ => false,
        };
        demand!(is_typed, "an error that does not say what failed where: {error}");
        Ok(())
    }

    fn reopen(&mut self) -> Outcome {
        match self.runner.close() {
            Ok(()) => {}
            Err(Stopped::Failed(error)) => self.failed(&error)?,
            Err(Stopped::Wrong(message)) => return Err(message),
        }
        self.open()
    }

    /// Opens the engine, at the second try without the fault, and finds out which commits are there.
    fn open(&mut self) -> Outcome {
        if let Err(error) = self.runner.open() {
            self.open_failed = true;
            self.failed(&error)?;
            self.disk.clear_fault();
            self.runner.open().map_err(|error| format!("opening without the fault failed: {error}"))?;
        }
        if self.runner.history.commits.is_empty() {
            return Ok(());
        }
        let Some(db) = self.runner.db.clone() else { return Ok(()) };
        let state = match read_all(&db) {
            Ok(state) => state,
            Err(error) => {
                self.failed(&error)?;
                self.disk.clear_fault();
                read_all(&db).map_err(|error| format!("reading without the fault failed: {error}"))?
            }
        };
        let death = if self.reverts { Death::PowerLoss } else { Death::Kill };
        self.resolve(&state, death)
    }

    /// Decides which commits the state holds, and forgets the others.
    fn resolve(&mut self, state: &State, death: Death) -> Outcome {
        let now = self.disk.recorded();
        let history = &mut self.runner.history;
        let kept = holds(history, state, now, death)?;
        let mut commits = Vec::new();
        for (commit, kept) in std::mem::take(&mut history.commits).into_iter().zip(kept) {
            if kept {
                commits.push(Commit { acked: Some(commit.acked.unwrap_or(now)), ..commit });
            }
        }
        history.commits = commits;
        history.barriers = vec![super::model::Barrier { commits: history.commits.len(), acked: now }];
        Ok(())
    }

    /// Demands that a power loss at this moment would leave every promised commit.
    fn after_power_loss(&self, script: &Script) -> Outcome {
        let rest = self.disk.after_power_loss();
        recover(&rest, &script.profile, Depth { reopen: true, live: false })
            .map_err(|message| format!("after a power loss: {message}"))?;
        let rig = super::rig::Rig::new(rest, &script.profile);
        let db = rig.open().map_err(|error| format!("opening after a power loss failed: {error}"))?;
        let state = read_all(&db).map_err(|error| format!("reading after a power loss failed: {error}"))?;
        rig.kill(Some(db));
        let found = holds(&self.runner.history, &state, self.disk.recorded(), Death::PowerLoss);
        found.map(drop).map_err(|message| format!("after a power loss: {message}"))
    }
}

/// Which commits a state holds: all acknowledged ones up to some point no earlier than what was promised, and any of those that failed.
fn holds(history: &History, state: &State, now: usize, death: Death) -> Outcome<Vec<bool>> {
    let promised = history.promised(now, death);
    let failed: Vec<usize> =
        (0..history.commits.len()).filter(|index| history.commits[*index].acked.is_none()).collect();
    let tried = failed.len().min(SUBSETS);
    for commits in (promised..=history.commits.len()).rev() {
        for subset in 0..1_usize << tried {
            let is_kept = |index: usize| match failed.iter().position(|failed| *failed == index) {
                Some(position) => position < tried && subset >> position & 1 == 1,
                None => index < commits,
            };
            let mut expected: State = state.keys().map(|id| (*id, Contents::new())).collect();
            for (_, commit) in history.commits.iter().enumerate().filter(|(index, _)| is_kept(*index)) {
                apply(&mut expected, &commit.changes);
            }
            if expected == *state {
                return Ok((0..history.commits.len()).map(is_kept).collect());
            }
        }
    }
    let seen = |commit: &Commit| {
        let is_there = |(id, key, value): &super::model::Change| {
            value.is_some() && state.get(id).and_then(|contents| contents.get(key)) == value.as_ref()
        };
        commit.changes.iter().any(is_there)
    };
    let signs = history.commits.iter().map(|commit| match (commit.acked, seen(commit)) {
        (Some(_), true) => '+',
        (Some(_), false) => '.',
        (None, true) => 'F',
        (None, false) => 'f',
    });
    let signs: String = signs.collect();
    Err(format!(
        "the contents are those of no prefix from {promised} to {} commits; seen {signs}",
        history.commits.len()
    ))
}

/// What was left after a device said that it had synced, and had not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AfterLie {
    /// All that was promised.
    Exact,
    /// A shorter prefix of the commits.
    Shorter,
    /// A prefix in each family, but not the same in all: nothing tells an empty log from one that lost all of its bytes.
    Apart,
    /// An error that says what is missing or damaged.
    Detected,
}

/// Runs a script with one sync that does nothing, and looks at what a power loss leaves after each of the next steps. `None` if the script
/// ended before it was due.
pub fn run_with_lie(script: &Script, after: u64) -> Outcome<Option<Vec<AfterLie>>> {
    let disk = empty_disk();
    disk.start_recording();
    disk.set_fault(FaultPlan::once(FaultKind::SyncLies, after));
    let mut runner = Runner::new(disk.clone(), &script.profile);
    let mut outcomes = Vec::new();
    let mut run = || -> Result<(), Stopped> {
        runner.open()?;
        for step in &script.steps {
            runner.step(step)?;
            if !disk.fault_hits().is_empty() && outcomes.len() < STEPS_AFTER_LIE {
                outcomes.push(after_lie(&runner, script)?);
            }
        }
        Ok(())
    };
    let outcome = run();
    let hit = disk.fault_hits().first().copied();
    runner.rig.kill(runner.db);
    match outcome {
        Ok(()) => Ok(hit.map(|_| outcomes)),
        Err(stopped) => Err(format!("{}: lie {after}, {hit:?}: {}", script.name, stopped.message())),
    }
}

/// Steps after which a lie is looked at.
const STEPS_AFTER_LIE: usize = 12;

fn after_lie(runner: &Runner, script: &Script) -> Outcome<AfterLie> {
    let rig = super::rig::Rig::new(runner.rig.disk.after_power_loss(), &script.profile);
    let outcome = rig.open().and_then(|db| read_all(&db).map(|state| (db, state)));
    let (db, state) = match outcome {
        Ok((db, state)) => (Some(db), state),
        Err(error) if matches!(error.kind(), ErrorKind::Corruption | ErrorKind::MissingFile) => {
            return Ok(AfterLie::Detected);
        }
        Err(error) => return Err(format!("an error that does not say what is wrong: {error}")),
    };
    rig.kill(db);
    let history = &runner.history;
    let prefix = (0..=history.commits.len()).rev().find(|commits| {
        let expected = history.state_after(*commits);
        state.iter().all(|(id, contents)| expected.get(id) == Some(contents))
    });
    let Some(commits) = prefix else {
        let is_prefix = |(id, contents): (&u32, &Contents)| {
            (0..=history.commits.len()).any(|commits| history.state_after(commits).get(id) == Some(contents))
        };
        demand!(state.iter().all(is_prefix), "what is left of a family is no prefix of its commits");
        return Ok(AfterLie::Apart);
    };
    let promised = history.promised(runner.rig.disk.recorded(), Death::PowerLoss);
    let gone = |(id, life): (&u32, &super::model::FamilyLife)| life.drop.is_none() && !state.contains_key(id);
    let is_exact = commits >= promised && !history.families.iter().any(gone);
    Ok(if is_exact { AfterLie::Exact } else { AfterLie::Shorter })
}

/// Whether an engine may become read-only because this operation failed in this way, once. Only where what was
/// acknowledged can't be told any more from what was not: where a sync of the WAL, or of its name, failed.
pub fn may_become_read_only(hit: &OpInfo, kind: FaultKind) -> bool {
    match (hit.class, hit.file) {
        (OpClass::Sync | OpClass::Finish, FileKind::Wal) | (OpClass::SyncDir, _) => true,
        (OpClass::Write, FileKind::Wal) => kind == FaultKind::WriteBackFails,
        _ => false,
    }
}
