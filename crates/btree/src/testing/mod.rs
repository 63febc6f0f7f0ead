//! Every decoder of bytes from a disk, behind one door: for property tests, and for the fuzzer, which has a target for each. And what other threads may do in between, for crash tests, and doors to what only tests call.

mod entries;
#[cfg(test)]
mod tests;

pub use crate::meanwhile::{Act, Moment, Step, with_meanwhile};
pub use entries::{EntryChange, IndexEntry, apply_entries, entries, entry};

use crate::buffer::doublewrite_names;
use crate::db::doors;
use crate::page::{self, Cell, Change, Header, PageId, PageKind};
use crate::redo::{Entries, Entry};
use crate::undo;

/// A decoder.
pub type Decoder = fn(&[u8]);

/// All decoders by name. Each takes any bytes, and says what they are or that they are nothing; it neither panics nor hangs, nor takes memory beyond what the bytes themselves
/// bound.
pub const DECODERS: &[(&str, Decoder)] = &[
    ("btree_catalog_row", doors::catalog_row),
    ("btree_compressed_page", compressed_page),
    ("btree_doublewrite_names", doublewrite),
    ("btree_identity", doors::identity),
    ("btree_page", page),
    ("btree_redo_record", redo_record),
    ("btree_resident_set", doors::resident_set),
    ("btree_undo_record", undo::decode_any),
];

/// Gives `bytes` to the decoder of this name.
///
/// # Panics
///
/// If the decoder does, or if there is none of this name.
pub fn fuzz(name: &str, bytes: &[u8]) {
    let decoder = DECODERS.iter().find(|(other, _)| *other == name);
    assert!(decoder.is_some(), "there is no decoder {name}");
    if let Some((_, decoder)) = decoder {
        decoder(bytes);
    }
}

/// The longest page that is looked at here: longer ones are no page.
fn is_page_len(len: usize) -> bool {
    len <= page::MAX_PAGE_LEN
}

/// Everything that is done with a page: it is checked, searched, walked, shown and changed.
fn page(bytes: &[u8]) {
    if !is_page_len(bytes.len()) {
        return;
    }
    let header = Header::read(bytes);
    let is_sound = page::check(bytes).is_ok();
    let _ = (page::verify(bytes, PageId::new(1, 2)), page::dump(bytes), page::overflow_payload(bytes, &header));
    let mut last: Option<&[u8]> = None;
    for index in 0..usize::from(header.count) {
        let found = page::cell(bytes, &header, index);
        let _ = (page::key_at(bytes, &header, index), page::child_at(bytes, index));
        let Some(cell) = found else {
            assert!(!is_sound || !is_tree_page(&header), "a sound page has all its cells");
            break;
        };
        let _ = (page::chain(cell.flags, cell.value), page::body(cell.flags, cell.value));
        let is_found = page::find(bytes, cell.key).is_some_and(|found| found.is_ok_and(|(slot, _)| slot == index));
        let is_keyed = header.kind() == Some(PageKind::Leaf);
        assert!(!is_sound || !is_keyed || is_found, "a sound page finds each of its keys");
        assert!(!is_sound || !is_keyed || last.is_none_or(|last| last < cell.key), "a sound page is in order");
        last = Some(cell.key);
    }
    let key = bytes.get(..7).unwrap_or(bytes);
    let _ = (page::child_for(bytes, &header, key), page::search(bytes, &header, key));
    let changes = [
        Change::Insert { slot: 0, cell: Cell { flags: 0, key, value: key } },
        Change::Replace { slot: 0, flags: 0, value: b"a value that is longer than before" },
        Change::Remove { slot: 1 },
        Change::Truncate { from: 1 },
        Change::SetLeft(7),
        Change::Image(bytes),
    ];
    for change in changes {
        let mut copy = bytes.to_vec();
        let _ = change.apply(copy.as_mut_slice());
        let _ = page::compact(copy.as_mut_slice());
    }
    if is_sound && bytes.len().is_multiple_of(8) {
        let _ = Change::image(bytes);
    }
}

fn is_tree_page(header: &Header) -> bool {
    matches!(header.kind(), Some(PageKind::Leaf | PageKind::Inner))
}

/// A page in its compressed form.
fn compressed_page(bytes: &[u8]) {
    if !is_page_len(bytes.len()) {
        return;
    }
    let mut out = vec![0; bytes.len()];
    if page::decompress(bytes, &mut out).is_ok() {
        page(&out);
    }
    assert!(page::stored_len(bytes) <= bytes.len());
}

/// A slot of the doublewrite file, its checksum made right.
fn doublewrite(bytes: &[u8]) {
    let _ = doublewrite_names(bytes).map(Iterator::count);
    if let Some(end) = bytes.len().checked_sub(8).filter(|_| is_page_len(bytes.len())) {
        let sum = siltstone_base::checksum::xxh3_64(&bytes[..end]);
        let whole = [&bytes[..end], &sum.to_le_bytes()].concat();
        let count = doublewrite_names(&whole).map_or(0, Iterator::count);
        assert!(count <= bytes.len() / 8, "no more names than there is room for");
    }
}

/// The entries of a record of the redo log, made on a page as recovery would.
fn redo_record(bytes: &[u8]) {
    let mut target = vec![0; 512];
    for entry in Entries(bytes) {
        let Ok(Entry::Change(_, change)) = entry else { continue };
        let _ = change.apply(target.as_mut_slice());
        let mut again = Vec::new();
        change.encode(&mut again);
        assert_eq!(Change::decode(&mut again.as_slice()), Some(change), "what is read is written alike");
    }
    page(&target);
}
