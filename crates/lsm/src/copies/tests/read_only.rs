//! Opening for reading beside a writer.

use super::*;

/// Tables may be deleted between opening and the first read; what can be read is a prefix of what was written, with all that had been written before.
#[test]
fn opening_for_reading_beside_a_writer_misses_nothing_that_was_written_before() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = small(DbOptions::default());
    // Nothing but flushes: tables stay, and WALs go.
    options.unnamed_families = options.unnamed_families.disable_auto_compactions(true).write_buffer_size(64 << 10);
    let db = Db::open(dir.path(), &options).unwrap();
    beside_a_writer(&db, || {
        for round in 1..=30 {
            wait_for(&db, round * 300);
            let before = db.latest_seqno();
            let reader = Db::open_read_only(dir.path(), &options, &[]).unwrap();
            let seqno = reader.latest_seqno();
            assert!(seqno >= before, "what was written before is seen: {seqno} of {before}");
            assert!(rows(&reader) == rows_up_to(seqno / 2), "the view of {seqno}");
        }
    });
    db.close().unwrap();
}
