//! What the modelled device did, beside what it could have done.

use super::model::DeviceModel;
use std::fmt;

/// The work of a modelled device since it was made.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct DeviceReport {
    /// The device.
    pub model: Option<DeviceModel>,
    /// Time since the device was made, in nanoseconds.
    pub elapsed_nanos: u64,
    /// Reads that went to the device.
    pub reads: u64,
    /// Bytes of them.
    pub read_bytes: u64,
    /// Writes that went to the device, or will.
    pub writes: u64,
    /// Bytes of them.
    pub written_bytes: u64,
    /// Syncs, of files and directories.
    pub syncs: u64,
    /// Time that the operations took on the device, in nanoseconds.
    pub device_nanos: u64,
    /// Time that the device gave to the competing stream meanwhile, in nanoseconds.
    pub background_nanos: u64,
    /// Time that callers slept for the device, in nanoseconds, summed over threads.
    pub slept_nanos: u64,
    /// How often they slept.
    pub sleeps: u64,
    /// Time of operations already given back to their callers that the device still owes, in nanoseconds.
    pub owed_nanos: u64,
    /// Device time of what is in the page cache and waits to be written, in nanoseconds.
    pub dirty_nanos: u64,
    /// Pages of buffered reads found in the page cache.
    pub page_hits: u64,
    /// Pages of buffered reads that went to the device.
    pub page_misses: u64,
}

impl DeviceReport {
    /// How much of the time the device was busy. Above 1 only by what is still owed: a device that was always asked for
    /// more than it can do shows how honestly it was modelled.
    pub fn utilization(&self) -> f64 {
        let busy = self.device_nanos.saturating_add(self.background_nanos).saturating_sub(self.owed_nanos);
        ratio(busy, self.elapsed_nanos)
    }

    /// Reads a second over the whole time.
    pub fn reads_per_second(&self) -> f64 {
        per_second(self.reads, self.elapsed_nanos)
    }

    /// Bytes read a second over the whole time.
    pub fn read_bytes_per_second(&self) -> f64 {
        per_second(self.read_bytes, self.elapsed_nanos)
    }

    /// Bytes written a second over the whole time.
    pub fn written_bytes_per_second(&self) -> f64 {
        per_second(self.written_bytes, self.elapsed_nanos)
    }

    /// The part of the pages of buffered reads that the page cache had.
    pub fn page_hit_ratio(&self) -> f64 {
        ratio(self.page_hits, self.page_hits + self.page_misses)
    }
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

fn per_second(count: u64, nanos: u64) -> f64 {
    ratio(count, nanos) * 1e9
}

impl fmt::Display for DeviceReport {
    /// Achieved against nominal, a line for each kind of operation.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(model) = &self.model else { return Ok(()) };
        let seconds = self.elapsed_nanos as f64 / 1e9;
        let megabytes = |bytes: f64| bytes / 1e6;
        writeln!(
            f,
            "device {} (background load {}): {seconds:.1} s, busy {:.3} of the time, slept {:.1} s in {} sleeps",
            model.name,
            model.background_load,
            self.utilization(),
            self.slept_nanos as f64 / 1e9,
            self.sleeps,
        )?;
        writeln!(
            f,
            "  reads  {:>12.0} of {:>12} /s {:>10.1} of {:>8.1} MB/s",
            self.reads_per_second(),
            model.read_iops,
            megabytes(self.read_bytes_per_second()),
            megabytes(model.read_bandwidth as f64),
        )?;
        writeln!(
            f,
            "  writes {:>12.0} of {:>12} /s {:>10.1} of {:>8.1} MB/s",
            per_second(self.writes, self.elapsed_nanos),
            model.write_iops,
            megabytes(self.written_bytes_per_second()),
            megabytes(model.write_bandwidth as f64),
        )?;
        write!(f, "  syncs  {:>12}, page cache hits {:.4}", self.syncs, self.page_hit_ratio())
    }
}
