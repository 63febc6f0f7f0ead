//! One entry to every check: an engine says what it has, and all of that is checked, by [`check_all`].

use super::{
    Admin, Capabilities, Isolation, Kv, KvBatch, Row, TableSpec, Tables, TransactionOptions, Transactional,
    conformance, conformance_lazy_tables, conformance_tables, conformance_transactions,
};
use crate::index_spec::IndexSpec;
use crate::{ErrorKind, Result};
use std::path::Path;
use std::time::Duration;

/// How an engine is opened behind each of the traits that it implements, in a directory that may not exist yet.
#[derive(Clone, Copy, Default)]
pub struct Openers<'a> {
    /// As ordered bytes.
    pub kv: Option<&'a conformance::Opener<'a>>,
    /// As tables.
    pub tables: Option<&'a conformance_tables::Opener<'a>>,
    /// As lazy tables.
    pub lazy_tables: Option<&'a conformance_lazy_tables::Opener<'a>>,
    /// As transactions.
    pub transactional: Option<&'a conformance_transactions::Opener<'a>>,
}

/// What was checked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Checked {
    /// The names of the checks that ran.
    pub ran: Vec<&'static str>,
    /// The names of those that did not, because the engine does not claim what they are about.
    pub left_out: Vec<&'static str>,
}

impl Checked {
    fn run(&mut self, is_claimed: bool, name: &'static str, check: impl FnOnce()) {
        if is_claimed {
            check();
            self.ran.push(name);
        } else {
            self.left_out.push(name);
        }
    }
}

const THREADS: usize = 4;
const ROUNDS: usize = 10;

#[track_caller]
fn done<T>(result: Result<T>) -> T {
    result.unwrap_or_else(|error| panic!("{error}"))
}

/// Runs every check of what an engine claims to have. Each uses a directory of its own under `dir`.
///
/// # Panics
///
/// Where the engine is not as it should be: also where it claims what there is no opener for, or has an opener for what it does not claim.
pub fn check_all(openers: &Openers<'_>, dir: &Path) -> Checked {
    let claims = claims(openers, &dir.join("claims"));
    // Each of them is looked at below: whoever adds a capability adds its check.
    let Capabilities {
        kv,
        tables,
        unique_indexes,
        added_indexes,
        lazy_tables,
        transactions,
        conflicts_at_commit,
        concurrent_writers,
        background_work,
        persistent,
    } = claims;
    let at = |name: &str| dir.join(name);
    let mut checked = Checked::default();
    let (by_kv, by_tables) = (openers.kv.filter(|_| kv), openers.tables.filter(|_| tables));
    checked.run(by_kv.is_some(), "kv", || by_kv.into_iter().for_each(|open| conformance::check_kv(open, &at("kv"))));
    checked.run(by_tables.is_some(), "tables", || {
        by_tables.into_iter().for_each(|open| conformance_tables::check_tables(open, &at("tables")));
    });
    checked.run(unique_indexes, "unique indexes", || {
        conformance_tables::check_unique_tables(by_tables.unwrap_or_else(|| panic!("no tables")), &at("unique"));
    });
    checked.run(added_indexes, "added indexes", || {
        conformance_tables::check_added_indexes(by_tables.unwrap_or_else(|| panic!("no tables")), &at("added"));
    });
    checked.run(lazy_tables, "lazy tables", || {
        let open = openers.lazy_tables.unwrap_or_else(|| panic!("no lazy tables"));
        conformance_lazy_tables::check_lazy_tables(open, &at("lazy"));
    });
    checked.run(transactions, "transactions", || {
        let open = openers.transactional.unwrap_or_else(|| panic!("no transactions"));
        match conflicts_at_commit {
            true => conformance_transactions::check_optimistic(open, &at("transactions")),
            false => conformance_transactions::check_transactional(open, &at("transactions")),
        }
        check_increments(&*done(open(&at("increments"))));
    });
    assert!(transactions || !conflicts_at_commit, "conflicts without transactions");
    // Those that take turns lose nothing either.
    let threads = if concurrent_writers { "concurrent writers" } else { "writers in turns" };
    checked.run(true, threads, || {
        by_kv.into_iter().for_each(|open| check_writers(&*done(open(&at("writers")))));
        by_tables.into_iter().for_each(|open| check_inserters(&*done(open(&at("inserters")))));
    });
    checked.run(background_work, "background work", || {
        by_kv.into_iter().for_each(|open| check_settled(&*done(open(&at("settled")))));
    });
    checked.run(persistent, "persistence", || {
        by_kv.into_iter().for_each(|open| check_comes_back(&|| done(open(&at("back")))));
        by_tables.into_iter().for_each(|open| check_tables_come_back(&|| done(open(&at("tables back")))));
    });
    checked
}

/// What the engine says that it has, which must be what it can be opened as.
fn claims(openers: &Openers<'_>, dir: &Path) -> Capabilities {
    let Openers { kv, tables, lazy_tables, transactional } = *openers;
    let mut all = Vec::new();
    if let Some(open) = kv {
        all.push(check_admin(&*done(open(&dir.join("kv")))));
    }
    if let Some(open) = tables {
        all.push(check_admin(&*done(open(&dir.join("tables")))));
    }
    if let Some(open) = lazy_tables {
        all.push(check_admin(&*done(open(&dir.join("lazy")))));
    }
    if let Some(open) = transactional {
        all.push(check_admin(&*done(open(&dir.join("transactional")))));
    }
    let Some(&claimed) = all.first() else { panic!("an engine is opened as something") };
    assert!(all.iter().all(|other| *other == claimed), "the claims do not depend on what it is opened as: {all:?}");
    for (what, is_claimed, is_opened) in [
        ("Kv", claimed.kv, kv.is_some()),
        ("Tables", claimed.tables, tables.is_some()),
        ("LazyTables", claimed.lazy_tables, lazy_tables.is_some()),
        ("Transactional", claimed.transactions, transactional.is_some()),
    ] {
        assert_eq!(is_claimed, is_opened, "{what}: claimed, opened");
    }
    claimed
}

