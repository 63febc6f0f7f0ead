//! Every crash state of a script, recovered and verified; and the crash states of those recoveries.

use super::Outcome;
use super::model::{Death, Prefixes};
use super::rig::Rig;
use super::run::{Finished, run};
use super::script::Script;
use super::verify::{Depth, Found, check_promises, recover};
use siltstone_base::env::FileKind;
use siltstone_base::env::sim::{CrashConfig, CrashModel, CrashState, CrashStates, OpClass, OpInfo, Recording, SimDisk};
use std::collections::{BTreeMap, HashMap, HashSet};

/// What the engine was doing when the machine stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Going over to a new WAL.
    WalSwitch,
    /// Making a flushed table part of the tree.
    FlushInstall,
    /// Making the outputs of a compaction part of the tree.
    CompactionInstall,
    /// Going over to a new MANIFEST.
    ManifestRoll,
    /// Recovering from a crash.
    Recovery,
    /// Anything else.
    Other,
}

/// How far the enumeration goes.
#[derive(Debug, Clone)]
pub struct Effort {
    /// States of the first crash.
    pub first: CrashConfig,
    /// Every so many new states of the first crash are recovered with recording, and crash again.
    pub second_every: usize,
    /// States of the second crash.
    pub second: CrashConfig,
}

impl Default for Effort {
    fn default() -> Self {
        let first =
            CrashConfig { states_per_cut: 12, random_subsets: 8, tail_cuts: 6, tears: 6, ..CrashConfig::default() };
        let second = CrashConfig { states_per_cut: 3, random_subsets: 3, tail_cuts: 2, tears: 2, ..first.clone() };
        Self { first, second_every: 40, second }
    }
}

/// What was looked at.
#[derive(Debug, Default)]
pub struct Tally {
    /// Distinct images by what the engine was doing.
    pub classes: BTreeMap<Class, HashSet<u64>>,
    /// Distinct images by crash model.
    pub models: BTreeMap<CrashModel, usize>,
    /// All distinct images.
    pub images: HashSet<u64>,
    /// Outcomes that were compared with promises, repeated images among them.
    pub checked: usize,
}

impl Tally {
    fn count(&mut self, state: &CrashState, classes: &[Class]) {
        self.checked += 1;
        if state.is_new() && self.images.insert(state.hash) {
            *self.models.entry(state.model).or_default() += 1;
        }
        for class in classes {
            self.classes.entry(*class).or_default().insert(state.hash);
        }
    }

    /// Adds what another thread looked at.
    pub fn merge(&mut self, other: Self) {
        for (class, images) in other.classes {
            self.classes.entry(class).or_default().extend(images);
        }
        for (model, count) in other.models {
            *self.models.entry(model).or_default() += count;
        }
        self.images.extend(other.images);
        self.checked += other.checked;
    }
}

/// What the engine was doing at every cut of a recording.
pub fn classify(recording: &Recording) -> Vec<Vec<Class>> {
    // How many more changes belong to what began.
    let mut left: BTreeMap<Class, usize> = BTreeMap::new();
    let mut classes = vec![vec![Class::Other]];
    for op in recording.ops() {
        if let Some((class, changes)) = begins(&op) {
            left.insert(class, changes);
        }
        let now: Vec<Class> = left.iter().filter(|(_, left)| **left > 0).map(|(class, _)| *class).collect();
        left.values_mut().for_each(|left| *left = left.saturating_sub(1));
        classes.push(if now.is_empty() { vec![Class::Other] } else { now });
    }
    classes
}

/// Which window a change opens, and how many changes it lasts.
fn begins(op: &OpInfo) -> Option<(Class, usize)> {
    match (op.class, op.file, op.phase) {
        (OpClass::Create, FileKind::Wal, _) => Some((Class::WalSwitch, 8)),
        (OpClass::Create, FileKind::Manifest, _) => Some((Class::ManifestRoll, 10)),
        (OpClass::Sync, FileKind::Table, "flush") => Some((Class::FlushInstall, 8)),
        (OpClass::Sync, FileKind::Table, "compaction") | (OpClass::Write, FileKind::Manifest, "compaction") => {
            Some((Class::CompactionInstall, 8))
        }
        _ => None,
    }
}

