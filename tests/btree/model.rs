//! The B-tree engine under random operations and random options, against a BTreeMap.
//!
//! The whole engine runs on one thread: files on the simulated disk, jobs on the step executor. Cursors are held over later writes; the database
//! is closed, killed, and loses its power. After each of these every row, both directions and every page is checked.
//!
//! Runs a fixed seed and a fresh one. `SILTSTONE_SEED=N` replays a printed seed, `SILTSTONE_CASES=N` sets how many cases each runs.

#![expect(clippy::unwrap_used, reason = "a test")]

use crate::support::{Draw, Life, State, key, new_disk, read_all, seeds};
use proptest::collection::vec;
use proptest::prelude::*;
use siltstone_base::engine::Durability;
use siltstone_base::env::sim::SimDisk;
use siltstone_base::executor::Executor;
use siltstone_btree::{
    ChangeBuffering, Cursor, Db, DbOptions, Doublewrite, ErrorKind, FlushNeighbors, KvCursor, PageCompression,
    Shutdown, TreeHandle, WriteBatch,
};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

const KEYS: u16 = 400;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

#[derive(Debug, Clone)]
enum Op {
    Put(bool, u16, u16),
    Long(bool, u16, u16),
    Run(bool, u16, u16),
    Erase(bool, u16, u16),
    Delete(bool, u16),
    Batch(Vec<(bool, u16, Option<u16>)>),
    Get(bool, u16),
    Hold(bool),
    Walk(u8, u16, Vec<bool>),
    Release(u8),
    CreateTree,
    DropTree,
    Truncate(bool),
    Load(bool, u16, u16, u16),
    Sync,
    Flush,
    Pause(u16),
    Reopen,
    Kill,
    PowerLoss,
}

fn op() -> impl Strategy<Value = Op> {
    let tree = proptest::bool::weighted(0.3);
    let key = 0..KEYS;
    prop_oneof![
        20 => (tree, key.clone(), 0..120_u16).prop_map(|(tree, key, len)| Op::Put(tree, key, len)),
        3 => (tree, key.clone(), 100..2_500_u16).prop_map(|(tree, key, len)| Op::Long(tree, key, len)),
        6 => (tree, key.clone(), 1..80_u16).prop_map(|(tree, key, count)| Op::Run(tree, key, count)),
        3 => (tree, key.clone(), 1..80_u16).prop_map(|(tree, key, count)| Op::Erase(tree, key, count)),
        6 => (tree, key.clone()).prop_map(|(tree, key)| Op::Delete(tree, key)),
        8 => vec((tree, key.clone(), proptest::option::of(0..60_u16)), 1..8).prop_map(Op::Batch),
        6 => (tree, key.clone()).prop_map(|(tree, key)| Op::Get(tree, key)),
        4 => tree.prop_map(Op::Hold),
        8 => (any::<u8>(), key.clone(), vec(proptest::bool::weighted(0.7), 0..40))
            .prop_map(|(cursor, key, steps)| Op::Walk(cursor, key, steps)),
        3 => any::<u8>().prop_map(Op::Release),
        1 => Just(Op::CreateTree),
        1 => Just(Op::DropTree),
        1 => tree.prop_map(Op::Truncate),
        2 => (tree, key.clone(), 0..300_u16, 0..200_u16)
            .prop_map(|(tree, first, count, len)| Op::Load(tree, first, count, len)),
        2 => Just(Op::Sync),
        2 => Just(Op::Flush),
        4 => (0..3_000_u16).prop_map(Op::Pause),
        2 => Just(Op::Reopen),
        1 => Just(Op::Kill),
        1 => Just(Op::PowerLoss),
    ]
}

/// Options that the harness sets itself.
const EXCUSED: [(&str, &str); 8] = [
    ("env", "always the simulated disk"),
    ("executor", "always the step executor"),
    ("create_if_missing", "the harness opens one database again and again; opening has tests of its own"),
    ("error_if_exists", "as create_if_missing"),
    ("listeners", "told, not asked; events have tests of their own"),
    ("expiry", "rows there have no stamps; the engine has tests of those that have"),
    ("expiry_clock", "nothing expires there"),
    ("max_clock_jump_seconds", "nothing expires there"),
];

/// Sets fields at random and notes their names.
macro_rules! draw {
    ($names:ident, { $($field:ident = $value:expr,)* }) => {
        DbOptions::default().create_if_missing(true)$(.$field({ $names.insert(stringify!($field)); $value }))*
    };
}

