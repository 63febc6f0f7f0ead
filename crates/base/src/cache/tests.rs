//! A model for what must hold, scenarios for the policy, threads for the locks.

use super::*;
use proptest::prelude::*;
use std::collections::HashMap;

fn key(file: u64, offset: u64) -> CacheKey {
    CacheKey { file, offset }
}

fn counted<T>(value: T) -> Arc<Counted<T>> {
    Arc::new(Counted::new(value))
}

fn one_shard(capacity: usize) -> Cache<Counted<u64>> {
    Cache::with_shard_bits(capacity, 0)
}

fn put(cache: &Cache<Counted<u64>>, offset: u64) {
    cache.insert(key(1, offset), counted(offset), 10);
}

#[test]
fn a_scan_does_not_displace_what_is_used() {
    let cache = one_shard(1000);
    for offset in 0..50 {
        put(&cache, offset);
    }
    for _ in 0..2 {
        for offset in 0..50 {
            assert!(cache.get(&key(1, offset)).is_some());
        }
    }
    for offset in 1000..5000 {
        put(&cache, offset);
    }
    assert!((0..50).all(|offset| cache.contains(&key(1, offset))));
    assert!(cache.usage() <= 1000);
    assert_eq!(cache.stats().evictions, 50 + 4000 - cache.entries() as u64);
}

#[test]
fn what_comes_back_soon_after_it_went_is_kept() {
    let cache = one_shard(1000);
    for offset in 0..110 {
        put(&cache, offset);
    }
    assert!(!cache.contains(&key(1, 5)), "gone, and remembered");
    put(&cache, 5);
    for offset in 1000..1500 {
        put(&cache, offset);
    }
    assert!(cache.contains(&key(1, 5)));
}

#[test]
fn low_priority_goes_first() {
    let cache = one_shard(100);
    for offset in 0..9 {
        put(&cache, offset);
    }
    for offset in 100..200 {
        cache.insert_low_priority(key(2, offset), counted(offset), 10);
    }
    assert!((0..9).all(|offset| cache.contains(&key(1, offset))));
    assert!(cache.contains(&key(2, 199)));
}

/// More than the probationary queue may fill, and none of them used since.
#[test]
fn blocks_that_come_for_others_in_use_stay_beside_those() {
    let cache = one_shard(100);
    for offset in 0..5 {
        put(&cache, offset);
        (0..3).for_each(|_| drop(cache.get(&key(1, offset))));
    }
    for offset in 0..5 {
        cache.insert_evicting(key(2, offset), counted(offset), 10, Standing::Proven, &mut Vec::new()).unwrap();
    }
    for offset in 100..103 {
        put(&cache, offset);
    }
    assert!((0..5).all(|offset| cache.contains(&key(1, offset))), "used");
    assert!((2..5).all(|offset| cache.contains(&key(2, offset))), "not passed over for what is new");
    let before = cache.stats();
    assert!(cache.peek(&key(2, 4)).is_some_and(|value| **value == 4));
    assert!(cache.peek(&key(2, 99)).is_none());
    assert_eq!(cache.stats(), before, "nobody asked");
}

#[test]
fn pinned_entries_stay_and_are_reported() {
    let cache = one_shard(100);
    let pinned: Vec<_> = (0..3).map(|offset| cache.insert(key(1, offset), counted(offset), 10)).collect();
    for offset in 10..200 {
        put(&cache, offset);
    }
    assert!((0..3).all(|offset| cache.contains(&key(1, offset))));
    assert_eq!(cache.pinned_usage(), 30);
    assert!(cache.usage() <= 100);
    drop(pinned);
    assert_eq!(cache.pinned_usage(), 0);
    for offset in 200..400 {
        put(&cache, offset);
    }
    assert!((0..3).all(|offset| !cache.contains(&key(1, offset))));
}

#[test]
fn a_strict_capacity_refuses_and_a_lax_one_exceeds() {
    for strict in [true, false] {
        let cache = one_shard(100).strict_capacity(strict);
        let mut pinned: Vec<_> = (0..10).map(|offset| cache.insert(key(1, offset), counted(offset), 10)).collect();
        pinned.push(cache.insert(key(1, 10), counted(10), 10));
        assert_eq!(**pinned[10], 10, "returned in any case");
        assert_eq!(cache.contains(&key(1, 10)), !strict);
        assert_eq!(cache.usage(), if strict { 100 } else { 110 });
        assert_eq!(cache.stats().rejections, u64::from(strict));
        pinned.pop();
        drop(pinned.remove(4));
        put(&cache, 11);
        assert!(cache.contains(&key(1, 11)));
        assert!(!cache.contains(&key(1, 4)), "the unpinned one made room");
        assert!(cache.usage() <= 100);
    }
}

