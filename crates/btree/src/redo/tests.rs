//! The log as it is read after every kind of end.

use super::*;
use crate::event::Events;
use crate::page::{Change, PageId};
use siltstone_base::env::sim::SimDisk;
use std::path::Path;

const DIR: &str = "/db";
const CAPACITY: u64 = 8 << 10;

fn open(disk: &SimDisk) -> (RedoFiles, Checkpoint) {
    RedoFiles::open(disk, Path::new(DIR), 7).unwrap()
}

/// The log of a life of the database that found an earlier one's to end at `end`, with the first checkpoint of that life.
fn log(disk: &SimDisk, end: Lsn) -> Redo {
    let (files, checkpoint) = open(disk);
    let health = Arc::new(Health::new(Events::silent()));
    let redo = Redo::new(files, checkpoint, GroupEnd(end), health, Arc::new(Metrics::new()));
    redo.write_checkpoint(checkpoint.lsn, false).unwrap();
    redo
}

fn entry(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    encode_change(&mut out, PageId::new(1, 2), &Change::Write { offset: 96, data: text.as_bytes() });
    out
}

/// The texts of all groups, and where the log ends.
fn read(disk: &SimDisk) -> Result<(Vec<Vec<String>>, Lsn)> {
    let (files, checkpoint) = open(disk);
    let mut reader = RedoReader::new(&files, checkpoint);
    let mut groups = Vec::new();
    while let Some(group) = reader.next_group()? {
        let texts = group.records.iter().flat_map(|(_, _, entries)| Entries(entries)).map(|entry| match entry {
            Ok(Entry::Change(_, Change::Write { data, .. })) => String::from_utf8_lossy(data).into_owned(),
            other => format!("{other:?}"),
        });
        groups.push(texts.collect());
    }
    Ok((groups, reader.end().lsn()))
}

fn new_disk() -> SimDisk {
    let disk = SimDisk::new();
    disk.make_durable_dir(Path::new(DIR)).unwrap();
    RedoFiles::create(&disk, Path::new(DIR), CAPACITY, 7).unwrap();
    disk
}

fn append(log: &Redo, text: &str, flags: u8) -> Lsn {
    log.append(&entry(text), flags, |_, _| {}).unwrap()
}

#[test]
fn whole_groups_are_read_and_open_ones_are_not() {
    let disk = new_disk();
    let redo = log(&disk, FIRST_LSN);
    append(&redo, "a", END);
    append(&redo, "b1", 0);
    let closed = append(&redo, "b2", END);
    append(&redo, "c1", 0);
    redo.sync_all().unwrap();
    assert_eq!(redo.closed(), GroupEnd(closed));
    let groups = vec![vec!["a".to_owned()], vec!["b1".to_owned(), "b2".to_owned()]];
    assert_eq!(read(&disk).unwrap(), (groups.clone(), closed));

    // The next life overwrites the open group with a record as long as its first: what follows belongs to nobody.
    let redo = log(&disk, closed);
    let end = append(&redo, "d1", END);
    redo.sync_all().unwrap();
    let groups = [groups, vec![vec!["d1".to_owned()]]].concat();
    assert_eq!(read(&disk).unwrap(), (groups, end));
}

#[test]
fn a_record_of_a_life_before_is_not_taken_for_a_successor() {
    let disk = new_disk();
    let redo = log(&disk, FIRST_LSN);
    let first = append(&redo, "aa", 0);
    append(&redo, "bb", END);
    redo.sync_all().unwrap();
    // The first record is torn; the second is not.
    let (files, _) = open(&disk);
    files.write(FIRST_LSN, &[0xff; 4]).unwrap();
    files.sync().unwrap();
    assert_eq!(read(&disk).unwrap(), (Vec::new(), FIRST_LSN));
    let redo = log(&disk, FIRST_LSN);
    assert_eq!(append(&redo, "cc", END), first, "the old second record follows without a gap");
    redo.sync_all().unwrap();
    assert_eq!(read(&disk).unwrap(), (vec![vec!["cc".to_owned()]], first));
}