/// Draws options; those of a database that exists may differ but for the first ones, which it keeps anyway.
fn draw_options(seed: u64, names: &mut BTreeSet<&'static str>) -> DbOptions {
    let mut state = Draw(seed);
    let mut of = |values: &[usize]| values[state.below(values.len() as u64) as usize];
    let page = of(&[512, 512, 1024, 4096, 4096, 16_384]);
    let frames = of(&[64, 80, 300]);
    let redo = of(&[64, 80, 400]) * page;
    draw!(names, {
        page_size = page,
        page_compression = [PageCompression::None, PageCompression::Zlib, PageCompression::Lz4, PageCompression::Zstd][of(&[0, 0, 1, 2, 3])],
        buffer_pool_bytes = frames * page,
        old_blocks_percent = of(&[5, 37, 95]),
        old_blocks_time_millis = of(&[0, 1, 1000]) as u64,
        buffer_pool_dump_at_shutdown = of(&[0, 1]) == 1,
        buffer_pool_dump_percent = of(&[1, 100]),
        buffer_pool_load_at_startup = of(&[0, 1]) == 1,
        shutdown = [Shutdown::Fast, Shutdown::Slow][of(&[0, 1])],
        read_ahead_threshold = of(&[0, 1, 56]),
        random_read_ahead = of(&[0, 1]) == 1,
        redo_capacity_bytes = redo.max(48 << 10) as u64,
        durability = [Durability::Commit, Durability::EveryMillis(20), Durability::Os][of(&[0, 1, 2])],
        doublewrite = [Doublewrite::On, Doublewrite::DetectOnly, Doublewrite::Off][of(&[0, 0, 1, 2])],
        page_cleaners = of(&[1, 1, 2, 4]),
        doublewrite_pages = of(&[16, 17, 128]),
        io_capacity = of(&[1, 100, 10_000]),
        io_capacity_max = of(&[10_000, 20_000]),
        max_dirty_pages_percent = of(&[1, 50, 90]),
        bulk_fill_percent = of(&[50, 94, 100]),
        max_dirty_pages_low_percent = 0,
        idle_flush_percent = of(&[1, 100]),
        lru_scan_depth = of(&[16, 1024]),
        flush_neighbors = [FlushNeighbors::None, FlushNeighbors::Adjacent, FlushNeighbors::Extent][of(&[0, 1, 2])],
        max_version_bytes = of(&[0, 2_000, 64 << 20]),
        max_lock_bytes = of(&[1_000, 64 << 20]),
        lock_timeout_millis = of(&[1, 10_000]) as u64,
        max_history_len = of(&[0, 1, 50]),
        max_history_delay_millis = of(&[0, 300]) as u64,
        change_buffering = [ChangeBuffering::None, ChangeBuffering::Changes, ChangeBuffering::All][of(&[0, 1, 2])],
        change_buffer_max_percent = of(&[0, 5, 25, 50]),
        use_direct_io = of(&[0, 1]) == 1,
    })
}

struct Held {
    cursor: Cursor,
    rows: Map,
    /// Whether its tree was dropped since.
    is_orphan: bool,
    is_other: bool,
}

struct World {
    life: Life,
    options: DbOptions,
    db: Option<Db>,
    /// The state after every commit since the last one that a power loss must leave.
    states: Vec<State>,
    held: Vec<Held>,
    draw: Draw,
}

impl World {
    fn new(seed: u64) -> Self {
        let options = draw_options(seed, &mut BTreeSet::new());
        let life = Life::new(&new_disk(), &options);
        let db = Some(life.open().unwrap());
        let states = vec![State::from([("default".to_owned(), Map::new())])];
        Self { life, options, db, states, held: Vec::new(), draw: Draw(seed) }
    }

    fn db(&self) -> &Db {
        self.db.as_ref().unwrap()
    }

    fn state(&self) -> &State {
        &self.states[self.states.len() - 1]
    }

    fn tree(&self, is_other: bool) -> TreeHandle {
        let other = is_other.then(|| self.db().tree("other")).flatten();
        other.unwrap_or_else(|| self.db().default_tree())
    }

    fn value(&mut self, len: u16) -> Vec<u8> {
        vec![self.draw.below(256) as u8; usize::from(len)]
    }

    /// Takes note of a commit.
    fn committed(&mut self, next: State, is_synced: bool) {
        if is_synced || self.options.durability == Durability::Commit {
            self.states.clear();
        }
        self.states.push(next);
    }

    fn put(&mut self, is_other: bool, number: u16, len: u16) {
        let (tree, value, mut next) = (self.tree(is_other), self.value(len), self.state().clone());
        self.db().put_in(&tree, key(number.into()), &value).unwrap();
        next.get_mut(tree.name()).unwrap().insert(key(number.into()), value);
        self.committed(next, false);
    }

    fn delete(&mut self, is_other: bool, number: u16) {
        let (tree, mut next) = (self.tree(is_other), self.state().clone());
        self.db().delete_in(&tree, key(number.into())).unwrap();
        next.get_mut(tree.name()).unwrap().remove(&key(number.into()));
        self.committed(next, false);
    }

