//! Reading version edits: total on any bytes.
//!
//! What this engine has no use for is skipped where the format says that it may be; what would be lost is kept, or refused by
//! name.

use super::{BlobChange, MAX_LEVELS, VersionEdit, tags};
use crate::file_meta::FileMetaData;
use crate::key::{ColumnFamilyId, InternalKey, MAX_SEQNO, SeqNo};
use siltstone_base::coding::{get_fixed64, get_length_prefixed, get_varint32, get_varint64};
use siltstone_base::{Error, Result};

/// The most custom fields of one file.
const MAX_CUSTOM_FIELDS: usize = 1024;

impl VersionEdit {
    /// Reads one record of a MANIFEST.
    ///
    /// # Errors
    ///
    /// `Corruption` for bytes that are no edit; `NotSupported` names what this engine lacks. The caller adds file and offset.
    pub(crate) fn decode(record: &[u8]) -> Result<Self> {
        let mut edit = Self::default();
        let input = &mut { record };
        while !input.is_empty() {
            let tag = take(get_varint32(input), "tag")?;
            edit.decode_field(tag, input)?;
        }
        if (edit.add_family.is_some() || edit.drop_family) && edit.changes_files() {
            return Err(Error::corrupt("version edit that adds or drops a column family and changes its files"));
        }
        Ok(edit)
    }

    fn decode_field(&mut self, tag: u32, input: &mut &[u8]) -> Result<()> {
        match tag {
            tags::COMPARATOR => self.comparator = Some(text(input, "comparator")?),
            tags::LOG_NUMBER => self.log_number = Some(number(input, "log number")?),
            tags::PREV_LOG_NUMBER => self.prev_log_number = Some(number(input, "previous log number")?),
            tags::NEXT_FILE_NUMBER => self.next_file_number = Some(number(input, "next file number")?),
            tags::LAST_SEQUENCE => self.last_sequence = Some(sequence(input, "last sequence")?),
            tags::MIN_LOG_NUMBER_TO_KEEP => self.raise_min_log(number(input, "smallest log number to keep")?),
            tags::COMPACT_CURSOR => {
                level(input)?;
                bytes(input, "compaction cursor")?;
            }
            tags::DELETED_FILE => {
                let file = (level(input)?, number(input, "deleted file")?);
                self.deleted_files.push(file);
            }
            tags::NEW_FILE | tags::NEW_FILE_2 | tags::NEW_FILE_3 | tags::NEW_FILE_4 => {
                let file = self.decode_file(tag, input)?;
                self.new_files.push(file);
            }
            tags::COLUMN_FAMILY => self.column_family = ColumnFamilyId(take(get_varint32(input), "column family")?),
            tags::COLUMN_FAMILY_ADD => self.add_family = Some(text(input, "name of a column family")?),
            tags::COLUMN_FAMILY_DROP => self.drop_family = true,
            tags::MAX_COLUMN_FAMILY => {
                self.max_column_family = Some(take(get_varint32(input), "largest column family")?);
            }
            tags::IN_ATOMIC_GROUP => {
                self.atomic_group_remaining = Some(take(get_varint32(input), "atomic group")?);
            }
            tags::DB_ID => self.db_id = Some(text(input, "database id")?),
            tags::BLOB_FILE_ADDITION | tags::BLOB_FILE_ADDITION_OLD => self.decode_blob(input, true)?,
            tags::BLOB_FILE_GARBAGE | tags::BLOB_FILE_GARBAGE_OLD => self.decode_blob(input, false)?,
            tags::WAL_ADDITION_OLD => self.wals.push(wal_addition(input)?),
            tags::WAL_DELETION_OLD => self.forget_wals_below = Some(number(input, "deleted WAL")?),
            tags::WAL_ADDITION => self.wals.push(wal_addition(&mut bytes(input, "WAL")?)?),
            tags::WAL_DELETION => {
                self.forget_wals_below = Some(number(&mut bytes(input, "deleted WAL")?, "deleted WAL")?);
            }
            tags::FULL_HISTORY_TIMESTAMP_LOW => {
                let timestamp = bytes(input, "timestamp")?;
                self.timestamp_low = match <[u8; 8]>::try_from(timestamp) {
                    Ok(timestamp) => Some(u64::from_le_bytes(timestamp)),
                    Err(_) if timestamp.is_empty() => None,
                    Err(_) => {
                        let len = timestamp.len();
                        return Err(Error::not_supported(format!("user-defined timestamps of {len} bytes")));
                    }
                };
            }
            tags::PERSIST_TIMESTAMPS => {
                if bytes(input, "flag of timestamps")? != [1] {
                    return Err(Error::not_supported("user-defined timestamps in memtables only"));
                }
            }
            unknown if unknown & tags::IGNORABLE != 0 => {
                bytes(input, "ignorable field")?;
            }
            unknown => return Err(Error::corrupt(format!("unknown tag {unknown} in a version edit"))),
        }
        Ok(())
    }

    fn raise_min_log(&mut self, number: u64) {
        self.min_log_number_to_keep = self.min_log_number_to_keep.max(Some(number));
    }

