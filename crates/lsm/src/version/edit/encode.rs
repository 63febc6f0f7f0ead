//! Writing version edits.

use super::{BlobChange, VersionEdit, tags};
use crate::file_meta::FileMetaData;
use siltstone_base::coding::{put_length_prefixed, put_varint32, put_varint64, varint_len};

impl VersionEdit {
    /// Appends the edit to `out`.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        if let Some(db_id) = &self.db_id {
            put_bytes(out, tags::DB_ID, db_id.as_bytes());
        }
        if let Some(comparator) = &self.comparator {
            put_bytes(out, tags::COMPARATOR, comparator.as_bytes());
        }
        put_optional(out, tags::LOG_NUMBER, self.log_number);
        put_optional(out, tags::PREV_LOG_NUMBER, self.prev_log_number);
        put_optional(out, tags::NEXT_FILE_NUMBER, self.next_file_number);
        put_optional(out, tags::MAX_COLUMN_FAMILY, self.max_column_family.map(u64::from));
        put_optional(out, tags::MIN_LOG_NUMBER_TO_KEEP, self.min_log_number_to_keep);
        put_optional(out, tags::LAST_SEQUENCE, self.last_sequence);
        for (level, number) in &self.deleted_files {
            put_varint32(out, tags::DELETED_FILE);
            put_varint64(out, *level as u64);
            put_varint64(out, *number);
        }
        for (level, file) in &self.new_files {
            put_file(out, *level, file);
        }
        for change in &self.blob_files {
            let (tag, number, count, bytes, rest) = match change {
                BlobChange::Added { number, count, bytes, rest } => {
                    (tags::BLOB_FILE_ADDITION, number, count, bytes, rest)
                }
                BlobChange::Garbage { number, count, bytes, rest } => {
                    (tags::BLOB_FILE_GARBAGE, number, count, bytes, rest)
                }
            };
            put_varint32(out, tag);
            [number, count, bytes].into_iter().for_each(|field| put_varint64(out, *field));
            out.extend_from_slice(rest);
        }
        if self.column_family.0 != 0 {
            put_optional(out, tags::COLUMN_FAMILY, Some(u64::from(self.column_family.0)));
        }
        if let Some(name) = &self.add_family {
            put_bytes(out, tags::COLUMN_FAMILY_ADD, name.as_bytes());
        }
        if self.drop_family {
            put_varint32(out, tags::COLUMN_FAMILY_DROP);
        }
        if let Some(low) = self.timestamp_low {
            put_bytes(out, tags::FULL_HISTORY_TIMESTAMP_LOW, &low.to_le_bytes());
        }
        put_optional(out, tags::IN_ATOMIC_GROUP, self.atomic_group_remaining.map(u64::from));
    }
}

fn put_bytes(out: &mut Vec<u8>, tag: u32, bytes: &[u8]) {
    put_varint32(out, tag);
    put_length_prefixed(out, bytes);
}

fn put_optional(out: &mut Vec<u8>, tag: u32, value: Option<u64>) {
    if let Some(value) = value {
        put_varint32(out, tag);
        put_varint64(out, value);
    }
}

/// A custom field whose value is a varint.
fn put_number(out: &mut Vec<u8>, tag: u32, value: u64) {
    put_varint32(out, tag);
    put_varint64(out, varint_len(value) as u64);
    put_varint64(out, value);
}

fn put_file(out: &mut Vec<u8>, level: usize, file: &FileMetaData) {
    put_varint32(out, tags::NEW_FILE_4);
    put_varint64(out, level as u64);
    put_varint64(out, file.number);
    put_varint64(out, file.file_size);
    put_length_prefixed(out, file.smallest.as_bytes());
    put_length_prefixed(out, file.largest.as_bytes());
    put_varint64(out, file.smallest_seqno);
    put_varint64(out, file.largest_seqno);
    put_number(out, tags::FILE_OLDEST_ANCESTOR_TIME, file.oldest_ancestor_time);
    put_number(out, tags::FILE_CREATION_TIME, file.file_creation_time);
    put_number(out, tags::FILE_EPOCH_NUMBER, file.epoch_number);
    if let Some(unique_id) = &file.unique_id {
        put_bytes(out, tags::FILE_UNIQUE_ID, unique_id);
    }
    for (tag, value) in &file.other_fields {
        put_bytes(out, *tag, value);
    }
    put_varint32(out, tags::FILE_END);
}
