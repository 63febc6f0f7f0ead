//! `insert` on the engine in memory, its rows and its binlog.

use super::binlog::Binlog;
use super::rows::RowSource;
use super::*;
use siltstone_base::checksum::crc32c;
use siltstone_base::env::{Env, FileKind, PosixEnv, read_file};
use siltstone_base::memcomparable::get;
use std::sync::Arc;

fn config(schema: Schema, binlog: BinlogMode) -> InsertConfig {
    InsertConfig {
        engines: vec![EngineKind::Memory],
        rows: 1_050,
        clients: 2,
        rows_per_commit: 100,
        schema,
        binlog,
        pairs: 1,
        steps: vec![Step::Load, Step::Settle],
        index_modes: vec![IndexMode::Eager],
        updates: 0,
        more_rows: 0,
        query_seconds: 0.1,
        insert_seconds: None,
        interval_s: 1.0,
        seed: 3,
        dir: None,
        settings: EngineSettings::default(),
    }
}

#[test]
fn every_row_is_inserted_in_both_schemas() {
    for schema in [Schema::Of2017, Schema::Current] {
        let mut text = Vec::new();
        let lines = run(&config(schema, BinlogMode::Os), &mut Output::new(&mut text, None, false)).unwrap();
        let steps: Vec<_> = lines.iter().map(|line| (line.workload.as_str(), line.ops)).collect();
        assert_eq!(steps, [("l", 1_050), ("settle", 0)]);
        let row = 4 + 21 + 2 + 15 + 45;
        let mean = lines[0].bytes_user / 1_050;
        assert!((row - 3..=row + 20).contains(&mean), "{schema}: {mean} bytes a row");
        assert!(lines[0].binlog_bytes > Some(1_050 * 37), "{schema}");
        assert!(lines[0].harness_ns_per_op.is_some());
        assert!(lines.iter().all(|line| line.provenance.is_some()));
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains("KB w/row"), "{text}");
    }
}

#[test]
fn later_steps_insert_at_the_end_and_delete_at_the_beginning() {
    for kind in [EngineKind::LsmLeveled, EngineKind::Btree] {
        let mut config = config(Schema::Of2017, BinlogMode::Os);
        config.engines = vec![kind];
        config.steps = ["l", "l.i1", "l.i2", "qr5000", "qp5000"].map(|step| step.parse().unwrap()).to_vec();
        config.more_rows = 500;
        let mut text = Vec::new();
        let lines = run(&config, &mut Output::new(&mut text, None, false)).unwrap();
        let inserted: Vec<_> = lines.iter().take(3).map(|line| (line.workload.as_str(), line.ops)).collect();
        assert_eq!(inserted, [("l", 1_050), ("l.i1", 400), ("l.i2", 100)], "{kind:?}");
        for line in &lines {
            assert_eq!(
                line.data_bytes, lines[0].data_bytes,
                "{kind:?} {}: as many are deleted as inserted",
                line.workload
            );
            assert!(line.binlog_bytes > Some(0), "{kind:?} {}", line.workload);
        }
        for line in &lines[3..] {
            assert!(line.ops > 0 && line.writer_ops_per_s > Some(0.0), "{kind:?} {}", line.workload);
            assert_eq!(line.offered_ops_per_s, Some(10_000.0));
        }
    }
}

#[test]
fn indexes_are_added_to_rows_that_were_loaded_without() {
    let steps = ["l.i0", "settle", "l.x", "l.i1", "qr5000"].map(|step| step.parse().unwrap()).to_vec();
    let eager = vec![IndexMode::Eager];
    for (kind, modes) in [
        (EngineKind::Memory, eager.clone()),
        (EngineKind::LsmLeveled, vec![IndexMode::Eager, IndexMode::Lazy]),
        (EngineKind::LsmUniversal, eager.clone()),
        (EngineKind::Btree, eager),
    ] {
        for schema in [Schema::Of2017, Schema::Current] {
            let mut config = config(schema, BinlogMode::Os);
            (config.engines, config.index_modes) = (vec![kind], modes.clone());
            (config.steps, config.more_rows) = (steps.clone(), 500);
            let mut text = Vec::new();
            let lines = run(&config, &mut Output::new(&mut text, None, false)).unwrap();
            for lines in lines.chunks(5) {
                let done: Vec<_> = lines.iter().take(4).map(|line| (line.workload.as_str(), line.ops)).collect();
                assert_eq!(done, [("l.i0", 1_050), ("settle", 0), ("l.x", 1_050), ("l.i1", 400)], "{kind:?}");
                let entries = 1_050 * schema.entry_bytes() as u64;
                assert_eq!(lines[2].bytes_user, entries, "{kind:?}");
                assert_eq!(lines[2].data_bytes, lines[0].data_bytes.map(|bytes| bytes + entries), "{kind:?}");
                assert!(lines[2].seconds > 0.0 && lines[2].binlog_bytes.is_none() && lines[2].p50_us.is_some());
                if kind != EngineKind::Memory {
                    assert!(lines[2].bytes_written >= Some(entries / 2), "{kind:?}: {:?}", lines[2].bytes_written);
                }
                // Queries find the index that they ask for.
                assert!(lines[4].ops > 0, "{kind:?}");
            }
        }
    }
}

