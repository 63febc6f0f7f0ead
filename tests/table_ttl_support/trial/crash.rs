//! Every state that a crash may leave of a trial: what is recovered is what was there before or after the step that it met, and its indexes agree with its rows.

use super::{Durations, Rows, STEADY_VERBS, TABLES, Trial, expiry, in_order, open};
use crate::expiry_support::Rng;
use siltstone::lsm::CompactionStyle;
use siltstone_base::clock::ManualClock;
use siltstone_base::env::sim::{CrashConfig, CrashStates, SimDisk};
use std::sync::Arc;
use std::time::Duration;

const STEPS: usize = 60;

/// What was there after a step, and how many changes of the disk had been recorded before and after it.
struct Commit {
    rows: [Rows; TABLES],
    durations: [Durations; TABLES],
    time: u64,
    begun: usize,
    ended: usize,
}

impl Trial {
    fn commit(&self, begun: usize) -> Commit {
        let (rows, durations) = (self.rows.clone(), self.durations.clone());
        Commit { rows, durations, time: self.now(), begun, ended: self.disk.recorded() }
    }

    /// Acts, and records what that does to the disk.
    fn history(&mut self) -> Vec<Commit> {
        let mut commits = vec![Commit { begun: 0, ended: 0, ..self.commit(0) }];
        self.disk.start_recording();
        for _ in 0..STEPS {
            let (begun, verb) = (self.disk.recorded(), self.rng.below(STEADY_VERBS));
            self.act(verb);
            commits.push(self.commit(begun));
        }
        self.snapshots.clear();
        commits
    }

    /// Opens what a crash at `time` left, as of a commit.
    fn recovered(&self, disk: &SimDisk, commit: &Commit, time: u64) -> Self {
        let clock = Arc::new(ManualClock::new(time));
        let (db, executor) = open(disk, self.style, &clock).unwrap();
        let mut durations = commit.durations.clone();
        durations.iter_mut().for_each(|durations| durations.reopened(time));
        let expiries = [0, 1].map(|table| expiry(durations[table].current(), self.by_column[table]));
        assert_eq!(db.open_expiring_table(&self.eager_spec, &expiries[0]).unwrap(), self.eager);
        assert_eq!(db.open_expiring_lazy_table(&self.lazy_spec, &expiries[1]).unwrap(), self.lazy);
        let (eager_spec, lazy_spec) = (self.eager_spec.clone(), self.lazy_spec.clone());
        Self {
            rng: self.rng.clone(),
            disk: disk.clone(),
            clock,
            executor,
            db: Some(db),
            eager_spec,
            lazy_spec,
            durations,
            rows: commit.rows.clone(),
            snapshots: Vec::new(),
            ..*self
        }
    }

    /// Whether both tables have the rows that the model has.
    fn has_its_rows(&self) -> bool {
        (0..TABLES).all(|table| self.found(table) == in_order(&self.visible(table)))
    }

    /// Looks at every state that a crash may leave, and returns how many there were.
    pub fn crash_everywhere(seed: u64, style: CompactionStyle) -> usize {
        let mut trial = Self::drawn(seed, Rng::new(seed), style);
        let commits = trial.history();
        let recording = trial.disk.take_recording();
        trial.disk.power_off();
        trial.db = None;
        let config =
            CrashConfig { states_per_cut: 4, random_subsets: 3, tail_cuts: 3, tears: 2, ..CrashConfig::default() };
        let mut states = 0;
        for state in CrashStates::new(&recording, config).filter(|state| state.disk().is_some()) {
            states += 1;
            let first = commits.iter().rposition(|commit| commit.ended <= state.cut).unwrap();
            let last = commits.iter().rposition(|commit| commit.begun <= state.cut).unwrap();
            let at =
                format!("{style:?}, seed {seed}: crash after change {} ({:?}), {:?}", state.cut, state.op, state.model);
            let time = commits[last].time;
            let found = commits[first..=last].iter().find_map(|commit| {
                let recovered = trial.recovered(&state.disk()?, commit, time);
                recovered.has_its_rows().then_some(recovered)
            });
            let Some(mut recovered) = found else { panic!("{at}: not what was there after steps {first} to {last}") };
            let looked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                recovered.compare_all();
                recovered.clock.advance(Duration::from_secs(20));
                recovered.end();
            }));
            assert!(looked.is_ok(), "{at}");
        }
        states
    }
}