    fn apply(&mut self, op: &Op) {
        match op {
            Op::Put(tree, key, len) | Op::Long(tree, key, len) => self.put(*tree, *key, *len),
            Op::Run(tree, first, count) => {
                (*first..(*first + *count).min(KEYS)).for_each(|key| self.put(*tree, key, 20))
            }
            Op::Erase(tree, first, count) => {
                (*first..(*first + *count).min(KEYS)).for_each(|key| self.delete(*tree, key));
            }
            Op::Delete(tree, key) => self.delete(*tree, *key),
            Op::Batch(changes) => self.batch(changes),
            Op::Get(tree, number) => {
                let tree = self.tree(*tree);
                let found = self.db().get_in(&tree, key((*number).into())).unwrap();
                assert_eq!(found.as_ref(), self.state()[tree.name()].get(&key((*number).into())));
            }
            Op::Hold(tree) if self.held.len() < 4 => {
                let tree = self.tree(*tree);
                let rows = self.state()[tree.name()].clone();
                let cursor = self.db().cursor_in(&tree).unwrap();
                self.held.push(Held { cursor, rows, is_orphan: false, is_other: tree.name() == "other" });
            }
            Op::Walk(cursor, from, steps) if !self.held.is_empty() => {
                let index = usize::from(*cursor) % self.held.len();
                walk(&mut self.held[index], &key((*from).into()), steps);
            }
            Op::Release(cursor) if !self.held.is_empty() => {
                drop(self.held.swap_remove(usize::from(*cursor) % self.held.len()));
            }
            Op::Hold(_) | Op::Walk(..) | Op::Release(_) => {}
            Op::CreateTree => {
                let mut next = self.state().clone();
                let is_new = next.insert("other".to_owned(), next.get("other").cloned().unwrap_or_default()).is_none();
                let created = self.db().create_tree("other");
                match created {
                    Ok(_) if is_new => self.committed(next, true),
                    Err(error) if !is_new && error.kind() == ErrorKind::AlreadyExists => {}
                    outcome => panic!("{outcome:?}"),
                }
            }
            Op::DropTree => {
                let mut next = self.state().clone();
                let existed = next.remove("other").is_some();
                match self.db().drop_tree("other") {
                    Ok(()) if existed => self.committed(next, true),
                    Err(error) if !existed && error.kind() == ErrorKind::NotFound => {}
                    outcome => panic!("{outcome:?}"),
                }
                self.held.iter_mut().for_each(|held| held.is_orphan |= held.is_other);
            }
            Op::Truncate(tree) => self.truncate(*tree),
            Op::Load(tree, first, count, len) => {
                let tree_handle = self.tree(*tree);
                if !self.state()[tree_handle.name()].is_empty() {
                    let refused = self.db().bulk_load(&tree_handle, [(b"key", b"value")]).unwrap_err();
                    assert_eq!(refused.kind(), ErrorKind::AlreadyExists);
                    self.truncate(*tree);
                }
                let mut rows = Map::new();
                for number in *first..*first + *count {
                    let len = if number % 37 == 0 { *len * 12 } else { *len % 90 };
                    rows.insert(key(number.into()), self.value(len));
                }
                match self.db().bulk_load(&tree_handle, &rows) {
                    Ok(report) => assert_eq!(report.rows, rows.len() as u64),
                    // Rows that are marked as deleted wait for purge while somebody may see them.
                    Err(error) if error.kind() == ErrorKind::AlreadyExists && !self.held.is_empty() => return,
                    Err(error) => panic!("{error}"),
                }
                let mut next = self.state().clone();
                next.insert(tree_handle.name().to_owned(), rows);
                self.orphan(*tree);
                self.committed(next, true);
            }
            Op::Sync => {
                self.db().sync().unwrap();
                self.states = vec![self.state().clone()];
            }
            Op::Flush => {
                self.db().flush().unwrap();
                self.states = vec![self.state().clone()];
            }
            Op::Pause(millis) => self.life.executor.sleep(Duration::from_millis((*millis).into())),
            Op::Reopen => {
                self.held.clear();
                self.db().close().unwrap();
                let state = self.state().clone();
                self.reopen(self.life.disk.after_power_loss(), vec![state]);
            }
            Op::Kill => {
                let state = self.state().clone();
                self.reopen(self.life.disk.after_process_death(), vec![state]);
            }
            Op::PowerLoss => self.reopen(self.life.disk.after_power_loss(), self.states.clone()),
        }
    }

    fn truncate(&mut self, is_other: bool) {
        let tree = self.tree(is_other);
        self.db().truncate(&tree).unwrap();
        let mut next = self.state().clone();
        next.insert(tree.name().to_owned(), Map::new());
        self.orphan(is_other);
        self.committed(next, true);
    }

