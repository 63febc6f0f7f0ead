//! The database through its doors.

use super::*;
use crate::TransactionOptions;
use crate::mtr::Close;
use crate::tree::Value;
use siltstone_base::clock::ManualClock;
use siltstone_base::engine::conformance_all::{Openers, check_all};
use siltstone_base::engine::{Admin, Durability, KvCursor};
use siltstone_base::env::FileKind;
use siltstone_base::env::sim::{FaultKind, FaultPlan, OpClass, OpFilter, OpInfo, SimDisk};
use siltstone_base::executor::StepExecutor;
use siltstone_base::{Error, ErrorKind, Result};
use std::collections::BTreeMap;

pub(super) fn options() -> DbOptions {
    DbOptions::default()
        .create_if_missing(true)
        .page_size(512)
        .buffer_pool_bytes(64 * 512)
        .redo_capacity_bytes(256 << 10)
        .durability(Durability::Os)
}

pub(super) fn open_on(disk: &SimDisk, options: &DbOptions) -> Result<Db> {
    let executor = Arc::new(StepExecutor::new(Arc::new(ManualClock::new(1_700_000_000))));
    Db::open("/db", &options.clone().env(Some(disk.env())).executor(Some(executor)))
}

pub(super) fn new_disk() -> SimDisk {
    let disk = SimDisk::new();
    disk.make_durable_dir(Path::new("/db")).unwrap();
    disk
}

pub(super) type Map = BTreeMap<Vec<u8>, Vec<u8>>;

pub(super) fn rows(db: &Db) -> Map {
    let mut cursor = db.cursor().unwrap();
    let mut rows = Map::new();
    let mut found = cursor.seek_to_first().unwrap();
    while found {
        rows.insert(cursor.key().to_vec(), cursor.value().to_vec());
        found = cursor.next().unwrap();
    }
    let mut backward = Vec::new();
    let mut found = cursor.seek_to_last().unwrap();
    while found {
        backward.push((cursor.key().to_vec(), cursor.value().to_vec()));
        found = cursor.prev().unwrap();
    }
    assert!(rows.iter().rev().eq(backward.iter().map(|(key, value)| (key, value))), "both directions agree");
    rows
}

fn key(number: u32) -> Vec<u8> {
    format!("key{:06}", number.wrapping_mul(2_654_435_761) % 1_000_000).into_bytes()
}

#[test]
fn it_keeps_what_every_engine_keeps() {
    let dir = tempfile::tempdir().unwrap();
    let durabilities = [Durability::Commit, Durability::EveryMillis(5), Durability::Os];
    // A batch may have as many operations as an eighth of the pool has pages.
    let small = options().buffer_pool_bytes(1 << 20).redo_capacity_bytes(4 << 20);
    let on_disk = small.clone().max_version_bytes(0);
    let large = DbOptions::default().create_if_missing(true);
    let small = durabilities.map(|durability| small.clone().durability(durability));
    for (number, options) in small.into_iter().chain([large, on_disk]).enumerate() {
        let open = |path: &Path| Db::open(path, &options);
        let openers = Openers {
            kv: Some(&|path| Ok(Box::new(open(path)?))),
            tables: Some(&|path| Ok(Box::new(open(path)?))),
            lazy_tables: None,
            transactional: Some(&|path| Ok(Box::new(open(path)?))),
        };
        let checked = check_all(&openers, &dir.path().join(number.to_string()));
        assert_eq!(checked.left_out, ["lazy tables"]);
    }
}

