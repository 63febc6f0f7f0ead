//! Data blocks of expired rows: reads pass by them where they may, and see what reads of them see.

use crate::expiry::BLOCK_STAMPS_PROPERTY;
use crate::expiry::test_policy::AtItsStamp;
use crate::iterator::{InternalIterator, SeekStage};
use crate::key::{ColumnFamilyId, InternalKey, LookupKey, ValueType};
use crate::metrics::Counter;
use crate::options::{CompressionType, IndexType, ReadTier, TableOptions};
use crate::sst::test_util::{MemoryFile, build, builder_options, open, reader_options};
use crate::sst::{
    Asked, CollectedEntry, DictionaryOptions, TableBuilderOptions, TableIter, TablePropertiesCollector,
    TablePropertiesCollectorFactory, TableReadOptions, TableReader, TableReaderOptions,
};
use siltstone_base::checksum::xxph3;
use siltstone_base::env::{IoContext, RandomFile};
use siltstone_base::expiry::ExpiryPolicy;
use siltstone_base::sync::Arc;
use siltstone_base::sync::atomic::{AtomicU64, Ordering};

const ROWS: u64 = 600;

/// The time of most reads here. The rows from 200 to 399 are expired then.
const TIME: u64 = 1_000;

fn key(number: u64) -> Vec<u8> {
    format!("key{number:05}").into_bytes()
}

fn is_old(number: u64) -> bool {
    (200..400).contains(&number)
}

fn entries() -> impl Iterator<Item = (Vec<u8>, Vec<u8>)> {
    (0..ROWS).map(|number| {
        let stamp = if is_old(number) { TIME - number % 7 } else { TIME + 1 + number % 7 };
        let key = InternalKey::new(&key(number), 1 + number, ValueType::Put);
        (key.as_bytes().to_vec(), format!("a row of some length@{stamp}").into_bytes())
    })
}

fn policy() -> Option<Arc<dyn ExpiryPolicy>> {
    Some(Arc::new(AtItsStamp))
}

fn written(index_type: IndexType) -> TableBuilderOptions {
    let table = TableOptions::default().block_size(128).index_type(index_type).metadata_block_size(256);
    TableBuilderOptions { expiry: policy(), ..builder_options(table, CompressionType::Lz4) }
}

fn read() -> TableReaderOptions {
    TableReaderOptions { expiry: policy(), ..reader_options() }
}

fn at(time: u64) -> TableReadOptions {
    TableReadOptions { expired_at: Some(time), ..TableReadOptions::default() }
}

/// How many blocks were passed by, and read by gets and walks one at a time.
fn counted(options: &TableReaderOptions) -> (u64, u64) {
    (options.metrics.get(Counter::ExpiredBlocksSkipped), options.metrics.get(Counter::BlockChecksums))
}

fn numbers_of(iter: &TableIter) -> Option<u64> {
    iter.status().unwrap();
    let number = |key: &[u8]| std::str::from_utf8(&key[3..8]).unwrap().parse().unwrap();
    iter.valid().then(|| number(iter.key()))
}

/// What a walk shows, in the order in which it does.
fn walked(reader: &Arc<TableReader>, options: TableReadOptions, is_forward: bool) -> Vec<u64> {
    let mut iter = TableIter::new(Arc::clone(reader), options, 0);
    if is_forward {
        iter.seek_to_first()
    } else {
        iter.seek_to_last()
    }
    let mut shown = Vec::new();
    while let Some(number) = numbers_of(&iter) {
        shown.push(number);
        if is_forward { iter.next() } else { iter.prev() }
    }
    shown
}

#[test]
fn a_walk_reads_no_block_of_expired_rows() {
    for index_type in [IndexType::BinarySearch, IndexType::TwoLevel, IndexType::BinarySearchWithFirstKey] {
        for is_forward in [true, false] {
            let options = read();
            let (bytes, summary) = build(written(index_type), entries()).unwrap();
            let reader = open(bytes, &options).unwrap();
            // Checksums of the blocks that opening reads, and of partitions.
            let (_, before) = counted(&options);
            let partitions = reader.properties().index_partitions;
            let mut shown = walked(&reader, at(TIME), is_forward);
            let (passed, checked) = counted(&options);
            assert!(passed * 4 > summary.num_data_blocks, "{passed} of {}", summary.num_data_blocks);
            assert_eq!(checked - before - partitions, summary.num_data_blocks - passed, "{index_type:?}");
            if !is_forward {
                shown.reverse();
            }
            assert!(shown.is_sorted() && shown.len() < 410, "{} rows", shown.len());
            shown.retain(|number| !is_old(*number));
            assert!(shown.into_iter().eq((0..ROWS).filter(|number| !is_old(*number))));
        }
    }
}

