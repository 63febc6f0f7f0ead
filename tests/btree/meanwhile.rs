//! Crashes while other threads are at work: the page cleaner, syncs and checkpoints come in between two records of a group, and beside a write of the redo log.
//!
//! Crash tests run an engine on one thread, whose jobs step when somebody waits: between groups. Here they step where threads would, too, and every state that a crash may leave
//! of that is recovered, read and checked. A mistake of each kind that this is to find is made on purpose, and found.

#![expect(clippy::unwrap_used, reason = "a test")]

use crate::support::{
    DIR, Draw, Life, Op, Runner, State, explore::Extent, explore_steps, key, meanwhile::with_meanwhile, new_disk,
    options, planted::hunt, read_all, recover, script, verify,
};
use siltstone_base::engine::Durability;
use siltstone_base::env::sim::{CrashConfig, CrashStates, SimDisk};
use siltstone_base::env::{FileKind, FileOptions, IoContext, IoPriority};
use siltstone_base::plant::{PlantedBug, with_planted};
use siltstone_btree::testing::{Moment, Step};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::path::Path;
use std::rc::Rc;

type Outcome<T = ()> = Result<T, String>;

/// Something of all kinds, now and then.
fn at_random(seed: u64) -> impl FnMut(Moment) -> Option<Step> {
    let mut draw = Draw(seed);
    move |moment| match (moment, draw.below(12)) {
        (_, 0 | 1) => Some(Step::Sync),
        (Moment::Record, 2) => Some(Step::Flush),
        (Moment::Record, 3) => Some(Step::Checkpoint),
        _ => None,
    }
}

fn extent(seed: u64, second_every: usize) -> Extent {
    let first =
        CrashConfig { seed, states_per_cut: 5, random_subsets: 3, tail_cuts: 3, tears: 3, ..CrashConfig::default() };
    let second = CrashConfig { states_per_cut: 4, random_subsets: 2, tail_cuts: 2, tears: 3, ..CrashConfig::default() };
    Extent { first, second_every, second }
}

fn durability(seed: u64) -> Durability {
    if seed.is_multiple_of(2) { Durability::Os } else { Durability::Commit }
}

fn explore_beside(seed: u64, len: usize, every: usize) -> Outcome<usize> {
    let ops = script(seed, len, 200, true);
    let explore = || explore_steps(&ops, &options(durability(seed)), &extent(seed, every));
    let tally = with_meanwhile(at_random(seed), explore).map_err(|message| format!("script {seed}: {message}"))?;
    Ok(tally.images.len())
}

