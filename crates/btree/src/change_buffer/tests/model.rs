//! Random operations, modes and ends of a life, against a map.

use super::*;
use std::hash::{BuildHasher, Hasher};

/// One case: the seed alone decides.
pub(super) fn run(seed: u64) {
    let mut draw = Draw(seed);
    let modes = [
        ChangeBuffering::None,
        ChangeBuffering::Inserts,
        ChangeBuffering::Deletes,
        ChangeBuffering::Changes,
        ChangeBuffering::Purges,
        ChangeBuffering::All,
        ChangeBuffering::All,
    ];
    let draw_options = |draw: &mut Draw| {
        let mode = modes[draw.below(modes.len() as u64) as usize];
        let percent = [0, 10, 25, 50][draw.below(4) as usize];
        options(mode).change_buffer_max_percent(percent)
    };
    let keys = 500 + draw.below(5_000);
    let disk = new_disk();
    let (mut life, mut model) = filled(&disk, &draw_options(&mut draw), keys);
    let mut handle = life.entries();
    for number in 1..400_u32 {
        match draw.below(60) {
            0..40 => {
                let ops = draw.group(keys, number);
                life.db.apply_entries_for_test(&handle, &ops).unwrap();
                apply(&mut model, &ops);
            }
            40..50 => {
                let key = draw.key(keys);
                let tree = life.db.tree_for_test(&handle);
                let found = tree.raw(&key).unwrap().map(|(flags, value)| (flags, Stamp::of(flags, &value)));
                assert_eq!(found, model.get(&key).copied(), "seed {seed}, step {number}");
            }
            50..52 => {
                let is_forward = draw.below(2) == 0;
                let found = scan(life.db.tree_for_test(&handle), is_forward).unwrap();
                assert_same(&found, &model, &format!("seed {seed}, step {number}"));
            }
            52..54 => life.push_out(),
            54 => {
                let report = life.db.check().unwrap();
                assert_eq!(report.lost_pages, 0, "seed {seed}, step {number}");
            }
            55 => life.db.flush().unwrap(),
            56 => siltstone_base::executor::Executor::sleep(
                &*life.executor,
                std::time::Duration::from_millis(draw.below(3_000)),
            ),
            57 => life.db.merge_changes().unwrap(),
            end => {
                if end == 58 {
                    life.db.close().unwrap();
                }
                life.executor.abandon_all();
                drop((life, handle));
                life = open(&disk, &draw_options(&mut draw)).unwrap();
                handle = life.entries();
            }
        }
    }
    let tree = life.db.tree_for_test(&handle);
    life.db.check().unwrap();
    assert_same(&scan(tree, true).unwrap(), &model, &format!("seed {seed}"));
    assert_same(&scan(tree, false).unwrap(), &model, &format!("seed {seed}"));
    life.db.merge_changes().unwrap();
    let report = life.db.check().unwrap();
    assert_eq!(report.buffered_entries, 0, "seed {seed}");
    assert_eq!((report.rows + report.deleted_rows) as usize, model.len() + 400, "seed {seed}");
}

#[test]
fn entries_are_what_a_map_says_whatever_waits() {
    (1..=12).for_each(run);
}

#[test]
fn entries_are_what_a_map_says_with_a_fresh_seed() {
    let fresh = std::collections::hash_map::RandomState::new().build_hasher().finish();
    let seed = std::env::var("SILTSTONE_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(fresh);
    println!("SILTSTONE_SEED={seed}");
    (0..4).for_each(|case| run(seed.wrapping_add(case)));
}
