//! The version set on a disk that fails and that crashes.

use super::*;
use siltstone_base::env::sim::{CrashConfig, CrashStates, FaultKind, FaultPlan, SimDisk};
use siltstone_base::plant::with_planted;
use std::panic::{AssertUnwindSafe, catch_unwind};

const DIR: &str = "/db";

fn sim_config(disk: &SimDisk) -> VersionSetConfig {
    VersionSetConfig { env: disk.env(), max_manifest_file_size: 400, ..config(Path::new(DIR)) }
}

fn open(disk: &SimDisk) -> Result<VersionSet> {
    VersionSet::recover(sim_config(disk), &|_| Some(family_config(Bytewise)))
}

fn new_disk() -> SimDisk {
    let disk = SimDisk::new();
    disk.make_durable_dir(Path::new(DIR)).unwrap();
    VersionSet::create_new(sim_config(&disk), &family_config(Bytewise), None).unwrap();
    disk
}

/// The keys that the files of level 1 stand for.
fn keys(set: &VersionSet) -> Vec<String> {
    let version = set.families[&ColumnFamilyId(0)].current();
    version.files(1).iter().map(|file| String::from_utf8(file.smallest.user_key().to_vec()).unwrap()).collect()
}

/// Logs an edit that adds a file for `key`. Its table is on disk, as that of a real edit would be.
fn log(disk: &SimDisk, set: &mut VersionSet, key: &str) -> Result<()> {
    let number = set.file_numbers().allocate();
    let env = disk.env();
    let path = FileName::Table(number).path(Path::new(DIR));
    let error = |source| Error::io("make a table", &path, source);
    let options = siltstone_base::env::FileOptions::new(FileKind::Table);
    let context = siltstone_base::env::IoContext::new(FileKind::Table, siltstone_base::env::IoPriority::High);
    let mut table = env.create_append(&path, &options).map_err(error)?;
    table.append(&[7; 1000], context).map_err(error)?;
    table.sync_data(context).map_err(error)?;
    table.finish().map_err(error)?;
    env.sync_dir(Path::new(DIR)).map_err(error)?;
    let mut edit = VersionEdit::default();
    edit.add_file(1, file(number, key));
    set.log_and_apply(&mut [edit]).map(|_| ())
}

const KEYS: [&str; 9] = ["a", "b", "c", "d", "e", "f", "g", "h", "i"];

const FAULTS: [FaultKind; 6] = [
    FaultKind::Io,
    FaultKind::NoSpace,
    FaultKind::ShortWrite,
    FaultKind::ShortWriteNoSpace,
    FaultKind::SyncFailsVisible,
    FaultKind::SyncFailsReverted,
];

/// Fails one operation of a workload, or it and all further ones. Returns whether the plan came to bear.
fn fail_one(plan: FaultPlan) -> bool {
    let disk = new_disk();
    let mut set = open(&disk).unwrap();
    let mut acknowledged = Vec::new();
    let mut attempted = None;
    disk.set_fault(plan);
    for key in KEYS {
        match log(&disk, &mut set, key) {
            Ok(()) => acknowledged.push(key),
            Err(_) => {
                assert_eq!(keys(&set), acknowledged, "{plan:?}: what failed is not shown");
                attempted = Some(key);
                break;
            }
        }
    }
    let hit = !disk.fault_hits().is_empty();
    disk.clear_fault();
    // Whatever happens now, what was acknowledged is there; what failed may be.
    for after in [disk.after_power_loss(), disk.after_process_death()] {
        let mut found = keys(&open(&after).unwrap_or_else(|error| panic!("{plan:?}: {error}")));
        found.retain(|key| Some(&**key) != attempted);
        assert_eq!(found, acknowledged, "{plan:?}");
    }
    // Without a reopen: the next edit starts a new MANIFEST, and what failed is gone for ever.
    log(&disk, &mut set, "z").unwrap_or_else(|error| panic!("{plan:?}: {error}"));
    assert!(!set.is_manifest_broken());
    acknowledged.push("z");
    assert_eq!(keys(&set), acknowledged);
    for after in [disk.after_power_loss(), disk.after_process_death()] {
        let reopened = open(&after).unwrap_or_else(|error| panic!("{plan:?}: {error}"));
        assert_eq!(keys(&reopened), acknowledged, "{plan:?}");
        assert!(reopened.file_numbers().next() >= set.file_numbers().next() - 1);
    }
    hit
}

