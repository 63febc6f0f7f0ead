//! Round trips through every codec, sizes that lie, and bytes that are garbage.

use super::*;
use crate::coding::put_varint32;
use crate::{ErrorKind, Result};
use proptest::prelude::*;

const CODECS: [CompressionType; 6] = [
    CompressionType::None,
    CompressionType::Snappy,
    CompressionType::Zlib,
    CompressionType::Lz4,
    CompressionType::Lz4hc,
    CompressionType::Zstd,
];

fn decode(ty: CompressionType, stored: &[u8], limit: usize) -> Result<Vec<u8>> {
    let mut out = vec![0; decompressed_len(ty, stored, limit)?];
    decompress_into(ty, stored, &mut out)?;
    Ok(out)
}

fn encode(ty: CompressionType, input: &[u8]) -> Vec<u8> {
    let mut stored = Vec::new();
    Compressor::new(ty, DEFAULT_LEVEL).unwrap().compress(input, &mut stored).unwrap();
    stored
}

#[test]
fn numbers_and_names_are_those_of_the_format() {
    let rows = [
        (0, "NoCompression", "kNoCompression"),
        (1, "Snappy", "kSnappyCompression"),
        (2, "Zlib", "kZlibCompression"),
        (3, "BZip2", "kBZip2Compression"),
        (4, "LZ4", "kLZ4Compression"),
        (5, "LZ4HC", "kLZ4HCCompression"),
        (7, "ZSTD", "kZSTD"),
    ];
    for (number, property, option) in rows {
        let ty = CompressionType::from_u8(number).unwrap();
        assert_eq!((ty as u8, ty.property_name(), ty.option_name()), (number, property, option));
        assert_eq!(CompressionType::from_property_name(property), Some(ty));
        assert_eq!(CompressionType::from_option_name(option), Some(ty));
    }
    assert_eq!(CompressionType::from_u8(0x40), Some(CompressionType::Zstd));
    for number in [6, 8, 0x80, 0xfe, 0xff] {
        assert_eq!(CompressionType::from_u8(number), None);
    }
}

#[test]
fn framing_is_that_of_format_version_2() {
    let input = [b'x'; 300];
    for ty in [CompressionType::Lz4, CompressionType::Zstd] {
        let stored = encode(ty, &input);
        assert_eq!(stored[..2], [0xac, 0x02], "{ty:?} begins with the size");
        assert!(stored.len() < 40);
    }
    assert_eq!(encode(CompressionType::Zstd, &input)[2..6], [0x28, 0xb5, 0x2f, 0xfd]);
    assert_eq!(encode(CompressionType::Snappy, &input)[..2], [0xac, 0x02], "Snappy's own size");
    assert_eq!(encode(CompressionType::None, &input), input);
}

#[test]
fn unsupported_codecs_are_named() {
    let ty = CompressionType::Bzip2;
    let mut errors = vec![Compressor::new(ty, 0).map(|_| 0).unwrap_err()];
    if !ty.is_read() {
        errors.push(decompressed_len(ty, &[1, 2], 10).unwrap_err());
        errors.push(decompress_into(ty, &[1, 2], &mut [0]).map(|()| 0).unwrap_err());
    }
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::NotSupported);
        assert!(error.message().contains(ty.property_name()));
    }
}

/// `hello hello hello hello`, by Python's `bz2`.
#[cfg(feature = "bzip2")]
#[test]
fn bzip2_is_read() {
    let mut stored = vec![23];
    let hex = "425a683931415926535902f8b0bd000003910040000244a00030cd00548696719b38a3c5dc914e142400be2c2f40";
    stored.extend((0..hex.len() / 2).map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap()));
    assert_eq!(decode(CompressionType::Bzip2, &stored, 100).unwrap(), b"hello hello hello hello");
    for (at, wrong) in [(0, 22), (0, 24), (20, 0)] {
        let mut damaged = stored.clone();
        damaged[at] = wrong;
        assert_eq!(decode(CompressionType::Bzip2, &damaged, 100).unwrap_err().kind(), ErrorKind::Corruption);
    }
    stored.truncate(30);
    assert_eq!(decode(CompressionType::Bzip2, &stored, 100).unwrap_err().kind(), ErrorKind::Corruption);
}

/// A raw stream of Python's `zlib` with a window of 14 bits, and one with a dictionary.
#[test]
fn deflate_is_that_of_zlib() {
    let unhex =
        |hex: &str| (0..hex.len() / 2).map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap()).collect();
    let mut stored: Vec<u8> = unhex("cb48cdc9c957c8402701");
    stored.insert(0, 23);
    assert_eq!(decode(CompressionType::Zlib, &stored, 100).unwrap(), b"hello hello hello hello");
    let mut stored: Vec<u8> = unhex("431202f301");
    stored.insert(0, 16);
    let dictionary = DecompressionDictionary::new(b"the dictionary of words");
    let mut out = [0; 16];
    decompress_into_with_dictionary(CompressionType::Zlib, &stored, &dictionary, &mut out).unwrap();
    assert_eq!(&out, b"dictionary words");
    assert!(decode(CompressionType::Zlib, &stored, 100).is_err());
}

