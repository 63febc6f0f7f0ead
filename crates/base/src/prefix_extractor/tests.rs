//! The built-in extractors and their contract.

use super::*;
use proptest::prelude::*;

#[test]
fn names_are_those_of_rocksdb() {
    assert_eq!(FixedPrefix::new(8).name(), "rocksdb.FixedPrefix.8");
    assert_eq!(CappedPrefix::new(3).name(), "rocksdb.CappedPrefix.3");
    assert_eq!(NoopPrefix.name(), "rocksdb.Noop");
}

#[test]
fn prefixes_of_short_and_long_keys() {
    let fixed = FixedPrefix::new(3);
    assert_eq!(fixed.prefix(b"ab"), None);
    assert_eq!(fixed.prefix(b"abc"), Some(&b"abc"[..]));
    assert_eq!(fixed.prefix(b"abcd"), Some(&b"abc"[..]));
    assert_eq!(FixedPrefix::new(0).prefix(b""), Some(&b""[..]));
    let capped = CappedPrefix::new(3);
    assert_eq!(capped.prefix(b""), Some(&b""[..]));
    assert_eq!(capped.prefix(b"ab"), Some(&b"ab"[..]));
    assert_eq!(capped.prefix(b"abcd"), Some(&b"abc"[..]));
    assert_eq!(NoopPrefix.prefix(b"abcd"), Some(&b"abcd"[..]));
    assert_eq!(NoopPrefix.full_len(), None);
}

proptest! {
    #[test]
    fn keys_of_a_prefix_are_neighbours(mut keys: [Vec<u8>; 3], len in 0_usize..4) {
        keys.sort();
        let extractors: [&dyn PrefixExtractor; 3] = [&FixedPrefix::new(len), &CappedPrefix::new(len), &NoopPrefix];
        for extractor in extractors {
            let [first, between, last] = keys.each_ref().map(|key| extractor.prefix(key));
            prop_assert!(first.is_none() || first != last || between == first, "{extractor:?}");
            if let (Some(prefix), Some(full_len)) = (first, extractor.full_len())
                && prefix.len() >= full_len
            {
                prop_assert!(!between.unwrap_or_default().starts_with(prefix) || between == first);
            }
        }
    }
}

#[test]
fn extractors_are_found_by_name() {
    let extractors: [&dyn PrefixExtractor; 3] = [&FixedPrefix::new(8), &CappedPrefix::new(0), &NoopPrefix];
    for extractor in extractors {
        assert_eq!(by_name(extractor.name()).unwrap().name(), extractor.name());
    }
    assert_eq!(by_name("fixed:3").unwrap().name(), "rocksdb.FixedPrefix.3");
    assert_eq!(by_name("capped:3").unwrap().name(), "rocksdb.CappedPrefix.3");
    for other in ["", "rocksdb.FixedPrefix", "rocksdb.FixedPrefix.", "rocksdb.FixedPrefix.-1", "other.8", "fixed:x"] {
        assert!(by_name(other).is_none(), "{other}");
    }
}