/// The rows of every client's table, and the entries of each index that lead to one, of a database that was left in `dir`.
#[cfg(feature = "peers")]
fn counted(kind: EngineKind, dir: &std::path::Path, config: &InsertConfig) -> Vec<[usize; 4]> {
    use siltstone_base::index_scan::IndexScan;
    let engine = kind.open_tables(dir, &config.settings).unwrap();
    let tables = engine.as_tables().unwrap();
    let of_client = |client| {
        let table = tables.open_table(&config.schema.table(client)).unwrap();
        let rows = tables.scan_rows(table, b"", usize::MAX, &mut |_| {}).unwrap();
        let entries = |index| tables.scan_rows_by(table, index, &IndexScan::all(), &mut |_, _| {}).unwrap();
        [rows, entries(0), entries(1), entries(2)]
    };
    let counted = (1..=config.clients).map(of_client).collect();
    engine.admin.close().unwrap();
    counted
}

#[test]
#[cfg(feature = "peers")]
fn foreign_engines_run_every_step_and_end_with_the_rows_and_entries_of_ours() {
    let ours = [EngineKind::LsmLeveled, EngineKind::Btree];
    let foreign = EngineKind::ALL.iter().copied().filter(|kind| kind.is_foreign());
    for steps in ["l,settle,l.i1,l.i2,u,pause,qr5000,qp5000", "l.i0,settle,l.x,u,l.i1,qr5000"] {
        for kind in ours.into_iter().chain(foreign.clone()) {
            let dir = tempfile::TempDir::new().unwrap();
            let path = dir.path().join("db");
            let mut config = config(Schema::Of2017, BinlogMode::Os);
            config.steps = steps.split(',').map(|step| step.parse().unwrap()).collect();
            (config.engines, config.dir) = (vec![kind], Some(path.clone()));
            (config.updates, config.more_rows) = (600, 500);
            config.settings = EngineSettings::default().with_memory(24 << 20);
            let lines = run(&config, &mut Output::new(&mut Vec::new(), None, false)).unwrap();
            let ops = |step: &str| lines.iter().find(|line| line.workload == step).map(|line| line.ops);
            assert_eq!(
                [ops("l").or(ops("l.i0")), ops("u"), ops("l.i1")],
                [Some(1_050), Some(600), Some(400)],
                "{kind}"
            );
            // How many queries there were is a matter of time.
            assert!(ops("l.x").is_none_or(|rows| rows == 1_050) && ops("qr5000").is_some(), "{kind}");
            for line in &lines {
                assert!(line.engine.starts_with(kind.name()), "{line:?}");
                let conditions = [line.device.as_deref(), line.durability.as_deref()];
                assert_eq!((conditions, line.compressed), ([Some("none"), Some("os")], Some(true)), "{kind}");
                assert_eq!((line.memory_bytes, line.data_bytes > Some(0)), (Some(24 << 20), true), "{kind}");
            }
            assert_eq!(counted(kind, &path, &config), [[525; 4]; 2], "{kind} after {steps}");
        }
    }
}

#[test]
fn steps_in_an_impossible_order_are_refused() {
    for (steps, said) in [
        (&[][..], "empty"),
        (&["l.x"], "l.x comes first, and there are no rows"),
        (&["settle", "l"], "settle comes first"),
        (&["l", "l.x"], "l.x adds indexes that the tables have"),
        (&["l.i0", "l.x", "l.x"], "l.x adds indexes that the tables have"),
        (&["l", "l.i0"], "l.i0 is not the first step"),
        (&["l.i0", "l.i1"], "l.i1 needs the indexes that l.x adds"),
        (&["l.i0", "settle", "qr100", "l.x"], "qr100 needs the indexes"),
        (&["l.i0", "l"], "l needs the indexes"),
    ] {
        let mut config = config(Schema::Of2017, BinlogMode::Off);
        config.steps = steps.iter().map(|step| step.parse().unwrap()).collect();
        let error = run(&config, &mut Output::new(&mut Vec::new(), None, false)).unwrap_err();
        assert_eq!(error.kind(), siltstone_base::ErrorKind::InvalidArgument);
        assert!(error.to_string().contains(said), "{steps:?}: {error}");
    }
}

