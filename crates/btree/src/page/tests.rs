//! Pages against a map, against garbage, and against the bytes that the book promises.

use super::*;
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use std::collections::BTreeMap;

const LEN: usize = 1024;

fn leaf(len: usize) -> Vec<u8> {
    let mut page = vec![0xee; len];
    Change::Format { kind: PageKind::Leaf, level: 0, left: 7, right: 9 }.apply(page.as_mut_slice()).unwrap();
    page
}

fn header(page: &[u8]) -> Header {
    Header::read(page)
}

fn contents(page: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let header = header(page);
    let cells = (0..usize::from(header.count)).map(|index| cell(page, &header, index).unwrap());
    cells.map(|cell| (cell.key.to_vec(), cell.value.to_vec())).collect()
}

/// Makes a change through its encoded form.
fn apply(page: &mut Vec<u8>, change: &Change<'_>) -> Result<(), EditError> {
    let mut encoded = Vec::new();
    change.encode(&mut encoded);
    let mut input = encoded.as_slice();
    let decoded = Change::decode(&mut input).unwrap();
    assert!(input.is_empty());
    assert_eq!(&decoded, change);
    decoded.apply(page.as_mut_slice())
}

#[derive(Debug, Clone)]
enum Op {
    Put(Vec<u8>, Vec<u8>),
    Remove(Vec<u8>),
    Truncate(u16),
    Compact,
    Rebuild,
    Image,
}

fn key() -> impl Strategy<Value = Vec<u8>> {
    // Keys that share long prefixes, keys that are prefixes of others, and keys with zeros.
    prop_oneof![
        vec(0..3_u8, 0..6),
        vec(0..3_u8, 0..6).prop_map(|tail| [
            b"a common prefix that is longer than what the header keeps".as_slice(),
            &tail
        ]
        .concat()),
        vec(0..3_u8, 0..9).prop_map(|tail| [b"user:".as_slice(), &tail].concat()),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        12 => (key(), vec(any::<u8>(), 0..40)).prop_map(|(key, value)| Op::Put(key, value)),
        6 => key().prop_map(Op::Remove),
        1 => (0..20_u16).prop_map(Op::Truncate),
        1 => Just(Op::Compact),
        1 => Just(Op::Rebuild),
        1 => Just(Op::Image),
    ]
}

fn put(page: &mut Vec<u8>, key: &[u8], value: &[u8]) -> Result<(), EditError> {
    match find(page, key).unwrap() {
        Ok((slot, old)) => {
            assert_eq!(old.key, key);
            apply(page, &Change::Replace { slot: slot as u16, flags: 0, value })
        }
        Err(slot) => apply(page, &Change::Insert { slot: slot as u16, cell: Cell { flags: 0, key, value } }),
    }
}

