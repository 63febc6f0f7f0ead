//! Every byte flipped, every length tried: which of them are noticed, and what stays readable beside the damage.
//!
//! With a stride above 1 a sample of them, for every run; all of them by `scripts/damage-all`.

use super::corpus::{Corpus, DIR, FAMILIES, Rows, options};
use super::wounds::Wound;
use siltstone::lsm::{Db, Error, ErrorKind, ReadOptions, WalRecoveryMode};
use siltstone_base::env::sim::SimDisk;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Bytes of one block of a WAL or MANIFEST, and of the header of a piece of a record: where a header does not fit, nothing is stored.
const LOG_BLOCK_LEN: u64 = 32 << 10;
const LOG_HEADER_LEN: u64 = 7;

/// What came of a flip or a cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// An error names the file and the offset.
    Located,
    /// An error names the file: it is missing, or bad as a whole.
    Named,
    /// All rows are there: no row depends on the byte.
    Harmless,
    /// The last commits are gone, which were in a WAL alone.
    Shorter,
}

/// How often each verdict came, by kind of file.
pub type Tally = BTreeMap<(&'static str, Verdict), usize>;

/// The kind of a file.
pub fn kind(path: &Path) -> &'static str {
    let name = path.file_name().unwrap().to_string_lossy();
    let kinds = [("MANIFEST", "MANIFEST"), ("CURRENT", "CURRENT"), ("IDENTITY", "IDENTITY"), ("OPTIONS", "OPTIONS")];
    match kinds.iter().find(|(start, _)| name.starts_with(start)) {
        Some((_, kind)) => kind,
        None if name.ends_with(".sst") => "table",
        None if name.ends_with(".log") => "WAL",
        None => "other",
    }
}

/// Whether no row depends on this byte of a file, and nothing checks it.
fn is_unprotected(path: &Path, offset: u64) -> bool {
    match kind(path) {
        "IDENTITY" | "OPTIONS" | "other" => true,
        "MANIFEST" | "WAL" => offset % LOG_BLOCK_LEN > LOG_BLOCK_LEN - LOG_HEADER_LEN,
        _ => false,
    }
}

fn open(disk: &SimDisk, mode: WalRecoveryMode) -> Result<Db, Error> {
    Db::open_read_only(DIR, &options(disk).wal_recovery_mode(mode), &[])
}

/// Reads everything; says whether it is what it should be, or tells all.
fn read_all(db: &Db, wanted: &Rows) -> Result<Option<Rows>, Error> {
    let mut found = None;
    for (index, name) in FAMILIES.iter().enumerate() {
        let family = db.family(name).ok_or_else(|| Error::new(ErrorKind::NotFound, "a column family is gone"))?;
        let mut iter = db.iter_cf(&family, &ReadOptions::default())?;
        iter.seek_to_first();
        let mut wanted = wanted[index].iter();
        while iter.valid() {
            let next = wanted.next();
            if next.is_none_or(|(key, value)| (key.as_slice(), value.as_slice()) != (iter.key(), iter.value())) {
                found.get_or_insert_with(Rows::default);
            }
            iter.next();
        }
        iter.status()?;
        if wanted.next().is_some() {
            found.get_or_insert_with(Rows::default);
        }
    }
    let Some(mut rows) = found else { return Ok(None) };
    for (index, name) in FAMILIES.iter().enumerate() {
        let mut iter = db.iter_cf(&db.family(name).unwrap(), &ReadOptions::default())?;
        iter.seek_to_first();
        while iter.valid() {
            rows[index].insert(iter.key().to_vec(), iter.value().to_vec());
            iter.next();
        }
    }
    Ok(Some(rows))
}

fn verdict_of(error: &Error, path: &Path, context: &str) -> Verdict {
    let of_damage = [ErrorKind::Corruption, ErrorKind::MissingFile, ErrorKind::NotSupported, ErrorKind::LimitExceeded];
    assert!(of_damage.contains(&error.kind()), "{context}: {error}");
    assert!(error.file().is_some(), "{context}: no file in: {error}");
    assert_eq!(error.file(), Some(path), "{context}: another file in: {error}");
    if error.offset().is_some() { Verdict::Located } else { Verdict::Named }
}

/// Opens and reads what is damaged. The database must not be what it never was.
fn judge(disk: &SimDisk, corpus: &Corpus, path: &Path, mode: WalRecoveryMode, context: &str) -> (Verdict, Option<Db>) {
    let db = match open(disk, mode) {
        Ok(db) => db,
        Err(error) => return (verdict_of(&error, path, context), None),
    };
    let verdict = match read_all(&db, corpus.states.last().unwrap()) {
        Err(error) => verdict_of(&error, path, context),
        Ok(None) => Verdict::Harmless,
        Ok(Some(rows)) if corpus.states.contains(&rows) => Verdict::Shorter,
        Ok(Some(_)) => panic!("{context}: rows that were at no time the database's"),
    };
    (verdict, Some(db))
}

/// Some keys of each family, evenly spread.
fn probes(corpus: &Corpus) -> Vec<(usize, Vec<u8>)> {
    let rows = corpus.states.last().unwrap();
    let of = |index: usize| {
        let step = (rows[index].len() / 24).max(1);
        rows[index].keys().step_by(step).map(move |key| (index, key.clone())).collect::<Vec<_>>()
    };
    (0..FAMILIES.len()).flat_map(of).collect()
}

