//! What a policy of tables keeps.

use super::*;
use siltstone_base::expiry::TtlDuration;

fn tables() -> Tables {
    let mut tables = Tables::default();
    let history = |seconds| History::new(TtlDuration::from_seconds(seconds).unwrap());
    tables.insert(&[256, 257, 300], history(10));
    tables.insert(&[258], history(1000).changed(TtlDuration::from_seconds(20).unwrap(), 5000).unwrap());
    tables
}

#[test]
fn what_is_saved_is_what_is_read_back_and_damage_is_refused() {
    let good = tables().encode();
    assert_eq!(Tables::decode(&good).unwrap(), tables());
    for len in 0..good.len() {
        assert!(Tables::decode(&good[..len]).is_err(), "{len}");
    }
    let longer = [&good[..], &[0]].concat();
    assert_eq!(Tables::decode(&longer).unwrap_err().kind(), ErrorKind::Corruption);
    assert_eq!(Tables::decode(&[2]).unwrap_err().kind(), ErrorKind::NotSupported);
    let mut endless = vec![FORM as u8];
    put_varint64(&mut endless, u64::MAX);
    assert_eq!(Tables::decode(&endless).unwrap_err().kind(), ErrorKind::Corruption);
}

#[test]
fn only_rows_and_entries_of_tables_that_expire_have_stamps() {
    let ttl = TableTtl::default();
    ttl.tables.store(Arc::new(tables()));
    let stamp = |index: u32, value: &[u8]| ttl.stamp(&[&index.to_be_bytes()[..], b"key"].concat(), value);
    let seven = [&7_u64.to_be_bytes()[..], b"value"].concat();
    assert_eq!(stamp(257, &seven), Some(Stamp { group: 257, seconds: 7 }));
    assert_eq!(stamp(257, &seven[..7]), None, "too short for a stamp");
    assert_eq!((stamp(259, &seven), ttl.stamp(b"abc", &seven)), (None, None));
    assert_eq!((ttl.bound(256, 100), ttl.bound(300, 100), ttl.bound(258, 100)), (Some(90), Some(90), None));
    assert_eq!((ttl.bound(259, 100), ttl.expires_at(Stamp { group: 259, seconds: 1 })), (None, None));
    assert_eq!(ttl.expires_at(Stamp { group: 0, seconds: 100 }), Some(110), "the shortest life");
}
