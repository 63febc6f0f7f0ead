//! Decisions of the page cleaner, the order of use, and frames.

use super::cleaner::{FlushInputs, flush_goal, sync_flush_limit};
use super::frame::Memory;
use super::lru::Lru;
use crate::page::PageRead;
use siltstone_base::script::{Command, run_file};
use std::cmp::Ordering;

const QUIET: FlushInputs = FlushInputs {
    frames: 1000,
    dirty: 100,
    age: 5,
    capacity: 100,
    is_idle: false,
    rate_pages: 0,
    written_pages: 0,
    io_capacity: 200,
    io_capacity_max: 2000,
    max_dirty_percent: 90,
    low_dirty_percent: 0,
    idle_percent: 100,
};

/// One line a case: what differs from [`QUIET`].
fn goal_of(command: &Command) -> String {
    let number = |name: &str, default: usize| command.get(name).unwrap_or(default);
    let inputs = FlushInputs {
        dirty: number("dirty", QUIET.dirty),
        age: number("age", QUIET.age as usize) as u64,
        is_idle: command.has("idle"),
        rate_pages: number("rate", QUIET.rate_pages),
        written_pages: number("written", QUIET.written_pages),
        io_capacity: number("io", QUIET.io_capacity),
        io_capacity_max: number("io_max", QUIET.io_capacity_max),
        max_dirty_percent: number("max_dirty", QUIET.max_dirty_percent),
        low_dirty_percent: number("low_dirty", QUIET.low_dirty_percent),
        idle_percent: number("idle", QUIET.idle_percent),
        ..QUIET
    };
    flush_goal(&inputs).to_string()
}

#[test]
fn the_page_cleaner_hurries_by_the_formula() {
    run_file("testdata/flush_goal.txt", goal_of);
    let goals: Vec<usize> = (10..=95).step_by(5).map(|age| flush_goal(&FlushInputs { age, ..QUIET })).collect();
    assert!(goals.windows(2).all(|pair| pair[0] <= pair[1]), "it never slows down as the log grows old: {goals:?}");
    assert_eq!(sync_flush_limit(1000, 700, 800, 0), None);
    assert_eq!(sync_flush_limit(1000, 701, 800, 0), Some(600));
    assert_eq!(sync_flush_limit(1000, 300, 800, 400), None);
    assert_eq!(sync_flush_limit(1000, 301, 800, 400), Some(700), "down to where there is room");
    assert_eq!(sync_flush_limit(1000, 1, 800, 700), Some(1000));
}

#[test]
fn scans_pass_through_the_old_part() {
    let mut lru = Lru::new(100, 40);
    let mut is_old = [false; 100];
    let mut tell = |frame: u32, old: bool| is_old[frame as usize] = old;
    for frame in 0..50 {
        lru.insert(frame, &mut tell);
    }
    assert_eq!(lru.lens(), (50, 20));
    for frame in 0..10 {
        lru.make_young(frame, &mut tell);
    }
    // A scan: each page goes out before those that were made young.
    for frame in 50..90 {
        lru.insert(frame, &mut tell);
        let oldest = lru.oldest_first().next().unwrap();
        lru.remove(oldest, &mut tell);
    }
    assert_eq!(lru.lens(), (50, 20));
    let left: Vec<u32> = lru.oldest_first().collect();
    assert!((0..10).all(|frame| left.contains(&frame)), "{left:?}");
    assert!(left.iter().take(20).all(|frame| is_old[*frame as usize]), "the last ones are the old ones");
    assert!(left.iter().skip(20).all(|frame| !is_old[*frame as usize]));
    for frame in left {
        lru.remove(frame, &mut |_, _| {});
    }
    assert_eq!(lru.lens(), (0, 0));
}

#[test]
fn words_are_written_and_compared_at_every_offset() {
    let memory = Memory::new(3, 512);
    let words = memory.words(1);
    let text: Vec<u8> = (1..=60).collect();
    for at in 0..24 {
        for len in [0, 1, 7, 8, 9, 23, 60] {
            words.write(0, &[0xee; 512]);
            words.write(at, &text[..len]);
            let bytes = words.latched_bytes();
            assert_eq!(&bytes[at..at + len], &text[..len]);
            assert!(bytes[..at].iter().chain(&bytes[at + len..]).all(|byte| *byte == 0xee), "{at} {len}");
            for other in [0, 1, 8, 12, 60] {
                let wanted = text[..len].cmp(&text[..other]);
                assert_eq!(words.compare(at, len, &text[..other]), Some(wanted), "{at} {len} {other}");
                let mut larger = text[..other].to_vec();
                larger.iter_mut().last().into_iter().for_each(|last| *last += 1);
                assert_eq!(words.compare(at, len, &larger), Some(text[..len].cmp(larger.as_slice())));
            }
        }
    }
    assert_eq!(words.compare(500, 12, &[0xee; 12]), Some(Ordering::Equal));
    assert_eq!(words.compare(500, 13, &[0xee; 13]), None);
    words.write(510, &[1, 2, 3]);
    assert_eq!(words.latched_bytes()[510..], [1, 2]);
    words.write(0, &text);
    words.copy_words(0, 16, 4);
    assert_eq!(words.latched_bytes()[16..48], text[..32]);
    words.copy_words(16, 8, 4);
    assert_eq!(words.latched_bytes()[8..40], text[..32]);
}
