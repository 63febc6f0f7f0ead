//! Who uses the database: each client is a thread that draws one kind of operations.

use super::{FAMILIES, SoakConfig};
use crate::Rng;
use crate::place::remove_database;
use crate::stopwatch::Stopwatch;
use crate::values::Values;
use siltstone_base::clock::{Clock, SystemClock};
use siltstone_base::engine::{Isolation, TransactionOptions};
use siltstone_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use siltstone_base::{Error, ErrorKind, Result};
use siltstone_lsm::{
    BackupEngine, BackupEngineOptions, Checkpoint, CheckpointOptions, ColumnFamily, CreateBackupOptions, ReadOptions,
    Transaction, TransactionDb, WriteBatch,
};
use std::path::PathBuf;
use std::time::Duration;

/// Bytes of a value at most.
const VALUE_BYTES: u64 = 1_000;

/// Prepared transactions that wait for a decision.
const PREPARED: usize = 40;

/// Seconds from one large transaction to the next.
const LARGE_EVERY: f64 = 15.0;

/// One kind of operations.
#[derive(Debug, Clone, Copy)]
pub(super) enum Client {
    /// Batches of puts and deletes.
    Writes,
    /// Gets, many at once too, and walks, some at snapshots that are held for a while.
    Reads,
    /// Small transactions, large ones that spill, and those that are prepared.
    Transactions,
    /// Checkpoints and backups.
    Copies,
}

/// What was done.
#[derive(Debug, Default)]
struct Counts {
    writes: AtomicU64,
    gets: AtomicU64,
    walked: AtomicU64,
    snapshots: AtomicU64,
    commits: AtomicU64,
    rollbacks: AtomicU64,
    conflicts: AtomicU64,
    spilled: AtomicU64,
    prepared: AtomicU64,
    checkpoints: AtomicU64,
    backups: AtomicU64,
}

/// What all clients share.
pub(super) struct Shared {
    db: TransactionDb,
    families: Vec<ColumnFamily>,
    root: PathBuf,
    keys: u64,
    seed: u64,
    /// Changes of a large transaction.
    large: u64,
    counts: Counts,
}

fn add(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Ordering::Relaxed);
}

impl Shared {
    pub(super) fn new(db: &TransactionDb, config: &SoakConfig, root: PathBuf) -> Self {
        let families = FAMILIES.iter().filter_map(|name| db.db().family(name)).collect();
        // Several times what a transaction may hold in memory.
        let large = (config.budget as u64 / 64 * 5 / 2) / (VALUE_BYTES / 2);
        let counts = Counts::default();
        Self { db: db.clone(), families, root, keys: config.keys, seed: config.seed, large, counts }
    }

    /// Whoever runs.
    pub(super) fn clients(&self) -> Vec<Client> {
        vec![Client::Writes, Client::Reads, Client::Reads, Client::Transactions, Client::Copies]
    }

    pub(super) fn counts(&self) -> String {
        let counts = &self.counts;
        let all = [
            ("writes", &counts.writes),
            ("gets", &counts.gets),
            ("rows walked", &counts.walked),
            ("snapshots", &counts.snapshots),
            ("commits", &counts.commits),
            ("rollbacks", &counts.rollbacks),
            ("conflicts", &counts.conflicts),
            ("spilled", &counts.spilled),
            ("prepared", &counts.prepared),
            ("checkpoints", &counts.checkpoints),
            ("backups", &counts.backups),
        ];
        let text = all.map(|(name, counter)| format!("{} {name}", counter.load(Ordering::Relaxed)));
        text.join(", ")
    }

    fn family(&self, rng: &mut Rng) -> Result<&ColumnFamily> {
        let none = || Error::new(ErrorKind::NotFound, "soak: a family is missing");
        self.families.get(rng.below(self.families.len().max(1) as u64) as usize).ok_or_else(none)
    }

    fn key(&self, rng: &mut Rng) -> [u8; 16] {
        let number = rng.below(self.keys);
        let mut key = [b'k'; 16];
        // Keys are spread, so that writes go everywhere.
        key[8..].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
        key
    }
}

impl Client {
    /// Goes on until somebody says stop, or something fails: then everybody stops.
    pub(super) fn run(self, shared: &Shared, stop: &AtomicBool) -> Result<()> {
        let outcome = match self {
            Self::Writes => write(shared, stop),
            Self::Reads => read(shared, stop),
            Self::Transactions => transact(shared, stop),
            Self::Copies => copy(shared, stop),
        };
        if outcome.is_err() {
            stop.store(true, Ordering::Release);
        }
        outcome
    }
}

fn is_stopped(stop: &AtomicBool) -> bool {
    stop.load(Ordering::Acquire)
}

/// Whether a transaction met another one and is to be run again.
fn is_conflict(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::Deadlock | ErrorKind::Busy)
}

fn write(shared: &Shared, stop: &AtomicBool) -> Result<()> {
    let (mut rng, mut values) = (Rng::new(shared.seed, 1), Values::new(VALUE_BYTES as usize, shared.seed));
    let mut batch = WriteBatch::new();
    while !is_stopped(stop) {
        batch.clear();
        for _ in 0..=rng.below(20) {
            let (family, key) = (shared.family(&mut rng)?, shared.key(&mut rng));
            match rng.below(10) {
                0 => batch.delete_cf(family, key),
                _ => {
                    let len = rng.below(VALUE_BYTES) as usize;
                    batch.put_cf(family, key, values.next().get(..len).unwrap_or_default());
                }
            }
        }
        match shared.db.write(&mut batch) {
            Err(error) if is_conflict(&error) => add(&shared.counts.conflicts, 1),
            written => {
                written?;
                add(&shared.counts.writes, batch.len() as u64);
            }
        }
    }
    Ok(())
}

