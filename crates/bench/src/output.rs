//! Result lines in JSON, and where a command writes.

use crate::{JsonLines, LatencySummary, Provenance};
use serde::{Deserialize, Serialize};
use siltstone_base::engine::{Counters, StallMicros};
use siltstone_base::{Error, ErrorKind, Result};
use std::fmt;
use std::io::Write;

/// One run of one workload on one engine. Unknown figures are `None`, in JSON null.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ResultLine {
    /// The command.
    pub experiment: String,
    /// The workload, or the step.
    pub workload: String,
    /// The engine with its build.
    pub engine: String,
    /// Equal for runs of the same settings.
    pub config_hash: String,
    /// The settings in words.
    pub setup: String,
    /// The whole configuration of the command, down to the last setting. What an engine was given by it stands in the fields beside.
    pub config: Option<serde_json::Value>,
    /// On which machine, and of which build.
    pub provenance: Option<Provenance>,
    /// The device that was modelled beneath the engine; `none` for the machine's own.
    pub device: Option<String>,
    /// Bytes of memory that the engine was given.
    pub memory_bytes: Option<u64>,
    /// Bytes of the rows, with their index entries, that the run had or loaded.
    pub data_bytes: Option<u64>,
    /// How long a write had to be safe before it returned.
    pub durability: Option<String>,
    /// Whether the engine compressed what it wrote, where its profile does.
    pub compressed: Option<bool>,
    /// Files in level 0 of LSM trees at which it was compacted, writers were slowed down, and writers stopped, where these are not the engine's own.
    pub level0: Option<String>,
    /// Whether every engine had the durability that it had in the publication, rather than all the same.
    pub as_published: Option<bool>,
    /// Which of the alternating runs this is, from 1.
    pub pair: u32,
    /// Threads or clients.
    pub threads: u32,
    /// Operations done.
    pub ops: u64,
    /// How long they took.
    pub seconds: f64,
    /// Operations per second.
    pub ops_per_s: f64,
    /// Median latency.
    pub p50_us: Option<f64>,
    /// 95 % were not slower.
    pub p95_us: Option<f64>,
    /// 99 % were not slower.
    pub p99_us: Option<f64>,
    /// 99.9 % were not slower.
    pub p999_us: Option<f64>,
    /// 99.99 % were not slower.
    pub p9999_us: Option<f64>,
    /// The longest latency.
    pub max_us: Option<f64>,
    /// The machine's own longest pause meanwhile.
    pub machine_pause_us: Option<f64>,
    /// Open loop: 99 % of the arrivals were handed over no later than this after they were due.
    pub generator_late_p99_us: Option<f64>,
    /// Open loop: the latest that an arrival was handed over.
    pub generator_late_max_us: Option<f64>,
    /// The harness's own cost of an operation, measured on an engine that does nothing.
    pub harness_ns_per_op: Option<f64>,
    /// Bytes of keys and values that the user wrote or read.
    pub bytes_user: u64,
    /// Bytes that the engine wrote, by its own counters.
    pub bytes_written: Option<u64>,
    /// Bytes that the engine read, by its own counters.
    pub bytes_read: Option<u64>,
    /// Bytes that the process wrote to the device layer.
    pub process_written: Option<u64>,
    /// Bytes that the process read from the device layer.
    pub process_read: Option<u64>,
    /// Bytes written by the engine for each byte that the user wrote.
    pub write_amp: Option<f64>,
    /// Bytes that files occupy at the end, logs not counted whose size says nothing about the data.
    pub space_bytes: Option<u64>,
    /// Bytes that those logs occupy: the redo log, and the doublewrite file.
    pub log_space_bytes: Option<u64>,
    /// Bytes that files occupy for each byte of live keys and values.
    pub space_amp: Option<f64>,
    /// RocksDB's estimate of pending compaction bytes at the end.
    pub debt_bytes: Option<u64>,
    /// The least that writers could still write until a limit, in bytes, looked at once a second.
    pub next_limit_bytes: Option<u64>,
    /// Time that writers were held up, by cause.
    pub stall_us: Option<StallMicros>,
    /// What else the engine counted, by its own names.
    pub counters: Counters,
    /// CPU seconds of the whole process.
    pub cpu_s: Option<f64>,
    /// Of those, in the program itself.
    pub user_cpu_s: Option<f64>,
    /// Of those, in the kernel.
    pub system_cpu_s: Option<f64>,
    /// How often threads that were there to the end gave up their processor to wait.
    pub voluntary_context_switches: Option<u64>,
    /// How often the same threads were made to give it up.
    pub involuntary_context_switches: Option<u64>,
    /// Page faults of the process that had to wait for a device.
    pub major_page_faults: Option<u64>,
    /// System calls of the process that read.
    pub read_syscalls: Option<u64>,
    /// System calls of the process that write.
    pub write_syscalls: Option<u64>,
    /// Microseconds in which at least one thread of the machine waited for a processor.
    pub cpu_pressure_us: Option<u64>,
    /// Microseconds in which at least one thread of the machine waited for I/O.
    pub io_pressure_us: Option<u64>,
    /// Resident memory at the end, in megabytes.
    pub rss_mb: Option<f64>,
    /// Standard deviation of the 1-s rates over their mean.
    pub cv_plain: Option<f64>,
    /// The same against a centred 15-s moving median.
    pub cv_detrended: Option<f64>,
    /// The same of the 5-s rates, against a moving median of 15 such: what lasts for ten seconds is no trend to it.
    pub cv_five_seconds: Option<f64>,
    /// The worst 1-s rate as a part of the 15-s moving median around it.
    pub worst_second: Option<f64>,
    /// The worst 5-s rate as a part of the moving median of 15 such around it.
    pub worst_five_seconds: Option<f64>,
    /// The longest time in which no operation was completed, from the beginning of the first to the end of the last client.
    pub longest_gap_us: Option<f64>,
    /// Open loop: operations that the schedule offers per second, on the average.
    pub offered_ops_per_s: Option<f64>,
    /// `stalls`, open loop: the longest latency of the arrivals at the same rate that came before it and do not count.
    pub warm_up_max_us: Option<f64>,
    /// Open loop: operations that had arrived and were not done when the run was ended.
    pub unserved_ops: Option<u64>,
    /// Runs of over two minutes: the rates of five equal parts of it.
    pub segment_ops_per_s: Option<Vec<f64>>,
    /// Beside readers: the writer's operations per second.
    pub writer_ops_per_s: Option<f64>,
    /// `insert`: bytes written by the process for each row, in KB.
    pub kb_written_per_row: Option<f64>,
    /// `insert`: reads by the engine for each row: of a B-tree, pages.
    pub reads_per_row: Option<f64>,
    /// `insert`: keys that were looked up, and seeks, in rows and indexes, but for those of sweeps.
    pub lookups: Option<u64>,
    /// `insert`: the part of a lazy table's index entries that led nowhere at the end of the step.
    pub stale_share: Option<f64>,
    /// `insert`: the most rows of a commit, where the engine allows no more at once than some of those that were asked for.
    pub rows_per_commit_split: Option<u64>,
    /// `insert`: rows that were left out when the step had taken as long as it may.
    pub rows_left_out: Option<u64>,
    /// `insert`: bytes of the binlog.
    pub binlog_bytes: Option<u64>,
    /// `redmine`: the mean of an operation without the first and the last tenth of them, in microseconds.
    pub mean_trimmed_us: Option<f64>,
    /// `redmine`: what another stream asked of the device, in parts of its capacity.
    pub device_load: Option<f64>,
    /// `redmine`: the data set.
    pub data_set: Option<String>,
    /// `sysbench`: whether memory was that of the whole process with its page cache.
    pub page_cache: Option<bool>,
    /// `ads`: the largest part of what tables hold that was expired, from the first day on which rows expire.
    pub expired_share: Option<f64>,
    /// `ads`: the same of what the range holds that nobody writes to, and of rows that expired three days before or earlier.
    pub idle_expired_share: Option<f64>,
    /// `ads`: bytes written by compactions for the sake of expired rows alone, for each byte that they gave back with tables that went as a whole.
    pub rewritten_per_reclaimed: Option<f64>,
    /// `ads`: bytes written in the busiest ten seconds over the mean of all, without the first ten days.
    pub write_peak_over_mean: Option<f64>,
    /// `ads`: bytes that the engine wrote for each upsert.
    pub written_per_upsert: Option<f64>,
    /// `ads`: bytes that the engine read per second in the last five days over the same in the five days before rows expired.
    pub read_rise: Option<f64>,
    /// `ads`: how far the slowest source was behind at most, in seconds.
    pub replication_lag_s: Option<f64>,
    /// `ads`: how long closing took at the end.
    pub shutdown_s: Option<f64>,
    /// `ads`: how long opening took after that.
    pub startup_s: Option<f64>,
}

