//! `kv` on the engine in memory.

use super::client::{KEY_BYTES, encode_key};
use super::*;
use crate::JsonLines;

fn config(workloads: &[Workload]) -> KvConfig {
    KvConfig {
        engines: vec![EngineKind::Memory],
        workloads: workloads.to_vec(),
        num: 2_000,
        value_size: 100,
        threads: 2,
        batch: 1,
        rate: None,
        pairs: 1,
        existing: false,
        interval_s: 1.0,
        seed: 7,
        dir: None,
        settings: EngineSettings::default(),
    }
}

fn run_quietly(config: &KvConfig) -> Result<(Vec<ResultLine>, String)> {
    let mut text = Vec::new();
    let lines = run(config, &mut Output::new(&mut text, None, false))?;
    Ok((lines, String::from_utf8_lossy(&text).into_owned()))
}

#[test]
fn every_workload_does_its_operations() {
    let (lines, text) = run_quietly(&config(Workload::ALL)).unwrap();
    // 2,000 draws of 2,000 keys, several times over: the rows in order are what the last of them left.
    let expected: &[(&str, Option<u64>)] = &[
        ("fillseq", Some(2_000)),
        ("fillrandom", Some(2_000)),
        ("overwrite", Some(2_000)),
        ("readrandom", Some(1_000)),
        ("multireadrandom", Some(1_000)),
        ("readmissing", Some(1_000)),
        ("seekrandom", Some(1_000)),
        ("readseq", None),
        ("readwhilewriting", Some(1_000)),
        ("fillsync", Some(2_000)),
        ("settle", Some(0)),
    ];
    assert_eq!(lines.len(), expected.len());
    assert!(lines.iter().all(|line| line.provenance.is_some()));
    for (line, (workload, ops)) in lines.iter().zip(expected) {
        assert_eq!(line.workload, *workload);
        assert!(ops.is_none_or(|ops| line.ops == ops), "{line:?}");
        assert!(text.contains(workload), "{text}");
    }
    let of = |workload: &str| lines.iter().find(|line| line.workload == workload).unwrap();
    let rows = of("readseq").ops;
    assert!((1_600..1_900).contains(&rows), "two rounds of 2,000 draws leave about 1,730 keys, not {rows}");
    assert_eq!(of("fillseq").bytes_user, 2_000 * 116);
    assert_eq!(of("readmissing").bytes_user, 0);
    assert!(of("multireadrandom").bytes_user > 500 * 116);
    assert_eq!(of("readseq").bytes_user, rows * 116);
    assert!(of("readwhilewriting").writer_ops_per_s.is_some());
    for line in lines.iter().filter(|line| line.workload != "settle") {
        assert!(line.max_us >= line.p9999_us && line.p9999_us >= line.p50_us, "{line:?}");
        assert!(line.harness_ns_per_op.is_some_and(|nanos| nanos > 0.0), "{line:?}");
    }
}

#[test]
fn batches_write_every_key() {
    let mut config = config(&[Workload::FillSeq, Workload::ReadSeq]);
    config.batch = 300;
    let (lines, _) = run_quietly(&config).unwrap();
    assert_eq!(lines[1].ops, 2_000);
}

#[test]
fn arrivals_of_an_open_loop_are_all_served() {
    let mut config = config(&[Workload::FillRandom, Workload::ReadRandom]);
    config.rate = Some(100_000);
    let (lines, text) = run_quietly(&config).unwrap();
    assert_eq!(lines[0].ops, 2_000);
    assert_eq!(lines[1].ops, 1_000);
    assert!(lines.iter().all(|line| line.generator_late_max_us.is_some()));
    assert!(text.contains("late max us"), "{text}");
}

#[test]
fn a_rate_of_batches_is_refused_for_most_of_their_puts_would_take_no_time() {
    let mut config = config(&[Workload::FillRandom]);
    (config.rate, config.batch) = (Some(100_000), 300);
    assert!(run_quietly(&config).unwrap_err().to_string().contains("--batch must be 1"));
}

#[test]
fn engines_alternate_and_are_held_against_each_other() {
    let mut config = config(&[Workload::FillRandom]);
    config.engines = vec![EngineKind::Memory, EngineKind::Null];
    config.pairs = 3;
    let (lines, text) = run_quietly(&config).unwrap();
    let order: Vec<_> = lines.iter().map(|line| (line.pair, line.engine.as_str())).collect();
    assert_eq!(order, [(1, "memory"), (1, "null"), (2, "null"), (2, "memory"), (3, "memory"), (3, "null")]);
    assert!(text.contains("memory / null"), "{text}");
    assert!(text.contains("Fewer than 5 pairs"), "{text}");
}

#[test]
fn json_has_a_line_a_run_with_null_for_what_is_unknown() {
    let dir = tempfile::TempDir::new().unwrap();
    let path = dir.path().join("out/results.json");
    let mut text = Vec::new();
    let json = JsonLines::create(&path).unwrap();
    run(&config(&[Workload::FillSeq]), &mut Output::new(&mut text, Some(json), false)).unwrap();
    let data = siltstone_base::env::read_file(
        &siltstone_base::env::PosixEnv::new(),
        &path,
        siltstone_base::env::FileKind::Other,
        1 << 20,
    )
    .unwrap();
    let lines: Vec<serde_json::Value> =
        String::from_utf8(data).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines.len() >= 2, "a result and at least one interval");
    let line = lines[0].as_object().unwrap();
    for field in [
        "experiment",
        "workload",
        "engine",
        "config_hash",
        "ops",
        "seconds",
        "ops_per_s",
        "p50_us",
        "p95_us",
        "p99_us",
        "p999_us",
        "p9999_us",
        "max_us",
        "bytes_user",
        "bytes_written",
        "bytes_read",
        "process_written",
        "process_read",
        "write_amp",
        "space_bytes",
        "space_amp",
        "debt_bytes",
        "stall_us",
        "cpu_s",
        "rss_mb",
    ] {
        assert!(line.contains_key(field), "{field}");
    }
    assert!(line["write_amp"].is_null());
    assert!(line["setup"].as_str().unwrap().starts_with("2,000 keys, values of 100 bytes, 1 at a time, durability os"));
    assert_eq!(line["ops"], 2_000);
    assert!(lines[1]["interval_s"].is_number());
}

#[test]
fn a_read_without_a_database_is_refused() {
    let error = run_quietly(&config(&[Workload::ReadRandom])).unwrap_err();
    assert_eq!(error.kind(), siltstone_base::ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("--existing"), "{error}");
}

#[test]
fn keys_sort_as_their_numbers() {
    let mut last = [0; KEY_BYTES];
    for number in [0, 1, 255, 256, 70_000, u64::MAX] {
        let mut key = [b'0'; KEY_BYTES];
        encode_key(number, &mut key);
        assert!(last < key);
        last = key;
    }
}
