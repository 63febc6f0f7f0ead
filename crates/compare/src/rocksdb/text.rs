//! Figures from RocksDB's text reports.

use siltstone_base::engine::StallMicros;

const GIB: f64 = (1u64 << 30) as f64;

/// Bytes of the log, of flushes and of compactions.
pub(super) fn bytes_written(database: &str, family: &str) -> Option<u64> {
    let log = number_before(line(database, "Cumulative WAL:")?, "written: ", " GB")?;
    let tables = number_before(line(family, "Cumulative compaction:")?, "compaction: ", " GB write")?;
    Some(((log + tables) * GIB) as u64)
}

/// Bytes that compactions read.
pub(super) fn bytes_compacted_read(family: &str) -> Option<u64> {
    let read = number_before(line(family, "Cumulative compaction:")?, "MB/s write, ", " GB read")?;
    Some((read * GIB) as u64)
}

/// The time that writers were held up.
pub(super) fn stall_micros(database: &str) -> Option<StallMicros> {
    let line = line(database, "Cumulative stall:")?;
    let time = line.split_once("stall: ")?.1.split_once(" H:M:S")?.0;
    let mut seconds = 0.0;
    for part in time.split(':') {
        seconds = seconds * 60.0 + part.parse::<f64>().ok()?;
    }
    let micros = (seconds * 1e6) as u64;
    let mut stalls = StallMicros::new();
    if micros > 0 {
        stalls.insert("all".to_owned(), micros);
    }
    Some(stalls)
}

fn line<'a>(text: &'a str, start: &str) -> Option<&'a str> {
    text.lines().find(|line| line.trim_start().starts_with(start))
}

fn number_before(line: &str, before: &str, after: &str) -> Option<f64> {
    line.split_once(before)?.1.split_once(after)?.0.trim().parse().ok()
}