/// Runs a script and verifies its crash states.
pub fn explore(script: &Script, effort: &Effort) -> Outcome<Tally> {
    explore_run(script, run(script)?, effort)
}

/// Verifies the crash states of a script that was run.
pub fn explore_run(script: &Script, finished: Finished, effort: &Effort) -> Outcome<Tally> {
    let mut exploration = Exploration {
        script,
        prefixes: finished.history.prefixes(),
        finished: &finished,
        effort,
        tally: Tally::default(),
        recovered: HashMap::new(),
    };
    exploration.first_crashes()?;
    Ok(exploration.tally)
}

struct Exploration<'a> {
    script: &'a Script,
    finished: &'a Finished,
    prefixes: Prefixes,
    effort: &'a Effort,
    tally: Tally,
    /// What each image recovered to.
    recovered: HashMap<u64, Found>,
}

impl Exploration<'_> {
    fn first_crashes(&mut self) -> Outcome {
        let classes = classify(&self.finished.recording);
        let mut new = 0_usize;
        for state in CrashStates::new(&self.finished.recording, self.effort.first.clone()) {
            self.tally.count(&state, &classes[state.cut]);
            let at = |message: String| {
                let (name, model) = (&self.script.name, state.model.code());
                format!("{name}: crash after change {} ({:?}), model {model}: {message}", state.cut, state.op)
            };
            new += usize::from(state.is_new());
            let depth = Depth { reopen: new.is_multiple_of(2), live: new % 8 == 1 };
            let death = death(&state);
            let commits = self.verify(&state, state.cut, death, depth).map_err(at)?;
            if state.is_new() && new.is_multiple_of(self.effort.second_every) {
                let disk = state.disk().unwrap_or_default();
                self.second_crashes(disk, state.cut, commits).map_err(at)?;
            }
        }
        Ok(())
    }

    /// Recovers a state, unless its image was met before, and checks what must be there at `cut`.
    fn verify(&mut self, state: &CrashState, cut: usize, death: Death, depth: Depth) -> Outcome<usize> {
        if let Some(disk) = state.disk() {
            let found = recover(&disk, &self.script.profile, depth)?;
            self.recovered.insert(state.hash, found);
        }
        let found = self.recovered.get(&state.hash).ok_or("a repeated image that was never met")?;
        check_promises(found, &self.finished.history, &self.prefixes, cut, death)
    }

    /// Recovers with recording, then verifies the crash states of the recovery. Whatever happens meanwhile, what was promised
    /// at the first crash is still promised; what an opened database showed stays.
    fn second_crashes(&mut self, disk: SimDisk, first_cut: usize, commits: usize) -> Outcome {
        disk.start_recording();
        let rig = Rig::new(disk.clone(), &self.script.profile);
        let db = rig.open().map_err(|error| format!("opening with recording failed: {error}"))?;
        let opened = disk.recorded();
        let recording = disk.take_recording();
        rig.kill(Some(db));
        let config = CrashConfig { cuts: 1..usize::MAX, ..self.effort.second.clone() };
        let mut seen: HashMap<u64, Found> = HashMap::new();
        for state in CrashStates::new(&recording, config) {
            self.tally.count(&state, &[Class::Recovery]);
            let at = |message: String| {
                format!(
                    "second crash after change {} ({:?}), model {}: {message}",
                    state.cut,
                    state.op,
                    state.model.code()
                )
            };
            if let Some(disk) = state.disk() {
                let found = recover(&disk, &self.script.profile, Depth::default()).map_err(at)?;
                seen.insert(state.hash, found);
            }
            let found = seen.get(&state.hash).ok_or("a repeated image that was never met")?;
            let history = &self.finished.history;
            let left = check_promises(found, history, &self.prefixes, first_cut, Death::PowerLoss).map_err(at)?;
            if state.cut >= opened && left != commits {
                return Err(at(format!("{left} commits are left of {commits} that the opened database showed")));
            }
        }
        Ok(())
    }
}

fn death(state: &CrashState) -> Death {
    if state.model == CrashModel::ProcessDeath { Death::Kill } else { Death::PowerLoss }
}