#[test]
fn many_rows_in_a_small_pool_come_back_after_every_end() {
    let disk = new_disk();
    let mut model = Map::new();
    let mut db = open_on(&disk, &options()).unwrap();
    for round in 0..6_u32 {
        for number in 0..3_000 {
            let key = key(number * 7 + round);
            if (number + round) % 3 == 0 {
                db.delete(&key).unwrap();
                model.remove(&key);
            } else {
                let value = vec![number as u8; (number % 40) as usize];
                db.put(&key, &value).unwrap();
                model.insert(key, value);
            }
        }
        assert_eq!(rows(&db), model);
        let report = db.check().unwrap();
        assert_eq!((report.rows, report.lost_pages), (model.len() as u64, 0));
        for (key, value) in model.iter().step_by(17) {
            assert_eq!(db.get(key).unwrap().as_ref(), Some(value));
        }
        if round % 2 == 0 {
            db.close().unwrap();
        }
        drop(db);
        db = open_on(&disk, &options()).unwrap();
        assert_eq!(rows(&db), model, "round {round}");
    }
    for key in model.keys() {
        db.delete(key).unwrap();
    }
    let report = db.check().unwrap();
    assert_eq!((report.rows, report.levels, report.leaf_pages), (0, 1, 1), "merges give the pages back: {report:?}");
    assert!(report.free_pages > 100);
    assert!(db.metrics().get(crate::Counter::Merges) > 100);
}

#[test]
pub(super) fn rows_in_order_fill_their_pages() {
    let disk = new_disk();
    let options = options().page_size(4096).buffer_pool_bytes(128 * 4096).redo_capacity_bytes(4 << 20);
    for ascending in [true, false] {
        let db = open_on(&disk, &options).unwrap();
        let tree = db.create_tree(if ascending { "up" } else { "down" }).unwrap();
        for number in 0..8_000_u32 {
            let number = if ascending { number } else { u32::MAX - number };
            db.put_in(&tree, number.to_be_bytes(), [7; 50]).unwrap();
        }
        let report = db.check().unwrap();
        let fill = report.leaf_bytes_used as f64 / (report.leaf_pages * 4096) as f64;
        assert!((0.89..=0.97).contains(&fill), "{ascending}: {fill}");
        if ascending {
            db.drop_tree("up").unwrap();
        }
        db.close().unwrap();
    }
}

#[test]
fn long_values_lie_beside_their_rows() {
    let disk = new_disk();
    let db = open_on(&disk, &options()).unwrap();
    let mut model = Map::new();
    for number in 0..200_u32 {
        let value: Vec<u8> = (0..number * 37 % 3000).map(|byte| byte as u8).collect();
        let key = key(number % 40);
        db.put(&key, &value).unwrap();
        model.insert(key, value);
    }
    assert_eq!(rows(&db), model);
    assert_eq!(db.check().unwrap().lost_pages, 0);
    drop(db);
    let db = open_on(&disk, &options()).unwrap();
    assert_eq!(rows(&db), model);
    model.keys().for_each(|key| db.delete(key).unwrap());
    let report = db.check().unwrap();
    assert_eq!((report.overflow_pages, report.lost_pages), (0, 0));
    let error = db.put(b"k", vec![0; 1 << 20]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded);
    assert_eq!(db.put(vec![0; 65], b"").unwrap_err().kind(), ErrorKind::LimitExceeded);
}

