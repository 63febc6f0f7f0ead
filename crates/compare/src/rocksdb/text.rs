//! Figures from RocksDB's text reports.

use siltstone_base::engine::{Counters, StallMicros};

const GIB: f64 = (1u64 << 30) as f64;

/// Bytes are told in hundredths of a GiB; those that are written are the sum of two such figures.
pub(super) const BYTES_GRAIN: u64 = (1 << 30) / 100;

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

/// What it counts: writes and the groups they formed, writes and syncs of the log, compactions, and how often a limit held writers up, by its name.
pub(super) fn counters(database: &str, family: &str) -> Counters {
    let mut counters = Counters::new();
    let totals =
        [("Cumulative writes:", ["writes", "keys", "commit groups"]), ("Cumulative WAL:", ["writes", "syncs", ""])];
    for (start, words) in totals {
        let parts = line(database, start).and_then(|line| line.split_once(':')).map_or("", |(_, parts)| parts);
        for (number, unit) in parts.split(',').filter_map(|part| part.trim().split_once(' ')) {
            if let Some(count) = abbreviated(number).filter(|_| words.contains(&unit)) {
                let of = if start.contains("WAL") { "wal " } else { "" };
                counters.insert(format!("{of}{unit}").replace(' ', "_"), count);
            }
        }
    }
    // The table of levels has the number of compactions below its own heading.
    let column =
        line(family, "Level").and_then(|heading| heading.split_whitespace().position(|name| name == "Comp(cnt)"));
    let sums: Vec<_> = line(family, "Sum").map(|sums| sums.split_whitespace().collect()).unwrap_or_default();
    // Its sizes are two words under one heading.
    let compactions = column.and_then(|column| sums.get(column + 1)).and_then(|count| count.parse().ok());
    counters.extend(compactions.map(|count| ("compactions".to_owned(), count)));
    let stalls = line(family, "Write Stall (count):").and_then(|line| line.split_once("(count):"));
    for (name, count) in stalls.map_or("", |(_, causes)| causes).split(',').filter_map(|cause| cause.split_once(':')) {
        counters.extend(count.trim().parse().ok().map(|count| (name.trim().to_owned(), count)));
    }
    counters
}

/// A number as in "17", "12K", "3M" and "1G".
fn abbreviated(number: &str) -> Option<u64> {
    let digits = number.trim_end_matches(|unit: char| unit.is_ascii_alphabetic());
    let unit = match number.get(digits.len()..)? {
        "" => 1,
        "K" => 1_000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

fn line<'a>(text: &'a str, start: &str) -> Option<&'a str> {
    text.lines().find(|line| line.trim_start().starts_with(start))
}

fn number_before(line: &str, before: &str, after: &str) -> Option<f64> {
    line.split_once(before)?.1.split_once(after)?.0.trim().parse().ok()
}
