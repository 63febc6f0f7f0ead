//! Classes, reuse, bounds and alignment.

use super::source::map;
use super::*;
use crate::ErrorKind;
use proptest::prelude::*;
use std::cell::Cell;

/// Memory that no pool had before.
static FRESH: Source = Source::new(map, 0);

fn pool_of_fresh_memory(retain_limit: usize) -> BlockPool {
    BlockPool::with_source(retain_limit, Some(&FRESH))
}

#[test]
fn classes_ascend_and_each_serves_its_own_size() {
    let mut before = 0;
    for class in 0..CLASSES {
        let size = size_of_class(class, 0);
        assert!(size > before, "class {class}");
        assert_eq!(class_of(size), class);
        assert_eq!(class_of(before + 1), class, "just above the class below");
        before = size;
    }
    assert_eq!(class_of(before + 1), CLASSES, "beyond the last class");
    assert_eq!(class_of(usize::MAX), CLASSES);
    assert_eq!(size_of_class(class_of(before + 1), before + 1), before + 1);
}

#[test]
fn a_dropped_buffer_is_used_again_as_it_was() {
    let pool = pool_of_fresh_memory(1 << 20);
    let (other, mut first) = (pool.alloc(4000), pool.alloc(4000));
    first.fill(7);
    let address = first.as_ptr();
    assert_eq!(pool.in_use(), 2 * 4096);
    drop(first);
    assert_eq!((pool.in_use(), pool.retained()), (4096, 4096));
    let second = pool.alloc(4090);
    assert_eq!(second.as_ptr(), address);
    assert!(second[..4000].iter().all(|byte| *byte == 7), "not zeroed");
    assert_eq!(pool.retained(), 0);
    let third = pool.alloc(4090);
    assert!(third.as_ptr() != address && third.as_ptr() != other.as_ptr());
}

/// 16 buffers of 4 KiB are a slab.
#[test]
fn of_empty_slabs_no_more_is_retained_than_allowed() {
    let pool = pool_of_fresh_memory(100_000);
    let buffers: Vec<_> = (0..48).map(|_| pool.alloc(4096)).collect();
    assert_eq!((pool.in_use(), pool.retained()), (48 * 4096, 0));
    drop(buffers);
    assert_eq!((pool.in_use(), pool.retained()), (0, 65_536), "one of three");
    let again = pool.alloc(4096);
    assert_eq!((pool.in_use(), pool.retained()), (4096, 15 * 4096));
    drop(again);
    pool.release_free();
    assert_eq!(pool.retained(), 0);
    let huge = pool.try_alloc((16 << 20) + 1).unwrap();
    assert_eq!(huge.capacity_charged(), (16 << 20) + 1);
    drop(huge);
    assert_eq!((pool.in_use(), pool.retained()), (0, 0));
}

/// Otherwise a cache that is full, whose blocks come and go, would give slabs back only to map them again.
#[test]
fn slots_near_others_that_are_taken_do_not_count_against_what_is_retained() {
    let pool = pool_of_fresh_memory(70_000);
    let mut buffers: Vec<_> = (0..64).map(|_| pool.alloc(4096)).collect();
    let mut number = 0;
    buffers.retain(|_| {
        number += 1;
        number % 16 == 1
    });
    assert_eq!((pool.in_use(), pool.retained()), (4 * 4096, 60 * 4096));
    let more: Vec<_> = (0..60).map(|_| pool.alloc(4096)).collect();
    assert_eq!((pool.in_use(), pool.retained()), (64 * 4096, 0), "every hole is filled");
    drop((buffers, more));
    assert_eq!(pool.retained(), 65_536);
}

#[test]
fn the_last_slabs_become_empty_first() {
    let pool = pool_of_fresh_memory(1);
    let mut buffers: Vec<_> = (0..64).map(|_| pool.alloc(4096)).collect();
    // Of each slab the second half; then as many again.
    let mut number = 0;
    buffers.retain(|_| {
        number += 1;
        (number - 1) % 16 < 8
    });
    assert_eq!(pool.retained(), 32 * 4096);
    let more: Vec<_> = (0..16).map(|_| pool.alloc(4096)).collect();
    assert_eq!(pool.retained(), 16 * 4096, "the first two slabs are full again");
    drop(buffers.split_off(16));
    assert_eq!((pool.in_use(), pool.retained()), (32 * 4096, 0), "the other two are gone");
    drop(more);
}

