//! Tests of batches, durabilities and statistics.

use super::*;

#[test]
fn a_batch_yields_its_operations_in_order() {
    let mut batch = KvBatch::new();
    for _ in 0..2 {
        batch.put(b"a", b"1");
        batch.delete(b"bb");
        batch.put(b"", b"");
        assert_eq!(batch.len(), 3);
        assert_eq!(batch.payload_bytes(), 4);
        let ops: Vec<_> = batch.iter().collect();
        assert_eq!(
            ops,
            [KvOp::Put { key: b"a", value: b"1" }, KvOp::Delete { key: b"bb" }, KvOp::Put { key: b"", value: b"" }]
        );
        batch.clear();
        assert!(batch.is_empty());
        assert_eq!(batch.iter().next(), None);
    }
}

#[test]
fn a_batch_behind_another_keeps_its_operations() {
    let (mut first, mut second) = (KvBatch::new(), KvBatch::new());
    first.delete_once(b"gone");
    first.put(b"a", b"12");
    second.put(b"bb", b"");
    second.delete(b"c");
    first.append(&second);
    first.append(&KvBatch::new());
    let ops: Vec<_> = first.iter().collect();
    assert_eq!(
        ops,
        [
            KvOp::DeleteOnce { key: b"gone" },
            KvOp::Put { key: b"a", value: b"12" },
            KvOp::Put { key: b"bb", value: b"" },
            KvOp::Delete { key: b"c" },
        ]
    );
    assert_eq!((first.len(), first.payload_bytes(), second.len()), (4, 10, 2));
}

#[test]
fn durabilities_are_read_as_they_are_printed() {
    for (text, durability) in [
        ("commit", Durability::Commit),
        ("second", Durability::EveryMillis(1000)),
        ("os", Durability::Os),
        ("250ms", Durability::EveryMillis(250)),
    ] {
        assert_eq!(text.parse(), Ok(durability), "{text}");
        assert_eq!(durability.to_string(), text);
    }
    for text in ["", "0ms", "never", "ms", "-1ms", "5"] {
        assert!(text.parse::<Durability>().is_err(), "{text}");
    }
}

#[test]
fn statistics_subtract_counters_and_keep_sizes() {
    let stalls = |micros| Some(StallMicros::from([("l0".to_owned(), micros), ("memtable".to_owned(), 7)]));
    let earlier = EngineStats {
        bytes_written: Some(10),
        bytes_read: None,
        bytes_grain: 0,
        reads: Some(3),
        counters: [("pages".to_owned(), 4), ("idle".to_owned(), 1)].into(),
        space_bytes: Some(5),
        log_bytes: None,
        debt_bytes: None,
        next_limit_bytes: None,
        stall_micros: stalls(3),
    };
    let later =
        EngineStats { bytes_written: Some(25), space_bytes: Some(9), stall_micros: stalls(8), ..earlier.clone() };
    let since = later.since(&earlier);
    assert!(since.counters.is_empty(), "nothing grew: {:?}", since.counters);
    assert_eq!(since.bytes_written, Some(15));
    assert_eq!(since.bytes_read, None);
    assert_eq!(since.space_bytes, Some(9));
    assert_eq!(since.stall_micros, Some(StallMicros::from([("l0".to_owned(), 5)])));
    assert_eq!(since.stall_micros_total(), Some(5));
}

#[test]
fn bytes_that_are_rounded_coarsely_say_nothing_of_little_growth() {
    let of = |written| EngineStats { bytes_written: Some(written), bytes_grain: 10, ..EngineStats::default() };
    assert_eq!(of(199).since(&of(100)).bytes_written, None, "it may be a tenth more or less");
    assert_eq!(of(200).since(&of(100)).bytes_written, Some(100));
    let exact = |written| EngineStats { bytes_grain: 0, ..of(written) };
    assert_eq!(exact(100).since(&exact(100)).bytes_written, Some(0), "and what is counted exactly may not have grown");
}
