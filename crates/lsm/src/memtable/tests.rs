//! Memtables against a sorted model, by one writer and by many.

use super::*;
use crate::iterator::InternalIterator;
use crate::key::{InternalKey, SeqNo};
use proptest::prelude::*;
use siltstone_base::comparator::{Bytewise, Comparator, ReverseBytewise};
use siltstone_base::prefix_extractor::FixedPrefix;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

const OPTIONS: MemtableOptions =
    MemtableOptions { write_buffer_size: 64 << 10, bloom_bits_per_key: 0, prefix_extractor: None, protection_bytes: 0 };

/// Entries per thread where threads race.
const RACE_LEN: u64 = if cfg!(miri) { 30 } else { 4000 };

fn memtable_of(user: Arc<dyn Comparator>, options: &MemtableOptions) -> Arc<Memtable> {
    Memtable::new(1, InternalKeyComparator::new(user), options)
}

fn memtable() -> Arc<Memtable> {
    memtable_of(Arc::new(Bytewise), &OPTIONS)
}

fn value_type(tombstone: bool) -> ValueType {
    if tombstone { ValueType::Delete } else { ValueType::Put }
}

/// User key and what sorts newest first, to the value.
type Model = BTreeMap<(Vec<u8>, Reverse<(SeqNo, u8)>), Vec<u8>>;

fn internal_key(key: &(Vec<u8>, Reverse<(SeqNo, u8)>)) -> Vec<u8> {
    let Reverse((seqno, number)) = key.1;
    InternalKey::new(&key.0, seqno, ValueType::from_u8(number).unwrap()).as_bytes().to_vec()
}

fn position(iter: &MemtableIter) -> Option<(Vec<u8>, Vec<u8>)> {
    iter.valid().then(|| (iter.key().to_vec(), iter.value().to_vec()))
}

/// Compares everything that an iterator can do with the model.
fn assert_same(memtable: &Memtable, model: &Model, reversed: bool) {
    let mut expected: Vec<_> = model.iter().map(|(key, value)| (internal_key(key), value.clone())).collect();
    if reversed {
        expected.sort_by(|a, b| memtable.comparator().compare(&a.0, &b.0));
    }
    let mut iter = memtable.iter();
    assert!(!iter.valid());
    iter.seek_to_first();
    for entry in &expected {
        assert_eq!(position(&iter).as_ref(), Some(entry));
        iter.next();
    }
    assert!(!iter.valid());
    iter.seek_to_last();
    for entry in expected.iter().rev() {
        assert_eq!(position(&iter).as_ref(), Some(entry));
        iter.prev();
    }
    assert!(!iter.valid());
    iter.status().unwrap();

    for (at, (key, _)) in expected.iter().enumerate() {
        let mut around = vec![key.clone(), LookupKey::new(user_key(key), u64::MAX >> 8).internal_key().to_vec()];
        around.push(InternalKey::new(user_key(key), 0, ValueType::Delete).as_bytes().to_vec());
        for target in around {
            let order = |entry: &&(Vec<u8>, Vec<u8>)| memtable.comparator().compare(&entry.0, &target);
            iter.seek(&target);
            assert_eq!(position(&iter).as_ref(), expected.iter().find(|entry| order(entry).is_ge()), "entry {at}");
            iter.seek_for_prev(&target);
            assert_eq!(position(&iter).as_ref(), expected.iter().rev().find(|entry| order(entry).is_le()));
        }
    }
}

/// The value of the newest visible version of a key.
fn get(memtable: &Memtable, key: &[u8], seqno: SeqNo) -> Option<Vec<u8>> {
    memtable.get_pinned(&LookupKey::new(key, seqno)).map(|entry| entry.value.to_vec())
}

/// Compares point reads with the model.
fn assert_gets(memtable: &Memtable, model: &Model, keys: &[Vec<u8>], seqnos: &[SeqNo]) {
    for key in keys {
        for &seqno in seqnos {
            let from = (key.clone(), Reverse((seqno, u8::MAX)));
            let expected = model.range(from..).next().filter(|((found, _), _)| found == key);
            let expected = expected.map(|((_, Reverse((_, number))), value)| (*number, value.clone()));
            let found = memtable.get_pinned(&LookupKey::new(key, seqno));
            assert_eq!(found.map(|entry| (entry.value_type as u8, entry.value.to_vec())), expected);
        }
    }
}

#[test]
fn an_empty_memtable_has_nothing() {
    let memtable = memtable();
    assert!(memtable.is_empty());
    assert!(memtable.get_pinned(&LookupKey::new(b"k", 9)).is_none());
    assert_same(&memtable, &Model::new(), false);
}