#[test]
fn updates_read_rows_eagerly_and_nothing_lazily() {
    let mut config = config(Schema::Of2017, BinlogMode::Off);
    config.engines = vec![EngineKind::LsmLeveled];
    config.index_modes = vec![IndexMode::Eager, IndexMode::Lazy];
    config.steps = ["l", "u", "settle", "l.i1", "qr5000", "qp5000"].map(|step| step.parse().unwrap()).to_vec();
    // Too few for a sweep in the background to look at anything.
    config.updates = 600;
    config.more_rows = 500;
    let mut text = Vec::new();
    let lines = run(&config, &mut Output::new(&mut text, None, false)).unwrap();
    let [eager, lazy] = [&lines[..6], &lines[6..]];
    assert_eq!([eager[1].ops, lazy[1].ops], [600; 2]);
    assert_eq!([eager[0].lookups, lazy[0].lookups, lazy[1].lookups], [Some(0); 3]);
    assert_eq!(eager[1].lookups, Some(600));
    assert_eq!([eager[1].stale_share, lazy[0].stale_share], [None, Some(0.0)]);
    assert!(lazy[1].stale_share.is_some_and(|share| share > 0.0), "{:?}", lazy[1]);
    assert_eq!(lazy[3].ops, 400);
    assert!(lazy[4].ops > 0 && lazy[5].ops > 0);
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("lsm-leveled lazy indexes / lsm-leveled"), "{text}");
}

#[test]
fn an_engine_without_lazy_tables_says_so() {
    let mut config = config(Schema::Of2017, BinlogMode::Off);
    config.engines = vec![EngineKind::Btree];
    config.index_modes = vec![IndexMode::Lazy];
    let error = run(&config, &mut Output::new(&mut Vec::new(), None, false)).unwrap_err();
    assert_eq!(error.kind(), siltstone_base::ErrorKind::NotSupported);
}

#[test]
fn deleting_more_than_there_is_says_so() {
    let dir = tempfile::TempDir::new().unwrap();
    let config = config(Schema::Of2017, BinlogMode::Off);
    let engine = EngineKind::Memory.open_tables(dir.path(), &config.settings).unwrap();
    let tables = engine.as_tables().unwrap();
    let table = tables.create_table(&config.schema.table(1)).unwrap();
    let mut rows = commit::Commit::new(&config, 0, 1);
    rows.fill(3);
    tables.insert(table, &rows.rows()).unwrap();
    let mut oldest = commit::Oldest::default();
    oldest.delete(tables, table, &[], 2).unwrap();
    let error = oldest.delete(tables, table, &[], 2).unwrap_err();
    assert!(error.to_string().contains("2 rows were to be deleted, and 1 are there"), "{error}");
}

#[test]
fn steps_are_read_as_they_are_printed() {
    for text in ["l", "l.i0", "l.x", "settle", "l.i1", "l.i2", "pause", "u", "qr100", "qp1000"] {
        assert_eq!(text.parse::<Step>().unwrap().to_string(), text);
    }
    for text in ["", "l.i", "qr", "qr0", "qp-1", "qs100"] {
        assert!(text.parse::<Step>().is_err(), "{text}");
    }
}

#[test]
fn inserters_commit_at_their_rate() {
    let mut pace = queries::Pace::new(100, 50).unwrap();
    assert_eq!([pace.next(), pace.next(), pace.next()], [0.0, 0.5, 1.0]);
    assert!(queries::Pace::new(0, 50).is_err());
}

#[test]
fn a_pool_that_is_too_small_for_a_commit_gets_it_in_pieces() {
    let mut config = config(Schema::Of2017, BinlogMode::Off);
    config.engines = vec![EngineKind::Btree];
    config.rows = 400;
    config.settings = EngineSettings::default().with_memory(6 << 20);
    config.settings.change_buffering = Some(crate::engines::ChangeBuffering::None);
    let mut text = Vec::new();
    let lines = run(&config, &mut Output::new(&mut text, None, false)).unwrap();
    assert_eq!(lines[0].ops, 400);
    // 384 pages, of which an eighth may change at once: rows of three entries.
    assert_eq!(lines[0].rows_per_commit_split, Some(12));
    let (data, logs) = (lines[0].space_bytes.unwrap(), lines[0].log_space_bytes.unwrap());
    assert!(data < 64 << 20 && logs > 1 << 20, "{data} and {logs}");
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("btree took at most 12 rows at once") && text.contains("change buffer none"), "{text}");
}