#[test]
fn trees_come_and_go_with_their_files() {
    let disk = new_disk();
    let db = open_on(&disk, &options()).unwrap();
    db.flush().unwrap();
    let before = Admin::stats(&db).unwrap().space_bytes.unwrap();
    let one = db.create_tree("one").unwrap();
    assert_eq!(db.create_tree("one").unwrap_err().kind(), ErrorKind::AlreadyExists);
    for number in 0..2_000 {
        db.put_in(&one, key(number), b"value").unwrap();
    }
    db.put(b"elsewhere", b"1").unwrap();
    assert_eq!(db.tree_names(), ["default", "one"]);
    db.flush().unwrap();
    assert!(Admin::stats(&db).unwrap().space_bytes.unwrap() > before);
    let mut cursor = db.cursor_in(&one).unwrap();
    assert!(cursor.seek_to_first().unwrap());
    db.drop_tree("one").unwrap();
    assert!(Admin::stats(&db).unwrap().space_bytes.unwrap() <= before + 8192);
    assert_eq!(db.get_in(&one, b"k").unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(db.put_in(&one, b"k", b"v").unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(cursor.seek_to_first().unwrap_err().kind(), ErrorKind::NotFound);
    let again = db.create_tree("one").unwrap();
    assert_eq!(db.get_in(&again, key(3)).unwrap(), None);
    db.put_in(&again, b"new", b"2").unwrap();
    drop((db, cursor));
    let db = open_on(&disk, &options()).unwrap();
    assert_eq!(db.tree_names(), ["default", "one"]);
    assert_eq!(db.get_in(&db.tree("one").unwrap(), b"new").unwrap(), Some(b"2".to_vec()));
    assert_eq!(db.get(b"elsewhere").unwrap(), Some(b"1".to_vec()));
    assert_eq!(db.drop_tree("none").unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(db.drop_tree("default").unwrap_err().kind(), ErrorKind::InvalidArgument);
}

#[test]
fn batches_are_seen_whole_and_cursors_see_their_moment() {
    let disk = new_disk();
    let db = open_on(&disk, &options()).unwrap();
    let other = db.create_tree("other").unwrap();
    for number in 0..300 {
        db.put(key(number), number.to_string()).unwrap();
    }
    let before = rows(&db);
    let mut cursor = db.cursor().unwrap();
    let mut batch = WriteBatch::new();
    for round in 0..60_u32 {
        batch.clear();
        for number in 0..6 {
            batch.put(key(round * 6 + number + 100), "changed");
        }
        batch.delete(key(round));
        batch.put_in(&other, key(round), "there");
        db.write(&batch).unwrap();
    }
    let mut seen = Map::new();
    let mut found = cursor.seek_to_first().unwrap();
    while found {
        seen.insert(cursor.key().to_vec(), cursor.value().to_vec());
        found = cursor.next().unwrap();
    }
    assert_eq!(seen, before);
    let mut back = Map::new();
    let mut found = cursor.seek_to_last().unwrap();
    while found {
        back.insert(cursor.key().to_vec(), cursor.value().to_vec());
        found = cursor.prev().unwrap();
    }
    assert_eq!(back, before);
    drop(cursor);
    assert_ne!(rows(&db), before);
    assert!(db.0.versions.is_empty());
    assert_eq!(db.get_in(&other, key(59)).unwrap(), Some(b"there".to_vec()));
}

#[test]
fn a_directory_is_opened_once_and_by_its_own_engine() {
    let disk = new_disk();
    assert_eq!(open_on(&disk, &options().create_if_missing(false)).unwrap_err().kind(), ErrorKind::NotFound);
    let db = open_on(&disk, &options()).unwrap();
    assert_eq!(open_on(&disk, &options()).unwrap_err().kind(), ErrorKind::Locked);
    db.put(b"a", b"1").unwrap();
    db.close().unwrap();
    db.close().unwrap();
    assert_eq!(db.put(b"a", b"1").unwrap_err().kind(), ErrorKind::Aborted);
    assert_eq!(open_on(&disk, &options().error_if_exists(true)).unwrap_err().kind(), ErrorKind::AlreadyExists);
    // The directory keeps its page size.
    let db = open_on(&disk, &options().page_size(1024).buffer_pool_bytes(64 << 10)).unwrap();
    assert_eq!(db.get(b"a").unwrap(), Some(b"1".to_vec()));
    for bad in [
        options().page_size(1000),
        options().buffer_pool_bytes(1),
        options().redo_capacity_bytes(1),
        options().io_capacity(0),
        options().old_blocks_percent(99),
        options().doublewrite_pages(1),
    ] {
        assert_eq!(open_on(&new_disk(), &bad).unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
}

/// Flips a bit of the root of the default tree, as a torn write would.
fn tear_root(disk: &SimDisk) {
    disk.flip(Path::new("/db/000001.pages"), 2 * 512 + 300, 1).unwrap();
}

#[test]
fn doublewrite_restores_a_torn_page_or_names_it_or_leaves_it_to_its_reader() {
    use crate::Doublewrite;
    for mode in [Doublewrite::On, Doublewrite::DetectOnly, Doublewrite::Off] {
        let disk = new_disk();
        let options = options().doublewrite(mode);
        let db = open_on(&disk, &options).unwrap();
        db.put(b"a", b"1").unwrap();
        db.flush().unwrap();
        if mode == Doublewrite::DetectOnly {
            // A page that a crash tears was changed behind the checkpoint.
            db.put(b"b", b"2").unwrap();
        }
        drop(db);
        let disk = disk.after_process_death();
        tear_root(&disk);
        let opened = open_on(&disk, &options);
        match mode {
            Doublewrite::On => assert_eq!(opened.unwrap().get(b"a").unwrap(), Some(b"1".to_vec())),
            Doublewrite::DetectOnly => {
                let error = opened.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Corruption);
                assert!(error.to_string().contains("page 1:2: a crash tore the page"), "{error}");
            }
            Doublewrite::Off => assert_eq!(opened.unwrap().get(b"a").unwrap_err().kind(), ErrorKind::Corruption),
        }
    }
}

/// The name of a page was noted, in a life that kept names or in this one, and no crash has torn it since.
#[test]
fn a_page_that_rots_long_after_its_name_was_noted_keeps_no_database_shut() {
    use crate::Doublewrite;
    for later in [Doublewrite::On, Doublewrite::DetectOnly] {
        let disk = new_disk();
        let db = open_on(&disk, &options().doublewrite(Doublewrite::DetectOnly)).unwrap();
        db.put(b"a", b"1").unwrap();
        db.flush().unwrap();
        if later == Doublewrite::On {
            db.close().unwrap();
            drop(db);
            drop(open_on(&disk, &options().doublewrite(later)).unwrap());
        } else {
            drop(db);
        }
        let disk = disk.after_process_death();
        tear_root(&disk);
        let db = open_on(&disk, &options().doublewrite(later)).unwrap();
        assert_eq!(db.get(b"a").unwrap_err().kind(), ErrorKind::Corruption, "whoever reads it is told");
    }
}

#[test]
fn a_copy_of_an_earlier_life_takes_no_page_s_place() {
    use crate::Doublewrite;
    for later in [Doublewrite::DetectOnly, Doublewrite::Off] {
        let disk = new_disk();
        let db = open_on(&disk, &options()).unwrap();
        db.put(b"a", b"old").unwrap();
        db.close().unwrap();
        drop(db);
        let db = open_on(&disk, &options().doublewrite(later)).unwrap();
        db.put(b"a", b"new").unwrap();
        db.flush().unwrap();
        drop(db);
        let disk = disk.after_process_death();
        tear_root(&disk);
        let found = open_on(&disk, &options()).and_then(|db| db.get(b"a"));
        assert_eq!(found.unwrap_err().kind(), ErrorKind::Corruption, "{later:?}");
    }
}

#[test]
fn a_page_is_restored_from_whichever_doublewrite_file_has_its_newest_copy() {
    for rounds in 1..=7 {
        let disk = new_disk();
        let options = options().page_cleaners(3);
        let db = open_on(&disk, &options).unwrap();
        for round in 1..=rounds {
            db.put(b"a", [round]).unwrap();
            db.flush().unwrap();
        }
        drop(db);
        let disk = disk.after_process_death();
        tear_root(&disk);
        assert_eq!(open_on(&disk, &options).unwrap().get(b"a").unwrap(), Some(vec![rounds]));
    }
}

#[test]
fn doublewrite_files_that_are_not_used_any_more_are_gone() {
    use siltstone_base::env::Env;
    let disk = new_disk();
    for (cleaners, names) in [(3, vec!["doublewrite", "doublewrite.1", "doublewrite.2"]), (1, vec!["doublewrite"])] {
        let db = open_on(&disk, &options().page_cleaners(cleaners)).unwrap();
        db.put(b"a", b"1").unwrap();
        db.close().unwrap();
        let files = disk.list_dir(Path::new("/db")).unwrap().into_iter().map(|entry| entry.name);
        let mut found: Vec<String> = files.filter(|name| name.starts_with("doublewrite")).collect();
        found.sort();
        assert_eq!(found, names);
    }
}

#[test]
fn a_batch_that_is_too_large_says_how_large_one_may_be() {
    let db = open_on(&new_disk(), &options()).unwrap();
    let mut batch = WriteBatch::new();
    for number in 0..9 {
        batch.put(key(number), "value");
    }
    let error = db.write(&batch).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded);
    assert!(error.to_string().contains("a batch of 9 operations; an eighth of the buffer pool's pages, 8,"), "{error}");
    assert!(rows(&db).is_empty());
}

#[test]
fn a_thread_knows_whether_it_has_the_lock_of_writers() {
    let db = open_on(&new_disk(), &options()).unwrap();
    let writers = &db.0.writer;
    assert!(!writers.is_mine());
    let writer = writers.lock();
    assert!(writers.is_mine());
    std::thread::scope(|scope| assert!(!scope.spawn(|| writers.is_mine()).join().unwrap()));
    drop(writer);
    assert!(!writers.is_mine());
}

#[test]
fn half_a_group_of_a_thread_that_panicked_must_not_become_durable_with_the_next_one() {
    let disk = new_disk();
    let db = open_on(&disk, &options()).unwrap();
    db.put("a", "1").unwrap();
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _writer = db.0.writer.lock();
        let tree = db.0.default_tree.live().unwrap();
        tree.put(b"half", Value::inline(b"1"), true, Close::Open, Close::Open, &mut |_| Ok(())).unwrap();
        std::panic::resume_unwind(Box::new("in the middle"));
    }));
    assert!(panicked.is_err());
    assert_eq!(db.put("b", "1").unwrap_err().kind(), ErrorKind::ReadOnly);
    drop(db);
    let db = open_on(&disk, &options()).unwrap();
    assert_eq!(rows(&db).into_keys().collect::<Vec<_>>(), [b"a"]);
    db.check().unwrap();
}