#[test]
fn totals_are_those_of_what_was_inserted() {
    let memtable = memtable();
    let mut writer = memtable.writer().unwrap();
    assert!(writer.add(5, ValueType::Put, b"a", b"one"));
    assert!(!writer.add(5, ValueType::Put, b"a", b"again"), "the same version");
    assert!(writer.add(4, ValueType::Delete, b"a", b""));
    drop(writer);
    let mut writer = memtable.concurrent_writer().unwrap();
    assert!(!writer.add(5, ValueType::Put, b"a", b"again"));
    assert!(writer.add(9, ValueType::SingleDelete, b"bb", b""));
    drop(writer);
    assert_eq!((memtable.num_entries(), memtable.num_deletes()), (3, 2));
    assert_eq!(get(&memtable, b"a", 9), Some(b"one".to_vec()));
}

#[test]
fn small_entries_take_more_memory_than_they_are_long() {
    let per_byte = |value: &[u8]| {
        let memtable = memtable();
        let mut writer = memtable.writer().unwrap();
        for number in 0..2_000_u64 {
            assert!(writer.add(number, ValueType::Put, &number.to_be_bytes(), value));
        }
        drop(writer);
        memtable.memory_per_batch_byte().unwrap()
    };
    let (small, large) = (per_byte(b"12345678"), per_byte(&[7; 1000]));
    assert!(small > 1.5 && (1.0..1.1).contains(&large), "{small} {large}");
    assert_eq!(memtable().memory_per_batch_byte(), None);
}

#[test]
fn writers_exclude_each_other() {
    let memtable = memtable();
    let alone = memtable.writer().unwrap();
    assert!(memtable.writer().is_none());
    assert!(memtable.concurrent_writer().is_none());
    drop(alone);
    let one = memtable.concurrent_writer().unwrap();
    let other = memtable.concurrent_writer().unwrap();
    assert!(memtable.writer().is_none());
    drop(one);
    assert!(memtable.writer().is_none());
    drop(other);
    assert!(memtable.writer().is_some());
}

#[test]
fn large_and_small_entries_fit() {
    for protection_bytes in [0, 8] {
        let options = MemtableOptions { protection_bytes, ..OPTIONS };
        let memtable = memtable_of(Arc::new(Bytewise), &options);
        let lens = [0, 1, 7, 8, 9, 119, 120, 127, 128, 16_000, 70_000, if cfg!(miri) { 90_000 } else { 3_000_000 }];
        let mut writer = memtable.writer().unwrap();
        for (seqno, &len) in lens.iter().enumerate() {
            let key = vec![3; len.min(crate::MAX_KEY_LEN)];
            assert!(writer.add(seqno as u64, ValueType::Put, &key, &vec![seqno as u8; len]));
        }
        drop(writer);
        for (seqno, &len) in lens.iter().enumerate() {
            let key = vec![3; len.min(crate::MAX_KEY_LEN)];
            let found = get(&memtable, &key, seqno as u64).unwrap();
            assert!(found.len() == len && found.iter().all(|byte| *byte == seqno as u8));
        }
        let data: usize = lens.iter().sum();
        assert!(memtable.approximate_memory_usage() > data);
    }
}

#[test]
fn a_bloom_filter_hides_no_key_from_before_and_after_it_was_made() {
    let options = MemtableOptions { bloom_bits_per_key: 10, ..OPTIONS };
    let memtable = memtable_of(Arc::new(Bytewise), &options);
    let add = |key: u64| {
        let kind = ValueType::Put;
        if key.is_multiple_of(2) {
            memtable.writer().unwrap().add(key, kind, &key.to_be_bytes(), b"v")
        } else {
            memtable.concurrent_writer().unwrap().add(key, kind, &key.to_be_bytes(), b"v")
        }
    };
    let mut without_search = 0;
    for key in 0..2 * BLOOM_FROM_ENTRIES {
        assert!(add(key));
        assert_eq!(memtable.bloom.get().is_some(), key >= BLOOM_FROM_ENTRIES);
        for known in [0, key / 2, key] {
            assert!(get(&memtable, &known.to_be_bytes(), 1000).is_some());
        }
        let absent = LookupKey::new(&(key + (1 << 32)).to_be_bytes(), 1000);
        assert!(memtable.get_pinned(&absent).is_none());
        without_search += u64::from(!memtable.may_contain(&absent));
    }
    assert!(without_search > BLOOM_FROM_ENTRIES * 9 / 10, "{without_search} absent keys were known to be absent");

    let extractor: Arc<dyn PrefixExtractor> = Arc::new(FixedPrefix::new(7));
    let options = MemtableOptions { prefix_extractor: Some(extractor), ..options };
    let memtable = memtable_of(Arc::new(Bytewise), &options);
    let may_have = |key: u64| memtable.may_have_prefix(xxph3(&key.to_be_bytes()[..7]));
    assert!(may_have(77), "there is no filter yet");
    for key in 0..2 * BLOOM_FROM_ENTRIES {
        memtable.writer().unwrap().add(key, ValueType::Put, &(key << 16).to_be_bytes(), b"v");
    }
    assert!((0..2 * BLOOM_FROM_ENTRIES).all(|key| may_have(key << 16 | 3)));
    assert!((0..100_u64).filter(|key| may_have(key << 16 | 1 << 8)).count() < 10);

    let plain = memtable_of(Arc::new(Bytewise), &OPTIONS);
    for key in 0..2 * BLOOM_FROM_ENTRIES {
        plain.writer().unwrap().add(key, ValueType::Put, &key.to_be_bytes(), b"v");
    }
    assert!(plain.bloom.get().is_none());
}