/// What a cache that holds blocks of other sizes by and by would otherwise keep.
#[test]
fn a_class_that_shrinks_gives_the_memory_between_its_buffers_back() {
    for (len, kept) in [(4096, 64), (5000, 32), (16 << 10, 16), (100, 500), (3 << 20, 2)] {
        let pool = pool_of_fresh_memory(1 << 20);
        let mut buffers: Vec<_> = (0..(24 << 20) / len).map(|_| pool.alloc(len)).collect();
        buffers.iter_mut().enumerate().for_each(|(number, buffer)| buffer.fill(number as u8));
        let (mut number, most) = (0, pool.in_use());
        buffers.retain(|_| {
            number += 1;
            (number - 1) % kept == 0
        });
        // What is left of the last trims was given back since; so is a part of each page with a small buffer on it.
        let pages: usize = buffers.iter().map(|buffer| buffer.capacity_charged() + 8192).sum();
        let bound = pages + pages / 4 + most / 16 + (1 << 20) + (256 << 10);
        let held = pool.in_use() + pool.retained();
        assert!(held <= bound, "{len}: {held} bytes are held, {bound} may be");
        let is_whole = |(number, buffer): (usize, &PooledBuf)| buffer.iter().all(|byte| *byte == (number * kept) as u8);
        assert!(buffers.iter().enumerate().all(is_whole), "{len}");
        pool.release_free();
        assert!(pool.in_use() + pool.retained() <= pages, "{len}");
        assert!(buffers.iter().enumerate().all(is_whole), "{len}");
        let mut more: Vec<_> = (0..(24 << 20) / len).map(|_| pool.alloc(len)).collect();
        more.iter_mut().for_each(|buffer| buffer.fill(0xee));
        assert!(buffers.iter().enumerate().all(is_whole), "{len}");
        drop((more, buffers));
        pool.release_free();
        assert_eq!((pool.in_use(), pool.retained()), (0, 0));
    }
}

/// Else each window that a compaction has read would cost the readers all of theirs.
#[test]
fn a_large_slab_does_not_stay_in_place_of_others() {
    let pool = pool_of_fresh_memory(1 << 20);
    let buffers: Vec<_> = (0..128).map(|_| pool.alloc(4096)).collect();
    drop(buffers);
    assert_eq!(pool.retained(), 512 << 10);
    drop(pool.alloc(2 << 20));
    drop(pool.alloc(600 << 10));
    assert_eq!(pool.retained(), 512 << 10);
    drop(pool.alloc(256 << 10));
    assert_eq!(pool.retained(), 768 << 10);
}

thread_local! {
    static MAPPED: Cell<usize> = const { Cell::new(0) };
}

fn count_maps(len: usize) -> Option<memmap2::MmapRaw> {
    MAPPED.set(MAPPED.get() + 1);
    map(len)
}

/// Else each read of a block that leaves no other one of its class behind would map memory and give it back: calls that stop all threads of the process.
#[test]
fn a_class_that_is_empty_again_and_again_keeps_a_slab_though_others_retain_all_that_may_be() {
    static COUNTED: Source = Source::new(count_maps, 0);
    let pool = BlockPool::with_source(256 << 10, Some(&COUNTED));
    let buffers: Vec<_> = (0..128).map(|_| pool.alloc(4096)).collect();
    drop(buffers);
    assert_eq!(pool.retained(), 256 << 10);
    MAPPED.take();
    for _ in 0..1_000 {
        pool.alloc(64 << 10);
        pool.alloc(3000);
    }
    assert_eq!(MAPPED.take(), 2);
    assert!(pool.retained() <= 256 << 10);
    pool.release_free();
    assert_eq!((pool.in_use(), pool.retained()), (0, 0));
}