#[test]
fn a_database_that_is_dropped_must_not_forget_what_it_promised_to_sync_soon() {
    let disk = new_disk();
    let options = options().durability(Durability::EveryMillis(1_000));
    let db = open_on(&disk, &options).unwrap();
    db.put("a", "1").unwrap();
    drop(db);
    let db = open_on(&disk.after_power_loss(), &options).unwrap();
    assert_eq!(db.get("a").unwrap().as_deref(), Some(&b"1"[..]));
}

/// Otherwise who needs much of the log waits for ever beside many who need little.
#[test]
fn writers_that_need_little_of_the_log_must_go_behind_one_who_waits_for_much() {
    let disk = new_disk();
    let db = open_on(&disk, &options()).unwrap();
    db.put("a", "1").unwrap();
    let (state, capacity) = (&db.0, db.0.redo.capacity());
    while state.redo.age() < capacity / 4 {
        db.put("a", vec![1; 100]).unwrap();
    }
    let much = capacity / 8 * 6;
    assert!(!state.redo.has_room(much) && state.redo.has_room(1_000));
    state.redo.want(much);
    // It has room enough, and makes the room that the other one waits for.
    db.put("b", "1").unwrap();
    assert!(state.redo.has_room(much), "{} of {capacity}", state.redo.age());
    state.redo.stop_wanting(much);
    drop(state.lock_for(much).unwrap());
    assert_eq!(state.redo.wanted(), 0);
}