#[test]
fn the_ring_turns_and_a_checkpoint_gives_room() {
    let disk = new_disk();
    let redo = log(&disk, FIRST_LSN);
    let mut last = FIRST_LSN;
    for number in 0..2_000 {
        if redo.age() > CAPACITY / 2 {
            redo.sync_all().unwrap();
            redo.write_checkpoint(last, false).unwrap();
        }
        last = append(&redo, &format!("record {number}"), END);
    }
    assert!(last > 5 * CAPACITY);
    redo.sync_all().unwrap();
    let (groups, end) = read(&disk).unwrap();
    assert_eq!((groups.last().unwrap(), end), (&vec!["record 1999".to_owned()], last));
    // Without checkpoints the ring is full one day, and stays as it is.
    let redo = log(&disk, last);
    let refused = (0..1_000).find_map(|_| redo.append(&entry("x"), END, |_, _| {}).err());
    assert_eq!(refused.unwrap().kind(), ErrorKind::LimitExceeded);
    assert_eq!(redo.append(&entry("x"), END, |_, _| {}).unwrap_err().kind(), ErrorKind::ReadOnly);
}

#[test]
fn a_log_that_lost_what_was_durable_is_damaged() {
    let disk = new_disk();
    let redo = log(&disk, FIRST_LSN);
    append(&redo, "a", END);
    append(&redo, "b", END);
    redo.sync_all().unwrap();
    redo.write_checkpoint(FIRST_LSN, false).unwrap();
    disk.flip(Path::new("/db/redo-1.log"), 0, 0).unwrap_or_default();
    let at = (12 << 10) + FIRST_LSN % (CAPACITY / 2) + 30;
    let file = if FIRST_LSN % CAPACITY < CAPACITY / 2 { "/db/redo-0.log" } else { "/db/redo-1.log" };
    disk.flip(Path::new(file), at, 1).unwrap();
    assert_eq!(read(&disk).unwrap_err().kind(), ErrorKind::Corruption);
}

#[test]
fn one_of_two_checkpoints_may_be_torn() {
    let disk = new_disk();
    let redo = log(&disk, FIRST_LSN);
    let first = append(&redo, "a", END);
    redo.sync_all().unwrap();
    redo.write_checkpoint(first, false).unwrap();
    assert_eq!(open(&disk).1.lsn, first);
    disk.flip(Path::new("/db/redo-0.log"), 8 << 10, 1).unwrap();
    let synced = GroupEnd(FIRST_LSN);
    let life = Life { start: synced, sequence: Sequence::FIRST.next() };
    let before = Checkpoint { sequence: Sequence::FIRST.next(), lsn: FIRST_LSN, synced, is_clean: false, life };
    assert_eq!(open(&disk).1, before);
    disk.flip(Path::new("/db/redo-0.log"), 4 << 10, 1).unwrap();
    let error = RedoFiles::open(&disk, Path::new(DIR), 7).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
}

#[test]
fn a_failed_sync_is_final() {
    use siltstone_base::env::sim::{FaultKind, FaultPlan};
    let disk = new_disk();
    let redo = log(&disk, FIRST_LSN);
    append(&redo, "a", END);
    disk.set_fault(FaultPlan::once(FaultKind::SyncFailsVisible, 0));
    assert_eq!(redo.sync_all().unwrap_err().kind(), ErrorKind::Io);
    assert_eq!(redo.sync_all().unwrap_err().kind(), ErrorKind::ReadOnly);
    assert_eq!(redo.append(&entry("b"), END, |_, _| {}).unwrap_err().kind(), ErrorKind::ReadOnly);
}

/// Writes over the record that begins at `lsn`, as a sector that never arrived.
fn lose(disk: &SimDisk, lsn: Lsn) {
    let (files, _) = open(disk);
    files.write(lsn, &[0xff; RECORD_HEADER_LEN]).unwrap();
    files.sync().unwrap();
}

