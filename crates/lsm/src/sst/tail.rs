//! The end of a table that was just written: all that opening it reads, handed on so that nobody reads it back.

use super::warm_blocks::WarmSet;
use siltstone_base::env::{IoContext, RandomFile};
use std::io;
use std::sync::Arc;

/// The last bytes of a table file, from behind its data blocks on: filter, index, properties, metaindex and footer.
#[derive(Debug, Default)]
pub(crate) struct TableTail {
    /// Where in the file they begin.
    pub(crate) start: u64,
    /// The bytes, to the end of the file.
    pub(crate) bytes: Vec<u8>,
    /// Blocks of the table that are in the block cache already, if any are.
    pub(crate) warm: Option<WarmSet>,
}

impl TableTail {
    /// Takes what `appended`, which begins at `offset` of the file, has of it. Offsets ascend without a gap.
    pub(crate) fn extend(&mut self, offset: u64, appended: &[u8]) {
        let skipped = usize::try_from(self.start.saturating_sub(offset)).unwrap_or(usize::MAX);
        self.bytes.extend_from_slice(appended.get(skipped..).unwrap_or_default());
    }

    /// The bytes of the tail from `offset` on; `None` if that lies before it.
    fn from(&self, offset: u64) -> Option<&[u8]> {
        let skipped = usize::try_from(offset.checked_sub(self.start)?).ok()?;
        Some(self.bytes.get(skipped..).unwrap_or_default())
    }
}

/// A file whose end is read from memory, while its table is opened.
#[derive(Debug)]
pub(crate) struct WithTail {
    pub(crate) file: Arc<dyn RandomFile>,
    pub(crate) tail: TableTail,
}

impl RandomFile for WithTail {
    fn read_at(&self, offset: u64, buffer: &mut [u8], context: IoContext) -> io::Result<usize> {
        let Some(bytes) = self.tail.from(offset) else { return self.file.read_at(offset, buffer, context) };
        let len = bytes.len().min(buffer.len());
        buffer[..len].copy_from_slice(&bytes[..len]);
        Ok(len)
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
}
