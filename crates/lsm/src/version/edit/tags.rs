//! The numbers of the fields of version edits.

/// Fields of an edit.
pub(super) const COMPARATOR: u32 = 1;
pub(super) const LOG_NUMBER: u32 = 2;
pub(super) const NEXT_FILE_NUMBER: u32 = 3;
pub(super) const LAST_SEQUENCE: u32 = 4;
pub(super) const COMPACT_CURSOR: u32 = 5;
pub(super) const DELETED_FILE: u32 = 6;
pub(super) const NEW_FILE: u32 = 7;
pub(super) const PREV_LOG_NUMBER: u32 = 9;
pub(super) const MIN_LOG_NUMBER_TO_KEEP: u32 = 10;
pub(super) const NEW_FILE_2: u32 = 100;
pub(super) const NEW_FILE_3: u32 = 102;
pub(super) const NEW_FILE_4: u32 = 103;
pub(super) const COLUMN_FAMILY: u32 = 200;
pub(super) const COLUMN_FAMILY_ADD: u32 = 201;
pub(super) const COLUMN_FAMILY_DROP: u32 = 202;
pub(super) const MAX_COLUMN_FAMILY: u32 = 203;
pub(super) const IN_ATOMIC_GROUP: u32 = 300;
pub(super) const BLOB_FILE_ADDITION: u32 = 400;
pub(super) const BLOB_FILE_GARBAGE: u32 = 401;
pub(super) const DB_ID: u32 = 8193;
pub(super) const BLOB_FILE_ADDITION_OLD: u32 = 8194;
pub(super) const BLOB_FILE_GARBAGE_OLD: u32 = 8195;
pub(super) const WAL_ADDITION_OLD: u32 = 8196;
pub(super) const WAL_DELETION_OLD: u32 = 8197;
pub(super) const WAL_ADDITION: u32 = 8199;
pub(super) const WAL_DELETION: u32 = 8200;
pub(super) const FULL_HISTORY_TIMESTAMP_LOW: u32 = 8198;
pub(super) const PERSIST_TIMESTAMPS: u32 = 8201;

/// A field with this bit may be skipped by who does not know it: a byte string follows.
pub(super) const IGNORABLE: u32 = 8192;

/// Custom fields of a new file.
pub(super) const FILE_END: u32 = 1;
pub(super) const FILE_MIN_LOG_NUMBER_TO_KEEP: u32 = 3;
pub(super) const FILE_OLDEST_ANCESTOR_TIME: u32 = 5;
pub(super) const FILE_CREATION_TIME: u32 = 6;
pub(super) const FILE_UNIQUE_ID: u32 = 12;
pub(super) const FILE_EPOCH_NUMBER: u32 = 13;
pub(super) const FILE_TIMESTAMPS_PERSISTED: u32 = 16;
pub(super) const FILE_PATH_ID: u32 = 65;

/// A custom field with this bit may not be skipped by who does not know it.
pub(super) const FILE_NOT_IGNORABLE: u32 = 64;
/// The same in the custom fields of blob files.
pub(super) const BLOB_NOT_IGNORABLE: u32 = 64;
