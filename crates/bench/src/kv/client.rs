//! One client: turns numbers into operations on an engine.

use super::workload::KEYS_A_CALL;
use super::{KvConfig, Workload};
use crate::Rng;
use crate::values::Values;
use siltstone_base::Result;
use siltstone_base::engine::{Kv, KvBatch, KvCursor};
use std::hint::black_box;

/// Bytes of a key.
pub(super) const KEY_BYTES: usize = 16;

/// Steps after a seek.
const NEXTS: usize = 10;

/// The key of a number, in the form of db_bench.
#[inline]
pub(super) fn encode_key(number: u64, key: &mut [u8; KEY_BYTES]) {
    key[..8].copy_from_slice(&number.to_be_bytes());
}

/// The generator of the keys of one thread: the same sequence for every engine of a pair.
pub(super) fn key_rng(config: &KvConfig, workload: Workload, pair: u32, thread: usize) -> Rng {
    let stream = (u64::from(pair) << 32) | ((workload as u64) << 16) | thread as u64;
    Rng::new(config.seed, stream)
}

pub(crate) struct Client<'a> {
    kv: &'a dyn Kv,
    workload: Workload,
    num: u64,
    first: u64,
    rng: Rng,
    values: Values,
    key: [u8; KEY_BYTES],
    batch: KvBatch,
    batch_size: usize,
    /// The keys of the next call for several.
    asked: Vec<[u8; KEY_BYTES]>,
    cursor: Option<Box<dyn KvCursor>>,
    bytes: u64,
}

impl<'a> Client<'a> {
    /// A client of `workload` whose sequential keys begin at `first`.
    pub(crate) fn new(
        kv: &'a dyn Kv,
        config: &KvConfig,
        workload: Workload,
        pair: u32,
        thread: usize,
        first: u64,
    ) -> Self {
        let mut key = [b'0'; KEY_BYTES];
        if workload == Workload::ReadMissing {
            key[KEY_BYTES - 1] = b'.';
        }
        Self {
            kv,
            workload,
            num: config.num,
            first,
            rng: key_rng(config, workload, pair, thread),
            values: Values::new(config.value_size, config.seed ^ (thread as u64 + 1)),
            key,
            batch: KvBatch::new(),
            batch_size: config.batch,
            asked: Vec::with_capacity(KEYS_A_CALL),
            cursor: None,
            bytes: 0,
        }
    }

    /// Bytes of keys and values written or read so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Does operation `number`; false if there is nothing left to do.
    #[inline]
    pub(crate) fn step(&mut self, number: u64) -> Result<bool> {
        match self.workload {
            Workload::FillSeq => self.put(self.first + number),
            Workload::FillRandom | Workload::Overwrite | Workload::FillSync => {
                let number = self.rng.below(self.num);
                self.put(number)
            }
            Workload::ReadRandom | Workload::ReadMissing | Workload::ReadWhileWriting => self.get(),
            Workload::SeekRandom => self.seek(),
            Workload::ReadSeq => self.next(),
            Workload::MultiReadRandom => self.ask(),
            Workload::Settle => Ok(false),
        }
    }

    /// Writes what is left of a batch, and reads what is left of a call.
    pub(super) fn finish(&mut self) -> Result<()> {
        self.get_asked()?;
        if self.batch.is_empty() {
            return Ok(());
        }
        self.kv.write(&self.batch)?;
        self.batch.clear();
        Ok(())
    }

    #[inline]
    pub(super) fn put(&mut self, number: u64) -> Result<bool> {
        encode_key(number, &mut self.key);
        let value = self.values.next();
        self.bytes += (KEY_BYTES + value.len()) as u64;
        if self.batch_size == 1 {
            self.kv.put(&self.key, value)?;
        } else {
            self.batch.put(&self.key, value);
            if self.batch.len() == self.batch_size {
                self.finish()?;
            }
        }
        Ok(true)
    }

    /// Puts a random key, whatever the workload: the writer beside readers.
    #[inline]
    pub(crate) fn put_random(&mut self) -> Result<bool> {
        let number = self.rng.below(self.num);
        self.put(number)
    }

    #[inline]
    fn get(&mut self) -> Result<bool> {
        encode_key(self.rng.below(self.num), &mut self.key);
        let mut bytes = 0;
        self.kv.get_pinned(&self.key, &mut |value| bytes = (KEY_BYTES + black_box(value).len()) as u64)?;
        self.bytes += bytes;
        Ok(true)
    }

    /// Takes one more key into the next call, and makes it when there are enough.
    #[inline]
    fn ask(&mut self) -> Result<bool> {
        encode_key(self.rng.below(self.num), &mut self.key);
        self.asked.push(self.key);
        if self.asked.len() == KEYS_A_CALL {
            self.get_asked()?;
        }
        Ok(true)
    }

    fn get_asked(&mut self) -> Result<()> {
        if self.asked.is_empty() {
            return Ok(());
        }
        let keys: Vec<&[u8]> = self.asked.iter().map(<[u8; KEY_BYTES]>::as_slice).collect();
        let mut bytes = 0;
        self.kv.multi_get(&keys, &mut |_, value| {
            bytes += value.map_or(0, |value| (KEY_BYTES + black_box(value).len()) as u64);
        })?;
        self.bytes += bytes;
        self.asked.clear();
        Ok(())
    }

    #[inline]
    fn seek(&mut self) -> Result<bool> {
        encode_key(self.rng.below(self.num), &mut self.key);
        let mut cursor = self.kv.cursor()?;
        let mut found = cursor.seek(&self.key)?;
        let mut nexts = 0;
        while found {
            self.bytes += (black_box(cursor.key()).len() + black_box(cursor.value()).len()) as u64;
            if nexts == NEXTS {
                break;
            }
            nexts += 1;
            found = cursor.next()?;
        }
        Ok(true)
    }

    #[inline]
    fn next(&mut self) -> Result<bool> {
        let found = match &mut self.cursor {
            Some(cursor) => cursor.next()?,
            none => none.insert(self.kv.cursor()?).seek_to_first()?,
        };
        if found && let Some(cursor) = &self.cursor {
            self.bytes += (black_box(cursor.key()).len() + black_box(cursor.value()).len()) as u64;
        }
        Ok(found)
    }
}
