//! What a subscriber is told.

use super::TracingListener;
use crate::{
    BackupEngine, BackupEngineOptions, Checkpoint, CheckpointOptions, CompactRangeOptions, CreateBackupOptions, Db,
    DbOptions, FlushOptions,
};
use siltstone_base::clock::ManualClock;
use siltstone_base::env::sim::SimDisk;
use siltstone_base::executor::StepExecutor;
use siltstone_base::sync::atomic::{AtomicU64, Ordering};
use siltstone_base::sync::{Mutex, Rank};
use std::fmt::{Debug, Write};
use std::sync::Arc;
use std::time::Duration;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Notes what spans begin, get and end, and what is told, one line each.
struct Noting {
    next: AtomicU64,
    notes: Arc<Mutex<Vec<String>>>,
}

/// Fields as text.
struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = write!(self.0, " {}={value:?}", field.name());
    }
}

impl Noting {
    fn note(&self, text: String) {
        self.notes.lock().push(text);
    }
}

impl Subscriber for Noting {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let mut fields = Fields(format!("{id} begins {}", span.metadata().name()));
        span.record(&mut fields);
        self.note(fields.0);
        Id::from_u64(id)
    }

    fn record(&self, id: &Id, values: &Record<'_>) {
        let mut fields = Fields(format!("{} gets", id.into_u64()));
        values.record(&mut fields);
        self.note(fields.0);
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields("event".to_owned());
        event.record(&mut fields);
        self.note(fields.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}

    fn try_close(&self, id: Id) -> bool {
        self.note(format!("{} ends", id.into_u64()));
        true
    }
}

/// The notes of what `work` does on this thread.
fn noted(work: impl FnOnce()) -> Vec<String> {
    let notes = Arc::new(Mutex::new(Rank(u16::MAX), Vec::new()));
    let subscriber = Noting { next: AtomicU64::new(1), notes: Arc::clone(&notes) };
    tracing::subscriber::with_default(subscriber, work);
    std::mem::take(&mut *notes.lock())
}

fn open(disk: &SimDisk, clock: &Arc<ManualClock>, listener: &Arc<TracingListener>) -> Db {
    let options = DbOptions::default().create_if_missing(true).env(Some(disk.env()));
    let executor = Arc::new(StepExecutor::new(Arc::clone(clock)));
    let listener = Arc::<TracingListener>::clone(listener);
    Db::open("/db", &options.executor(Some(executor)).listeners(vec![listener])).unwrap()
}

#[test]
fn work_is_spans_that_end() {
    let (disk, clock) = (SimDisk::new(), Arc::new(ManualClock::new(1_700_000_000)));
    let listener = Arc::new(TracingListener::new());
    let notes = noted(|| {
        let db = open(&disk, &clock, &listener);
        for value in ["1", "2"] {
            db.put("key of the user", value).unwrap();
            db.flush(&FlushOptions::default()).unwrap();
        }
        db.compact_range(&db.default_family(), None, None, &CompactRangeOptions::default()).unwrap();
        Checkpoint::new(&db).create("/copy", &CheckpointOptions::default()).unwrap();
        let backups = BackupEngineOptions::default().env(Some(disk.env()));
        BackupEngine::open("/backups", &backups).unwrap().create(&db, &CreateBackupOptions::default()).unwrap();
        db.set_options(&db.default_family(), &[("write_buffer_size", "1M")]).unwrap();
        db.close().unwrap();
    });
    let count = |text: &str| notes.iter().filter(|note| note.contains(text)).count();
    for (span, times) in
        [("open", 1), ("recovery", 1), ("flush", 2), ("compaction", 1), ("checkpoint", 1), ("backup", 1)]
    {
        assert_eq!(count(&format!(" begins {span} ")), times, "{span} in {notes:#?}");
    }
    assert_eq!(count(" begins "), count(" ends"), "{notes:#?}");
    assert_eq!(count(" gets entries=1"), 2, "{notes:#?}");
    assert_eq!(count(" gets outputs=1"), 1, "{notes:#?}");
    assert_eq!(count("option=\"write_buffer_size\""), 1, "{notes:#?}");
    assert_eq!(count("user"), 0, "keys are in no trace");
}

#[test]
fn slow_writes_are_told() {
    let (disk, clock) = (SimDisk::new(), Arc::new(ManualClock::new(1_700_000_000)));
    let told = |micros: u64| {
        let write = || super::write(&*clock, || clock.advance(Duration::from_micros(micros)));
        noted(write)
    };
    assert_eq!(told(99_999), [""; 0]);
    let slow = told(100_000);
    assert!(slow.len() == 1 && slow[0].contains("slow write") && slow[0].contains("micros=100000"), "{slow:?}");
    // Nobody listens.
    super::write(&*clock, || clock.advance(Duration::from_secs(1)));
    // A write goes that way.
    let db = open(&disk, &clock, &Arc::new(TracingListener::new()));
    let quick = noted(|| db.put("a", "1").unwrap());
    assert_eq!(quick, [""; 0]);
    db.close().unwrap();
}