/// What inserters keep of their rate in a step of queries that counts: with less the queries had it easier than they should have.
const KEPT: f64 = 0.95;

impl ResultLine {
    /// The workload of a line that says why there is no run.
    pub(crate) const NOT_RUN: &str = "not run";

    /// Whether the line is of a run.
    pub(crate) fn was_run(&self) -> bool {
        self.workload != Self::NOT_RUN
    }

    /// The rate of the inserts beside queries, and the one that the step asks for, where too little of it was kept.
    pub(crate) fn inserts_behind(&self) -> Option<(f64, f64)> {
        let (asked, kept) = self.offered_ops_per_s.zip(self.writer_ops_per_s)?;
        (kept < asked * KEPT).then_some((kept, asked))
    }

    /// Takes the percentiles over.
    pub fn set_latencies(&mut self, summary: Option<LatencySummary>) {
        self.p50_us = summary.map(|summary| summary.p50_us);
        self.p95_us = summary.map(|summary| summary.p95_us);
        self.p99_us = summary.map(|summary| summary.p99_us);
        self.p999_us = summary.map(|summary| summary.p999_us);
        self.p9999_us = summary.map(|summary| summary.p9999_us);
        self.max_us = summary.map(|summary| summary.max_us);
    }
}

/// The first line of a file of `all`: of which experiment, with all its settings, the results behind it are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CellLine {
    /// A hash of the experiment.
    pub(crate) cell: String,
}

