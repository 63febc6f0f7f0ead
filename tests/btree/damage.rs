//! A damaged directory of the B-tree engine: every byte flipped, every length of every file tried.
//!
//! Whatever the damage is, opening, reading and checking end in exactly the right rows or in an error that names a file: no panic, no endless loop, no wrong row. Damage of the redo
//! log of a database that was not closed may look like the end of what was written: then the rows are those after a prefix of the commits.

#![expect(clippy::unwrap_used, reason = "a test")]

use crate::support::{DIR, Life, Op, Runner, State, key, new_disk, options, read_all};
use siltstone_base::env::sim::SimDisk;
use siltstone_base::env::{FileKind, FileOptions, IoContext, IoPriority};
use siltstone_btree::{DbOptions, Durability, Error, ErrorKind};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// A database, and what its rows were after each commit.
struct Corpus {
    disk: SimDisk,
    options: DbOptions,
    states: Vec<State>,
    is_closed: bool,
}

fn build(is_closed: bool) -> Corpus {
    let options = options(Durability::Os);
    let disk = new_disk();
    let life = Life::new(&disk, &options);
    let mut runner = Runner::new(life).unwrap();
    let put = |number: u64, len: usize| Op::Put(number.is_multiple_of(3).into(), key(number), vec![number as u8; len]);
    let mut ops = vec![Op::CreateTree];
    ops.extend((0..70).map(|number| put(number * 37 % 70, 40)));
    ops.extend([put(100, 1_200), put(101, 900), Op::Flush]);
    ops.extend((0..12).map(|number| put(number * 5, 60)));
    ops.push(Op::Delete(0, key(20)));
    ops.push(Op::Batch((40..46).map(|number| (0, key(number), (number != 43).then(|| vec![1; 30]))).collect()));
    ops.extend([put(100, 1_000), Op::Pause(30)]);
    ops.extend((0..6).map(|number| put(number * 9, 50)));
    for op in &ops {
        runner.step(op).unwrap();
    }
    let db = runner.db.take().unwrap();
    if is_closed {
        db.close().unwrap();
    } else {
        db.sync().unwrap();
    }
    let left = disk.after_process_death();
    disk.power_off();
    drop(db);
    runner.life.executor.abandon_all();
    Corpus { disk: left, options, states: runner.history.states, is_closed }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    /// An error said what is wrong.
    Noticed,
    /// All rows are there, and the trees are whole.
    Harmless,
    /// The last commits are gone, which were in the redo log alone.
    Shorter,
}

type Tally = BTreeMap<(&'static str, Verdict), usize>;

fn kind(path: &Path) -> &'static str {
    let name = path.file_name().unwrap().to_string_lossy();
    let kinds = [("redo", "redo log"), ("double", "doublewrite"), ("IDENT", "IDENTITY"), ("RESID", "RESIDENT")];
    match kinds.iter().find(|(start, _)| name.starts_with(start)) {
        Some((_, kind)) => kind,
        None if name.ends_with(".pages") => "pages",
        None => "other",
    }
}

/// An error that a caller can act on: it says which file is bad.
fn check_error(error: &Error, context: &str) {
    let of_damage = [ErrorKind::Corruption, ErrorKind::MissingFile, ErrorKind::NotSupported, ErrorKind::LimitExceeded];
    let mut cause = error.clone();
    if cause.kind() == ErrorKind::ReadOnly {
        let source = std::error::Error::source(&cause).and_then(|source| source.downcast_ref::<Error>()).cloned();
        cause = source.unwrap_or(cause);
    }
    assert!(of_damage.contains(&cause.kind()), "{context}: {error}");
    assert!(cause.file().is_some(), "{context}: no file in: {error}");
}

/// Opens, reads, checks, writes and closes what is damaged.
fn judge(disk: &SimDisk, corpus: &Corpus, path: &Path, context: &str) -> Verdict {
    let life = Life::new(disk, &corpus.options);
    let db = match life.open() {
        Ok(db) => db,
        Err(error) => {
            check_error(&error, context);
            return Verdict::Noticed;
        }
    };
    let found = read_all(&db);
    let checked = db.check();
    let verdict = match (&found, &checked) {
        (Err(error), _) | (Ok(_), Err(error)) => {
            check_error(error, context);
            Verdict::Noticed
        }
        (Ok(found), Ok(_)) if corpus.states.last() == Some(found) => Verdict::Harmless,
        (Ok(_), Ok(_)) => Verdict::Shorter,
    };
    if let Ok(found) = &found {
        let is_last = corpus.states.last() == Some(found);
        let may_be_shorter = !corpus.is_closed && kind(path) == "redo log";
        assert!(
            is_last || (may_be_shorter && corpus.states.contains(found)),
            "{context}: rows that are not the database's"
        );
    }
    for outcome in [db.put("after", "all"), db.close()] {
        if let Err(error) = outcome {
            check_error(&error, context);
            assert_eq!(verdict, Verdict::Noticed, "{context}: {error}");
        }
    }
    verdict
}

