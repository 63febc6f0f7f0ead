//! Rows, counts of statements, what transactions write, and every workload on every engine that has tables.

use super::changes::Changes;
use super::client::{Client, Shared};
use super::rows::{self, RowBuffer};
use super::*;
use crate::Rng;
use crate::engines::OpenEngine;
use siltstone_base::ErrorKind;
use siltstone_base::engine::{RowChange, TableId, Tables};
use siltstone_base::env::{Env, PosixEnv};
use siltstone_base::index_scan::{IndexEntry, IndexScan};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

#[test]
fn a_row_has_sysbench_columns() {
    let mut rng = Rng::new(1, 2);
    let mut row = RowBuffer::default();
    row.set_id(7);
    row.draw(1_000, &mut rng);
    assert_eq!((rows::id(&row.key).unwrap(), row.value.len()), (7, 4 + 119 + 59));
    let c = String::from_utf8(rows::c(&row.value).unwrap().to_vec()).unwrap();
    let groups: Vec<_> = c.split('-').collect();
    assert_eq!(groups.len(), 10);
    assert!(groups.iter().all(|group| group.len() == 11 && group.bytes().all(|byte| byte.is_ascii_digit())), "{c}");
    let k = rows::k(&row.value).unwrap();
    assert!((1..=1_000).contains(&k));
    let pad = row.value[123..].to_vec();
    row.add_to_k().unwrap();
    assert_eq!(rows::k(&row.value).unwrap(), k + 1);
    assert_eq!(rows::c(&row.value).unwrap(), c.as_bytes());
    row.draw_c(&mut rng).unwrap();
    assert_ne!(rows::c(&row.value).unwrap(), c.as_bytes());
    assert_eq!(row.value[123..], pad);
    row.value.truncate(100);
    assert!(row.draw_c(&mut rng).is_err() && rows::c(&row.value).is_err());
    let index = &rows::table(3).indexes[0];
    let mut entry = Vec::new();
    assert!(index.entry(&row.key, &row.value, &mut entry));
    assert_eq!((index.name.as_str(), entry.len()), ("k_3", 4 + 4));
}

#[test]
fn queries_are_counted_as_sysbench_does() {
    let queries = |name: &str| name.parse::<Workload>().unwrap().queries();
    assert_eq!([queries("read_only"), queries("read_write"), queries("write_only")], [16, 20, 6]);
    assert_eq!([queries("point_select"), queries("update_index")], [1, 1]);
}

fn config(engine: EngineKind) -> SysbenchConfig {
    SysbenchConfig {
        engines: vec![engine],
        workloads: Workload::ALL.to_vec(),
        tables: 2,
        rows: 250,
        clients: vec![1, 3],
        seconds: 0.1,
        offered: OfferedRates::default(),
        statement_costs: Vec::new(),
        pairs: 1,
        interval_s: 1.0,
        seed: 3,
        dir: None,
        memory: MemorySetup::Budget,
        settings: EngineSettings::default().with_memory(24 << 20),
    }
}

#[test]
fn every_workload_finds_its_rows_on_both_engines() {
    for engine in [EngineKind::LsmLeveled, EngineKind::Btree] {
        let mut text = Vec::new();
        let lines = run(&config(engine), &mut Output::new(&mut text, None, false)).unwrap();
        let ran: Vec<_> = lines.iter().map(|line| (line.workload.as_str(), line.threads)).collect();
        let mut expected = vec![("load", 1)];
        for name in ["point_select", "read_only", "read_write", "write_only", "update_index", "update_non_index"] {
            expected.extend([(name, 1), (name, 3)]);
        }
        expected.push(("settle", 1));
        assert_eq!(ran, expected);
        assert_eq!(lines[0].ops, 500);
        assert!(lines.iter().all(|line| line.workload == "settle" || line.ops > 0));
        assert!(lines.iter().all(|line| line.provenance.is_some()));
        assert!(String::from_utf8(text).unwrap().contains("queries/s"));
    }
}

