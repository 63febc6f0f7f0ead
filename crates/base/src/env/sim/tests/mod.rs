//! Tests of the simulated disk: durability, crash states, faults.

mod crashes;
mod durability;
mod faults;

use super::SimDisk;
use crate::env::{AppendFile, Env, FileKind, FileOptions, IoContext, IoPriority};
use std::path::Path;

const WAL: IoContext = IoContext::new(FileKind::Wal, IoPriority::User);

/// A disk with a durable, empty `/db`.
fn disk() -> SimDisk {
    let disk = SimDisk::new();
    disk.make_durable_dir(Path::new("/db")).unwrap();
    disk
}

fn path(name: &str) -> std::path::PathBuf {
    Path::new("/db").join(name)
}

fn create(disk: &SimDisk, name: &str) -> Box<dyn AppendFile> {
    disk.create_append(&path(name), &FileOptions::new(FileKind::Wal)).unwrap()
}

/// A durable file with `data`.
fn durable_file(disk: &SimDisk, name: &str, data: &[u8]) {
    let mut file = create(disk, name);
    file.append(data, WAL).unwrap();
    file.sync_data(WAL).unwrap();
    file.finish().unwrap();
    disk.sync_dir(Path::new("/db")).unwrap();
}

/// The bytes of a file, or `None` if there is none.
fn bytes(disk: &SimDisk, name: &str) -> Option<Vec<u8>> {
    let file = disk.open_random(&path(name), &FileOptions::new(FileKind::Wal)).ok()?;
    let mut data = vec![0; file.len().unwrap() as usize];
    assert_eq!(file.read_at(0, &mut data, WAL).unwrap(), data.len());
    Some(data)
}

fn names(disk: &SimDisk) -> Vec<String> {
    disk.list_dir(Path::new("/db")).unwrap().into_iter().map(|entry| entry.name).collect()
}