#[test]
fn a_long_value_that_leads_back_into_itself_ends() {
    use crate::mtr::{Close, Mtr, close_group};
    use crate::page::{Change, FLAG_OVERFLOW, OverflowRef};
    use crate::tree::Value;
    let db = open_on(&new_disk(), &options()).unwrap();
    let handle = db.default_tree();
    let tree = handle.0.tree();
    {
        let _writer = db.0.lock_with_room(64 << 10).unwrap();
        let chain = tree.write_long(&[7; 3_000]).unwrap();
        let mut mtr = Mtr::new(tree.pool());
        let last = mtr.latch(tree.page(chain.last)).unwrap();
        mtr.change(last, &Change::SetRight(chain.first));
        mtr.commit(Close::Open).unwrap();
        let forged = OverflowRef { len: u32::MAX - 4096, ..chain }.encode();
        let value = Value::new(FLAG_OVERFLOW, &forged);
        tree.put(b"endless", value, false, Close::Open, Close::Open, &mut |_| Ok(())).unwrap();
        close_group(tree.pool()).unwrap();
    }
    let error = db.get(b"endless").unwrap_err();
    assert!(error.kind() == ErrorKind::Corruption && error.to_string().contains("back into itself"), "{error}");
}

#[test]
fn a_free_list_that_leads_back_into_itself_gives_no_page_out_twice() {
    use crate::mtr::{Close, Mtr};
    use crate::page::{Change, PageKind};
    let db = open_on(&new_disk(), &options()).unwrap();
    let handle = db.default_tree();
    let tree = handle.0.tree();
    {
        let _writer = db.0.lock_with_room(64 << 10).unwrap();
        let mut mtr = Mtr::new(tree.pool());
        let page = mtr.allocate(tree.space()).unwrap();
        let number = mtr.page(page).id().number;
        mtr.change(page, &Change::Format { kind: PageKind::Free, level: 0, left: 0, right: number });
        let space = mtr.space(tree.space()).unwrap();
        (space.free_head, space.free_count) = (number, 2);
        mtr.commit(Close::Group).unwrap();
    }
    // The first split of a root takes two pages at once.
    let refused = (0..20_u8).find_map(|number| db.put([number], [number; 60]).err()).unwrap();
    assert!(refused.kind() == ErrorKind::Corruption && refused.to_string().contains("free list"), "{refused}");
    let found = rows(&db);
    assert!(found.len() > 3 && found.iter().all(|(key, value)| *value == vec![key[0]; 60]), "{} rows", found.len());
}

