//! Which keys a database has, found by drawing the keys of a run again.

use super::client::key_rng;
use super::{KvConfig, Workload};

/// A bit for each key number.
#[derive(Debug)]
pub(super) struct LiveKeys {
    words: Vec<u64>,
    count: u64,
}

impl LiveKeys {
    /// No key of `num`.
    pub(super) fn none(num: u64) -> Self {
        Self { words: vec![0; num.div_ceil(64) as usize], count: 0 }
    }

    /// Every key of `num`.
    pub(super) fn all(num: u64) -> Self {
        Self { words: vec![u64::MAX; num.div_ceil(64) as usize], count: num }
    }

    /// The number of keys.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    fn insert(&mut self, number: u64) {
        let (word, bit) = ((number / 64) as usize, 1 << (number % 64));
        if let Some(word) = self.words.get_mut(word) {
            self.count += u64::from(*word & bit == 0);
            *word |= bit;
        }
    }

    /// Adds what thread `thread` put in `ops` operations.
    pub(super) fn replay(&mut self, config: &KvConfig, workload: Workload, pair: u32, thread: usize, ops: u64) {
        let mut rng = key_rng(config, workload, pair, thread);
        for _ in 0..ops {
            self.insert(rng.below(config.num));
        }
    }
}
