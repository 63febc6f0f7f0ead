//! The law as data, the meter, the pacer on a clock of its own, and all of them against a modelled device; [`fill`] has the pickers, too; [`low_priority`] a second writer.

mod fill;
mod low_priority;

use super::law::{Capacity, Gauges, Pace, pace, wal_pace};
use super::level0::{Level0Job, level0_job, level0_next};
use super::meter::Meter;
use super::owed::owed_bytes_universal;
use super::pacer::{Done, Figures, Pacer};
use super::work::{FamilyWork, Kind, Working};
use crate::compaction::Moving;
use crate::event::StallCause;
use crate::file_meta::{FileMetaData, ObsoleteTables};
use crate::key::{ColumnFamilyId, InternalKey, InternalKeyComparator, ValueType};
use crate::options::{ColumnFamilyOptions, CompactionStyle};
use crate::version::{Version, version_for_test};
use siltstone_base::comparator::Bytewise;
use siltstone_base::sync::Arc;

const MB: f64 = 1e6;

/// Bytes of a memtable, where it matters only that it is large.
const LARGE: usize = 64 << 20;

/// Nothing to do, and jobs that achieve 100 MB/s.
const IDLE: Gauges = Gauges {
    room_bytes: 64.0 * MB,
    unflushed_bytes: 0.0,
    l0_files: 0.0,
    l0_trigger: 4.0,
    l0_stop: 36.0,
    compacts: true,
    owed_bytes: 0.0,
    owed_stop: f64::INFINITY,
    buffered_bytes: 0.0,
    unfiled_bytes: 0.0,
    max_buffered_bytes: 128.0 * MB,
    buffer_bytes: 64.0 * MB,
    l0_all_files: 0.0,
    l0_taken_files: 0.0,
    l0_left_bytes: 0.0,
    l0_total_bytes: 0.0,
    l0_next_bytes: 0.0,
    memory_per_byte: 1.0,
};
const KNOWN: Capacity = Capacity {
    flush: Some(100.0 * MB),
    is_flush_guessed: false,
    compaction: Some(100.0 * MB),
    guessed: 0.0,
    amplification: 5.0,
    wal: None,
};

fn rate(gauges: &Gauges) -> (f64, StallCause) {
    let Pace { rate, cause } = pace(gauges, &KNOWN);
    ((rate / MB * 10.0).round() / 10.0, cause)
}

