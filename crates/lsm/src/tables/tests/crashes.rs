//! Crashes between and within creating, filling, dropping and reclaiming tables: what is recovered is a prefix of what was
//! done, with everything that was acknowledged.

use super::*;
use siltstone_base::clock::ManualClock;
use siltstone_base::engine::{Admin, RowChange};
use siltstone_base::env::sim::{CrashConfig, CrashStates, Recording, SimDisk};
use siltstone_base::executor::StepExecutor;
use std::collections::HashMap;

const DIR: &str = "/db";
const TABLES: [&str; 3] = ["a", "b", "c"];

/// By table: its rows, and the entries of its index.
type Digest = BTreeMap<String, (Vec<(Vec<u8>, Vec<u8>)>, Vec<String>)>;

fn open_disk(disk: &SimDisk) -> TableDb {
    try_open_disk(disk).unwrap()
}

fn try_open_disk(disk: &SimDisk) -> Result<TableDb> {
    let executor = Arc::new(StepExecutor::new(Arc::new(ManualClock::new(1_700_000_000))));
    let options = DbOptions::default().create_if_missing(true).env(Some(disk.env())).executor(Some(executor));
    let rows = ColumnFamilyOptions::default().write_buffer_size(4096).target_file_size_base(2048);
    TableDb::open(DIR, &options, &rows, &WriteOptions::default().sync(true))
}

fn digest(db: &TableDb) -> Digest {
    let keys = stored(db, &db.ground.rows);
    let table = |name: String| {
        let id = db.open_table(&spec(&name, 1)).unwrap();
        let own = keys.iter().filter(|key| IndexId::of_key(key) == Some(IndexId(id.0)));
        let row = |key: &Vec<u8>| {
            let mut value = Vec::new();
            assert!(db.get_row(id, &key[4..], &mut |bytes| value.extend_from_slice(bytes)).unwrap());
            (key[4..].to_vec(), value)
        };
        (name, (own.map(row).collect(), scan(db, id, 0, "", usize::MAX)))
    };
    db.table_names().into_iter().map(table).collect()
}

/// What was done, step by step: the digest after each, and how many changes of the disk had been recorded when it was
/// acknowledged.
struct History {
    steps: Vec<(Digest, usize)>,
}

impl History {
    fn note(&mut self, db: &TableDb, disk: &SimDisk) {
        let recorded = disk.recorded();
        self.steps.push((digest(db), recorded));
    }
}

#[test]
fn every_crash_state_recovers_a_prefix_with_all_that_was_acknowledged() {
    let disk = SimDisk::new();
    disk.make_durable_dir(Path::new(DIR)).unwrap();
    disk.start_recording();
    let mut history = History { steps: vec![(Digest::new(), 0)] };
    let db = open_disk(&disk);
    history.note(&db, &disk);
    let mut ids = HashMap::new();
    for name in TABLES {
        ids.insert(name, db.create_table(&spec(name, 1)).unwrap());
        history.note(&db, &disk);
        for batch in 0..2 {
            let rows: Vec<_> =
                (0..12).map(|i| (format!("{batch}{i:02}"), format!("{:02}{}", i * 7 % 12, "v".repeat(40)))).collect();
            insert(&db, ids[name], &rows.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect::<Vec<_>>());
            history.note(&db, &disk);
        }
    }
    Admin::flush(&db).unwrap();
    db.drop_table(ids["b"]).unwrap();
    history.note(&db, &disk);
    db.reclaim().unwrap();
    ids.insert("b", db.create_table(&spec("b", 1)).unwrap());
    history.note(&db, &disk);
    insert(&db, ids["b"], &[("again", "zz")]);
    history.note(&db, &disk);
    db.drop_table(ids["a"]).unwrap();
    history.note(&db, &disk);
    TableDb::close(db).unwrap();
    let recording = disk.take_recording();

    let config =
        CrashConfig { states_per_cut: 64, random_subsets: 24, tail_cuts: 4, tears: 6, ..CrashConfig::default() };
    let (states, prefixes) = explore(&recording, &history, config);
    assert!(states > 300, "only {states} states");
    let unseen: Vec<_> = (1..prefixes.len()).filter(|step| prefixes[*step] == 0).collect();
    assert!(unseen.len() <= 1, "no state recovered to the steps {unseen:?} of {prefixes:?}");
}

