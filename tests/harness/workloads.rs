//! The scripts that the tests run: small, each about one part of the engine.

use super::rig::Profile;
use super::script::{Mix, Script, random};
use siltstone_lsm::CompactionStyle;

/// What a family of scripts is about.
type Kind = (&'static str, Profile, Mix);

/// Every kind of script.
pub fn kinds() -> Vec<Kind> {
    let profile = Profile::default();
    let mix = Mix::default();
    let no_compaction = Profile { disable_auto_compactions: true, ..profile.clone() };
    vec![
        // Weights: write, flush, sync the WAL, compact, idle, work, create or drop, reopen, snapshots.
        ("wal", no_compaction.clone(), Mix { weights: [80, 8, 6, 0, 0, 6, 0, 0, 0], ..mix.clone() }),
        (
            "unsynced",
            no_compaction,
            Mix { synced: 4, families: 3, weights: [80, 10, 2, 0, 2, 6, 0, 0, 0], ..mix.clone() },
        ),
        (
            "compaction",
            Profile { l0_trigger: 2, ..profile.clone() },
            Mix { value_len: 700, deletes: 30, weights: [70, 10, 2, 4, 4, 20, 0, 0, 6], ..mix.clone() },
        ),
        (
            "deep",
            Profile { l0_trigger: 2, level_base: 4 << 10, num_levels: 5, dynamic_levels: false, ..profile.clone() },
            Mix { value_len: 900, deletes: 35, keys: 40, weights: [80, 8, 0, 1, 8, 20, 0, 0, 4], ..mix.clone() },
        ),
        (
            "universal",
            Profile {
                l0_trigger: 3,
                level_base: 4 << 10,
                num_levels: 6,
                write_buffer_size: 2 << 10,
                style: CompactionStyle::Universal,
                ..profile.clone()
            },
            Mix {
                value_len: 700,
                deletes: 25,
                range_deletes: 5,
                weights: [80, 12, 0, 1, 8, 20, 0, 2, 4],
                ..mix.clone()
            },
        ),
        (
            "ranges",
            Profile { l0_trigger: 2, level_base: 4 << 10, ..profile.clone() },
            Mix { value_len: 700, range_deletes: 25, keys: 40, weights: [80, 10, 2, 3, 4, 12, 0, 3, 5], ..mix.clone() },
        ),
        (
            "manifest",
            Profile { max_manifest_file_size: 300, ..profile.clone() },
            Mix { weights: [60, 16, 2, 4, 4, 10, 4, 0, 0], ..mix.clone() },
        ),
        (
            "families",
            Profile { max_manifest_file_size: 600, ..profile.clone() },
            Mix { families: 4, weights: [70, 6, 2, 2, 2, 6, 12, 0, 2], ..mix.clone() },
        ),
        (
            "reopen",
            profile.clone(),
            Mix { synced: 15, families: 3, weights: [70, 5, 2, 2, 2, 6, 2, 6, 0], ..mix.clone() },
        ),
        (
            "schedule",
            Profile { schedule: Some(7), l0_trigger: 2, max_total_wal_size: 6 << 10, ..profile },
            Mix { families: 3, value_len: 600, weights: [70, 6, 2, 2, 2, 30, 2, 0, 4], ..mix },
        ),
    ]
}

/// `per_kind` scripts of every kind.
pub fn scripts(per_kind: u64) -> Vec<Script> {
    let of_kind = |(name, profile, mix): &Kind| {
        let with_seed = |seed: u64| {
            let schedule = profile.schedule.map(|first| first + seed);
            random(name, seed, &Profile { schedule, ..profile.clone() }, mix)
        };
        (1..=per_kind).map(with_seed).collect::<Vec<Script>>()
    };
    kinds().iter().flat_map(of_kind).collect()
}

/// One script of a kind.
pub fn script(kind: &str, seed: u64) -> Script {
    let kinds = kinds();
    let (name, profile, mix) = kinds.iter().find(|(name, ..)| *name == kind).expect("a kind of script");
    random(name, seed, profile, mix)
}
