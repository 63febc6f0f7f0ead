//! What transactions hold, as the report of holders tells.

use super::{LEVELS, on, open, open_optimistic};
use crate::{Db, MemoryReport};

fn report(db: &Db) -> MemoryReport {
    db.memory_report()
}

#[test]
fn changes_and_locks_of_transactions_are_in_the_report_until_they_end() {
    for level in LEVELS {
        let disk = siltstone_base::env::sim::SimDisk::new();
        let db = open(&disk);
        assert_eq!((report(db.db()).transactions, report(db.db()).row_locks), (0, 0));
        let mut transaction = db.begin(&on(level));
        for number in 0..1_000 {
            transaction.put(format!("key{number:04}"), vec![1; 100]).unwrap();
        }
        let held = report(db.db());
        assert!((200_000..400_000).contains(&held.transactions), "{held}");
        assert_eq!(held.row_locks, db.lock_stats().bytes as u64);
        assert!(held.row_locks > 1_000 * 7, "{held}");
        let savepoint = transaction.savepoint();
        transaction.put("large", vec![1; 500_000]).unwrap();
        assert!(report(db.db()).transactions > held.transactions + 900_000);
        transaction.rollback_to(savepoint).unwrap();
        assert_eq!(report(db.db()).transactions, held.transactions);
        assert!(report(db.db()).to_string().contains("row locks"));
        transaction.commit().unwrap();
        assert_eq!((report(db.db()).transactions, report(db.db()).row_locks), (0, 0));

        let db = open_optimistic(&siltstone_base::env::sim::SimDisk::new());
        let mut transaction = db.begin(&on(level));
        transaction.put("key", vec![1; 100_000]).unwrap();
        assert!(report(db.db()).transactions > 200_000);
        drop(transaction);
        assert_eq!(report(db.db()).transactions, 0);
    }
}