#[test]
fn crashes_beside_other_threads_leave_a_prefix_of_the_commits_and_whole_trees() {
    let images: usize = std::thread::scope(|scope| {
        let explore =
            |seed| scope.spawn(move || explore_beside(seed, 110, 50).unwrap_or_else(|message| panic!("{message}")));
        let threads = [41, 42, 43, 44].map(explore);
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    println!("distinct crash states {images}");
    assert!(images >= 3_000, "{images}");
}

/// What happens at the next moments of each kind.
#[derive(Debug, Default)]
struct Plan {
    records: VecDeque<Option<Step>>,
    writes: VecDeque<Option<Step>>,
}

const NOTHING: Option<Step> = None;
const SYNC: Option<Step> = Some(Step::Sync);
const FLUSH: Option<Step> = Some(Step::Flush);
const CHECKPOINT: Option<Step> = Some(Step::Checkpoint);

fn put(tree: u8, number: u64) -> Op {
    Op::Put(tree, key(number), vec![number as u8; 20])
}

fn batch(rows: &[(u8, u64)]) -> Op {
    Op::Batch(rows.iter().map(|(tree, number)| (*tree, key(*number), Some(vec![7; 20]))).collect())
}

/// An operation, and what other threads do at its records and at its writes of the log.
type Act<'a> = (Op, &'a [Option<Step>], &'a [Option<Step>]);

/// Does each operation, and looks at every crash on the way.
fn crash_everywhere(durability: Durability, acts: &[Act<'_>]) -> Outcome<usize> {
    let plan = Rc::new(RefCell::new(Plan::default()));
    let shared = Rc::clone(&plan);
    let choose = move |moment| {
        let mut plan = shared.borrow_mut();
        let queue = if moment == Moment::Record { &mut plan.records } else { &mut plan.writes };
        queue.pop_front().flatten()
    };
    let options = options(durability);
    with_meanwhile(choose, || {
        let disk = new_disk();
        let life = Life::new(&disk, &options);
        disk.start_recording();
        let mut runner = Runner::new(life).map_err(|error| error.to_string())?;
        for (op, records, writes) in acts {
            let (records, writes) = (records.iter().copied().collect(), writes.iter().copied().collect());
            *plan.borrow_mut() = Plan { records, writes };
            runner.step(op).map_err(|error| format!("{op:?} failed: {error}"))?;
            let left = plan.take();
            assert!(left.records.is_empty() && left.writes.is_empty(), "{op:?} had no moment for {left:?}");
        }
        let recording = disk.take_recording();
        disk.power_off();
        runner.db = None;
        runner.life.executor.abandon_all();
        let config = CrashConfig { seed: 1, states_per_cut: 24, random_subsets: 12, ..CrashConfig::default() };
        let mut count = 0;
        for state in CrashStates::new(&recording, config) {
            let Some(disk) = state.disk() else { continue };
            let at = |message: String| format!("cut {} ({:?}), {:?}: {message}", state.cut, state.op, state.model);
            let found = recover(&disk, &options).map_err(at)?;
            verify(&runner.history, &found, state.cut, state.model, durability).map_err(at)?;
            count += 1;
        }
        Ok(count)
    })
}

/// A page of a batch is written when the log is durable up to the record that changed it, and the rest of the batch is not.
fn half_a_batch() -> Outcome<usize> {
    let acts: [Act<'_>; 7] = [
        (Op::CreateTree, &[], &[]),
        (put(0, 10), &[], &[]),
        (put(1, 11), &[], &[]),
        (Op::Flush, &[], &[]),
        (batch(&[(0, 1), (1, 2)]), &[NOTHING, SYNC, NOTHING], &[]),
        (put(1, 12), &[FLUSH], &[]),
        (put(0, 13), &[CHECKPOINT], &[]),
    ];
    crash_everywhere(Durability::Os, &acts)
}

#[test]
fn a_crash_never_leaves_half_a_batch_or_a_page_that_is_refused() {
    assert!(half_a_batch().unwrap() > 50);
    let found = with_planted(PlantedBug::RecordTakenForGroup, half_a_batch);
    println!("{}", found.unwrap_err());
}

/// A checkpoint is noted while the log is durable up to the middle of a batch, which never ends.
fn checkpoint_within_a_batch() -> Outcome<usize> {
    let rows = [(0, 1), (0, 2), (0, 3), (0, 4), (0, 5)];
    let acts: [Act<'_>; 5] = [
        (Op::CreateTree, &[], &[]),
        (put(0, 10), &[], &[]),
        (Op::Flush, &[], &[]),
        (put(1, 11), &[], &[]),
        (batch(&rows), &[NOTHING, SYNC, FLUSH, CHECKPOINT, SYNC, NOTHING], &[]),
    ];
    let counts = [Durability::Os, Durability::Commit].map(|durability| crash_everywhere(durability, &acts));
    counts.into_iter().sum()
}

#[test]
fn a_crash_in_the_middle_of_a_batch_leaves_a_database_that_opens() {
    assert!(checkpoint_within_a_batch().unwrap() > 50);
    let found = with_planted(PlantedBug::RecordTakenForGroup, checkpoint_within_a_batch).unwrap_err();
    assert!(found.contains("the redo log ends before what is known to have been durable"), "{found}");
}

/// A sync begins when a write of the log has begun, and is over before it.
fn sync_beside_a_write() -> Outcome<usize> {
    let acts: [Act<'_>; 4] =
        [(put(0, 1), &[], &[]), (put(0, 2), &[], &[SYNC]), (Op::Sync, &[], &[]), (put(0, 3), &[], &[])];
    crash_everywhere(Durability::Os, &acts)
}

#[test]
fn what_was_synced_beside_a_write_of_the_log_is_there_after_a_crash() {
    assert!(sync_beside_a_write().unwrap() > 20);
    let found = with_planted(PlantedBug::WriteNotedTooEarly, sync_beside_a_write).unwrap_err();
    assert!(found.contains("were promised"), "{found}");
}

/// Where recovery would begin, as the newest checkpoint says.
fn begin_of_log(disk: &SimDisk) -> u64 {
    let file = disk.env().open_random(&Path::new(DIR).join("redo-0.log"), &FileOptions::new(FileKind::Redo)).unwrap();
    let newest = [4096, 8192].map(|at| {
        let mut bytes = [0; 16];
        file.read_at(at, &mut bytes, IoContext::new(FileKind::Redo, IoPriority::User)).unwrap();
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
        (word(0) as u32, word(8))
    });
    newest.into_iter().max().unwrap().1
}

/// Takes back what the log has from a position on for so many bytes.
fn lose(disk: &SimDisk, lsn: u64, len: usize) {
    let ring = 24 << 10;
    let (file, offset) = (lsn % (2 * ring) / ring, lsn % ring);
    let path = Path::new(DIR).join(format!("redo-{file}.log"));
    let file = disk.env().open_random_write(&path, &FileOptions::new(FileKind::Redo)).unwrap();
    let context = IoContext::new(FileKind::Redo, IoPriority::User);
    file.write_at((12 << 10) + offset, &vec![0; len], context).unwrap();
    file.sync_data(context).unwrap();
}

/// Of three rows that were not synced a power loss leaves the last two in the log. The next life writes a row as long as the first.
fn rows_of_a_life_before(is_closed: bool) -> Outcome {
    let options = options(Durability::Os);
    let said = |error: siltstone_btree::Error| error.to_string();
    let disk = new_disk();
    let life = Life::new(&disk, &options);
    let db = life.open().map_err(said)?;
    db.put(key(1), "granite").map_err(said)?;
    db.flush().map_err(said)?;
    for number in [2, 3, 4] {
        db.put(key(number), "marble").map_err(said)?;
    }
    let left = disk.after_process_death();
    disk.power_off();
    life.executor.abandon_all();
    lose(&left, begin_of_log(&left), 8);

    let life = Life::new(&left, &options);
    let db = life.open().map_err(said)?;
    let mut rows = std::collections::BTreeMap::from([(key(1), b"granite".to_vec())]);
    let wanted = |rows: &std::collections::BTreeMap<_, _>| State::from([("default".to_owned(), rows.clone())]);
    assert_eq!(read_all(&db).map_err(said)?, wanted(&rows));
    db.put(key(2), "gneiss").map_err(said)?;
    rows.insert(key(2), b"gneiss".to_vec());
    if is_closed {
        db.close().map_err(said)?;
    } else {
        db.flush().map_err(said)?;
    }
    let disk = left.after_process_death();
    left.power_off();
    drop(db);
    life.executor.abandon_all();
    let found = recover(&disk, &options)?;
    if found == wanted(&rows) { Ok(()) } else { Err(format!("{} rows", found["default"].len())) }
}

#[test]
fn rows_that_a_life_before_lost_do_not_come_back_behind_those_of_the_next() {
    rows_of_a_life_before(true).unwrap();
    rows_of_a_life_before(false).unwrap();
    let found = with_planted(PlantedBug::OlderLifeIsRead, || rows_of_a_life_before(false));
    println!("{}", found.unwrap_err());
}

fn find(bug: PlantedBug) -> Option<String> {
    hunt(bug, 51..=58, |seed| explore_beside(seed, 160, 200))
}

crate::planted! {
    find:
    a_record_that_is_taken_for_its_group: RecordTakenForGroup;
    a_write_that_is_noted_too_early: WriteNotedTooEarly;
}