#[test]
fn each_workload_with_clients_runs_again_at_every_offered_rate() {
    for engine in [EngineKind::LsmLeveled, EngineKind::Btree] {
        let config = SysbenchConfig {
            workloads: vec![Workload::Load, Workload::Settle, Workload::WriteOnly, Workload::PointSelect],
            clients: vec![2],
            offered: OfferedRates { fractions: vec![0.8, 0.125], rates: vec![500] },
            ..config(engine)
        };
        let mut text = Vec::new();
        let lines = run(&config, &mut Output::new(&mut text, None, false)).unwrap();
        let ran: Vec<_> = lines.iter().map(|line| line.workload.as_str()).collect();
        let expected = [
            "load",
            "settle",
            "write_only",
            "write_only poisson-80",
            "write_only poisson-12.5",
            "write_only poisson-500/s",
            "point_select",
            "point_select poisson-80",
            "point_select poisson-12.5",
            "point_select poisson-500/s",
        ];
        assert_eq!(ran, expected);
        for phases in lines[2..].chunks(4) {
            let maximum = phases[0].ops_per_s;
            let offered: Vec<_> = phases.iter().map(|line| line.offered_ops_per_s).collect();
            // After a closed loop that did nothing there is a least rate.
            let part = |fraction: f64| Some((maximum * fraction).max(1e-3));
            assert_eq!(offered, [None, part(0.8), part(0.125), Some(500.0)]);
            assert_eq!((phases[0].generator_late_max_us, phases[0].longest_gap_us), (None, None));
            for line in &phases[1..] {
                assert_eq!((line.threads, line.bytes_user > 0), (2, line.ops > 0), "{line:?}");
                assert!(line.generator_late_max_us >= line.generator_late_p99_us, "{line:?}");
                assert!(line.p9999_us >= line.p50_us, "{line:?}");
                assert_eq!((&line.config_hash, &line.setup), (&phases[0].config_hash, &phases[0].setup));
            }
            // How many arrive at parts of a maximum is the machine's affair; at a rate, dozens do.
            let given = &phases[3];
            assert!(given.ops + given.unserved_ops.unwrap_or_default() > 20, "{given:?}");
            assert!(given.generator_late_p99_us.is_some() && given.p50_us.is_some(), "{given:?}");
            assert!(given.longest_gap_us.is_some() || given.ops == 0, "{given:?}");
        }
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains("offered/s") && text.contains("late max us"), "{text}");
    }
}

#[test]
fn queries_of_an_open_loop_are_those_of_its_workload() {
    let line = |workload: &str| ResultLine {
        workload: workload.to_owned(),
        offered_ops_per_s: Some(125.0),
        ops_per_s: 100.0,
        ..ResultLine::default()
    };
    let counted = [("read_write", "2,000"), ("read_write poisson-80", "2,000"), ("write_only poisson-9/s", "600")];
    for (workload, queries) in counted {
        let text = tables::progress(&line(workload));
        assert!(text.contains(&format!(" {queries} queries/s")), "{text}");
    }
}

#[test]
fn a_workload_begins_with_what_was_loaded_whatever_another_one_changed() {
    let rows_after = |engine: EngineKind, workloads: &[Workload], fractions: &[f64]| {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("db");
        let config = SysbenchConfig {
            workloads: [&[Workload::Load], workloads].concat(),
            clients: vec![2],
            offered: OfferedRates { fractions: fractions.to_vec(), rates: Vec::new() },
            dir: Some(path.clone()),
            ..config(engine)
        };
        run(&config, &mut Output::new(&mut Vec::new(), None, false)).unwrap();
        let left: Vec<_> = PosixEnv::new().list_dir(dir.path()).unwrap().into_iter().map(|entry| entry.name).collect();
        assert_eq!(left, ["db"], "the copy goes");
        let opened = engine.open_tables(&path, &config.settings).unwrap();
        let tables = opened.as_tables().unwrap();
        let table = tables.open_table(&rows::table(1)).unwrap();
        let mut found = Vec::new();
        tables
            .scan_rows(table, b"", 1_000, &mut |row| found.push((row.primary_key.to_vec(), row.value.to_vec())))
            .unwrap();
        opened.admin.close().unwrap();
        found
    };
    for engine in [EngineKind::LsmLeveled, EngineKind::Btree] {
        let loaded = rows_after(engine, &[], &[]);
        assert_eq!(loaded.len(), 250);
        for fractions in [Vec::new(), vec![0.5]] {
            assert_ne!(loaded, rows_after(engine, &[Workload::WriteOnly], &fractions));
            let workloads = [Workload::WriteOnly, Workload::UpdateIndex, Workload::PointSelect];
            assert_eq!(loaded, rows_after(engine, &workloads, &fractions));
        }
    }
}

