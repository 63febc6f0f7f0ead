//! What was measured, as lines of results.

use super::{Interval, Measured, segments, variation, worst};
use crate::{IntervalLine, ResultLine};
use siltstone_base::engine::EngineStats;

/// Seconds of the longer intervals.
const LONG: usize = 5;

impl Measured {
    /// Fills in what does not depend on the experiment: `line` names the run.
    pub(crate) fn line(&self, stats: EngineStats, line: ResultLine) -> ResultLine {
        let coefficients = variation(&self.second_rates);
        let five_seconds = by_fives(&self.second_rates);
        let mut line = ResultLine {
            ops: self.ops,
            seconds: self.seconds,
            ops_per_s: self.ops as f64 / self.seconds.max(1e-9),
            machine_pause_us: Some(self.pause_us),
            bytes_written: stats.bytes_written,
            bytes_read: stats.bytes_read,
            process_written: self.usage.written,
            process_read: self.usage.read,
            space_bytes: stats.data_bytes(),
            log_space_bytes: stats.log_bytes,
            debt_bytes: stats.debt_bytes,
            stall_us: stats.stall_micros,
            counters: stats.counters,
            cpu_s: self.usage.cpu_s,
            user_cpu_s: self.usage.user_cpu_s,
            system_cpu_s: self.usage.system_cpu_s,
            voluntary_context_switches: self.usage.voluntary_context_switches,
            involuntary_context_switches: self.usage.involuntary_context_switches,
            major_page_faults: self.usage.major_page_faults,
            read_syscalls: self.usage.read_syscalls,
            write_syscalls: self.usage.write_syscalls,
            cpu_pressure_us: self.usage.cpu_pressure_us,
            io_pressure_us: self.usage.io_pressure_us,
            rss_mb: self.usage.rss_mb,
            segment_ops_per_s: segments(&self.second_rates),
            cv_plain: coefficients.map(|(plain, _)| plain),
            cv_detrended: coefficients.map(|(_, detrended)| detrended),
            cv_five_seconds: variation(&five_seconds).map(|(_, detrended)| detrended),
            worst_second: worst(&self.second_rates),
            worst_five_seconds: worst(&five_seconds),
            ..line
        };
        line.set_latencies(self.latencies.summary());
        line
    }

    /// The rates and latencies of the intervals of the run that `line` names.
    pub(crate) fn interval_lines(&self, line: &ResultLine) -> Vec<IntervalLine> {
        let interval = |interval: &Interval| IntervalLine {
            experiment: line.experiment.clone(),
            workload: line.workload.clone(),
            engine: line.engine.clone(),
            interval_s: interval.end_s,
            ops_per_s: interval.ops_per_s,
            p50_us: interval.latencies.map(|latencies| latencies.p50_us),
            p99_us: interval.latencies.map(|latencies| latencies.p99_us),
            max_us: interval.latencies.map(|latencies| latencies.max_us),
            written_per_s: interval.written_per_s,
            read_per_s: interval.read_per_s,
            space_bytes: interval.space_bytes,
        };
        self.intervals.iter().map(interval).collect()
    }
}

/// The mean rates of five seconds each.
fn by_fives(rates: &[f64]) -> Vec<f64> {
    rates.chunks_exact(LONG).map(|part| part.iter().sum::<f64>() / LONG as f64).collect()
}
