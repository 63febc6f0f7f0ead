//! Crashes of the LSM engine beside transactions: unfinished ones leave nothing; prepared ones are there whole, behind their locks, wherever their WAL was by then, until somebody
//! decides; and what was decided stays decided. The mistakes that would break this are made on purpose, and must be seen.

#![expect(clippy::unwrap_used, reason = "a test")]

use siltstone_base::clock::ManualClock;
use siltstone_base::env::FileKind;
use siltstone_base::env::sim::{
    CrashConfig, CrashModel, CrashState, CrashStates, FaultKind, FaultPlan, OpClass, OpFilter, Recording, SimDisk,
};
use siltstone_base::executor::{Executor, StepExecutor};
use siltstone_base::plant::{PlantedBug, with_planted};
use siltstone_lsm::{
    ColumnFamilyOptions, CompressionType, DbOptions, ErrorKind, FlushOptions, Isolation, Iter, ReadOptions, Result,
    TransactionDb, TransactionDbOptions, TransactionOptions,
};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const DIR: &str = "/db";
const OTHER: &str = "other";
/// Keys of all transactions together.
const KEYS: u64 = 40;

/// Rows of both families, by family and key, and the names of what is prepared.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct State {
    rows: BTreeMap<(bool, Vec<u8>), Vec<u8>>,
    prepared: BTreeSet<Vec<u8>>,
}

type Changes = BTreeMap<(bool, Vec<u8>), Option<Vec<u8>>>;

/// A change of the state: what it was after it, and the changes of the disk before and after the call.
struct Commit {
    state: State,
    begun: usize,
    ended: usize,
    /// Whether the call promised that it is safe.
    is_synced: bool,
}

/// What was done, with the changes of the disk that it made.
struct Script {
    commits: Vec<Commit>,
    plans: BTreeMap<Vec<u8>, Changes>,
    recording: Recording,
}

struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        // splitmix64
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

fn open(disk: &SimDisk) -> Result<TransactionDb> {
    let executor: Arc<dyn Executor> = Arc::new(StepExecutor::new(Arc::new(ManualClock::new(1_700_000_000))));
    let options = DbOptions::default()
        .create_if_missing(true)
        .create_missing_column_families(true)
        .env(Some(disk.env()))
        .executor(Some(executor));
    let family = ColumnFamilyOptions::default()
        .write_buffer_size(2 << 10)
        .level0_file_num_compaction_trigger(3)
        .compression(CompressionType::None);
    let families = [("default", family.clone()), (OTHER, family)];
    TransactionDb::open(DIR, &options, &families, &TransactionDbOptions::default())
}

fn begin_options() -> TransactionOptions {
    TransactionOptions::new(Isolation::ReadCommitted).lock_timeout(Duration::from_micros(1))
}

fn read(db: &TransactionDb) -> Result<State> {
    let mut state = State { prepared: db.prepared_transactions().into_iter().collect(), ..State::default() };
    let other = db.db().family(OTHER).unwrap();
    for (is_other, family) in [(false, db.db().default_family()), (true, other)] {
        let mut iter: Iter = db.db().iter_cf(&family, &ReadOptions::default())?;
        iter.seek_to_first();
        while iter.valid() {
            state.rows.insert((is_other, iter.key().to_vec()), iter.value().to_vec());
            iter.next();
        }
        iter.status()?;
    }
    Ok(state)
}

fn apply(state: &mut State, changes: &Changes) {
    for (key, value) in changes {
        match value {
            Some(value) => drop(state.rows.insert(key.clone(), value.clone())),
            None => drop(state.rows.remove(key)),
        }
    }
}

/// A transaction that changes rows that are free, and what it changes.
fn transaction(db: &TransactionDb, draw: &mut Draw) -> (siltstone_lsm::Transaction, Changes) {
    let other = db.db().family(OTHER).unwrap();
    let mut transaction = db.begin(&begin_options());
    let mut changes = Changes::new();
    for _ in 0..=draw.below(5) {
        let (is_other, key) = (draw.below(3) == 0, format!("key{:02}", draw.below(KEYS)).into_bytes());
        let family = if is_other { other.clone() } else { db.db().default_family() };
        let value = (draw.below(4) > 0).then(|| vec![draw.next() as u8; draw.below(150) as usize]);
        let outcome = match &value {
            Some(value) => transaction.put_cf(&family, &key, value),
            None => transaction.delete_cf(&family, &key),
        };
        match outcome {
            Ok(()) => drop(changes.insert((is_other, key), value)),
            Err(error) => assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}"),
        }
    }
    (transaction, changes)
}