#[test]
fn the_law_is_this_table() {
    use StallCause::{L0FileCount, MemtableLimit, PendingCompactionBytes};
    let cases = [
        ("idle", IDLE, (f64::INFINITY, MemtableLimit)),
        ("a flush that begins", Gauges { unflushed_bytes: 64.0 * MB, ..IDLE }, (100.0, MemtableLimit)),
        (
            "room goes faster than the flush",
            Gauges { unflushed_bytes: 64.0 * MB, room_bytes: 16.0 * MB, ..IDLE },
            (25.0, MemtableLimit),
        ),
        ("no room", Gauges { unflushed_bytes: 64.0 * MB, room_bytes: 0.0, ..IDLE }, (2.0, MemtableLimit)),
        ("level 0 at its trigger", Gauges { l0_files: 4.0, ..IDLE }, (f64::INFINITY, MemtableLimit)),
        ("level 0 half way to its stop", Gauges { l0_files: 20.0, ..IDLE }, (25.0, L0FileCount)),
        ("level 0 at its stop", Gauges { l0_files: 36.0, ..IDLE }, (2.0, L0FileCount)),
        (
            "level 0 half way to its stop, and ten seconds until that is compacted",
            Gauges { l0_files: 10.0, l0_all_files: 20.0, l0_taken_files: 20.0, l0_left_bytes: 1000.0 * MB, ..IDLE },
            (66.0, L0FileCount),
        ),
        (
            "level 0 near its stop, and ten seconds until that is compacted",
            Gauges { l0_files: 10.0, l0_all_files: 32.0, l0_taken_files: 24.0, l0_left_bytes: 1000.0 * MB, ..IDLE },
            (17.3, L0FileCount),
        ),
        (
            "as many files came while level 0 is compacted as it takes",
            Gauges { l0_files: 10.0, l0_all_files: 28.0, l0_taken_files: 8.0, l0_left_bytes: 500.0 * MB, ..IDLE },
            (40.3, L0FileCount),
        ),
        (
            "what is in memory will be files, however much of it is flushed",
            Gauges {
                l0_all_files: 20.0,
                l0_taken_files: 20.0,
                l0_left_bytes: 1000.0 * MB,
                unfiled_bytes: 128.0 * MB,
                ..IDLE
            },
            (74.9, L0FileCount),
        ),
        (
            "half of level 0's compaction is done, and the next one is half as large again",
            Gauges {
                l0_all_files: 20.0,
                l0_taken_files: 16.0,
                l0_left_bytes: 500.0 * MB,
                l0_total_bytes: 1000.0 * MB,
                l0_next_bytes: 1500.0 * MB,
                ..IDLE
            },
            (119.0, L0FileCount),
        ),
        (
            "level 0's compaction has read all and is not over yet",
            Gauges {
                l0_all_files: 34.0,
                l0_taken_files: 30.0,
                l0_total_bytes: 3000.0 * MB,
                l0_next_bytes: 4000.0 * MB,
                ..IDLE
            },
            (26.3, L0FileCount),
        ),
        (
            "it is not over yet, and the next file would stop writers",
            Gauges { l0_all_files: 35.0, l0_taken_files: 30.0, ..IDLE },
            (2.0, L0FileCount),
        ),
        (
            "near the stop what is left of the room counts, whatever the next compaction may get",
            Gauges {
                l0_all_files: 32.0,
                l0_taken_files: 24.0,
                l0_left_bytes: 1000.0 * MB,
                l0_total_bytes: 2000.0 * MB,
                l0_next_bytes: 3000.0 * MB,
                ..IDLE
            },
            (17.3, L0FileCount),
        ),
        (
            "a small compaction of level 0 has read everything and is not over yet",
            Gauges { l0_all_files: 20.0, l0_taken_files: 20.0, l0_total_bytes: MB, l0_next_bytes: 2.0 * MB, ..IDLE },
            (8640.0, L0FileCount),
        ),
        (
            "nobody came during most of it",
            Gauges {
                l0_all_files: 4.0,
                l0_taken_files: 4.0,
                l0_left_bytes: 2000.0 * MB,
                l0_total_bytes: 10_000.0 * MB,
                l0_next_bytes: 10_020.0 * MB,
                ..IDLE
            },
            (46.7, L0FileCount),
        ),
        (
            "nothing stops writers",
            Gauges {
                l0_stop: f64::INFINITY,
                compacts: false,
                l0_taken_files: 4.0,
                l0_left_bytes: 1000.0 * MB,
                l0_total_bytes: 1000.0 * MB,
                l0_next_bytes: 1500.0 * MB,
                ..IDLE
            },
            (f64::INFINITY, MemtableLimit),
        ),
        ("6 s of work owed", Gauges { owed_bytes: 600.0 * MB, ..IDLE }, (50.3, PendingCompactionBytes)),
        (
            "work owed that nobody does by himself",
            Gauges { compacts: false, owed_bytes: 600.0 * MB, buffered_bytes: 120.0 * MB, ..IDLE },
            (f64::INFINITY, MemtableLimit),
        ),
        ("30 s of work owed", Gauges { owed_bytes: 3000.0 * MB, ..IDLE }, (41.0, PendingCompactionBytes)),
        ("90 s of work owed", Gauges { owed_bytes: 9000.0 * MB, ..IDLE }, (21.9, PendingCompactionBytes)),
        (
            "6 s of work owed for what is in memory",
            Gauges { buffered_bytes: 120.0 * MB, ..IDLE },
            (50.3, PendingCompactionBytes),
        ),
        (
            "half of what stops writers",
            Gauges { owed_bytes: 600.0 * MB, owed_stop: 1200.0 * MB, ..IDLE },
            (25.1, PendingCompactionBytes),
        ),
        ("an hour of work owed", Gauges { owed_bytes: 1e12, ..IDLE }, (2.0, PendingCompactionBytes)),
        (
            "30 s of work owed, by entries that take as much again in a memtable",
            Gauges { owed_bytes: 3000.0 * MB, memory_per_byte: 2.0, ..IDLE },
            (20.5, PendingCompactionBytes),
        ),
        (
            "the scarcest counts",
            Gauges { owed_bytes: 600.0 * MB, unflushed_bytes: 64.0 * MB, room_bytes: 32.0 * MB, ..IDLE },
            (50.0, MemtableLimit),
        ),
    ];
    for (name, gauges, expected) in cases {
        assert_eq!(rate(&gauges), expected, "{name}");
    }
    let unknown = Capacity::default();
    assert_eq!(pace(&Gauges { owed_bytes: 1e12, ..IDLE }, &unknown), Pace::FREE, "nothing was measured yet");
}

