//! Crashes while changes wait and are merged: each leaves a prefix of the groups, with every promised one in it, and a sound buffer.

use super::*;
use siltstone_base::env::sim::{CrashConfig, CrashModel, CrashStates};
use siltstone_base::executor::Executor;
use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

/// What was seen.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) images: BTreeSet<u64>,
    /// Images after whose recovery something waited, so that the first reads merged it.
    pub(super) waiting: usize,
    pub(super) models: BTreeMap<CrashModel, usize>,
}

/// A group: the changes of the disk that were recorded before and after it.
struct Done {
    issued: usize,
    acked: usize,
}

/// What recovery finds: the entries, by reading them, and whether something waited before.
fn recover(disk: &SimDisk, options: &DbOptions) -> std::result::Result<(Entries, bool), String> {
    let life = open(disk, options).map_err(|error| format!("opening failed: {error}"))?;
    // Also the check is a first reader, of every page.
    let before = life.db.check().map_err(|error| format!("damaged before anything was read: {error}"))?;
    let Some(handle) = life.db.tree("entries") else { return Err("the tree is gone".to_owned()) };
    let tree = life.db.tree_for_test(&handle);
    let found = scan(tree, true).map_err(|error| format!("reading failed: {error}"))?;
    if scan(tree, false).ok().as_ref() != Some(&found) {
        return Err("the two directions disagree".to_owned());
    }
    let report = life.db.check().map_err(|error| format!("damaged: {error}"))?;
    if report.buffered_entries != 0 || report.lost_pages != 0 {
        return Err(format!("after everything was read: {report:?}"));
    }
    life.executor.abandon_all();
    Ok((found, before.buffered_entries > 0))
}

/// Runs a script, and looks at the disks that a crash may leave.
pub(super) fn explore(seed: u64, steps: u32, mode: ChangeBuffering) -> std::result::Result<Tally, String> {
    let options = options(mode);
    let keys = 1_200;
    let disk = new_disk();
    let (life, mut model) = filled(&disk, &options, keys);
    life.db.sync().map_err(|error| error.to_string())?;
    let handle = life.entries();
    let mut draw = Draw(seed);
    disk.start_recording();
    let (mut states, mut groups, mut synced) = (vec![model.clone()], Vec::new(), Vec::new());
    for number in 1..=steps {
        match draw.below(20) {
            0..14 => {
                let ops = draw.group(keys, number);
                let issued = disk.recorded();
                life.db.apply_entries_for_test(&handle, &ops).map_err(|error| error.to_string())?;
                apply(&mut model, &ops);
                groups.push(Done { issued, acked: disk.recorded() });
                states.push(model.clone());
            }
            14 => life.push_out(),
            15..17 => {
                let key = draw.key(keys);
                let found = life.db.tree_for_test(&handle).raw(&key).map_err(|error| error.to_string())?;
                let found = found.map(|(flags, value)| (flags, Stamp::of(flags, &value)));
                if found != model.get(&key).copied() {
                    return Err(format!("step {number}: {found:?} was read"));
                }
            }
            17 => life.executor.sleep(Duration::from_millis(draw.below(2_000))),
            18 => life.db.flush().map_err(|error| error.to_string())?,
            _ => {
                life.db.sync().map_err(|error| error.to_string())?;
                synced.push((groups.len(), disk.recorded()));
            }
        }
    }
    life.db.check().map_err(|error| format!("damaged at the end: {error}"))?;
    let recording = disk.take_recording();
    disk.power_off();
    life.executor.abandon_all();
    drop((handle, life));
    let config =
        CrashConfig { seed, states_per_cut: 4, random_subsets: 3, tail_cuts: 2, tears: 2, ..CrashConfig::default() };
    let mut tally = Tally::default();
    let mut seen: HashMap<u64, Entries> = HashMap::new();
    for state in CrashStates::new(&recording, config) {
        let at = |message: String| format!("crash after change {}, {:?}: {message}", state.cut, state.model);
        if let Some(disk) = state.disk() {
            tally.images.insert(state.hash);
            *tally.models.entry(state.model).or_default() += 1;
            let (found, has_waited) = recover(&disk, &options).map_err(&at)?;
            tally.waiting += usize::from(has_waited);
            seen.insert(state.hash, found);
        }
        let found = seen.get(&state.hash).ok_or("a repeated image that was never met")?;
        let acked = groups.iter().take_while(|group| group.acked <= state.cut).count();
        let barrier = synced.iter().filter(|(_, made)| *made <= state.cut).map(|(groups, _)| *groups).max();
        let promised = if state.model == CrashModel::ProcessDeath { acked } else { barrier.unwrap_or(0) };
        let possible = groups.iter().take_while(|group| group.issued < state.cut || group.acked <= state.cut).count();
        if !states[promised..=possible].contains(found) {
            return Err(at(format!("not the groups up to one of {promised} to {possible}")));
        }
    }
    Ok(tally)
}

#[test]
fn every_crash_leaves_a_prefix_of_the_groups_and_a_sound_buffer() {
    let mut total = Tally::default();
    let modes = [ChangeBuffering::Changes, ChangeBuffering::Purges, ChangeBuffering::All, ChangeBuffering::All];
    for (seed, mode) in (1..).zip(modes) {
        let found = explore(seed, 60, mode).unwrap_or_else(|message| panic!("script {seed}, {mode:?}: {message}"));
        assert!(found.waiting > 50, "script {seed}, {mode:?}: {}", found.waiting);
        total.images.extend(found.images);
        total.waiting += found.waiting;
        for (model, count) in found.models {
            *total.models.entry(model).or_default() += count;
        }
    }
    println!("distinct crash states {}, with something that waits {}", total.images.len(), total.waiting);
    total.models.iter().for_each(|(model, count)| println!("  {} {model:?}: {count}", model.code()));
    assert!(total.images.len() >= 1_000, "{}", total.images.len());
    for model in CrashModel::ALL.into_iter().filter(|model| *model != CrashModel::StaleBytes) {
        assert!(total.models.contains_key(&model), "{model:?}");
    }
}
