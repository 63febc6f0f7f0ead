//! Rows, counts of statements, and every workload on every engine that has tables.

use super::rows::{self, RowBuffer};
use super::*;
use crate::Rng;
use siltstone_base::env::{Env, PosixEnv};

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
fn a_workload_begins_with_what_was_loaded_whatever_another_one_changed() {
    let rows_after = |engine: EngineKind, workloads: &[Workload]| {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("db");
        let config = SysbenchConfig {
            workloads: [&[Workload::Load], workloads].concat(),
            clients: vec![2],
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
        let loaded = rows_after(engine, &[]);
        assert_eq!(loaded.len(), 250);
        assert_ne!(loaded, rows_after(engine, &[Workload::WriteOnly]));
        assert_eq!(loaded, rows_after(engine, &[Workload::WriteOnly, Workload::UpdateIndex, Workload::PointSelect]));
    }
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
}
