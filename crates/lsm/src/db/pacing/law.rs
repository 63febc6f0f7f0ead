//! How fast writers may be: pure functions of counters.

use super::level0::level0_gear;
use crate::event::StallCause;

/// The work owed at which nothing is admitted any more, in seconds of compaction at the measured rate.
const SPRING_SECONDS: f64 = 160.0;

/// The spring has room at least for so many times what all memtables together make for compactions: on a device so slow that this is more than
/// [`SPRING_SECONDS`], full memtables alone would stop writers.
const SPRING_BUFFERS: f64 = 3.0;

/// What is admitted while little is owed, in parts of what background jobs can sustain.
const BURST: f64 = 3.0;

/// The same where the WAL is synced: what is written at once costs the device its turns at once, so that nobody gets far ahead, and with less it would be idle in the first seconds, when there is little to compact.
const BURST_SYNCED: f64 = 3.4;

/// So much is owed, in parts of the most, while another part of what jobs can sustain is admitted; and twice as much with half of that. A database that owes
/// nothing takes a memtable or two without a delay.
const SPARE: f64 = 0.005;

/// The least that a flushed byte is expected to make for compactions: in a tree that is still small they have little to do, which does not last.
const LEAST_AMPLIFICATION: f64 = 2.5;

/// The least share of the flush rate that is admitted whatever is owed; below it the hard limits stop writers.
const MIN_SHARE: f64 = 0.02;

/// What the pace of one family depends on, at one moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Gauges {
    /// Bytes that may still be written until writers are stopped for want of a memtable.
    pub(crate) room_bytes: f64,
    /// Bytes of sealed memtables that are not in a table yet.
    pub(crate) unflushed_bytes: f64,
    /// Files in level 0, less what a running compaction has read of them.
    pub(crate) l0_files: f64,
    /// All files in level 0, whatever was read of them: they go when the compaction ends.
    pub(crate) l0_all_files: f64,
    /// Those of them that a compaction takes, which runs or is due; none: there is none.
    pub(crate) l0_taken_files: f64,
    /// Bytes that it must still read.
    pub(crate) l0_left_bytes: f64,
    /// Bytes that it reads in all.
    pub(crate) l0_total_bytes: f64,
    /// Bytes that the one after it is expected to read; zero: nobody can say. See [`level0_next`](super::level0_next).
    pub(crate) l0_next_bytes: f64,
    /// The number of files at which compaction begins.
    pub(crate) l0_trigger: f64,
    /// The number of them at which writers are stopped.
    pub(crate) l0_stop: f64,
    /// Whether compactions follow on flushes by themselves.
    pub(crate) compacts: bool,
    /// Bytes that compactions must still read; see [`owed_bytes`](super::owed_bytes).
    pub(crate) owed_bytes: f64,
    /// The bytes at which writers are stopped; infinite: none.
    pub(crate) owed_stop: f64,
    /// Bytes of all memtables that are not in a table yet, the one that is being written included.
    pub(crate) buffered_bytes: f64,
    /// The same with all of those that are being flushed: each becomes one file, in one moment.
    pub(crate) unfiled_bytes: f64,
    /// Bytes that all memtables together may have.
    pub(crate) max_buffered_bytes: f64,
    /// Bytes of a memtable that becomes a file of level 0.
    pub(crate) buffer_bytes: f64,
    /// How much more memory a written byte takes than with the rows by which the law was fitted: all of the above is memory, and what writers are held to is what they write.
    pub(crate) memory_per_byte: f64,
}

/// What background jobs achieve while they run, in bytes a second; `None` until that is known.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Capacity {
    /// Bytes of memtables that flushes write into tables. Before there was one, that is guessed from the rate of the WAL's syncs, if it is known.
    pub(crate) flush: Option<f64>,
    /// Whether it is a guess.
    pub(crate) is_flush_guessed: bool,
    /// Bytes that compactions read. Before there was one, that is guessed from the rate of flushes.
    pub(crate) compaction: Option<f64>,
    /// How much of that is guessed: from 1, before there was any compaction, to 0.
    pub(crate) guessed: f64,
    /// Bytes that compactions will have to read for each byte that is flushed, on every level.
    pub(crate) amplification: f64,
    /// Bytes of the WAL that are synced a second while a sync runs; `None`, too, where it is left to the operating system.
    pub(crate) wal: Option<f64>,
}

