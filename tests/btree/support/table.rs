//! A table with two indexes beside the trees of a script.

use super::{Draw, Op, State, key};
use siltstone_base::engine::{Row, TableId, TableSpec};
use siltstone_base::index_spec::IndexSpec;
use siltstone_btree::{Db, Error, Result};
use std::collections::{BTreeMap, BTreeSet};

/// The name under which its rows stand in a state.
pub const TABLE: &str = "stones";

/// Columns of a value, each of an index.
const COLUMNS: [std::ops::Range<usize>; 2] = [0..4, 4..8];

/// What is done to rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    Insert,
    Update,
    Delete,
}

pub fn spec() -> TableSpec {
    let index = |(at, column): (usize, &std::ops::Range<usize>)| {
        IndexSpec::over_columns(format!("column{at}"), Some(column.clone()))
    };
    TableSpec { name: TABLE.to_owned(), indexes: COLUMNS.iter().enumerate().map(index).collect() }
}

/// A value whose columns are anywhere.
pub fn value(draw: &mut Draw) -> Vec<u8> {
    let mut value = draw.next().to_be_bytes().to_vec();
    value.resize(8 + draw.below(20) as usize, 7);
    value
}

/// A step that changes rows of the table, or makes what waits for its indexes be merged; others between them.
pub fn step(draw: &mut Draw, keys: u64) -> Op {
    match draw.below(100) {
        0..60 => {
            let verb = [Verb::Insert, Verb::Insert, Verb::Update, Verb::Delete][draw.below(4) as usize];
            // An update changes a row and two entries each way: an eighth of a small pool has room for one.
            let count = if verb == Verb::Update { 1 } else { 1 + draw.below(2) };
            Op::Rows(verb, (0..count).map(|_| (draw.below(keys), value(draw))).collect())
        }
        60..70 => Op::Scan(draw.below(2) as usize, draw.next(), 1 + draw.below(6) as usize),
        70..76 => Op::Put(0, key(draw.below(keys)), vec![1; draw.below(90) as usize]),
        76..84 => Op::Pause(1 + draw.below(2_500)),
        84..88 => Op::MergeChanges,
        88..92 => Op::Sync,
        92..96 => Op::Flush,
        _ => Op::Reopen,
    }
}

/// Those of some rows for which a verb has a meaning.
pub fn drafts(verb: Verb, rows: &[(u64, Vec<u8>)], now: &BTreeMap<Vec<u8>, Vec<u8>>) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let named = rows.iter().map(|(number, value)| (key(*number), value.clone()));
    named.filter(|(key, _)| now.contains_key(key) == (verb != Verb::Insert)).collect()
}

/// Changes rows of the table as one batch.
pub fn apply(db: &Db, verb: Verb, new: &BTreeMap<Vec<u8>, Vec<u8>>, now: &BTreeMap<Vec<u8>, Vec<u8>>) -> Result<()> {
    let table = db.open_table(&spec())?;
    let new: Vec<_> = new.iter().map(|(primary_key, value)| Row { primary_key, value }).collect();
    let old = new.iter().filter_map(|row| now.get_key_value(row.primary_key));
    let old: Vec<_> = old.map(|(primary_key, value)| Row { primary_key, value }).collect();
    match verb {
        Verb::Insert => db.insert(table, &new),
        Verb::Update => db.update_rows(table, &old.into_iter().zip(new).collect::<Vec<_>>()),
        Verb::Delete => db.delete_rows(table, &old),
    }
}

fn index_of(db: &Db, table: TableId, index: usize, from: &[u8], most: usize) -> Result<Vec<Vec<u8>>> {
    let mut found = Vec::new();
    db.scan_index(table, index, from, most, &mut |entry| found.push(entry.to_vec()))?;
    Ok(found)
}

fn entries(rows: &BTreeMap<Vec<u8>, Vec<u8>>, index: usize) -> BTreeSet<Vec<u8>> {
    rows.iter().map(|(key, value)| [&value[COLUMNS[index].clone()], key].concat()).collect()
}

/// Reads entries of an index, which must be those of the rows.
pub fn scan(db: &Db, index: usize, from: u64, most: usize, rows: &BTreeMap<Vec<u8>, Vec<u8>>) -> Result<()> {
    let from = from.to_be_bytes();
    let found = index_of(db, db.open_table(&spec())?, index, &from, most)?;
    let expected: Vec<_> = entries(rows, index).into_iter().filter(|entry| entry[..] >= from[..]).take(most).collect();
    if found == expected { Ok(()) } else { Err(Error::corrupt("an index does not fit its rows")) }
}

/// Reads the rows of the table, if there is one, and its indexes, which must fit.
pub fn read(db: &Db, state: &mut State) -> Result<()> {
    if !db.table_names().iter().any(|name| name == TABLE) {
        return Ok(());
    }
    let table = db.open_table(&spec())?;
    let mut rows = BTreeMap::new();
    let mut note = |row: Row<'_>| drop(rows.insert(row.primary_key.to_vec(), row.value.to_vec()));
    db.scan_rows(table, b"", usize::MAX, &mut note)?;
    for index in 0..COLUMNS.len() {
        if !index_of(db, table, index, b"", usize::MAX)?.iter().eq(&entries(&rows, index)) {
            return Err(Error::corrupt("an index does not fit its rows"));
        }
    }
    state.insert(TABLE.to_owned(), rows);
    Ok(())
}
