//! Reading the records of a log, and telling how it ends.
//!
//! A process that dies leaves a log that ends within a record: a torn tail. Anything else that does not fit is damage.
//! The line between the two, stricter than RocksDB's:
//!
//! | what is found | what it is |
//! |---|---|
//! | the file ends within a header | torn tail |
//! | a payload passes the end of the file | torn tail, but damage if the checksum fits the bytes that are there (the length is wrong) or if a record starts later |
//! | a payload passes the end of its block, and the file goes on | damage |
//! | a checksum does not fit | damage |
//! | zeros up to the end of the file | clean end: space was reserved |
//! | zeros, then something else | torn tail, but damage if a record starts later |
//! | in a recycled log, whatever does not fit | clean end, but damage if a record of this log starts later |
//! | the first fragments of a record and then the end | torn tail |
//!
//! Bytes of the last group of writes before a loss of power may be damaged without being torn at their end; a reader cannot tell that
//! from bit rot. [`WalReader::record_follows_damage`] tells at least whether anything comes after it.

use super::chunks::Chunks;
use super::physical::{Fragment, Header, RecordType, fragment_at};
use super::special;
use super::tail::{self, Valid};
use super::{BLOCK_LEN, HEADER_LEN, RECYCLABLE_HEADER_LEN};
use siltstone_base::compression::decompress_zstd_frame;
use siltstone_base::env::{IoContext, RandomFile};
use siltstone_base::{Error, ErrorKind, Result};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// What [`WalReader::next_record`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadOutcome {
    /// A logical record.
    Record {
        /// Where its first header is.
        offset: u64,
    },
    /// No more records.
    End(LogEnd),
}

/// How a log without damage ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogEnd {
    /// After a whole record.
    Clean,
    /// Within a record.
    TornTail {
        /// Where the record starts.
        offset: u64,
        /// What is torn.
        what: &'static str,
    },
}

/// Reads the logical records of a log from front to back, in bounded memory.
#[derive(Debug)]
pub(crate) struct WalReader {
    chunks: Chunks,
    log_number: u64,
    max_record_bytes: usize,
    /// Where the next header is.
    position: u64,
    /// Where the last logical record ends.
    end: u64,
    /// Whether the first fragment of the log had a recyclable header.
    recyclable: Option<bool>,
    /// Whether every logical record is a Zstd frame.
    compressed: bool,
    /// The frame of the record that is being read.
    frame: Vec<u8>,
    /// Sizes of the timestamps in the keys of families, as far as the log states them.
    timestamp_sizes: BTreeMap<u32, u16>,
    /// Bytes that may still be hashed in the search for records behind damage; a log of nothing but traps costs no more.
    search_budget: usize,
    stopped: Option<Result<LogEnd>>,
}

/// See [`WalReader::search_budget`].
const SEARCH_BUDGET: usize = 64 << 20;

/// What one physical record did.
enum Step {
    More,
    Complete,
    End(LogEnd),
}

/// The logical record that is being put together.
struct Partial<'a> {
    record: &'a mut Vec<u8>,
    start: Option<u64>,
}

impl WalReader {
    /// A reader from the front of `file`. `log_number` is what recyclable headers must bear (0 for a MANIFEST); a logical record of
    /// more than `max_record_bytes` is refused.
    pub(crate) fn new(
        file: Arc<dyn RandomFile>,
        path: PathBuf,
        log_number: u64,
        context: IoContext,
        max_record_bytes: usize,
    ) -> Result<Self> {
        let chunks = Chunks::new(file, path, context)?;
        Ok(Self {
            chunks,
            log_number,
            max_record_bytes,
            position: 0,
            end: 0,
            recyclable: None,
            compressed: false,
            frame: Vec::new(),
            timestamp_sizes: BTreeMap::new(),
            search_budget: SEARCH_BUDGET,
            stopped: None,
        })
    }

    /// Reads the next logical record into `record`, or says how the log ends. Damage is corruption, with file and offset.
    /// The end and an error stay.
    pub(crate) fn next_record(&mut self, record: &mut Vec<u8>) -> Result<ReadOutcome> {
        record.clear();
        if let Some(stopped) = &self.stopped {
            return stopped.clone().map(ReadOutcome::End);
        }
        let mut partial = Partial { record, start: None };
        let stopped = loop {
            match self.step(&mut partial) {
                Ok(Step::More) => {}
                Ok(Step::Complete) => {
                    let offset = partial.start.unwrap_or_default();
                    if self.compressed
                        && let Err(error) = self.decompress(partial.record)
                    {
                        break Err(error.with_file(self.chunks.path()).with_offset(offset));
                    }
                    self.end = self.position;
                    return Ok(ReadOutcome::Record { offset });
                }
                Ok(Step::End(end)) => break Ok(end),
                Err(error) => break Err(error),
            }
        };
        record.clear();
        self.stopped = Some(stopped.clone());
        stopped.map(ReadOutcome::End)
    }

