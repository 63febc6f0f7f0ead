//! How fast writers may be: pure functions of counters.

use crate::compaction::{Compaction, LevelTargets, Moving, levels_with_data};
use crate::event::StallCause;
use crate::options::{ColumnFamilyOptions, CompactionStyle};
use crate::version::Version;

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

/// The gear of level 0 believes so much of the rate of compactions: where one turns out slower, writers would find the end of the room before its end, and be cut down to next to nothing there.
const LEVEL0_TRUST: f64 = 0.9;

/// A compaction of level 0 that has read everything is expected to take so many seconds more at most: its last table is synced, and it is entered in the manifest.
const LEVEL0_END_SECONDS: f64 = 0.1;

/// So much of the files that may come during a compaction of level 0, in parts of half of the stop, is kept back beyond what its course leaves.
const LEVEL0_UNUSED: f64 = 0.25;

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
    /// Bytes that the one after it is expected to read; zero: nobody can say. See [`level0_next`].
    pub(crate) l0_next_bytes: f64,
    /// The number of files at which compaction begins.
    pub(crate) l0_trigger: f64,
    /// The number of them at which writers are stopped.
    pub(crate) l0_stop: f64,
    /// Whether compactions follow on flushes by themselves.
    pub(crate) compacts: bool,
    /// Bytes that compactions must still read; see [`owed_bytes`].
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

/// A compaction of level 0 that runs or is due; all zero: there is none.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Level0Job {
    /// Files of level 0 that it takes.
    pub(crate) files: f64,
    /// Bytes that it must still read.
    pub(crate) left_bytes: f64,
    /// Bytes that it reads in all.
    pub(crate) total_bytes: f64,
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

/// The gear of level 0: the files that a compaction takes are there until it ends, however far it is. Until then no more may come than leave one short of
/// where writers are stopped, and no more than half of that: otherwise the next compaction, which takes them all, would leave less room than it needs.
///
/// While the level below grows, each compaction reads more than the one before, and admits less. So that writers do not meet that as a step, the rate goes over to that of the next one as this one
/// gets on. Only what is far more than that course leaves unused is given back: a family that hardly grows holds nobody.
fn level0_gear(gauges: &Gauges, compaction_rate: Option<f64>, least: f64) -> Pace {
    let Some(measured) = compaction_rate.filter(|_| gauges.l0_taken_files > 0.0) else {
        return Pace::FREE;
    };
    let in_memory = gauges.unfiled_bytes / gauges.buffer_bytes.max(1.0);
    let room = gauges.l0_stop - 1.0 - gauges.l0_all_files;
    let half = gauges.l0_stop / 2.0;
    // Where a compaction takes a part of the files only, more than half may have been left behind before any came.
    let even = (half - (gauges.l0_all_files - gauges.l0_taken_files)).max(room / 2.0);
    let may_come = (room.min(even) - in_memory).max(0.0) * gauges.buffer_bytes;
    let compaction_rate = measured * LEVEL0_TRUST;
    // One that has read everything is not over yet.
    let left = gauges.l0_left_bytes.max(measured * LEVEL0_END_SECONDS);
    let now = compaction_rate * may_come / left;
    let may_come_next = (gauges.l0_stop - 1.0 - next_files(half, gauges.l0_trigger)).min(half) * gauges.buffer_bytes;
    let rate = match gauges.l0_next_bytes > 0.0 && may_come_next > 0.0 {
        true => {
            let share_left = (left / gauges.l0_total_bytes.max(1.0)).min(1.0);
            let next = compaction_rate * may_come_next / gauges.l0_next_bytes;
            let unused = (may_come - half * gauges.buffer_bytes * (share_left + LEVEL0_UNUSED)).max(0.0);
            now.min(now * share_left + next * (1.0 - share_left) + compaction_rate * unused / left)
        }
        false => now,
    };
    Pace { rate: rate.max(least), cause: StallCause::L0FileCount }
}

/// Files that a compaction of level 0 will find, if those that may come while another one runs have come.
fn next_files(half: f64, trigger: f64) -> f64 {
    half.max(trigger)
}

/// Bytes that the compaction of level 0 behind one of `total_bytes` reads, if the latter leaves all that it reads, and as many files come meanwhile as may. Only leveled ones read the level below
/// anew each time; zero with other styles, and where no compaction runs or is due.
pub(crate) fn level0_next(version: &Version, options: &ColumnFamilyOptions, total_bytes: f64) -> f64 {
    let files = version.files(0).len();
    if total_bytes == 0.0 || files == 0 || options.compaction_style != CompactionStyle::Leveled {
        return 0.0;
    }
    // A file that was brought may be of any size; those that come are memtables.
    let file_bytes = (version.level_bytes(0) as f64 / files as f64).min(options.write_buffer_size as f64);
    let trigger = options.level0_file_num_compaction_trigger as f64;
    total_bytes + next_files(options.level0_stop_writes_trigger as f64 / 2.0, trigger) * file_bytes
}

