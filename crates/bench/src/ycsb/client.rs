//! One client: draws operations and does them.

use super::keys::{KEY_BYTES, Popular, encode_key};
use super::workload::{Operation, Workload};
use crate::values::Values;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use siltstone_base::engine::Kv;
use siltstone_base::sync::CachePadded;
use siltstone_base::sync::atomic::{AtomicU64, Ordering};
use siltstone_base::{Error, ErrorKind, Result};
use std::hint::black_box;

/// Bytes of a field.
pub(super) const FIELD_BYTES: usize = 100;

/// The most records of a scan.
const MOST_SCANNED: u64 = 100;

/// The records there are: those below a number, and what each thread has inserted since, every thread its own numbers above.
#[derive(Debug)]
pub(super) struct Records {
    first: u64,
    inserted: Vec<CachePadded<AtomicU64>>,
}

impl Records {
    /// Those below `first`; `threads` threads insert.
    pub(super) fn new(first: u64, threads: usize) -> Self {
        Self { first, inserted: (0..threads).map(|_| CachePadded::new(AtomicU64::new(0))).collect() }
    }

    /// How many there are.
    pub(super) fn count(&self) -> u64 {
        self.first + self.inserted.iter().map(|inserted| inserted.load(Ordering::Acquire)).sum::<u64>()
    }

    /// Below this number there is every record, whatever threads are at.
    pub(super) fn end(&self) -> u64 {
        let least = self.inserted.iter().map(|inserted| inserted.load(Ordering::Acquire)).min();
        self.first + least.unwrap_or(0) * self.inserted.len() as u64
    }

    /// Calls `insert` with the next number of `thread`.
    fn insert(&self, thread: usize, insert: impl FnOnce(u64) -> Result<()>) -> Result<()> {
        let Some(inserted) = self.inserted.get(thread) else { return Ok(()) };
        let before = inserted.load(Ordering::Relaxed);
        insert(self.first + before * self.inserted.len() as u64 + thread as u64)?;
        inserted.store(before + 1, Ordering::Release);
        Ok(())
    }
}

pub(super) struct Client<'a> {
    kv: &'a dyn Kv,
    workload: Workload,
    records: &'a Records,
    thread: usize,
    popular: Popular,
    rng: StdRng,
    values: Values,
    key: Vec<u8>,
    value: Vec<u8>,
    bytes: u64,
}

impl<'a> Client<'a> {
    pub(super) fn new(
        kv: &'a dyn Kv,
        workload: Workload,
        records: &'a Records,
        thread: usize,
        fields: usize,
        seed: u64,
    ) -> Result<Self> {
        Ok(Self {
            kv,
            workload,
            records,
            thread,
            popular: Popular::new(records.end().max(1))?,
            rng: StdRng::seed_from_u64(seed),
            values: Values::new(fields * FIELD_BYTES, seed),
            key: Vec::with_capacity(KEY_BYTES),
            value: Vec::new(),
            bytes: 0,
        })
    }

    /// Bytes of keys and values written, or read where nothing is written.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Does one operation.
    pub(super) fn step(&mut self) -> Result<bool> {
        match self.workload.operation(self.rng.random_range(0..100)) {
            Operation::Insert => self.insert(),
            Operation::Update => {
                let record = self.popular.anywhere(&mut self.rng);
                self.put(record)
            }
            Operation::Read if self.workload == Workload::D => self.read_newest(),
            Operation::Read => self.read(),
            Operation::Scan => self.scan(),
            Operation::ReadModifyWrite => self.read_modify_write(),
        }?;
        Ok(true)
    }

    fn insert(&mut self) -> Result<()> {
        let records = self.records;
        records.insert(self.thread, |record| self.put(record))
    }

    fn put(&mut self, record: u64) -> Result<()> {
        encode_key(record, &mut self.key);
        let value = self.values.next();
        self.bytes += (self.key.len() + value.len()) as u64;
        self.kv.put(&self.key, value)
    }

    fn read(&mut self) -> Result<()> {
        let record = self.popular.anywhere(&mut self.rng);
        self.get(record)
    }

    fn read_newest(&mut self) -> Result<()> {
        let record = self.popular.newest(self.records.end().max(1), &mut self.rng);
        self.get(record)
    }

    fn get(&mut self, record: u64) -> Result<()> {
        encode_key(record, &mut self.key);
        let mut len = 0;
        if !self.kv.get_pinned(&self.key, &mut |value| len = black_box(value).len())? {
            return Err(missing());
        }
        if !self.workload.writes() {
            self.bytes += (self.key.len() + len) as u64;
        }
        Ok(())
    }

    fn scan(&mut self) -> Result<()> {
        encode_key(self.popular.anywhere(&mut self.rng), &mut self.key);
        let length = self.rng.random_range(1..=MOST_SCANNED);
        let mut cursor = self.kv.cursor()?;
        let mut found = cursor.seek(&self.key)?;
        if !found || cursor.key() != self.key {
            return Err(missing());
        }
        let mut scanned = 1;
        while found && scanned < length {
            black_box(cursor.value());
            found = cursor.next()?;
            scanned += 1;
        }
        Ok(())
    }

    fn read_modify_write(&mut self) -> Result<()> {
        encode_key(self.popular.anywhere(&mut self.rng), &mut self.key);
        if !self.kv.get(&self.key, &mut self.value)? {
            return Err(missing());
        }
        let fields = (self.value.len() / FIELD_BYTES).max(1) as u64;
        let at = self.rng.random_range(0..fields) as usize * FIELD_BYTES;
        let new = self.values.next();
        if let (Some(field), Some(new)) = (self.value.get_mut(at..at + FIELD_BYTES), new.get(..FIELD_BYTES)) {
            field.copy_from_slice(new);
        }
        self.bytes += (self.key.len() + self.value.len()) as u64;
        self.kv.put(&self.key, &self.value)
    }
}

#[cold]
fn missing() -> Error {
    Error::new(ErrorKind::Corruption, "a record that was loaded is missing")
}