/// The next write of a file of this kind fails.
fn fail_next(disk: &SimDisk, kind: FaultKind, file: FileKind) {
    let filter = OpFilter { class: Some(OpClass::Write), file: Some(file), ..OpFilter::default() };
    disk.set_fault(FaultPlan::once(kind, 0).filter(filter));
}

fn script(seed: u64, len: usize) -> Script {
    let disk = SimDisk::new();
    disk.make_durable_dir(Path::new(DIR)).unwrap();
    drop(open(&disk).unwrap().close());
    disk.start_recording();
    let mut db = open(&disk).unwrap();
    let first = Commit { state: State::default(), begun: 0, ended: 0, is_synced: true };
    let (mut commits, mut plans) = (vec![first], BTreeMap::new());
    let mut draw = Draw(seed);
    for number in 0..len {
        let mut state = commits.last().unwrap().state.clone();
        let begun = disk.recorded();
        let is_synced = match draw.below(20) {
            0..8 => {
                let (transaction, changes) = transaction(&db, &mut draw);
                apply(&mut state, &changes);
                transaction.commit().unwrap();
                false
            }
            8..12 => {
                let (transaction, changes) = transaction(&db, &mut draw);
                let name = format!("name{number}").into_bytes();
                transaction.prepare(&name).unwrap();
                state.prepared.insert(name.clone());
                plans.insert(name, changes);
                true
            }
            12..16 => {
                let names = db.prepared_transactions();
                let Some(name) = names.get(draw.below(names.len().max(1) as u64) as usize) else { continue };
                if draw.below(5) == 0 {
                    // Half of it arrives, and nobody is decided about.
                    fail_next(&disk, FaultKind::ShortWrite, FileKind::Wal);
                    assert_eq!(db.commit_prepared(name).unwrap_err().kind(), ErrorKind::Io);
                    disk.clear_fault();
                    continue;
                }
                state.prepared.remove(name);
                if draw.below(3) > 0 {
                    apply(&mut state, &plans[name]);
                    db.commit_prepared(name).unwrap();
                } else {
                    db.rollback_prepared(name).unwrap();
                }
                false
            }
            16 => {
                let family = if draw.below(2) == 0 { OTHER } else { "default" };
                let family = db.db().family(family).unwrap();
                db.db().flush_families(&[&family], &FlushOptions::default()).unwrap();
                false
            }
            17 if draw.below(2) == 0 => {
                // A flush that cannot be installed, and is tried again later.
                fail_next(&disk, FaultKind::Io, FileKind::Manifest);
                let _ = db.db().flush(&FlushOptions::default());
                disk.clear_fault();
                // Meanwhile a new MANIFEST is written, and what nobody needs goes.
                db.db().live_files().unwrap();
                while db.db().flush(&FlushOptions::default()).is_err() {}
                false
            }
            17 => {
                db.db().wait_for_background_work().unwrap();
                false
            }
            18 if draw.below(3) == 0 => {
                db.close().unwrap();
                db = open(&disk).unwrap();
                true
            }
            _ => {
                db.db().sync_wal().unwrap();
                true
            }
        };
        commits.push(Commit { state, begun, ended: disk.recorded(), is_synced });
    }
    let recording = disk.take_recording();
    disk.power_off();
    Script { commits, plans, recording }
}

/// Recovers, checks the locks, decides about what is prepared, and opens again. Returns what was there at first.
fn recover(disk: &SimDisk, script: &Script) -> Result<State, String> {
    let failed = |what: &str, error: siltstone_lsm::Error| format!("{what}: {error}");
    let db = open(disk).map_err(|error| failed("opening", error))?;
    let first = read(&db).map_err(|error| failed("reading", error))?;
    let mut expected = first.clone();
    let other = db.db().family(OTHER).unwrap();
    for (index, name) in first.prepared.iter().enumerate() {
        let Some(changes) = script.plans.get(name) else { return Err("what is prepared never was".to_owned()) };
        for (is_other, key) in changes.keys() {
            let family = if *is_other { other.clone() } else { db.db().default_family() };
            let outcome = db.begin(&begin_options()).put_cf(&family, key, "taken");
            if outcome.as_ref().map_err(siltstone_lsm::Error::kind) != Err(ErrorKind::TimedOut) {
                return Err(format!("a row of what is prepared is not locked: {outcome:?}"));
            }
        }
        expected.prepared.remove(name);
        match index % 3 {
            0 => {
                apply(&mut expected, changes);
                db.commit_prepared(name).map_err(|error| failed("committing", error))?;
            }
            1 => db.rollback_prepared(name).map_err(|error| failed("rolling back", error))?,
            _ => drop(expected.prepared.insert(name.clone())),
        }
    }
    db.db().check().map_err(|error| failed("checking", error))?;
    for _ in 0..2 {
        if read(&db).map_err(|error| failed("reading again", error))? != expected {
            return Err("other rows after the decisions".to_owned());
        }
        db.db().flush(&FlushOptions::default()).map_err(|error| failed("flushing", error))?;
    }
    db.close().map_err(|error| failed("closing", error))?;
    let db = open(disk).map_err(|error| failed("opening again", error))?;
    match read(&db).map_err(|error| failed("reading after opening again", error))? == expected {
        true => Ok(first),
        false => Err("other rows when opened again".to_owned()),
    }
}

