//! A damaged directory: every kind of file, wounded in many ways.
//!
//! Whatever the damage is, opening, reading and compacting end in exactly the right rows or in an error that names the file: no
//! panic, no endless loop, no wrong row, no allocation beyond a bound. A database that was closed cleanly is damaged here, so only
//! a WAL may lose its tail: what is left of its commits is a prefix, the same for both families.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a test")]
#![expect(unsafe_code, reason = "the allocator that counts")]

mod damage_support;

use corpus::{Corpus, DIR, FAMILIES, Rows, build, open, options};
use counting::{Counting, peak_bytes};
use damage_support::{complete, corpus, counting, wounds};
use siltstone::lsm::{CompactRangeOptions, Db, Error, ErrorKind, ReadOptions, WalRecoveryMode};
use siltstone_base::env::sim::SimDisk;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use wounds::{Wound, read, sample};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The bound on memory for opening an untrusted directory, and for reading it: 64 MiB.
const MAX_BYTES: usize = 64 << 20;

/// A database that is opened, read and compacted takes more than this: if less was counted, something else was.
const LEAST_BYTES: usize = 64 << 10;

fn corpora() -> [&'static Corpus; 2] {
    static CORPORA: [OnceLock<Corpus>; 2] = [OnceLock::new(), OnceLock::new()];
    [CORPORA[0].get_or_init(|| build(5, 1)), CORPORA[1].get_or_init(|| build(6, 1))]
}

/// What came of a damaged database.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Verdict {
    /// Everything was there.
    Whole,
    /// A prefix of the commits was there.
    Prefix(usize),
    /// An error said what is wrong.
    Refused,
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

/// Reads everything, in both directions and by key, and says which state it is.
fn read_all(db: &Db, corpus: &Corpus) -> Result<usize, Error> {
    let mut found = Rows::default();
    for (index, name) in FAMILIES.iter().enumerate() {
        let family =
            db.family(name).ok_or_else(|| Error::new(ErrorKind::NotFound, "family").with_file(Path::new(DIR)))?;
        let mut iter = db.iter_cf(&family, &ReadOptions::default())?;
        iter.seek_to_first();
        while iter.valid() {
            found[index].insert(iter.key().to_vec(), iter.value().to_vec());
            iter.next();
        }
        iter.status()?;
    }
    let Some(state) = corpus.states.iter().rposition(|state| *state == found) else {
        panic!("rows that were at no time the database's");
    };
    Ok(state)
}

/// Every key is read alone: found as in one of the states, or refused.
fn read_each(db: &Db, corpus: &Corpus, state: Option<usize>) -> usize {
    let mut refused = 0;
    for (index, name) in FAMILIES.iter().enumerate() {
        let Some(family) = db.family(name) else { continue };
        for number in (0..1_200).step_by(4) {
            let key = format!("key{number:05}");
            match db.get_cf(&family, &key, &ReadOptions::default()) {
                Ok(value) => {
                    let legal = |state: &Rows| state[index].get(key.as_bytes()).map(Vec::as_slice) == value.as_deref();
                    let is_legal = match state {
                        Some(state) => legal(&corpus.states[state]),
                        None => corpus.states.iter().any(legal),
                    };
                    assert!(is_legal, "a key has a value that it never had");
                }
                Err(error) => {
                    check_error(&error, "get");
                    refused += 1;
                }
            }
        }
    }
    refused
}

/// Opens, reads, compacts and closes a damaged database.
fn judge(disk: &SimDisk, corpus: &Corpus, context: &str) -> Verdict {
    let db = match open(disk, corpus.format_version, false) {
        Ok(db) => db,
        Err(error) => {
            check_error(&error, context);
            return Verdict::Refused;
        }
    };
    let state = match read_all(&db, corpus) {
        Ok(state) => Some(state),
        Err(error) => {
            check_error(&error, context);
            None
        }
    };
    let refused = read_each(&db, corpus, state);
    assert!(state.is_none() || refused == 0, "{context}: an iterator passed what a get refused");
    let mut whole = state;
    for name in FAMILIES {
        let Some(family) = db.family(name) else { continue };
        let forced = CompactRangeOptions::default().force_bottommost(true);
        if let Err(error) = db.compact_range(&family, None, None, &forced) {
            check_error(&error, context);
            whole = None;
        }
    }
    if let Some(state) = whole {
        assert_eq!(read_all(&db, corpus).unwrap(), state, "{context}: compaction changed the rows");
    }
    if let Err(error) = db.close() {
        check_error(&error, context);
    }
    match state {
        None => Verdict::Refused,
        Some(state) if state + 1 == corpus.states.len() => Verdict::Whole,
        Some(state) => Verdict::Prefix(state),
    }
}