/// Which probes cannot be read. Those that can have their right values.
fn unreadable(db: Option<&Db>, corpus: &Corpus, probes: &[(usize, Vec<u8>)], context: &str) -> BTreeSet<usize> {
    let rows = corpus.states.last().unwrap();
    let db = db.unwrap_or_else(|| panic!("{context}: a damaged table keeps the database closed"));
    let families = FAMILIES.map(|name| db.family(name).unwrap());
    let mut refused = BTreeSet::new();
    for (number, (family, key)) in probes.iter().enumerate() {
        match db.get_cf(&families[*family], key, &ReadOptions::default()) {
            Ok(value) => assert_eq!(value.as_deref(), rows[*family].get(key).map(Vec::as_slice), "{context}"),
            Err(_) => drop(refused.insert(number)),
        }
    }
    refused
}

/// The probes that cannot be read when all of a table is garbage.
fn reach(corpus: &Corpus, path: &Path, probes: &[(usize, Vec<u8>)]) -> BTreeSet<usize> {
    let disk = corpus.disk.after_process_death();
    let len = disk.env().file_len(path).unwrap();
    assert!(Wound::Fill(0, len, 0xA5).apply(&disk, path));
    let db = open(&disk, WalRecoveryMode::PointInTime).unwrap();
    unreadable(Some(&db), corpus, probes, "garbage")
}

/// Flips a bit of every `stride`-th byte of every file.
pub fn flip(corpus: &Corpus, first: u64, stride: u64) -> Tally {
    let disk = corpus.disk.after_process_death();
    let probes = probes(corpus);
    let mut tally = Tally::new();
    for path in corpus.files() {
        let len = disk.env().file_len(&path).unwrap();
        let is_table = kind(&path) == "table";
        let reach = if is_table { reach(corpus, &path, &probes) } else { BTreeSet::new() };
        for offset in (first..len).step_by(stride as usize) {
            let context = format!("{}, byte {offset}", path.display());
            let mask = 1 << (offset % 8);
            disk.flip(&path, offset, mask).unwrap();
            // Where any damage of a WAL is to be an error, none of it passes for the torn end that a crash leaves.
            let (verdict, db) = judge(&disk, corpus, &path, WalRecoveryMode::AbsoluteConsistency, &context);
            match verdict {
                Verdict::Harmless => assert!(is_unprotected(&path, offset), "{context}: nothing noticed"),
                Verdict::Shorter => panic!("{context}: commits are gone"),
                Verdict::Named => panic!("{context}: nothing says where"),
                Verdict::Located => {}
            }
            if kind(&path) == "WAL" {
                judge(&disk, corpus, &path, WalRecoveryMode::PointInTime, &context);
            }
            if is_table {
                let refused = unreadable(db.as_ref(), corpus, &probes, &context);
                assert!(refused.is_subset(&reach), "{context}: keys of other tables cannot be read");
            }
            *tally.entry((kind(&path), verdict)).or_default() += 1;
            disk.flip(&path, offset, mask).unwrap();
        }
    }
    tally
}

/// Cuts every file at every `stride`-th length.
pub fn cut(corpus: &Corpus, first: u64, stride: u64) -> Tally {
    let probes = probes(corpus);
    let mut tally = Tally::new();
    for path in corpus.files() {
        let disk = corpus.disk.after_process_death();
        let len = disk.env().file_len(&path).unwrap();
        let is_table = kind(&path) == "table";
        let reach = if is_table { reach(corpus, &path, &probes) } else { BTreeSet::new() };
        let lengths: Vec<u64> = (first..len).step_by(stride as usize).collect();
        for at in lengths.into_iter().rev() {
            let context = format!("{} cut at {at}", path.display());
            assert!(Wound::Truncate(at).apply(&disk, &path));
            let (verdict, db) = judge(&disk, corpus, &path, WalRecoveryMode::PointInTime, &context);
            match (kind(&path), verdict) {
                ("WAL", Verdict::Shorter | Verdict::Harmless) => {}
                ("IDENTITY" | "OPTIONS" | "other", Verdict::Harmless) => {}
                ("WAL" | "IDENTITY" | "OPTIONS" | "other", _) => panic!("{context}: {verdict:?}"),
                (_, Verdict::Located | Verdict::Named) => {}
                (_, Verdict::Shorter | Verdict::Harmless) => panic!("{context}: nothing noticed"),
            }
            if is_table {
                let refused = unreadable(db.as_ref(), corpus, &probes, &context);
                assert!(refused.is_subset(&reach), "{context}: keys of other tables cannot be read");
            }
            *tally.entry((kind(&path), verdict)).or_default() += 1;
        }
    }
    tally
}

/// Runs `work` on each of `shares` interleaved shares at the same time, and adds up.
pub fn in_shares(stride: u64, shares: u64, work: impl Fn(u64, u64) -> Tally + Sync) -> Tally {
    let tallies: Vec<Tally> = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..shares)
            .map(|share| (share * stride, &work))
            .map(|(first, work)| scope.spawn(move || work(first, stride * shares)))
            .collect();
        handles.into_iter().map(|handle| handle.join().unwrap()).collect()
    });
    let mut sum = Tally::new();
    for (cell, count) in tallies.into_iter().flatten() {
        *sum.entry(cell).or_default() += count;
    }
    sum
}

/// The size of every file, by kind.
pub fn sizes(corpus: &Corpus) -> BTreeMap<&'static str, (usize, u64)> {
    let mut sizes = BTreeMap::new();
    for path in corpus.files() {
        let (files, bytes) = sizes.entry(kind(&path)).or_insert((0, 0));
        *files += 1;
        *bytes += corpus.disk.env().file_len(&path).unwrap();
    }
    sizes
}
