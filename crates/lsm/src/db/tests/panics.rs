//! An Env that panics ends no more than the engine's writing.

use super::basics::options;
use crate::{Db, FlushOptions};
use siltstone_base::ErrorKind;
use siltstone_base::clock::ManualClock;
use siltstone_base::env::FileKind;
use siltstone_base::env::sim::{FaultKind, FaultPlan, OpClass, OpFilter, SimDisk};
use siltstone_base::executor::StepExecutor;
use siltstone_base::sync::Arc;

/// A flush that was counted out twice would keep whoever closes waiting.
#[test]
fn a_panic_while_a_flush_cleans_up_keeps_nobody_from_closing() {
    let disk = SimDisk::new();
    let executor = Arc::new(StepExecutor::new(Arc::new(ManualClock::new(1_700_000_000))));
    let options = options(&disk).executor(Some(executor.clone()));
    let db = Db::open("/db", &options).unwrap();
    db.put("before", "1").unwrap();
    // The table is there; its WAL is what is deleted.
    let deletion = OpFilter { class: Some(OpClass::Unlink), file: Some(FileKind::Wal), ..OpFilter::default() };
    disk.set_fault(FaultPlan::once(FaultKind::Panics, 0).filter(deletion));
    let _ = db.flush(&FlushOptions::default());
    executor.run_until_idle();
    assert_eq!(disk.fault_hits().len(), 1);
    assert_eq!(db.background_error().unwrap().kind(), ErrorKind::Poisoned);
    let counts = || {
        let state = db.handle.inner.state.lock();
        (state.running_flushes, state.ending_jobs)
    };
    assert_eq!(counts(), (0, 0));
    assert_eq!(db.get("before").unwrap().as_deref(), Some(&b"1"[..]));
    assert_eq!(db.close().unwrap_err().kind(), ErrorKind::Poisoned);
    let db = Db::open("/db", &options).unwrap();
    db.check().unwrap();
    assert_eq!(db.get("before").unwrap().as_deref(), Some(&b"1"[..]));
}
