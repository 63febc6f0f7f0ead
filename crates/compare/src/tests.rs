//! Every adapter keeps the contract of the traits.

use crate::PeerSettings;
use siltstone_base::engine::conformance_all::{Openers, check_all};
use siltstone_base::engine::{Durability, Kv};
use siltstone_base::{ErrorKind, Result};
use std::path::Path;
use tempfile::TempDir;

type Opener = fn(&Path, &PeerSettings) -> Result<Box<dyn Kv>>;

const ENGINES: &[(&str, Opener)] = &[
    ("fjall", |dir, settings| Ok(Box::new(crate::fjall::FjallEngine::open(dir, settings)?))),
    ("redb", |dir, settings| Ok(Box::new(crate::redb::RedbEngine::open(dir, settings)?))),
    ("lmdb", |dir, settings| Ok(Box::new(crate::lmdb::LmdbEngine::open(dir, settings)?))),
    ("sqlite", |dir, settings| Ok(Box::new(crate::sqlite::SqliteEngine::open(dir, settings)?))),
    #[cfg(feature = "rocksdb")]
    ("rocksdb", |dir, settings| Ok(Box::new(crate::rocksdb::RocksdbEngine::open(dir, settings)?))),
];

fn settings(durability: Durability) -> PeerSettings {
    PeerSettings { cache_bytes: 8 << 20, write_buffer_bytes: 4 << 20, durability, ..PeerSettings::default() }
}

fn check(open: &dyn Fn(&Path) -> Result<Box<dyn Kv>>, dir: &Path) {
    let checked = check_all(&Openers { kv: Some(open), ..Openers::default() }, dir);
    assert!(checked.ran.contains(&"kv") && checked.ran.contains(&"persistence"), "{checked:?}");
}

#[test]
fn every_engine_keeps_the_contract() {
    for (_, open) in ENGINES {
        let dir = TempDir::new().unwrap();
        check(&|dir| open(dir, &settings(Durability::Commit)), dir.path());
    }
}

#[test]
fn engines_that_do_not_sync_keep_the_contract_and_what_they_were_closed_with() {
    for (_, open) in ENGINES {
        let dir = TempDir::new().unwrap();
        check(&|dir| open(dir, &settings(Durability::Os)), dir.path());
    }
}

#[test]
fn engines_that_neither_compress_nor_filter_their_last_level_keep_the_contract() {
    for (_, open) in ENGINES {
        let dir = TempDir::new().unwrap();
        let settings = PeerSettings { compress: false, expects_hits: true, ..settings(Durability::Os) };
        check(&|dir| open(dir, &settings), dir.path());
    }
}

#[test]
fn a_durability_without_an_equivalent_is_refused() {
    let second = Durability::EveryMillis(1000);
    for (name, durability, accepted) in [
        ("fjall", Durability::Os, true),
        ("fjall", second, true),
        ("redb", Durability::Os, true),
        ("redb", second, false),
        ("lmdb", Durability::Os, true),
        ("lmdb", second, false),
        ("sqlite", Durability::Os, true),
        ("sqlite", second, false),
    ] {
        let dir = TempDir::new().unwrap();
        let (_, open) = ENGINES.iter().find(|(engine, _)| *engine == name).unwrap();
        let result = open(&dir.path().join("db"), &settings(durability));
        assert_eq!(result.as_ref().err().map(|error| error.kind()), (!accepted).then_some(ErrorKind::NotSupported));
    }
}

#[test]
fn what_an_engine_counts_grows_with_what_it_does() {
    for (name, open) in ENGINES {
        let dir = TempDir::new().unwrap();
        let engine = open(&dir.path().join("db"), &settings(Durability::Commit)).unwrap();
        let before = engine.stats().unwrap();
        for number in 0..200_u32 {
            engine.put(&number.to_be_bytes(), &[7; 500]).unwrap();
        }
        let counters = engine.stats().unwrap().since(&before).counters;
        // redb counts nothing unless it is built to.
        let writes = match *name {
            "redb" => continue,
            "lmdb" => "transactions",
            "fjall" => "sequence_numbers",
            "sqlite" => "page_count",
            "rocksdb" => "keys",
            name => panic!("{name}"),
        };
        let least = if writes == "page_count" { 20 } else { 200 };
        assert!(counters.get(writes).is_some_and(|count| *count >= least), "{name}: {counters:?}");
        if *name == "rocksdb" {
            let counted =
                ["writes", "commit_groups", "wal_writes", "wal_syncs"].map(|name| counters.get(name).copied());
            assert!(counted.iter().all(|count| *count == Some(200)), "{counters:?}");
        }
        engine.close().unwrap();
    }
}
