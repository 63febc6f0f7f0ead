//! How soon a flush begins while a large compaction of the bottom level runs.
//!
//! `cargo bench --bench flush_start [-- --megabytes N --flushes N]`: fills the bottom level with so many megabytes (1024 unless said), rewrites it in one
//! compaction, again and again, and asks for flushes meanwhile, in three rounds. A sample counts if the compaction ran from the request to the flush's begin. What is held
//! against the goal is the median of the rounds' longest, beside which stands the longest time for which the machine did not run a thread that was due. Run as a test, it is small.

#![expect(clippy::print_stdout, reason = "prints what it measured")]

use siltstone_base::clock::{Clock, SystemClock};
use siltstone_base::executor::{Executor, ThreadExecutor};
use siltstone_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use siltstone_base::sync::{Arc, Signal};
use siltstone_bench::PauseMeter;
use siltstone_lsm::{
    ColumnFamilyOptions, CompactRangeOptions, CompactionInfo, CompressionType, Db, DbOptions, Error, ErrorKind,
    EventListener, FlushInfo, FlushOptions, Result,
};
use std::time::Duration;

/// What a begin is to take at most.
const GOAL: Duration = Duration::from_millis(20);

const VALUE_BYTES: usize = 1000;

/// Time between two flushes, so that the compaction gets on.
const PAUSE: Duration = Duration::from_millis(25);

/// Flushes that are asked for until enough of them count, for each that shall.
const ATTEMPTS: usize = 50;

/// So often as many flushes are asked for.
const ROUNDS: usize = 3;

/// When flushes begin and end, and whether a compaction runs.
#[derive(Debug)]
struct Watch {
    clock: Arc<dyn Clock>,
    compacting: AtomicBool,
    compactions: AtomicU64,
    largest_bytes: AtomicU64,
    begun: AtomicU64,
    begun_micros: AtomicU64,
    ended: AtomicU64,
    changed: Signal,
}

impl EventListener for Watch {
    fn flush_begin(&self, _: &FlushInfo) {
        self.begun_micros.store(self.clock.now_micros(), Ordering::SeqCst);
        self.begun.fetch_add(1, Ordering::SeqCst);
        self.changed.notify_all();
    }

    fn flush_end(&self, _: &FlushInfo) {
        self.ended.fetch_add(1, Ordering::SeqCst);
        self.changed.notify_all();
    }

    fn compaction_begin(&self, info: &CompactionInfo) {
        self.largest_bytes.fetch_max(info.input_bytes, Ordering::SeqCst);
        self.compactions.fetch_add(1, Ordering::SeqCst);
        self.compacting.store(true, Ordering::SeqCst);
        self.changed.notify_all();
    }

    fn compaction_end(&self, _: &CompactionInfo) {
        self.compacting.store(false, Ordering::SeqCst);
        self.changed.notify_all();
    }
}

struct Settings {
    megabytes: u64,
    flushes: usize,
}

impl Settings {
    fn from_arguments() -> Self {
        let arguments: Vec<String> = std::env::args().collect();
        let number = |name: &str| {
            let at = arguments.iter().position(|argument| argument == name)?;
            arguments.get(at + 1)?.parse().ok()
        };
        // Cargo says `--bench` when it runs benchmarks.
        let is_bench = arguments.iter().any(|argument| argument == "--bench");
        let (megabytes, flushes) = if is_bench { (1024, 40) } else { (8, 3) };
        Self {
            megabytes: number("--megabytes").unwrap_or(megabytes).max(1),
            flushes: number("--flushes").unwrap_or(flushes).max(1) as usize,
        }
    }
}

fn io(source: std::io::Error) -> Error {
    Error::new(ErrorKind::Io, "preparing the benchmark").with_source(source)
}

/// The rows that are compacted lie before those that are flushed.
fn fill(db: &Db, megabytes: u64) -> Result<()> {
    let mut value = [0; VALUE_BYTES];
    let mut state = 1_u64;
    for number in 0..megabytes * (1 << 20) / VALUE_BYTES as u64 {
        for chunk in value.chunks_mut(8) {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            chunk.copy_from_slice(&state.to_le_bytes()[..chunk.len()]);
        }
        db.put(format!("a{number:015}"), value)?;
    }
    db.compact_range(&db.default_family(), None, None, &CompactRangeOptions::default())
}