#[test]
fn a_wal_that_is_synced_costs_its_part_of_the_device_until_jobs_had_their_turns_beside_it() {
    let owing = Gauges { owed_bytes: 3000.0 * MB, ..IDLE };
    let idle = Gauges { buffered_bytes: 10.0 * MB, ..IDLE };
    let wals = [None, Some(1000.0 * MB), Some(100.0 * MB), Some(50.0 * MB)];
    for (gauges, guessed, expected) in [
        (owing, 1.0, [41.0, 45.6, 39.8, 33.3]),
        (owing, 0.5, [41.0, 46.0, 42.8, 39.8]),
        (owing, 0.0, [41.0, 46.4, 46.4, 46.4]),
        (idle, 1.0, [76.4, 81.7, 50.0, 33.3]),
    ] {
        let of_wal =
            |wal| pace(&gauges, &Capacity { wal, guessed, is_flush_guessed: guessed == 1.0, ..KNOWN }).rate / MB;
        let rates = wals.map(|wal| (of_wal(wal) * 10.0).round() / 10.0);
        assert_eq!(rates, expected, "{gauges:?}, guessed: {guessed}");
    }
}

#[test]
fn what_is_unsynced_stays_within_what_was_promised() {
    let cases = [(0.0, f64::INFINITY), (20.0, 300.0), (40.0, 100.0), (60.0, 33.3), (79.0, 2.0), (500.0, 2.0)];
    for (unsynced, expected) in cases {
        let pace = wal_pace(unsynced * MB, 80.0 * MB, 100.0 * MB);
        let rate = (pace.rate / MB * 10.0).round() / 10.0;
        let expected = if expected == f64::INFINITY { 8e9 } else { expected };
        assert_eq!((rate, pace.cause), (expected, StallCause::UnsyncedWal), "{unsynced} MB are unsynced");
    }
}

#[test]
fn a_sync_that_found_everything_on_the_device_does_not_make_flushes_seem_quicker_than_a_thread_is() {
    for (wal_rate, expected) in [(100.0, 100.0), (5_000.0, 400.0)] {
        let figures = Figures { wal_rate: Some(wal_rate * MB), ..Figures::default() };
        let flush = Pacer::new().measure(SECOND, &figures).flush;
        assert_eq!(flush, Some(expected * MB), "a WAL of {wal_rate} MB/s");
    }
}

#[test]
fn more_work_never_makes_writers_faster() {
    let mut last = f64::INFINITY;
    for step in 0..200 {
        let gauges = Gauges { owed_bytes: f64::from(step) * 50.0 * MB, l0_files: f64::from(step) / 5.0, ..IDLE };
        let now = pace(&gauges, &KNOWN).rate;
        assert!(now <= last && now > 0.0, "step {step}: {now} after {last}");
        last = now;
    }
}

