//! Rows, means, and every operation on both engines.

use super::client::{Client, Numbers, PROCESSED, Shared};
use super::load::{Ids, load};
use super::rows::{ISSUE_COLUMNS, Issue, RowBuffer, decode_column, id_at_end};
use super::schema::{self, ReadIndex, Table};
use super::session::trimmed_mean;
use super::streams::Streams;
use super::*;
use crate::engines::MemoryEngine;
use crate::load::Load;
use crate::row_guards::RowGuards;
use crate::stopwatch::Stopwatch;
use siltstone_base::engine::Tables;
use siltstone_base::env::{Env, FileKind, PosixEnv, read_file};
use siltstone_base::sync::atomic::Ordering;

#[test]
fn tasks_and_journals_have_the_columns_and_indexes_of_redmine() {
    let shape = |table: Table| (table.columns().len(), table.spec().indexes.len());
    assert_eq!((shape(Table::Issues), shape(Table::Journals)), ((24, 10), (7, 4)));
    assert_eq!((shape(Table::Members).1, shape(Table::MemberRoles).1, shape(Table::Watchers).1), (3, 2, 3));
    let columns = [
        (Issue::Tracker, "tracker_id"),
        (Issue::Project, "project_id"),
        (Issue::Category, "category_id"),
        (Issue::Status, "status_id"),
        (Issue::AssignedTo, "assigned_to_id"),
        (Issue::Priority, "priority_id"),
        (Issue::FixedVersion, "fixed_version_id"),
        (Issue::Author, "author_id"),
        (Issue::LockVersion, "lock_version"),
        (Issue::CreatedOn, "created_on"),
        (Issue::UpdatedOn, "updated_on"),
        (Issue::StartDate, "start_date"),
        (Issue::Parent, "parent_id"),
        (Issue::Root, "root_id"),
        (Issue::Left, "lft"),
        (Issue::Right, "rgt"),
    ];
    for (column, name) in columns {
        assert_eq!(Table::Issues.columns()[1 + column as usize], name);
    }
    assert_eq!(Table::Issues.columns().len(), 1 + ISSUE_COLUMNS + ["subject", "description"].len());
    assert!(Table::Issues.spec().indexes.iter().all(|index| !index.name.contains("parent_id")));
}

#[test]
fn tables_stand_in_their_order_and_every_index_is_over_columns_that_there_are() {
    assert_eq!(Table::all().map(|table| table as usize).collect::<Vec<_>>(), (0..Table::COUNT).collect::<Vec<_>>());
    let row = vec![0; 4 * ISSUE_COLUMNS];
    for table in Table::all() {
        for index in table.spec().indexes {
            let mut key = Vec::new();
            assert!(index.try_key(b"", &row, &mut key).unwrap());
            assert_eq!(key.len(), 4 * index.name.split("_and_").count(), "{}", index.name);
        }
    }
    let name = |(table, index): ReadIndex| format!("{}.{}", table.spec().name, table.spec().indexes[index].name);
    assert_eq!(name(schema::TASKS_BY_ASSIGNEE), "issues.assigned_to_id");
    assert_eq!(name(schema::JOURNALS_OF), "journals.journalized_id_and_journalized_type");
    assert_eq!(name(schema::ADDRESSES_OF_USER), "email_addresses.user_id");
    assert_eq!(name(schema::TRACKERS_OF_PROJECT), "projects_trackers.project_id");
    assert_eq!(name(schema::MODULES_OF_PROJECT), "enabled_modules.project_id");
    assert_eq!(name(schema::MEMBER), "members.user_id_and_project_id");
    assert_eq!(name(schema::ROLES_OF_MEMBER), "member_roles.member_id");
    assert_eq!(name(schema::ENUMERATIONS_BY_TYPE), "enumerations.type");
    assert_eq!(name(schema::TRANSITIONS), "workflows.role_id_and_tracker_id_and_old_status_id");
    assert_eq!(name(schema::VALUES_OF), "custom_values.customized_type_and_customized_id");
    assert_eq!(name(schema::WATCHERS_OF), "watchers.watchable_id_and_watchable_type");
}

