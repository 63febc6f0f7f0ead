//! The log format, of write-ahead logs and of the MANIFEST.
//!
//! A log is a sequence of blocks of 32 KiB. A physical record never crosses a block; a logical record that does not fit is
//! cut into fragments. Where fewer bytes are left in a block than a header takes, they are zero.
//!
//! ```text
//! legacy header     masked crc32c: fixed32 | length: fixed16 | type: u8
//! recyclable header masked crc32c: fixed32 | length: fixed16 | type: u8 | low 32 bits of the log number: fixed32
//! ```
//!
//! The checksum covers everything from the type to the end of the payload. This engine writes legacy headers and reads both.

mod chunks;
mod physical;
mod reader;
mod special;
mod tail;
#[cfg(test)]
mod tests;
mod writer;

pub(crate) use reader::{LogEnd, ReadOutcome, WalReader};
pub(crate) use writer::WalWriter;

/// Bytes of a block.
pub(crate) const BLOCK_LEN: usize = 32 << 10;

/// Bytes of a legacy header.
const HEADER_LEN: usize = 7;

/// Bytes of a recyclable header.
const RECYCLABLE_HEADER_LEN: usize = 11;

/// Where the type, and with it what the checksum covers, starts in a header.
const TYPE_AT: usize = 6;