#[test]
fn a_step_that_takes_too_long_leaves_rows_out() {
    let mut config = config(Schema::Of2017, BinlogMode::Off);
    config.engines = vec![EngineKind::LsmLeveled];
    (config.rows, config.insert_seconds) = (1_000_000_000, Some(0.1));
    config.steps = ["l", "qp100"].map(|step| step.parse().unwrap()).to_vec();
    let mut text = Vec::new();
    let lines = run(&config, &mut Output::new(&mut text, None, false)).unwrap();
    assert!((1..config.rows).contains(&lines[0].ops), "{}", lines[0].ops);
    assert_eq!(lines[0].rows_left_out, Some(config.rows - lines[0].ops));
    assert!(lines[1].ops > 0 && lines[1].rows_left_out.is_none(), "what is there is read");
    let told = String::from_utf8(text.clone()).unwrap();
    assert!(told.contains("step l was ended after") && told.contains("it is not compared"), "{told}");
    let other = ResultLine { engine: "other".to_owned(), ..lines[0].clone() };
    assert_eq!(crate::ratios::of_all(&[lines[0].clone(), other], &["l"], 5), "");
    assert_ne!(config.config_hash(), InsertConfig { insert_seconds: None, ..config.clone() }.config_hash());
    let later = ["l.i0", "l.x", "settle"].map(|step| step.parse().unwrap()).to_vec();
    let settled = ["l", "settle"].map(|step| step.parse().unwrap()).to_vec();
    let hash = |steps| InsertConfig { steps, ..config.clone() }.config_hash();
    assert_ne!(hash(later), hash(settled), "indexes that were added have another size");
    assert_eq!(hash(config.steps.clone()), config.config_hash());
    config.insert_seconds = Some(0.0);
    assert!(run(&config, &mut Output::new(&mut text, None, false)).is_err());
}

#[test]
fn rows_have_the_columns_of_their_schema() {
    let mut source = RowSource::new(Schema::Of2017, 1, 0);
    let mut bytes = Vec::new();
    for id in 1..=1_000 {
        bytes.clear();
        let key_end = source.next(1_700_000_000, &mut bytes);
        let (mut key, mut value) = bytes.split_at(key_end);
        assert_eq!(get::<i32>(&mut key).unwrap(), id);
        let mut date = [0; 8];
        date[3..].copy_from_slice(&value[..5]);
        assert_eq!(u64::from_be_bytes(date), 1_700_000_000);
        value = &value[5..];
        let register = get::<i32>(&mut value).unwrap();
        let customer = get::<i32>(&mut value).unwrap();
        let product = get::<i32>(&mut value).unwrap();
        let price = get::<f32>(&mut value).unwrap();
        assert!((0..1_000).contains(&register) && (0..100_000).contains(&customer) && (0..10_000).contains(&product));
        let hundredths = f64::from(price) * 100.0 - f64::from(customer);
        assert!((-0.6..=500.6).contains(&hundredths), "price {price} of customer {customer}");
        let len = usize::from(u16::from_be_bytes([value[0], value[1]]));
        assert!((10..=20).contains(&len));
        assert_eq!(value.len(), 2 + len);
        assert!(value[2 + len / 2..].iter().all(|&byte| byte == b'a'));
    }
}

#[test]
fn entry_bytes_are_those_of_the_indexes() {
    for schema in [Schema::Of2017, Schema::Current] {
        let mut bytes = Vec::new();
        let key_end = RowSource::new(schema, 1, 0).next(1, &mut bytes);
        let (key, value) = bytes.split_at(key_end);
        let mut entries = Vec::new();
        for index in schema.table(1).indexes {
            assert!(index.entry(key, value, &mut entries));
        }
        assert_eq!(entries.len(), schema.entry_bytes());
    }
}

