//! How soon a deadlock ends, what an update costs where many threads want few rows, and what waiting costs.
//!
//! `cargo bench --bench transactions [-- --threads N --seconds N --rounds N]`. Run as a test, it is small. Only a lost update makes it fail; a goal that is missed is printed, and other benchmarks go on.
//!
//! 1. Two transactions lock a row each and ask for the other's: measured from the second request to the error.
//! 2. So many threads add one to ten numbers, each in a transaction: no update may be lost.
//! 3. One transaction has a row and sleeps; so many threads wait for it: the processor time of the whole process meanwhile.

#![expect(clippy::print_stdout, reason = "prints what it measured")]

use siltstone_base::clock::{Clock, SystemClock};
use siltstone_base::executor::{Executor, ThreadExecutor};
use siltstone_base::sync::atomic::{AtomicU64, Ordering};
use siltstone_base::sync::{Arc, Signal};
use siltstone_bench::ProcessUsage;
use siltstone_lsm::{
    DbOptions, Error, ErrorKind, Isolation, Result, TransactionDb, TransactionDbOptions, TransactionOptions,
};
use std::time::Duration;

/// What the end of a deadlock is to take at most.
const GOAL: Duration = Duration::from_millis(10);
/// What waiting threads are to use of a core at most.
const WAITING_GOAL: f64 = 0.05;

const KEYS: u64 = 10;

struct Settings {
    threads: u64,
    seconds: u64,
    rounds: u64,
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
        let (seconds, rounds) = if is_bench { (30, 200) } else { (1, 3) };
        Self {
            threads: number("--threads").unwrap_or(64).max(2),
            seconds: number("--seconds").unwrap_or(seconds).max(1),
            rounds: number("--rounds").unwrap_or(rounds).max(1),
        }
    }
}

fn io(source: std::io::Error) -> Error {
    Error::new(ErrorKind::Io, "preparing the benchmark").with_source(source)
}

fn patient() -> TransactionOptions {
    TransactionOptions::new(Isolation::ReadCommitted).lock_timeout(Duration::from_secs(3600))
}

fn number(value: Option<impl AsRef<[u8]>>) -> u64 {
    value.and_then(|value| std::str::from_utf8(value.as_ref()).ok()?.parse().ok()).unwrap_or(0)
}

fn joined<T>(result: std::thread::Result<Result<T>>) -> Result<T> {
    result.map_err(|_| Error::new(ErrorKind::Poisoned, "a thread of the benchmark panicked"))?
}

/// Microseconds from the request that closes a circle to its error.
fn deadlock(db: &TransactionDb, clock: &dyn Clock, executor: &dyn Executor) -> Result<u64> {
    let (mut one, mut two) = (db.begin(&patient()), db.begin(&patient()));
    one.put("left", "1")?;
    two.put("right", "2")?;
    let took = std::thread::scope(|scope| {
        let first = scope.spawn(move || {
            one.put("right", "1")?;
            one.commit()
        });
        let waits = Signal::new();
        executor.wait_until(&waits, Some(Duration::from_millis(5)), &mut || db.lock_stats().waiting > 0);
        while db.lock_stats().waiting == 0 {
            std::thread::yield_now();
        }
        let begun = clock.now_micros();
        let outcome = two.put("left", "2");
        let took = clock.now_micros() - begun;
        drop(two);
        joined(first.join())?;
        match outcome {
            Err(error) if error.kind() == ErrorKind::Deadlock => Ok(took),
            other => other.map(|()| took),
        }
    })?;
    Ok(took)
}

/// Adds to a few numbers from many threads; returns the updates, and how many of them are missing.
fn hammer(db: &TransactionDb, clock: &dyn Clock, settings: &Settings) -> Result<(u64, u64)> {
    let done = AtomicU64::new(0);
    let end = clock.now_micros() + settings.seconds * 1_000_000;
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for thread in 0..settings.threads {
            let done = &done;
            threads.push(scope.spawn(move || -> Result<()> {
                let mut round = thread;
                while clock.now_micros() < end {
                    let key = format!("key{}", round % KEYS);
                    let mut one = db.begin(&patient());
                    let value = number(one.get_for_update(&key)?);
                    one.put(&key, (value + 1).to_string())?;
                    one.commit()?;
                    done.fetch_add(1, Ordering::Relaxed);
                    round += 7;
                }
                Ok(())
            }));
        }
        threads.into_iter().try_for_each(|thread| joined(thread.join()))
    })?;
    let mut sum = 0;
    for key in 0..KEYS {
        sum += number(db.db().get(format!("key{key}"))?);
    }
    let done = done.into_inner();
    Ok((done, done.abs_diff(sum)))
}

/// The share of a core that the process uses while all threads but one wait for a row; `None` where the system does not say.
fn waiting(db: &TransactionDb, executor: &dyn Executor, settings: &Settings) -> Result<Option<f64>> {
    let mut holder = db.begin(&patient());
    holder.put("held", "1")?;
    std::thread::scope(|scope| {
        let wait = || -> Result<()> {
            let mut one = db.begin(&patient());
            one.get_for_update("held")?;
            one.commit()
        };
        let threads: Vec<_> = (1..settings.threads).map(|_| scope.spawn(wait)).collect();
        while (db.lock_stats().waiting as u64) < settings.threads - 1 {
            executor.sleep(Duration::from_millis(1));
        }
        let before = ProcessUsage::now();
        executor.sleep(Duration::from_secs(settings.seconds.min(10)));
        let used = ProcessUsage::now().since(&before).cpu_s;
        holder.commit()?;
        threads.into_iter().try_for_each(|thread| joined(thread.join()))?;
        Ok(used.map(|used| used / settings.seconds.min(10) as f64))
    })
}

/// Counts a goal that is missed, and says it.
fn verdict(is_within: bool, missed: &mut u32) -> &'static str {
    *missed += u32::from(!is_within);
    if is_within { "within" } else { "above" }
}

fn main() -> Result<()> {
    let settings = Settings::from_arguments();
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let executor = ThreadExecutor::new(2, Arc::clone(&clock)).map_err(io)?;
    let dir = tempfile::tempdir_in(std::env::current_dir().map_err(io)?).map_err(io)?;
    let options = DbOptions::default().create_if_missing(true);
    let db = TransactionDb::open(dir.path(), &options, &[], &TransactionDbOptions::default())?;

    let mut took: Vec<u64> = Vec::new();
    for _ in 0..settings.rounds {
        took.push(deadlock(&db, &*clock, &executor)?);
    }
    took.sort_unstable();
    let (middle, longest) = (took[took.len() / 2], took[took.len() - 1]);
    let mut missed = 0;
    let goal = verdict(Duration::from_micros(longest) <= GOAL, &mut missed);
    println!("{} deadlocks: median {middle} us, longest {longest} us, {goal} the goal of {GOAL:?}", took.len());

    let (updates, lost) = hammer(&db, &*clock, &settings)?;
    let (threads, seconds) = (settings.threads, settings.seconds);
    println!("{threads} threads on {KEYS} keys for {seconds} s: {updates} updates, {lost} lost");

    match waiting(&db, &executor, &settings)? {
        Some(share) => {
            let goal = verdict(share <= WAITING_GOAL, &mut missed);
            println!("{} waiting threads: {:.2} % of a core, {goal} the goal of 5 %", threads - 1, share * 100.0);
        }
        None => println!("the system does not tell the processor time"),
    }
    if lost > 0 {
        return Err(Error::corrupt("updates were lost"));
    }
    db.close()?;
    println!("goals missed: {missed} of 2");
    Ok(())
}