#[test]
fn a_log_that_changes_a_page_of_no_tablespace_is_refused() {
    use crate::page::{Change, PageId, PageKind};
    for number in [u32::MAX, 1_000, 5] {
        let disk = new_disk();
        let db = open_on(&disk, &options()).unwrap();
        db.put(b"a", b"1").unwrap();
        let mut entries = Vec::new();
        let change = Change::Format { kind: PageKind::Leaf, level: 0, left: 0, right: 0 };
        crate::redo::encode_change(&mut entries, PageId::new(1, number), &change);
        db.0.redo.append(&entries, crate::redo::END, |_, _| {}).unwrap();
        db.sync().unwrap();
        drop(db);
        let error = open_on(&disk.after_process_death(), &options()).unwrap_err();
        assert_eq!(
            (error.kind(), error.file()),
            (ErrorKind::Corruption, Some(Path::new("/db/000001.pages"))),
            "{error}"
        );
    }
}

/// None of their pages can leave the pool before all are written: readers got `Busy`, and the engine took no more writes.
#[test]
fn a_batch_of_long_values_that_the_pool_has_no_room_for_is_refused_and_nothing_else_is() {
    let disk = new_disk();
    let db = open_on(&disk, &options()).unwrap();
    for number in 0..500_u32 {
        db.put(number.to_be_bytes(), [7; 20]).unwrap();
    }
    let before = rows(&db);
    let batch = |rows: u32| {
        let mut batch = WriteBatch::new();
        (0..rows).for_each(|number| batch.put((number * 50).to_be_bytes(), vec![8; 2500]));
        batch
    };
    assert_eq!(db.write(&batch(8)).unwrap_err().kind(), ErrorKind::LimitExceeded);
    assert_eq!(rows(&db), before);
    db.write(&batch(4)).unwrap();
    assert_eq!(rows(&db).values().filter(|value| value.len() == 2500).count(), 4);
    db.check().unwrap();
}

