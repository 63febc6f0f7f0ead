//! What a sync makes durable, and what not.

use super::{WAL, bytes, create, disk, durable_file, names, path};
use crate::env::sim::SimDisk;
use crate::env::{Env, FileKind, FileOptions};
use std::io;
use std::path::Path;

#[test]
fn a_file_needs_its_own_sync_and_that_of_its_directory() {
    let disk = disk();
    let mut file = create(&disk, "a");
    file.append(b"12345", WAL).unwrap();
    file.sync_data(WAL).unwrap();
    assert_eq!(bytes(&disk.after_power_loss(), "a"), None);
    disk.sync_dir(Path::new("/db")).unwrap();
    file.append(b"678", WAL).unwrap();
    assert_eq!(bytes(&disk.after_power_loss(), "a").unwrap(), b"12345");
    assert_eq!(bytes(&disk.after_process_death(), "a").unwrap(), b"12345678");
    // A directory without the file's own sync gives an empty file.
    let other = create(&disk, "b");
    disk.sync_dir(Path::new("/db")).unwrap();
    assert_eq!(bytes(&disk.after_power_loss(), "b").unwrap(), b"");
    drop(other);
}

#[test]
fn a_directory_is_durable_when_the_one_above_it_is_synced() {
    let disk = SimDisk::new();
    disk.create_dir_all(Path::new("/a/b")).unwrap();
    disk.sync_dir(Path::new("/a")).unwrap();
    assert!(!disk.after_power_loss().exists(Path::new("/a")).unwrap());
    disk.sync_dir(Path::new("/")).unwrap();
    assert!(disk.after_power_loss().exists(Path::new("/a/b")).unwrap());
}

#[test]
fn names_change_atomically_and_become_durable_with_their_directory() {
    let disk = disk();
    durable_file(&disk, "old", b"old");
    durable_file(&disk, "new", b"new");
    disk.rename(&path("new"), &path("old")).unwrap();
    disk.hard_link(&path("old"), &path("link")).unwrap();
    assert_eq!(bytes(&disk, "old").unwrap(), b"new");
    let before = disk.after_power_loss();
    assert_eq!((bytes(&before, "old").unwrap(), names(&before)), (b"old".to_vec(), vec!["new".into(), "old".into()]));
    disk.sync_dir(Path::new("/db")).unwrap();
    let after = disk.after_power_loss();
    assert_eq!(names(&after), ["link", "old"]);
    assert_eq!(bytes(&after, "link").unwrap(), b"new");
    disk.remove_file(&path("old")).unwrap();
    assert_eq!(names(&disk.after_power_loss()), ["link", "old"]);
    assert_eq!(names(&disk), ["link"]);
}

#[test]
fn a_process_death_keeps_what_is_not_durable_pending() {
    let disk = disk();
    let mut file = create(&disk, "a");
    file.append(b"abc", WAL).unwrap();
    let reborn = disk.after_process_death();
    assert_eq!(bytes(&reborn, "a").unwrap(), b"abc");
    assert_eq!(bytes(&reborn.after_power_loss(), "a"), None);
}

#[test]
fn removed_files_stay_readable_while_open() {
    let disk = disk();
    durable_file(&disk, "a", &[7; 5000]);
    let file = disk.open_random(&path("a"), &FileOptions::new(FileKind::Wal)).unwrap();
    disk.remove_file(&path("a")).unwrap();
    disk.sync_dir(Path::new("/db")).unwrap();
    let mut buffer = [0; 5000];
    assert_eq!(file.read_at(0, &mut buffer, WAL).unwrap(), 5000);
    assert_eq!(buffer, [7; 5000]);
    assert_eq!(disk.allocated_total(), 8192);
    drop(file);
    assert_eq!(disk.allocated_total(), 0);
}

