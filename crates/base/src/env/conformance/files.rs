//! Appending, reading and writing.

use std::io;
use std::path::Path;

use super::{CONTEXT, Traits, pattern};
use crate::env::{Access, Env, FileKind, FileOptions, IoContext, IoPriority, ReadRequest};

const KIB: u64 = 1024;

fn options(direct: bool) -> FileOptions {
    FileOptions::new(FileKind::Table).direct(direct)
}

fn write_file(env: &dyn Env, path: &Path, data: &[u8], direct: bool) {
    let mut file = env.create_append(path, &options(direct)).unwrap();
    file.append(data, CONTEXT).unwrap();
    file.finish().unwrap();
}

fn contents(env: &dyn Env, path: &Path, direct: bool) -> Vec<u8> {
    let file = env.open_random(path, &options(direct).access(Access::Sequential)).unwrap();
    let len = file.len().unwrap();
    assert_eq!(len, env.file_len(path).unwrap());
    let mut data = vec![0xEE; len as usize + 100];
    let read = file.read_at(0, &mut data, CONTEXT).unwrap();
    assert_eq!(read as u64, len, "a read ends only at the end of the file");
    data.truncate(read);
    data
}

/// Pieces of every shape arrive in order; a sync in the middle changes nothing.
pub(super) fn append_and_read(env: &dyn Env, directory: &Path, direct: bool) {
    let path = directory.join("append");
    let mut expected = Vec::new();
    let mut file = env.create_append(&path, &options(direct)).unwrap();
    assert!(file.is_empty());
    let lens = [0, 1, 4095, 1, 4096, 150, 8192, 0, 70_000, 3, 1_048_576, 5_000, 2_500_000, 1];
    for (index, len) in lens.into_iter().enumerate() {
        let data = pattern(len, index as u8);
        file.append(&data, CONTEXT).unwrap();
        expected.extend_from_slice(&data);
        assert_eq!(file.len(), expected.len() as u64);
        if index % 3 == 2 {
            file.sync_data(CONTEXT).unwrap();
            file.sync_range(0, expected.len() as u64).unwrap();
            file.wait_range(0, expected.len() as u64).unwrap();
            assert_eq!(env.file_len(&path).unwrap(), expected.len() as u64, "a sync leaves the true length");
            assert!(contents(env, &path, direct) == expected);
        } else if !direct {
            assert!(contents(env, &path, false) == expected, "a buffered append is visible at once");
        }
    }
    file.sync_data(CONTEXT).unwrap();
    file.sync_data(CONTEXT).unwrap();
    file.finish().unwrap();
    assert!(contents(env, &path, direct) == expected);
    assert!(contents(env, &path, !direct) == expected);
    env.remove_file(&path).unwrap();
}

/// A file opened again goes on where it ended.
pub(super) fn reopen(env: &dyn Env, directory: &Path, direct: bool) {
    let path = directory.join("reopen");
    let mut expected = Vec::new();
    write_file(env, &path, &[], direct);
    for (index, len) in [10, 4086, 4096, 4097, 0, 9_000].into_iter().enumerate() {
        let mut file = env.open_append(&path, &options(direct)).unwrap();
        assert_eq!(file.len(), expected.len() as u64);
        let data = pattern(len, 100 + index as u8);
        file.append(&data, CONTEXT).unwrap();
        expected.extend_from_slice(&data);
        file.finish().unwrap();
        assert!(contents(env, &path, direct) == expected);
    }
    env.remove_file(&path).unwrap();
}

/// Creating a file of a name that exists starts an empty one; another name of the old file keeps it.
pub(super) fn replace(env: &dyn Env, directory: &Path, direct: bool) {
    let (path, link) = (directory.join("replace"), directory.join("replaced"));
    let old = pattern(10_000, 1);
    write_file(env, &path, &old, direct);
    env.hard_link(&path, &link).unwrap();
    let reader = env.open_random(&path, &options(direct)).unwrap();
    let file = env.create_append(&path, &options(direct)).unwrap();
    assert_eq!(env.file_len(&path).unwrap(), 0);
    file.finish().unwrap();
    write_file(env, &path, b"new", direct);
    assert_eq!(contents(env, &path, direct), b"new");
    assert!(contents(env, &link, direct) == old);
    let mut data = vec![0; old.len()];
    assert_eq!(reader.read_at(0, &mut data, CONTEXT).unwrap(), old.len());
    assert!(data == old);
    env.remove_file(&path).unwrap();
    env.remove_file(&link).unwrap();
}

/// The second handle covers what was appended before, while appending goes on.
pub(super) fn sync_handle(env: &dyn Env, directory: &Path, direct: bool) {
    let path = directory.join("sync");
    let mut file = env.create_append(&path, &options(direct)).unwrap();
    let handle = file.sync_handle().unwrap();
    let data = pattern(6_000, 9);
    file.append(&data, CONTEXT).unwrap();
    std::thread::scope(|scope| scope.spawn(|| handle.sync_data(CONTEXT).unwrap()).join().unwrap());
    assert!(contents(env, &path, false) == data);
    file.append(&data, CONTEXT).unwrap();
    file.finish().unwrap();
    handle.sync_data(CONTEXT).unwrap();
    assert!(contents(env, &path, direct) == [&data[..], &data].concat());
    env.remove_file(&path).unwrap();
}

