//! Raw deflate, without zlib's header and checksum.

use super::DEFAULT_LEVEL;
use flate2::{Compress, CompressError, Compression, Decompress, FlushCompress, FlushDecompress, Status};

/// Bits of the window: RocksDB decodes with no more than these.
const WINDOW_BITS: u8 = 14;

/// Encodes blocks, reusing its context.
pub(super) struct Deflater {
    context: Compress,
    dictionary: Vec<u8>,
}

impl Deflater {
    /// An encoder at `level`, 0 to 9 (others: the codec's own), with a dictionary; empty is none.
    pub(super) fn new(level: i32, dictionary: &[u8]) -> Self {
        let level = match u32::try_from(level) {
            Ok(level) if level <= 9 && level as i32 != DEFAULT_LEVEL => Compression::new(level),
            _ => Compression::default(),
        };
        Self { context: Compress::new_with_window_bits(level, false, WINDOW_BITS), dictionary: dictionary.to_vec() }
    }

    /// The most bytes that a block of `len` bytes takes.
    pub(super) fn bound(len: usize) -> usize {
        len + len.div_ceil(8) + len.div_ceil(64) + 64
    }

    /// Encodes `input` at the front of `out`, which has at least [`bound`](Self::bound) bytes; returns their number.
    pub(super) fn deflate(&mut self, input: &[u8], out: &mut [u8]) -> Result<usize, DeflateError> {
        self.context.reset();
        if !self.dictionary.is_empty() {
            self.context.set_dictionary(&self.dictionary)?;
        }
        match self.context.compress(input, out, FlushCompress::Finish)? {
            Status::StreamEnd => Ok(self.context.total_out() as usize),
            _ => Err(DeflateError(None)),
        }
    }
}

/// Why a block was not encoded.
#[derive(Debug)]
pub(super) struct DeflateError(Option<CompressError>);

impl From<CompressError> for DeflateError {
    fn from(error: CompressError) -> Self {
        Self(Some(error))
    }
}

impl std::fmt::Display for DeflateError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            Some(error) => error.fmt(f),
            None => f.write_str("the encoder wants more room than its bound"),
        }
    }
}

impl std::error::Error for DeflateError {}

/// Decodes `body` into `out`; the bytes written, or `None` if the bytes are no stream that ends within `out`.
pub(super) fn inflate(body: &[u8], out: &mut [u8], dictionary: Option<&[u8]>) -> Option<usize> {
    let mut context = Decompress::new(false);
    if let Some(dictionary) = dictionary.filter(|dictionary| !dictionary.is_empty()) {
        context.set_dictionary(dictionary).ok()?;
    }
    match context.decompress(body, out, FlushDecompress::Finish) {
        Ok(Status::StreamEnd) => usize::try_from(context.total_out()).ok(),
        _ => None,
    }
}
