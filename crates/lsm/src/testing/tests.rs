//! The checks find what they are for, and every decoder takes any bytes.

use super::*;
use crate::{ColumnFamilyOptions, ErrorKind};
use proptest::prelude::*;
use siltstone_base::comparator::{Bytewise, Comparator, ReverseBytewise};
use siltstone_base::entry_filter::{Decision, EntryFilter};
use std::cmp::Ordering;
use std::sync::Arc;

/// An order with a mistake.
#[derive(Debug, Clone, Copy)]
enum Wrong {
    NotTotal,
    EqualThoughDifferent,
    Separator,
    Successor,
    NotBytewise,
}

impl Comparator for Wrong {
    fn name(&self) -> &str {
        "test.Wrong"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        match self {
            // Rock, paper, scissors.
            Self::NotTotal if a != b && a.len() == 1 && b.len() == 1 => (a[0] + 1).rem_euclid(3).cmp(&(b[0] % 3)),
            Self::EqualThoughDifferent => a.len().cmp(&b.len()),
            Self::NotBytewise => b.cmp(a),
            _ => a.cmp(b),
        }
    }

    fn is_bytewise(&self) -> bool {
        matches!(self, Self::NotBytewise)
    }

    fn shortest_separator(&self, start: &[u8], limit: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(if matches!(self, Self::Separator) { limit } else { start });
    }

    fn short_successor(&self, key: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(if matches!(self, Self::Successor) { b"" } else { key });
    }
}

#[test]
fn wrong_orders_are_found() {
    let keys: Vec<Vec<u8>> = (0..3).map(|byte| vec![byte]).chain([b"ab".to_vec(), b"ba".to_vec()]).collect();
    check_comparator(&Bytewise, &keys).unwrap();
    check_comparator(&ReverseBytewise, &keys).unwrap();
    for wrong in [Wrong::NotTotal, Wrong::EqualThoughDifferent, Wrong::Separator, Wrong::Successor, Wrong::NotBytewise]
    {
        check_comparator(&wrong, &keys).expect_err(&format!("{wrong:?}"));
    }
}

/// Halves values down to one byte, and then removes them.
#[derive(Debug)]
struct Halve;

impl EntryFilter for Halve {
    fn name(&self) -> &str {
        "test.Halve"
    }

    fn filter(&self, _: usize, _: &[u8], value: &[u8]) -> Decision {
        if value.len() < 2 { Decision::Remove } else { Decision::Change(value[..value.len() / 2].to_vec()) }
    }
}

#[test]
fn the_model_knows_what_a_filter_may_make_of_a_row() {
    let mut model = Model::new(Arc::new(Bytewise), Some(Arc::new(Halve)));
    model.put(b"k", b"abcd");
    let legal = |model: &Model| model.legal(b"k").iter().map(|row| row.as_ref().map(Vec::len)).collect::<Vec<_>>();
    assert_eq!(legal(&model), [Some(4), Some(2), Some(1), None]);
    assert!(model.see(b"k", Some(b"ab")) && !model.see(b"k", Some(b"abcd")));
    assert!(model.see(b"k", None) && !model.see(b"k", Some(b"a")));
    model.put(b"k", b"x");
    assert_eq!(legal(&model), [Some(1), None]);
}