/// Reads at, over and past the end, at every alignment.
pub(super) fn read_edges(env: &dyn Env, directory: &Path, direct: bool) {
    let path = directory.join("edges");
    for len in [0, 1, 4095, 4096, 4097, 20_000, 600_001] {
        let data = pattern(len, 3);
        write_file(env, &path, &data, direct);
        let file = env.open_random(&path, &options(direct)).unwrap();
        assert_eq!((file.len().unwrap(), file.is_empty().unwrap()), (len as u64, len == 0));
        file.will_need(0, len as u64);
        for offset in [0, 1, 100, 4095, 4096, 8191, 300_000, len.saturating_sub(1), len, len + 1, len + 10_000] {
            for wanted in [0, 1, 4096, 5_000, 12_288, 700_000] {
                let mut buffer = vec![0xAA; wanted];
                let read = file.read_at(offset as u64, &mut buffer, CONTEXT).unwrap();
                let from = offset.min(len);
                let expected = &data[from..(from + wanted).min(len)];
                assert!(buffer[..read] == *expected, "{len} bytes, {wanted} at {offset}");
            }
        }
        env.remove_file(&path).unwrap();
    }
}

/// A list of reads gives what each alone would.
pub(super) fn read_many(env: &dyn Env, directory: &Path, direct: bool) {
    let path = directory.join("many");
    let data = pattern(300_000, 4);
    write_file(env, &path, &data, direct);
    let file = env.open_random(&path, &options(direct)).unwrap();
    for count in [0, 1, 2, 37] {
        let mut buffers: Vec<Vec<u8>> = (0..count).map(|index| vec![0; 1 + index * 517]).collect();
        let unset = || Err(io::ErrorKind::Other.into());
        let mut requests: Vec<ReadRequest<'_>> = buffers
            .iter_mut()
            .enumerate()
            .map(|(index, buffer)| ReadRequest { offset: index as u64 * 8_192 + 5, buffer, result: unset() })
            .collect();
        file.read_many(&mut requests, CONTEXT);
        for request in &requests {
            let from = (request.offset as usize).min(data.len());
            let expected = &data[from..(from + request.buffer.len()).min(data.len())];
            assert_eq!(*request.result.as_ref().unwrap(), expected.len());
            assert!(request.buffer[..expected.len()] == *expected);
        }
    }
    env.remove_file(&path).unwrap();
}

/// Writes of every alignment, gaps, and both directions of a change of length.
pub(super) fn write_anywhere(env: &dyn Env, directory: &Path, direct: bool) {
    let path = directory.join("pages");
    let file = env.open_random_write(&path, &options(direct)).unwrap();
    assert!(file.is_empty().unwrap());
    let mut expected: Vec<u8> = Vec::new();
    let writes =
        [(0, 4096), (8192, 4096), (4000, 200), (1, 1), (20_000, 10), (16_384, 8192), (3, 50_000), (65_536, 600_000)];
    for (index, (offset, len)) in writes.into_iter().enumerate() {
        // One more byte in front makes the memory unaligned.
        let data = pattern(len + 1, 50 + index as u8);
        file.write_at(offset as u64, &data[1..], CONTEXT).unwrap();
        expected.resize(expected.len().max(offset + len), 0);
        expected[offset..offset + len].copy_from_slice(&data[1..]);
        let mut found = vec![0; expected.len() + 1];
        assert_eq!(file.read_at(0, &mut found, CONTEXT).unwrap(), expected.len());
        assert!(found[..expected.len()] == expected, "write {index}");
    }
    file.sync_data(CONTEXT).unwrap();
    for len in [70_001, 80_000, 4096, 10_000] {
        file.set_len(len).unwrap();
        expected.resize(len as usize, 0);
        assert_eq!(file.len().unwrap(), len);
        assert!(contents(env, &path, direct) == expected, "new bytes read as zero");
    }
    drop(file);
    let again = env.open_random_write(&path, &options(direct)).unwrap();
    assert_eq!(again.len().unwrap(), expected.len() as u64, "opening keeps what is there");
    env.remove_file(&path).unwrap();
}

/// Reserved space changes no length, and `finish` gives the rest back.
pub(super) fn preallocate(env: &dyn Env, directory: &Path, direct: bool, traits: Traits) {
    let path = directory.join("reserved");
    let mut file = env.create_append(&path, &options(direct)).unwrap();
    file.preallocate(1024 * KIB).unwrap();
    assert_eq!((file.len(), env.file_len(&path).unwrap()), (0, 0));
    if traits.sparse {
        assert!(env.allocated_bytes(&path).unwrap() >= 1024 * KIB);
    }
    let data = pattern(10_000, 8);
    file.append(&data, CONTEXT).unwrap();
    file.sync_data(CONTEXT).unwrap();
    file.finish().unwrap();
    assert!(contents(env, &path, direct) == data);
    if traits.sparse {
        assert!(env.allocated_bytes(&path).unwrap() < 64 * KIB);
    }
    env.remove_file(&path).unwrap();

    let file = env.open_random_write(&path, &options(direct)).unwrap();
    file.write_at(0, &data, CONTEXT).unwrap();
    file.preallocate(0, 1024 * KIB).unwrap();
    assert_eq!(file.len().unwrap(), data.len() as u64);
    assert!(contents(env, &path, direct) == data);
    env.remove_file(&path).unwrap();
}