/// One interval of a run: its rate, and the latencies of the operations that were completed within. Arrivals that were abandoned when the run was ended count in the last one.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct IntervalLine {
    /// The command.
    pub experiment: String,
    /// The workload, or the step.
    pub workload: String,
    /// The engine with its build.
    pub engine: String,
    /// The end of the interval, in seconds from the start of the run.
    pub interval_s: f64,
    /// Operations per second within it.
    pub ops_per_s: f64,
    /// Their median latency.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p50_us: Option<f64>,
    /// 99 % of them were not slower.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_us: Option<f64>,
    /// The longest latency of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_us: Option<f64>,
    /// Bytes that the process wrote to the device layer, per second within it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written_per_s: Option<f64>,
    /// Bytes that the process read from the device layer, per second within it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_per_s: Option<f64>,
    /// Bytes that files occupied at its end, as [`ResultLine::space_bytes`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub space_bytes: Option<u64>,
}

/// Where a command writes: text for people, JSON for programs.
pub struct Output<'a> {
    text: &'a mut dyn Write,
    json: Option<JsonLines>,
    /// Whether progress bars are drawn (on standard error).
    pub bars: bool,
}

impl<'a> Output<'a> {
    /// Writes text to `text` and, if there is one, JSON lines to `json`.
    pub fn new(text: &'a mut dyn Write, json: Option<JsonLines>, bars: bool) -> Self {
        Self { text, json, bars }
    }

    /// Writes text and ends the line.
    pub fn say(&mut self, text: impl fmt::Display) -> Result<()> {
        let written = writeln!(self.text, "{text}").and_then(|()| self.text.flush());
        written.map_err(|error| Error::new(ErrorKind::Io, "write to the output").with_source(error))
    }

    /// Lets `run` write its JSON lines to `json`.
    pub(crate) fn with_json(&mut self, json: JsonLines, run: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        let before = self.json.replace(json);
        let outcome = run(self);
        self.json = before;
        outcome
    }

    /// Appends a JSON line, if those are wanted.
    pub fn json(&mut self, line: &impl Serialize) -> Result<()> {
        self.json.as_mut().map_or(Ok(()), |json| json.push(line))
    }
}

impl fmt::Debug for Output<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Output").field("bars", &self.bars).finish_non_exhaustive()
    }
}
