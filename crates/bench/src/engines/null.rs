//! An engine that does nothing, to measure what the harness costs by itself.

use siltstone_base::Result;
use siltstone_base::engine::{Admin, Capabilities, EngineStats, Kv, KvBatch, KvCursor};
use std::hint::black_box;

const KEY: [u8; 16] = [b'0'; 16];
const VALUE: [u8; 100] = [b'v'; 100];

/// Accepts every write and forgets it; finds one value under every key.
#[derive(Debug, Default)]
pub struct NullEngine;

impl NullEngine {
    /// The engine.
    pub fn new() -> Self {
        Self
    }
}

impl Admin for NullEngine {
    fn name(&self) -> String {
        "null".to_owned()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { kv: true, concurrent_writers: true, ..Capabilities::default() }
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }

    fn settle(&self) -> Result<()> {
        Ok(())
    }

    fn stats(&self) -> Result<EngineStats> {
        Ok(EngineStats::default())
    }

    fn close(&self) -> Result<()> {
        Ok(())
    }
}

impl Kv for NullEngine {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        black_box((key, value));
        Ok(())
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        black_box(key);
        Ok(())
    }

    fn write(&self, batch: &KvBatch) -> Result<()> {
        black_box(batch);
        Ok(())
    }

    fn get_pinned(&self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        black_box(key);
        found(&VALUE);
        Ok(true)
    }

    fn multi_get(&self, keys: &[&[u8]], found: &mut dyn FnMut(usize, Option<&[u8]>)) -> Result<()> {
        for position in 0..keys.len() {
            found(position, Some(&VALUE));
        }
        Ok(())
    }

    fn cursor(&self) -> Result<Box<dyn KvCursor>> {
        Ok(Box::new(NullCursor))
    }
}

struct NullCursor;

impl KvCursor for NullCursor {
    fn seek_to_first(&mut self) -> Result<bool> {
        Ok(true)
    }

    fn seek_to_last(&mut self) -> Result<bool> {
        Ok(true)
    }

    fn seek(&mut self, key: &[u8]) -> Result<bool> {
        black_box(key);
        Ok(true)
    }

    fn next(&mut self) -> Result<bool> {
        Ok(true)
    }

    fn prev(&mut self) -> Result<bool> {
        Ok(true)
    }

    fn key(&self) -> &[u8] {
        black_box(&KEY)
    }

    fn value(&self) -> &[u8] {
        black_box(&VALUE)
    }
}
