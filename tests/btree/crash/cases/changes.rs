//! Crashes while changes of entries wait for their leaves and are merged: each leaves a prefix of the groups, and a change buffer that fits the leaves.

use crate::support::classes::Tally;
use crate::support::explore::{Extent, Kind, Outcome, Plans, Recovered, Script, explore};
use crate::support::{Commit, Draw, History, Life, State, new_disk, options};
use siltstone_base::engine::Durability;
use siltstone_base::env::sim::SimDisk;
use siltstone_base::executor::Executor;
use siltstone_btree::page::Stamp;
use siltstone_btree::testing::{EntryChange, IndexEntry, apply_entries, entries, entry};
use siltstone_btree::{ChangeBuffering, Db, DbOptions, KvCursor, Result as DbResult, TreeHandle};
use std::collections::BTreeMap;
use std::time::Duration;

const TREE: &str = "entries";

/// Keys that are drawn from.
const KEYS: u64 = 1_200;

/// Rows that push leaves of entries out of the pool.
const ROWS: u32 = 400;

type Entries = BTreeMap<Vec<u8>, IndexEntry>;
type Group = Vec<(Vec<u8>, EntryChange)>;

fn change_options(mode: ChangeBuffering) -> DbOptions {
    options(Durability::Os).redo_capacity_bytes(64 << 10).change_buffering(mode)
}

fn apply(model: &mut Entries, group: &Group) {
    for (key, change) in group {
        match change.after(model.get(key).copied()) {
            Some(entry) => drop(model.insert(key.clone(), entry)),
            None => drop(model.remove(key)),
        }
    }
}

/// Entries as the rows of a tree.
fn state_of(entries: &Entries) -> State {
    let row = |(key, (flags, stamp)): (&Vec<u8>, &IndexEntry)| {
        let stamp = stamp.map_or(Vec::new(), |stamp| stamp.encode().to_vec());
        (key.clone(), [&[*flags][..], &stamp].concat())
    };
    State::from([(TREE.to_owned(), entries.iter().map(row).collect())])
}

fn draw_key(draw: &mut Draw) -> Vec<u8> {
    format!("{:05}", draw.below(KEYS) * 7919 % 100_000).into_bytes()
}

fn draw_group(draw: &mut Draw, number: u32) -> Group {
    let change = |draw: &mut Draw| {
        let stamp = Stamp { id: 1 + draw.below(3), number };
        match draw.below(12) {
            0..5 => EntryChange::Insert(None),
            5..7 => EntryChange::Insert(Some(stamp)),
            7..9 => EntryChange::Mark(stamp),
            9..11 => EntryChange::Remove(None),
            _ => EntryChange::Remove(Some(stamp)),
        }
    };
    (0..1 + draw.below(5)).map(|_| (draw_key(draw), change(draw))).collect()
}

/// Reads all rows, so that few leaves of entries stay in the pool.
fn push_out(db: &Db) -> DbResult<()> {
    let mut cursor = db.cursor()?;
    let mut found = cursor.seek_to_first()?;
    while found {
        found = cursor.next()?;
    }
    Ok(())
}

/// Entries in many leaves of which few are in the pool.
fn fill(db: &Db) -> DbResult<(TreeHandle, Entries)> {
    let tree = db.create_tree(TREE)?;
    let (mut draw, mut model) = (Draw(7), Entries::new());
    for _ in 0..KEYS / 4 {
        let group: Group = (0..2).map(|_| (draw_key(&mut draw), EntryChange::Insert(None))).collect();
        apply_entries(db, &tree, &group)?;
        apply(&mut model, &group);
    }
    for number in 0..ROWS {
        db.put(number.to_be_bytes(), [1; 40])?;
    }
    db.merge_changes()?;
    db.flush()?;
    push_out(db)?;
    db.sync()?;
    Ok((tree, model))
}

/// Runs a script, and records what it does behind the filling.
fn run(seed: u64, steps: u32, options: &DbOptions) -> Script {
    let disk = new_disk();
    let life = Life::new(&disk, options);
    let db = life.open().unwrap();
    let (tree, mut model) = fill(&db).unwrap();
    let mut history = History { states: vec![state_of(&model)], commits: Vec::new(), barriers: Vec::new() };
    let mut draw = Draw(seed);
    disk.start_recording();
    for number in 1..=steps {
        match draw.below(20) {
            0..14 => {
                let group = draw_group(&mut draw, number);
                let issued = disk.recorded();
                apply_entries(&db, &tree, &group).unwrap();
                apply(&mut model, &group);
                history.commits.push(Commit { issued, acked: Some(disk.recorded()) });
                history.states.push(state_of(&model));
            }
            14 => push_out(&db).unwrap(),
            15..17 => {
                let key = draw_key(&mut draw);
                assert_eq!(entry(&db, &tree, &key).unwrap(), model.get(&key).copied(), "script {seed}, step {number}");
            }
            17 => life.executor.sleep(Duration::from_millis(draw.below(2_000))),
            18 => db.flush().unwrap(),
            _ => {
                db.sync().unwrap();
                history.barriers.push((history.commits.len(), disk.recorded()));
            }
        }
    }
    db.check().unwrap();
    let recording = disk.take_recording();
    disk.power_off();
    drop((tree, db));
    life.executor.abandon_all();
    Script { history, plans: Plans::new(), recording }
}

fn open(life: &Life) -> Outcome<Db> {
    life.open().map_err(|error| format!("opening failed: {error}"))
}

fn read(db: &Db) -> Outcome<State> {
    let tree = db.tree(TREE).ok_or("the tree is gone")?;
    let found = entries(db, &tree, true).map_err(|error| format!("reading failed: {error}"))?;
    if entries(db, &tree, false).ok().as_ref() != Some(&found) {
        return Err("the two directions disagree".to_owned());
    }
    Ok(state_of(&found))
}

fn open_and_read(life: &Life) -> Outcome<(Db, State)> {
    let db = open(life)?;
    let state = read(&db)?;
    Ok((db, state))
}

fn recover(disk: &SimDisk, options: &DbOptions, _: &Plans) -> Outcome<Recovered> {
    let life = Life::new(disk, options);
    let db = open(&life)?;
    // Also the check is a first reader, of every page.
    let before = db.check().map_err(|error| format!("damaged before anything was read: {error}"))?;
    let state = read(&db)?;
    let report = db.check().map_err(|error| format!("damaged: {error}"))?;
    if report.buffered_entries != 0 || report.lost_pages != 0 {
        return Err(format!("after everything was read: {report:?}"));
    }
    life.executor.abandon_all();
    Ok(Recovered { state, remarkable: usize::from(before.buffered_entries > 0) })
}

const KIND: Kind = Kind {
    script: "changes",
    open_and_read,
    settle: |life, _| {
        life.executor.run_until_idle();
    },
    recover,
};

pub fn look(seed: u64, mode: ChangeBuffering, extent: &Extent) -> Outcome<Tally> {
    let options = change_options(mode);
    explore(&KIND, &run(seed, 60, &options), &options, extent)
}