/// Else a process that opens and closes one small database after the other would have all of its threads stop for each class of buffers, twice.
#[test]
fn the_next_pool_takes_the_memory_of_the_last_one() {
    static COUNTED: Source = Source::new(count_maps, 3);
    for round in 0..100 {
        let pool = BlockPool::with_source(1 << 20, Some(&COUNTED));
        let buffers = [300, 4096, 60_000].map(|len| {
            let mut buffer = pool.alloc(len);
            buffer.fill(round);
            buffer
        });
        assert!(buffers.iter().all(|buffer| buffer.iter().all(|byte| *byte == round)));
        assert!(pool.in_use() + pool.retained() <= 3 * (64 << 10));
        drop(buffers);
    }
    assert_eq!(MAPPED.take(), 3);
    let large: Vec<_> = {
        let pool = BlockPool::with_source(1 << 20, Some(&COUNTED));
        (0..5).map(|_| pool.alloc(64 << 10)).chain([pool.alloc(100 << 10)]).collect()
    };
    assert_eq!(MAPPED.take(), 3, "two beyond those that waited, and one that is larger");
    drop(large);
    let pool = BlockPool::with_source(1 << 20, Some(&COUNTED));
    let buffers: Vec<_> = (0..4).map(|_| pool.alloc(64 << 10)).collect();
    assert_eq!(MAPPED.take(), 1, "no more wait than may");
    drop(buffers);
}

/// What waited has its memory, which nobody uses before a buffer lies there.
#[test]
fn memory_of_an_earlier_pool_is_counted() {
    static SOURCE: Source = Source::new(map, 1);
    let fill = |pool: &BlockPool| (0..16).map(|_| pool.alloc(4096)).collect::<Vec<_>>();
    drop(fill(&BlockPool::with_source(1 << 20, Some(&SOURCE))));
    assert_eq!(SOURCE.waiting_bytes(), 16 * 4096);
    let pool = BlockPool::with_source(1 << 20, Some(&SOURCE));
    let first = pool.alloc(4096);
    assert_eq!(SOURCE.waiting_bytes(), 0);
    assert_eq!((pool.in_use(), pool.retained()), (4096, 15 * 4096));
    let rest = fill(&pool);
    assert_eq!((pool.in_use(), pool.retained()), (17 * 4096, 0));
    drop((first, rest));
    pool.release_free();
    assert_eq!((pool.in_use(), pool.retained()), (0, 0));
}

/// Memory that is there is used before memory that has to come from the operating system.
#[test]
fn slots_with_memory_are_taken_before_those_without() {
    let pool = pool_of_fresh_memory(1 << 20);
    let mut buffers: Vec<_> = (0..16).map(|_| Some(pool.alloc(4096))).collect();
    (0..8).for_each(|number| drop(buffers[number].take()));
    pool.release_free();
    assert_eq!(pool.retained(), 0);
    drop(buffers[12].take());
    assert_eq!(pool.retained(), 4096);
    let again = pool.alloc(4096);
    assert_eq!((pool.in_use(), pool.retained()), (8 * 4096, 0));
    let cold = pool.alloc(4096);
    assert!(cold[..].iter().all(|byte| *byte == 0));
    assert_eq!((pool.in_use(), pool.retained()), (9 * 4096, 0));
    drop((again, cold));
}

fn refuse(_: usize) -> Option<memmap2::MmapRaw> {
    None
}

#[test]
fn buffers_are_the_allocators_where_nothing_can_be_mapped() {
    static REFUSED: Source = Source::new(refuse, 1);
    for pool in [BlockPool::with_source(1 << 20, Some(&REFUSED)), BlockPool::new(0)] {
        let mut buffers: Vec<_> = (1..20).map(|number| pool.alloc(number * 777)).collect();
        buffers.iter_mut().enumerate().for_each(|(number, buffer)| buffer.fill(number as u8));
        assert!(buffers.iter().enumerate().all(|(number, buffer)| buffer.iter().all(|byte| *byte == number as u8)));
        assert_eq!(pool.in_use(), buffers.iter().map(PooledBuf::capacity_charged).sum::<usize>());
        assert_eq!(pool.alloc_aligned(4096, 512).as_ptr().addr() % 512, 0);
        drop(buffers);
        assert_eq!((pool.in_use(), pool.retained()), (0, 0));
    }
}

#[test]
fn an_allocation_that_cannot_be_made_is_an_error() {
    let pool = BlockPool::new(0);
    let error = pool.try_alloc(isize::MAX as usize).unwrap_err();
    assert_eq!(pool.in_use(), 0);
    assert_eq!(error.kind(), ErrorKind::OutOfMemory);
}