#[test]
fn a_meter_ignores_idle_time_and_forgets() {
    let mut meter = Meter::default();
    assert_eq!(meter.rate(), None);
    meter.add(1_000_000, 0.05);
    assert_eq!(meter.rate(), None, "too little to tell");
    meter.add(1_000_000, 0.05);
    assert_eq!(meter.rate().map(f64::round), Some(20.0 * MB));
    for _ in 0..4_000 {
        meter.add(1_000_000, 0.1);
    }
    assert_eq!(meter.rate().map(f64::round), Some(10.0 * MB));
}

#[test]
fn a_guess_gives_way_to_what_is_measured() {
    let mut meter = Meter::default();
    let rate = |meter: &Meter| (meter.rate_or(40.0 * MB) / MB).round();
    assert_eq!(rate(&meter), 40.0);
    meter.add(0, 0.01);
    assert_eq!(rate(&meter), 40.0, "the first moments of a job tell little");
    meter.add((20.0 * MB) as u64, 2.0);
    assert_eq!(rate(&meter), 29.0);
    meter.add((200.0 * MB) as u64, 20.0);
    assert_eq!(rate(&meter), 10.0, "once there is enough, only that counts");
}

/// Milliseconds since the first flush began, in which it did 320 MB/s for 50 of them and 160 MB/s then; and the rate that is believed.
#[test]
fn the_first_flush_is_held_to_something_before_it_has_shown_what_it_achieves() {
    let script = [(0, Some(100.0)), (50, Some(173.0)), (100, Some(170.0)), (1_000, Some(162.0)), (10_000, Some(160.0))];
    let figures = |bytes: f64, is_running| Figures {
        flush: Done { bytes: bytes as u64, is_running, all_bytes: bytes as u64 },
        ..Figures::default()
    };
    let rate = |capacity: Capacity| capacity.flush.map(|rate| (rate / MB).round());
    let pacer = Pacer::new();
    assert_eq!(rate(pacer.measure(SECOND, &figures(0.0, false))), None, "nothing is known of the device");
    let bytes = |millis: u64| 0.32 * MB * millis.min(50) as f64 + 0.16 * MB * millis.saturating_sub(50) as f64;
    for (millis, believed) in script {
        let last = script.iter().map(|(before, _)| *before).filter(|before| *before < millis).max().unwrap_or(0);
        for now in (last..=millis).step_by(50) {
            let capacity = pacer.measure(SECOND + now * SECOND / 1_000, &figures(bytes(now), true));
            if now == millis {
                assert_eq!(rate(capacity), believed, "after {millis} ms");
            }
        }
    }
}

#[test]
fn work_in_flight_is_not_owed_and_ends_with_its_job() {
    let work = Arc::new(FamilyWork::default());
    work.set_owed(1_000);
    let mut job = Working::compaction(&work, 600, LARGE, 600, 2);
    assert!(work.is_running(Kind::Compaction) && !work.is_running(Kind::Flush));
    job.reached(1, 2);
    assert_eq!((work.owed(), work.done(Kind::Compaction), work.l0_files_done()), (700, 300, 1.0));
    job.reached(0, 2);
    assert_eq!(work.owed(), 700, "progress never goes back");
    job.reached(9, 2);
    assert_eq!((work.owed(), work.l0_files_done()), (400, 2.0), "and never beyond the end");
    work.set_owed(350);
    Working::end(Some(job), true);
    assert_eq!((work.owed(), work.done(Kind::Compaction), work.l0_files_done()), (350, 600, 0.0));
    assert!(!work.is_running(Kind::Compaction));
    let mut failed = Working::compaction(&work, 600, LARGE, 600, 2);
    failed.reached(1, 2);
    Working::end(Some(failed), false);
    assert_eq!((work.owed(), work.done(Kind::Compaction)), (350, 600), "it will be done again");
}

