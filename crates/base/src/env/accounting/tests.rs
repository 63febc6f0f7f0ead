//! Tests of the counters.

use super::*;

#[test]
fn every_kind_and_priority_has_its_own_cell() {
    let stats = IoStats::new();
    let contexts: Vec<IoContext> = FileKind::ALL
        .iter()
        .flat_map(|&kind| IoPriority::ALL.iter().map(move |&priority| IoContext::new(kind, priority)))
        .collect();
    for (index, &context) in contexts.iter().enumerate() {
        stats.record_read(context, 1 << index);
        stats.record_write(context, 2 << index);
        stats.record_sync(context, 3 << index);
    }
    let snapshot = stats.snapshot();
    for (index, context) in contexts.iter().enumerate() {
        let expected = IoCounters {
            reads: 1,
            read_bytes: 1 << index,
            writes: 1,
            written_bytes: 2 << index,
            syncs: 1,
            sync_micros: 3 << index,
        };
        assert_eq!(snapshot.get(context.kind, context.priority), expected);
    }
    assert_eq!((snapshot.total().reads, snapshot.total().read_bytes), (27, (1 << 27) - 1));
    assert_eq!(snapshot.of_kind(FileKind::ALL[0]).read_bytes, 0b111);
    assert_eq!(snapshot.of_priority(IoPriority::ALL[2]).reads, 9);
}

#[test]
fn a_difference_is_what_was_counted_between() {
    let stats = IoStats::new();
    let context = IoContext::new(FileKind::Wal, IoPriority::User);
    stats.record_write(context, 10);
    let earlier = stats.snapshot();
    stats.record_write(context, 5);
    stats.record_sync(context, 7);
    let between = stats.snapshot().since(&earlier).total();
    assert_eq!(between, IoCounters { writes: 1, written_bytes: 5, syncs: 1, sync_micros: 7, ..Default::default() });
    assert_eq!(earlier.since(&stats.snapshot()), IoSnapshot::default(), "the wrong way round is nothing");
}

#[test]
fn nothing_is_lost_between_threads() {
    let stats = IoStats::new();
    let context = IoContext::new(FileKind::Table, IoPriority::Low);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..1000).for_each(|_| stats.record_read(context, 3)));
        }
    });
    let counted = stats.snapshot().get(FileKind::Table, IoPriority::Low);
    assert_eq!((counted.reads, counted.read_bytes), (4000, 12_000));
}