/// An engine under `dir` with as many tables, and as many rows in each.
fn loaded(kind: EngineKind, dir: &Path, tables: u32, rows: u32) -> (OpenEngine, Vec<TableId>) {
    let engine = kind.open_tables(&dir.join("db"), &config(kind).settings).unwrap();
    let mut rng = Rng::new(5, 0);
    let of_table = |number| {
        let table = engine.as_tables().unwrap().create_table(&rows::table(number)).unwrap();
        let of_row = |id| {
            let mut row = RowBuffer::default();
            row.set_id(id);
            row.draw(rows, &mut rng);
            row
        };
        let buffers: Vec<_> = (1..=rows).map(of_row).collect();
        let rows: Vec<_> = buffers.iter().map(RowBuffer::as_row).collect();
        engine.as_tables().unwrap().insert(table, &rows).unwrap();
        table
    };
    let ids = (1..=tables).map(of_table).collect();
    (engine, ids)
}

/// The rows of a table, after a check that each has one entry and that all entries lead to one.
fn checked_rows(engine: &dyn Tables, table: TableId) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut found = Vec::new();
    engine.scan_rows(table, b"", 1_000, &mut |row| found.push((row.primary_key.to_vec(), row.value.to_vec()))).unwrap();
    let mut led_to = Vec::new();
    let mut each = |entry: IndexEntry<'_>, value: &[u8]| {
        assert_eq!(entry.index_key, &value[..4]);
        led_to.push((entry.primary_key.to_vec(), value.to_vec()));
    };
    engine.scan_rows_by(table, 0, &IndexScan::all(), &mut each).unwrap();
    led_to.sort_unstable();
    assert_eq!(led_to, found);
    assert_eq!(engine.scan_index(table, 0, b"", 1_000, &mut |_| ()).unwrap(), found.len());
    found
}

#[test]
fn what_is_replaced_is_committed_as_a_delete_and_an_insert() {
    let dir = tempfile::tempdir().unwrap();
    for kind in [EngineKind::Memory, EngineKind::LsmLeveled, EngineKind::Btree] {
        let (opened, ids) = loaded(kind, &dir.path().join(kind.name()), 1, 3);
        let (engine, table) = (opened.as_tables().unwrap(), ids[0]);
        let before = checked_rows(engine, table);
        let mut changes = Changes::default();
        changes.row(engine, (table, 1)).unwrap().update().unwrap().add_to_k().unwrap();
        let third = changes.row(engine, (table, 3)).unwrap();
        assert_eq!(third.insert().unwrap_err().kind(), ErrorKind::AlreadyExists);
        third.delete().unwrap();
        assert!(third.delete().is_err() && third.update().is_err());
        third.insert().unwrap().draw(3, &mut Rng::new(9, 9));
        // Each statement finds what the one before left.
        changes.row(engine, (table, 1)).unwrap().update().unwrap().add_to_k().unwrap();
        assert!(changes.row(engine, (table, 4)).is_err(), "no row has this key");
        let to_commit = changes.to_commit();
        let [(_, RowChange::Update(old, new)), (_, RowChange::Delete(gone)), (_, RowChange::Insert(comes))] =
            to_commit[..]
        else {
            panic!("{to_commit:?}")
        };
        assert_eq!((old.value, gone.value), (&*before[0].1, &*before[2].1));
        assert_eq!(rows::k(new.value).unwrap(), rows::k(old.value).unwrap() + 2);
        assert_eq!((gone.primary_key, comes.primary_key), (&*before[2].0, &*before[2].0));
        engine.commit(&to_commit).unwrap();
        let after = checked_rows(engine, table);
        assert_eq!(
            after.iter().map(|(_, value)| &**value).collect::<Vec<_>>(),
            [new.value, &*before[1].1, comes.value]
        );
        drop(to_commit);
        changes.clear();
        assert_eq!(changes.to_commit(), []);
        opened.admin.close().unwrap();
    }
}