#[test]
fn a_deep_merge_does_not_do_what_level_0_owes() {
    let work = Arc::new(FamilyWork::default());
    work.set_owed(1_000);
    let mut deep = Working::compaction(&work, 1_000_000, LARGE, 0, 0);
    deep.reached(1, 2);
    assert_eq!((work.owed(), work.done(Kind::Compaction)), (1_000, 500_000));
    let mut mixed = Working::compaction(&work, 2_000, LARGE, 400, 2);
    mixed.reached(1, 2);
    assert_eq!(work.owed(), 800);
    Working::end(Some(deep), true);
    Working::end(Some(mixed), false);
    assert_eq!(work.owed(), 1_000);
}

/// A version of 100 bytes a table: `counts` of them by level.
fn version_of(counts: &[usize]) -> Arc<Version> {
    let order = InternalKeyComparator::new(Arc::new(Bytewise));
    let mut files = Vec::new();
    for (level, count) in counts.iter().enumerate() {
        for index in 0..*count {
            let number = files.len() as u64 + 1;
            let key = |seqno| InternalKey::new(&[b'a' + index as u8], seqno, ValueType::Put);
            let (smallest, largest) = (key(9), key(1));
            let (smallest_seqno, largest_seqno) = (1, 9);
            let file = FileMetaData {
                number,
                file_size: 100,
                smallest,
                largest,
                smallest_seqno,
                largest_seqno,
                epoch_number: number,
                ..FileMetaData::default()
            };
            files.push((level, file));
        }
    }
    version_for_test(ColumnFamilyId(0), &order, counts.len(), files, &Arc::new(ObsoleteTables::new()))
}

#[test]
fn the_universal_style_owes_what_level_0_has_once_a_merge_is_due() {
    let on = ColumnFamilyOptions::default()
        .compaction_style(CompactionStyle::Universal)
        .level0_file_num_compaction_trigger(4);
    let off = on.clone().disable_auto_compactions(true);
    let moving = |start_level, start_files: u64, input_bytes| Moving {
        start_level,
        output_level: 3,
        start_files: start_files as usize,
        start_bytes: start_files * 100,
        input_bytes,
    };
    let deep = moving(2, 5, 1_000);
    let upper = moving(0, 2, 700);
    let cases: &[(&str, &[usize], &[Moving], u64)] = &[
        ("nothing", &[0, 0, 0, 0], &[], 0),
        ("below the trigger", &[2, 0, 0, 9], &[], 0),
        ("at the trigger", &[3, 0, 0, 9], &[], 300),
        ("levels are runs, too", &[1, 5, 5, 5], &[], 100),
        ("a deep merge owes nothing", &[3, 0, 5, 9], &[deep], 300),
        ("inputs of a running merge are owed", &[5, 0, 0, 9], &[upper], 500),
        ("they are even if no other is due", &[2, 0, 0, 9], &[upper], 200),
        ("tables that just move cost nothing", &[5, 0, 0, 9], &[Moving { input_bytes: 0, ..upper }], 300),
    ];
    for (name, counts, running, expected) in cases {
        let version = version_of(counts);
        assert_eq!(owed_bytes_universal(&version, &on, running), *expected, "{name}");
        assert_eq!(owed_bytes_universal(&version, &off, running), 0, "{name}, without compactions");
    }
}

#[test]
fn time_in_which_nobody_looked_does_not_make_jobs_seem_slow() {
    let pacer = Pacer::new();
    let mut figures = Figures { buffer_bytes: BUFFER, ..Figures::default() };
    let mut now = SECOND;
    let mut flush_rate = None;
    for _ in 0..100 {
        // A flush of 64 MB at 640 MB/s that is looked at every 20 ms, and nobody who looks for a second when it is over.
        for tick in 0..=5 {
            figures.flush.is_running = true;
            flush_rate = pacer.measure(now, &figures).flush;
            if tick < 5 {
                now += SECOND / 50;
                figures.flush.bytes += (BUFFER / 5.0) as u64;
            }
        }
        figures.flush.is_running = false;
        now += SECOND;
    }
    let rate = flush_rate.unwrap() / MB;
    assert!((600.0..=680.0).contains(&rate), "{rate} MB/s");
}