#[test]
fn declared_sizes_are_checked_before_anything_is_allocated() {
    let lz4 = |len, body: usize| {
        let mut stored = Vec::new();
        put_varint32(&mut stored, len);
        stored.resize(stored.len() + body, 0);
        stored
    };
    let kind = |ty, stored: &[u8], limit| decompressed_len(ty, stored, limit).map_err(|error| error.kind());
    assert_eq!(kind(CompressionType::Lz4, &lz4(2550, 10), 4096), Ok(2550));
    assert_eq!(kind(CompressionType::Lz4, &lz4(2551, 10), 4096), Err(ErrorKind::Corruption));
    assert_eq!(kind(CompressionType::Lz4, &lz4(2550, 10), 2549), Err(ErrorKind::LimitExceeded));
    assert_eq!(kind(CompressionType::Zstd, &lz4(u32::MAX, 10), usize::MAX), Err(ErrorKind::LimitExceeded));
    assert_eq!(kind(CompressionType::Zstd, &lz4(MAX_BLOCK_LEN as u32, 10), usize::MAX), Ok(MAX_BLOCK_LEN));
    let large = MAX_BLOCK_LEN / 64 * 65;
    assert_eq!(kind(CompressionType::Zstd, &lz4(large as u32, 10), usize::MAX), Err(ErrorKind::LimitExceeded));
    assert_eq!(kind(CompressionType::Zstd, &lz4(large as u32, large / 64), usize::MAX), Ok(large));
    assert_eq!(kind(CompressionType::Snappy, &lz4(1000, 10), 4096), Err(ErrorKind::Corruption));
    assert_eq!(kind(CompressionType::None, &[0; 100], 99), Err(ErrorKind::LimitExceeded));
    for ty in [CompressionType::Lz4, CompressionType::Zstd, CompressionType::Snappy] {
        assert_eq!(kind(ty, &[], 4096), Err(ErrorKind::Corruption), "{ty:?}");
        assert_eq!(kind(ty, &[0xff; 6], 4096), Err(ErrorKind::Corruption), "{ty:?}");
    }
}

#[test]
fn a_size_that_lies_is_corruption() {
    let input = b"to be or not to be, that is the question; to be or not to be".repeat(20);
    for ty in [CompressionType::Lz4, CompressionType::Zstd, CompressionType::Snappy, CompressionType::Zlib] {
        let stored = encode(ty, &input);
        for wrong in [input.len() - 1, input.len() + 1] {
            let mut lying = Vec::new();
            put_varint32(&mut lying, wrong as u32);
            lying.extend_from_slice(&stored[2..]);
            assert_eq!(decode(ty, &lying, 1 << 20).unwrap_err().kind(), ErrorKind::Corruption, "{ty:?}");
            let mut out = vec![0; wrong];
            assert!(decompress_into(ty, &stored, &mut out).is_err(), "{ty:?}");
        }
    }
}

#[test]
fn a_dictionary_is_needed_to_read_what_it_wrote() {
    let dictionary: Vec<u8> = (0..2000_u32).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    let input = &dictionary[1000..3000];
    let digested = DecompressionDictionary::new(&dictionary);
    assert!(digested.memory_usage() > dictionary.len());
    for ty in CompressionType::ALL.into_iter().filter(|ty| ty.has_dictionaries()) {
        let mut compressor = Compressor::with_dictionary(ty, 3, &dictionary).unwrap();
        for _ in 0..2 {
            let mut stored = Vec::new();
            compressor.compress(input, &mut stored).unwrap();
            assert!(stored.len() < 100, "{ty:?} uses the dictionary");
            let mut out = vec![0; input.len()];
            decompress_into_with_dictionary(ty, &stored, &digested, &mut out).unwrap();
            assert_eq!(out, input);
            assert!(decode(ty, &stored, 1 << 20).map_or(true, |plain| plain != input));
        }
    }
}

#[test]
fn dictionaries_are_learned_from_samples() {
    let sample = |number: u32| format!("user={number:06} city=Amsterdam street=Damrak {}", number % 97).into_bytes();
    let samples: Vec<Vec<u8>> = (0..2000).map(sample).collect();
    let lens: Vec<usize> = samples.iter().map(Vec::len).collect();
    let dictionary = train_dictionary(&samples.concat(), &lens, 2048);
    assert!(!dictionary.is_empty() && dictionary.len() <= 2048);
    let len = |dictionary: &[u8]| {
        let mut stored = Vec::new();
        let mut compressor = Compressor::with_dictionary(CompressionType::Zstd, 3, dictionary).unwrap();
        compressor.compress(&sample(123_456), &mut stored).unwrap();
        stored.len()
    };
    assert!(len(&dictionary) < len(&[]));
    assert_eq!(train_dictionary(&[], &[], 1000), b"");
    assert_eq!(train_dictionary(b"one", &[3], 1000), b"", "too few samples");
}

fn inputs() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..600),
        proptest::collection::vec(0u8..3, 0..5000),
        (proptest::collection::vec(any::<u8>(), 1..40), 1usize..3000).prop_map(|(unit, times)| unit.repeat(times)),
    ]
}

proptest! {
    #[test]
    fn every_codec_returns_what_it_was_given(blocks in proptest::collection::vec(inputs(), 1..4)) {
        for ty in CODECS {
            let mut compressor = Compressor::new(ty, DEFAULT_LEVEL).unwrap();
            for block in &blocks {
                let mut stored = vec![9];
                compressor.compress(block, &mut stored).unwrap();
                prop_assert_eq!(stored[0], 9);
                prop_assert_eq!(&decode(ty, &stored[1..], 1 << 20).unwrap(), block);
            }
        }
    }

    #[test]
    fn damaged_blocks_never_panic(block in inputs(), at: usize, bit in 0u8..8, cut: usize) {
        for ty in CODECS {
            let mut stored = encode(ty, &block);
            if !stored.is_empty() {
                let at = at % stored.len();
                stored[at] ^= 1 << bit;
                let _ = decode(ty, &stored, 1 << 20);
                stored.truncate(cut % stored.len());
                let _ = decode(ty, &stored, 1 << 20);
            }
        }
    }

    #[test]
    fn garbage_never_panics(bytes: Vec<u8>) {
        for ty in CompressionType::ALL {
            let _ = decode(ty, &bytes, 1 << 20);
        }
    }
}