/// An order that is not the one that the database was made with.
#[test]
fn the_checker_finds_an_engine_that_shows_other_rows() {
    #[derive(Debug)]
    struct Fickle(std::sync::atomic::AtomicUsize);
    impl EntryFilter for Fickle {
        fn name(&self) -> &str {
            "test.Fickle"
        }

        fn filter(&self, _: usize, _: &[u8], _: &[u8]) -> Decision {
            let calls = self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            Decision::Change(calls.to_be_bytes().to_vec())
        }
    }
    let filter = Arc::new(Fickle(Default::default()));
    let checker = Checker::new(ColumnFamilyOptions::default().compaction_filter(Some(filter)));
    let steps = [Step::Put(b"k".to_vec(), b"v".to_vec()), Step::Flush, Step::Compact, Step::Get(b"k".to_vec())];
    let failure = checker.run(&steps).unwrap_err();
    assert!(failure.to_string().starts_with("step 2, Compact: "), "{failure}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn engines_with_orders_and_filters_are_as_the_model_says(
        steps in steps(keys(), values(), 1..80),
        reversed: bool,
        filtered: bool,
    ) {
        let order: Arc<dyn Comparator> = if reversed { Arc::new(ReverseBytewise) } else { Arc::new(Bytewise) };
        let filter = filtered.then(|| Arc::new(Halve) as Arc<dyn EntryFilter>);
        let checker = Checker::new(ColumnFamilyOptions::default().comparator(order).compaction_filter(filter));
        prop_assert_eq!(checker.run(&steps), Ok(()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn engines_with_merge_operators_are_as_the_model_says(
        steps in steps_with_merges(keys(), values(), values(), 1..60),
    ) {
        let operator = Arc::new(crate::AppendOperator::new(","));
        let checker = Checker::new(ColumnFamilyOptions::default().merge_operator(Some(operator)));
        prop_assert_eq!(checker.run(&steps), Ok(()));
    }
}

/// Cuts values and removes some; does the same to operands, whatever they were joined of.
#[derive(Debug)]
struct Tidy;

impl EntryFilter for Tidy {
    fn name(&self) -> &str {
        "test.Tidy"
    }

    fn filter(&self, _: usize, _: &[u8], value: &[u8]) -> Decision {
        match value {
            [first, ..] if first % 4 == 0 => Decision::Remove,
            value if value.len() > 12 => Decision::Change(value[..12].to_vec()),
            _ => Decision::Keep,
        }
    }

    fn filter_operand(&self, _: usize, _: &[u8], operand: &[u8]) -> Decision {
        match operand {
            [first, ..] if first % 4 == 1 => Decision::Remove,
            operand if operand.len() > 16 => Decision::Change(operand[..16].to_vec()),
            _ => Decision::Keep,
        }
    }
}

#[test]
fn the_model_follows_a_filter_between_merges() {
    let operator = Arc::new(crate::AppendOperator::new(","));
    let mut model = Model::new(Arc::new(Bytewise), Some(Arc::new(Tidy))).merging(Some(operator));
    model.put(b"k", b"\x04a");
    model.merge(b"k", b"\x05b").unwrap();
    model.merge(b"k", b"c").unwrap();
    let text = |row: &Option<Vec<u8>>| row.as_ref().map_or("-".to_owned(), |row| row.escape_ascii().to_string());
    let legal = |model: &Model| {
        let mut legal: Vec<_> = model.legal(b"k").iter().map(text).collect();
        legal.sort();
        legal.join(" ")
    };
    // The value goes, alone or with what was merged into it; the first operand goes, alone or joined with the second.
    let all = r"- \x04a \x04a,\x05b,c \x04a,c \x05b,c c";
    assert_eq!(legal(&model), all);
    assert!(!model.see(b"k", Some(b"\x04a,\x05b")));
    assert!(model.see(b"k", Some(b"c")));
    assert_eq!(legal(&model), "c");
    model.merge(b"k", b"d").unwrap();
    assert_eq!(legal(&model), "c,d");
    assert!(model.see(b"k", Some(b"c,d")));
    model.delete_range(b"a", b"k");
    assert_eq!(model.rows().len(), 1);
    model.delete_range(b"k", b"z");
    assert_eq!((model.rows().len(), legal(&model)), (0, "-".to_owned()));
    model.merge(b"k", b"\x08e").unwrap();
    assert_eq!(legal(&model), r"- \x08e");
    assert!(model.see(b"k", None) && !model.see(b"k", Some(b"\x08e")));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn engines_with_merge_operators_and_filters_are_as_the_model_says(
        steps in steps_with_merges(few_keys(), values(), prop::collection::vec(0..9_u8, 0..10), 1..60),
    ) {
        let operator = Arc::new(crate::AppendOperator::new(","));
        let options = ColumnFamilyOptions::default().merge_operator(Some(operator));
        let checker = Checker::new(options.compaction_filter(Some(Arc::new(Tidy))));
        prop_assert_eq!(checker.run(&steps), Ok(()));
    }
}

/// So few that most are merged into.
fn few_keys() -> BoxedStrategy<Vec<u8>> {
    (0..12_u8).prop_map(|number| format!("key{number:02}").into_bytes()).boxed()
}

/// Whole encodings, to be damaged: of a batch, an edit, a log, a table without checksums, and so on.
fn seeds() -> Vec<Vec<u8>> {
    use siltstone_base::env::sim::SimDisk;
    use siltstone_base::env::{FileKind, read_file};
    let disk = SimDisk::new();
    let executor = siltstone_base::executor::StepExecutor::new(Arc::new(siltstone_base::clock::ManualClock::new(0)));
    let options = crate::DbOptions::default().create_if_missing(true);
    let options = options.env(Some(disk.env())).executor(Some(Arc::new(executor)));
    let mut seeds = Vec::new();
    for version in [5, 6] {
        let dir = format!("/db{version}");
        let table = crate::TableOptions::default().format_version(version).checksum(crate::ChecksumType::None);
        let table = table.block_size(256).bloom_bits_per_key(10.0);
        let family = ColumnFamilyOptions::default().table(table).compression(crate::CompressionType::Lz4);
        let db = crate::Db::open_families(&dir, &options, &[("default", family)]).unwrap();
        for number in 0..60_u32 {
            db.put(format!("key{number:04}"), [number as u8; 30]).unwrap();
        }
        db.flush(&crate::FlushOptions::default()).unwrap();
        db.put("key0007", "later").unwrap();
        db.delete("key0008").unwrap();
        db.close().unwrap();
        for entry in disk.env().list_dir(dir.as_ref()).unwrap() {
            let path = std::path::Path::new(&dir).join(entry.name);
            let file = read_file(&*disk.env(), &path, FileKind::Other, 1 << 20).unwrap();
            // Records and blocks are within: what is behind the header of the first record of a log, and the first block of a table.
            seeds.extend(file.get(7..).map(<[u8]>::to_vec));
            seeds.extend(file.get(..280).map(<[u8]>::to_vec));
            seeds.push(file);
        }
    }
    // An entity of two columns, and a blob behind the reference to it.
    seeds.push(b"\x01\x02\x00\x03\x01a\x02defxy".to_vec());
    let mut blob = [&[5, 1, 9, 65, 5, 0][..], &2_395_959_u32.to_le_bytes(), &[1], &[0; 25]].concat();
    blob.extend([&3_u64.to_le_bytes()[..], &5_u64.to_le_bytes(), &[0; 16], b"keyvalue"].concat());
    seeds.push(blob);
    seeds.retain(|seed| !seed.is_empty());
    seeds
}

fn feed(bytes: &[u8]) -> Result<(), TestCaseError> {
    for (name, decoder) in DECODERS {
        if let Err(error) = decoder(bytes) {
            prop_assert!(decoders::is_of_bytes(error.kind()), "{}: {}", name, error);
        }
    }
    Ok(())
}

#[test]
fn whole_files_are_read_to_their_end() {
    let seeds = seeds();
    let readable = |name: &str| seeds.iter().filter(|seed| decode(name, seed).is_ok()).count();
    for name in ["table", "log", "footer"] {
        assert!(readable(name) >= 2, "{name}");
    }
    for name in ["blob", "entity"] {
        assert!(readable(name) >= 1, "{name}");
    }
    assert_eq!(decode("nothing", b"").unwrap_err().kind(), ErrorKind::NotFound);
}

/// The fuzzer's crate is no part of the workspace: what it consists of is compared letter by letter, and so it compiles.
#[test]
#[expect(clippy::disallowed_methods, reason = "reads the source tree")]
fn every_decoder_has_a_fuzz_target() {
    let _: fn(&str, &[u8]) = fuzz;
    let fuzz = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
    let mut wanted = Vec::new();
    let manifest = std::fs::read_to_string(fuzz.join("Cargo.toml")).unwrap();
    let (head, bins) = manifest.split_at(manifest.find("[[bin]]").unwrap());
    assert!(head.contains("siltstone-lsm = { path = \"../crates/lsm\", features = [\"testing\"] }"), "{head}");
    let mut bins_wanted = Vec::new();
    for (name, _) in DECODERS {
        let target = std::fs::read_to_string(fuzz.join(format!("fuzz_targets/{name}.rs"))).unwrap();
        let (about, code) = target.split_once("\n\n").unwrap();
        assert!(about.starts_with("//! Any bytes as "), "{name}: {about}");
        let wanted_code = format!(
            "#![no_main]\n\nuse libfuzzer_sys::fuzz_target;\n\n\
             fuzz_target!(|data: &[u8]| siltstone_lsm::testing::fuzz(\"{name}\", data));\n"
        );
        assert_eq!(code, wanted_code, "{name}");
        bins_wanted.push(format!(
            "[[bin]]\nname = \"{name}\"\npath = \"fuzz_targets/{name}.rs\"\ntest = false\ndoc = false\nbench = false\n"
        ));
        wanted.push(format!("{name}.rs"));
    }
    // Those of the other engine stand behind, and its own tests hold them to the same.
    assert!(bins.starts_with(&bins_wanted.join("\n")), "{bins}");
    let entries = std::fs::read_dir(fuzz.join("fuzz_targets")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut found: Vec<_> = names.filter(|name| !name.starts_with("btree_")).collect();
    found.sort();
    wanted.sort();
    assert_eq!(found, wanted);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn every_decoder_takes_any_bytes(bytes in prop::collection::vec(prop_oneof![0..16_u8, any::<u8>()], 0..300)) {
        feed(&bytes)?;
    }

    #[test]
    fn every_decoder_takes_damaged_files(
        seed: prop::sample::Index,
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut: prop::sample::Index,
        is_cut in prop::bool::weighted(0.2),
    ) {
        static SEEDS: std::sync::OnceLock<Vec<Vec<u8>>> = std::sync::OnceLock::new();
        let mut bytes = seed.get(SEEDS.get_or_init(seeds)).clone();
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if is_cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        feed(&bytes)?;
    }
}