/// Fails unless `found` is what was there after one of the commits that a crash at `cut` may leave.
fn check_promises(script: &Script, found: &State, cut: usize, model: CrashModel) -> Result<usize, String> {
    let is_kept = |commit: &Commit| commit.is_synced || model == CrashModel::ProcessDeath;
    let first = script.commits.iter().rposition(|commit| commit.ended <= cut && is_kept(commit)).unwrap_or(0);
    let last = script.commits.iter().rposition(|commit| commit.begun <= cut).unwrap_or(0);
    let place = script.commits[first..=last].iter().rposition(|commit| commit.state == *found);
    place.map(|place| first + place).ok_or_else(|| format!("not what was there after any of commits {first} to {last}"))
}

fn effort(states_per_cut: usize) -> CrashConfig {
    CrashConfig { states_per_cut, random_subsets: 3, tail_cuts: 3, tears: 2, ..CrashConfig::default() }
}

/// Verifies the crash states of a script, and of some of the recoveries; returns how many were different.
fn explore(script: &Script, second_every: usize) -> Result<usize, String> {
    let mut known: HashMap<u64, State> = HashMap::new();
    let mut count = 0;
    for state in CrashStates::new(&script.recording, effort(4)) {
        let at = |message: String| {
            format!("crash after change {} ({:?}), {:?}: {message}", state.cut, state.op, state.model)
        };
        if let Some(disk) = state.disk() {
            count += 1;
            if count % second_every == 0 {
                count += second_crashes(script, &state, disk).map_err(at)?;
            }
            let disk = state.disk().unwrap_or_default();
            known.insert(state.hash, recover(&disk, script).map_err(at)?);
        }
        let found = known.get(&state.hash).ok_or("a repeated image that was never met")?;
        check_promises(script, found, state.cut, state.model).map_err(at)?;
    }
    Ok(count)
}

/// Opens what a crash left, with recording, and verifies the crash states of that.
fn second_crashes(script: &Script, first: &CrashState, disk: SimDisk) -> Result<usize, String> {
    disk.start_recording();
    let db = open(&disk).map_err(|error| format!("opening with recording: {error}"))?;
    let shown = read(&db).map_err(|error| format!("reading with recording: {error}"))?;
    let opened = disk.recorded();
    let recording = disk.take_recording();
    disk.power_off();
    drop(db);
    let mut count = 0;
    for state in CrashStates::new(&recording, effort(2)) {
        let at = |message: String| format!("second crash after change {} ({:?}): {message}", state.cut, state.op);
        let Some(disk) = state.disk() else { continue };
        count += 1;
        let found = recover(&disk, script).map_err(at)?;
        // A process that dies leaves what it wrote; the power goes off the second time.
        check_promises(script, &found, first.cut, CrashModel::SyncedOnly).map_err(at)?;
        if state.cut >= opened && found != shown {
            return Err(at("other rows than the opened database showed".to_owned()));
        }
    }
    Ok(count)
}

#[test]
fn every_crash_leaves_what_was_prepared_and_what_was_decided() {
    let explore = |seed| match explore(&script(seed, 60), 20) {
        Ok(count) => count,
        Err(message) => panic!("seed {seed}: {message}"),
    };
    let counts = std::thread::scope(|scope| {
        [0, 1, 2].map(|seed| scope.spawn(move || explore(seed))).map(|explored| explored.join().unwrap())
    });
    let count: usize = counts.iter().sum();
    assert!(count >= 1_500, "{count}");
}

#[test]
fn the_mistakes_are_seen() {
    for bug in [
        PlantedBug::PreparedIsLost,
        PlantedBug::RecoveredLocksAreLost,
        PlantedBug::SyncedWriteIsNotSynced,
        PlantedBug::PreparedLogIsForgotten,
    ] {
        let seen = with_planted(bug, || (0..3).any(|seed| explore(&script(seed, 60), 1_000_000).is_err()));
        assert!(seen, "{bug:?}");
    }
}
