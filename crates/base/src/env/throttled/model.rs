//! What a device can do.

use std::borrow::Cow;

/// The rates of a device, the page cache in front of it and what else it is busy with.
///
/// An operation takes the longer of one share of its rate of operations and of its bytes at the bandwidth.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct DeviceModel {
    /// The name, for reports.
    pub name: Cow<'static, str>,
    /// Reads a second, at least 1.
    pub read_iops: u64,
    /// Writes a second, at least 1. A write that goes on where the last one of its file ended costs bandwidth only.
    pub write_iops: u64,
    /// Bytes read a second, at least 1.
    pub read_bandwidth: u64,
    /// Bytes written a second, at least 1.
    pub write_bandwidth: u64,
    /// What a sync costs beside the writes that it waits for, in microseconds.
    pub sync_micros: u64,
    /// Whether the device turns: a read that goes on where the last operation ended then costs bandwidth only, however it is
    /// made. On other devices only a buffered sequential read does, by the read-ahead of the operating system.
    pub is_rotating: bool,
    /// The page cache for buffered files, in bytes. Zero: every buffered read goes to the device.
    pub page_cache_bytes: u64,
    /// Bytes written to buffered files that may wait for the device before a writer does.
    pub dirty_bytes: u64,
    /// What a competing stream offers to the device, as a fraction of its capacity.
    pub background_load: f64,
}

impl DeviceModel {
    /// The fractions of [`background_load`](Self::background_load) that the laboratory uses.
    pub const BACKGROUND_LOADS: [f64; 5] = [0.0, 0.25, 1.0, 2.0, 4.0];

    /// An NVMe drive: 500,000 reads and 200,000 writes a second, 3 GB/s in, 1.5 GB/s out, syncs of 50 µs.
    pub fn fast_ssd() -> Self {
        Self {
            name: Cow::Borrowed("fast-ssd"),
            read_iops: 500_000,
            write_iops: 200_000,
            read_bandwidth: 3_000_000_000,
            write_bandwidth: 1_500_000_000,
            sync_micros: 50,
            is_rotating: false,
            page_cache_bytes: 256 << 20,
            dirty_bytes: 64 << 20,
            background_load: 0.0,
        }
    }

    /// A slow drive: 10,000 page reads and page writes a second, 400 MB/s either way, syncs of 500 µs.
    pub fn slow_ssd() -> Self {
        Self {
            name: Cow::Borrowed("slow-ssd"),
            read_iops: 10_000,
            write_iops: 10_000,
            read_bandwidth: 400_000_000,
            write_bandwidth: 400_000_000,
            sync_micros: 500,
            ..Self::fast_ssd()
        }
    }

    /// A hard disk: 80 operations a second, 150 MB/s, syncs of a turn at 7,200 a minute.
    pub fn hdd() -> Self {
        Self {
            name: Cow::Borrowed("hdd"),
            read_iops: 80,
            write_iops: 80,
            read_bandwidth: 150_000_000,
            write_bandwidth: 150_000_000,
            sync_micros: 8_333,
            is_rotating: true,
            ..Self::fast_ssd()
        }
    }

    /// The same with a competing stream that offers `fraction` of the capacity; what is negative or no number is zero.
    #[must_use]
    pub fn with_background_load(mut self, fraction: f64) -> Self {
        self.background_load = if fraction > 0.0 { fraction } else { 0.0 };
        self
    }

    /// The same with a page cache of `bytes`.
    #[must_use]
    pub fn with_page_cache(mut self, bytes: u64) -> Self {
        self.page_cache_bytes = bytes;
        self
    }

    /// What a read of `bytes` takes without competition, in nanoseconds; `goes_on`: where the last one ended.
    pub(super) fn read_nanos(&self, bytes: u64, goes_on: bool) -> u64 {
        operation_nanos(bytes, self.read_bandwidth, self.read_iops, goes_on)
    }

    /// The same for a write.
    pub(super) fn write_nanos(&self, bytes: u64, goes_on: bool) -> u64 {
        operation_nanos(bytes, self.write_bandwidth, self.write_iops, goes_on)
    }

    pub(super) fn sync_nanos(&self) -> u64 {
        self.sync_micros.saturating_mul(1_000)
    }

    /// The time that the device needs for everything that may wait to be written.
    pub(super) fn dirty_nanos(&self) -> u64 {
        self.write_nanos(self.dirty_bytes, true)
    }

    /// How much of a time `nanos` the competing stream leaves.
    pub(super) fn share_of(&self, nanos: u64) -> u64 {
        (nanos as f64 / (1.0 + self.background_load)) as u64
    }

    /// How long an operation that takes `nanos` keeps its caller from the device, which serves the competing stream in
    /// proportion to what it offers.
    pub(super) fn stretched(&self, nanos: u64) -> u64 {
        // Far below 2^52 nanoseconds for any real operation; the conversion back saturates.
        (nanos as f64 * (1.0 + self.background_load)).round() as u64
    }
}

fn operation_nanos(bytes: u64, bandwidth: u64, iops: u64, goes_on: bool) -> u64 {
    let transfer = u128::from(bytes) * 1_000_000_000 / u128::from(bandwidth.max(1));
    let transfer = u64::try_from(transfer).unwrap_or(u64::MAX);
    if goes_on { transfer } else { transfer.max(1_000_000_000 / iops.max(1)) }
}