fn judge_caught(disk: &SimDisk, corpus: &Corpus, path: &Path, context: &str, tally: &mut Tally) -> Verdict {
    let verdict = catch_unwind(AssertUnwindSafe(|| judge(disk, corpus, path, context)));
    let verdict = verdict.unwrap_or_else(|_| panic!("{context}: see the panic above"));
    *tally.entry((kind(path), verdict)).or_default() += 1;
    verdict
}

/// Whether a byte lies in the bitmap of a tablespace: no row depends on that of a tree without entries of an index.
fn is_bitmap(path: &Path, offset: u64) -> bool {
    kind(path) == "pages" && offset / 512 == 1
}

fn files(corpus: &Corpus) -> Vec<(PathBuf, u64)> {
    let env = corpus.disk.env();
    let names = env.list_dir(Path::new(DIR)).unwrap();
    let paths = names.into_iter().map(|entry| Path::new(DIR).join(entry.name));
    paths.map(|path| (path.clone(), env.file_len(&path).unwrap())).collect()
}

/// One byte in so many is flipped, and one length in so many is tried, unless `SILTSTONE_DAMAGE_ALL` asks for all. Prime, so that all places within a page come.
fn stride() -> u64 {
    if std::env::var_os("SILTSTONE_DAMAGE_ALL").is_some() { 1 } else { 97 }
}

/// Runs `work` on two interleaved shares at the same time, and adds up.
fn in_shares(work: impl Fn(u64, usize) -> Tally + Sync) -> Tally {
    let stride = stride();
    let tallies: Vec<Tally> = std::thread::scope(|scope| {
        let shares = [0, 1].map(|share| {
            scope.spawn({
                let work = &work;
                move || work(share * stride, 2 * stride as usize)
            })
        });
        shares.into_iter().map(|share| share.join().unwrap()).collect()
    });
    let mut sum = Tally::new();
    for (cell, count) in tallies.into_iter().flatten() {
        *sum.entry(cell).or_default() += count;
    }
    sum
}

fn cut(disk: &SimDisk, path: &Path, len: u64) {
    let file = disk.env().open_random_write(path, &FileOptions::new(FileKind::Other)).unwrap();
    file.set_len(len).unwrap();
    file.sync_data(IoContext::new(FileKind::Other, IoPriority::User)).unwrap();
}

#[test]
fn a_flipped_byte_anywhere_is_noticed_or_harmless() {
    for is_closed in [true, false] {
        let corpus = build(is_closed);
        let tally = in_shares(|first, stride| {
            let mut tally = Tally::new();
            for (path, len) in files(&corpus) {
                for offset in (first..len).step_by(stride) {
                    let disk = corpus.disk.after_process_death();
                    disk.flip(&path, offset, 1 << (offset % 8)).unwrap();
                    let context = format!("closed {is_closed}: {}, byte {offset}", path.display());
                    let verdict = judge_caught(&disk, &corpus, &path, &context, &mut tally);
                    let is_page = is_closed && kind(&path) == "pages" && !is_bitmap(&path, offset);
                    assert!(!is_page || verdict == Verdict::Noticed, "{context}: nothing noticed");
                }
            }
            tally
        });
        println!("closed {is_closed}: flipped {tally:?}");
        let count = |kind, verdict| tally.get(&(kind, verdict)).copied().unwrap_or(0);
        assert!(count("pages", Verdict::Noticed) > 10 && count("IDENTITY", Verdict::Noticed) > 0);
        if is_closed {
            assert_eq!(count("doublewrite", Verdict::Noticed), 0, "nobody needs a copy");
        } else {
            assert!(count("redo log", Verdict::Shorter) > 0);
        }
    }
}

#[test]
fn a_file_of_any_other_length_is_noticed_or_harmless() {
    for is_closed in [true, false] {
        let corpus = build(is_closed);
        let tally = in_shares(|first, stride| {
            let mut tally = Tally::new();
            for (path, len) in files(&corpus) {
                for at in (first..len).step_by(stride) {
                    let disk = corpus.disk.after_process_death();
                    cut(&disk, &path, at);
                    let context = format!("closed {is_closed}: {}, cut at {at}", path.display());
                    judge_caught(&disk, &corpus, &path, &context, &mut tally);
                }
            }
            tally
        });
        println!("closed {is_closed}: cut {tally:?}");
        assert!(tally.get(&("pages", Verdict::Noticed)).is_some_and(|count| *count > 10));
    }
}

#[test]
fn what_is_damaged_is_sound_without_the_damage() {
    for is_closed in [true, false] {
        let corpus = build(is_closed);
        println!("{:?}", files(&corpus));
        let path = Path::new(DIR).join("IDENTITY");
        let disk = corpus.disk.after_process_death();
        assert_eq!(judge(&disk, &corpus, &path, "undamaged"), Verdict::Harmless);
        for (path, _) in files(&corpus) {
            let disk = corpus.disk.after_process_death();
            disk.env().remove_file(&path).unwrap();
            let mut tally = Tally::new();
            judge_caught(&disk, &corpus, &path, &format!("closed {is_closed}: without {}", path.display()), &mut tally);
        }
    }
}
