//! What RocksDB's own tool says of tables written here. Skipped where the tool is not installed.

use crate::key::{InternalKey, ValueType};
use crate::options::{ChecksumType, CompressionType, DataBlockIndexType, IndexType, TableOptions};
use crate::sst::TableBuilder;
use crate::sst::test_util::builder_options;
use siltstone_base::env::{Env, FileKind, FileOptions, PosixEnv};
use siltstone_base::prefix_extractor::FixedPrefix;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

const SST_DUMP: &str = "/usr/bin/sst_dump";

fn sst_dump(path: &Path, arguments: &[&str]) -> String {
    let output = Command::new(SST_DUMP).arg(format!("--file={}", path.display())).args(arguments).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    text
}

/// Several versions of each key, so many that some files need internal keys as separators.
fn entries(versions: u64) -> Vec<(InternalKey, Vec<u8>)> {
    let mut entries = Vec::new();
    for number in 0..500 {
        let user_key = format!("user{number:05}");
        for version in (0..versions).rev() {
            let (value_type, value) = match (number + version) % 5 {
                0 => (ValueType::Delete, Vec::new()),
                1 => (ValueType::SingleDelete, Vec::new()),
                2 => (ValueType::Merge, b"operand".to_vec()),
                _ => (ValueType::Put, format!("value{number}.{version}").repeat(10).into_bytes()),
            };
            entries.push((InternalKey::new(user_key.as_bytes(), number * 100 + version + 1, value_type), value));
        }
    }
    entries
}

#[test]
fn rocksdb_reads_tables_of_version_5() {
    let dir = tempfile::tempdir().unwrap();
    let env = PosixEnv::new();
    if !env.exists(Path::new(SST_DUMP)).unwrap() {
        println!("skipped: {SST_DUMP} is not installed");
        return;
    }
    let codecs = [CompressionType::None, CompressionType::Snappy, CompressionType::Lz4, CompressionType::Zstd];
    let checksums = [ChecksumType::Xxh3, ChecksumType::Crc32c, ChecksumType::XxHash64, ChecksumType::XxHash];
    for (round, (codec, checksum)) in codecs.into_iter().zip(checksums).enumerate() {
        let kind =
            [IndexType::BinarySearch, IndexType::TwoLevel, IndexType::BinarySearchWithFirstKey, IndexType::HashSearch]
                [round % 4];
        for versions in [1, 40] {
            let table = TableOptions::default()
                .format_version(5)
                .block_size(1024)
                .checksum(checksum)
                .index_block_restart_interval(1 + round)
                .index_type(kind)
                .data_block_index_type(
                    [DataBlockIndexType::BinarySearch, DataBlockIndexType::BinarySearchAndHash][round % 2],
                )
                .metadata_block_size(512)
                .bloom_bits_per_key(10.0);
            let path = dir.path().join(format!("{:06}.sst", 10 + 10 * round + versions as usize));
            let file = env.create_append(&path, &FileOptions::new(FileKind::Table)).unwrap();
            let mut options = builder_options(table, codec);
            options.prefix_extractor = Some(Arc::new(FixedPrefix::new(6)));
            let mut builder = TableBuilder::new(file, path.clone(), options).unwrap();
            let entries = entries(versions);
            for (key, value) in &entries {
                builder.add(key.as_bytes(), value).unwrap();
            }
            builder.finish().unwrap();

            sst_dump(&path, &["--command=verify", "--verify_checksum"]);
            let scan = sst_dump(&path, &["--command=scan"]);
            let found: Vec<&str> = scan.lines().filter(|line| line.starts_with('\'')).collect();
            let expected: Vec<String> = entries
                .iter()
                .map(|(key, value)| {
                    let user_key = String::from_utf8_lossy(key.user_key()).into_owned();
                    let value_type = key.as_bytes()[key.as_bytes().len() - 8];
                    let value = String::from_utf8_lossy(value).into_owned();
                    format!("'{user_key}' seq:{}, type:{value_type} => {value}", key.seqno())
                })
                .collect();
            assert_eq!(found, expected);
            let properties = sst_dump(&path, &["--command=none", "--show_properties"]);
            assert!(properties.contains(&format!("# entries: {}", entries.len())), "{properties}");
            assert!(properties.contains(codec.property_name()), "{properties}");
        }
    }
}