#[test]
fn the_lsm_tree_writes_what_each_statement_changes() {
    let written = |workload: Workload| {
        let dir = tempfile::tempdir().unwrap();
        let (opened, ids) = loaded(EngineKind::LsmLeveled, dir.path(), 2, 250);
        let shared = Shared::new(opened.as_tables().unwrap(), &ids, 250).unwrap();
        let mut client = Client::new(&shared, workload, 1, Rng::new(3, 1));
        let counted = || opened.stats().unwrap().counters.get("rocksdb.number.keys.written").copied().unwrap_or(0);
        let each = |_| {
            let before = counted();
            assert!(client.transaction().unwrap());
            counted() - before
        };
        let written: Vec<u64> = (0..20).map(each).collect();
        opened.admin.close().unwrap();
        written
    };
    assert_eq!(written(Workload::UpdateNonIndex), [1; 20]);
    // The row, and two entries.
    assert_eq!(written(Workload::UpdateIndex), [3; 20]);
    // A row and an entry that go, and two that come; where two statements draw the same row, it is changed once.
    let together = written(Workload::WriteOnly);
    assert!(together.iter().all(|keys| *keys <= 1 + 3 + 4), "{together:?}");
    assert!(together.iter().filter(|keys| **keys == 1 + 3 + 4).count() > 15, "{together:?}");
}

#[test]
fn clients_that_want_the_same_rows_leave_as_many_with_their_entries() {
    let dir = tempfile::tempdir().unwrap();
    for kind in [EngineKind::LsmLeveled, EngineKind::Btree] {
        let (opened, ids) = loaded(kind, &dir.path().join(kind.name()), 2, 4);
        let engine = opened.as_tables().unwrap();
        let shared = Shared::new(engine, &ids, 4).unwrap();
        std::thread::scope(|scope| {
            for number in 1..=4 {
                let shared = &shared;
                scope.spawn(move || {
                    let workload = if number % 2 == 0 { Workload::ReadWrite } else { Workload::WriteOnly };
                    let mut client = Client::new(shared, workload, number, Rng::new(7, number));
                    (0..100).for_each(|_| assert!(client.transaction().unwrap()));
                    assert!(client.bytes() > 0);
                });
            }
        });
        let rows = || ids.iter().map(|table| checked_rows(engine, *table)).collect::<Vec<_>>();
        let before = rows();
        assert!(before.iter().all(|rows| rows.len() == 4));
        opened.admin.flush().unwrap();
        opened.admin.settle().unwrap();
        assert_eq!(rows(), before);
        assert_eq!(opened.stats().unwrap().counters.get("siltstone.compaction.single.delete.mismatches"), None);
        opened.admin.close().unwrap();
    }
}

#[test]
fn a_table_gets_its_index_when_its_rows_are_there() {
    let dir = tempfile::tempdir().unwrap();
    let config = config(EngineKind::LsmLeveled);
    let mut session = Session::new(&config, EngineKind::LsmLeveled, claimed(&dir), 1);
    let (line, _) = session.run(Run::closed(Workload::Load, 0, 1), false).unwrap();
    let rows = u64::from(config.tables * config.rows);
    assert_eq!(line.ops, rows);
    // An index that is added later reads every row; one that was there from the beginning would have read none.
    let read = line.counters["rocksdb.number.db.next"];
    assert!(read >= rows, "{read} rows were read for the indexes of {rows}");
    let (engine, ids) = session.open(Workload::PointSelect).unwrap();
    for table in ids {
        let entries = engine.as_tables().unwrap().scan_index(table, 0, b"", usize::MAX, &mut |_| ()).unwrap();
        assert_eq!(entries as u32, config.rows);
    }
    session.close().unwrap();
}

