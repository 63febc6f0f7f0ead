//! Logs written and read, cut and damaged.

use super::*;
use proptest::prelude::*;
use siltstone_base::checksum::{crc32c, mask_crc};
use siltstone_base::env::{AppendFile, FileKind, IoContext, IoPriority, RandomFile, SyncHandle};
use siltstone_base::sync::{Mutex, Rank};
use siltstone_base::{ErrorKind, Result};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

const CONTEXT: IoContext = IoContext::new(FileKind::Wal, IoPriority::User);
const LOG_NUMBER: u64 = 7;

/// A file in memory; appends beyond `room` fail.
#[derive(Debug, Clone)]
struct MemoryFile {
    shared: Arc<Mutex<Vec<u8>>>,
    appends: Arc<Mutex<usize>>,
    room: usize,
}

impl MemoryFile {
    fn new(data: Vec<u8>) -> Self {
        let shared = Arc::new(Mutex::new(Rank(1), data));
        Self { shared, appends: Arc::new(Mutex::new(Rank(2), 0)), room: usize::MAX }
    }

    fn bytes(&self) -> Vec<u8> {
        self.shared.lock().clone()
    }

    fn writer(&self) -> WalWriter {
        WalWriter::new(Box::new(self.clone()), PathBuf::from("000007.log"), LOG_NUMBER, CONTEXT)
    }
}

impl RandomFile for MemoryFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8], _: IoContext) -> io::Result<usize> {
        let data = self.shared.lock();
        let rest = data.get(offset as usize..).unwrap_or(&[]);
        let len = rest.len().min(buffer.len());
        buffer[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.shared.lock().len() as u64)
    }
}

impl AppendFile for MemoryFile {
    fn append(&mut self, data: &[u8], _: IoContext) -> io::Result<()> {
        let mut bytes = self.shared.lock();
        if bytes.len() + data.len() > self.room {
            return Err(io::ErrorKind::StorageFull.into());
        }
        bytes.extend_from_slice(data);
        drop(bytes);
        *self.appends.lock() += 1;
        Ok(())
    }

    fn sync_data(&mut self, _: IoContext) -> io::Result<()> {
        Ok(())
    }

