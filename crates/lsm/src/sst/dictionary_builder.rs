//! The dictionary of a table that is written: its first data blocks wait until there are enough of them to learn from.

use siltstone_base::compression::train_dictionary;
use std::collections::VecDeque;

/// How dictionaries are made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct DictionaryOptions {
    /// Most bytes of a dictionary. 0: none is made.
    pub(crate) max_bytes: usize,
    /// Bytes of samples that it is trained on. 0: it is the samples themselves.
    pub(crate) train_bytes: usize,
    /// Bytes of data blocks that wait for it. 0: four times the samples.
    pub(crate) buffer_bytes: usize,
}

impl DictionaryOptions {
    fn sample_bytes(self) -> usize {
        if self.train_bytes > 0 { self.train_bytes } else { self.max_bytes }
    }

    fn buffer_limit(self) -> usize {
        match self.buffer_bytes {
            0 => self.sample_bytes().saturating_mul(4),
            limit => limit,
        }
    }
}

/// Data blocks that wait.
///
/// Steps: blocks are pushed until [`is_full`](Self::is_full) or the table ends; [`make`](Self::make) makes the dictionary of
/// samples spread over them; then they are popped, oldest first.
#[derive(Debug)]
pub(crate) struct WaitingBlocks {
    options: DictionaryOptions,
    /// Oldest first.
    blocks: VecDeque<Vec<u8>>,
    bytes: usize,
    popped: usize,
    is_made: bool,
}

impl WaitingBlocks {
    pub(crate) fn new(options: DictionaryOptions) -> Self {
        Self { options, blocks: VecDeque::new(), bytes: 0, popped: 0, is_made: false }
    }

    /// Appends a block.
    pub(crate) fn push(&mut self, block: &[u8]) {
        self.bytes += block.len();
        self.blocks.push_back(block.to_vec());
    }

    /// Bytes of the blocks.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether the dictionary should be made now.
    pub(crate) fn is_full(&self) -> bool {
        !self.is_made && self.bytes >= self.options.buffer_limit()
    }

    /// Whether the dictionary was made.
    pub(crate) fn is_made(&self) -> bool {
        self.is_made
    }

    /// Makes the dictionary; empty if the samples do not give one.
    pub(crate) fn make(&mut self) -> Vec<u8> {
        self.is_made = true;
        let wanted = self.options.sample_bytes();
        // Every n-th block, so that all of them together are about as long as wanted.
        let stride = self.bytes.div_ceil(wanted.max(1)).max(1);
        let (mut samples, mut lens) = (Vec::new(), Vec::new());
        for block in self.blocks.iter().step_by(stride) {
            let sample = &block[..block.len().min(wanted - samples.len())];
            if !sample.is_empty() {
                samples.extend_from_slice(sample);
                lens.push(sample.len());
            }
        }
        if self.options.train_bytes > 0 {
            return train_dictionary(&samples, &lens, self.options.max_bytes);
        }
        samples.truncate(self.options.max_bytes);
        samples
    }

    /// Takes the oldest block and its number within the table.
    pub(crate) fn pop(&mut self) -> Option<(usize, Vec<u8>)> {
        let block = self.blocks.pop_front()?;
        self.bytes -= block.len();
        self.popped += 1;
        Some((self.popped - 1, block))
    }

    /// Whether no block waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }
}