#[test]
fn a_pinned_value_and_an_iterator_outlive_the_memtable() {
    let memtable = memtable();
    memtable.writer().unwrap().add(1, ValueType::Put, b"key", b"value");
    let pinned = memtable.get_pinned(&LookupKey::new(b"key", 1)).unwrap();
    let mut iter = memtable.iter();
    drop(memtable);
    assert_eq!(&*pinned.value, b"value");
    iter.seek_to_first();
    assert_eq!(iter.value(), b"value");
}

#[test]
fn sealed_memtables_are_read_from_the_newest() {
    let sealed = |id, seqno, key: &[u8]| {
        let memtable = Memtable::new(id, InternalKeyComparator::new(Arc::new(Bytewise)), &OPTIONS);
        memtable.writer().unwrap().add(seqno, ValueType::Put, key, &[id as u8]);
        memtable
    };
    let none = ImmutableList::default();
    let one = none.with_newest(sealed(1, 10, b"k"));
    let both = one.with_newest(sealed(2, 20, b"k"));
    let get =
        |list: &ImmutableList, seqno| list.get_pinned(&LookupKey::new(b"k", seqno)).map(|entry| entry.value.to_vec());
    assert!(none.is_empty() && get(&none, 30).is_none());
    assert_eq!(get(&both, 30), Some(vec![2]));
    assert_eq!(get(&both, 15), Some(vec![1]));
    assert_eq!(get(&both, 5), None);
    assert_eq!(both.oldest_first().map(|memtable| memtable.id()).collect::<Vec<_>>(), [1, 2]);
    let left = both.without(|id| id == 1);
    assert_eq!((left.len(), both.len(), one.len()), (1, 2, 1));
    assert_eq!(get(&left, 15), None);
}

/// Threads that insert at the same time, some through several tokens, while others read: every reader sees order and all that was
/// finished before it started.
#[test]
fn racing_writers_lose_nothing() {
    let memtable = memtable();
    let done = AtomicBool::new(false);
    let written: [AtomicU64; 3] = Default::default();
    let key = |thread: u64, i: u64| {
        // Neighbours come from different threads; half of the keys share their first eight bytes.
        let mixed = (i * 3 + thread).wrapping_mul(0x9E37_79B9) % (RACE_LEN * 3 * 7);
        if mixed.is_multiple_of(2) {
            format!("common prefix {mixed:08}-{i}-{thread}")
        } else {
            format!("{mixed:08}-{i}-{thread}")
        }
    };
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..3)
            .map(|thread| {
                let (memtable, written) = (&memtable, &written);
                scope.spawn(move || {
                    for batch in 0..RACE_LEN / 10 {
                        let mut writer = memtable.concurrent_writer().unwrap();
                        for i in batch * 10..batch * 10 + 10 {
                            let key = key(thread, i);
                            assert!(writer.add(i, ValueType::Put, key.as_bytes(), key.as_bytes()));
                            written[thread as usize].store(i + 1, Ordering::Release);
                        }
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            while !done.load(Ordering::Acquire) {
                let before: Vec<u64> = written.iter().map(|count| count.load(Ordering::Acquire)).collect();
                for (thread, &count) in before.iter().enumerate() {
                    if let Some(last) = count.checked_sub(1) {
                        let key = key(thread as u64, last);
                        assert_eq!(get(&memtable, key.as_bytes(), RACE_LEN), Some(key.into_bytes()));
                    }
                }
                let mut iter = memtable.iter();
                iter.seek_to_first();
                let (mut seen, mut previous) = (0, Vec::new());
                while iter.valid() {
                    assert!(previous.is_empty() || memtable.comparator().compare(&previous, iter.key()).is_lt());
                    previous.clear();
                    previous.extend_from_slice(iter.key());
                    seen += 1;
                    iter.next();
                }
                assert!(seen >= before.iter().sum::<u64>());
            }
        });
        for writer in writers {
            writer.join().unwrap();
        }
        done.store(true, Ordering::Release);
    });
    assert_eq!(memtable.num_entries(), 3 * RACE_LEN);
    let mut model = Model::new();
    for thread in 0..3 {
        for i in 0..RACE_LEN {
            let key = key(thread, i).into_bytes();
            model.insert((key.clone(), Reverse((i, ValueType::Put as u8))), key);
        }
    }
    assert_all(&memtable, &model);
    // The exclusive writer goes on where shared ones left off.
    let mut writer = memtable.writer().unwrap();
    for i in 0..RACE_LEN {
        let key = format!("{:06}", i.wrapping_mul(0x9E37_79B9) % 1_000_000).into_bytes();
        assert!(writer.add(i, ValueType::Put, &key, b""));
        model.insert((key, Reverse((i, ValueType::Put as u8))), Vec::new());
    }
    drop(writer);
    assert_all(&memtable, &model);
}