    /// Goes on behind the last whole record, up to where the log ends now or up to `end`: somebody may have written more.
    pub(crate) fn refresh(&mut self, end: u64) -> Result<()> {
        self.chunks.refresh(end)?;
        self.position = self.end;
        self.stopped = None;
        Ok(())
    }

    /// Where the last logical record that was read ends.
    pub(crate) fn end_offset(&self) -> u64 {
        self.end
    }

    /// Bytes of the file.
    pub(crate) fn file_len(&self) -> u64 {
        self.chunks.len()
    }

    /// Whether the log ended or an error was found, so that nothing more is read.
    pub(crate) fn has_stopped(&self) -> bool {
        self.stopped.is_some()
    }

    /// Sizes of the timestamps in the keys of families, by the family's number, as far as the log has stated them.
    pub(crate) fn timestamp_sizes(&self) -> &BTreeMap<u32, u16> {
        &self.timestamp_sizes
    }

    /// After damage: goes on at the next whole record behind it. False if there is none.
    pub(crate) fn skip_damage(&mut self) -> Result<bool> {
        let valid = self.valid();
        // In the block of the damage a record may start anywhere; a later block starts with one, or with the end of one.
        let (mut next, mut anywhere) = (self.position, true);
        while next < self.chunks.len() {
            let block_end = tail::next_block(next);
            let bytes = self.chunks.rest_of_block(next)?;
            match fragment_at(bytes, valid) {
                Some((Fragment::Full | Fragment::First, _)) => {
                    self.position = next;
                    self.stopped = None;
                    return Ok(true);
                }
                Some((_, len)) => next += len as u64,
                None if anywhere && self.search_budget > bytes.len() => {
                    let hashed = Header::parse(bytes).filter(|header| header.record_len() <= bytes.len());
                    self.search_budget -= hashed.map_or(0, |header| header.record_len());
                    next += 1;
                }
                None => next = block_end,
            }
            anywhere &= next < block_end;
        }
        Ok(false)
    }

    /// Replaces a frame by what it decodes to.
    fn decompress(&mut self, record: &mut Vec<u8>) -> Result<()> {
        std::mem::swap(record, &mut self.frame);
        record.clear();
        decompress_zstd_frame(&self.frame, self.max_record_bytes, record)
    }

    /// After an error: whether any record starts behind the damage. If none does, the damage may be the last write before a loss of
    /// power, of which some pages reached the disk and some did not.
    pub(crate) fn record_follows_damage(&mut self) -> Result<bool> {
        self.record_follows()
    }

    #[inline]
    fn step(&mut self, partial: &mut Partial<'_>) -> Result<Step> {
        let in_block = BLOCK_LEN - (self.position % BLOCK_LEN as u64) as usize;
        let rest = self.chunks.rest_of_block(self.position)?;
        let Some(header) = Header::parse(rest) else {
            let (len, zero) = (rest.len(), tail::is_zero(rest));
            if len >= HEADER_LEN && self.recyclable == Some(false) {
                return Err(self.corruption(None, "recyclable record in a log that is not"));
            }
            return self.no_header(partial, len == in_block, zero);
        };
        if tail::is_zero(&rest[..HEADER_LEN]) {
            let padding = in_block < RECYCLABLE_HEADER_LEN && rest.len() == in_block && tail::is_zero(rest);
            return self.zeros(partial, padding);
        }
        let Some(bytes) = rest.get(..header.record_len()) else {
            let (ends_block, is_whole) = (rest.len() == in_block, header.fits(rest));
            let file_goes_on = ends_block && tail::next_block(self.position) < self.chunks.len();
            let other_kind = self.recyclable == Some(false) && header.is_recyclable();
            return self.passes_end(partial, file_goes_on || is_whole || other_kind);
        };
        let fits = header.fits(bytes);
        // The old bytes of a log that was recycled and not written to yet start with a whole record.
        if !header.is_of_log(self.log_number) && (fits || self.recyclable.is_some()) {
            return self.end_of_recycled(partial);
        }
        if !fits {
            return self.damage_unless_recycled(partial, "checksum mismatch");
        }
        let payload = &bytes[header.len()..];
        match header.record_type() {
            RecordType::Fragment(fragment) => {
                let recyclable = header.is_recyclable();
                if *self.recyclable.get_or_insert(recyclable) != recyclable {
                    return self.damage_unless_recycled(partial, "recyclable record in a log that is not");
                }
                let complete = matches!(fragment, Fragment::Full | Fragment::Last);
                if matches!(fragment, Fragment::Full | Fragment::First) {
                    if !partial.record.is_empty() {
                        return Err(self.corruption(partial.start, "record without an end"));
                    }
                    partial.start = Some(self.position);
                } else if partial.start.is_none() {
                    return Err(self.corruption(None, "fragment without a start"));
                }
                if payload.len() > self.max_record_bytes.saturating_sub(partial.record.len()) {
                    return Err(self.too_long(partial.start));
                }
                partial.record.extend_from_slice(payload);
                self.position += header.record_len() as u64;
                Ok(if complete { Step::Complete } else { Step::More })
            }
            RecordType::Compression | RecordType::TimestampSizes | RecordType::Predecessor | RecordType::Ignorable
                if partial.start.is_some() =>
            {
                Err(self.corruption(None, "record of another kind within a fragmented one"))
            }
            RecordType::Compression if self.position > 0 => {
                Err(self.corruption(None, "codec of a log that is not its first record"))
            }
            RecordType::Unknown => {
                let number = header.number();
                Err(Error::corruption(self.chunks.path(), self.position, format!("unknown record type {number}")))
            }
            special => {
                let taken = match special {
                    RecordType::Compression => special::codec(payload).map(|()| self.compressed = true),
                    RecordType::TimestampSizes => special::add_timestamp_sizes(payload, &mut self.timestamp_sizes),
                    RecordType::Predecessor => special::check_predecessor(payload),
                    _ => Ok(()),
                };
                taken.map_err(|error| error.with_file(self.chunks.path()).with_offset(self.position))?;
                self.position += header.record_len() as u64;
                Ok(Step::More)
            }
        }
    }