#[test]
fn columns_are_found_in_rows_and_by_indexes() {
    let mut columns = [0; ISSUE_COLUMNS];
    (columns[Issue::AssignedTo as usize], columns[Issue::Parent as usize]) = (77, 5);
    let mut row = RowBuffer::default();
    row.set(9, &columns, b"a subject");
    assert_eq!(row.value.len(), 4 * ISSUE_COLUMNS + b"a subject".len());
    let (_, by_assignee) = schema::TASKS_BY_ASSIGNEE;
    let mut entry = Vec::new();
    assert!(Table::Issues.spec().indexes[by_assignee].entry(&row.key, &row.value, &mut entry));
    assert_eq!(id_at_end(&entry).unwrap(), 9);
    let mut other = RowBuffer::default();
    other.set(77, &[], b"");
    assert!(entry.starts_with(&other.key), "an index key is what a key of that number is");
    assert_eq!(decode_column(&row.value, Issue::Parent as usize).unwrap(), 5);
    row.put(Issue::Parent as usize, 6).unwrap();
    assert_eq!(row.get(Issue::Parent as usize).unwrap(), 6);
    row.value.truncate(10);
    assert!(row.get(Issue::Parent as usize).is_err() && row.put(Issue::Parent as usize, 1).is_err());
    assert!(id_at_end(b"abc").is_err());
}

#[test]
fn the_first_and_the_last_tenth_are_left_out() {
    // Of two clients: what counts is when an operation began, not which list it is in.
    let first = [(0.0, 90.0), (90.0, 1.0), (91.0, 1.0), (92.0, 1.0), (95.0, 70.0)];
    let second = [(0.5, 3.0), (3.5, 3.0), (6.5, 84.0), (90.5, 3.0), (93.5, 1.0)];
    let all = [first, second].concat();
    // The long one in the middle counts, which reaches over most of the run.
    let middle = [3.0, 3.0, 84.0, 1.0, 3.0, 1.0, 1.0, 1.0];
    assert_eq!(trimmed_mean(all.clone()), middle.iter().sum::<f64>() / 8.0);
    assert_eq!(trimmed_mean(all[..9].to_vec()), all[..9].iter().map(|(_, length)| length).sum::<f64>() / 9.0);
    assert_eq!(trimmed_mean(vec![(0.0, 5.0)]), 5.0, "of all, where a tenth is none");
    assert_eq!(trimmed_mean(Vec::new()), 0.0);
}