/// Compares all entries, and a point read of each, with the model.
fn assert_all(memtable: &Memtable, model: &Model) {
    let mut iter = memtable.iter();
    iter.seek_to_first();
    for (key, value) in model {
        assert_eq!(position(&iter), Some((internal_key(key), value.clone())));
        let Reverse((seqno, _)) = key.1;
        assert_eq!(get(memtable, &key.0, seqno).as_ref(), Some(value));
        iter.next();
    }
    assert!(!iter.valid());
}

/// One exclusive writer races with readers.
#[test]
fn a_single_writer_races_with_readers() {
    let memtable = memtable();
    let written = AtomicU64::new(0);
    let key = |i: u64| format!("{:05}", i.wrapping_mul(7919) % 100_003);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for i in 0..RACE_LEN {
                assert!(memtable.writer().unwrap().add(i, ValueType::Put, key(i).as_bytes(), &i.to_le_bytes()));
                written.store(i + 1, Ordering::Release);
            }
        });
        for start in 0..2 {
            let (memtable, written) = (&memtable, &written);
            scope.spawn(move || {
                let mut i = start;
                loop {
                    let count = written.load(Ordering::Acquire);
                    if count > 0 {
                        i = (i * 31 + 7) % count;
                        let found = get(memtable, key(i).as_bytes(), u64::MAX >> 8);
                        assert!(found.is_some(), "entry {i} of {count}");
                    }
                    if count == RACE_LEN {
                        break;
                    }
                }
            });
        }
    });
    assert_eq!(memtable.num_entries(), RACE_LEN);
}

/// An empty memtable that expects keys to start so.
fn after_common_start(start: &[u8]) -> Arc<Memtable> {
    let memtable = memtable();
    for i in 0..ENOUGH_TO_LEARN_FROM {
        let key = [start, &i.to_le_bytes()].concat();
        memtable.writer().unwrap().add(i, ValueType::Put, &key, b"");
    }
    memtable.successor(1, &OPTIONS).successor(2, &OPTIONS)
}

#[test]
fn a_successor_expects_the_keys_of_its_predecessor_and_takes_others() {
    let memtable = after_common_start(b"common prefix ");
    assert_eq!((memtable.id(), memtable.num_entries()), (2, 0));
    let mut model = Model::new();
    let mut keys = Vec::new();
    for i in 0..50_u64 {
        keys.push(format!("common prefix {}", i * 7919 % 101).into_bytes());
        keys.push(format!("common {i}").into_bytes());
        keys.push(format!("z{i}").into_bytes());
    }
    keys.extend([b"".to_vec(), b"common prefix".to_vec(), b"common prefix ".to_vec(), vec![u8::MAX; 30]]);
    for (seqno, key) in keys.iter().enumerate() {
        assert!(memtable.writer().unwrap().add(seqno as u64, ValueType::Put, key, key));
        model.insert((key.clone(), Reverse((seqno as u64, ValueType::Put as u8))), key.clone());
    }
    assert_same(&memtable, &model, false);
    assert_gets(&memtable, &model, &keys, &[0, 100, 1000]);
}

#[derive(Debug, Clone)]
struct Insert {
    key: Vec<u8>,
    seqno: SeqNo,
    tombstone: bool,
    value: Vec<u8>,
    shared: bool,
}

