//! How long a writer waits while the database that it writes to is copied.
//!
//! `cargo bench --bench clone [-- --megabytes N --rate N --seconds N]`. Run as a test, it is small. Only wrong rows make it fail; a goal that is missed is printed, since
//! another machine's device decides on it, too.
//!
//! One writer writes values of a kilobyte at so many megabytes a second; a live copy is made of so many megabytes. Printed is the longest time that a write took, before the
//! copy and while it was made, and what the writer reached. At the end every row of the copy is compared.

#![expect(clippy::print_stdout, reason = "prints what it measured")]

use siltstone_base::clock::SystemClock;
use siltstone_base::executor::{Executor, ThreadExecutor};
use siltstone_base::sync::Arc;
use siltstone_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use siltstone_lsm::{Checkpoint, Db, DbOptions, Error, ErrorKind, LiveCopyOptions, ReadOptions, Result};
use std::time::Duration;

/// What a write is to take at most meanwhile.
const GOAL: Duration = Duration::from_millis(100);

/// The part of the rate that the writer must reach while the copy is made, so that the longest write says anything.
const LEAST_PART_OF_RATE: f64 = 0.95;

const VALUE_BYTES: u64 = 1000;

struct Settings {
    megabytes: u64,
    /// Megabytes a second.
    rate: u64,
    /// Before the copy.
    seconds: u64,
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
        let (megabytes, seconds) = if is_bench { (2000, 10) } else { (20, 1) };
        Self {
            megabytes: number("--megabytes").unwrap_or(megabytes),
            rate: number("--rate").unwrap_or(50).max(1),
            seconds: number("--seconds").unwrap_or(seconds),
        }
    }
}

fn value(number: u64) -> Vec<u8> {
    let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut value = Vec::with_capacity(VALUE_BYTES as usize);
    while (value.len() as u64) < VALUE_BYTES {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        value.extend_from_slice(&state.to_le_bytes());
    }
    value
}

/// The writer, as it looks from outside.
#[derive(Default)]
struct Watch {
    stop: AtomicBool,
    /// Of the current phase.
    longest_micros: AtomicU64,
    written: AtomicU64,
}

/// Writes at a steady rate until it is stopped. Each write has its time; those that come late follow each other at once.
fn write_steadily(db: &Db, executor: &dyn Executor, settings: &Settings, first: u64, watch: &Watch) -> Result<()> {
    let clock = executor.clock();
    let micros_each = VALUE_BYTES as f64 / settings.rate as f64;
    let (begun, mut number) = (clock.now_micros(), 0_u64);
    while !watch.stop.load(Ordering::Acquire) {
        let due = begun + (number as f64 * micros_each) as u64;
        let before = clock.now_micros();
        if before < due {
            executor.sleep(Duration::from_micros((due - before).max(100)));
            continue;
        }
        db.put((first + number).to_be_bytes(), value(first + number))?;
        watch.longest_micros.fetch_max(clock.now_micros() - before, Ordering::Relaxed);
        watch.written.fetch_add(1, Ordering::Relaxed);
        number += 1;
    }
    Ok(())
}

/// Compares all rows of the copy with those that were there once `count` were written.
fn compare(copy: &Db, count: u64) -> Result<()> {
    let mut found = copy.iter(&ReadOptions::default().fill_cache(false))?;
    found.seek_to_first();
    for number in 0..count {
        if !found.valid() || found.key() != number.to_be_bytes() || found.value() != value(number) {
            found.status()?;
            return Err(Error::corrupt(format!("row {number} of the copy is missing or another")));
        }
        found.next();
    }
    found.status()?;
    if found.valid() { Err(Error::corrupt("the copy has rows that were not written by then")) } else { Ok(()) }
}

/// Returns how many goals were missed.
fn run(settings: &Settings) -> Result<u32> {
    let io = |source| Error::new(ErrorKind::Io, "preparing the benchmark").with_source(source);
    let dir = tempfile::tempdir_in(std::env::current_dir().map_err(io)?).map_err(io)?;
    let executor = ThreadExecutor::new(2, Arc::new(SystemClock::new())).map_err(io)?;
    let db = Db::open(dir.path().join("db"), &DbOptions::default().create_if_missing(true))?;
    let rows = settings.megabytes * 1_000_000 / VALUE_BYTES;
    (0..rows).try_for_each(|number| db.put(number.to_be_bytes(), value(number)))?;
    println!("{} MB are there; one writer writes {} MB/s", settings.megabytes, settings.rate);
    let watch = Watch::default();
    let (count, missed) = std::thread::scope(|scope| {
        let writer = scope.spawn(|| write_steadily(&db, &executor, settings, rows, &watch));
        executor.sleep(Duration::from_secs(settings.seconds));
        let before = watch.longest_micros.swap(0, Ordering::Relaxed);
        let (begun, written) = (executor.clock().now_micros(), watch.written.load(Ordering::Relaxed));
        let copied = Checkpoint::new(&db).copy_live(dir.path().join("copy"), &LiveCopyOptions::default());
        let (took, during) = (executor.clock().now_micros() - begun, watch.longest_micros.swap(0, Ordering::Relaxed));
        let written = watch.written.load(Ordering::Relaxed) - written;
        watch.stop.store(true, Ordering::Release);
        let written_all = writer.join().map_err(|_| Error::new(ErrorKind::Poisoned, "the writer panicked"))?;
        written_all?;
        let copied = copied?;
        println!(
            "copied {} MB in {:.2} s and {} rounds; {:.1} MB were written meanwhile",
            copied.bytes / 1_000_000,
            took as f64 / 1e6,
            copied.rounds,
            (written * VALUE_BYTES) as f64 / 1e6
        );
        println!("longest write: {:.2} ms before, {:.2} ms meanwhile", before as f64 / 1e3, during as f64 / 1e3);
        let reached = (written * VALUE_BYTES) as f64 / took.max(1) as f64;
        let (is_steady, is_short) =
            (reached >= settings.rate as f64 * LEAST_PART_OF_RATE, during < GOAL.as_micros() as u64);
        let verdict = |is_met: bool| if is_met { "met" } else { "missed" };
        println!("goal of {} MB/s meanwhile: {}, {reached:.1} MB/s", settings.rate, verdict(is_steady));
        println!("goal of {} ms: {}", GOAL.as_millis(), verdict(is_short));
        Ok::<_, Error>((copied.seqno, u32::from(!is_steady) + u32::from(!is_short)))
    })?;
    let copy = Db::open(dir.path().join("copy"), &DbOptions::default())?;
    copy.check()?;
    compare(&copy, count)?;
    println!("the copy has the {count} rows of its moment, and no others");
    Ok(missed)
}

fn main() -> Result<()> {
    let settings = Settings::from_arguments();
    let missed = run(&settings)?;
    println!("goals missed: {missed} of 2");
    Ok(())
}
