//! A database that is filled on a device, in virtual time: the law, the meters and the pickers, with make-believe tables.

use super::super::law::{Gauges, pace};
use super::super::level0::{Level0Job, level0_job, level0_next};
use super::super::owed::owed_bytes;
use super::super::pacer::{Done, Figures, Pacer};
use super::{MB, SECOND};
use crate::compaction::simulator::{Simulation, SteppedTree};
use crate::compaction::{LevelTargets, levels_with_data};
use crate::db::wal_lag::WalLag;
use crate::options::ColumnFamilyOptions;

/// A database and its device.
#[derive(Clone, Copy)]
struct Fill {
    /// Bytes that the device writes in a second.
    device: f64,
    /// Bytes of memtables that a flush works through in a second where the device does not hold it.
    flush: f64,
    /// Bytes that compactions work through in a second where the device does not hold them.
    compaction: f64,
    /// Bytes that a writer writes in a second if nobody holds it.
    writer: f64,
    /// Bytes of a table per byte of its memtable.
    compression: f64,
    /// Distinct keys.
    keys: u64,
    /// Bytes of a row in a memtable.
    row: f64,
    /// How many rows are written.
    rows: u64,
    /// Whether level 0 may go into sublevels.
    sublevels: bool,
    /// Whether the WAL is synced every second.
    syncs_wal: bool,
    /// By what part compactions are quicker, and then slower, for ten seconds each.
    unsteady: f64,
}

/// How it went.
struct Course {
    /// Rows written in each second.
    rates: Vec<f64>,
    /// Bytes owed at the end of the fill.
    owed: u64,
    /// Seconds until nothing was owed any more.
    settle: f64,
    /// Seconds in which writers were stopped altogether.
    stopped: f64,
    /// Bytes of tables at the end of the fill, per byte once nothing was owed.
    space: f64,
    /// Files of level 0 during the fill: the mean and the most.
    level0: (f64, usize),
    /// Sorted runs during the fill: the mean and the most.
    runs: (f64, usize),
    /// Bytes of tables that were written, per byte that was flushed.
    write_amp: f64,
    /// Levels with tables at the end, level 0 aside.
    levels: usize,
}

