//! Every decoder under any bytes, and under bytes of its own kind with some of them changed.

use super::*;
use crate::page::{OverflowRef, Stamp, build, seal};
use crate::redo::{encode_change, encode_drop};
use proptest::prelude::*;

/// Something that each decoder understands.
fn seeds() -> Vec<Vec<u8>> {
    let reference = OverflowRef { len: 3000, first: 9, last: 14 }.encode();
    let stamped = [&Stamp { id: 7, number: 3 }.encode()[..], b"value"].concat();
    let cells = [
        Cell { flags: 0, key: b"granite", value: b"igneous" },
        Cell { flags: page::FLAG_OVERFLOW, key: b"marble", value: &reference },
        Cell { flags: page::FLAG_STAMP, key: b"slate", value: &stamped },
    ];
    let mut leaf = build(512, &Header { left: 3, ..Header::empty(PageKind::Leaf, 0, 512) }, cells).unwrap();
    seal(&mut leaf, PageId::new(1, 2), 77);
    let children = [(&b""[..], 3_u32.to_le_bytes()), (b"m", 4_u32.to_le_bytes())];
    let children = children.each_ref().map(|(key, value)| Cell { flags: 0, key, value });
    let inner = build(512, &Header::empty(PageKind::Inner, 1, 512), children).unwrap();
    let mut record = Vec::new();
    encode_change(&mut record, PageId::new(1, 2), &Change::Image(&Change::image(&leaf)));
    encode_change(&mut record, PageId::new(1, 2), &Change::Insert { slot: 1, cell: cells[0] });
    encode_drop(&mut record, 4);
    let compressed = {
        let mut compressor = page::PageCompressor::new(crate::PageCompression::Lz4).unwrap().unwrap();
        let (mut source, mut out) = (leaf.clone(), vec![0; 512]);
        compressor.compress(&mut source, PageId::new(1, 2), 77, &mut out).unwrap();
        out
    };
    let mut seeds = vec![leaf, inner, record, compressed, b"page_size 4096\nid 00\n".to_vec()];
    seeds.extend(doors::seeds());
    seeds.extend(undo::seeds());
    seeds
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_bytes_make_a_decoder_panic(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        for (name, _) in DECODERS {
            fuzz(name, &bytes);
        }
    }

    #[test]
    fn no_damage_makes_a_decoder_panic(
        which in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
        end in any::<prop::sample::Index>(),
        is_cut in proptest::bool::weighted(0.3),
    ) {
        let seeds = seeds();
        let mut bytes = which.get(&seeds).clone();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if is_cut {
            bytes.truncate(end.index(bytes.len()));
        }
        for (name, _) in DECODERS {
            fuzz(name, &bytes);
        }
    }
}

/// The fuzzer's crate is no part of the workspace: what it consists of is compared letter by letter, and so it compiles.
#[test]
#[expect(clippy::disallowed_methods, reason = "reads the source tree")]
fn every_decoder_has_a_fuzz_target() {
    let _: fn(&str, &[u8]) = fuzz;
    let fuzz = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
    let manifest = std::fs::read_to_string(fuzz.join("Cargo.toml")).unwrap();
    assert!(manifest.contains("siltstone-btree = { path = \"../crates/btree\", features = [\"testing\"] }"));
    for (name, _) in DECODERS {
        let target = std::fs::read_to_string(fuzz.join(format!("fuzz_targets/{name}.rs"))).unwrap();
        let (about, code) = target.split_once("\n\n").unwrap();
        assert!(about.starts_with("//! Any bytes as "), "{name}: {about}");
        let wanted = format!(
            "#![no_main]\n\nuse libfuzzer_sys::fuzz_target;\n\n\
             fuzz_target!(|data: &[u8]| siltstone_btree::testing::fuzz(\"{name}\", data));\n"
        );
        assert_eq!(code, wanted, "{name}");
        let bin = format!(
            "[[bin]]\nname = \"{name}\"\npath = \"fuzz_targets/{name}.rs\"\ntest = false\ndoc = false\nbench = false\n"
        );
        assert!(manifest.contains(&bin), "{name}");
    }
    let entries = std::fs::read_dir(fuzz.join("fuzz_targets")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert_eq!(names.filter(|name| name.starts_with("btree_")).count(), DECODERS.len());
}