#[test]
fn the_resident_value_wins_and_oversize_is_refused() {
    let cache = one_shard(100);
    let first = cache.insert(key(1, 1), counted(1), 10);
    let second = cache.insert(key(1, 1), counted(2), 10);
    assert!(Arc::ptr_eq(&first, &second));
    assert_eq!(**cache.insert(key(1, 2), counted(2), 101), 2);
    assert!(!cache.contains(&key(1, 2)));
    assert_eq!(cache.stats().rejections, 1);
    let none = Cache::<Counted<u64>>::new(0);
    none.insert(key(1, 1), counted(1), 1);
    assert!(none.get(&key(1, 1)).is_none());
    assert_eq!(none.stats(), CacheStats { misses: 1, rejections: 1, ..CacheStats::default() });
}

#[test]
fn erased_files_are_gone_and_others_are_not() {
    let cache = Cache::<Counted<u64>>::with_shard_bits(1 << 20, 3);
    let files: Vec<_> = (0..4).map(|_| cache.new_file_id()).collect();
    for &file in &files {
        for offset in 0..100 {
            cache.insert(key(file, offset * 4096), counted(offset), 100);
        }
    }
    cache.erase_file(files[1]);
    cache.erase_files(&[files[3], 999]);
    for (index, &file) in files.iter().enumerate() {
        for offset in 0..100 {
            assert_eq!(cache.contains(&key(file, offset * 4096)), index % 2 == 0);
        }
    }
    assert_eq!((cache.usage(), cache.entries()), (20_000, 200));
}

#[test]
fn a_smaller_capacity_evicts_at_once() {
    let cache = one_shard(1000);
    for offset in 0..100 {
        put(&cache, offset);
    }
    cache.set_capacity(300);
    assert_eq!((cache.capacity(), cache.usage()), (300, 300));
    cache.set_capacity(0);
    assert_eq!((cache.usage(), cache.entries()), (0, 0));
}

#[test]
fn structures_that_count_take_room_from_what_is_cached() {
    const CAPACITY: usize = 256 << 10;
    // The larger ones are as blocks are; of the smaller ones places take more than the entries.
    for (charge, structures_part) in [(1_000, 0.05..0.2), (10, 0.5..1.0)] {
        let cache = one_shard(CAPACITY).counting_structures();
        assert_eq!(cache.usage(), 0, "nothing is there");
        let mut most = 0;
        for offset in 0..20_000 {
            cache.insert(key(1, offset), counted(offset), charge);
            assert!(cache.usage() <= CAPACITY, "{} bytes with {} entries", cache.usage(), cache.entries());
            most = most.max(cache.entries());
        }
        let structures = cache.usage() - charge * cache.entries();
        let part = structures as f64 / cache.usage() as f64;
        assert!(structures_part.contains(&part), "{structures} bytes of structures for {} entries", cache.entries());
        assert!(charge < 1_000 || most * charge > CAPACITY * 4 / 5, "{most} entries at most");
        let before = cache.usage();
        cache.set_capacity(CAPACITY / 16);
        assert!(cache.usage() < before / 4, "structures shrink: {} of {before}", cache.usage());
        cache.set_capacity(CAPACITY);
        cache.insert(key(1, 1), counted(1), charge);
        assert!(cache.contains(&key(1, 1)));
    }
}