impl Fill {
    fn run(&self) -> Course {
        let options = ColumnFamilyOptions::default()
            .write_buffer_size(64 << 20)
            .max_write_buffer_number(2)
            .level_compaction_dynamic_level_bytes(true)
            .level0_sublevels(self.sublevels);
        let buffer = options.write_buffer_size as f64;
        let entry_bytes = (self.row * self.compression) as u64;
        let mut simulation = Simulation::new(options.clone().write_buffer_size((buffer * self.compression) as usize));
        simulation.keys = self.keys;
        simulation.entry_bytes = entry_bytes;
        simulation.jobs = 1;
        let tree_options = simulation.options.clone();
        let mut tree = SteppedTree::new(simulation);
        let pacer = Pacer::new();
        let (mut active, mut sealed, mut flushed_now) = (0.0, 0.0, 0.0);
        let (mut flushed, mut compacted) = (Done::default(), Done::default());
        let (tick, mut now) = (0.002, SECOND);
        let (mut rates, mut rows, mut this_second, mut ticks) = (Vec::new(), 0.0, 0.0, 0_u64);
        let owed_of = |tree: &SteppedTree| {
            let targets = LevelTargets::new(tree.version(), &tree_options);
            let (moving, read) = tree.moving();
            owed_bytes(tree.version(), &tree_options, &targets, &moving).saturating_sub(read)
        };
        let lag = WalLag::new(if self.syncs_wal { 1000 } else { 0 });
        let (mut sync, mut is_early, mut unsynced_since) = (None, false, now);
        // What a limiter lets through at once.
        let mut burst = 8.0 * MB;
        let mut owed_at_end = None;
        let (mut settle, mut stopped) = (0.0, 0.0);
        let (mut level0, mut runs) = ((0.0, 0), (0.0, 0));
        loop {
            let is_filling = rows < self.rows as f64;
            let owed = owed_of(&tree);
            if !is_filling {
                owed_at_end.get_or_insert((owed, tree.version().total_bytes()));
                settle += tick;
                if !tree.is_busy() && sealed == 0.0 {
                    break;
                }
            }
            let free = if sealed > 0.0 { 0.0 } else { buffer };
            let [files, left_bytes, total_bytes] = tree.level0_job();
            let running = Level0Job { files, left_bytes, total_bytes };
            let level0_now = level0_job(tree.version(), &tree_options, running);
            let gauges = Gauges {
                room_bytes: (buffer - active + free).max(0.0),
                unflushed_bytes: sealed - flushed_now,
                l0_files: tree.l0_files(),
                l0_all_files: tree.version().files(0).len() as f64,
                l0_taken_files: level0_now.files,
                l0_left_bytes: level0_now.left_bytes,
                l0_total_bytes: level0_now.total_bytes,
                l0_next_bytes: level0_next(tree.version(), &tree_options, level0_now.total_bytes),
                l0_trigger: 4.0,
                l0_stop: 36.0,
                compacts: true,
                owed_bytes: owed as f64,
                buffered_bytes: active + sealed - flushed_now,
                unfiled_bytes: active + sealed,
                max_buffered_bytes: 2.0 * buffer,
                buffer_bytes: buffer,
                owed_stop: f64::INFINITY,
                memory_per_byte: 1.0,
            };
            let figures = Figures {
                flush: flushed,
                compaction: compacted,
                owed_bytes: owed as f64,
                buffer_bytes: buffer,
                wal_rate: lag.rate(),
            };
            let capacity = pacer.measure(now, &figures);
            let rate = pace(&gauges, &capacity).min(lag.pace()).rate.min(self.writer);
            // Whatever the pace: without room for a memtable or in level 0 writers are stopped.
            let is_stopped = gauges.room_bytes <= 0.0 || gauges.l0_all_files >= gauges.l0_stop;
            stopped += if is_filling && is_stopped { tick } else { 0.0 };
            let bytes = if is_filling && !is_stopped { rate * tick } else { 0.0 };
            active += bytes;
            rows += bytes / self.row;
            this_second += bytes / self.row;
            if active >= buffer && sealed == 0.0 {
                (sealed, active, flushed_now) = (active, 0.0, 0.0);
            }
            lag.grew(bytes as u64);
            if self.syncs_wal && sync.is_none() && (is_early || lag.begins_early() || now - unsynced_since >= SECOND) {
                let begun = lag.begin(now);
                let unsynced = lag.unsynced_bytes() as f64;
                let at_once = unsynced.min(burst);
                burst -= at_once;
                sync = Some((begun, unsynced - at_once));
            }
            let users = 1.0 + f64::from(sealed > 0.0) + f64::from(tree.is_busy());
            let wal_share = sync.map_or(0.0, |_| 1.0 / users);
            if let Some((begun, left)) = sync {
                let left = left - self.device * wal_share * tick;
                sync = (left > 0.0).then_some((begun, left));
                if sync.is_none() {
                    lag.synced(begun, now + (tick * 1e9) as u64);
                    is_early = lag.goes_on_syncing();
                    unsynced_since = now;
                }
            }
            let device = self.device * (1.0 - wal_share);
            // A flush and compactions share the rest alike, unless the flush is behind.
            let is_urgent = sealed > 0.0 && active / buffer > flushed_now / sealed;
            let share = match (sealed > 0.0, tree.is_busy()) {
                (true, true) if is_urgent => 1.0,
                (true, true) => 0.5,
                (true, false) => 1.0,
                (false, _) => 0.0,
            };
            if sealed > 0.0 {
                let at_once = (self.flush * self.compression * tick).min(burst);
                burst -= at_once;
                let of_device = (device * share * tick + at_once) / self.compression;
                let step = (self.flush * tick).min(of_device).min(sealed - flushed_now);
                flushed_now += step;
                flushed.all_bytes += step as u64;
                if flushed_now >= sealed {
                    (sealed, flushed_now) = (0.0, 0.0);
                    tree.flush();
                    tree.start();
                }
            }
            let is_quick = (now / (10 * SECOND)).is_multiple_of(2);
            let compaction = self.compaction * (1.0 + if is_quick { self.unsteady } else { -self.unsteady });
            let read = tree.advance(((device * (1.0 - share)).min(compaction) * tick) as u64);
            compacted.all_bytes += read;
            flushed = Done { bytes: flushed.all_bytes, is_running: sealed > 0.0, all_bytes: flushed.all_bytes };
            let is_running = tree.is_busy();
            compacted = Done { bytes: compacted.all_bytes, is_running, all_bytes: compacted.all_bytes };
            now += (tick * 1e9) as u64;
            ticks += 1;
            if is_filling {
                let now = tree.version().files(0).len();
                level0 = (level0.0 + now as f64, level0.1.max(now));
                let now = now + levels_with_data(tree.version());
                runs = (runs.0 + now as f64, runs.1.max(now));
            }
            if ticks.is_multiple_of(500) && is_filling {
                rates.push(std::mem::take(&mut this_second));
            }
        }
        let (owed, bytes) = owed_at_end.unwrap_or_default();
        let filled = (rates.len() as f64 / tick).max(1.0);
        Course {
            rates,
            owed,
            settle,
            stopped,
            space: bytes as f64 / tree.version().total_bytes() as f64,
            level0: (level0.0 / filled, level0.1),
            runs: (runs.0 / filled, runs.1),
            write_amp: tree.write_amp(),
            levels: levels_with_data(tree.version()),
        }
    }
}