/// Counts of verdicts.
#[derive(Debug, Default)]
struct Tally {
    whole: usize,
    prefix: usize,
    refused: usize,
    peak: usize,
}

/// Damages a copy and judges it.
fn try_wound(corpus: &Corpus, path: &Path, wound: &Wound, tally: &mut Tally) -> Verdict {
    let disk = corpus.disk.after_process_death();
    let context = format!("format {}, {}, {}", corpus.format_version, path.display(), short(wound));
    if !wound.apply(&disk, path) {
        return Verdict::Whole;
    }
    let mut verdict = None;
    let peak = peak_bytes(|| {
        verdict = Some(catch_unwind(AssertUnwindSafe(|| judge(&disk, corpus, &context))));
    });
    let verdict = verdict.unwrap().unwrap_or_else(|_| panic!("{context}: see the panic above"));
    assert!(peak < MAX_BYTES, "{context}: {peak} bytes allocated");
    tally.peak = tally.peak.max(peak);
    match &verdict {
        Verdict::Whole => tally.whole += 1,
        Verdict::Prefix(_) => tally.prefix += 1,
        Verdict::Refused => tally.refused += 1,
    }
    verdict
}

fn short(wound: &Wound) -> String {
    let text = format!("{wound:?}");
    text.chars().take(60).collect()
}

fn is_wal(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "log")
}

/// Samples wounds of some files; only a WAL may lose anything without an error.
fn sample_files(corpus: &Corpus, files: &[PathBuf], count: u64) {
    let mut tally = Tally::default();
    for (seed, path) in files.iter().enumerate() {
        let len = corpus.disk.env().file_len(path).unwrap();
        for wound in sample(len, count, seed as u64) {
            let verdict = try_wound(corpus, path, &wound, &mut tally);
            let may_lose = is_wal(path);
            assert!(may_lose || !matches!(verdict, Verdict::Prefix(_)), "{}: {}", path.display(), short(&wound));
        }
    }
    println!("format {}: {tally:?}", corpus.format_version);
    assert!(tally.whole + tally.prefix + tally.refused > 20);
    assert!(tally.peak > LEAST_BYTES, "{} bytes", tally.peak);
}

#[test]
fn the_corpus_has_levels_families_and_a_wal() {
    for corpus in corpora() {
        let tables = corpus.files_with("sst").len();
        assert!(tables > 12, "{tables} tables");
        assert_eq!(corpus.files_with("log").len(), 1);
        let disk = corpus.disk.after_process_death();
        let db = open(&disk, corpus.format_version, false).unwrap();
        assert!(FAMILIES.iter().all(|family| corpus::levels(&db, family) >= 2));
        db.check().unwrap();
        drop(db);
        assert_eq!(judge(&corpus.disk.after_process_death(), corpus, "undamaged"), Verdict::Whole);
    }
}

#[test]
fn a_damaged_table_is_refused_or_read_rightly() {
    for corpus in corpora() {
        let tables = corpus.files_with("sst");
        // One deep table fully, the others by a few wounds.
        sample_files(corpus, &tables[..1], 120);
        let others: Vec<PathBuf> = tables.iter().skip(1).step_by(6).cloned().collect();
        sample_files(corpus, &others, 6);
    }
}

#[test]
fn a_damaged_manifest_is_refused_or_read_rightly() {
    for corpus in corpora() {
        let manifests: Vec<PathBuf> =
            corpus.files().into_iter().filter(|path| path.to_string_lossy().contains("MANIFEST")).collect();
        sample_files(corpus, &manifests, 160);
    }
}

#[test]
fn a_damaged_wal_gives_a_prefix_the_same_for_both_families() {
    for corpus in corpora() {
        sample_files(corpus, &corpus.files_with("log"), 160);
    }
}

#[test]
fn a_torn_wal_keeps_every_commit_before_the_tear() {
    let corpus = corpora()[1];
    let path = &corpus.files_with("log")[0];
    let len = corpus.disk.env().file_len(path).unwrap();
    let mut last = 0;
    let mut tally = Tally::default();
    for end in (0..=len).step_by(23) {
        let state = match try_wound(corpus, path, &Wound::Truncate(end), &mut tally) {
            Verdict::Prefix(state) => state,
            Verdict::Whole => corpus.states.len() - 1,
            Verdict::Refused => panic!("a torn tail at {end} is refused"),
        };
        assert!(state >= last, "a longer WAL gave fewer commits");
        last = state;
    }
    assert!(last + 2 >= corpus.states.len() && tally.prefix > 30);
}