/// Recovers every state that a crash may have left: it is a step of the history, and not before the last one that was acknowledged. Returns their number, and how many are which step.
fn explore(recording: &Recording, history: &History, config: CrashConfig) -> (usize, Vec<usize>) {
    let (mut states, mut prefixes) = (0, vec![0; history.steps.len()]);
    for state in CrashStates::new(recording, config) {
        let Some(disk) = state.disk() else { continue };
        states += 1;
        let db = match try_open_disk(&disk) {
            Ok(db) => db,
            Err(error) => panic!("cut {} ({:?}), {:?}: {error}", state.cut, state.op, state.model),
        };
        let found = digest(&db);
        let acknowledged = history.steps.iter().rposition(|(_, recorded)| *recorded <= state.cut).unwrap();
        let prefix = (acknowledged..history.steps.len()).find(|step| history.steps[*step].0 == found);
        let Some(prefix) = prefix else {
            panic!(
                "cut {} ({:?}), {:?}: not a prefix from step {acknowledged} on: {found:?}",
                state.cut, state.op, state.model
            );
        };
        prefixes[prefix] += 1;
        // The recovered directory works on: entries of dropped tables go, those of others stay.
        db.reclaim().unwrap();
        let known: Vec<u32> = found.keys().map(|name| db.open_table(&spec(name, 1)).unwrap().0).collect();
        assert!(stored(&db, &db.ground.rows).iter().all(|key| {
            let id = IndexId::of_key(key).unwrap().0;
            known.contains(&id) || known.contains(&(id - 1))
        }));
        assert_eq!(digest(&db), found);
        TableDb::close(db).unwrap();
    }
    (states, prefixes)
}

#[test]
fn no_crash_leaves_one_table_of_a_commit_without_the_other() {
    let disk = SimDisk::new();
    disk.make_durable_dir(Path::new(DIR)).unwrap();
    disk.start_recording();
    let mut history = History { steps: vec![(Digest::new(), 0)] };
    let db = open_disk(&disk);
    history.note(&db, &disk);
    let tables = ["a", "b"].map(|name| {
        let table = db.create_table(&spec(name, 1)).unwrap();
        history.note(&db, &disk);
        table
    });
    for number in 0..12_u32 {
        let name = format!("{number:02}");
        let counts = [number, number + 1].map(|count| format!("{count:02}{}", "c".repeat(30)));
        let (old, new, own) = (row("count", &counts[0]), row("count", &counts[1]), row(&name, &counts[1]));
        let count = if number == 0 { RowChange::Insert(new) } else { RowChange::Update(old, new) };
        let [a, b] = tables;
        let changes = [(b, count), (a, RowChange::Insert(own)), (a, count), (b, RowChange::Insert(own))];
        db.commit(&changes).unwrap();
        history.note(&db, &disk);
        if number == 6 {
            Admin::flush(&db).unwrap();
        }
    }
    TableDb::close(db).unwrap();
    let config = CrashConfig { states_per_cut: 32, random_subsets: 12, tears: 6, ..CrashConfig::default() };
    let (states, prefixes) = explore(&disk.take_recording(), &history, config);
    assert!(states > 100, "only {states} states");
    assert!(prefixes.iter().skip(3).filter(|count| **count > 0).count() > 10, "{prefixes:?}");
}

/// The entries come in as tables, all of them at once, before the mark goes.
#[test]
fn every_crash_state_of_adding_an_index_has_all_of_it_or_nothing() {
    const ROWS: usize = 1100;
    let disk = SimDisk::new();
    disk.make_durable_dir(Path::new(DIR)).unwrap();
    disk.start_recording();
    let db = open_disk(&disk);
    let table = db.create_table(&spec("t", 0)).unwrap();
    let names: Vec<_> = (0..ROWS).map(|i| (format!("{i:04}"), format!("{:04}", i * 7 % ROWS))).collect();
    insert(&db, table, &names.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect::<Vec<_>>());
    Admin::flush(&db).unwrap();
    let before = disk.recorded();
    let wanted = spec("t", 1);
    db.add_index(table, &wanted.indexes[0]).unwrap();
    let acknowledged = disk.recorded();
    db.insert(table, &[row("after", "9999")]).unwrap();
    TableDb::close(db).unwrap();
    let recording = disk.take_recording();
    let config =
        CrashConfig { cuts: before..usize::MAX, states_per_cut: 6, random_subsets: 3, ..CrashConfig::default() };
    let (mut with, mut without) = (0, 0);
    for state in CrashStates::new(&recording, config) {
        let Some(disk) = state.disk() else { continue };
        let what = format!("cut {} ({:?}), {:?}", state.cut, state.op, state.model);
        let db = try_open_disk(&disk).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert!(!disk.env().exists(Path::new("/db/sorting")).unwrap(), "{what}");
        match db.open_table(&wanted) {
            Ok(table) => {
                with += 1;
                for check in db.check_table(table).unwrap() {
                    let is_whole = check.is_sound() && check.missing == 0 && check.entries >= ROWS as u64;
                    assert!(is_whole, "{what}: {check:?}");
                }
            }
            Err(error) => {
                without += 1;
                assert!(state.cut < acknowledged, "{what}: {error}");
                let table = db.open_table(&spec("t", 0)).unwrap();
                db.reclaim().unwrap();
                let own = |key: &Vec<u8>| IndexId::of_key(key) == Some(IndexId(table.0));
                assert!(stored(&db, &db.ground.rows).iter().all(own), "{what}: entries of no index");
            }
        }
        TableDb::close(db).unwrap();
    }
    assert!(with > 5 && without > 20, "{with} states with the index, {without} without");
}