/// The small data set in memory, and what its clients share.
fn with_data<T>(is_resolved_at_once: bool, what: impl FnOnce(&Shared<'_>) -> T) -> T {
    let engine = MemoryEngine::new();
    let ids = Ids::new(|spec| engine.create_table(spec)).unwrap();
    let data_set = DataSet::Small;
    let (issues, journals) = load(&engine, &ids, data_set, 3).unwrap();
    assert_eq!((issues, journals), (1_000, 10_000));
    let next = Numbers::default();
    next.issues.store(issues, Ordering::Relaxed);
    next.journals.store(journals, Ordering::Relaxed);
    let guards = RowGuards::new().unwrap();
    what(&Shared { engine: &engine, ids, data_set, is_resolved_at_once, guards, next: &next })
}

/// Rows of a table.
fn rows(shared: &Shared<'_>, table: Table) -> usize {
    shared.engine.scan_rows(shared.ids.of(table), b"", usize::MAX, &mut |_| {}).unwrap()
}

#[test]
fn whoever_is_drawn_has_ten_tasks_to_process() {
    // Journals of a task: one a save.
    for (is_resolved_at_once, journals) in [(true, 2), (false, 3)] {
        with_data(is_resolved_at_once, |shared| {
            let mut client = Client::new(shared, 1, 3);
            for number in 1..=300_u32 {
                client.prepare(Operation::Process10Tasks).unwrap();
                assert!(client.operation(Operation::Process10Tasks).unwrap());
                // Three details a task: whoever had fewer tasks would leave fewer.
                assert_eq!(shared.next.details.load(Ordering::Relaxed), 3 * PROCESSED as u32 * number);
            }
            let written = journals * PROCESSED * 300;
            assert_eq!(shared.next.journals.load(Ordering::Relaxed) as usize, 10_000 + written);
            assert_eq!(rows(shared, Table::Journals), 10_000 + written);
            assert_eq!(rows(shared, Table::JournalDetails), 3 * PROCESSED * 300);
        });
    }
}

#[test]
fn every_task_has_a_place_in_the_tree_and_ten_comments() {
    with_data(true, |shared| {
        let mut client = Client::new(shared, 1, 3);
        assert!(client.operation(Operation::CreateTask).unwrap());
        let (mut tasks, mut comments) = (0, 0);
        shared
            .engine
            .scan_rows(shared.ids.of(Table::Issues), b"", usize::MAX, &mut |row| {
                tasks += 1;
                let column = |column: Issue| decode_column(row.value, column as usize).unwrap();
                assert_eq!((row.primary_key.len() + row.value.len()) as u64, Table::Issues.row_bytes());
                let place = [Issue::Root, Issue::Left, Issue::Right].map(column);
                assert_eq!(place, [id_at_end(row.primary_key).unwrap(), 1, 2]);
                comments = column(Issue::LockVersion);
            })
            .unwrap();
        // Of the last one, which was created now.
        assert_eq!((tasks, comments), (1_001, 10));
        assert_eq!(rows(shared, Table::Journals), 10_010);
        let entries = |index| {
            shared.engine.scan_index(shared.ids.of(Table::Issues), index, b"", usize::MAX, &mut |_| {}).unwrap()
        };
        assert_eq!(
            (0..10).map(entries).collect::<Vec<_>>(),
            [1_001; 10],
            "the entry from before it had a place is gone"
        );
    });
}

fn config(engine: EngineKind) -> RedmineConfig {
    RedmineConfig {
        engines: vec![engine],
        data_sets: vec![DataSet::Small],
        operations: Operation::ALL.to_vec(),
        clients: vec![1, 2],
        transactions: 20,
        loads: vec![0.0, 4.0],
        load_file_bytes: 1 << 20,
        seconds: 0.2,
        pairs: 1,
        interval_s: 0.1,
        app_ms: 0.0,
        as_published: false,
        seed: 3,
        dir: None,
        // Quick enough for a test, and a device that can have another stream.
        settings: EngineSettings { device: Device::FastSsd, ..EngineSettings::default() },
        memory_is_given: false,
    }
}

#[test]
fn every_operation_runs_on_both_engines() {
    for engine in [EngineKind::LsmLeveled, EngineKind::Btree] {
        let mut text = Vec::new();
        let lines = run(&config(engine), &mut Output::new(&mut text, None, false)).unwrap();
        assert_eq!(lines.len(), 2 * 2 * 3);
        for line in &lines {
            assert!(line.ops > 0 && line.mean_trimmed_us.is_some_and(|mean| mean > 0.0), "{line:?}");
            assert_eq!(line.data_set.as_deref(), Some("small"));
            assert!(line.provenance.is_some());
        }
        assert!(String::from_utf8(text).unwrap().contains("process_10_tasks"));
    }
}

#[test]
#[cfg(feature = "peers")]
fn every_operation_runs_on_foreign_engines() {
    let foreign: Vec<_> = EngineKind::ALL.iter().copied().filter(|kind| kind.is_foreign()).collect();
    assert!(foreign.len() >= 4);
    for kind in foreign {
        let config =
            RedmineConfig { clients: vec![2], loads: vec![0.0], settings: EngineSettings::default(), ..config(kind) };
        let lines = run(&config, &mut Output::new(&mut Vec::new(), None, false)).unwrap();
        let ran: Vec<_> = lines.iter().map(|line| line.workload.as_str()).collect();
        assert_eq!(ran, ["create_task", "process_10_tasks", "search"], "{kind}");
        for line in &lines {
            assert!(line.engine.starts_with(kind.name()) && line.ops > 0, "{line:?}");
            let conditions = [line.device.as_deref(), line.durability.as_deref(), line.data_set.as_deref()];
            assert_eq!(conditions, [Some("none"), Some("os"), Some("small")], "{kind}");
            assert!(line.memory_bytes > Some(0) && line.space_bytes > Some(0), "{line:?}");
        }
    }
}

/// The flush that closes the load left level 0 with as many tables as are compacted, and each run on a slow disk began with the same compaction of half the data.
#[test]
fn no_run_pays_for_what_the_load_left_undone() {
    let config = RedmineConfig {
        operations: vec![Operation::CreateTask],
        clients: vec![1],
        loads: vec![0.0],
        ..config(EngineKind::LsmLeveled)
    };
    let lines = run(&config, &mut Output::new(&mut Vec::new(), None, false)).unwrap();
    let count = |name: &str| lines[0].counters.get(name).copied().unwrap_or(0);
    assert!(count("rocksdb.l2andup.hit") + count("rocksdb.l1.hit") > 0, "{:?}", lines[0].counters);
    assert_eq!((count("rocksdb.l0.hit"), count("siltstone.compaction.count")), (0, 0));
}

#[test]
fn engines_alternate_and_every_run_has_intervals() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("results.json");
    let config = RedmineConfig {
        engines: vec![EngineKind::LsmLeveled, EngineKind::Btree],
        operations: vec![Operation::Process10Tasks],
        transactions: 30,
        clients: vec![1],
        loads: vec![0.0],
        pairs: 2,
        ..config(EngineKind::LsmLeveled)
    };
    let json = crate::JsonLines::create(&path).unwrap();
    let lines = run(&config, &mut Output::new(&mut Vec::new(), Some(json), false)).unwrap();
    let order: Vec<_> = lines.iter().map(|line| (line.pair, line.engine.starts_with("lsm"))).collect();
    assert_eq!(order, [(1, true), (1, false), (2, false), (2, true)]);
    let text = read_file(&PosixEnv::new(), &path, FileKind::Other, 1 << 20).unwrap();
    let records = crate::report::parse(&String::from_utf8(text).unwrap(), &path).unwrap();
    assert!(records.len() == 4 && records.iter().all(|record| !record.intervals.is_empty()));
    let twenty = RedmineConfig { transactions: 20, ..config.clone() };
    assert_ne!(twenty.config_hash(DataSet::Small, 0.0), lines[0].config_hash);
}