impl Course {
    fn plain(&self) -> f64 {
        let mean = self.rates.iter().sum::<f64>() / self.rates.len() as f64;
        let squares = self.rates.iter().map(|rate| (rate - mean).powi(2)).sum::<f64>();
        (squares / self.rates.len() as f64).sqrt() / mean
    }

    /// The coefficient against a median of 15 s, and the worst second.
    fn detrended(&self) -> (f64, f64) {
        let ratios: Vec<f64> = (0..self.rates.len())
            .map(|at| {
                let mut around = self.rates[at.saturating_sub(7)..(at + 8).min(self.rates.len())].to_vec();
                around.sort_by(f64::total_cmp);
                self.rates[at] / around[around.len() / 2]
            })
            .collect();
        let squares = ratios.iter().map(|ratio| (ratio - 1.0).powi(2)).sum::<f64>();
        let worst = ratios.iter().copied().fold(f64::MAX, f64::min);
        ((squares / ratios.len() as f64).sqrt(), worst)
    }
}

/// Five gigabytes of rows with values of 400 bytes, in random order, on a device that writes 95 MB/s.
const THROTTLED: Fill = Fill {
    device: 95.0 * MB,
    flush: 120.0 * MB,
    compaction: 120.0 * MB,
    writer: 140.0 * MB,
    compression: 0.6,
    keys: 12_000_000,
    row: 430.0,
    rows: 12_000_000,
    sublevels: false,
    syncs_wal: false,
    unsteady: 0.0,
};

/// What must hold of a course.
struct Bounds {
    /// Seconds for filling and settling.
    seconds: f64,
    /// The coefficient of variation over all seconds.
    plain: f64,
    /// That against a median of 15 s.
    detrended: f64,
    /// The worst second in parts of that median.
    worst: f64,
    /// Bytes that were owed at the end, in those that were written.
    owed: f64,
    /// Bytes of tables at the end, in those that are left when nothing is owed.
    space: f64,
}