#[test]
fn windows_shrink_and_grow_within_their_memory() {
    let mut buffer = PooledBuf::unpooled(b"0123456789".to_vec());
    buffer.truncate(8);
    buffer.truncate(9);
    buffer.advance(2);
    assert_eq!(&buffer[..], b"234567");
    buffer[0] = b'x';
    assert_eq!(buffer.as_ref(), b"x34567");
    assert!(buffer.resize_within(8));
    assert_eq!(buffer.as_ref(), b"x3456789");
    assert!(!buffer.resize_within(9));
    assert_eq!(buffer.len(), 8);
    buffer.advance(100);
    assert!(buffer.is_empty() && buffer.resize_within(0) && !buffer.resize_within(1));
    assert_eq!(buffer.capacity_charged(), 10);
}

#[test]
#[expect(clippy::disallowed_methods, reason = "plain threads exercise the pool")]
fn threads_share_a_pool() {
    let pool = BlockPool::new(1 << 16);
    let threads: Vec<_> = (0..4)
        .map(|seed| {
            let pool = pool.clone();
            std::thread::spawn(move || {
                let mut held = Vec::new();
                for round in 0..2000_usize {
                    let len = (round * 37 + seed * 1001) % 9000;
                    let mut buffer = pool.alloc(len);
                    buffer.fill(seed as u8);
                    held.push(buffer);
                    if held.len() > 8 {
                        let old = held.swap_remove(round % 8);
                        assert!(old.iter().all(|byte| *byte == seed as u8));
                    }
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(pool.in_use(), 0);
    assert!(pool.retained() <= 1 << 16);
    pool.release_free();
    assert_eq!(pool.retained(), 0);
}

#[derive(Debug, Clone)]
enum Step {
    Alloc(usize),
    /// One of the buffers.
    Drop(usize),
    ReleaseFree,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (1usize..100_000).prop_map(Step::Alloc),
        3 => (4000usize..5000).prop_map(Step::Alloc),
        8 => any::<usize>().prop_map(Step::Drop),
        1 => Just(Step::ReleaseFree),
    ]
}

proptest! {
    /// The model is what each buffer was filled with: nobody else writes there until it is dropped.
    #[test]
    fn buffers_never_share_memory_and_every_byte_is_counted(
        steps in proptest::collection::vec(step(), 1..200), limit in 0usize..300_000, is_fresh in any::<bool>(),
    ) {
        let pool = if is_fresh { pool_of_fresh_memory(limit) } else { BlockPool::new(limit) };
        let mut held: Vec<(u8, PooledBuf)> = Vec::new();
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Step::Alloc(len) => {
                    let mut buffer = pool.alloc(len);
                    buffer.fill(number as u8);
                    held.push((number as u8, buffer));
                }
                Step::Drop(place) if !held.is_empty() => {
                    let (filling, buffer) = held.swap_remove(place % held.len());
                    prop_assert!(buffer.iter().all(|byte| *byte == filling));
                }
                Step::Drop(_) => {}
                Step::ReleaseFree => pool.release_free(),
            }
            prop_assert_eq!(pool.in_use(), held.iter().map(|(_, buffer)| buffer.capacity_charged()).sum::<usize>());
        }
        for (filling, buffer) in &held {
            prop_assert!(buffer.iter().all(|byte| byte == filling));
        }
        held.clear();
        prop_assert!(pool.retained() <= limit);
        pool.release_free();
        prop_assert_eq!((pool.in_use(), pool.retained()), (0, 0));
    }

    #[test]
    fn at_most_an_eighth_is_wasted(len in 128usize..(16 << 20)) {
        let charged = size_of_class(class_of(len), len);
        prop_assert!(charged >= len);
        prop_assert!((charged - len) * 8 <= len, "{} for {}", charged, len);
    }

    #[test]
    fn aligned_buffers_are_aligned(len in 0usize..20_000, shift in 0u32..13) {
        let pool = BlockPool::new(1 << 20);
        for _ in 0..3 {
            let mut buffer = pool.alloc_aligned(len, 1 << shift);
            prop_assert_eq!(buffer.len(), len);
            prop_assert_eq!(buffer.as_ptr().addr() & ((1 << shift) - 1), 0);
            buffer.fill(1);
        }
    }
}
