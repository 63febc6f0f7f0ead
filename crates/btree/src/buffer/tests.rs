//! Decisions of the page cleaner, the order of use, and frames.

use super::cleaner::{FlushInputs, flush_goal, sync_flush_limit};
use super::flush_buffer::{FlushBuffers, Taken};
use super::frame::Memory;
use super::lru::Lru;
use super::pool::Pool;
use crate::meanwhile::{Gap, has_happened, once_at};
use crate::page::{PageId, PageRead};
use crate::redo::GroupEnd;
use crate::{Db, DbOptions, Durability, TreeHandle};
use siltstone_base::Error;
use siltstone_base::clock::ManualClock;
use siltstone_base::executor::{Executor, StepExecutor};
use siltstone_base::script::{Command, run_file};
use siltstone_base::sync::{Arc, atomic};
use std::cmp::Ordering;
use std::sync::mpsc;
use std::time::Duration;

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

/// A tree of 512-byte pages, of which so many are in the pool. It lives to the end: what happens in between may keep its pages.
fn pool_of(frames: usize, rows: u32) -> (&'static Pool, u32) {
    pool_with_old(frames, rows, 37)
}

fn pool_with_old(frames: usize, rows: u32, old_percent: usize) -> (&'static Pool, u32) {
    pool_with(frames, rows, old_percent, None)
}

/// The same, with nothing that happens in the background.
fn quiet_pool_of(frames: usize, rows: u32) -> (&'static Pool, u32) {
    pool_with(frames, rows, 37, Some(Arc::new(StepExecutor::new(Arc::new(ManualClock::new(1_700_000_000))))))
}

fn pool_with(
    frames: usize,
    rows: u32,
    old_percent: usize,
    executor: Option<Arc<dyn Executor>>,
) -> (&'static Pool, u32) {
    let dir = tempfile::tempdir().unwrap();
    let options = DbOptions::default()
        .create_if_missing(true)
        .page_size(512)
        .buffer_pool_bytes(frames * 512)
        .old_blocks_percent(old_percent)
        .redo_capacity_bytes(1 << 20)
        .executor(executor)
        .durability(Durability::Os);
    let db: &'static Db = Box::leak(Box::new(Db::open(dir.path(), &options).unwrap()));
    for number in 0..rows {
        db.put(number.to_be_bytes(), [3; 90]).unwrap();
    }
    db.flush().unwrap();
    let tree: &'static TreeHandle = Box::leak(Box::new(db.default_tree()));
    let tree = db.tree_for_test(tree);
    (tree.pool(), tree.space())
}

#[test]
fn a_new_page_is_not_read_when_somebody_read_ahead_in_vain() {
    let (pool, space) = pool_of(64, 10);
    let id = PageId::new(space, 5_000);
    let ahead = pool.claim_spare(id, false).unwrap();
    once_at(Gap::NewPage, move || {
        pool.give_up(&ahead);
        drop(ahead);
    });
    let page = pool.create(id).unwrap();
    assert!(has_happened(Gap::NewPage));
    assert_eq!(page.id(), id);
    pool.give_up(&page);
}

/// Who holds that one may wait for a page that the reader holds: both would wait for ever.
#[test]
fn a_reader_does_not_wait_for_another_page_that_was_given_the_frame_of_its_own() {
    let (pool, space) = pool_of(64, 10);
    let [held, read, new] = [2, 3, 5_000].map(|number| PageId::new(space, number));
    drop(pool.shared(read).unwrap());
    let before = pool.frame_of(read).unwrap();
    let ((begin, begins), (named, is_named)) = (mpsc::channel(), mpsc::channel());
    std::thread::scope(|scope| {
        scope.spawn(move || {
            begins.recv().unwrap();
            let page = pool.create(new).unwrap();
            named.send(()).unwrap();
            drop(pool.exclusive(held).unwrap());
            pool.give_up(&page);
        });
        let leaf = pool.shared(held).unwrap();
        once_at(Gap::Found, move || {
            assert!(pool.free(before));
            begin.send(()).unwrap();
            is_named.recv().unwrap();
            assert_eq!(pool.frame_of(new), Some(before));
        });
        let page = pool.shared(read).unwrap();
        assert!(has_happened(Gap::Found));
        assert_ne!(pool.frame_of(read), Some(before));
        drop((page, leaf));
    });
}

#[test]
fn no_page_goes_for_one_that_was_never_written() {
    let (pool, space) = pool_of(64, 1_000);
    let end = pool.spaces.stored_pages(space);
    assert!(end > 200, "{end}");
    let before = pool.state().evictions;
    assert_eq!(pool.read_run(PageId::new(space, end), 16, false), 0);
    assert_eq!(pool.state().evictions, before);
    pool.read_run(PageId::new(space, end - 4), 16, false);
    assert!(pool.state().evictions <= before + 4);
}