#[test]
fn flushes_of_a_few_rows_do_not_make_the_engine_seem_slow() {
    let work = Arc::new(FamilyWork::default());
    let mut job = Working::flush(&work, 1_000, LARGE);
    job.reached(1, 1);
    assert!(work.is_running(Kind::Flush));
    assert_eq!((work.done(Kind::Flush), work.measured(Kind::Flush)), (1_000, (0, false)));
    Working::end(Some(job), true);
    let mut job = Working::flush(&work, 10 << 20, LARGE);
    job.reached(1, 2);
    assert_eq!((work.done(Kind::Flush), work.measured(Kind::Flush)), (1_000 + (5 << 20), (5 << 20, true)));
}

/// What jobs achieve is known however small memtables are: without it writers would meet nothing but the stop, for a second each time.
#[test]
fn writers_of_small_memtables_are_held_back_before_they_are_stopped() {
    for buffer in [256 << 10, 1 << 20, 3 << 20, 64 << 20_usize] {
        let work = Arc::new(FamilyWork::default());
        let pacer = Pacer::new();
        let mut now = SECOND;
        let look = |now| {
            let mut figures = Figures { buffer_bytes: buffer as f64, ..Figures::default() };
            figures.flush.add(&work, Kind::Flush);
            figures.compaction.add(&work, Kind::Compaction);
            pacer.measure(now, &figures)
        };
        for _ in 0..20 {
            let flush = Working::flush(&work, buffer as u64, buffer);
            let merge = Working::compaction(&work, 2 * buffer as u64, buffer, 2 * buffer as u64, 4);
            for mut job in [flush, merge] {
                look(now);
                now += SECOND / 50;
                job.reached(1, 1);
                look(now);
                Working::end(Some(job), true);
            }
        }
        let capacity = look(now);
        assert!(capacity.flush.is_some() && capacity.guessed < 1.0, "{buffer}: {capacity:?}");
        let nearly_full = Gauges { l0_files: 35.0, l0_all_files: 35.0, ..IDLE };
        assert!(pace(&nearly_full, &capacity).rate.is_finite(), "{buffer}");
    }
}

/// Nanoseconds that a second has.
const SECOND: u64 = 1_000_000_000;

#[test]
fn writers_are_kept_to_the_rate_in_small_quanta() {
    let pacer = Pacer::new();
    let mut now = SECOND;
    pacer.set(now, Pace { rate: 10.0 * MB, cause: StallCause::L0FileCount });
    let (mut written, mut unpaced, mut longest) = (0_u64, 0, 0);
    while now < 11 * SECOND {
        (written, unpaced, now) = (written + 400, unpaced + 400, now + 1_000);
        if pacer.is_due(unpaced) {
            if let Some(turn) = pacer.wait_for(now, unpaced) {
                assert_eq!(turn.cause, StallCause::L0FileCount);
                longest = longest.max(turn.until_nanos - now);
                pacer.book(now, std::mem::take(&mut unpaced));
                now = turn.until_nanos;
            } else {
                pacer.book(now, std::mem::take(&mut unpaced));
            }
        }
    }
    assert!((99_000_000..101_000_000).contains(&written), "{written} bytes in 10 s");
    assert!(longest <= 500_000, "{longest} ns in one wait");
}