/// The rate that writers may have, and what holds them to it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Pace {
    /// Bytes a second; infinite: no limit.
    pub(crate) rate: f64,
    /// What is scarcest.
    pub(crate) cause: StallCause,
}

impl Pace {
    /// No limit.
    pub(crate) const FREE: Self = Self { rate: f64::INFINITY, cause: StallCause::MemtableLimit };

    /// The slower one.
    pub(crate) fn min(self, other: Self) -> Self {
        if other.rate < self.rate { other } else { self }
    }
}

/// The pace of a family.
///
/// The gears: while a memtable is flushed, the room that is left goes no faster than what is left of the flush, so that both end together; and while level 0
/// is compacted, the files that it may still get come no faster than the compaction ends.
/// The springs: the more files level 0 has, the smaller the share of the flush rate that is admitted; and the more work is owed, the smaller the
/// multiple of what jobs can sustain. Where that meets what they do sustain, debt grows no further.
pub(crate) fn pace(gauges: &Gauges, capacity: &Capacity) -> Pace {
    let Some(flush_rate) = capacity.flush else { return Pace::FREE };
    let least = flush_rate * MIN_SHARE;
    let gear = match gauges.unflushed_bytes {
        left if left > 0.0 => (flush_rate * gauges.room_bytes / left).max(least),
        _ => f64::INFINITY,
    };
    let gear = Pace { rate: gear, cause: StallCause::MemtableLimit };
    let level0 = level0_gear(gauges, capacity.compaction, least);
    let files = match slack(gauges.l0_files - gauges.l0_trigger, gauges.l0_stop - gauges.l0_trigger) {
        1.0 => Pace::FREE,
        slack => Pace { rate: (flush_rate * slack * slack).max(least), cause: StallCause::L0FileCount },
    };
    let owed = capacity.compaction.filter(|_| gauges.compacts).map_or(Pace::FREE, |compaction_rate| {
        let amplification = capacity.amplification.max(LEAST_AMPLIFICATION);
        // What is still in memory is owed, too: otherwise each flush would add its share at once.
        let owed = gauges.owed_bytes + gauges.buffered_bytes * amplification;
        let buffers = gauges.max_buffered_bytes * amplification * SPRING_BUFFERS;
        let most = (compaction_rate * SPRING_SECONDS).max(buffers).min(gauges.owed_stop);
        // Jobs and the WAL take turns at the device. What was measured had its turns beside it, what is guessed has not.
        let wal = capacity.wal.map_or(0.0, |wal_rate| 1.0 / (wal_rate * gauges.memory_per_byte));
        let sustained = 1.0 / (wal * capacity.guessed + 1.0 / flush_rate + amplification / compaction_rate);
        let slack = slack(owed, most);
        let burst = if capacity.wal.is_some() { BURST_SYNCED } else { BURST };
        let spare = sustained * SPARE * slack / (1.0 - slack);
        let flushed = if capacity.is_flush_guessed { 1.0 / (wal + 1.0 / flush_rate) } else { flush_rate };
        if spare >= flushed {
            return Pace::FREE;
        }
        let rate = (sustained * burst * slack + spare).min(flushed).max(least);
        Pace { rate, cause: StallCause::PendingCompactionBytes }
    });
    let scarcest = gear.min(level0).min(files).min(owed);
    Pace { rate: scarcest.rate / gauges.memory_per_byte, ..scarcest }
}

/// The gear of the WAL: `unsynced_bytes` of it are to become no more than `most_bytes`, which are synced within the interval that was promised, at `rate`. What may still come goes no faster than
/// what is there is synced; a fiftieth of the rate is admitted in any case.
pub(crate) fn wal_pace(unsynced_bytes: f64, most_bytes: f64, rate: f64) -> Pace {
    let room = (most_bytes - unsynced_bytes).max(0.0);
    let rate = (rate * room / unsynced_bytes.max(1.0)).max(rate * MIN_SHARE);
    Pace { rate, cause: StallCause::UnsyncedWal }
}

/// What is left of `most`, in parts of it.
fn slack(used: f64, most: f64) -> f64 {
    1.0 - (used / most.max(1.0)).clamp(0.0, 1.0)
}
