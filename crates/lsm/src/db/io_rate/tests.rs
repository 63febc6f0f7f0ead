//! Jobs under a rate, on a simulated disk and clock.

use super::tuning::{Backlog, tuned_rate};
use super::{Metered, Moved};
use crate::event::{CompactionInfo, EventListener, FlushInfo, RateLimitInfo};
use crate::metrics::{Counter, HistogramKind};
use crate::{
    ColumnFamilyOptions, CompressionType, Db, DbOptions, FlushOptions, RateLimiterMode, ReadOptions, WriteOptions,
};
use siltstone_base::clock::{Clock, ManualClock};
use siltstone_base::env::sim::SimDisk;
use siltstone_base::executor::{Executor, StepExecutor};
use siltstone_base::rate_limiter::RatePriority;
use siltstone_base::script::run_file;
use siltstone_base::sync::{Mutex, Rank};
use std::sync::Arc;
use std::time::Duration;

const KB: u64 = 1 << 10;

#[test]
fn the_rate_follows_the_backlog_as_the_script_says() {
    run_file(concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/rate_tuning"), |command| {
        assert_eq!(command.name, "tune");
        let backlog = Backlog {
            owed_bytes: command.get_or("owed", 0),
            unflushed_bytes: command.get_or("unflushed", 0),
            level0_share: command.get_or("level0", 0.0),
            buffers_share: command.get_or("buffers", 0.0),
            is_awaited: command.get_or("awaited", 0) > 0,
        };
        format!("{}\n", tuned_rate(command.get_or("most", 100_000_000), &backlog))
    });
}

/// More of anything that is owed never lowers the rate, and the bounds hold.
#[test]
fn more_work_is_never_slower() {
    let values = [0_u64, 1, 1 << 10, 1 << 20, 1 << 27, 1 << 30, 1 << 40, u64::MAX];
    for most in [1, 19, 20, 1 << 20, u64::MAX] {
        let mut before = 0;
        for owed_bytes in values {
            let rate = tuned_rate(most, &Backlog { owed_bytes, ..Backlog::default() });
            assert!(rate >= before && rate <= most && rate >= most / 20, "{most} {owed_bytes}: {rate}");
            before = rate;
        }
    }
}

/// Ends of jobs, by the clock.
#[derive(Debug)]
struct Watch {
    clock: Arc<ManualClock>,
    flushes: Mutex<Vec<u64>>,
    compactions: Mutex<Vec<u64>>,
    rates: Mutex<Vec<RateLimitInfo>>,
}

impl EventListener for Watch {
    fn flush_end(&self, _: &FlushInfo) {
        self.flushes.lock().push(self.clock.now_micros());
    }

    fn compaction_end(&self, info: &CompactionInfo) {
        if info.error.is_none() && !info.trivial_move {
            self.compactions.lock().push(self.clock.now_micros());
        }
    }

    fn rate_limit_changed(&self, info: &RateLimitInfo) {
        self.rates.lock().push(info.clone());
    }
}

struct World {
    clock: Arc<ManualClock>,
    executor: Arc<StepExecutor>,
    watch: Arc<Watch>,
    db: Db,
}

impl World {
    fn new(limit: impl FnOnce(DbOptions) -> DbOptions) -> Self {
        let clock = Arc::new(ManualClock::new(1_700_000_000));
        let executor = Arc::new(StepExecutor::new(Arc::clone(&clock)));
        executor.limit_steps(20);
        let list = |rank| Rank(u16::MAX - rank);
        let watch = Arc::new(Watch {
            clock: Arc::clone(&clock),
            flushes: Mutex::new(list(0), Vec::new()),
            compactions: Mutex::new(list(0), Vec::new()),
            rates: Mutex::new(list(0), Vec::new()),
        });
        let options = DbOptions::default()
            .create_if_missing(true)
            .env(Some(SimDisk::new().env()))
            .executor(Some(executor.clone()))
            .listeners(vec![watch.clone()]);
        let family = ColumnFamilyOptions::default()
            .compression(CompressionType::None)
            .level0_file_num_compaction_trigger(2)
            .target_file_size_base(64 * KB);
        let db = Db::open_families("/db", &limit(options), &[("default", family)]).unwrap();
        Self { clock, executor, watch, db }
    }

    /// Writes `count` rows of about a KiB and asks for their flush.
    fn write_and_flush(&self, count: u64) {
        for number in 0..count {
            self.db.put(format!("{number:06}"), [7; 1000]).unwrap();
        }
        self.db.flush(&FlushOptions::default().wait(false)).unwrap();
    }