fn read(shared: &Shared, stop: &AtomicBool) -> Result<()> {
    let (mut rng, db) = (Rng::new(shared.seed, 2), shared.db.db());
    let mut held = (Stopwatch::start(), db.snapshot());
    while !is_stopped(stop) {
        if held.0.seconds() > 7.0 {
            held = (Stopwatch::start(), db.snapshot());
            add(&shared.counts.snapshots, 1);
        }
        let is_old = rng.below(4) == 0;
        let options = ReadOptions::default().snapshot(is_old.then(|| held.1.clone()));
        let family = shared.family(&mut rng)?;
        match rng.below(100) {
            0 => {
                let mut iter = db.iter_cf(family, &options)?;
                iter.seek(&shared.key(&mut rng));
                let mut rows = 0;
                while iter.valid() && rows < 1_000 {
                    rows += 1;
                    if is_old { iter.prev() } else { iter.next() }
                }
                iter.status()?;
                add(&shared.counts.walked, rows);
            }
            1..10 => {
                let keys: Vec<[u8; 16]> = (0..20).map(|_| shared.key(&mut rng)).collect();
                let keys: Vec<&[u8]> = keys.iter().map(<[u8; 16]>::as_slice).collect();
                let found = db.multi_get_cf(family, &keys, &options);
                found.into_iter().try_for_each(|found| found.map(drop))?;
                add(&shared.counts.gets, keys.len() as u64);
            }
            _ => {
                db.get_cf(family, shared.key(&mut rng), &options)?;
                add(&shared.counts.gets, 1);
            }
        }
    }
    Ok(())
}

fn transact(shared: &Shared, stop: &AtomicBool) -> Result<()> {
    let (mut rng, mut values) = (Rng::new(shared.seed, 3), Values::new(VALUE_BYTES as usize, shared.seed + 1));
    let (mut since_large, mut number) = (Stopwatch::start(), 0_u64);
    while !is_stopped(stop) {
        let is_large = since_large.seconds() > LARGE_EVERY;
        if is_large {
            since_large = Stopwatch::start();
            // It would meet some of their locks.
            decide(shared, &mut rng, 0)?;
        }
        // What a large one changes, somebody else has always changed since it began.
        let has_moment = !is_large && rng.below(2) == 0;
        let isolation = if has_moment { Isolation::Snapshot } else { Isolation::ReadCommitted };
        let mut one = shared.db.begin(&TransactionOptions::new(isolation).lock_timeout(Duration::from_millis(20)));
        let changes = if is_large { shared.large } else { 1 + rng.below(20) };
        let changed = (0..changes)
            .try_for_each(|_| if is_stopped(stop) { Ok(()) } else { change(shared, &mut rng, &mut values, &mut one) });
        match changed {
            Err(error) if is_conflict(&error) => {
                add(&shared.counts.conflicts, 1);
                one.rollback();
                continue;
            }
            changed => changed?,
        }
        if one.has_spilled() {
            add(&shared.counts.spilled, 1);
        }
        match rng.below(10) {
            0..2 => {
                one.rollback();
                add(&shared.counts.rollbacks, 1);
            }
            2 if !one.has_spilled() => {
                number += 1;
                one.prepare(number.to_be_bytes())?;
                add(&shared.counts.prepared, 1);
            }
            _ => {
                one.commit()?;
                add(&shared.counts.commits, 1);
            }
        }
        decide(shared, &mut rng, PREPARED)?;
    }
    shared.db.prepared_transactions().iter().try_for_each(|name| shared.db.rollback_prepared(name))
}

/// Decides about the oldest of the prepared transactions, until no more than so many are left.
fn decide(shared: &Shared, rng: &mut Rng, most: usize) -> Result<()> {
    let prepared = shared.db.prepared_transactions();
    let decided = prepared.len().saturating_sub(most);
    prepared.iter().take(decided).try_for_each(|oldest| match rng.below(2) {
        0 => shared.db.commit_prepared(oldest),
        _ => shared.db.rollback_prepared(oldest),
    })
}

fn change(shared: &Shared, rng: &mut Rng, values: &mut Values, one: &mut Transaction) -> Result<()> {
    let (family, key) = (shared.family(rng)?, shared.key(rng));
    match rng.below(10) {
        0 => one.delete_cf(family, key),
        1 => one.get_cf(family, key).map(drop),
        _ => {
            let len = rng.below(VALUE_BYTES) as usize;
            one.put_cf(family, key, values.next().get(..len).unwrap_or_default())
        }
    }
}

fn copy(shared: &Shared, stop: &AtomicBool) -> Result<()> {
    let (clock, checkpoints) = (SystemClock::new(), Checkpoint::new(shared.db.db()));
    let mut backups = BackupEngine::open(shared.root.join("backups"), &BackupEngineOptions::default())?;
    let mut seconds = 0_u64;
    while !is_stopped(stop) {
        clock.sleep(Duration::from_secs(1));
        seconds += 1;
        if seconds % 20 == 10 {
            let dir = shared.root.join("checkpoint");
            remove_database(&dir)?;
            checkpoints.create(&dir, &CheckpointOptions::default())?;
            add(&shared.counts.checkpoints, 1);
            remove_database(&dir)?;
        }
        if seconds % 30 == 20 {
            backups.create(shared.db.db(), &CreateBackupOptions::default())?;
            backups.purge_old(2)?;
            add(&shared.counts.backups, 1);
        }
    }
    Ok(())
}
