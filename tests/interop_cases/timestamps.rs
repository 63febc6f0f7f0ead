//! Keys that end with 64-bit timestamps, as RocksDB writes them.

use crate::tools;
use ::siltstone::lsm::{Db, DbOptions, ErrorKind, ReadOptions};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Timestamp, sequence number, and the value unless it is deleted.
type Version = (u64, u64, Option<Vec<u8>>);

/// `db_bench` writes and deletes keys with timestamps, into tables and a WAL. What is stored an independent reader says; what of it is true when, this test.
#[test]
fn keys_with_timestamps_are_read_as_of_any() {
    let Some((tools, python)) = tools() else { return };
    for benchmarks in ["fillrandom,deleterandom,overwrite", "fillrandom,deleterandom,compact,overwrite"] {
        let dir = tempfile::tempdir().unwrap();
        let arguments = [
            &format!("--benchmarks={benchmarks}"),
            "--user_timestamp_size=8",
            "--num=2500",
            "--value_size=12",
            "--write_buffer_size=65536",
            "--compression_type=none",
            "--bloom_bits=10",
            "--seed=11",
        ];
        tools.bench(dir.path(), &arguments);
        python.check_bytes(dir.path());
        // Of each key, newest first.
        let mut versions: BTreeMap<Vec<u8>, Vec<Version>> = BTreeMap::new();
        let mut timestamps = Vec::new();
        for (key, seqno, kind, value) in python.dumped_versions(dir.path()) {
            let (bare, timestamp) = key.split_last_chunk::<8>().unwrap();
            let timestamp = u64::from_le_bytes(*timestamp);
            timestamps.push(timestamp);
            versions.entry(bare.to_vec()).or_default().push((timestamp, seqno, (kind == 1).then_some(value)));
        }
        timestamps.sort_unstable();
        versions.values_mut().for_each(|versions| versions.sort_by_key(|(time, seqno, _)| Reverse((*time, *seqno))));
        assert!(versions.values().flatten().any(|version| version.2.is_none()), "tombstones");

        let error = Db::open(dir.path(), &DbOptions::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotSupported);
        let db = Db::open_read_only(dir.path(), &DbOptions::default(), &[]).unwrap();
        db.check().unwrap();
        let moments = [0, 1, 3, 5, 8].map(|eighths| timestamps[eighths * (timestamps.len() - 1) / 8]);
        for timestamp in moments.into_iter().map(Some).chain([None, Some(0)]) {
            let options = ReadOptions::default().timestamp(timestamp);
            let newest = timestamp.unwrap_or(u64::MAX);
            let row = |(key, versions): (&Vec<u8>, &Vec<Version>)| {
                let seen = versions.iter().find(|version| version.0 <= newest)?;
                Some((key.clone(), seen.0, seen.2.clone()?))
            };
            let expected: Vec<_> = versions.iter().filter_map(row).collect();
            let mut iter = db.iter(&options).unwrap();
            let mut found = Vec::new();
            iter.seek_to_first();
            while iter.valid() {
                found.push((iter.key().to_vec(), iter.timestamp().unwrap(), iter.value().to_vec()));
                iter.next();
            }
            iter.status().unwrap();
            assert!(found == expected, "{} rows instead of {} at {timestamp:?}", found.len(), expected.len());
            iter.seek_to_last();
            for (key, timestamp, value) in expected.iter().rev() {
                assert_eq!((iter.key(), iter.timestamp(), iter.value()), (&key[..], Some(*timestamp), &value[..]));
                iter.prev();
            }
            for (number, key) in versions.keys().enumerate().filter(|(number, _)| number % 7 == 0) {
                let value = expected.iter().find(|row| row.0 == *key).map(|row| &row.2[..]);
                let found = db.get_cf(&db.default_family(), key, &options).unwrap();
                assert_eq!(found.as_deref(), value, "key {number} at {timestamp:?}");
            }
        }
        db.close().unwrap();
    }
}