#[test]
fn rows_that_are_not_expired_at_the_time_of_the_read_are_seen() {
    let options = read();
    let reader = open(build(written(IndexType::BinarySearch), entries()).unwrap().0, &options).unwrap();
    assert_eq!(walked(&reader, at(TIME - 7), true).len() as u64, ROWS);
    assert_eq!(walked(&reader, TableReadOptions::default(), true).len() as u64, ROWS, "it shows all");
    assert_eq!(counted(&options).0, 0);
    assert!(walked(&reader, at(TIME + 7), true).is_empty(), "all are expired");
}

#[test]
fn seeks_end_where_a_walk_would() {
    for index_type in [IndexType::BinarySearch, IndexType::TwoLevel] {
        let reader = open(build(written(index_type), entries()).unwrap().0, &read()).unwrap();
        let shown = walked(&reader, at(TIME), true);
        let mut iter = TableIter::new(Arc::clone(&reader), at(TIME), 0);
        for number in 0..ROWS + 1 {
            let target = LookupKey::new(&key(number), 10_000);
            for is_prepared in [false, true] {
                if is_prepared {
                    SeekStage::ALL.into_iter().for_each(|stage| iter.prepare_seek(target.internal_key(), stage));
                }
                iter.seek(target.internal_key());
                let place = shown.partition_point(|shown| *shown < number);
                assert_eq!(numbers_of(&iter), shown.get(place).copied(), "from {number}");
                if iter.valid() {
                    iter.prev();
                    assert_eq!(numbers_of(&iter), place.checked_sub(1).map(|before| shown[before]), "before {number}");
                }
                iter.seek_for_prev(target.internal_key());
                // The target lies before all versions of its key.
                assert_eq!(numbers_of(&iter), place.checked_sub(1).map(|before| shown[before]), "to {number}");
                if iter.valid() {
                    iter.next();
                    assert_eq!(numbers_of(&iter), shown.get(place).copied(), "behind {number}");
                }
            }
        }
    }
}

#[test]
fn gets_read_no_block_of_expired_rows() {
    for index_type in [IndexType::BinarySearch, IndexType::TwoLevel] {
        let options = read();
        let reader = open(build(written(index_type), entries()).unwrap().0, &options).unwrap();
        let shown = walked(&reader, at(TIME), true);
        for number in 0..ROWS {
            let found = reader.get(&at(TIME), &LookupKey::new(&key(number), 10_000), None).unwrap();
            assert_eq!(found.is_some(), shown.binary_search(&number).is_ok(), "{number}");
        }
        // All at once; and in the cache alone, where nothing of the old rows is.
        let cached = TableReadOptions { read_tier: ReadTier::BlockCache, ..at(TIME) };
        for read in [at(TIME), cached] {
            let ask = |number| {
                let lookup = LookupKey::new(&key(number), 10_000);
                Asked { lookup, hash: xxph3(&key(number)), counts: Default::default(), answer: None }
            };
            let mut asked: Vec<Asked> = (0..ROWS).map(ask).collect();
            let which: Vec<usize> = (0..asked.len()).collect();
            reader.get_many(&read, 6, &mut asked, &which);
            for (number, asked) in (0..ROWS).zip(asked) {
                let found = asked.answer.map(|(_, found)| found.unwrap());
                assert_eq!(found.is_some(), shown.binary_search(&number).is_ok(), "{number}");
            }
        }
        let (passed, _) = counted(&options);
        assert!(passed > 500, "{passed}");
    }
}