#[test]
fn no_error_of_the_disk_loses_an_edit_or_brings_one_back() {
    let mut hits = 0;
    for kind in FAULTS {
        for sticky in [false, true] {
            for after in 0.. {
                let plan = if sticky { FaultPlan::sticky(kind, after) } else { FaultPlan::once(kind, after) };
                if !fail_one(plan) {
                    break;
                }
                hits += 1;
            }
        }
    }
    assert!(hits > 400, "{hits} faults");
}

/// Every disk that a crash of a workload with several MANIFESTs may leave recovers to all that was acknowledged before, and at most one
/// edit more.
fn crash_everywhere() {
    let disk = new_disk();
    let mut set = open(&disk).unwrap();
    let first_manifest = set.manifest_number();
    disk.start_recording();
    // How many changes of the disk there were when as many edits were acknowledged.
    let mut acknowledged_at = vec![0];
    for key in KEYS {
        log(&disk, &mut set, key).unwrap();
        acknowledged_at.push(disk.recorded());
    }
    assert!(
        set.manifest_number() > first_manifest + 2,
        "several MANIFESTs: {first_manifest} to {}",
        set.manifest_number()
    );
    let recording = disk.take_recording();
    let states = CrashStates::new(&recording, CrashConfig { cuts: 0..recording.len() + 1, ..CrashConfig::default() });
    let mut distinct = 0;
    for state in states {
        let Some(after) = state.disk() else { continue };
        distinct += 1;
        let acknowledged = acknowledged_at.iter().filter(|at| **at <= state.cut).count() - 1;
        let recovered = open(&after)
            .unwrap_or_else(|error| panic!("{} at cut {} {:?}: {error}", state.model.code(), state.cut, state.op));
        let found = keys(&recovered);
        assert!(
            found == KEYS[..acknowledged] || found == KEYS[..(acknowledged + 1).min(KEYS.len())],
            "{} at cut {}: {found:?} after {acknowledged} edits",
            state.model.code(),
            state.cut
        );
    }
    assert!(distinct > 300, "{distinct} states");
}

#[test]
fn no_crash_loses_an_edit_or_leaves_half_of_one() {
    crash_everywhere();
}

#[test]
fn planted_bugs_are_seen() {
    for bug in [PlantedBug::CurrentBeforeManifest, PlantedBug::CurrentRenameIsNotSynced] {
        let seen = catch_unwind(AssertUnwindSafe(|| with_planted(bug, crash_everywhere))).is_err();
        assert!(seen, "{bug:?} was not seen");
    }
    let append = PlantedBug::AppendBehindBrokenManifestRecord;
    let plans = (0..60).map(|after| FaultPlan::once(FaultKind::ShortWrite, after));
    let seen = plans
        .into_iter()
        .any(|plan| catch_unwind(AssertUnwindSafe(|| with_planted(append, || fail_one(plan)))).is_err());
    assert!(seen, "{append:?} was not seen");
}

#[test]
fn a_number_that_may_still_be_named_is_not_given_again() {
    let reused = |planted: bool| {
        let disk = new_disk();
        let mut set = open(&disk).unwrap();
        log(&disk, &mut set, "a").unwrap();
        // The sync of the edit fails: its table is there, and the edit may come back.
        let filter = siltstone_base::env::sim::OpFilter {
            class: Some(siltstone_base::env::sim::OpClass::Sync),
            file: Some(FileKind::Manifest),
            ..Default::default()
        };
        disk.set_fault(FaultPlan::once(FaultKind::SyncFailsVisible, 0).filter(filter));
        log(&disk, &mut set, "b").unwrap_err();
        let lost = set.file_numbers().next() - 1;
        let after = disk.after_power_loss();
        let recover = || open(&after).unwrap().file_numbers().next();
        let next = if planted { with_planted(PlantedBug::FileNumberReused, recover) } else { recover() };
        next <= lost
    };
    assert!(!reused(false));
    assert!(reused(true));
}
