//! The command `soak`: everything that the LSM engine offers beside one another in one database, for as long as one likes, within one budget of memory.
//!
//! The database is opened with [`DbOptions::for_budget`]. Its families are written, read, walked and deleted from; transactions are committed, rolled back, spilled and prepared; snapshots are
//! held; checkpoints and backups are made. Once a second the program looks at its resident memory (`VmRSS`) and at [`Db::memory_report`]. It fails
//!
//! * if resident memory is ever more than the budget and a tenth of it: all of the process counts, the program itself, its threads and the clients included;
//! * if resident memory and the sum of the report ever differ by more than a tenth of resident memory, both of a report right before the look at it and of one right after, from the moment on at which the sum has first been half of the budget: until then, what
//!   the program takes by itself weighs more than what the database holds;
//! * if an operation fails, or at the end a table is not what it should be.

use crate::Output;
use crate::place::{Found, Place};
use siltstone_base::clock::{Clock, SystemClock};
use siltstone_base::sync::atomic::{AtomicBool, Ordering};
use siltstone_base::{Error, ErrorKind, Result};
use siltstone_lsm::{ColumnFamilyOptions, DbOptions, TransactionDb, TransactionDbOptions};
use std::path::PathBuf;
use std::time::Duration;

#[expect(unused_imports, reason = "named by the documentation")]
use siltstone_lsm::Db;

mod clients;
mod samples;
#[cfg(test)]
mod tests;

use clients::Shared;
use samples::{Sample, Samples};

/// The families that the clients use.
const FAMILIES: [&str; 3] = ["default", "orders", "events"];

/// What `soak` runs.
#[derive(Debug, Clone)]
pub struct SoakConfig {
    /// How long the clients run.
    pub seconds: f64,
    /// Bytes of memory that the process may use in all.
    pub budget: usize,
    /// Cores that the database may use.
    pub cores: usize,
    /// The number of keys of each family.
    pub keys: u64,
    /// Draws everything.
    pub seed: u64,
    /// Where the database, its backups and checkpoints are and stay. `None`: a temporary directory.
    pub dir: Option<PathBuf>,
}

impl SoakConfig {
    fn check(&self) -> Result<()> {
        let bounds = [
            ("minutes is out of bounds", (0.01..=10_000.0).contains(&(self.seconds / 60.0))),
            ("budget is out of bounds", (32 << 20..=1 << 40).contains(&self.budget)),
            ("cores is out of bounds", (1..=1024).contains(&self.cores)),
            ("keys is out of bounds", (1_000..=1 << 40).contains(&self.keys)),
        ];
        match bounds.iter().find(|(_, is_right)| !is_right) {
            Some((what, _)) => Err(Error::invalid_argument(format!("--{what}"))),
            None => Ok(()),
        }
    }

    fn open(&self, dir: PathBuf) -> Result<TransactionDb> {
        let options =
            DbOptions::for_budget(self.budget, self.cores).create_if_missing(true).create_missing_column_families(true);
        let family = ColumnFamilyOptions::for_budget(self.budget);
        let families = FAMILIES.map(|name| (name, family.clone()));
        TransactionDb::open(dir, &options, &families, &TransactionDbOptions::for_budget(self.budget))
    }
}

/// Runs the clients, and looks at the memory meanwhile.
///
/// # Errors
///
/// `LimitExceeded` if memory was not what it should be; `InvalidArgument`; whatever a client met.
pub fn run(config: &SoakConfig, output: &mut Output<'_>) -> Result<()> {
    config.check()?;
    let place = Place::new(config.dir.as_deref(), true, Found::Removed)?;
    let root = place.root();
    let db = config.open(root.join("db"))?;
    let mut samples = Samples::new(config.budget);
    output.say(format_args!(
        "{:.0} s, a budget of {} MiB, {} cores, {} keys in each of {} families",
        config.seconds,
        config.budget >> 20,
        config.cores,
        config.keys,
        FAMILIES.len()
    ))?;
    let shared = Shared::new(&db, config, root);
    let stop = AtomicBool::new(false);
    let outcome = std::thread::scope(|scope| {
        let (shared, stop) = (&shared, &stop);
        let clients = shared.clients().into_iter().map(|client| scope.spawn(move || client.run(shared, stop)));
        let clients: Vec<_> = clients.collect();
        let watched = watch(config, &db, &mut samples, stop, output);
        stop.store(true, Ordering::Release);
        let panicked = |_| Error::new(ErrorKind::Poisoned, "a client panicked");
        let ended: Vec<Result<()>> =
            clients.into_iter().map(|client| client.join().map_err(panicked).and_then(|ended| ended)).collect();
        ended.into_iter().collect::<Result<()>>().and(watched)
    });
    outcome?;
    output.say(shared.counts())?;
    let tables = db.db().verify_checksums()?;
    output.say(format_args!("{tables} tables are what they should be"))?;
    output.say(db.db().memory_report())?;
    db.close()?;
    output.say(samples.summary())?;
    samples.verdict()
}

/// Takes a sample each second, and says every ten how it goes.
fn watch(
    config: &SoakConfig,
    db: &TransactionDb,
    samples: &mut Samples,
    stop: &AtomicBool,
    output: &mut Output<'_>,
) -> Result<()> {
    let (clock, begun) = (SystemClock::new(), crate::stopwatch::Stopwatch::start());
    output.say(Sample::HEADER)?;
    let mut number = 0_u64;
    while begun.seconds() < config.seconds && !stop.load(Ordering::Acquire) {
        clock.sleep(Duration::from_secs(1));
        let sample = Sample::take(begun.seconds(), db.db())?;
        let is_bad = samples.add(sample.clone());
        number += 1;
        if is_bad || number.is_multiple_of(10) {
            output.say(&sample)?;
        }
        if is_bad {
            output.say(db.db().memory_report())?;
        }
    }
    Ok(())
}