/// A directory in one that is temporary, as commands have theirs.
fn claimed(dir: &TempDir) -> PathBuf {
    let root = dir.path().join("db");
    Place::new(Some(&root), false, Found::Removed).unwrap();
    root
}

#[test]
fn every_workload_with_clients_finds_the_engine_opened_anew_and_warm() {
    let dir = tempfile::tempdir().unwrap();
    let config = SysbenchConfig { seconds: 1.0, ..config(EngineKind::LsmLeveled) };
    let mut session = Session::new(&config, EngineKind::LsmLeveled, claimed(&dir), 1);
    session.run(Run::closed(Workload::Load, 0, 1), false).unwrap();
    let counted = |session: &mut Session<'_>, workload| {
        let counters = session.open(workload).unwrap().0.stats().unwrap().counters;
        ["written", "read"].map(|name| counters.get(&format!("rocksdb.number.keys.{name}")).copied().unwrap_or(0))
    };
    let [written, read] = counted(&mut session, Workload::Settle);
    assert!(written >= 1_000 && read == 0, "as the load left it: {written} written, {read} read");
    for workload in [Workload::ReadOnly, Workload::ReadOnly, Workload::UpdateIndex, Workload::PointSelect] {
        let [written, read] = counted(&mut session, workload);
        assert!(written < 1_000 && read > 0, "{workload}: {written} written, {read} read");
        session.run(Run::closed(workload, 1, 1), false).unwrap();
    }
    session.close().unwrap();
}

#[test]
fn rows_that_end_with_their_engine_are_read_and_not_changed() {
    let of = |workload| {
        let config = SysbenchConfig { workloads: vec![Workload::Load, workload], ..config(EngineKind::Memory) };
        run(&config, &mut Output::new(&mut Vec::new(), None, false))
    };
    assert_eq!(of(Workload::ReadOnly).unwrap().len(), 3);
    assert_eq!(of(Workload::WriteOnly).unwrap_err().kind(), ErrorKind::NotSupported);
}

#[test]
fn what_cannot_be_run_is_refused() {
    let refused = |change: fn(&mut SysbenchConfig)| {
        let mut config = config(EngineKind::LsmLeveled);
        change(&mut config);
        run(&config, &mut Output::new(&mut Vec::new(), None, false)).unwrap_err().to_string()
    };
    assert!(refused(|config| config.rows = 0).contains("--rows"));
    assert!(refused(|config| config.clients.clear()).contains("--clients is missing"));
    assert!(refused(|config| config.workloads = vec![Workload::ReadOnly]).contains("must begin with load"));
    assert!(refused(|config| config.offered.fractions = vec![0.5, 1.6]).contains("--fractions"));
    assert!(refused(|config| config.offered.rates = vec![0]).contains("--rate"));
    let cost = |workload, us| vec![StatementCost { workload, us }];
    let twice = [cost(Workload::ReadOnly, 1.0), cost(Workload::ReadOnly, 2.0)].concat();
    for costs in [cost(Workload::Load, 1.0), cost(Workload::ReadOnly, -1.0), cost(Workload::ReadOnly, f64::NAN), twice]
    {
        let config = SysbenchConfig { statement_costs: costs, ..config(EngineKind::LsmLeveled) };
        let error = run(&config, &mut Output::new(&mut Vec::new(), None, false)).unwrap_err().to_string();
        assert!(error.contains("--statement-us"), "{error}");
    }
}