#[test]
fn pages_of_one_descent_are_all_there_where_few_are_old_and_of_those_most_must_stay() {
    let (pool, space) = pool_with_old(80, 2_000, 5);
    // Four of eighty are old; three quarters of these are the tail.
    let page = |number: u32| PageId::new(space, number);
    let is_here = |number: &u32| pool.frame_of(page(*number)).is_some();
    let mut others = (100..).filter(|number| !is_here(number));
    for _ in 0..100 {
        drop(pool.shared(page(others.next().unwrap())).unwrap());
    }
    let oldest = pool.oldest_for_test();
    let held: Vec<_> = oldest[..2].iter().map(|id| pool.shared(*id).unwrap()).collect();
    let descent: Vec<u32> = others.take(3).collect();
    let mut tries = 0;
    while !descent.iter().all(is_here) {
        tries += 1;
        assert!(tries <= 8, "the pages push each other out");
        for number in &descent {
            drop(pool.shared(page(*number)).unwrap());
        }
    }
    drop(held);
}

#[test]
fn pages_beyond_what_a_lookup_walks_are_found() {
    let (pool, space) = pool_of(256, 1);
    // As the page table does.
    let bucket = |number: u32| {
        let word = u64::from(space) << 32 | u64::from(number);
        (word.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as usize % 256
    };
    let same: Vec<_> =
        (1_000..).filter(|number| bucket(*number) == 7).map(|number| PageId::new(space, number)).take(80).collect();
    for id in &same {
        drop(pool.create(*id).unwrap());
    }
    let is_missed = |id: &&PageId| pool.frame_of(**id).is_none();
    assert!(same.iter().filter(is_missed).count() >= 80 - 64);
    for id in &same {
        drop(pool.shared(*id).unwrap());
        drop(pool.exclusive(*id).unwrap());
        assert_eq!(pool.create(*id).unwrap().id(), *id);
        pool.bring_in(*id).unwrap();
    }
}

#[test]
fn a_caller_waits_for_a_frame_whose_page_others_write_and_is_not_told_that_the_pool_is_too_small() {
    let (pool, space) = quiet_pool_of(64, 1_000);
    let are_flushing = |are: bool| {
        for frame in &pool.frames {
            frame.is_flushing.store(are, atomic::Ordering::Release);
        }
    };
    let buffer = pool.flushing.take();
    are_flushing(true);
    while pool.claim_spare(PageId::new(space, 9_000), true).is_some() {}
    drop(buffer);
    let (found_none, others) = mpsc::channel();
    let (begun, ready) = mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let buffer = pool.flushing.take();
            begun.send(()).unwrap();
            // Who did not wait says so below.
            let _ = others.recv_timeout(Duration::from_secs(60));
            are_flushing(false);
            drop(buffer);
        });
        ready.recv().unwrap();
        once_at(Gap::NoFrame, move || found_none.send(()).unwrap());
        let page = pool.create(PageId::new(space, 5_000)).unwrap();
        assert!(has_happened(Gap::NoFrame));
        pool.give_up(&page);
    });
}

#[test]
fn an_older_copy_is_not_put_back_over_a_page_that_another_batch_wrote() {
    let buffers = FlushBuffers::new(512, 2, None);
    let (first, other) = (PageId::new(1, 7), PageId::new(1, 8));
    let write = |number: usize, pages: &[PageId], fails: bool| {
        let mut buffer = buffers.nth_for_test(number);
        let taken = |id: &PageId| Taken { frame: 0, id: *id, oldest_lsn: 1, page_lsn: 1, group: GroupEnd::mistaken(1) };
        buffer.taken = pages.iter().map(taken).collect();
        let outcome =
            buffers.to_places(&buffer, || if fails { Err(Error::corruption("f".as_ref(), 0, "x")) } else { Ok(()) });
        assert_eq!(outcome.is_err(), fails);
    };
    let mended = |number: usize| {
        let mut seen = Vec::new();
        buffers
            .mend(number, |torn| {
                seen.extend(torn.iter().copied());
                Ok(())
            })
            .unwrap();
        seen
    };
    write(0, &[first, other], true);
    write(1, &[first], false);
    assert_eq!((mended(1), mended(0)), (vec![], vec![other]), "the first is whole in its place");
    assert_eq!(mended(0), [], "once");
    write(0, &[first], true);
    write(1, &[first], true);
    assert_eq!((mended(0), mended(1)), (vec![], vec![first]), "the newest copy is the second file's");
    write(0, &[first], true);
    assert!(buffers.mend(0, |_| Err(Error::corruption("f".as_ref(), 0, "x"))).is_err());
    assert_eq!(mended(0), [first], "it is tried again");
}