#[test]
fn random_writes_holes_and_lengths() {
    let disk = disk();
    let file = disk.open_random_write(&path("p"), &FileOptions::new(FileKind::Page)).unwrap();
    file.write_at(10_000, &[1; 3000], WAL).unwrap();
    assert_eq!(file.len().unwrap(), 13_000);
    assert_eq!(disk.allocated_bytes(&path("p")).unwrap(), 8192);
    let mut buffer = [9; 20_000];
    assert_eq!(file.read_at(9_999, &mut buffer, WAL).unwrap(), 3001);
    assert_eq!(buffer[..3], [0, 1, 1]);
    file.punch_hole(8192, 4096).unwrap();
    assert_eq!(disk.allocated_bytes(&path("p")).unwrap(), 4096);
    file.set_len(12_500).unwrap();
    file.set_len(13_000).unwrap();
    assert_eq!(file.read_at(12_288, &mut buffer, WAL).unwrap(), 712);
    assert!(buffer[..212].iter().all(|byte| *byte == 1) && buffer[212..712].iter().all(|byte| *byte == 0));
    file.preallocate(0, 100_000).unwrap();
    assert_eq!(file.len().unwrap(), 13_000);
    assert!(disk.allocated_bytes(&path("p")).unwrap() >= 100_000);
}

#[test]
fn creating_again_empties_and_appending_again_goes_on() {
    let disk = disk();
    durable_file(&disk, "a", b"first");
    let mut file = disk.open_append(&path("a"), &FileOptions::new(FileKind::Wal)).unwrap();
    assert_eq!(file.len(), 5);
    file.append(b"+", WAL).unwrap();
    assert_eq!(bytes(&disk, "a").unwrap(), b"first+");
    drop(create(&disk, "a"));
    assert_eq!(bytes(&disk, "a").unwrap(), b"");
    assert_eq!(bytes(&disk.after_power_loss(), "a").unwrap(), b"first");
    disk.sync_dir(Path::new("/db")).unwrap();
    assert_eq!(bytes(&disk.after_power_loss(), "a").unwrap(), b"");
}

#[test]
fn a_lock_is_held_once_and_dies_with_the_process() {
    let disk = disk();
    let held = disk.lock_file(&path("LOCK")).unwrap();
    assert_eq!(disk.lock_file(&path("LOCK")).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    let reborn = disk.after_process_death();
    drop(reborn.lock_file(&path("LOCK")).unwrap());
    drop(held);
    drop(disk.lock_file(&path("LOCK")).unwrap());
}

#[test]
fn errors_are_those_of_a_file_system() {
    let disk = disk();
    durable_file(&disk, "a", b"a");
    disk.create_dir_all(&path("sub/deep/")).unwrap();
    let options = FileOptions::new(FileKind::Other);
    let kind = |error: io::Error| error.kind();
    assert_eq!(disk.open_random(&path("no"), &options).map(drop).map_err(kind), Err(io::ErrorKind::NotFound));
    assert_eq!(disk.create_append(Path::new("/no/a"), &options).map(drop).map_err(kind), Err(io::ErrorKind::NotFound));
    assert_eq!(disk.hard_link(&path("a"), &path("a")).map_err(kind), Err(io::ErrorKind::AlreadyExists));
    assert_eq!(disk.remove_dir(&path("sub")).map_err(kind), Err(io::ErrorKind::DirectoryNotEmpty));
    assert_eq!(disk.remove_file(&path("sub")).map_err(kind), Err(io::ErrorKind::IsADirectory));
    assert_eq!(disk.list_dir(&path("a")).map_err(kind), Err(io::ErrorKind::NotADirectory));
    assert_eq!(disk.rename(&path("no"), &path("b")).map_err(kind), Err(io::ErrorKind::NotFound));
    disk.remove_dir(&path("./sub//deep")).unwrap();
    assert_eq!(names(&disk), ["a", "sub"]);
}

#[test]
fn bit_rot_changes_the_durable_bytes() {
    let disk = disk();
    durable_file(&disk, "a", b"abc");
    disk.flip(&path("a"), 1, 0x20).unwrap();
    assert_eq!(bytes(&disk, "a").unwrap(), b"aBc");
    assert_eq!(bytes(&disk.after_power_loss(), "a").unwrap(), b"aBc");
}

#[test]
fn the_disk_is_an_environment_like_any_other() {
    crate::env::conformance::check(&disk(), Path::new("/db"), crate::env::conformance::Traits { sparse: true });
}