/// A hole reads as zero, around it nothing changes, and its blocks are given back.
pub(super) fn punch_hole(env: &dyn Env, directory: &Path, direct: bool, traits: Traits) {
    let path = directory.join("hole");
    let file = env.open_random_write(&path, &options(direct)).unwrap();
    let mut expected = pattern(256 * 1024, 6);
    file.write_at(0, &expected, CONTEXT).unwrap();
    file.sync_data(CONTEXT).unwrap();
    let before = env.allocated_bytes(&path).unwrap();
    file.punch_hole(64 * KIB, 128 * KIB).unwrap();
    expected[64 * 1024..192 * 1024].fill(0);
    assert!(contents(env, &path, direct) == expected);
    if traits.sparse {
        assert!(env.allocated_bytes(&path).unwrap() + 128 * KIB <= before);
    }
    env.remove_file(&path).unwrap();
}

/// Where a file is mapped, the mapping and the reads agree.
pub(super) fn mapped(env: &dyn Env, directory: &Path) {
    let path = directory.join("map");
    for len in [0, 1, 4096, 10_000] {
        let data = pattern(len, 7);
        write_file(env, &path, &data, false);
        let file = env.open_random(&path, &FileOptions::new(FileKind::Table).mmap(true)).unwrap();
        file.will_need(0, len as u64);
        file.will_need(1, u64::MAX);
        let mut read = vec![0; len + 1];
        assert_eq!(file.read_at(0, &mut read, CONTEXT).unwrap(), len);
        assert!(read[..len] == data);
        assert_eq!(file.read_at(len as u64 + 1, &mut read, CONTEXT).unwrap(), 0);
        if let Some(mapped) = file.mapped(0, len) {
            assert!(mapped == data);
        }
        assert!(file.mapped(0, len + 1).is_none());
        assert!(file.mapped(1, len).is_none());
        assert!(file.mapped(u64::MAX, 1).is_none());
        env.remove_file(&path).unwrap();
    }
}

/// Names that do not exist are `NotFound`, and nothing but creation creates.
pub(super) fn missing(env: &dyn Env, directory: &Path) {
    let path = directory.join("missing");
    let options = FileOptions::new(FileKind::Table);
    let not_found = io::ErrorKind::NotFound;
    assert_eq!(env.open_random(&path, &options).unwrap_err().kind(), not_found);
    assert_eq!(env.open_append(&path, &options).unwrap_err().kind(), not_found);
    assert_eq!(env.remove_file(&path).unwrap_err().kind(), not_found);
    assert_eq!(env.file_len(&path).unwrap_err().kind(), not_found);
    assert_eq!(env.rename(&path, &directory.join("other")).unwrap_err().kind(), not_found);
    assert_eq!(env.hard_link(&path, &directory.join("other")).unwrap_err().kind(), not_found);
    assert_eq!(env.list_dir(&path).unwrap_err().kind(), not_found);
    assert_eq!(env.create_append(&path.join("file"), &options).unwrap_err().kind(), not_found);
    assert!(!env.exists(&path).unwrap());
}

/// Each operation is counted once, under its kind and priority.
pub(super) fn accounting(env: &dyn Env, directory: &Path) {
    let path = directory.join("counted");
    let before = env.io_stats().snapshot();
    let context = IoContext::new(FileKind::Binlog, IoPriority::High);
    let mut file = env.create_append(&path, &FileOptions::new(FileKind::Binlog)).unwrap();
    file.append(&[1; 100], context).unwrap();
    file.append(&[1; 23], context).unwrap();
    file.sync_data(context).unwrap();
    file.sync_handle().unwrap().sync_data(context).unwrap();
    file.finish().unwrap();
    let low = IoContext::new(FileKind::Binlog, IoPriority::Low);
    let file = env.open_random(&path, &FileOptions::new(FileKind::Binlog)).unwrap();
    file.read_at(0, &mut [0; 200], low).unwrap();
    file.read_at(120, &mut [0; 2], low).unwrap();
    let counted = env.io_stats().snapshot().since(&before);
    let high = counted.get(FileKind::Binlog, IoPriority::High);
    assert_eq!((high.writes, high.written_bytes, high.syncs, high.reads), (2, 123, 2, 0));
    let low = counted.get(FileKind::Binlog, IoPriority::Low);
    assert_eq!((low.reads, low.read_bytes, low.writes, low.syncs), (2, 125, 0, 0));
    assert_eq!(counted.get(FileKind::Binlog, IoPriority::User), Default::default());
    env.remove_file(&path).unwrap();
}