/// What a sync failed for is whole in the page cache, and may be torn on the device: its copy in the doublewrite file was the only one, and gave way to those of other pages.
#[test]
fn a_page_whose_sync_failed_is_written_again_before_its_copy_gives_way() {
    let disk = new_disk();
    let options = options().page_size(8192).buffer_pool_bytes(64 * 8192).redo_capacity_bytes(4 << 20);
    let db = open_on(&disk, &options).unwrap();
    for number in 0..200_u32 {
        db.put(number.to_be_bytes(), [7; 200]).unwrap();
    }
    let syncs = OpFilter { class: Some(OpClass::Sync), file: Some(FileKind::Page), ..OpFilter::default() };
    disk.set_fault(FaultPlan::once(FaultKind::SyncFailsVisible, 0).filter(syncs));
    assert!(db.flush().is_err());
    assert_eq!(disk.fault_hits().len(), 1);
    disk.clear_fault();
    drop(db);
    disk.start_trace();
    let db = open_on(&disk, &options).unwrap();
    let trace = disk.take_trace();
    let is_write = |file: FileKind| move |op: &&OpInfo| op.class == OpClass::Write && op.file == file;
    let is_sync_of_pages = |op: &&OpInfo| op.class == OpClass::Sync && op.file == FileKind::Page;
    let until_sync: Vec<_> = trace.iter().take_while(|op| !is_sync_of_pages(op)).collect();
    assert!(until_sync.iter().copied().any(|op| is_write(FileKind::Page)(&op)), "{trace:?}");
    assert!(!until_sync.iter().copied().any(|op| is_write(FileKind::Doublewrite)(&op)), "{trace:?}");
    assert_eq!(rows(&db).len(), 200);
}

/// What others are to free is left to them; the rest goes, dirty or not, and nothing is lost.
#[test]
fn a_job_beside_the_page_cleaner_frees_what_that_leaves_to_it() {
    use super::freeing::Freeing;
    use siltstone_base::executor::{Executor, Priority};
    use siltstone_base::sync::atomic::Ordering;
    let disk = new_disk();
    let executor = Arc::new(StepExecutor::new(Arc::new(ManualClock::new(1_700_000_000))));
    let shared: Arc<dyn Executor> = Arc::<StepExecutor>::clone(&executor);
    let options = options().buffer_pool_bytes(4096 * 512).redo_capacity_bytes(8 << 20);
    let db = Db::open("/db", &options.env(Some(disk.env())).executor(Some(shared))).unwrap();
    let row = |number: u32| (number.wrapping_mul(0x9E37_79B1).to_be_bytes(), [number as u8; 100]);
    for number in 0..20_000 {
        let (key, value) = row(number);
        db.put(key, value).unwrap();
    }
    let state = &db.0;
    executor.abandon_all();
    let target = state.options.free_target();
    let before = state.pool.lacking(target);
    assert!(before > 200, "{before}");
    state.freeing.store(1, Ordering::Release);
    executor.submit(Priority::High, Box::new(Freeing { state: state.weak(), skip: 64 }));
    executor.run_until_idle();
    assert!(state.pool.lacking(target) <= 64 + 8, "{} of {before}", state.pool.lacking(target));
    assert_eq!(state.freeing.load(Ordering::Acquire), 0);
    for number in 0..20_000 {
        let (key, value) = row(number);
        assert_eq!(db.get(key).unwrap().as_deref(), Some(&value[..]));
    }
    db.check().unwrap();
}