#[test]
fn a_binlog_holds_every_commit_of_every_client() {
    for mode in ["os", "sync", "3"] {
        let dir = tempfile::TempDir::new().unwrap();
        let env: Arc<dyn Env> = Arc::new(PosixEnv::new());
        let binlog = Binlog::create(Arc::clone(&env), dir.path(), mode.parse().unwrap()).unwrap().unwrap();
        std::thread::scope(|scope| {
            for client in 0..4_u8 {
                let binlog = &binlog;
                scope.spawn(move || {
                    for number in 0..50_u8 {
                        binlog.commit(&vec![client; usize::from(number) + 1]).unwrap();
                    }
                });
            }
        });
        let data = read_file(&*env, &dir.path().join("binlog.000001"), FileKind::Binlog, 1 << 20).unwrap();
        assert_eq!(binlog.written().0, data.len() as u64);
        let mut next = [1_usize; 4];
        let mut rest = &data[..];
        while !rest.is_empty() {
            let len = u32::from_le_bytes(rest[..4].try_into().unwrap()) as usize;
            let rows = &rest[8..8 + len];
            assert_eq!(u32::from_le_bytes(rest[4..8].try_into().unwrap()), crc32c(rows));
            let client = usize::from(rows[0]);
            assert_eq!(len, next[client], "commits of a client stand in its order");
            next[client] += 1;
            rest = &rest[8 + len..];
        }
        assert_eq!(next, [51; 4], "{mode}");
        let syncs = env.io_stats().snapshot().of_kind(FileKind::Binlog).syncs;
        let groups = binlog.written().1;
        assert_eq!(
            syncs,
            match mode {
                "os" => 0,
                "sync" => groups,
                _ => groups / 3,
            }
        );
    }
}

#[test]
fn binlog_modes_are_read_as_they_are_printed() {
    for text in ["off", "os", "sync", "1", "1000"] {
        assert_eq!(text.parse::<BinlogMode>().unwrap().to_string(), text);
    }
    for text in ["", "0", "-1", "always"] {
        assert!(text.parse::<BinlogMode>().is_err(), "{text}");
    }
}

#[test]
fn statements_insert_the_rows_that_engines_get() {
    let config = sql::SqlConfig { rows: 5, client: 2, rows_per_commit: 2, schema: Schema::Of2017, seed: 3 };
    let mut text = Vec::new();
    sql::write_inserts(&config, &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let statements: Vec<_> = text.lines().collect();
    assert_eq!(statements.len(), 3, "{text}");
    assert!(statements[0].starts_with("insert into pi2 values (1,from_unixtime("), "{text}");
    assert!(statements[2].starts_with("insert into pi2 values (5,"), "{text}");
    let mut source = RowSource::new(Schema::Of2017, 3, 1);
    let mut bytes = Vec::new();
    let key_end = source.next(1_700_000_000, &mut bytes);
    let row = Schema::Of2017.decode(&bytes[..key_end], &bytes[key_end..]).unwrap();
    let columns = format!("),{},{},{},{},'{}')", row.register, row.customer, row.product, row.price, row.data);
    assert!(statements[0].contains(&columns), "{columns} in {text}");
    assert_eq!((row.id, row.seconds), (1, 1_700_000_000));
    assert!((10..=20).contains(&row.data.len()));
    for schema in [Schema::Of2017, Schema::Current] {
        let mut text = Vec::new();
        sql::write_table(&sql::SqlConfig { schema, ..config }, "innodb", &mut text).unwrap();
        assert!(String::from_utf8(text).unwrap().ends_with("engine=innodb default charset=latin1;\n"));
    }
}

#[test]
fn statements_that_make_no_sense_are_refused() {
    let config = sql::SqlConfig { rows: 5, client: 0, rows_per_commit: 2, schema: Schema::Of2017, seed: 3 };
    for config in [config, sql::SqlConfig { client: 1, rows_per_commit: 0, ..config }] {
        let error = sql::write_inserts(&config, &mut Vec::new()).unwrap_err();
        assert_eq!(error.kind(), siltstone_base::ErrorKind::InvalidArgument);
    }
}

#[test]
fn a_step_of_queries_whose_inserters_do_not_keep_their_rate_failed() {
    let line = |offered: Option<f64>, kept: Option<f64>| ResultLine {
        engine: "btree".to_owned(),
        workload: "qr1000".to_owned(),
        offered_ops_per_s: offered,
        writer_ops_per_s: kept,
        ..ResultLine::default()
    };
    let failed = "btree step qr1000 failed: 1,800 of 2,000 rows/s were inserted beside the queries.";
    assert!(tables::results(&[line(Some(2_000.0), Some(1_800.0))]).contains(failed));
    for kept in [line(Some(2_000.0), Some(1_950.0)), line(None, Some(1.0)), line(None, None)] {
        assert!(!tables::results(&[kept]).contains("failed"));
    }
}
