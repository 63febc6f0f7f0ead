//! Blob files: large values, kept beside the tables that refer to them. They are read, never written.
//!
//! A table's entry of type [`BlobIndex`](crate::ValueType::BlobIndex) says where in which file the value is. A blob file lives as long as a
//! table refers to it, or as not all of it is garbage and it is not older than every file that a table refers to; the
//! [version](crate::version) knows.

#[cfg(feature = "testing")]
pub(crate) mod doors;
mod file;
mod files;
mod reference;
#[cfg(test)]
mod tests;
mod verify;

pub(crate) use files::BlobFiles;
pub(crate) use reference::BlobReference;
