//! Prefixes in links, by one writer and by many.

#![expect(unsafe_code, reason = "links are reached through raw addresses")]

use super::*;
use siltstone_base::comparator::Bytewise;

const PUT: u8 = 1;

fn list() -> SkipList {
    SkipList::new(Arc::default(), InternalKeyComparator::new(Arc::new(Bytewise)), 0, (b"", b""))
}

/// The links of all levels: their own prefix, and that of their successor.
fn links(list: &SkipList) -> Vec<(&Link, u64)> {
    let mut links = Vec::new();
    for level in 0..list.height.load(Ordering::Relaxed) {
        let mut node = list.head;
        // SAFETY: the head has all levels, and a successor at a level is higher than it.
        unsafe {
            while !node.next(level).is_null() {
                let next = node.next(level);
                links.push((node.link(level), list.prefixes.of(user_key(next.internal_key()))));
                node = next;
            }
        }
    }
    links
}

fn wrong_links(list: &SkipList) -> usize {
    links(list).iter().filter(|(link, prefix)| link.prefix.load(Ordering::Relaxed) != *prefix).count()
}

/// Keys in no order, each once, between 2 and 2^63.
fn keys() -> impl Iterator<Item = [u8; 8]> {
    (1..2_000_u64).map(|number| ((number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 1) | 2).to_be_bytes())
}

#[test]
fn a_writer_that_was_overtaken_does_not_make_searches_visit_all_that_is_inserted_later() {
    for is_shared in [true, false] {
        let list = list();
        for (number, seqno) in [(0_u64, 1), (u64::MAX - 1, 2)] {
            list.shared_writer().unwrap().insert(&number.to_be_bytes(), seqno, PUT, b"");
        }
        // Writers of key 1 have said that it comes next, and were overtaken before they linked it.
        let lowered = links(&list).iter().filter(|(link, _)| link.prefix.fetch_min(1, Ordering::Relaxed) > 1).count();
        assert!(lowered > 0);
        for (key, seqno) in keys().zip(3..) {
            let inserted = match is_shared {
                true => list.shared_writer().unwrap().insert(&key, seqno, PUT, b""),
                false => list.exclusive_writer().unwrap().insert(&key, seqno, PUT, b""),
            };
            assert!(inserted);
        }
        let wrong = wrong_links(&list);
        assert!(wrong <= lowered, "{wrong} of {} links, {lowered} were lowered", links(&list).len());
        for key in keys() {
            let mut target = key.to_vec();
            target.extend_from_slice(&crate::key::pack_trailer(u64::MAX >> 8, PUT).to_le_bytes());
            assert_eq!(list.seek(&target).map(|entry| user_key(entry.internal_key)), Some(&key[..]));
        }
    }
}

#[test]
fn racing_writers_leave_each_link_the_prefix_of_its_successor() {
    let list = list();
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let list = &list;
            scope.spawn(move || {
                let mut writer = list.shared_writer().unwrap();
                for (key, seqno) in keys().zip(1..) {
                    writer.insert(&key, seqno * 4 + thread, PUT, b"");
                }
            });
        }
    });
    // A writer that was overtaken right before it linked its node, by one whose own is larger, leaves one at most.
    let (wrong, all) = (wrong_links(&list), links(&list).len());
    assert!(wrong * 100 < all, "{wrong} of {all}");
}