    /// The cursors over a tree end.
    fn orphan(&mut self, is_other: bool) {
        let is_other = self.tree(is_other).name() == "other";
        self.held.iter_mut().filter(|held| held.is_other == is_other).for_each(|held| held.is_orphan = true);
    }

    fn batch(&mut self, changes: &[(bool, u16, Option<u16>)]) {
        let mut next = self.state().clone();
        let mut batch = WriteBatch::new();
        for (tree, number, len) in changes {
            let tree = self.tree(*tree);
            let rows = next.get_mut(tree.name()).unwrap();
            match len {
                Some(len) => {
                    let value = self.value(*len);
                    batch.put_in(&tree, key((*number).into()), &value);
                    rows.insert(key((*number).into()), value);
                }
                None => {
                    batch.delete_in(&tree, key((*number).into()));
                    rows.remove(&key((*number).into()));
                }
            }
        }
        self.db().write(&batch).unwrap();
        self.committed(next, false);
    }

    /// Goes on with what is left on a disk: one of `states`.
    fn reopen(&mut self, disk: SimDisk, states: Vec<State>) {
        self.held.clear();
        self.life.disk.power_off();
        self.db = None;
        self.life.executor.abandon_all();
        let durability = self.options.durability;
        self.options =
            draw_options(self.draw.next(), &mut BTreeSet::new()).page_size(self.db_page_size()).durability(durability);
        // The pool must hold 64 pages of the database, whatever was drawn.
        let pool = self.options.buffer_pool_bytes.max(64 * self.options.page_size);
        let redo = self.options.redo_capacity_bytes.max(64 * self.options.page_size as u64);
        self.options = self.options.clone().buffer_pool_bytes(pool).redo_capacity_bytes(redo);
        self.life = Life::new(&disk, &self.options);
        self.db = Some(self.life.open().unwrap());
        let found = read_all(self.db()).unwrap();
        assert!(states.contains(&found), "none of {} states", states.len());
        self.states = vec![found];
        self.check();
    }

    fn db_page_size(&self) -> usize {
        self.options.page_size
    }

    /// Checks every page, once what only cursors needed is gone.
    fn check(&mut self) {
        self.held.clear();
        self.life.executor.run_until_idle();
        let report = self.db().check().unwrap();
        assert_eq!(report.rows, self.state().values().map(Map::len).sum::<usize>() as u64);
        assert_eq!(report.lost_pages, 0, "{report:?}");
    }

    fn finish(mut self) {
        assert_eq!(read_all(self.db()).unwrap(), *self.state());
        self.check();
        self.apply(&Op::Reopen);
        self.db().close().unwrap();
    }
}

/// Seeks and steps with a cursor and its model. One that is too old may say so.
fn walk(held: &mut Held, from: &[u8], steps: &[bool]) {
    let mut outcome = held.cursor.seek(from);
    let mut expected = held.rows.range(from.to_vec()..).next();
    let mut steps = steps.iter();
    loop {
        match outcome {
            Err(error) if error.kind() == ErrorKind::Aborted => return,
            Err(error) if held.is_orphan && error.kind() == ErrorKind::NotFound => return,
            found => assert_eq!(found.unwrap(), expected.is_some()),
        }
        let Some((key, value)) = expected else { return };
        assert!(held.cursor.key() == key && held.cursor.value() == value, "{key:?}");
        let Some(is_forward) = steps.next() else { return };
        let rest = (std::ops::Bound::Excluded(key.clone()), std::ops::Bound::Unbounded);
        (outcome, expected) = if *is_forward {
            (held.cursor.next(), held.rows.range(rest).next())
        } else {
            (held.cursor.prev(), held.rows.range(..key.clone()).next_back())
        };
    }
}

fn run(seed: u64) {
    let input = (any::<u64>(), vec(op(), 1..160));
    let outcome = seeds::runner(seed, 64).run(&input, |(options, ops)| {
        let mut world = World::new(options);
        for op in &ops {
            world.apply(op);
        }
        world.finish();
        Ok(())
    });
    outcome.unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
}

#[test]
fn random_operations_under_random_options_match_a_map_with_a_fixed_seed() {
    run(seeds::FIXED);
}

#[test]
fn random_operations_under_random_options_match_a_map_with_a_fresh_seed() {
    run(seeds::fresh());
}

#[test]
fn every_option_is_drawn_or_excused_with_a_reason() {
    let mut drawn = BTreeSet::new();
    draw_options(1, &mut drawn);
    for name in DbOptions::NAMES {
        let is_excused = EXCUSED.iter().any(|(other, reason)| other == name && !reason.is_empty());
        assert!(drawn.contains(name) != is_excused, "option {name} must be drawn or excused, and not both");
    }
}