#[test]
fn on_the_machine_s_own_device_the_other_streams_read_and_write() {
    let dir = tempfile::tempdir().unwrap();
    let config = RedmineConfig {
        operations: vec![Operation::CreateTask],
        clients: vec![1],
        loads: vec![0.0, 0.25, 2.0],
        dir: Some(dir.path().join("db")),
        settings: EngineSettings::default(),
        ..config(EngineKind::LsmLeveled)
    };
    let lines = run(&config, &mut Output::new(&mut Vec::new(), None, false)).unwrap();
    assert_eq!(lines.len(), 3);
    for (line, is_made) in lines.iter().zip([false, true, true]) {
        assert!(line.ops > 0 && line.setup.contains("the machine's own device") == is_made, "{line:?}");
    }
    let left = PosixEnv::new().list_dir(dir.path()).unwrap();
    assert_eq!(left.iter().map(|entry| entry.name.as_str()).collect::<Vec<_>>(), ["db"], "the file is gone");
}

#[test]
fn a_stream_below_one_is_throttled_and_half_of_it_is_writes() {
    let dir = tempfile::tempdir().unwrap();
    let streams = Streams::new(dir.path().join("streams"), 1, 3).unwrap();
    assert_eq!([0.25, 1.0, 2.0, 4.0].map(Streams::count), [1, 1, 2, 4]);
    let moved = |load: f64| {
        let (before, watch) = (streams.moved(), Stopwatch::start());
        let run = Load {
            label: "streams",
            threads: 1,
            companions: 0,
            expected_ops: 0,
            interval_s: 5.0,
            bar: false,
            most_seconds: Some(0.3),
            gauge: None,
            space: None,
        };
        crate::load::run(&run, |worker| streams.run(load, crate::Rng::new(3, 1), worker)).unwrap();
        let after = streams.moved();
        ((after.reads - before.reads) as f64, (after.writes - before.writes) as f64, watch.seconds())
    };
    let (reads, writes, seconds) = moved(0.25);
    assert!(reads + writes <= 1.0 + 14.0 * seconds, "{reads} reads and {writes} writes in {seconds} s");
    let (reads, writes, _) = moved(1.0);
    assert!(reads + writes < 100.0 || (0.5..2.0).contains(&(reads / writes)), "{reads} reads, {writes} writes");
}