#[test]
fn what_a_life_before_left_behind_a_checkpoint_is_not_read() {
    for is_clean in [false, true] {
        let disk = new_disk();
        let redo = log(&disk, FIRST_LSN);
        let first = append(&redo, "aa", END);
        append(&redo, "bb", END);
        append(&redo, "cc", END);
        redo.sync_all().unwrap();
        // Of one write the later sectors arrived, and the first did not.
        lose(&disk, FIRST_LSN);
        assert_eq!(read(&disk).unwrap(), (Vec::new(), FIRST_LSN));
        let redo = log(&disk, FIRST_LSN);
        assert_eq!(append(&redo, "dd", END), first, "what is left behind it fits without a gap");
        redo.sync_all().unwrap();
        redo.write_checkpoint(first, is_clean).unwrap();
        assert_eq!(read(&disk).unwrap(), (Vec::new(), first), "clean: {is_clean}");
        // Nor by the life after the next.
        let redo = log(&disk, first);
        assert_eq!(read(&disk).unwrap(), (Vec::new(), first), "clean: {is_clean}");
        let end = append(&redo, "e", END);
        redo.sync_all().unwrap();
        assert_eq!(read(&disk).unwrap(), (vec![vec!["e".to_owned()]], end));
    }
}

#[test]
fn records_of_two_lives_are_no_group() {
    let disk = new_disk();
    let redo = log(&disk, FIRST_LSN);
    let closed = append(&redo, "a", END);
    let opened = append(&redo, "b1", 0);
    append(&redo, "b2", END);
    redo.sync_all().unwrap();
    lose(&disk, opened);
    assert_eq!(read(&disk).unwrap(), (vec![vec!["a".to_owned()]], closed));
    // The next life writes over the open group; of its two groups the first is lost, and with it the second.
    let before = disk.after_process_death();
    let redo = log(&disk, closed);
    assert_eq!(append(&redo, "c1", END), opened);
    append(&redo, "d1", END);
    redo.sync_all().unwrap();
    let (old, new) = (open(&before).0, open(&disk).0);
    let mut record = vec![0; (opened - closed) as usize];
    old.read(closed, &mut record).unwrap();
    new.write(closed, &record).unwrap();
    new.sync().unwrap();
    assert_eq!(read(&disk).unwrap(), (vec![vec!["a".to_owned()]], closed), "not b1 and d1");
}

#[test]
fn a_log_that_goes_on_behind_a_clean_end_has_lost_a_checkpoint() {
    let disk = new_disk();
    let redo = log(&disk, FIRST_LSN);
    let first = append(&redo, "a", END);
    redo.sync_all().unwrap();
    redo.write_checkpoint(first, true).unwrap();
    let redo = log(&disk, first);
    append(&redo, "b", END);
    redo.sync_all().unwrap();
    let newest = open(&disk).1;
    disk.flip(Path::new("/db/redo-0.log"), [4 << 10, 8 << 10][newest.sequence.place()], 1).unwrap();
    assert!(open(&disk).1.is_clean);
    assert_eq!(read(&disk).unwrap_err().kind(), ErrorKind::Corruption);
}

#[test]
fn an_open_group_is_never_known_as_written_or_durable() {
    let disk = new_disk();
    let redo = log(&disk, FIRST_LSN);
    let closed = append(&redo, "a", END);
    append(&redo, "b1", 0);
    redo.sync_all().unwrap();
    assert_eq!((redo.written.get(), redo.synced.get()), (GroupEnd(closed), GroupEnd(closed)));
    redo.write_checkpoint(closed, false).unwrap();
    assert_eq!(open(&disk).1.synced, GroupEnd(closed), "and a log that ends there is whole");
    assert_eq!(read(&disk).unwrap(), (Vec::new(), closed));
    let end = append(&redo, "b2", END);
    assert!(redo.has_unsynced());
    redo.sync_all().unwrap();
    assert_eq!(read(&disk).unwrap(), (vec![vec!["b1".to_owned(), "b2".to_owned()]], end));
}

