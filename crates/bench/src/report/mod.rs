//! The command `report`: results in JSON to one self-contained page.
//!
//! The page shows what was measured, beside what was published where there is a figure for the same thing: published,
//! measured, ratio, and whether the shape of the publication holds. Rates and latencies over time are drawn from the interval lines. Nothing is loaded from anywhere.

use crate::{IntervalLine, ResultLine};
use serde_json::Value;
use siltstone_base::env::{Env, FileKind, PosixEnv, read_file, write_file_atomically};
use siltstone_base::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};

mod ads;
mod amplification;
mod charts;
mod comparison;
mod conditions;
mod heat;
mod over_time;
mod page;
mod provenance;
pub mod published;
mod rates;
mod sections;
mod shapes;
mod system;
#[cfg(test)]
mod tests;
mod verdicts;

/// Longest file of results that is read, in bytes.
const MOST_BYTES: u64 = 1 << 30;

/// The step that waits until nothing is left to do.
const SETTLE: &str = "settle";

/// What one run of a command left in its JSON file: a result, and the intervals that follow it.
#[derive(Debug, Clone, PartialEq)]
pub struct RunRecord {
    /// The figures.
    pub result: ResultLine,
    /// The rates and latencies over time.
    pub intervals: Vec<IntervalLine>,
    /// What was left to do behind it, where a step that waits for that comes next.
    pub settling: Option<Settling>,
}

/// What an engine did behind a step until nothing was left to flush and to compact.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settling {
    /// How long it took.
    pub seconds: f64,
    /// Bytes written meanwhile; `None` where the system does not count them.
    pub written: Option<u64>,
}

impl RunRecord {
    /// A run without intervals, of whose settling nothing is known.
    pub(crate) const fn new(result: ResultLine) -> Self {
        Self { result, intervals: Vec::new(), settling: None }
    }

    /// Takes note of the next result of the same file.
    fn followed_by(&mut self, next: &ResultLine) {
        let result = &self.result;
        let is_same =
            result.engine == next.engine && result.config_hash == next.config_hash && result.pair == next.pair;
        if is_same && next.workload == SETTLE {
            self.settling = Some(Settling { seconds: next.seconds, written: next.process_written });
        }
    }
}

/// Reads the lines of a file of results.
///
/// # Errors
///
/// `Corruption` with the number of the line that is no JSON object of ours.
pub fn parse(text: &str, file: &Path) -> Result<Vec<RunRecord>> {
    let mut records: Vec<RunRecord> = Vec::new();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let bad = |error: serde_json::Error| {
            Error::new(ErrorKind::Corruption, format!("line {} is no result", number + 1))
                .with_file(file)
                .with_source(error)
        };
        let value: Value = serde_json::from_str(line).map_err(bad)?;
        if value.get("cell").is_some() {
            // Of which experiment of `all` the file is.
            continue;
        }
        if value.get("interval_s").is_some() {
            let interval = serde_json::from_value(value).map_err(bad)?;
            if let Some(record) = records.last_mut() {
                record.intervals.push(interval);
            }
        } else {
            let result = serde_json::from_value(value).map_err(bad)?;
            if let Some(before) = records.last_mut() {
                before.followed_by(&result);
            }
            records.push(RunRecord::new(result));
        }
    }
    Ok(records)
}

/// Reads files of results and writes the page.
pub fn run(files: &[PathBuf], page: &Path) -> Result<()> {
    write(page, &page::render(&read(files)?)?)
}

/// Reads files of results and writes the page of the control: every comparison that is within its bounds, with the labels of engines exchanged.
///
/// # Errors
///
/// `Incomplete`, once the page is written, where a comparison does not fail then.
pub fn control(files: &[PathBuf], page: &Path) -> Result<()> {
    let (html, hold) = page::render_control(&read(files)?);
    write(page, &html)?;
    match hold {
        0 => Ok(()),
        _ => Err(Error::new(
            ErrorKind::Incomplete,
            format!("{hold} comparisons do not fail with labels exchanged: see {}", page.display()),
        )),
    }
}

fn read(files: &[PathBuf]) -> Result<Vec<RunRecord>> {
    let env = PosixEnv::new();
    let mut records = Vec::new();
    for file in files {
        let data =
            read_file(&env, file, FileKind::Other, MOST_BYTES).map_err(|error| Error::io("read", file, error))?;
        let text = String::from_utf8(data).map_err(|error| {
            Error::new(ErrorKind::Corruption, "results are not UTF-8").with_file(file).with_source(error)
        })?;
        records.extend(parse(&text, file)?);
    }
    Ok(records)
}

fn write(page: &Path, html: &str) -> Result<()> {
    let env = PosixEnv::new();
    if let Some(parent) = page.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        env.create_dir_all(parent).map_err(|error| Error::io("create directory", parent, error))?;
    }
    let mut temporary = page.as_os_str().to_os_string();
    temporary.push(".new");
    write_file_atomically(&env, page, Path::new(&temporary), html.as_bytes(), FileKind::Other)
        .map_err(|error| Error::io("write", page, error))
}