    fn sync_range(&mut self, _: u64, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn preallocate(&mut self, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn len(&self) -> u64 {
        self.shared.lock().len() as u64
    }

    fn finish(self: Box<Self>) -> io::Result<()> {
        Ok(())
    }

    fn sync_handle(&self) -> io::Result<Arc<dyn SyncHandle>> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

fn reader(bytes: Vec<u8>) -> WalReader {
    let file = Arc::new(MemoryFile::new(bytes));
    WalReader::new(file, PathBuf::from("000007.log"), LOG_NUMBER, CONTEXT, 1 << 20).unwrap()
}

/// The records of a log and how it ends.
fn read_all(bytes: &[u8]) -> (Vec<Vec<u8>>, Result<LogEnd>) {
    let mut reader = reader(bytes.to_vec());
    let (mut records, mut record) = (Vec::new(), Vec::new());
    loop {
        match reader.next_record(&mut record) {
            Ok(ReadOutcome::Record { .. }) => records.push(record.clone()),
            Ok(ReadOutcome::End(end)) => return (records, Ok(end)),
            Err(error) => return (records, Err(error)),
        }
    }
}

fn write_all(records: &[Vec<u8>]) -> Vec<u8> {
    let file = MemoryFile::new(Vec::new());
    let mut writer = file.writer();
    for record in records {
        writer.add_record(&[record]).unwrap();
    }
    file.bytes()
}

/// A physical record by hand.
fn physical(number: u8, log_number: Option<u32>, payload: &[u8]) -> Vec<u8> {
    let log_number = log_number.map_or_else(Vec::new, |log_number| log_number.to_le_bytes().to_vec());
    let covered = [&[number], log_number.as_slice(), payload].concat();
    let mut out = mask_crc(crc32c(&covered)).to_le_bytes().to_vec();
    out.extend_from_slice(&(payload.len() as u16).to_le_bytes());
    out.extend_from_slice(&covered);
    out
}

fn is_corruption(end: &Result<LogEnd>) -> bool {
    end.as_ref().is_err_and(|error| error.kind() == ErrorKind::Corruption && error.file().is_some())
}

/// The records of a log that ends cleanly.
fn intact(bytes: &[u8]) -> Vec<Vec<u8>> {
    let (records, end) = read_all(bytes);
    assert_eq!(end.unwrap(), LogEnd::Clean);
    records
}

/// How a log with one whole record `one` at its front ends after it.
fn end_after_one(bytes: &[u8]) -> Result<LogEnd> {
    let (records, end) = read_all(bytes);
    assert_eq!(records, [b"one"]);
    end
}

fn patterned(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|i| ((i * 31 + seed * 17 + i / 251) % 255) as u8 + 1).collect()
}

#[test]
fn bytes_are_those_of_the_format() {
    let mut batch = crate::WriteBatch::new();
    batch.put("plain", "p");
    let batch = [crate::batch::encode_header(3, 1).as_slice(), batch.body()].concat();
    let expected = b"\xfe\x5d\xdc\x5f\x15\x00\x01\x03\0\0\0\0\0\0\0\x01\0\0\0\x01\x05plain\x01p";
    assert_eq!(write_all(std::slice::from_ref(&batch)), expected);
    assert_eq!(intact(expected), [batch]);
}

#[test]
fn records_of_every_length_around_the_edge_of_a_block_come_back() {
    for second in 0..30 {
        for distance in 0..30 {
            let first = BLOCK_LEN - 2 * HEADER_LEN - distance;
            let records = [patterned(first, 1), patterned(second, 2), patterned(3, 3)];
            let bytes = write_all(&records);
            assert_eq!(intact(&bytes), records, "{first} and {second} bytes");
        }
    }
    for blocks in 1..10 {
        for distance in 0..20 {
            let len = blocks * (BLOCK_LEN - HEADER_LEN) + 10 - distance;
            let records = [patterned(len, 1), Vec::new(), patterned(len, 2)];
            assert_eq!(intact(&write_all(&records)), records, "{len} bytes");
        }
    }
}

#[test]
fn a_record_in_parts_is_one_append_of_the_same_bytes() {
    let record = patterned(100_000, 5);
    let file = MemoryFile::new(Vec::new());
    let mut writer = file.writer();
    writer.add_record(&[&record[..12], &[], &record[12..40_000], &record[40_000..], &[]]).unwrap();
    assert_eq!(*file.appends.lock(), 1);
    assert_eq!(file.bytes(), write_all(&[record]));
    assert_eq!(writer.len(), file.bytes().len() as u64);
    writer.sync().unwrap();
    writer.finish().unwrap();
}

#[test]
fn a_log_is_continued_where_it_ends() {
    let records = [patterned(BLOCK_LEN - 10, 1), patterned(50, 2), patterned(70_000, 3)];
    let file = MemoryFile::new(Vec::new());
    for record in &records {
        file.writer().add_record(&[record]).unwrap();
    }
    assert_eq!(file.bytes(), write_all(&records));
}

#[test]
fn nothing_is_written_after_an_error() {
    let mut file = MemoryFile::new(Vec::new());
    file.room = 50;
    let mut writer = file.writer();
    writer.add_record(&[b"one"]).unwrap();
    let first = writer.add_record(&[&[0; 50]]).unwrap_err();
    assert_eq!(first.kind(), ErrorKind::NoSpace);
    let again = writer.add_record(&[b"two"]).unwrap_err();
    assert_eq!(again.to_string(), first.to_string());
    assert_eq!(writer.sync().unwrap_err().kind(), ErrorKind::NoSpace);
    writer.sync_range(0, 10);
    assert_eq!(writer.finish().unwrap_err().kind(), ErrorKind::NoSpace);
    assert_eq!(intact(&file.bytes()), [b"one"]);
}

#[test]
fn a_hint_that_the_system_refuses_harms_no_write() {
    let file = MemoryFile::new(Vec::new());
    let mut writer = file.writer();
    writer.add_record(&[b"one"]).unwrap();
    let len = writer.len();
    writer.sync_range(0, len);
    writer.add_record(&[b"two"]).unwrap();
    writer.sync().unwrap();
    writer.finish().unwrap();
    assert_eq!(intact(&file.bytes()), [&b"one"[..], b"two"]);
}

#[test]
fn every_truncation_is_a_prefix() {
    let records = [patterned(20, 1), Vec::new(), patterned(BLOCK_LEN - 100, 2), patterned(40_000, 3), patterned(9, 4)];
    let bytes = write_all(&records);
    let ends: Vec<usize> = (0..=records.len()).map(|count| write_all(&records[..count]).len()).collect();
    let near_an_end = |len: usize| ends.iter().any(|end| len.abs_diff(*end) < 40) || (len % BLOCK_LEN).abs_diff(0) < 40;
    for len in (0..bytes.len()).filter(|len| len % 997 == 0 || near_an_end(*len)) {
        let (read, end) = read_all(&bytes[..len]);
        let whole = ends.iter().filter(|end| **end <= len).count() - 1;
        assert_eq!(read, records[..whole], "cut at {len}");
        match end.unwrap() {
            LogEnd::Clean => assert!(len - ends[whole] < HEADER_LEN, "cut at {len}: no record was begun"),
            LogEnd::TornTail { offset, .. } => {
                assert!(offset as usize >= ends[whole] && (offset as usize) < len, "cut at {len}, torn at {offset}");
            }
        }
    }
}

#[test]
fn every_bit_flip_is_an_error_or_leaves_a_prefix() {
    let records = [patterned(20, 1), patterned(BLOCK_LEN - 60, 2), patterned(100, 3), patterned(10, 4)];
    let bytes = write_all(&records);
    for at in (0..bytes.len()).filter(|at| at % 499 == 0 || *at < 60 || at.abs_diff(BLOCK_LEN) < 140) {
        for bit in 0..8 {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << bit;
            let (read, end) = read_all(&damaged);
            assert!(records.starts_with(&read), "bit {bit} of byte {at}");
            if read.len() < records.len() {
                let is_last = bytes.len() - at <= 10 + HEADER_LEN;
                assert!(is_corruption(&end) || is_last, "bit {bit} of byte {at} hides records: {end:?}");
                assert!(end.is_err(), "bit {bit} of byte {at} hides the last record: {end:?}");
            }
        }
    }
}

#[test]
fn ends_and_damage_are_told_apart() {
    let one = physical(1, None, b"one");
    let two = physical(1, None, b"two");
    let torn = &physical(1, None, &[7; 100])[..40];
    let long = physical(2, None, &patterned(BLOCK_LEN - HEADER_LEN - one.len(), 1));
    let after = |parts: &[&[u8]]| end_after_one(&[&[one.as_slice()], parts].concat().concat());
    let is_clean = |parts: &[&[u8]]| matches!(after(parts), Ok(LogEnd::Clean));
    let is_torn = |parts: &[&[u8]]| matches!(after(parts), Ok(LogEnd::TornTail { offset: 10, .. }));
    let is_damage = |parts: &[&[u8]]| is_corruption(&after(parts));

    assert!(is_clean(&[]));
    assert!(is_clean(&[&[0; 3]]));
    assert!(is_clean(&[&[0; 100]]));
    assert!(is_clean(&[&[0; 3 * BLOCK_LEN]]));

    assert!(is_torn(&[&two[..3]]));
    assert!(is_torn(&[torn]));
    assert!(is_torn(&[&long]), "the rest of the fragments is missing");
    assert!(is_torn(&[&[0; 50], b"garbage"]));

    assert!(is_damage(&[torn, &two]), "a record starts later");
    assert!(is_damage(&[&[0; 50], &two]), "a hole");
    assert!(is_damage(&[&[0; BLOCK_LEN - 10], &two]), "a hole of a block");
    assert!(is_damage(&[&physical(3, None, b"m")]), "no start");
    assert!(is_damage(&[&physical(4, None, b"l")]), "no start");
    assert!(is_damage(&[&physical(2, None, b"f"), &two]), "no end");
    assert!(is_damage(&[&physical(2, None, b"f"), &physical(10, None, b"")]));
    assert!(is_damage(&[&physical(40, None, b"x")]), "unknown type");
    assert!(is_damage(&[&physical(5, Some(7), b"x")]), "a recyclable record");
    let mut longer = two.clone();
    longer[4] += 1;
    assert!(is_damage(&[&longer]), "the checksum fits the bytes that are there");
    longer[5] = 0xff;
    assert!(is_damage(&[&longer, &[1; BLOCK_LEN]]), "passes its block, and the file goes on");
    for (at, bit) in [(9, 1), (6, 4)] {
        let mut wrong = two.clone();
        wrong[at] ^= bit;
        assert!(is_damage(&[&wrong]));
        assert!(is_corruption(&read_all(&[wrong, vec![1; 9]].concat()).1), "at the front of the log");
    }
}

#[test]
fn whether_a_record_follows_damage_can_be_asked() {
    let mut wrong = physical(1, None, b"one");
    wrong[8] ^= 1;
    for (rest, expected) in [(vec![], false), (vec![5; 40], false), (physical(1, None, b"two"), true)] {
        let mut reader = reader([wrong.clone(), rest].concat());
        let error = reader.next_record(&mut Vec::new()).unwrap_err();
        assert_eq!((error.kind(), error.offset()), (ErrorKind::Corruption, Some(0)));
        assert_eq!(reader.next_record(&mut Vec::new()).unwrap_err().kind(), ErrorKind::Corruption);
        assert_eq!(reader.record_follows_damage().unwrap(), expected);
    }
}

#[test]
fn records_of_other_kinds_are_skipped_or_refused() {
    let one = physical(1, None, b"one");
    let skipped = [
        physical(130, None, &[0; 24]),
        physical(10, None, &[0, 0, 0, 0, 8, 0, 1, 0, 0, 0, 16, 0]),
        physical(11, Some(LOG_NUMBER as u32), &[2, 0, 0, 0, 8, 0]),
        physical(200, None, b"of the future"),
        physical(2, None, b""),
        one.clone(),
    ];
    assert_eq!(intact(&skipped.concat()), [b"one"]);

    let mut reader = reader(skipped.concat());
    reader.next_record(&mut Vec::new()).unwrap();
    assert_eq!(
        reader.timestamp_sizes().iter().map(|(id, size)| (*id, *size)).collect::<Vec<_>>(),
        [(0, 8), (1, 16), (2, 8)]
    );

    let mut reader = WalReader::new(
        Arc::new(MemoryFile::new(write_all(&[patterned(1000, 1), patterned(1001, 2)]))),
        PathBuf::from("000007.log"),
        LOG_NUMBER,
        CONTEXT,
        1000,
    )
    .unwrap();
    let mut record = Vec::new();
    assert_eq!(reader.next_record(&mut record).unwrap(), ReadOutcome::Record { offset: 0 });
    assert_eq!(reader.end_offset(), 1007);
    assert_eq!(reader.next_record(&mut record).unwrap_err().kind(), ErrorKind::LimitExceeded);
}

#[test]
fn special_records_that_make_no_sense_are_damage() {
    let one = physical(1, None, b"one");
    let sizes = |payload: &[u8]| physical(10, None, payload);
    for (bad, kind) in [
        (physical(9, None, &[7, 0, 0]), ErrorKind::Corruption),
        (physical(9, None, &[7, 0, 0, 0, 0]), ErrorKind::Corruption),
        (physical(9, None, &[4, 0, 0, 0]), ErrorKind::NotSupported),
        ([one.clone(), physical(9, None, &[7, 0, 0, 0])].concat(), ErrorKind::Corruption),
        (sizes(&[0, 0, 0, 0, 8]), ErrorKind::Corruption),
        (sizes(&[0, 0, 0, 0, 0, 0]), ErrorKind::Corruption),
        (sizes(&[0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 8, 0]), ErrorKind::Corruption),
        ([sizes(&[0, 0, 0, 0, 8, 0]), sizes(&[0, 0, 0, 0, 8, 0])].concat(), ErrorKind::Corruption),
        (physical(130, None, &[0; 23]), ErrorKind::Corruption),
        ([physical(2, None, b"o"), sizes(&[0, 0, 0, 0, 8, 0])].concat(), ErrorKind::Corruption),
        (physical(100, None, b"unknown"), ErrorKind::Corruption),
    ] {
        let (_, end) = read_all(&[bad.clone(), one.clone()].concat());
        let error = end.unwrap_err();
        assert_eq!((error.kind(), error.offset().is_some()), (kind, true), "{bad:?}");
    }
}

/// A Zstd frame of `data`.
fn frame(data: &[u8]) -> Vec<u8> {
    use siltstone_base::compression::{CompressionType, Compressor};
    let mut stored = Vec::new();
    Compressor::new(CompressionType::Zstd, 1).unwrap().compress(data, &mut stored).unwrap();
    let mut rest = stored.as_slice();
    siltstone_base::coding::get_varint32(&mut rest).unwrap();
    rest.to_vec()
}

#[test]
fn compressed_logs_are_read() {
    let records = [b"one".to_vec(), Vec::new(), patterned(200_000, 3), b"last".to_vec()];
    let codec = physical(9, None, &[7, 0, 0, 0]);
    // The codec comes first; everything behind it is framed as ever.
    let file = MemoryFile::new(codec.clone());
    let mut writer = file.writer();
    for record in &records {
        writer.add_record(&[&frame(record)]).unwrap();
    }
    assert_eq!(intact(&file.bytes()), records);
    // So it is in a recycled log, whose codec has the short header all the same.
    let recycled = |payload: &[u8]| physical(5, Some(LOG_NUMBER as u32), payload);
    let stale = physical(5, Some(6), b"stale");
    assert_eq!(intact(&[codec.clone(), recycled(&frame(b"one")), stale].concat()), [b"one"]);

    let bad = |payload: &[u8]| {
        let (_, end) = read_all(&[codec.clone(), physical(1, None, payload)].concat());
        let error = end.unwrap_err();
        assert_eq!(error.offset(), Some(codec.len() as u64));
        error.kind()
    };
    assert_eq!(bad(b"no frame"), ErrorKind::Corruption);
    assert_eq!(bad(b""), ErrorKind::Corruption);
    assert_eq!(bad(&frame(&vec![0; (1 << 20) + 1])), ErrorKind::LimitExceeded);
    // What comes behind a bad frame can still be read.
    let log = [codec.clone(), physical(1, None, b"no frame"), physical(1, None, &frame(b"two"))].concat();
    let mut reader = reader(log);
    let mut record = Vec::new();
    reader.next_record(&mut record).unwrap_err();
    assert!(reader.skip_damage().unwrap());
    reader.next_record(&mut record).unwrap();
    assert_eq!(record, b"two");
}

#[test]
fn whole_records_behind_damage_can_be_read() {
    let records: Vec<Vec<u8>> = (0..400).map(|seed| patterned(100 + seed * 13 % 900, seed)).collect();
    let bytes = write_all(&records);
    for at in (0..bytes.len()).step_by(997) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        let mut reader = reader(damaged);
        let (mut found, mut record) = (Vec::new(), Vec::new());
        loop {
            match reader.next_record(&mut record) {
                Ok(ReadOutcome::Record { .. }) => found.push(record.clone()),
                _ if reader.skip_damage().unwrap() => assert!(!reader.has_stopped()),
                _ => break,
            }
        }
        // At most the damaged record is missing, and every other is there once, in order.
        assert!(found.len() + 1 >= records.len(), "{at}: {} records", found.len());
        let mut wanted = records.iter();
        assert!(found.iter().all(|record| wanted.any(|other| other == record)), "{at}");
    }
}

#[test]
fn a_log_of_traps_ends_the_search_in_time() {
    // At every byte a header could start whose record fills the block: hashing each would take minutes.
    let mut log = vec![1; 40 * BLOCK_LEN];
    for block in log.chunks_mut(BLOCK_LEN) {
        block[BLOCK_LEN / 2..].fill(0x20);
    }
    let mut reader = reader(log);
    reader.next_record(&mut Vec::new()).unwrap_err();
    while reader.skip_damage().unwrap() {
        let _ = reader.next_record(&mut Vec::new());
    }
}

#[test]
fn recycled_logs_end_where_the_old_bytes_begin() {
    let new = |number, payload: &[u8]| physical(number, Some(LOG_NUMBER as u32), payload);
    let old = |payload: &[u8]| physical(5, Some(6), payload);
    let one = new(5, b"one");
    let after = |parts: &[&[u8]]| end_after_one(&[&[one.as_slice()], parts].concat().concat());
    assert!(matches!(after(&[&old(b"stale")]), Ok(LogEnd::Clean)));
    assert!(matches!(after(&[&old(b"stale")[3..]]), Ok(LogEnd::Clean)));
    assert!(matches!(after(&[&[0xff; 5000]]), Ok(LogEnd::Clean)));
    assert!(matches!(after(&[&new(6, b"start"), &old(b"stale")]), Ok(LogEnd::TornTail { .. })));
    assert!(is_corruption(&after(&[&old(b"stale"), &new(5, b"two")])), "a changed log number hides nothing");
    assert!(is_corruption(&after(&[&[0xff; 5000], &new(5, b"two")])));
    assert_eq!(read_all(&old(b"stale")).0, Vec::<Vec<u8>>::new(), "nothing was written to it yet");

    // A block that ends with 7 to 10 zeros, which a recyclable header does not fit in.
    for padding in 0..RECYCLABLE_HEADER_LEN {
        let first = patterned(BLOCK_LEN - RECYCLABLE_HEADER_LEN - padding, 1);
        let log = [new(5, &first), vec![0; padding], new(131, &[0; 24]), new(6, b"t"), new(7, b""), new(8, b"wo")];
        assert_eq!(intact(&log.concat()), [first, b"two".to_vec()], "{padding} bytes of padding");
    }
}

proptest! {
    #[test]
    fn logs_survive_a_round_trip(lens in proptest::collection::vec(prop_oneof![0..200_usize, 0..100_000_usize], 0..12)) {
        let records: Vec<Vec<u8>> = lens.iter().enumerate().map(|(seed, len)| patterned(*len, seed)).collect();
        prop_assert_eq!(intact(&write_all(&records)), records);
    }

    #[test]
    fn garbage_ends(bytes in proptest::collection::vec(prop_oneof![0..12_u8, any::<u8>()], 0..300)) {
        let (records, _) = read_all(&bytes);
        prop_assert!(records.len() <= bytes.len() / HEADER_LEN);
    }

    #[test]
    fn garbage_after_records_never_changes_them(tail in proptest::collection::vec(any::<u8>(), 0..100)) {
        let records = [patterned(50, 1), patterned(60, 2)];
        let (read, _) = read_all(&[write_all(&records), tail].concat());
        prop_assert!(read.starts_with(&records));
    }
}