#[test]
fn writers_get_an_even_share_of_any_device() {
    let slow = Fill { device: 30.0 * MB, ..THROTTLED };
    let fast = Fill { device: 1500.0 * MB, flush: 250.0 * MB, compaction: 220.0 * MB, writer: 220.0 * MB, ..THROTTLED };
    let small = Fill { row: 130.0, rows: 36_000_000, keys: 36_000_000, ..THROTTLED };
    let overwritten = Fill { rows: 36_000_000, ..THROTTLED };
    let overwritten_fast = Fill { rows: 48_000_000, flush: 140.0 * MB, compaction: 110.0 * MB, ..fast };
    // What level 0 waits for grows with each merge.
    let ahead =
        Fill { device: 1500.0 * MB, flush: 425.0 * MB, compaction: 150.0 * MB, writer: 190.0 * MB, ..THROTTLED };
    let few = Fill { rows: 36_000_000, keys: 3_000_000, ..ahead };
    let unsteady = Fill { unsteady: 0.25, ..ahead };
    let synced = Fill { syncs_wal: true, ..THROTTLED };
    // Threads that are many times as quick as the device.
    let quick = Fill {
        device: 84.0 * MB,
        writer: 260.0 * MB,
        flush: 260.0 * MB,
        compaction: 240.0 * MB,
        compression: 0.5,
        ..THROTTLED
    };
    let bounds =
        |seconds, plain, detrended, worst, owed, space| Bounds { seconds, plain, detrended, worst, owed, space };
    for (name, fill, bounds) in [
        ("throttled", THROTTLED, bounds(145.0, 0.20, 0.08, 0.85, 0.8, 1.4)),
        ("slow", slow, bounds(480.0, 0.45, 0.15, 0.85, 0.55, 1.3)),
        ("throttled beneath quick threads", quick, bounds(132.0, 0.25, 0.08, 0.9, 0.6, 1.4)),
        ("synced every second", synced, bounds(195.0, 0.20, 0.09, 0.80, 0.65, 1.3)),
        (
            "synced every second beneath quick threads",
            Fill { syncs_wal: true, ..quick },
            bounds(200.0, 0.20, 0.09, 0.80, 0.65, 1.3),
        ),
        ("fast and synced every second", Fill { syncs_wal: true, ..fast }, bounds(60.0, 0.2, 0.1, 0.7, 0.8, 1.4)),
        ("fast", fast, bounds(52.0, 0.20, 0.10, 0.7, 0.8, 1.4)),
        ("small rows", small, bounds(130.0, 0.20, 0.08, 0.85, 0.8, 1.4)),
        ("overwritten", overwritten, bounds(490.0, 0.27, 0.06, 0.82, 0.5, 1.7)),
        ("overwritten on a fast device", overwritten_fast, bounds(470.0, 0.35, 0.08, 0.75, 0.5, 1.7)),
        ("beneath a writer that is quicker than compactions", ahead, bounds(66.0, 0.26, 0.05, 0.85, 0.95, 1.5)),
        (
            "overwritten beneath such a writer",
            Fill { rows: 36_000_000, ..ahead },
            bounds(240.0, 0.42, 0.04, 0.82, 0.5, 1.7),
        ),
        ("few keys beneath such a writer", few, bounds(150.0, 0.25, 0.06, 0.88, 0.4, 2.2)),
        ("beneath such a writer by unsteady compactions", unsteady, bounds(66.0, 0.33, 0.045, 0.86, 0.95, 1.5)),
    ] {
        let course = fill.run();
        let (detrended, worst) = course.detrended();
        let seconds = course.rates.len() as f64 + course.settle;
        let owed = course.owed as f64 / (fill.rows as f64 * fill.row);
        let is_good = seconds <= bounds.seconds
            && course.plain() <= bounds.plain
            && detrended <= bounds.detrended
            && worst >= bounds.worst
            && course.stopped == 0.0
            && owed <= bounds.owed
            && course.space <= bounds.space;
        let rates: Vec<u64> = course.rates.iter().map(|rate| (rate / 1e3) as u64).collect();
        assert!(
            is_good,
            "{name}: {seconds:.1} s, of which {:.1} to settle, {:.2} stopped; level 0 {:?}; plain {:.3}, detrended {detrended:.3}, worst {worst:.2}, owed {owed:.2}, space {:.2}; {rates:?}",
            course.settle,
            course.stopped,
            course.level0,
            course.plain(),
            course.space
        );
    }
}

/// Where the base level is busy for long, sublevels keep level 0 short. What is written beside is bounded.
#[test]
fn sublevels_keep_level_0_short() {
    for (name, fill) in [("throttled", THROTTLED), ("slow", Fill { device: 30.0 * MB, ..THROTTLED })] {
        let (without, with) = (fill.run(), Fill { sublevels: true, ..fill }.run());
        let seconds = |course: &Course| course.rates.len() as f64 + course.settle;
        let is_good = with.level0.0 < without.level0.0 * 0.7
            && with.runs.0 < without.runs.0
            && with.write_amp < without.write_amp * 1.4
            && seconds(&with) < seconds(&without) * 1.4;
        let shown = |course: &Course| {
            format!(
                "{:.0} s, level 0 {:.1} up to {}, runs {:.1} up to {}, written {:.2}",
                seconds(course),
                course.level0.0,
                course.level0.1,
                course.runs.0,
                course.runs.1,
                course.write_amp
            )
        };
        assert!(is_good, "{name}: without {}; with {}", shown(&without), shown(&with));
    }
}

#[test]
fn a_lasting_overwrite_keeps_most_of_its_rate_when_the_tree_grows_a_level() {
    // Threads that are many times as quick as the device.
    let quick = Fill {
        device: 60.0 * MB,
        writer: 260.0 * MB,
        flush: 260.0 * MB,
        compaction: 240.0 * MB,
        compression: 0.53,
        ..THROTTLED
    };
    let mean = |rates: &[f64]| rates.iter().sum::<f64>() / rates.len() as f64;
    let (before, after) = (Fill { rows: 50_000_000, ..quick }.run(), Fill { rows: 90_000_000, ..quick }.run());
    let last = |course: &Course| mean(&course.rates[course.rates.len() - 120..]);
    let (two, three) = (last(&before), last(&after));
    println!("{two:.0} rows/s on {} levels, {three:.0} on {}", before.levels, after.levels);
    assert_eq!((before.levels, after.levels), (2, 3));
    assert!(three > 0.85 * two, "{three:.0} rows/s, {two:.0} before");
    assert!(after.write_amp < 4.6, "{:.2} bytes written per byte flushed", after.write_amp);
}