/// The names of new directories were not synced where more than one was new, or where the path had but one part.
#[test]
fn a_database_in_new_directories_outlives_a_power_loss() {
    for dir in ["rows", "/a/b/rows", "a/rows"] {
        let disk = SimDisk::new();
        let options = || options().durability(Durability::Commit).env(Some(disk.env()));
        let executor = || Arc::new(StepExecutor::new(Arc::new(ManualClock::new(1_700_000_000))));
        let db = Db::open(dir, &options().executor(Some(executor()))).unwrap();
        db.put("a", "1").unwrap();
        let lost = disk.after_power_loss();
        let options = options().env(Some(lost.env())).create_if_missing(false).executor(Some(executor()));
        assert_eq!(Db::open(dir, &options).unwrap().get("a").unwrap().as_deref(), Some(&b"1"[..]), "{dir}");
    }
}

/// It was written into one database, and made durable in the other.
#[test]
fn a_handle_of_another_database_is_refused() {
    let (disk, other_disk) = (new_disk(), new_disk());
    let (db, other) = (open_on(&disk, &options()).unwrap(), open_on(&other_disk, &options()).unwrap());
    let foreign = [other.default_tree(), other.create_tree("rocks").unwrap()];
    db.put("a", "1").unwrap();
    other.put("b", "2").unwrap();
    for tree in &foreign {
        let mut batch = WriteBatch::new();
        batch.put("c", "3");
        batch.delete_in(tree, "b");
        let mut transaction = db.begin(&TransactionOptions::default()).unwrap();
        let outcomes = [
            db.put_in(tree, "b", "3").err(),
            db.delete_in(tree, "b").err(),
            db.write(&batch).err(),
            db.get_in(tree, "b").err(),
            db.cursor_in(tree).err(),
            db.truncate(tree).err(),
            db.bulk_load(tree, [("x", "y")]).err(),
            db.shape(tree).err(),
            transaction.put_in(tree, "b", "3").err(),
            transaction.delete_in(tree, "b").err(),
            transaction.get_in(tree, "b").err(),
            transaction.get_for_update_in(tree, "b").err(),
            transaction.cursor_in(tree).err(),
        ];
        for (at, error) in outcomes.iter().enumerate() {
            assert_eq!(error.as_ref().map(Error::kind), Some(ErrorKind::InvalidArgument), "{at}");
        }
        transaction.commit().unwrap();
    }
    assert_eq!((rows(&db).len(), rows(&other).len()), (1, 1));
    // Nor one of an earlier opening.
    let earlier = db.default_tree();
    db.close().unwrap();
    let db = open_on(&disk, &options()).unwrap();
    assert_eq!(db.put_in(&earlier, "a", "4").unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(db.get("a").unwrap().as_deref(), Some(&b"1"[..]));
}

/// A copy that is not whole yet was taken for what an attempt to create a database left, and deleted.
#[test]
fn tablespaces_without_the_other_files_of_their_database_are_not_deleted() {
    for number in [1, 1000] {
        let disk = new_disk();
        let db = open_on(&disk, &options()).unwrap();
        (0..number).for_each(|number| db.put(key(number), "row").unwrap());
        db.close().unwrap();
        let env = disk.env();
        let files = || env.list_dir(Path::new("/db")).unwrap().into_iter().map(|entry| entry.name).collect::<Vec<_>>();
        let (mut aside, path) = (Vec::new(), |name: &str| Path::new("/db").join(name));
        for name in files().into_iter().filter(|name| !name.ends_with(".pages") && name != "LOCK") {
            env.rename(&path(&name), &path(&format!("{name}.aside"))).unwrap();
            aside.push(name);
        }
        let before = files();
        let error = open_on(&disk, &options()).unwrap_err();
        assert_eq!((error.kind(), error.file()), (ErrorKind::MissingFile, Some(&*path("IDENTITY"))), "{error}");
        assert_eq!(files(), before);
        aside.iter().for_each(|name| env.rename(&path(&format!("{name}.aside")), &path(name)).unwrap());
        assert_eq!(rows(&open_on(&disk, &options()).unwrap()).len(), number as usize);
    }
}