#[test]
fn a_pause_is_made_up_for_only_a_little() {
    let pacer = Pacer::new();
    pacer.set(SECOND, Pace { rate: 10.0 * MB, cause: StallCause::L0FileCount });
    let mut free = 0;
    while pacer.wait_for(100 * SECOND, 1_000).is_none() {
        pacer.book(100 * SECOND, 1_000);
        free += 1_000;
    }
    assert!((50_000..60_000).contains(&free), "{free} bytes at once");
}

/// A device, and an engine on it with two write buffers and a tree that costs `amplification` bytes of compaction for each byte that is flushed.
struct Model {
    device_rate: f64,
    amplification: f64,
    active: f64,
    sealed: f64,
    owed: f64,
}

const BUFFER: f64 = 64.0 * MB;

impl Model {
    /// Lets `seconds` pass in which writers write `bytes`. Flushes and compactions share the device alike. Returns what each did.
    fn pass(&mut self, seconds: f64, bytes: f64) -> (f64, f64) {
        let share = if self.sealed > 0.0 && self.owed > 0.0 { 0.5 } else { 1.0 };
        let flushed = (self.device_rate * share * seconds).min(self.sealed);
        let compacted = (self.device_rate * share * seconds).min(self.owed);
        self.sealed -= flushed;
        self.owed = self.owed - compacted + flushed * self.amplification;
        self.active += bytes;
        if self.active >= BUFFER && self.sealed == 0.0 {
            (self.sealed, self.active) = (self.active, 0.0);
        }
        (flushed, compacted)
    }

    fn gauges(&self) -> Gauges {
        let free = if self.sealed > 0.0 { 0.0 } else { BUFFER };
        let room_bytes = (BUFFER - self.active + free).max(0.0);
        Gauges {
            room_bytes,
            unflushed_bytes: self.sealed,
            owed_bytes: self.owed,
            buffered_bytes: self.active + self.sealed,
            max_buffered_bytes: 2.0 * BUFFER,
            ..IDLE
        }
    }
}

#[test]
fn a_device_too_slow_for_writers_slows_them_evenly_and_debt_ends_growing() {
    for (device_rate, amplification) in
        [(80.0 * MB, 3.0), (80.0 * MB, 8.0), (500.0 * MB, 4.0), (30.0 * MB, 10.0), (10.0 * MB, 10.0)]
    {
        let mut model = Model { device_rate, amplification, active: 0.0, sealed: 0.0, owed: 0.0 };
        let pacer = Pacer::new();
        let (mut flushed, mut compacted) = (Done::default(), Done::default());
        let (step, mut now) = (SECOND / 1_000, SECOND);
        let mut seconds = Vec::new();
        for _ in 0..1_200 {
            let mut written = 0.0;
            for _ in 0..1_000 {
                let figures = Figures {
                    flush: flushed,
                    compaction: compacted,
                    owed_bytes: model.owed,
                    buffer_bytes: BUFFER,
                    wal_rate: None,
                };
                let capacity = pacer.measure(now, &figures);
                // Writers that would write 400 MB/s.
                let rate = pace(&model.gauges(), &capacity).rate.min(400.0 * MB);
                let bytes = if model.gauges().room_bytes > 0.0 { rate / 1e3 } else { 0.0 };
                let (more_flushed, more_compacted) = model.pass(1e-3, bytes);
                let all_bytes = flushed.all_bytes + more_flushed as u64;
                flushed = Done { bytes: all_bytes, is_running: model.sealed > 0.0, all_bytes };
                let all_bytes = compacted.all_bytes + more_compacted as u64;
                compacted = Done { bytes: all_bytes, is_running: model.owed > 0.0, all_bytes };
                written += bytes;
                now += step;
            }
            seconds.push(written);
        }
        let late = &seconds[900..];
        let mean = late.iter().sum::<f64>() / late.len() as f64;
        let (least, most) =
            late.iter().fold((f64::MAX, 0.0_f64), |(low, high), rate| (low.min(*rate), high.max(*rate)));
        let sustained = device_rate / (1.0 + amplification);
        let context =
            format!("{device_rate} at {amplification}: {least} to {most}, mean {mean}, sustained {sustained}");
        assert!((0.9..1.1).contains(&(mean / sustained.min(400.0 * MB))), "{context}");
        assert!(least > 0.7 * mean && most < 1.3 * mean, "{context}");
        assert!(model.owed < (160.0 * device_rate).max(6.0 * BUFFER * amplification), "{context}: {} owed", model.owed);
    }
}