#[test]
fn small_caches_have_few_shards() {
    for (capacity, shards) in [(0, 1), (512 << 10, 1), (1 << 20, 2), (3 << 20, 4), (32 << 20, 64), (1 << 40, 64)] {
        assert_eq!(Cache::<Counted<u8>>::new(capacity).shards.len(), shards, "{capacity}");
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "plain threads exercise the locks")]
fn threads_see_only_what_was_put_in() {
    let cache = Arc::new(Cache::<Counted<(u64, u64)>>::with_shard_bits(20_000, 2));
    let threads: Vec<_> = (0..4_u64)
        .map(|seed| {
            let cache = cache.clone();
            std::thread::spawn(move || {
                let mut state = seed + 1;
                for _ in 0..20_000 {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    let key = key(1 + (state >> 60) % 3, (state >> 33) % 400);
                    match (state >> 50) % 100 {
                        0 => cache.erase_file(key.file),
                        1 => cache.set_capacity(10_000 + (state >> 40) as usize % 10_000),
                        _ => match cache.get(&key) {
                            Some(value) => assert_eq!(**value, (key.file, key.offset)),
                            None => {
                                let value = counted((key.file, key.offset));
                                assert_eq!(**cache.insert(key, value, 50), (key.file, key.offset));
                            }
                        },
                    }
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(cache.usage(), cache.entries() * 50);
    assert!(cache.usage() <= cache.capacity());
    assert_eq!(cache.pinned_usage(), 0);
}

#[derive(Debug, Clone)]
enum Operation {
    Get(u64, u64),
    Insert { file: u64, offset: u64, charge: usize, how: u8, pin: bool },
    Unpin(usize),
    Remove(u64, u64),
    Erase(u64),
    SetCapacity(usize),
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        4 => (0u64..3, 0u64..30).prop_map(|(file, offset)| Operation::Get(file, offset)),
        6 => (0u64..3, 0u64..30, 0usize..60, 0u8..4, prop::bool::weighted(0.2))
            .prop_map(|(file, offset, charge, how, pin)| Operation::Insert { file, offset, charge, how, pin }),
        2 => any::<usize>().prop_map(Operation::Unpin),
        2 => (0u64..3, 0u64..30).prop_map(|(file, offset)| Operation::Remove(file, offset)),
        1 => (0u64..3).prop_map(Operation::Erase),
        1 => (0usize..600).prop_map(Operation::SetCapacity),
    ]
}

proptest! {
    /// The model knows what was put in and with what charge; the cache may forget any of it that nobody holds.
    #[test]
    fn agrees_with_a_map_that_forgets(strict: bool, operations in prop::collection::vec(operation(), 1..200)) {
        let cache = one_shard(300).strict_capacity(strict);
        let mut model: HashMap<CacheKey, (u64, usize)> = HashMap::new();
        let mut pins: Vec<(CacheKey, Arc<Counted<u64>>)> = Vec::new();
        let mut capacity = 300;
        for (serial, operation) in operations.into_iter().enumerate() {
            let serial = serial as u64;
            let mut made_room = false;
            match operation {
                Operation::Get(file, offset) => {
                    let key = key(file, offset);
                    if let Some(value) = cache.get(&key) {
                        prop_assert_eq!(Some(**value), model.get(&key).map(|known| known.0));
                    }
                }
                Operation::Insert { file, offset, charge, how, pin } => {
                    let key = key(file, offset);
                    let resident = cache.contains(&key);
                    let value = counted(serial);
                    let returned = match how {
                        0 => cache.insert_low_priority(key, value, charge),
                        1 => {
                            let inserted = cache.insert_evicting(key, value, charge, Standing::Proven, &mut Vec::new());
                            inserted.unwrap_or_else(|refused| refused)
                        }
                        _ => cache.insert(key, value, charge),
                    };
                    if resident {
                        prop_assert_eq!(**returned, model[&key].0);
                    } else {
                        prop_assert_eq!(**returned, serial);
                        model.insert(key, (serial, charge));
                        made_room = cache.contains(&key);
                    }
                    if pin && cache.contains(&key) {
                        pins.push((key, returned));
                    }
                }
                Operation::Unpin(at) => {
                    if !pins.is_empty() {
                        pins.swap_remove(at % pins.len());
                    }
                }
                Operation::Remove(file, offset) => {
                    let key = key(file, offset);
                    let known = model.remove(&key).filter(|_| cache.contains(&key)).map(|known| known.0);
                    prop_assert_eq!(cache.remove(&key).map(|value| **value), known);
                    pins.retain(|(pinned, _)| *pinned != key);
                }
                Operation::Erase(file) => {
                    cache.erase_file(file);
                    model.retain(|key, _| key.file != file);
                    pins.retain(|(key, _)| key.file != file);
                }
                Operation::SetCapacity(bytes) => {
                    capacity = bytes;
                    cache.set_capacity(bytes);
                    made_room = true;
                }
            }
            for (key, value) in &pins {
                let known = model.get(key).map(|known| known.0);
                prop_assert!(cache.contains(key), "pinned");
                prop_assert_eq!(known, Some(***value));
            }
            model.retain(|key, _| cache.contains(key));
            let usage: usize = model.values().map(|known| known.1).sum();
            prop_assert_eq!((cache.usage(), cache.entries()), (usage, model.len()));
            // Room is made by insertions, which pass over a few pinned entries only, and by a change of the capacity.
            if made_room && pins.len() < 30 {
                let newest = model.values().max_by_key(|known| known.0).map_or(0, |known| known.1);
                let bound = capacity.max(cache.pinned_usage() + newest);
                prop_assert!(usage <= bound, "{} charged, bound {}", usage, bound);
            }
        }
    }
}

#[test]
fn a_use_without_a_lookup_keeps_an_entry() {
    let cache = one_shard(1000);
    for offset in 0..50 {
        put(&cache, offset);
    }
    let kept = cache.get(&key(1, 7)).map(|value| Arc::downgrade(&value)).unwrap();
    for _ in 0..2 {
        kept.upgrade().unwrap().uses().add();
    }
    cache.add_hits(1, 2);
    for offset in 1000..5000 {
        put(&cache, offset);
    }
    assert!(cache.contains(&key(1, 7)));
    assert!(!cache.contains(&key(1, 8)));
    assert_eq!(cache.stats().hits, 3);
}

#[test]
fn places_of_removed_entries_do_not_pile_up() {
    let cache = one_shard(1000);
    for round in 0..10_000 {
        put(&cache, round);
        put(&cache, 7);
        assert!(cache.remove(&key(1, round)).is_some_and(|value| **value == round));
    }
    let places = cache.shards[0].places();
    assert!(places < 30, "{places} places for one entry");
    assert_eq!((cache.entries(), cache.usage()), (1, 10));
}