fn run(page: &mut Vec<u8>, model: &mut BTreeMap<Vec<u8>, Vec<u8>>, op: &Op) {
    match op {
        Op::Put(key, value) => match put(page, key, value) {
            Ok(()) => drop(model.insert(key.clone(), value.clone())),
            Err(error) => {
                assert_eq!(error, EditError::Full);
                let old = model.get(key).map_or(0, |old| SLOT_LEN + CELL_HEADER_LEN + key.len() + old.len());
                let need = SLOT_LEN + CELL_HEADER_LEN + key.len() + value.len();
                assert!(header(page).free() + old < need, "what fits is taken");
            }
        },
        Op::Remove(key) => {
            let found = find(page, key).unwrap();
            assert_eq!(found.is_ok(), model.remove(key).is_some());
            if let Ok((slot, _)) = found {
                apply(page, &Change::Remove { slot: slot as u16 }).unwrap();
            }
        }
        Op::Truncate(from) => {
            apply(page, &Change::Truncate { from: *from }).unwrap();
            *model = std::mem::take(model).into_iter().take(usize::from(*from)).collect();
        }
        Op::Compact => {
            compact(page.as_mut_slice()).unwrap();
            assert_eq!(header(page).garbage, 0);
        }
        Op::Rebuild => {
            let header = header(page);
            let cells = (0..usize::from(header.count)).map(|index| cell(page, &header, index).unwrap());
            *page = build(page.len(), &header, cells).unwrap();
        }
        Op::Image => {
            let image = Change::image(page);
            let mut other = vec![0x55; page.len()];
            apply(&mut other, &Change::Image(&image)).unwrap();
            *page = other;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_leaf_is_a_map_that_may_be_full(ops in vec(op(), 1..200)) {
        let mut page = leaf(LEN);
        let mut model = BTreeMap::new();
        for op in &ops {
            run(&mut page, &mut model, op);
            prop_assert_eq!(check(&page), Ok(()));
            prop_assert_eq!(contents(&page), model.clone().into_iter().collect::<Vec<_>>());
            let used: usize = model.iter().map(|(key, value)| SLOT_LEN + CELL_HEADER_LEN + key.len() + value.len()).sum();
            prop_assert_eq!(header(&page).used(LEN), used);
            prop_assert_eq!((header(&page).left, header(&page).right), (7, 9));
        }
    }

    #[test]
    fn searches_find_what_is_there_and_where_it_belongs(
        map in btree_map(key(), Just(vec![1]), 0..30), wanted in vec(key(), 20),
    ) {
        let mut page = leaf(4096);
        for (key, value) in &map {
            put(&mut page, key, value).unwrap();
        }
        for key in map.keys().chain(&wanted) {
            let rank = map.keys().take_while(|other| *other < key).count();
            let found = search(page.as_slice(), &header(&page), key).unwrap();
            prop_assert_eq!(found, if map.contains_key(key) { Ok(rank) } else { Err(rank) });
        }
    }

    #[test]
    fn children_are_found_by_separators(map in btree_map(key(), any::<u32>(), 1..25), wanted in vec(key(), 20)) {
        let mut page = vec![0; 4096];
        Change::Format { kind: PageKind::Inner, level: 1, left: 0, right: 0 }.apply(page.as_mut_slice()).unwrap();
        for (slot, (key, child)) in map.iter().enumerate() {
            let cell = Cell { flags: 0, key, value: &child.to_le_bytes() };
            apply(&mut page, &Change::Insert { slot: slot as u16, cell }).unwrap();
        }
        prop_assert_eq!(check(&page), Ok(()));
        for key in map.keys().chain(&wanted) {
            let slot = map.keys().take_while(|separator| *separator <= key).count().max(1) - 1;
            let child = *map.values().nth(slot).unwrap();
            prop_assert_eq!(child_for(page.as_slice(), &header(&page), key), Some((slot, child)));
        }
    }

    #[test]
    fn separators_are_short_and_separate(left in key(), right in key()) {
        let (left, right) = (left.clone().min(right.clone()), left.max(right));
        prop_assume!(left != right);
        let separator = shortest_separator(&left, &right);
        prop_assert!(left.as_slice() < separator && separator <= right.as_slice());
        prop_assert!(separator.is_empty() || separator[..separator.len() - 1] <= left[..]);
    }

    #[test]
    fn no_bytes_make_a_page_panic(bytes in vec(any::<u8>(), 0..600), start in 0..200_usize, key in key()) {
        // Whole garbage, and a real page with garbage in it.
        let mut wounded = leaf(512);
        for number in 0..9_u8 {
            put(&mut wounded, &[b'k', number], b"value").unwrap();
        }
        for (at, byte) in (start..).zip(bytes.iter().take(24)) {
            wounded[at] = *byte;
        }
        for mut page in [bytes.clone(), wounded] {
            let header = header(&page);
            let _ = (check(&page), verify(&page, PageId::new(1, 1)), find(&page, &key));
            let _ = (child_for(page.as_slice(), &header, &key), child_at(page.as_slice(), 3));
            let _ = (key_at(&page, &header, 2), overflow_payload(&page, &header));
            let _ = header.kind().map(|_| Change::image(&page));
            let cell = Cell { flags: 0, key: &key, value: b"new" };
            let changes = [
                Change::Insert { slot: 1, cell },
                Change::Replace { slot: 2, flags: 0, value: b"a longer value than before" },
                Change::Remove { slot: 0 },
                Change::Truncate { from: 1 },
                Change::Image(&bytes),
                Change::Write { offset: 500, data: b"0123456789" },
                Change::SetLeft(1),
            ];
            for change in changes {
                let _ = change.apply(page.as_mut_slice());
            }
            let _ = compact(page.as_mut_slice());
        }
        let _ = Change::decode(&mut bytes.as_slice());
    }
}

#[test]
fn a_sealed_page_knows_its_name_and_shows_every_flipped_bit() {
    let id = PageId::new(3, 4);
    let mut page = leaf(512);
    put(&mut page, b"key", b"value").unwrap();
    assert_eq!(verify(&vec![0; 512], id), Err(Damage::Unwritten));
    assert_eq!(verify(&page, id), Err(Damage::Checksum));
    seal(&mut page, id, 99);
    assert_eq!(verify(&page, id), Ok(99));
    assert_eq!(verify(&page, PageId::new(3, 5)), Err(Damage::Misplaced(id)));
    for bit in 0..page.len() * 8 {
        page[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(verify(&page, id), Err(Damage::Checksum), "bit {bit}");
        page[bit / 8] ^= 1 << (bit % 8);
    }
    // Halves of two states of one page, both whole once.
    let mut newer = page.clone();
    put(&mut newer, b"key", b"other").unwrap();
    seal(&mut newer, id, 120);
    let torn = [&newer[..256], &page[256..]].concat();
    assert_eq!(verify(&torn, id), Err(Damage::Checksum));
    assert_eq!(verify(&page[..50], id), Err(Damage::Short));
}

#[test]
fn flags_of_the_future_are_refused() {
    let mut page = leaf(512);
    let cell = Cell { flags: 0x80, key: b"a", value: b"b" };
    insert(page.as_mut_slice(), 0, &cell).unwrap();
    assert!(check(&page).unwrap_err().contains("flags"));
}

#[test]
fn runs_of_insertions_are_noticed() {
    let mut page = leaf(4096);
    for number in 0..10_u8 {
        put(&mut page, &[number * 10], b"").unwrap();
    }
    assert_eq!(header(&page).run, 9);
    put(&mut page, &[5], b"").unwrap();
    assert_eq!(header(&page).run, 0);
    for number in (0..5_u8).rev() {
        put(&mut page, &[number], b"").unwrap();
    }
    // The first of them continues behind nothing.
    assert!(header(&page).run <= -3, "{}", header(&page).run);
}

/// The bytes of a small page, as `docs/src/formats/page.md` describes them.
#[test]
fn the_bytes_of_a_page_stay_what_they_are() {
    let mut page = vec![0; 160];
    Change::Format { kind: PageKind::Leaf, level: 0, left: 7, right: 0x0102_0304 }.apply(page.as_mut_slice()).unwrap();
    put(&mut page, b"rock", b"old").unwrap();
    put(&mut page, b"root", b"\x01").unwrap();
    seal(&mut page, PageId::new(1, 0x0506), 0x0708_0910);
    let hex: String = page.iter().map(|byte| format!("{byte:02x}")).collect();
    let wanted = concat!(
        "CHECKSUMCHECKSUM",
        "1009080700000000", // checksum, LSN
        "0100000006050000",
        "0200000007000000", // space and number; leaf, level 0, left
        "0403020102008600",
        "0000020001000100", // right, two slots, heap; garbage, prefix of 2, run, last insertion
        "0000000000000000",
        "0000000000000000", // reserved
        "726f636b00000000",
        "0000000000000000", // the prefix, then what an earlier one left
        "0000000000000000",
        "0000000000000000",
        "8e0004000000 6b63",
        "860004000000 746f", // slots: offset, length of the key, head
    );
    let sum = &hex[..16];
    let wanted = wanted.replace("CHECKSUMCHECKSUM", sum).replace(' ', "");
    assert_eq!(&hex[..wanted.len()], wanted);
    let tail = concat!("000100", "726f6f74", "01", "000300", "726f636b", "6f6c64", "1009080700000000");
    assert_eq!(&hex[hex.len() - tail.len()..], tail);
    assert_eq!(sum, "8a27da8f5a97209e");
}

#[test]
fn long_values_leave_a_reference() {
    let reference = OverflowRef { len: 5000, first: 3, last: 9 };
    assert_eq!(OverflowRef::decode(&reference.encode()), Some(reference));
    assert_eq!(OverflowRef::decode(&[0; 11]), None);
    assert_eq!(reference.pages(1024), 6);
    assert!(max_inline_len(4096, max_key_len(4096)) > OverflowRef::LEN);
    // Four of the largest cells fit.
    let mut page = leaf(4096);
    for number in 0..4_u8 {
        let key = vec![number; max_key_len(4096)];
        put(&mut page, &key, &vec![0; max_inline_len(4096, key.len())]).unwrap();
    }
}