fn main() -> Result<()> {
    let settings = Settings::from_arguments();
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let executor: Arc<dyn Executor> = Arc::new(ThreadExecutor::new(2, Arc::clone(&clock)).map_err(io)?);
    let watch = Arc::new(Watch {
        clock: Arc::clone(&clock),
        compacting: AtomicBool::new(false),
        compactions: AtomicU64::new(0),
        largest_bytes: AtomicU64::new(0),
        begun: AtomicU64::new(0),
        begun_micros: AtomicU64::new(0),
        ended: AtomicU64::new(0),
        changed: Signal::new(),
    });
    let dir = tempfile::tempdir_in(std::env::current_dir().map_err(io)?).map_err(io)?;
    let family = ColumnFamilyOptions::default()
        .compression(CompressionType::None)
        .disable_auto_compactions(true)
        .max_compaction_bytes(u64::MAX);
    let options = DbOptions::default()
        .create_if_missing(true)
        .executor(Some(Arc::clone(&executor)))
        .listeners(vec![watch.clone()]);
    let db = Db::open_families(dir.path(), &options, &[("default", family)])?;
    println!("filling {} MB", settings.megabytes);
    fill(&db, settings.megabytes)?;
    watch.largest_bytes.store(0, Ordering::SeqCst);
    let stop = AtomicBool::new(false);
    let pauses = PauseMeter::new();
    let rounds = std::thread::scope(|scope| {
        scope.spawn(|| pauses.watch());
        let compacting = scope.spawn(|| compact_until(&db, &stop));
        let one = |_| measure(&db, &watch, &*executor, settings.flushes);
        let rounds: Result<Vec<Vec<u64>>> = (0..ROUNDS).map(one).collect();
        stop.store(true, Ordering::SeqCst);
        pauses.stop();
        compacting.join().map_err(|_| Error::new(ErrorKind::Poisoned, "the compacting thread panicked"))??;
        rounds
    })?;
    print(rounds, &watch, pauses.longest_us());
    db.close()
}

fn compact_until(db: &Db, stop: &AtomicBool) -> Result<()> {
    let force = CompactRangeOptions::default().force_bottommost(true);
    while !stop.load(Ordering::SeqCst) {
        db.compact_range(&db.default_family(), Some(b"a"), Some(b"b"), &force)?;
    }
    Ok(())
}

/// Microseconds from the request of a flush to its begin.
fn measure(db: &Db, watch: &Watch, executor: &dyn Executor, flushes: usize) -> Result<Vec<u64>> {
    let mut delays = Vec::with_capacity(flushes);
    let mut number = 0_u64;
    for _ in 0..flushes * ATTEMPTS {
        if delays.len() == flushes {
            break;
        }
        let running = || watch.compacting.load(Ordering::SeqCst);
        executor.wait_until(&watch.changed, Some(Duration::from_secs(60)), &mut || running());
        executor.sleep(PAUSE);
        for _ in 0..100 {
            db.put(format!("c{number:015}"), [7; VALUE_BYTES])?;
            number += 1;
        }
        let (begun, ended) = (watch.begun.load(Ordering::SeqCst), watch.ended.load(Ordering::SeqCst));
        let compaction = watch.compactions.load(Ordering::SeqCst);
        let was_running = running();
        let asked = watch.clock.now_micros();
        db.flush(&FlushOptions::default().wait(false))?;
        let mut has_begun = || watch.begun.load(Ordering::SeqCst) > begun;
        executor.wait_until(&watch.changed, Some(Duration::from_secs(60)), &mut has_begun);
        let is_same = running() && watch.compactions.load(Ordering::SeqCst) == compaction;
        let delay = watch.begun_micros.load(Ordering::SeqCst).saturating_sub(asked);
        let mut has_ended = || watch.ended.load(Ordering::SeqCst) > ended;
        executor.wait_until(&watch.changed, Some(Duration::from_secs(60)), &mut has_ended);
        if was_running && is_same {
            delays.push(delay);
        }
    }
    Ok(delays)
}

fn print(mut rounds: Vec<Vec<u64>>, watch: &Watch, pause_us: f64) {
    rounds.iter_mut().for_each(|round| round.sort_unstable());
    let megabytes = watch.largest_bytes.load(Ordering::SeqCst) as f64 / f64::from(1 << 20);
    println!("{ROUNDS} rounds of flushes beside a compaction of {megabytes:.0} MB:");
    for round in &rounds {
        println!(
            "{} flushes begin after p50 {:.3} ms, p90 {:.3} ms, longest {:.3} ms",
            round.len(),
            at(round, 0.50),
            at(round, 0.90),
            at(round, 1.0)
        );
    }
    println!("the machine's longest pause {:.3} ms", pause_us / 1e3);
    let mut longest: Vec<u64> = rounds.iter().filter_map(|round| round.last().copied()).collect();
    longest.sort_unstable();
    let median = at(&longest, 0.5);
    let verdict = if median <= GOAL.as_secs_f64() * 1e3 { "within" } else { "above" };
    println!("the median of the longest, {median:.3} ms, is {verdict} the goal of {} ms", GOAL.as_millis());
}

/// The percentile of microseconds in order, in milliseconds.
fn at(sorted: &[u64], share: f64) -> f64 {
    let index = ((sorted.len() as f64 * share).ceil() as usize).clamp(1, sorted.len().max(1)) - 1;
    sorted.get(index).map_or(f64::NAN, |micros| *micros as f64 / 1e3)
}
