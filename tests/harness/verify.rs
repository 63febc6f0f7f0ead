//! Opening what is left and demanding that it is an exact prefix.

use super::Outcome;
use super::model::{Contents, Death, History, Prefixes, State, hash_contents};
use super::rig::{DIR, Profile, Rig};
use crate::demand;
use siltstone_base::env::Env;
use siltstone_base::env::sim::SimDisk;
use siltstone_lsm::{ColumnFamily, Db, ReadOptions, Result, WriteBatch, WriteOptions};
use std::collections::BTreeMap;
use std::path::Path;

/// What was found in a database: for each family its name and the hash of its contents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// By number of the family.
    pub families: BTreeMap<u32, (String, u64)>,
}

/// How much is demanded beyond the contents.
#[derive(Debug, Clone, Copy, Default)]
pub struct Depth {
    /// Opens a second time and demands the same.
    pub reopen: bool,
    /// Demands that writes go on.
    pub live: bool,
}

/// Reads a family forwards, backwards and by key; the three must agree.
pub fn read_family(db: &Db, family: &ColumnFamily, options: &ReadOptions) -> Result<Contents> {
    let mut iter = db.iter_cf(family, options)?;
    let mut forwards = Contents::new();
    iter.seek_to_first();
    let mut count = 0;
    while iter.valid() {
        forwards.insert(iter.key().to_vec(), iter.value().to_vec());
        count += 1;
        iter.next();
    }
    iter.status()?;
    let mut is_consistent = count == forwards.len();
    iter.seek_to_last();
    for (key, value) in forwards.iter().rev() {
        is_consistent &= iter.valid() && iter.key() == key && iter.value() == value;
        iter.prev();
    }
    is_consistent &= !iter.valid();
    iter.status()?;
    for (key, value) in &forwards {
        is_consistent &= db.get_cf(family, key, options)?.as_deref() == Some(value);
    }
    for number in 0..32 {
        let key = super::run::key(number);
        is_consistent &= db.get_cf(family, &key, options)?.as_deref() == forwards.get(&key).map(Vec::as_slice);
    }
    if !is_consistent {
        return Err(siltstone_lsm::Error::corrupt("scans and point reads disagree"));
    }
    Ok(forwards)
}

/// Reads every family.
pub fn read_all(db: &Db) -> Result<State> {
    let read = |family: ColumnFamily| Ok((family.id().0, read_family(db, &family, &ReadOptions::default())?));
    db.families().into_iter().map(read).collect()
}

fn find(db: &Db) -> Outcome<Found> {
    let mut families = BTreeMap::new();
    for family in db.families() {
        let contents = read_family(db, &family, &ReadOptions::default());
        let contents = contents.map_err(|error| format!("reading {} failed: {error}", family.name()))?;
        let hash = hash_contents(contents.iter().map(|(key, value)| (key.as_slice(), value.as_slice())));
        families.insert(family.id().0, (family.name().to_owned(), hash));
    }
    Ok(Found { families })
}

/// Opens the database on `disk`, reads all of it, checks its trees and its directory, and closes it.
pub fn recover(disk: &SimDisk, profile: &Profile, depth: Depth) -> Outcome<Found> {
    let rig = Rig::new(disk.clone(), profile);
    let outcome = recover_on(&rig, depth);
    rig.executor.abandon_all();
    outcome
}

fn recover_on(rig: &Rig, depth: Depth) -> Outcome<Found> {
    let db = rig.open().map_err(|error| format!("opening failed: {error}"))?;
    let found = find(&db)?;
    if depth.live {
        write_on(&db)?;
    }
    let report = db.check().map_err(|error| format!("the tree is damaged: {error}"))?;
    let tables = report.tables as usize;
    db.close().map_err(|error| format!("closing failed: {error}"))?;
    check_directory(&rig.disk, tables)?;
    if depth.reopen && !depth.live {
        let db = rig.open().map_err(|error| format!("opening again failed: {error}"))?;
        demand!(find(&db)? == found, "opening again shows something else");
        db.close().map_err(|error| format!("closing again failed: {error}"))?;
    }
    Ok(found)
}

/// Demands that synced writes are taken, that background work ends, and that what was written can be read.
pub fn write_on(db: &Db) -> Outcome {
    for family in db.families() {
        let mut batch = WriteBatch::new();
        batch.put_cf(&family, "zz-after", "still alive");
        let written = db.write(&mut batch, &WriteOptions::default().sync(true));
        written.map_err(|error| format!("a write after recovery failed: {error}"))?;
        let read = db.get_cf(&family, "zz-after", &ReadOptions::default());
        let read = read.map_err(|error| format!("a read after recovery failed: {error}"))?;
        demand!(read.as_deref() == Some(b"still alive"), "a write after recovery is lost");
    }
    let families = db.families();
    let flushed = db.flush_families(&families.iter().collect::<Vec<_>>(), &siltstone_lsm::FlushOptions::default());
    flushed.map_err(|error| format!("a flush after recovery failed: {error}"))?;
    db.wait_for_background_work().map_err(|error| format!("background work does not end: {error}"))
}

/// Demands that the directory of a closed database holds nothing that nobody needs.
pub fn check_directory(disk: &SimDisk, tables: usize) -> Outcome {
    let entries = disk.list_dir(Path::new(DIR)).map_err(|error| format!("listing failed: {error}"))?;
    let names: Vec<String> = entries.into_iter().map(|entry| entry.name).collect();
    let count = |end: &str| names.iter().filter(|name| name.ends_with(end)).count();
    let manifests = names.iter().filter(|name| name.starts_with("MANIFEST-")).count();
    let is_tidy = count(".sst") == tables && count(".log") <= 1 && count(".dbtmp") == 0 && manifests == 1;
    demand!(is_tidy, "{tables} tables are live, the directory holds {names:?}");
    Ok(())
}

/// Demands that what was found is an exact prefix of the commits that keeps every promise. Returns its length.
pub fn check_promises(
    found: &Found,
    history: &History,
    prefixes: &Prefixes,
    cut: usize,
    death: Death,
) -> Outcome<usize> {
    history.check_families(&found.families, cut)?;
    let promised = history.promised(cut, death);
    let possible = history.possible(cut);
    if let Some(commits) = prefixes.find(&found.families, promised, possible) {
        return Ok(commits);
    }
    Err(match prefixes.find(&found.families, 0, history.commits.len()) {
        Some(commits) if commits < promised => format!("{commits} commits are left of {promised} promised ones"),
        Some(commits) => format!("{commits} commits are there of {possible} that were asked for"),
        None => {
            let alone = |(id, family): (&u32, &(String, u64))| {
                let one = BTreeMap::from([(*id, family.clone())]);
                (*id, prefixes.find(&one, 0, history.commits.len()))
            };
            let each: Vec<_> = found.families.iter().map(alone).collect();
            format!("no prefix of the commits; promised {promised}, possible {possible}; each family alone: {each:?}")
        }
    })
}
