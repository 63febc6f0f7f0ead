//! Classes, reuse, bounds and alignment.

use super::*;
use proptest::prelude::*;

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
    let pool = BlockPool::new(1 << 20);
    let mut first = pool.alloc(4000);
    first.fill(7);
    let address = first.as_ptr();
    assert_eq!(pool.in_use(), first.capacity_charged());
    drop(first);
    assert_eq!((pool.in_use(), pool.retained()), (0, 4096));
    let second = pool.alloc(4090);
    assert_eq!(second.as_ptr(), address);
    assert!(second[..4000].iter().all(|byte| *byte == 7), "not zeroed");
    assert_eq!(pool.retained(), 0);
    let third = pool.alloc(4090);
    assert_ne!(third.as_ptr(), address);
}

#[test]
fn no_more_is_retained_than_allowed() {
    let pool = BlockPool::new(10_000);
    let buffers: Vec<_> = (0..4).map(|_| pool.alloc(4096)).collect();
    assert_eq!(pool.in_use(), 4 * 4096);
    drop(buffers);
    assert_eq!((pool.in_use(), pool.retained()), (0, 2 * 4096));
    pool.release_free();
    assert_eq!(pool.retained(), 0);
    let huge = pool.try_alloc((16 << 20) + 1).unwrap();
    assert_eq!(huge.capacity_charged(), (16 << 20) + 1);
    drop(huge);
    assert_eq!((pool.in_use(), pool.retained()), (0, 0));
}

#[test]
fn an_allocation_that_cannot_be_made_is_an_error() {
    let pool = BlockPool::new(0);
    let error = pool.try_alloc(isize::MAX as usize).unwrap_err();
    assert_eq!(pool.in_use(), 0);
    assert_eq!(error.kind(), ErrorKind::OutOfMemory);
}

#[test]
fn windows_shrink_and_never_grow() {
    let mut buffer = PooledBuf::unpooled(b"0123456789".to_vec());
    buffer.truncate(8);
    buffer.truncate(9);
    buffer.advance(2);
    assert_eq!(&buffer[..], b"234567");
    buffer[0] = b'x';
    assert_eq!(buffer.as_ref(), b"x34567");
    buffer.advance(100);
    assert!(buffer.is_empty());
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
}

proptest! {
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