#[test]
fn a_torn_wal_is_refused_where_any_damage_is_to_be() {
    let corpus = corpora()[1];
    let path = &corpus.files_with("log")[0];
    let len = corpus.disk.env().file_len(path).unwrap();
    let disk = corpus.disk.after_process_death();
    assert!(Wound::Truncate(len - 1).apply(&disk, path));
    let strict = options(&disk).wal_recovery_mode(WalRecoveryMode::AbsoluteConsistency);
    let error = Db::open(DIR, &strict).unwrap_err();
    assert_eq!((error.kind(), error.file()), (ErrorKind::Corruption, Some(path.as_path())));
    assert!(error.offset().is_some());
}

#[test]
fn current_that_names_nothing_is_refused() {
    let corpus = corpora()[1];
    let current = Path::new(DIR).join("CURRENT");
    let contents: [&[u8]; 8] = [
        b"",
        b"\n",
        b"MANIFEST-999999\n",
        b"MANIFEST-000001",
        b"../../etc/passwd\n",
        b"MANIFEST-99999999999999999999999\n",
        &[0xFF; 40],
        &[b'M'; 100_000],
    ];
    let mut tally = Tally::default();
    for content in contents {
        let verdict = try_wound(corpus, &current, &Wound::Replace(content.to_vec()), &mut tally);
        assert_eq!(verdict, Verdict::Refused, "{:?}", String::from_utf8_lossy(&content[..content.len().min(40)]));
    }
    let len = corpus.disk.env().file_len(&current).unwrap();
    for wound in sample(len, len, 3) {
        assert_eq!(try_wound(corpus, &current, &wound, &mut tally), Verdict::Refused, "{}", short(&wound));
    }
}

#[test]
fn other_files_matter_to_no_row() {
    let corpus = corpora()[1];
    let mut tally = Tally::default();
    for name in ["IDENTITY", "LOCK"] {
        let path = Path::new(DIR).join(name);
        let len = corpus.disk.env().file_len(&path).unwrap();
        let mut wounds = vec![Wound::Remove, Wound::Extend(vec![0xFF; 3]), Wound::Replace(vec![b'x'; 100])];
        wounds.extend((0..len).map(|at| Wound::Flip(at, 0x80)));
        for wound in wounds {
            assert_eq!(try_wound(corpus, &path, &wound, &mut tally), Verdict::Whole, "{name}: {}", short(&wound));
        }
    }
}

/// Bytes of the right form in the wrong place.
#[test]
fn a_table_of_another_database_under_the_same_number_is_not_read_as_ours() {
    for corpus in corpora() {
        let other = build(corpus.format_version, 2);
        let mut tally = Tally::default();
        let env = other.disk.env();
        for path in corpus.files_with("sst") {
            if !env.exists(&path).unwrap() {
                continue;
            }
            let wound = Wound::Replace(read(&env, &path));
            assert_eq!(try_wound(corpus, &path, &wound, &mut tally), Verdict::Refused, "{}", path.display());
        }
        // And tables of this database under each other's number.
        for pair in corpus.files_with("sst").chunks(2) {
            let [first, second] = pair else { continue };
            let wound = Wound::Replace(read(&corpus.disk.env(), second));
            assert_eq!(try_wound(corpus, first, &wound, &mut tally), Verdict::Refused, "{}", first.display());
        }
        assert!(tally.refused > 5);
    }
}

/// Pieces of one table in each other's place: from format 6 on the checksum of a block depends on where it is.
#[test]
fn blocks_that_trade_places_are_noticed() {
    for corpus in corpora() {
        let mut tally = Tally::default();
        for path in corpus.files_with("sst").iter().step_by(4) {
            let len = corpus.disk.env().file_len(path).unwrap();
            for len_of_piece in [64, 512] {
                for at in (0..len.saturating_sub(2 * len_of_piece)).step_by(len_of_piece as usize * 2) {
                    let wound = Wound::Swap(at, at + len_of_piece, len_of_piece);
                    assert!(!matches!(try_wound(corpus, path, &wound, &mut tally), Verdict::Prefix(_)));
                }
            }
        }
        assert!(tally.refused > 20, "{tally:?}");
    }
}

