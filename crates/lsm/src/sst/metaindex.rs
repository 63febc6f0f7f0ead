//! The metaindex of a table: where its blocks are that are no data.

use super::block_builder::BlockBuilder;
use super::format::BlockHandle;

/// Names of blocks and where they lie.
#[derive(Debug, Default)]
pub(super) struct Metaindex(Vec<(&'static str, BlockHandle)>);

impl Metaindex {
    /// Adds a block; each name once.
    pub(super) fn add(&mut self, name: &'static str, handle: BlockHandle) {
        self.0.push((name, handle));
    }

    /// The block, its names in order.
    pub(super) fn encode(mut self) -> Vec<u8> {
        self.0.sort_unstable_by_key(|(name, _)| *name);
        let mut block = BlockBuilder::new(1);
        for (name, handle) in self.0 {
            let mut value = Vec::new();
            handle.encode(&mut value);
            block.add(name.as_bytes(), &value);
        }
        block.finish().to_vec()
    }
}
