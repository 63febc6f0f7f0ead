//! The states that a crash may leave.

use super::{WAL, bytes, create, disk, durable_file, names, path};
use crate::env::sim::{CrashConfig, CrashModel, CrashState, CrashStates, FaultKind, FaultPlan, Recording, SimDisk};
use crate::env::{Env, FileKind, FileOptions};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

fn record(prepare: impl FnOnce(&SimDisk), run: impl FnOnce(&SimDisk)) -> Recording {
    let disk = disk();
    prepare(&disk);
    disk.start_recording();
    run(&disk);
    disk.take_recording()
}

fn all(recording: &Recording) -> Vec<CrashState> {
    CrashStates::new(recording, CrashConfig { states_per_cut: usize::MAX, ..CrashConfig::default() }).collect()
}

fn last_cut(recording: &Recording) -> Vec<CrashState> {
    let cuts = recording.len()..usize::MAX;
    CrashStates::new(recording, CrashConfig { states_per_cut: usize::MAX, cuts, ..CrashConfig::default() }).collect()
}

/// All distinct outcomes for one file at the last cut.
fn outcomes(recording: &Recording, name: &str) -> BTreeSet<Option<Vec<u8>>> {
    last_cut(recording).iter().filter_map(CrashState::disk).map(|disk| bytes(&disk, name)).collect()
}

#[test]
fn a_synced_file_in_a_synced_directory_has_one_outcome() {
    let recording = record(|_| (), |disk| durable_file(disk, "a", &[5; 9000]));
    assert_eq!(outcomes(&recording, "a"), BTreeSet::from([Some(vec![5; 9000])]));
}

#[test]
fn every_byte_of_a_short_unsynced_append_is_a_cut() {
    let recording = record(
        |disk| durable_file(disk, "a", b"synced"),
        |disk| {
            let mut file = disk.open_append(&path("a"), &FileOptions::new(FileKind::Wal)).unwrap();
            file.append(b"tail", WAL).unwrap();
        },
    );
    let outcomes = outcomes(&recording, "a");
    for cut in 0..=4 {
        let expected = [&b"synced"[..], &b"tail"[..cut]].concat();
        assert!(outcomes.contains(&Some(expected)), "cut at {cut}");
    }
    assert!(outcomes.contains(&Some(b"synced\0\0\0\0".to_vec())), "length without bytes");
    assert!(outcomes.iter().all(|bytes| bytes.as_ref().is_some_and(|bytes| bytes.starts_with(b"synced"))));
}

#[test]
fn any_subset_of_unsynced_pages_is_kept() {
    let recording = record(
        |disk| durable_file(disk, "a", b""),
        |disk| {
            let mut file = disk.open_append(&path("a"), &FileOptions::new(FileKind::Wal)).unwrap();
            for page in 1..=3_u8 {
                file.append(&[page; 4096], WAL).unwrap();
            }
        },
    );
    let mut found = BTreeSet::new();
    for bytes in outcomes(&recording, "a").into_iter().flatten().filter(|bytes| bytes.len() == 3 * 4096) {
        let pages: Vec<u8> = bytes.chunks(4096).map(|page| page[17]).collect();
        let whole = bytes.chunks(4096).all(|page| page.iter().all(|byte| *byte == page[0]));
        if whole {
            found.insert(pages);
        }
    }
    for subset in 0..8_u8 {
        let pages: Vec<u8> = (0..3).map(|page| if subset >> page & 1 == 1 { page + 1 } else { 0 }).collect();
        assert!(found.contains(&pages), "{pages:?}");
    }
}

#[test]
fn names_are_kept_and_lost_in_any_order() {
    let recording = record(
        |disk| durable_file(disk, "CURRENT", b"old"),
        |disk| {
            let mut file = create(disk, "tmp");
            file.append(b"new", WAL).unwrap();
            file.sync_data(WAL).unwrap();
            disk.rename(&path("tmp"), &path("CURRENT")).unwrap();
            drop(create(disk, "next"));
        },
    );
    let states = last_cut(&recording);
    let seen: BTreeSet<(Vec<String>, Vec<u8>)> = states
        .iter()
        .filter_map(CrashState::disk)
        .map(|disk| (names(&disk), bytes(&disk, "CURRENT").unwrap()))
        .collect();
    let has = |names: &[&str], current: &[u8]| {
        seen.contains(&(names.iter().map(|name| (*name).to_owned()).collect(), current.to_vec()))
    };
    assert!(has(&["CURRENT"], b"old"));
    assert!(has(&["CURRENT", "tmp"], b"old"));
    assert!(has(&["CURRENT"], b"new"));
    assert!(has(&["CURRENT", "next"], b"new"));
    assert!(has(&["CURRENT", "next"], b"old"), "a later name without the earlier ones");
    assert!(!has(&["CURRENT", "tmp"], b"new"), "a rename is atomic");
}

#[test]
fn lost_pages_may_show_a_deleted_file() {
    let recording = record(
        |disk| durable_file(disk, "old", &[0xdd; 4096]),
        |disk| {
            disk.remove_file(&path("old")).unwrap();
            let mut file = create(disk, "new");
            file.append(&[0x11; 4096], WAL).unwrap();
        },
    );
    let outcomes = outcomes(&recording, "new");
    assert!(outcomes.contains(&Some(vec![0xdd; 4096])));
    assert!(outcomes.contains(&Some(vec![0; 4096])));
    assert!(outcomes.contains(&Some(vec![0x11; 4096])));
}