    fn seconds(&self) -> f64 {
        self.clock.now_micros() as f64 / 1e6
    }
}

#[test]
fn flushes_and_compactions_keep_to_the_rate() {
    let world = World::new(|options| options.rate_limiter_bytes_per_sec(100 * KB));
    for _ in 0..4 {
        world.write_and_flush(200);
        world.db.wait_for_background_work().unwrap();
    }
    let counters = world.db.metrics().counters();
    let bytes = counters.get(Counter::FlushWriteBytes) + counters.get(Counter::CompactWriteBytes);
    let seconds = world.seconds();
    assert!(counters.get(Counter::CompactWriteBytes) > 150 * KB, "{counters:?}");
    let rate = bytes as f64 / seconds / KB as f64;
    // The end of each job is not waited for, and each pause is made up for by a burst.
    assert!((85.0..125.0).contains(&rate), "{rate} KiB/s over {seconds} s");
    let waited = counters.get(Counter::RateLimiterWriteWaitMicros) as f64 / 1e6;
    assert_eq!(counters.get(Counter::RateLimiterBytesRead), 0, "reads do not count here");
    let asked = counters.get(Counter::RateLimiterBytesWritten);
    assert!(
        (bytes / 2..=bytes).contains(&asked),
        "asked for {asked} bytes, wrote {bytes} with what follows the last step"
    );
    let waits = world.db.metrics().histogram(HistogramKind::RateLimiterWriteWait);
    assert_eq!(waits.count(), counters.get(Counter::RateLimiterDelayedWrites));
    assert_eq!(waits.sum(), counters.get(Counter::RateLimiterWriteWaitMicros));
    assert!(counters.get(Counter::RateLimiterWrites) >= waits.count());
    assert!(counters.get(Counter::RateLimiterDelayedWrites) > 10 && waited > seconds / 2.0, "{waited} of {seconds} s");
}

#[test]
fn the_rate_is_changed_while_jobs_wait() {
    let world = World::new(|options| options);
    let rate = |bytes: &str| world.db.set_db_options(&[("rate_limiter_bytes_per_sec", bytes)]).unwrap();
    rate("100K");
    world.write_and_flush(400);
    world.executor.run_until_idle();
    assert!(world.db.metrics().get(Counter::RateLimiterDelayedWrites) > 0);
    let before = world.seconds();
    // What waits goes on, and nothing waits any more.
    rate("0");
    world.db.wait_for_background_work().unwrap();
    assert!(world.seconds() - before < 0.1, "{} s", world.seconds() - before);
    rate("100K");
    world.write_and_flush(400);
    world.db.wait_for_background_work().unwrap();
    assert!(world.seconds() - before > 2.0, "{} s", world.seconds() - before);
}

#[test]
fn a_limit_that_comes_while_a_job_runs_does_not_charge_what_it_moved_before() {
    let world = World::new(|options| options);
    let inner = &world.db.handle.inner;
    let mut metered = Metered::new(RatePriority::Level0);
    let gigabytes = 20 << 30;
    assert_eq!(inner.meter(&mut metered, Moved { read: gigabytes, written: gigabytes }), None);
    world.db.set_db_options(&[("rate_limiter_bytes_per_sec", "10M")]).unwrap();
    assert_eq!(inner.meter(&mut metered, Moved { read: gigabytes, written: gigabytes + 4096 }), None);
    inner.meter(&mut metered, Moved { read: gigabytes, written: gigabytes + (4 << 20) });
    let wait = inner.meter(&mut metered, Moved { read: gigabytes, written: gigabytes + (4 << 20) + 4096 });
    assert!(wait.is_some_and(|wait| wait < Duration::from_secs(1)), "{wait:?}");
}

#[test]
fn without_a_limit_nobody_waits_and_no_time_passes() {
    let world = World::new(|options| options);
    world.write_and_flush(200);
    world.db.wait_for_background_work().unwrap();
    assert_eq!(world.clock.now_micros(), 0);
    assert_eq!(world.db.metrics().get(Counter::RateLimiterDelayedWrites), 0);
}

