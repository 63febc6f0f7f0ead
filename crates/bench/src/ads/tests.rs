//! Events, and short runs of every row of the ladder.

use super::generator::{DAY, Generator, IDLE_DAY, ROW_BYTES, is_idle};
use super::*;
use crate::JsonLines;
use std::collections::BTreeSet;

/// The days of a run are over in two seconds.
fn config(rows: Vec<Row>, dir: &std::path::Path) -> AdsConfig {
    AdsConfig {
        rows,
        days: 70,
        day_seconds: 0.02,
        upserts_per_day: 40,
        sources: 2,
        rows_per_commit: 5,
        is_buffered: true,
        interval_s: 1.0,
        seed: 7,
        dir: Some(dir.join("db")),
        settings: EngineSettings::default().with_memory(4 << 20),
    }
}

#[test]
fn events_are_the_same_for_a_seed_and_leave_the_idle_third_out_in_time() {
    let events = |seed: u64| {
        let mut generator = Generator::new(1, 1000, seed);
        let mut rows = Vec::new();
        loop {
            let event = generator.next(5000);
            if event.micros >= 40 * DAY * 1_000_000 {
                return rows;
            }
            let day = event.micros / 1_000_000 / DAY;
            rows.extend(event.row.map(|(key, value)| (day, key, value.to_vec())));
        }
    };
    let rows = events(7);
    assert!(rows == events(7) && rows != events(8));
    let idle = |first: u64, end: u64| {
        let days = rows.iter().filter(|(day, ..)| (first..end).contains(day));
        let (count, idle) = days.fold((0, 0), |(count, idle), (_, key, _)| (count + 1, idle + u32::from(is_idle(key))));
        (count, f64::from(idle) / f64::from(count))
    };
    let (count, share) = idle(0, IDLE_DAY);
    assert!(count == 30_000 && (0.3..0.37).contains(&share), "{share} of {count}");
    let (count, share) = idle(IDLE_DAY, 40);
    assert!((6_000..7_400).contains(&count) && share == 0.0, "{share} of {count}");
    let different: BTreeSet<_> = rows.iter().map(|(_, key, _)| key).collect();
    let again = different.len() as f64 / rows.len() as f64;
    assert!((0.45..0.55).contains(&again), "{again}");
    assert!(rows.iter().all(|(_, key, value)| key.len() + value.len() == ROW_BYTES));
}

#[test]
fn every_row_of_the_ladder_runs_and_tells_its_figures() {
    let dir = tempfile::tempdir().unwrap();
    let mut text = Vec::new();
    let config =
        config(vec![Row::Second, Row::Ttl, Row::Dense, Row::ExpiryOff, Row::Btree, Row::BtreePurge], dir.path());
    let json = dir.path().join("lines.json");
    let lines = run(&config, &mut Output::new(&mut text, Some(JsonLines::create(&json).unwrap()), false)).unwrap();
    let text = String::from_utf8(text).unwrap();
    for (line, row) in lines.iter().zip(&config.rows) {
        assert_eq!((line.experiment.as_str(), line.workload.as_str()), ("ads", row.name()));
        assert!(line.ops > 1500 && line.written_per_upsert.is_some_and(|bytes| bytes > 100.0), "{line:?}");
        assert!(line.space_bytes.is_some() && line.startup_s.is_some() && line.shutdown_s.is_some(), "{line:?}");
        assert!(line.expired_share.is_some() && line.idle_expired_share.is_some(), "{line:?}");
        assert!(line.provenance.is_some() && text.contains(row.name()));
        assert!(line.device.is_some() && line.memory_bytes.is_some() && line.durability.is_some(), "{line:?}");
    }
    let env = siltstone_base::env::PosixEnv::new();
    let json = siltstone_base::env::read_file(&env, &json, siltstone_base::env::FileKind::Other, 1 << 24).unwrap();
    let json = String::from_utf8(json).unwrap();
    // Where the system does not tell what a process writes, there are no curves.
    let is_told = crate::ProcessUsage::now().written.is_some();
    let intervals = json.lines().filter(|line| line.contains("\"interval_s\""));
    let with_bytes = intervals.filter(|line| line.contains("\"written_per_s\"") && line.contains("\"read_per_s\""));
    assert!(!is_told || with_bytes.count() >= lines.len(), "{json}");
}

#[test]
fn lines_say_what_the_engine_of_a_row_is_given() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = config(Row::ALL.to_vec(), dir.path());
    config.settings.device = crate::engines::Device::SlowSsd;
    let (cache, buffers) =
        (config.settings.cache_bytes, config.settings.write_buffers * config.settings.write_buffer_bytes);
    for (row, durability, memory) in [
        (Row::Commit, "commit", cache + buffers),
        (Row::Second, "second", cache + buffers),
        (Row::Ttl, "second", cache / 4 + buffers),
        (Row::Btree, "second", cache + buffers),
    ] {
        let line = row.line(&config);
        assert_eq!(line.durability.as_deref(), Some(durability), "{row}");
        assert_eq!(line.memory_bytes, Some(memory as u64), "{row}");
        assert_eq!(line.device.as_deref(), Some("slow-ssd"), "{row}");
        assert_eq!((line.data_bytes, line.compressed), (Some(config.data_bytes()), Some(true)), "{row}");
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    for wrong in [
        AdsConfig { rows: Vec::new(), ..config(Vec::new(), dir.path()) },
        AdsConfig { days: 0, ..config(vec![Row::Ttl], dir.path()) },
        AdsConfig { day_seconds: 0.0, ..config(vec![Row::Ttl], dir.path()) },
        AdsConfig { sources: 0, ..config(vec![Row::Ttl], dir.path()) },
    ] {
        assert!(run(&wrong, &mut Output::new(&mut Vec::new(), None, false)).is_err());
    }
    assert!("nothing".parse::<Row>().is_err() && Row::ALL.iter().all(|row| row.name().parse() == Ok(*row)));
}