fn insert() -> impl Strategy<Value = Insert> {
    let byte = || prop_oneof![Just(0_u8), Just(1), Just(b'a'), Just(u8::MAX)];
    let short = proptest::collection::vec(byte(), 0..4);
    let long = proptest::collection::vec(byte(), 0..4).prop_map(|tail| [b"12345678".as_slice(), &tail].concat());
    let highest = proptest::collection::vec(byte(), 0..3).prop_map(|tail| [[u8::MAX; 8].as_slice(), &tail].concat());
    let value = proptest::collection::vec(any::<u8>(), 0..20);
    (prop_oneof![short, long, highest], 1..40_u64, any::<bool>(), value, any::<bool>())
        .prop_map(|(key, seqno, tombstone, value, shared)| Insert { key, seqno, tombstone, value, shared })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 300 }))]

    #[test]
    fn the_memtable_is_a_sorted_map(inserts in proptest::collection::vec(insert(), 0..120), order in 0..4) {
        let reversed = order == 1;
        let user: Arc<dyn Comparator> = if reversed { Arc::new(ReverseBytewise) } else { Arc::new(Bytewise) };
        let mut memtable = memtable_of(user, &OPTIONS);
        if order == 3 {
            memtable = after_common_start(b"12345678");
        }
        let mut model = Model::new();
        let mut inserts = inserts;
        if order == 2 {
            inserts.sort_by(|a, b| a.key.cmp(&b.key).then(b.seqno.cmp(&a.seqno)));
        }
        for insert in &inserts {
            let kind = value_type(insert.tombstone);
            let inserted = if insert.shared {
                memtable.concurrent_writer().unwrap().add(insert.seqno, kind, &insert.key, &insert.value)
            } else {
                memtable.writer().unwrap().add(insert.seqno, kind, &insert.key, &insert.value)
            };
            let key = (insert.key.clone(), Reverse((insert.seqno, kind as u8)));
            prop_assert_eq!(inserted, !model.contains_key(&key));
            model.entry(key).or_insert_with(|| insert.value.clone());
        }
        prop_assert_eq!(memtable.num_entries(), model.len() as u64);
        assert_same(&memtable, &model, reversed);
        let keys: Vec<Vec<u8>> = inserts.iter().map(|insert| insert.key.clone()).collect();
        assert_gets(&memtable, &model, &keys, &[0, 1, 5, 20, 50]);
        assert_gets(&memtable, &model, &[b"absent".to_vec(), vec![u8::MAX; 9]], &[50]);
    }
}

fn range_list_of(tombstones: u64) -> RangeList {
    let list = RangeList::new(InternalKeyComparator::new(Arc::new(Bytewise)));
    for number in 0..tombstones {
        assert!(list.add(number + 1, &(3 * number).to_be_bytes(), &(3 * number + 2).to_be_bytes()));
    }
    list
}

fn assert_covers(list: &RangeList, tombstones: u64) {
    for number in 0..tombstones {
        assert_eq!(list.covering(&(3 * number + 1).to_be_bytes(), SeqNo::MAX), number + 1);
        assert_eq!(list.covering(&(3 * number + 1).to_be_bytes(), number), 0, "not for readers before it");
        assert_eq!(list.covering(&(3 * number + 2).to_be_bytes(), SeqNo::MAX), 0, "a gap");
    }
}

#[test]
fn searches_of_several_sets_of_range_tombstones_end_in_a_search_of_one() {
    const TOMBSTONES: u64 = 1_000;
    let list = range_list_of(TOMBSTONES);
    let sets = list.fragments().expect("there are tombstones");
    assert!(sets.len() > 1, "adding 1,000 leaves several sets");
    assert_covers(&list, TOMBSTONES);
    assert_eq!(list.fragments().expect("there are tombstones").len(), 1);
    assert_covers(&list, TOMBSTONES);
    assert_eq!(list.to_vec().len() as u64, TOMBSTONES);
}

#[test]
fn range_tombstones_added_while_sets_are_merged_are_all_found() {
    const TOMBSTONES: u64 = 2_000;
    let list = range_list_of(TOMBSTONES);
    std::thread::scope(|scope| {
        let adder = scope.spawn(|| {
            for number in TOMBSTONES..2 * TOMBSTONES {
                assert!(list.add(number + 1, &(3 * number).to_be_bytes(), &(3 * number + 2).to_be_bytes()));
                assert_eq!(list.covering(&(3 * number + 1).to_be_bytes(), SeqNo::MAX), number + 1);
            }
        });
        while !adder.is_finished() {
            assert_covers(&list, TOMBSTONES);
        }
    });
    assert_covers(&list, 2 * TOMBSTONES);
    assert_eq!(list.to_vec().len() as u64, 2 * TOMBSTONES);
}