/// Rows of one size make blocks of one size; among all lengths tried is theirs, so that whole blocks trade places.
#[test]
fn whole_blocks_that_trade_places_hide_no_row() {
    for format_version in [5, 6] {
        let corpus = corpus::build_even(format_version);
        let path = &corpus.files_with("sst")[0];
        let mut tally = Tally::default();
        for len in 400..700 {
            let verdict = try_wound(&corpus, path, &Wound::Swap(0, len, len), &mut tally);
            assert_eq!(verdict, Verdict::Refused, "format {format_version}: blocks of {len} bytes");
        }
    }
}

/// A damaged table costs its own range only.
#[test]
fn ranges_beside_a_damaged_table_stay_readable() {
    let corpus = corpora()[1];
    for path in corpus.files_with("sst").iter().step_by(3) {
        let disk = corpus.disk.after_process_death();
        let len = disk.env().file_len(path).unwrap();
        assert!(Wound::Fill(0, len, 0xA5).apply(&disk, path));
        let db = open(&disk, corpus.format_version, false).unwrap();
        let refused = read_each(&db, corpus, None);
        // 300 keys of each family are read; no table of the corpus holds a third of them.
        assert!(refused < 200, "{}: {refused} keys of 600 cannot be read", path.display());
    }
}

/// A flush of one family makes the WALs beneath durable before it counts. Damage there is no torn tail: to stop at it would leave
/// one family at an earlier moment than the other.
#[test]
fn damage_of_a_wal_that_a_flush_made_durable_never_splits_the_families() {
    let corpus = corpus::build_two_wals(6);
    let wals = corpus.files_with("log");
    assert_eq!(wals.len(), 2);
    let mut tally = Tally::default();
    let len = corpus.disk.env().file_len(&wals[0]).unwrap();
    for wound in sample(len, 60, 5) {
        let verdict = try_wound(&corpus, &wals[0], &wound, &mut tally);
        assert!(!matches!(verdict, Verdict::Prefix(_)), "{}", short(&wound));
    }
    assert!(tally.refused > 100, "{tally:?}");
    // On request recovery stops there all the same, and says nothing of an error.
    let disk = corpus.disk.after_process_death();
    assert!(Wound::Remove.apply(&disk, &wals[0]));
    let error = open(&disk, 6, false).unwrap_err();
    assert_eq!((error.kind(), error.file()), (ErrorKind::MissingFile, Some(wals[0].as_path())));
    Db::open(DIR, &options(&disk).wal_recovery_mode(WalRecoveryMode::SkipAnyCorruptedRecords)).unwrap();
    // The newer one may be torn.
    sample_files(&corpus, &wals[1..], 60);
}

/// One byte in so many is flipped, and one length in so many is tried, unless `SILTSTONE_DAMAGE_ALL` asks for all. Prime, so that all places
/// within a block come.
const STRIDE: u64 = 1_009;

fn stride() -> u64 {
    if std::env::var_os("SILTSTONE_DAMAGE_ALL").is_some() { 1 } else { STRIDE }
}

fn shares() -> u64 {
    std::thread::available_parallelism().map_or(1, |threads| threads.get() as u64)
}

fn print_tally(what: &str, tally: &complete::Tally) {
    for ((kind, verdict), count) in tally {
        println!("{what} | {kind} | {verdict:?} | {count}");
    }
}

/// No flipped byte changes a row without an error that says where, and keys of other tables stay readable.
#[test]
fn every_flipped_byte_is_noticed_or_on_the_list_of_those_that_no_row_needs() {
    let corpus = corpus::build_256_kib(6);
    let sizes = complete::sizes(&corpus);
    println!("{sizes:?}");
    let bytes: u64 = sizes.values().map(|(_, bytes)| bytes).sum();
    assert!((240 << 10..280 << 10).contains(&bytes), "{bytes} bytes: {sizes:?}");
    let tally = complete::in_shares(stride(), shares(), |first, stride| complete::flip(&corpus, first, stride));
    print_tally("flipped", &tally);
    assert!(tally.values().sum::<usize>() as u64 >= bytes / stride());
}

/// A WAL that ends too early gives a prefix of the commits; any other file that does is refused, and keys of other tables stay readable.
#[test]
fn every_length_of_every_file_is_an_error_or_a_torn_wal() {
    let corpus = corpus::build_256_kib(6);
    let tally = complete::in_shares(stride(), shares(), |first, stride| complete::cut(&corpus, first, stride));
    print_tally("cut", &tally);
    assert!(tally.keys().any(|(kind, _)| *kind == "WAL") && tally.keys().any(|(kind, _)| *kind == "table"));
}