/// What every engine has, while it is empty.
fn check_admin(engine: &dyn Admin) -> Capabilities {
    assert!(!engine.name().is_empty());
    let claims = engine.capabilities();
    done(engine.flush());
    done(engine.settle());
    done(engine.stats());
    done(engine.close());
    done(engine.close());
    assert_eq!(engine.capabilities(), claims);
    claims
}

/// What several threads write at the same time is all there.
fn check_writers(engine: &dyn Kv) {
    let key = |thread: usize, round: usize| format!("{thread} {round:03}").into_bytes();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    done(engine.put(&key(thread, round), b"first"));
                    let mut batch = KvBatch::new();
                    batch.put(&key(thread, round), b"second");
                    batch.put(&key(thread, ROUNDS + round), b"second");
                    done(engine.write(&batch));
                }
            });
        }
    });
    let mut cursor = done(engine.cursor());
    let (mut found, mut count) = (done(cursor.seek_to_first()), 0);
    while found {
        assert_eq!(cursor.value(), b"second");
        count += 1;
        found = done(cursor.next());
    }
    drop(cursor);
    assert_eq!(count, THREADS * ROUNDS * 2);
    done(engine.close());
}

fn one_index(name: &str) -> TableSpec {
    TableSpec { name: name.to_owned(), indexes: vec![IndexSpec::over_columns("first", Some(0..2))] }
}

/// The same for rows, with their index entries.
fn check_inserters(engine: &dyn Tables) {
    let table = done(engine.create_table(&one_index("rows")));
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let key = format!("{thread} {round:03}").into_bytes();
                    let (before, after) =
                        (Row { primary_key: &key, value: b"aa" }, Row { primary_key: &key, value: b"bb" });
                    done(engine.insert(table, &[before]));
                    done(engine.update(table, &[(before, after)]));
                }
            });
        }
    });
    let (mut rows, mut entries) = (0, 0);
    done(engine.scan_rows(table, b"", usize::MAX, &mut |row| rows += usize::from(row.value == b"bb")));
    done(engine.scan_index(table, 0, b"", usize::MAX, &mut |entry| entries += usize::from(entry.starts_with(b"bb"))));
    assert_eq!((rows, entries), (THREADS * ROUNDS, THREADS * ROUNDS));
    done(engine.close());
}

/// Threads that read a number for update and write the next one lose no step, on either level.
fn check_increments(engine: &dyn Transactional) {
    for (level, key) in [(Isolation::ReadCommitted, b"committed"), (Isolation::Snapshot, b"snapshots")] {
        done(engine.put(key, b"0"));
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(move || {
                    for _ in 0..ROUNDS {
                        while let Err(error) = increment(engine, level, key) {
                            let is_conflict =
                                matches!(error.kind(), ErrorKind::Busy | ErrorKind::TimedOut | ErrorKind::Deadlock);
                            assert!(is_conflict, "{error}");
                        }
                    }
                });
            }
        });
        let mut value = Vec::new();
        assert!(done(engine.get(key, &mut value)));
        assert_eq!(String::from_utf8_lossy(&value), (THREADS * ROUNDS).to_string(), "{level:?}");
    }
    done(engine.close());
}

fn increment(engine: &dyn Transactional, level: Isolation, key: &[u8]) -> Result<()> {
    let mut transaction = engine.begin(&TransactionOptions::new(level).lock_timeout(Duration::from_secs(10)))?;
    let mut value = Vec::new();
    assert!(transaction.get_for_update(key, &mut value)?);
    let number: usize = String::from_utf8_lossy(&value).parse().unwrap_or_else(|error| panic!("{error}"));
    transaction.put(key, (number + 1).to_string().as_bytes())?;
    transaction.commit()
}

/// Nothing is owed once the engine has settled.
fn check_settled(engine: &dyn Kv) {
    for round in 0..3 {
        let mut batch = KvBatch::new();
        for number in 0..200 {
            batch.put(format!("{number:05}").as_bytes(), format!("{round}").as_bytes());
        }
        done(engine.write(&batch));
        done(engine.flush());
    }
    done(engine.settle());
    assert_eq!(done(engine.stats()).debt_bytes.unwrap_or(0), 0);
    done(engine.close());
}

fn check_comes_back(open: &dyn Fn() -> Box<dyn Kv>) {
    let engine = open();
    done(engine.put(b"key", b"value"));
    done(engine.close());
    drop(engine);
    let engine = open();
    let mut value = Vec::new();
    assert!(done(engine.get(b"key", &mut value)) && value == b"value");
    done(engine.close());
}

fn check_tables_come_back(open: &dyn Fn() -> Box<dyn Tables>) {
    let engine = open();
    let table = done(engine.create_table(&one_index("rows")));
    done(engine.insert(table, &[Row { primary_key: b"key", value: b"value" }]));
    done(engine.close());
    drop(engine);
    let engine = open();
    let table = done(engine.open_table(&one_index("rows")));
    assert!(done(engine.get_row(table, b"key", &mut |value| assert_eq!(value, b"value"))));
    done(engine.close());
}