    /// Fewer bytes than a header are left, at the end of a block if `ends_block`, else at that of the file.
    #[cold]
    fn no_header(&mut self, partial: &mut Partial<'_>, ends_block: bool, zero: bool) -> Result<Step> {
        match (ends_block, zero) {
            (true, true) => {
                self.position = tail::next_block(self.position);
                Ok(Step::More)
            }
            (true, false) => self.damage_unless_recycled(partial, "bytes after the last record of a block"),
            (false, true) => Ok(self.end_of_file(partial)),
            (false, false) => Ok(self.torn(partial, "header")),
        }
    }

    /// There are zeros where a header should be.
    #[cold]
    fn zeros(&mut self, partial: &mut Partial<'_>, padding: bool) -> Result<Step> {
        if padding && self.recyclable != Some(false) {
            self.position = tail::next_block(self.position);
            Ok(Step::More)
        } else if tail::only_zeros_follow(&mut self.chunks, self.position)? {
            Ok(self.end_of_file(partial))
        } else if self.record_follows()? {
            Err(self.corruption(None, "zeros before a record"))
        } else {
            Ok(self.torn(partial, "zeros and no record"))
        }
    }

    /// The record passes the end of its block or of the file.
    #[cold]
    fn passes_end(&mut self, partial: &mut Partial<'_>, length_is_wrong: bool) -> Result<Step> {
        if self.recyclable == Some(true) {
            self.end_of_recycled(partial)
        } else if length_is_wrong || self.record_follows()? {
            Err(self.corruption(None, "wrong length of a record"))
        } else {
            Ok(self.torn(partial, "payload"))
        }
    }

    #[cold]
    fn damage_unless_recycled(&mut self, partial: &mut Partial<'_>, what: &'static str) -> Result<Step> {
        if self.recyclable == Some(true) { self.end_of_recycled(partial) } else { Err(self.corruption(None, what)) }
    }

    /// What follows was written before the file was recycled, it seems.
    #[cold]
    fn end_of_recycled(&mut self, partial: &mut Partial<'_>) -> Result<Step> {
        if self.record_follows()? {
            Err(self.corruption(None, "damage before a record of the same log"))
        } else {
            Ok(self.end_of_file(partial))
        }
    }

    fn end_of_file(&self, partial: &Partial<'_>) -> Step {
        match partial.start {
            None => Step::End(LogEnd::Clean),
            Some(_) => self.torn(partial, "fragments"),
        }
    }

    fn torn(&self, partial: &Partial<'_>, what: &'static str) -> Step {
        Step::End(LogEnd::TornTail { offset: partial.start.unwrap_or(self.position), what })
    }

    fn record_follows(&mut self) -> Result<bool> {
        let valid = self.valid();
        tail::record_follows(&mut self.chunks, self.position, valid)
    }

    fn valid(&self) -> Valid {
        Valid { log_number: self.log_number, recyclable: self.recyclable }
    }

    #[cold]
    fn corruption(&self, start: Option<u64>, what: &'static str) -> Error {
        Error::corruption(self.chunks.path(), start.unwrap_or(self.position), what)
    }

    #[cold]
    fn too_long(&self, start: Option<u64>) -> Error {
        let limit = self.max_record_bytes;
        Error::new(ErrorKind::LimitExceeded, format!("log record of more than {limit} bytes"))
            .with_file(self.chunks.path())
            .with_offset(start.unwrap_or(self.position))
    }
}