    fn decode_file(&mut self, tag: u32, input: &mut &[u8]) -> Result<(usize, FileMetaData)> {
        let level = level(input)?;
        let mut file = FileMetaData { number: number(input, "file number")?, ..FileMetaData::default() };
        if tag == tags::NEW_FILE_3 {
            check_path_id(take(get_varint32(input), "path of a file")?)?;
        }
        file.file_size = number(input, "file size")?;
        file.smallest = key(input)?;
        file.largest = key(input)?;
        if tag == tags::NEW_FILE {
            // Nothing is known: the file may hold any sequence number that its keys do not rule out.
            file.largest_seqno = file.smallest.seqno().max(file.largest.seqno()).min(MAX_SEQNO);
        } else {
            file.smallest_seqno = sequence(input, "smallest sequence number")?;
            file.largest_seqno = sequence(input, "largest sequence number")?;
        }
        if file.smallest_seqno > file.largest_seqno {
            return Err(Error::corrupt(format!("sequence numbers of file {} are reversed", file.number)));
        }
        if tag == tags::NEW_FILE_4 {
            self.decode_custom_fields(&mut file, input)?;
        }
        Ok((level, file))
    }

    fn decode_custom_fields(&mut self, file: &mut FileMetaData, input: &mut &[u8]) -> Result<()> {
        for _ in 0..MAX_CUSTOM_FIELDS {
            let tag = take(get_varint32(input), "custom tag of a file")?;
            if tag == tags::FILE_END {
                return Ok(());
            }
            let mut value = bytes(input, "custom field of a file")?;
            match tag {
                tags::FILE_MIN_LOG_NUMBER_TO_KEEP => {
                    self.raise_min_log(take(get_fixed64(&mut value), "smallest log number to keep")?);
                }
                tags::FILE_OLDEST_ANCESTOR_TIME => file.oldest_ancestor_time = number(&mut value, "time of a file")?,
                tags::FILE_CREATION_TIME => file.file_creation_time = number(&mut value, "time of a file")?,
                tags::FILE_EPOCH_NUMBER => file.epoch_number = number(&mut value, "epoch of a file")?,
                tags::FILE_UNIQUE_ID => {
                    let id: [u8; 16] = take(value.try_into().ok(), "unique id of a file")?;
                    file.unique_id = (id != [0; 16]).then_some(id);
                }
                tags::FILE_PATH_ID => check_path_id(value.first().map_or(u32::MAX, |id| u32::from(*id)))?,
                tags::FILE_TIMESTAMPS_PERSISTED => {
                    return Err(Error::not_supported("tables without their user-defined timestamps"));
                }
                unknown if unknown & tags::FILE_NOT_IGNORABLE != 0 => {
                    return Err(Error::not_supported(format!("custom field {unknown} of a file")));
                }
                other => file.other_fields.push((other, value.to_vec())),
            }
        }
        Err(Error::corrupt("too many custom fields of a file"))
    }

    fn decode_blob(&mut self, input: &mut &[u8], is_addition: bool) -> Result<()> {
        let file_number = number(input, "blob file")?;
        let (count, bytes_len) = (number(input, "count of blobs")?, number(input, "size of blobs")?);
        let start = *input;
        if is_addition {
            bytes(input, "checksum method of a blob file")?;
            bytes(input, "checksum of a blob file")?;
        }
        loop {
            let custom = take(get_varint32(input), "custom tag of a blob file")?;
            if custom == 0 {
                break;
            }
            if custom & tags::BLOB_NOT_IGNORABLE != 0 {
                return Err(Error::not_supported(format!("custom field {custom} of a blob file")));
            }
            bytes(input, "custom field of a blob file")?;
        }
        let rest = start[..start.len() - input.len()].to_vec();
        let (number, bytes) = (file_number, bytes_len);
        self.blob_files.push(match is_addition {
            true => BlobChange::Added { number, count, bytes, rest },
            false => BlobChange::Garbage { number, count, bytes, rest },
        });
        Ok(())
    }
}

/// A WAL, and how many bytes of it were synced.
fn wal_addition(input: &mut &[u8]) -> Result<(u64, Option<u64>)> {
    let wal = number(input, "WAL")?;
    let mut synced = None;
    loop {
        match take(get_varint32(input), "field of a WAL")? {
            1 => return Ok((wal, synced)),
            2 => synced = Some(number(input, "size of a WAL")?),
            _ => return Err(Error::corrupt("unknown field of a WAL in a version edit")),
        }
    }
}

fn check_path_id(path_id: u32) -> Result<()> {
    if path_id == 0 { Ok(()) } else { Err(Error::not_supported("tables outside the directory of the database")) }
}

fn take<T>(value: Option<T>, what: &'static str) -> Result<T> {
    value.ok_or_else(|| Error::corrupt(format!("version edit: bad {what}")))
}

fn number(input: &mut &[u8], what: &'static str) -> Result<u64> {
    take(get_varint64(input), what)
}

fn bytes<'a>(input: &mut &'a [u8], what: &'static str) -> Result<&'a [u8]> {
    take(get_length_prefixed(input), what)
}

fn text(input: &mut &[u8], what: &'static str) -> Result<String> {
    let bytes = bytes(input, what)?;
    take(std::str::from_utf8(bytes).ok(), what).map(str::to_owned)
}

fn sequence(input: &mut &[u8], what: &'static str) -> Result<SeqNo> {
    take(get_varint64(input).filter(|seqno| *seqno <= MAX_SEQNO), what)
}

fn level(input: &mut &[u8]) -> Result<usize> {
    take(get_varint32(input).map(|level| level as usize).filter(|level| *level < MAX_LEVELS), "level")
}

fn key(input: &mut &[u8]) -> Result<InternalKey> {
    InternalKey::decode(bytes(input, "boundary key")?)
}
