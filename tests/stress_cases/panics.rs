//! A comparator that panics under a writer takes nobody with it who waits for that writer.

use siltstone::lsm::{ColumnFamilyOptions, Db, DbOptions, ErrorKind};
use siltstone_base::comparator::{Bytewise, Comparator};
use std::cmp::Ordering;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// The order of bytes, with a mistake.
#[derive(Debug)]
struct Mistaken;

impl Comparator for Mistaken {
    fn name(&self) -> &str {
        Bytewise.name()
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        assert!(a != b"mistake" && b != b"mistake", "the comparator's own mistake");
        a.cmp(b)
    }
}

#[test]
fn a_comparator_that_panics_leaves_no_writer_waiting() {
    for concurrent_bytes in [0, 1] {
        let dir = tempfile::tempdir().unwrap();
        let family = ColumnFamilyOptions::default().comparator(Arc::new(Mistaken));
        let options = DbOptions::default().create_if_missing(true).concurrent_memtable_write_bytes(concurrent_bytes);
        let db = Db::open_families(dir.path(), &options, &[("default", family)]).unwrap();
        std::thread::scope(|scope| {
            for writer in 0..4_u8 {
                let db = &db;
                scope.spawn(move || {
                    for number in 0_u32.. {
                        if writer == 0 && number == 300 {
                            let _ = catch_unwind(AssertUnwindSafe(|| db.put("mistake", "")));
                        }
                        let key = [&[writer][..], &number.to_be_bytes()].concat();
                        // The one that leads the group of the mistake panics itself.
                        match catch_unwind(AssertUnwindSafe(|| db.put(key, "value"))) {
                            Ok(Ok(())) => {}
                            Ok(Err(error)) => {
                                let kinds = [ErrorKind::Poisoned, ErrorKind::ReadOnly];
                                assert!(kinds.contains(&error.kind()), "{error}");
                                return;
                            }
                            Err(_) => {}
                        }
                    }
                });
            }
        });
        assert_eq!(db.background_error().unwrap().kind(), ErrorKind::Poisoned);
        assert_eq!(db.put("after", "").unwrap_err().kind(), ErrorKind::ReadOnly);
        assert_eq!(db.close().unwrap_err().kind(), ErrorKind::Poisoned);
        let db = Db::open(dir.path(), &DbOptions::default()).unwrap();
        assert!(db.get([&[0][..], &299_u32.to_be_bytes()].concat()).unwrap().is_some());
        db.check().unwrap();
    }
}