#[test]
fn a_flush_does_not_stand_behind_what_compactions_owe_the_limiter() {
    let world = World::new(|options| options.rate_limiter_bytes_per_sec(100 * KB));
    // The first of them just moves.
    for _ in 0..3 {
        world.write_and_flush(400);
        while world.watch.flushes.lock().is_empty() {
            world.executor.sleep(Duration::from_millis(10));
        }
        world.watch.flushes.lock().clear();
    }
    // The compaction of both has begun, and takes about four seconds.
    world.executor.sleep(Duration::from_millis(10));
    assert_eq!(world.db.property("rocksdb.num-running-compactions").unwrap(), "1");
    world.executor.sleep(Duration::from_secs(1));
    assert!(world.watch.compactions.lock().is_empty());
    let asked = world.clock.now_micros();
    world.write_and_flush(50);
    let db = &world.db;
    while world.watch.flushes.lock().is_empty() {
        world.executor.sleep(Duration::from_millis(10));
    }
    let took = world.watch.flushes.lock()[0] - asked;
    assert!(took < 800_000, "50 KiB took {took} microseconds");
    assert!(world.watch.compactions.lock().is_empty(), "the compaction goes on behind it");
    db.wait_for_background_work().unwrap();
    db.check().unwrap();
}

#[test]
fn closing_does_not_wait_for_the_limiter() {
    let world = World::new(|options| options.rate_limiter_bytes_per_sec(KB));
    world.write_and_flush(100);
    (0..20)
        .for_each(|_| assert!(world.executor.step() || world.db.metrics().get(Counter::RateLimiterDelayedWrites) > 0));
    let before = world.clock.now_micros();
    world.db.close().unwrap();
    let took = world.clock.now_micros() - before;
    assert!(took <= 50_000, "{took} microseconds");
}

#[test]
fn an_idle_engine_is_tuned_down_and_a_backlog_up() {
    let most = 1000 * KB;
    let world = World::new(|options| options.rate_limiter_bytes_per_sec(most).rate_limiter_auto_tuned(true));
    let limiter = world.db.handle.inner.io_rate.limiter();
    for _ in 0..3 {
        world.write_and_flush(100);
        world.db.wait_for_background_work().unwrap();
    }
    let low = limiter.bytes_per_second();
    assert!((most / 20..most / 2).contains(&low), "{low}");
    // Ten times as much asks for more.
    let mut high = 0;
    for _ in 0..6 {
        world.write_and_flush(2000);
        while world.db.property("rocksdb.num-immutable-mem-table").unwrap() != "0" {
            world.executor.sleep(Duration::from_millis(50));
            high = high.max(limiter.bytes_per_second());
        }
    }
    assert!(high > 2 * low, "{low} to {high}");
    let rates = world.watch.rates.lock().clone();
    assert!(rates.iter().any(|change| change.current > change.previous), "{rates:?}");
    assert!(rates.iter().all(|change| change.current <= most && change.current >= most / 20), "{rates:?}");
    world.db.wait_for_background_work().unwrap();
}

#[test]
fn what_callers_read_is_taken_from_compactions_where_reads_count() {
    let granted = |mode: RateLimiterMode| {
        let world = World::new(|options| options.rate_limiter_bytes_per_sec(1000 * KB).rate_limiter_mode(mode));
        for round in 0..4_u64 {
            world.write_and_flush(100);
            world.db.wait_for_background_work().unwrap();
            for number in 0..100 {
                let options = ReadOptions::default().fill_cache(false);
                let family = world.db.default_family();
                assert!(world.db.get_cf(&family, format!("{number:06}"), &options).unwrap().is_some(), "{round}");
            }
        }
        world.db.put_cf(&world.db.default_family(), "end", "", &WriteOptions::default()).unwrap();
        let limiter = world.db.handle.inner.io_rate.limiter();
        RatePriority::ALL.map(|priority| limiter.granted_bytes(priority))
    };
    let [users, flushes, level0, ..] = granted(RateLimiterMode::AllIo);
    assert!(users > 100 * KB && flushes > 300 * KB && level0 > 300 * KB, "{users} {flushes} {level0}");
    let [users, flushes, writes, ..] = granted(RateLimiterMode::WritesOnly);
    assert!(users == 0 && flushes > 300 * KB && writes < level0, "{users} {flushes} {writes}");
    let [users, flushes, reads, ..] = granted(RateLimiterMode::ReadsOnly);
    assert!(users > 100 * KB && flushes == 0 && reads < level0, "{users} {flushes} {reads}");
    assert!((level0 * 4 / 5..level0 * 6 / 5).contains(&(reads + writes)), "{reads} {writes} {level0}");
}