#[test]
fn the_application_takes_its_time_for_every_request() {
    let with = |app_ms| RedmineConfig { app_ms, clients: vec![1], loads: vec![0.0], ..config(EngineKind::Btree) };
    let published = with(18.0);
    for (operation, requests, seconds) in
        [(Operation::CreateTask, 11, 0.198), (Operation::Process10Tasks, 10, 0.18), (Operation::Search, 1, 0.018)]
    {
        assert_eq!((operation.requests(), published.app_seconds(operation)), (requests, seconds), "{operation}");
        assert_eq!(with(0.0).app_seconds(operation), 0.0, "{operation}");
    }
    let setup = |config: &RedmineConfig| config.setup(EngineKind::Btree, DataSet::Small, 0.0);
    assert!(setup(&published).contains(", 18 ms of application a request,"), "{}", setup(&published));
    assert!(!setup(&with(0.0)).contains("application"), "{}", setup(&with(0.0)));
    let config = with(10.0);
    let lines = run(&config, &mut Output::new(&mut Vec::new(), None, false)).unwrap();
    assert_eq!(lines.len(), Operation::ALL.len());
    for (line, operation) in lines.iter().zip(Operation::ALL) {
        let seconds = config.app_seconds(*operation);
        assert!(line.ops > 0 && line.mean_trimmed_us.is_some_and(|mean| mean > seconds * 1e6), "{line:?}");
        // The client waited as long between two.
        assert!(line.ops as f64 <= line.seconds / seconds + 2.0, "{line:?}");
    }
}

#[test]
fn as_published_lsm_trees_alone_leave_their_logs_to_the_system() {
    let config = RedmineConfig {
        as_published: true,
        settings: EngineSettings { durability: Durability::Commit, ..EngineSettings::default() },
        ..config(EngineKind::LsmLeveled)
    };
    let durability = |kind| config.settings(kind, DataSet::Small, 1.0).durability;
    assert_eq!(durability(EngineKind::LsmLeveled), Durability::Os);
    assert_eq!(durability(EngineKind::Btree), Durability::Commit);
    #[cfg(feature = "peers")]
    assert_eq!([EngineKind::Fjall, EngineKind::Redb].map(durability), [Durability::Os, Durability::Commit]);
    let settings = config.settings(EngineKind::Btree, DataSet::Giant, 2.0);
    assert_eq!((settings.background_load, settings.cache_bytes), (2.0, (1_024 << 20) / 3 * 2));
}

#[test]
fn what_cannot_be_run_is_refused() {
    let refused = |change: fn(&mut RedmineConfig)| {
        let mut config = config(EngineKind::LsmLeveled);
        change(&mut config);
        run(&config, &mut Output::new(&mut Vec::new(), None, false)).unwrap_err().to_string()
    };
    assert!(refused(|config| config.loads = vec![-1.0]).contains("--load is out of bounds"));
    let of_the_machine = refused(|config| {
        config.settings.device = Device::None;
        config.loads = vec![0.25, 1.5];
    });
    assert!(of_the_machine.contains("--load of the machine's own device must be"), "{of_the_machine}");
    let without_file = refused(|config| (config.settings.device, config.load_file_bytes) = (Device::None, 0));
    assert!(without_file.contains("--load-file-mb is out of bounds"), "{without_file}");
    assert!(refused(|config| config.transactions = 25).contains("--transactions must be 20 or 30"));
    assert!(refused(|config| config.pairs = 0).contains("--pairs is out of bounds"));
    assert!(refused(|config| config.interval_s = 0.0).contains("--interval is out of bounds"));
    assert!(refused(|config| config.data_sets.clear()).contains("--data is missing"));
    assert!(refused(|config| config.clients = vec![0]).contains("--clients is out of bounds"));
}
