//! Decoders of this room, for who gives them any bytes.

use super::identity::{Identity, TITLE};
use super::tables::TableDefinition;
use super::{catalog, resident};
use siltstone_base::ErrorKind;
use siltstone_base::checksum::xxh3_64;
use siltstone_base::env::sim::SimDisk;
use siltstone_base::env::{FileKind, write_file_atomically};
use std::path::Path;

/// The file that says what a directory is; whatever the bytes are, their checksum is made right.
pub(crate) fn identity(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let body = format!("{TITLE}\n{text}");
    let whole = format!("{body}checksum {:016x}\n", xxh3_64(body.as_bytes()));
    for file in [bytes, whole.as_bytes()] {
        let disk = SimDisk::new();
        let dir = Path::new("/db");
        let is_written = disk.make_durable_dir(dir).is_ok()
            && write_file_atomically(&disk, &dir.join("IDENTITY"), &dir.join("t"), file, FileKind::Other).is_ok();
        if let (true, Err(error)) = (is_written, Identity::read(&disk, dir)) {
            let kind = error.kind();
            assert!(matches!(kind, ErrorKind::Corruption | ErrorKind::NotSupported | ErrorKind::Io), "{error}");
        }
    }
}

/// Rows of the catalog: each piece between zeros is a key and a value, of the same length.
pub(crate) fn catalog_row(bytes: &[u8]) {
    let mut tables = Vec::new();
    for row in bytes.split(|byte| *byte == 0xff) {
        for at in [row.len() / 2, row.len().saturating_sub(8)] {
            let (key, value) = row.split_at(at);
            if TableDefinition::is_row(key) {
                let _ = TableDefinition::read_row(&mut tables, key, value);
            }
        }
        let _ = catalog::set_space(&mut row.to_vec(), 7);
    }
    tables.iter().for_each(|table: &TableDefinition| assert!(table.spaces().count() <= 256));
}

/// The file of the resident set, as it is and with its checksum made right.
pub(crate) fn resident_set(bytes: &[u8]) {
    let _ = resident::decode(7, bytes).map(Iterator::count);
    if let Some(end) = bytes.len().checked_sub(8) {
        let whole = [&bytes[..end], &xxh3_64(&bytes[..end]).to_le_bytes()].concat();
        let count = resident::decode(7, &whole).map_or(0, Iterator::count);
        assert!(count <= bytes.len() / 8);
    }
}

/// What these decoders understand.
#[cfg(test)]
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let text = b"page_size 4096\nid 00000000000000ff\nincompatible -\nread_only_compatible -\ncompatible -\n";
    let pages = [crate::page::PageId::new(1, 2), crate::page::PageId::new(3, 4)];
    vec![text.to_vec(), resident::encode(7, &pages)]
}
