//! The table is that of the book, of the code that opens engines, and of what opening them does.

use super::*;
use crate::engines::{EngineKind, EngineSettings, LsmOptions};
use siltstone_base::ErrorKind;
use siltstone_base::engine::Durability;
use siltstone_lsm::CompactionStyle;

/// The modes in the order of the columns.
const MODES: [Durability; 3] = [Durability::Commit, Durability::EveryMillis(1000), Durability::Os];

const SERVER: &str = include_str!("../../../../../scripts/mariadb/server.py");

/// Where each engine's durability is set: an engine by the beginning of its name, and the texts of the files.
const SOURCES: &[(&str, &[&str])] = &[
    ("Siltstone", &[include_str!("../lsm.rs")]),
    ("RocksDB", &[include_str!("../../../../compare/src/rocksdb/mod.rs")]),
    ("fjall", &[include_str!("../../../../compare/src/fjall/mod.rs")]),
    ("Siltstone's B-tree", &[include_str!("../btree.rs"), include_str!("../../../../base/src/engine/admin.rs")]),
    ("redb", &[include_str!("../../../../compare/src/redb/mod.rs")]),
    ("LMDB", &[include_str!("../../../../compare/src/lmdb/mod.rs")]),
    (
        "SQLite, with a write-ahead log",
        &[include_str!("../../../../compare/src/sqlite/mod.rs"), include_str!("../../../../../.cargo/config.toml")],
    ),
    ("InnoDB, in MariaDB", &[SERVER]),
    ("MyRocks, in MariaDB", &[SERVER]),
];

fn settings(durability: Durability) -> EngineSettings {
    EngineSettings { durability, ..EngineSettings::default().with_memory(16 << 20) }
}

#[test]
fn the_book_has_the_table() {
    let book = include_str!("../../../../../docs/src/benchmarking.md");
    let line = |cells: &Knobs| format!("| {} |\n", cells.join(" | "));
    let table: String = KNOBS.iter().map(line).collect();
    assert!(book.contains(&format!("{}| --- | --- | --- | --- |\n{table}\n", line(&COLUMNS))), "{table}");
}

/// Letters and digits in small letters, so that one name in two languages is the same.
fn plain(text: &str) -> String {
    text.chars().filter(|letter| !matches!(letter, '_' | '-')).flat_map(char::to_lowercase).collect()
}

#[test]
fn what_is_named_stands_where_the_engine_is_opened() {
    for knobs in KNOBS {
        let (_, files) = SOURCES.iter().find(|(engine, _)| *engine == knobs[0]).unwrap();
        let files: String = files.iter().map(|file| plain(file)).collect();
        for cell in &knobs[1..] {
            // Every second part is in the style of code; a path is that of the file itself.
            for code in cell.split('`').skip(1).step_by(2).filter(|code| !code.contains('/')) {
                let words = code.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
                for word in words.filter(|word| word.starts_with(char::is_alphabetic)) {
                    assert!(files.contains(&plain(word)), "{}: {word}", knobs[0]);
                }
            }
        }
    }
}

#[test]
fn the_script_sets_what_the_table_says() {
    for knob in ["innodb-flush-log-at-trx-commit=2", "rocksdb-flush-log-at-trx-commit=2"] {
        let (name, _) = knob.split_once('=').unwrap();
        assert_eq!((SERVER.matches(knob).count(), SERVER.matches(name).count()), (1, 1), "{knob}");
        let in_words = knob.replace('-', "_").replace('=', " = ");
        assert!(KNOBS.iter().any(|[_, _, second, _]| second.contains(&in_words)), "{in_words}");
    }
}

#[test]
fn our_engines_are_opened_as_the_table_says() {
    for durability in MODES {
        let lsm = LsmOptions::new(&settings(durability), CompactionStyle::Leveled);
        let millis = if let Durability::EveryMillis(millis) = durability { millis } else { 0 };
        assert_eq!(lsm.writes.sync, durability == Durability::Commit);
        assert_eq!(lsm.database.wal_sync_interval_millis, millis);
        let (_, btree) = EngineKind::Btree.btree_options(&settings(durability));
        assert_eq!(btree.durability, durability);
    }
}

#[test]
fn what_the_table_refuses_is_refused_and_nothing_else() {
    let row_of = |kind: EngineKind| {
        let name = match kind {
            EngineKind::Memory | EngineKind::Null => return None,
            kind if kind.is_btree() => "Siltstone's B-tree",
            kind if kind.is_lsm() => "Siltstone",
            kind => kind.name(),
        };
        let is_meant =
            |knobs: &&Knobs| knobs[0].split(',').next().is_some_and(|first| first.eq_ignore_ascii_case(name));
        Some(KNOBS.iter().find(is_meant).unwrap())
    };
    for &kind in EngineKind::ALL {
        let Some(knobs) = row_of(kind) else { continue };
        for (durability, cell) in MODES.into_iter().zip(&knobs[1..]) {
            let dir = tempfile::tempdir().unwrap();
            let refusal = kind.open_kv(&dir.path().join("db"), &settings(durability)).err().map(|error| error.kind());
            assert_eq!(refusal, (*cell == REFUSED).then_some(ErrorKind::NotSupported), "{kind} at {durability}");
        }
    }
}