#[test]
fn blocks_that_wait_for_a_dictionary_are_told_of_where_they_lie() {
    let dictionary = DictionaryOptions { max_bytes: 1024, train_bytes: 0, buffer_bytes: 8 << 10 };
    let table = TableOptions::default().block_size(128);
    let written = TableBuilderOptions { dictionary, expiry: policy(), ..builder_options(table, CompressionType::Zstd) };
    let options = read();
    let (bytes, _) = build(written, entries()).unwrap();
    let reader = open(bytes, &options).unwrap();
    let shown = walked(&reader, at(TIME), true);
    assert!(
        counted(&options).0 > 10 && (0..ROWS).filter(|number| !is_old(*number)).all(|number| shown.contains(&number))
    );
}

/// Versions of one key fill blocks of their own: each but the last one hides what is in the next.
#[test]
fn a_block_is_read_whose_last_key_goes_on_in_the_next_one() {
    let version = |seqno: u64, stamp: u64| {
        let key = InternalKey::new(b"key00007", seqno, ValueType::Put);
        (key.as_bytes().to_vec(), format!("{}@{stamp}", "v".repeat(100)).into_bytes())
    };
    // The newest one is expired, and an older one is not.
    let versions = [version(9, TIME), version(8, TIME), version(7, TIME + 100), version(6, TIME)];
    let options = read();
    let (bytes, summary) = build(written(IndexType::BinarySearch), versions).unwrap();
    assert_eq!(summary.num_data_blocks, 4);
    let reader = open(bytes, &options).unwrap();
    let get =
        |seqno| reader.get(&at(TIME), &LookupKey::new(b"key00007", seqno), None).unwrap().map(|entry| entry.seqno);
    assert_eq!(get(100), Some(9), "what is seen first is expired, and not what it hides");
    assert_eq!((get(8), get(7)), (Some(8), Some(7)));
    assert_eq!((get(6), counted(&options).0), (None, 1), "nothing is older than the last one");
    let seqnos = |is_forward| walked(&reader, at(TIME), is_forward).len();
    assert_eq!((seqnos(true), seqnos(false)), (3, 3));
}

/// Stores a property that somebody made up.
#[derive(Debug, Clone)]
struct MadeUp(Vec<u8>);

impl TablePropertiesCollectorFactory for MadeUp {
    fn name(&self) -> &str {
        "made up"
    }

    fn collector(&self, _: ColumnFamilyId) -> Box<dyn TablePropertiesCollector> {
        Box::new(self.clone())
    }
}

impl TablePropertiesCollector for MadeUp {
    fn add(&mut self, _: &CollectedEntry<'_>) {}

    fn finish(self: Box<Self>) -> Vec<(String, Vec<u8>)> {
        vec![(BLOCK_STAMPS_PROPERTY.to_owned(), self.0)]
    }
}

#[test]
fn what_is_damaged_or_of_another_table_or_policy_is_read_as_if_it_were_not_there() {
    let (bytes, _) = build(written(IndexType::BinarySearch), entries()).unwrap();
    let property = |bytes: &[u8]| {
        let reader = open(bytes.to_vec(), &read()).unwrap();
        reader.properties().others.get(BLOCK_STAMPS_PROPERTY.as_bytes()).cloned().unwrap()
    };
    let good = property(&bytes);
    let (of_another, _) = build(written(IndexType::BinarySearch), entries().take(300)).unwrap();
    let mut of_policy = good.clone();
    let place = of_policy.windows(2).position(|pair| pair == b"at").unwrap();
    of_policy[place] = b'A';
    let truncated = good[..good.len() - 1].to_vec();
    for made_up in [truncated, property(&of_another), of_policy, Vec::new(), b"nonsense".to_vec()] {
        let mut written = written(IndexType::BinarySearch);
        written.expiry = None;
        written.collectors = vec![Arc::new(MadeUp(made_up))];
        let options = read();
        let reader = open(build(written, entries()).unwrap().0, &options).unwrap();
        assert_eq!(walked(&reader, at(TIME), true).len() as u64, ROWS);
        assert_eq!(counted(&options).0, 0);
    }
    // The same way the right one gets there.
    let mut written = written(IndexType::BinarySearch);
    written.expiry = None;
    written.collectors = vec![Arc::new(MadeUp(good))];
    let reader = open(build(written, entries()).unwrap().0, &read()).unwrap();
    assert!((walked(&reader, at(TIME), true).len() as u64) < ROWS);
}

#[test]
fn a_collector_of_the_user_that_copies_properties_of_another_table_hides_no_row() {
    let all_expired = || entries().filter(|(key, _)| is_old(std::str::from_utf8(&key[3..8]).unwrap().parse().unwrap()));
    let other = open(build(written(IndexType::BinarySearch), all_expired()).unwrap().0, &read()).unwrap();
    let copied = other.properties().others.get(BLOCK_STAMPS_PROPERTY.as_bytes()).cloned().unwrap();
    // As many blocks of as many bytes, of rows that never expire.
    let kept = all_expired().map(|(key, value)| {
        (key, value.iter().map(|byte| if *byte == b'@' { b'#' } else { *byte }).collect::<Vec<_>>())
    });
    let mut written = written(IndexType::BinarySearch);
    written.collectors = vec![Arc::new(MadeUp(copied))];
    let options = read();
    let reader = open(build(written, kept).unwrap().0, &options).unwrap();
    assert_eq!(walked(&reader, at(TIME), true).len(), all_expired().count());
    assert_eq!((counted(&options).0, reader.properties().others.get(BLOCK_STAMPS_PROPERTY.as_bytes())), (0, None));
}

/// Counts the reads of a file, and their bytes.
#[derive(Debug)]
struct Counted(MemoryFile, AtomicU64, AtomicU64);

impl RandomFile for Counted {
    fn read_at(&self, offset: u64, buffer: &mut [u8], context: IoContext) -> std::io::Result<usize> {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.2.fetch_add(buffer.len() as u64, Ordering::Relaxed);
        self.0.read_at(offset, buffer, context)
    }