#[test]
fn what_a_header_claims_is_not_reserved() {
    let disk = SimDisk::new();
    disk.make_durable_dir(Path::new(DIR)).unwrap();
    RedoFiles::create(&disk, Path::new(DIR), 2 << 40, 7).unwrap();
    let (files, checkpoint) = open(&disk);
    assert_eq!(files.capacity(), 2 << 40);
    let mut header = [0; RECORD_HEADER_LEN];
    header[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
    header[8..16].copy_from_slice(&FIRST_LSN.to_le_bytes());
    header[16..20].copy_from_slice(&9_u32.to_le_bytes());
    files.write(FIRST_LSN, &header).unwrap();
    let checkpoint = Checkpoint { is_clean: false, ..checkpoint };
    let (files, _) = open(&disk);
    let mut reader = RedoReader::new(&files, checkpoint);
    assert!(reader.next_group().unwrap().is_none());
    assert!(reader.window_len() <= 1 << 20, "{}", reader.window_len());
}

/// A log whose newest checkpoint has the number `number`, in a life that began with number `first`.
fn numbered(number: u32, first: u32) -> SimDisk {
    let disk = new_disk();
    let (files, newest) = open(&disk);
    let life = Life { sequence: Sequence::from_file(first), ..newest.life };
    // That of the creation is in none of the two places any more.
    for number in [number.wrapping_sub(1), number] {
        files.write_checkpoint(&Checkpoint { sequence: Sequence::from_file(number), life, ..newest }).unwrap();
    }
    files.sync_checkpoint().unwrap();
    disk
}

#[test]
fn a_database_outlives_the_numbers_of_its_checkpoints() {
    let disk = numbered(u32::MAX - 4, u32::MAX - 4);
    let (mut end, mut numbers) = (FIRST_LSN, Vec::new());
    for text in ["first ", "second", "third ", "fourth"] {
        let redo = log(&disk, end);
        numbers.push(open(&disk).1.sequence.number());
        append(&redo, "before", END);
        append(&redo, "of the life before", END);
        redo.sync_all().unwrap();
        // The next life found the log to end where this one began: what it left behind is not read on.
        let redo = log(&disk, end);
        numbers.push(open(&disk).1.sequence.number());
        end = append(&redo, text, END);
        redo.sync_all().unwrap();
        assert_eq!(read(&disk).unwrap(), (vec![vec![text.to_owned()]], end), "{numbers:?}");
        redo.write_checkpoint(end, false).unwrap();
        numbers.push(open(&disk).1.sequence.number());
        assert_eq!(read(&disk).unwrap(), (Vec::new(), end), "{numbers:?}");
    }
    assert!(numbers.contains(&u32::MAX) && numbers.contains(&2) && !numbers.contains(&1), "{numbers:?}");
    assert!(RedoFiles::was_opened(&disk, Path::new(DIR)).unwrap());
}

#[test]
fn a_life_of_more_checkpoints_than_can_be_compared_is_read_to_its_end() {
    const FAR: u32 = 1 << 30;
    for number in [FAR, u32::MAX - 1, 5] {
        let first = number.wrapping_sub(FAR - 1);
        let disk = numbered(number, first);
        let (files, newest) = open(&disk);
        assert_eq!(newest.life.sequence.number(), first);
        let health = Arc::new(Health::new(Events::silent()));
        let redo = Redo::new(files, newest, GroupEnd(FIRST_LSN), health, Arc::new(Metrics::new()));
        redo.checkpointing.lock().life = newest.life;
        let synced = append(&redo, "a", END);
        redo.sync_all().unwrap();
        redo.write_checkpoint(FIRST_LSN, false).unwrap();
        let life = open(&disk).1.life;
        assert_eq!(life.start, GroupEnd(synced), "the life is said to have begun where the log was durable");
        let newest = open(&disk).1.sequence;
        assert_eq!(newest.number().wrapping_sub(life.sequence.number()), FAR / 2);
        let end = append(&redo, "b", END);
        redo.sync_all().unwrap();
        assert_eq!(read(&disk).unwrap(), (vec![vec!["a".to_owned()], vec!["b".to_owned()]], end));
        redo.write_checkpoint(FIRST_LSN, false).unwrap();
        assert_eq!(open(&disk).1.life, life, "and stays so for as many checkpoints again");
    }
}

#[test]
fn the_older_of_two_numbers_is_the_one_that_was_given_first() {
    let number = Sequence::from_file;
    for (older, newer) in [(1, 2), (u32::MAX - 1, u32::MAX), (u32::MAX, 2), (u32::MAX, 0x7fff_fffe), (7, 0x8000_0006)] {
        let (older, newer) = (number(older), number(newer));
        assert!(older.is_before(newer) && !newer.is_before(older) && !newer.is_before(newer));
    }
    assert_eq!(number(u32::MAX).next().number(), 2);
    assert_ne!(
        number(u32::MAX).place(),
        number(u32::MAX).next().place(),
        "the older checkpoint is the one written over"
    );
}