fn job(files: f64, left_bytes: f64, total_bytes: f64) -> Level0Job {
    Level0Job { files, left_bytes, total_bytes }
}

#[test]
fn a_compaction_of_level_0_that_is_due_counts_as_if_it_began_now() {
    let on = ColumnFamilyOptions::default().level0_file_num_compaction_trigger(4);
    let off = on.clone().disable_auto_compactions(true);
    let universal = on.clone().compaction_style(CompactionStyle::Universal);
    let none = Level0Job::default();
    let cases = [
        ("below the trigger", [3, 0, 0, 9], none, none),
        ("with the first level that has tables", [4, 0, 2, 9], none, job(4.0, 600.0, 600.0)),
        ("into an empty tree", [5, 0, 0, 0], none, job(5.0, 500.0, 500.0)),
        ("one that runs is what it is", [9, 0, 2, 9], job(4.0, 70.0, 500.0), job(4.0, 70.0, 500.0)),
    ];
    for (name, counts, running, expected) in cases {
        let version = version_of(&counts);
        assert_eq!(level0_job(&version, &on, running), expected, "{name}");
        assert_eq!(level0_job(&version, &off, running), running, "{name}, without compactions");
        assert_eq!(level0_job(&version, &universal, running), running, "{name}, in another style");
    }
}

#[test]
fn the_next_compaction_of_level_0_reads_again_what_this_one_leaves() {
    let on = ColumnFamilyOptions::default().level0_stop_writes_trigger(20).write_buffer_size(1000);
    let universal = on.clone().compaction_style(CompactionStyle::Universal);
    let small = on.clone().write_buffer_size(30);
    let late = on.clone().level0_file_num_compaction_trigger(15);
    let cases = [
        ("nothing is due", [3, 0, 0, 9], &on, 0.0, 0.0),
        ("half of the stop comes", [6, 0, 2, 9], &on, 600.0, 1600.0),
        ("a merge of a part of the level below", [6, 0, 20, 9], &on, 700.0, 1700.0),
        ("files that are larger than those that come", [6, 0, 2, 9], &small, 600.0, 900.0),
        ("a trigger beyond half of the stop", [16, 0, 2, 9], &late, 1800.0, 3300.0),
        ("level 0 was emptied meanwhile", [0, 0, 2, 9], &on, 600.0, 0.0),
        ("another style", [6, 0, 2, 9], &universal, 600.0, 0.0),
    ];
    for (name, counts, options, total, expected) in cases {
        assert_eq!(level0_next(&version_of(&counts), options, total), expected, "{name}");
    }
}

#[test]
fn a_compaction_of_level_0_is_told_of_until_it_ends() {
    let work = Arc::new(FamilyWork::default());
    let mut merge = Working::compaction(&work, 1_000, LARGE, 1_000, 4);
    assert_eq!(work.level0_job(), job(4.0, 1_000.0, 1_000.0));
    merge.reached(3, 4);
    assert_eq!(work.level0_job(), job(4.0, 250.0, 1_000.0));
    merge.reached(4, 4);
    assert_eq!(work.level0_job(), job(4.0, 0.0, 1_000.0), "it has read everything and is not over");
    let deep = Working::compaction(&work, 5_000, LARGE, 5_000, 0);
    assert_eq!(work.level0_job(), job(4.0, 0.0, 1_000.0));
    Working::end(Some(merge), true);
    assert_eq!(work.level0_job(), Level0Job::default());
    Working::end(Some(deep), true);
}