/// A compaction of level 0: the `running` one, if there is one. One that is due but could not start yet, since what it merges with is being compacted, counts as if it began now, so that the pace
/// does not change when it does: writers would go ahead for seconds, and wait for what they did all through it.
pub(crate) fn level0_job(version: &Version, options: &ColumnFamilyOptions, running: Level0Job) -> Level0Job {
    let files = version.files(0).len();
    let is_due = files >= options.level0_file_num_compaction_trigger.max(1);
    let is_leveled = options.compaction_style == CompactionStyle::Leveled && !options.disable_auto_compactions;
    if running.files > 0.0 || !is_due || !is_leveled {
        return running;
    }
    let below = (1..version.num_levels()).map(|level| version.level_bytes(level)).find(|bytes| *bytes > 0);
    let bytes = (version.level_bytes(0) + below.unwrap_or(0)) as f64;
    Level0Job { files: files as f64, left_bytes: bytes, total_bytes: bytes }
}

/// What is left of `most`, in parts of it.
fn slack(used: f64, most: f64) -> f64 {
    1.0 - (used / most.max(1.0)).clamp(0.0, 1.0)
}

/// Bytes that compactions must still read until no level is above its target, those that run included.
///
/// As RocksDB's [estimate](crate::compaction::estimated_pending_compaction_bytes), but without its jumps. What running compactions move counts
/// as moved already, and their inputs as work. The base level, which every batch of level 0 is merged with, counts by as much
/// of the next batch as there is; a batch is what the trigger says, or what the last one took.
pub(crate) fn owed_bytes(
    version: &Version,
    options: &ColumnFamilyOptions,
    targets: &LevelTargets,
    running: &[Moving],
) -> u64 {
    if options.disable_auto_compactions {
        return 0;
    }
    let mut bytes: Vec<f64> = (0..version.num_levels()).map(|level| version.level_bytes(level) as f64).collect();
    let mut l0_files = version.files(0).len();
    let mut batch = options.level0_file_num_compaction_trigger.max(1);
    let mut owed = 0.0;
    for moving in running {
        owed += moving.input_bytes as f64;
        if moving.start_level == 0 {
            l0_files = l0_files.saturating_sub(moving.start_files);
            batch = batch.max(moving.start_files);
        }
        bytes[moving.start_level] = (bytes[moving.start_level] - moving.start_bytes as f64).max(0.0);
        bytes[moving.output_level] += moving.start_bytes as f64;
    }
    owed += bytes[0] + bytes[targets.base_level] * (l0_files as f64 / batch as f64).min(1.0);
    let mut moving = bytes[0];
    for level in targets.base_level..bytes.len() - 1 {
        let size = bytes[level] + moving;
        moving = (size - targets.lasting_bytes(level) as f64).max(0.0);
        if moving > 0.0 && bytes[level + 1] > 0.0 {
            owed += moving * (bytes[level + 1] / size + 1.0);
        }
    }
    owed as u64
}

/// The same for the universal style: the bytes of level 0 alone, since deeper merges have time. What is idle counts once a merge is due.
pub(crate) fn owed_bytes_universal(version: &Version, options: &ColumnFamilyOptions, running: &[Moving]) -> u64 {
    if options.disable_auto_compactions {
        return 0;
    }
    let of_level0 = || running.iter().filter(|moving| moving.start_level == 0);
    let owed = of_level0().map(|moving| moving.start_bytes.min(moving.input_bytes)).fold(0, u64::saturating_add);
    let levels = match options.compaction_style {
        // Level 0 is a tier by itself.
        CompactionStyle::Lazy => 0,
        _ => levels_with_data(version),
    };
    if version.files(0).len() + levels < options.level0_file_num_compaction_trigger {
        return owed;
    }
    let taken = of_level0().map(|moving| moving.start_bytes).fold(0, u64::saturating_add);
    version.level_bytes(0).saturating_sub(taken).saturating_add(owed)
}

/// How much of what is owed a compaction does: the part of its inputs that counts in [`owed_bytes`] or [`owed_bytes_universal`].
pub(crate) fn owed_bytes_of(compaction: &Compaction, style: CompactionStyle) -> u64 {
    match style {
        CompactionStyle::Leveled => compaction.input_bytes(),
        CompactionStyle::Universal | CompactionStyle::Lazy | CompactionStyle::Fifo => {
            let level0 = compaction.input_files().filter(|(level, _)| *level == 0);
            level0.map(|(_, file)| file.file_size).fold(0, u64::saturating_add)
        }
    }
}