#[test]
fn a_torn_write_loses_any_sectors() {
    let recording = record(
        |disk| durable_file(disk, "p", &[0; 4096]),
        |disk| {
            let file = disk.open_random_write(&path("p"), &FileOptions::new(FileKind::Page)).unwrap();
            file.write_at(0, &[1; 4096], WAL).unwrap();
        },
    );
    let mixed = |bytes: &Vec<u8>| bytes.contains(&0) && bytes.contains(&1);
    let torn: Vec<Vec<u8>> = outcomes(&recording, "p").into_iter().flatten().filter(mixed).collect();
    assert!(torn.len() >= 8);
    for bytes in torn {
        assert!(bytes.chunks(512).all(|sector| sector.iter().all(|byte| *byte == sector[0])));
    }
}

#[test]
fn a_failed_sync_leaves_the_pages_in_doubt_for_ever() {
    let recording = record(
        |disk| durable_file(disk, "a", b""),
        |disk| {
            let mut file = disk.open_append(&path("a"), &FileOptions::new(FileKind::Wal)).unwrap();
            file.append(&[1; 4096], WAL).unwrap();
            disk.set_fault(FaultPlan::once(FaultKind::SyncFailsVisible, 0));
            file.sync_data(WAL).unwrap_err();
            file.append(&[2; 4096], WAL).unwrap();
            file.sync_data(WAL).unwrap();
        },
    );
    let lost = [[0; 4096], [2; 4096]].concat();
    let kept = [[1; 4096], [2; 4096]].concat();
    assert_eq!(outcomes(&recording, "a"), BTreeSet::from([Some(lost), Some(kept)]));
}

#[test]
fn a_killed_process_leaves_pending_changes_to_a_second_crash() {
    let recording = record(
        |disk| durable_file(disk, "a", b""),
        |disk| {
            let mut file = disk.open_append(&path("a"), &FileOptions::new(FileKind::Wal)).unwrap();
            file.append(b"unsynced", WAL).unwrap();
        },
    );
    let states = last_cut(&recording);
    let killed = states.iter().find(|state| state.model == CrashModel::ProcessDeath).unwrap().disk().unwrap();
    killed.start_recording();
    durable_file(&killed, "b", b"b");
    let second = killed.take_recording();
    let seen: BTreeSet<_> = last_cut(&second)
        .iter()
        .filter_map(CrashState::disk)
        .map(|disk| (bytes(&disk, "a"), bytes(&disk, "b")))
        .collect();
    assert!(seen.contains(&(Some(b"".to_vec()), Some(b"b".to_vec()))), "{seen:?}");
    assert!(seen.contains(&(Some(b"unsynced".to_vec()), Some(b"b".to_vec()))));
}

fn busy(disk: &SimDisk) {
    for round in 0..6_u8 {
        let name = format!("log{round}");
        let mut file = create(disk, &name);
        for record in 0..10_u8 {
            file.append(&[round * 16 + record + 1; 700], WAL).unwrap();
            if record % 3 == 0 {
                file.sync_data(WAL).unwrap();
            }
        }
        disk.sync_dir(Path::new("/db")).unwrap();
        if round > 2 {
            disk.remove_file(&path(&format!("log{}", round - 2))).unwrap();
        }
    }
}

#[test]
fn states_are_distinct_deterministic_and_of_every_model() {
    let recording = record(|_| (), busy);
    let states = all(&recording);
    let new: Vec<&CrashState> = states.iter().filter(|state| state.is_new()).collect();
    let hashes: BTreeSet<u64> = new.iter().map(|state| state.hash).collect();
    assert_eq!(hashes.len(), new.len());
    assert!(new.len() > 800, "{}", new.len());
    for state in &new {
        assert_eq!(state.disk().unwrap().image_hash(), state.hash, "{:?}", state.model);
    }
    let again: Vec<u64> = all(&recording).iter().map(|state| state.hash).collect();
    assert_eq!(again, states.iter().map(|state| state.hash).collect::<Vec<u64>>());
    let mut models: BTreeMap<CrashModel, usize> = BTreeMap::new();
    for state in &new {
        *models.entry(state.model).or_default() += 1;
    }
    assert!(CrashModel::ALL.iter().all(|model| models.get(model).is_some_and(|count| *count > 0)), "{models:?}");
}

#[test]
fn limits_are_kept() {
    let recording = record(|_| (), busy);
    let config = CrashConfig { states_per_cut: 5, cuts: 10..30, every: 3, ..CrashConfig::default() };
    let mut by_cut: BTreeMap<usize, usize> = BTreeMap::new();
    for state in CrashStates::new(&recording, config) {
        *by_cut.entry(state.cut).or_default() += usize::from(state.is_new());
    }
    assert_eq!(by_cut.keys().copied().collect::<Vec<_>>(), [10, 13, 16, 19, 22, 25, 28]);
    assert!(by_cut.values().all(|count| *count <= 5));
}