#[test]
fn costs_of_statements_are_read_as_they_are_written() {
    for text in ["read_only=81", "write_only=75.5", "point_select=0"] {
        assert_eq!(text.parse::<StatementCost>().unwrap().to_string(), text);
    }
    for text in [
        "",
        "read_only",
        "read_only=",
        "read_only=x",
        "read_only=-1",
        "read_only=inf",
        "read_only=NaN",
        "load=3",
        "sleep=3",
    ] {
        assert!(text.parse::<StatementCost>().is_err(), "{text}");
    }
}

#[test]
fn a_client_takes_its_processor_time_for_every_statement() {
    let cost = Duration::from_micros(300);
    let engine = EngineKind::Memory.open_tables(Path::new("memory"), &config(EngineKind::Memory).settings).unwrap();
    let engine = engine.as_tables().unwrap();
    let id = engine.create_table(&rows::table(1)).unwrap();
    let mut row = RowBuffer::default();
    for number in 1..=250 {
        row.set_id(number);
        row.draw(250, &mut Rng::new(3, u64::from(number)));
        engine.insert(id, &[row.as_row()]).unwrap();
    }
    let shared = Shared::new(engine, std::slice::from_ref(&id), 250).unwrap().with_statement_cost(cost);
    for &workload in Workload::ALL.iter().filter(|workload| workload.has_clients()) {
        let mut client = Client::new(&shared, workload, 1, Rng::new(3, 1));
        let start = statement_cost::thread_time();
        for _ in 0..3 {
            client.transaction().unwrap();
        }
        let taken = statement_cost::thread_time() - start;
        assert_eq!(client.statements_done(), 3 * u64::from(workload.queries()), "{workload}");
        assert!(taken >= cost * 3 * workload.queries(), "{workload}: {taken:?}");
    }
}

#[test]
fn results_tell_what_was_taken_for_statements_and_are_none_of_those_without() {
    let without = config(EngineKind::Memory);
    let statement_costs = vec![StatementCost { workload: Workload::ReadOnly, us: 12.5 }];
    let with = SysbenchConfig { statement_costs, ..without.clone() };
    assert_ne!(with.config_hash(), without.config_hash());
    assert!(with.setup().ends_with("for each statement: read_only 12.5 us"), "{}", with.setup());
    assert!(!without.setup().contains("statement"), "{}", without.setup());
    let config = config_json::whole(&with).unwrap();
    assert_eq!(config["statement_costs"], serde_json::json!(["read_only=12.5"]));
    assert_eq!(with.statement_cost(Workload::ReadOnly), Duration::from_nanos(12_500));
    assert_eq!(with.statement_cost(Workload::WriteOnly), Duration::ZERO);
}

#[test]
fn memory_is_divided_as_the_set_up_says() {
    let given = EngineSettings::default().with_memory(240 << 20);
    let of = |kind| MemorySetup::PageCache.settings(kind, &given);
    let lsm = of(EngineKind::LsmLeveled);
    assert_eq!(
        (lsm.cache_bytes >> 20, (lsm.write_buffers * lsm.write_buffer_bytes) >> 20, lsm.direct),
        (30, 30, false)
    );
    let btree = of(EngineKind::Btree);
    assert_eq!((btree.memory_bytes() >> 20, btree.direct), (180, true));
    assert_eq!(MemorySetup::Budget.settings(EngineKind::Btree, &given), given);
}

#[test]
fn an_engine_whose_memory_cannot_be_limited_has_a_row_that_says_so() {
    let config = SysbenchConfig { memory: MemorySetup::PageCache, ..config(EngineKind::LsmLeveled) };
    let line = config.not_run(EngineKind::LsmLeveled, 1, &Error::not_supported("no controller"));
    assert_eq!((line.workload.as_str(), line.engine.as_str(), line.ops), ("not run", "lsm-leveled", 0));
    assert!(line.setup.contains("no memory cgroup could be made") && line.setup.contains("no controller"));
    assert_eq!(line.config.and_then(|config| config.get("memory").cloned()), Some("PageCache".into()));
}