    fn len(&self) -> std::io::Result<u64> {
        RandomFile::len(&self.0)
    }
}

/// Opens a table with a block for each of `rows` rows, those of which `is_expired` says so expired at [`TIME`].
fn cold_table(
    rows: u64,
    is_expired: impl Fn(u64) -> bool,
    options: &TableReaderOptions,
) -> (Arc<Counted>, Arc<TableReader>) {
    let rows = (0..rows).map(|number| {
        let key = InternalKey::new(&key(number), 1 + number, ValueType::Put);
        let stamp = if is_expired(number) { TIME } else { TIME + 1 };
        (key.as_bytes().to_vec(), format!("{}@{stamp}", "v".repeat(300)).into_bytes())
    });
    let table = TableOptions::default().block_size(256);
    let written = TableBuilderOptions { expiry: policy(), ..builder_options(table, CompressionType::None) };
    let (bytes, _) = build(written, rows).unwrap();
    let len = bytes.len() as u64;
    let file = Arc::new(Counted(MemoryFile::new(bytes), AtomicU64::new(0), AtomicU64::new(0)));
    let reader = TableReader::open(Arc::<Counted>::clone(&file), "000009.sst".into(), len, options);
    (file, Arc::new(reader.unwrap()))
}

/// Otherwise a scan of a cold table would read each block by itself.
#[test]
fn gaps_of_expired_blocks_do_not_end_reading_ahead() {
    let options = read();
    let (file, reader) = cold_table(600, |number| number % 3 == 2, &options);
    let opened = file.1.load(Ordering::Relaxed);
    assert_eq!(walked(&reader, at(TIME), true).len(), 400);
    let reads = file.1.load(Ordering::Relaxed) - opened;
    assert!(counted(&options).0 == 200 && reads < 40, "{} blocks passed by, {reads} reads", counted(&options).0);
}

/// As a scan with `limit 1` does it that begins among rows which expired long ago.
#[test]
fn what_a_short_walk_passes_by_does_not_let_it_read_far_ahead() {
    let (file, reader) = cold_table(2_000, |number| number < 1_000, &read());
    let before = file.2.load(Ordering::Relaxed);
    let mut iter = TableIter::new(reader, TableReadOptions { expected_entries: 1, ..at(TIME) }, 0);
    iter.seek_to_first();
    assert_eq!(numbers_of(&iter), Some(1_000));
    let bytes = file.2.load(Ordering::Relaxed) - before;
    assert!(bytes <= 4_096, "{bytes} bytes for a row");
}
