//! Tests of what is particular to the operating system's files.
#![expect(clippy::disallowed_methods, reason = "what the environment did is looked at from outside it")]

use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use super::PosixEnv;
use super::aligned::{AlignedBuffer, is_aligned};
use crate::clock::{Clock, ManualClock};
use crate::env::conformance::{Traits, check};
use crate::env::{AppendFile, DIRECT_ALIGNMENT, Env, FileKind, FileOptions, IoContext, IoPriority, ReadRequest};

const CONTEXT: IoContext = IoContext::new(FileKind::Table, IoPriority::User);
const BUFFERED: FileOptions = FileOptions::new(FileKind::Table);
const DIRECT: FileOptions = FileOptions::new(FileKind::Table).direct(true);

fn write_file(env: &PosixEnv, path: &Path, data: &[u8]) {
    let mut file = env.create_append(path, &BUFFERED).unwrap();
    file.append(data, CONTEXT).unwrap();
    file.sync_data(CONTEXT).unwrap();
    file.finish().unwrap();
}

#[test]
fn conforms() {
    let directory = tempfile::tempdir().unwrap();
    check(&PosixEnv::new(), directory.path(), Traits { sparse: true });
}

/// The calls that this thread made, by the kernel's count.
fn system_calls(name: &str) -> u64 {
    let counts = std::fs::read_to_string("/proc/thread-self/io").unwrap();
    let line = counts.lines().find(|line| line.starts_with(name)).unwrap();
    line.split_once(": ").unwrap().1.parse().unwrap()
}

#[test]
fn an_operation_is_one_system_call() {
    if !Path::new("/proc/thread-self/io").exists() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    let env = PosixEnv::new();
    let mut file = env.create_append(&path, &BUFFERED).unwrap();
    let before = system_calls("syscw");
    for len in 0..100 {
        file.append(&vec![1; len], CONTEXT).unwrap();
    }
    assert_eq!(system_calls("syscw") - before, 99, "an empty append is none");
    file.finish().unwrap();

    let file = env.open_random(&path, &BUFFERED).unwrap();
    let own = {
        let before = system_calls("syscr");
        system_calls("syscr") - before
    };
    let before = system_calls("syscr");
    for offset in 0..100 {
        assert_eq!(file.read_at(offset, &mut [0; 64], CONTEXT).unwrap(), 64);
    }
    assert_eq!(system_calls("syscr") - before - own, 100);
    let mut buffers = [[0; 64]; 50];
    let mut requests: Vec<_> =
        buffers.iter_mut().map(|buffer| ReadRequest { offset: 7, buffer, result: Ok(0) }).collect();
    // Once before: the first call finds out what the file system can do.
    file.read_many(&mut requests, CONTEXT);
    let before = system_calls("syscr");
    file.read_many(&mut requests, CONTEXT);
    assert_eq!(system_calls("syscr") - before - own, 50, "what is cached is read by one call each");
}

#[test]
fn lists_of_reads_that_are_not_cached() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    let env = PosixEnv::new();
    let data: Vec<u8> = (0..1 << 20).map(|index: u32| (index >> 4) as u8 ^ index as u8).collect();
    write_file(&env, &path, &data);
    let descriptor = std::fs::File::open(&path).unwrap();
    let file = env.open_random(&path, &BUFFERED).unwrap();
    for nowait in [true, false] {
        super::read_many::set_nowait_for_test(nowait);
        rustix::fs::fadvise(&descriptor, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        let mut buffers = vec![vec![0; 10_000]; 20];
        let offset = |index: usize| (index * 70_001) as u64;
        let mut requests: Vec<_> = buffers
            .iter_mut()
            .enumerate()
            .map(|(index, buffer)| ReadRequest { offset: offset(index), buffer, result: Ok(0) })
            .collect();
        let before = env.io_stats().snapshot();
        file.read_many(&mut requests, CONTEXT);
        let mut total = 0;
        for request in &requests {
            let rest = &data[(request.offset as usize).min(data.len())..];
            let read = *request.result.as_ref().unwrap();
            assert_eq!(read, rest.len().min(10_000));
            assert!(request.buffer[..read] == rest[..read]);
            total += read as u64;
        }
        let counted = env.io_stats().snapshot().since(&before).total();
        assert_eq!((counted.reads, counted.read_bytes), (20, total));
    }
    super::read_many::set_nowait_for_test(true);
}

#[test]
fn threads_read_where_they_pay() {
    use super::read_many::helpers;
    // microseconds of a read, reads left, threads beside the caller
    let cases = [(0, 100, 0), (40, 1000, 0), (100, 1, 0), (100, 2, 1), (100, 4, 3), (100, 100, 7), (12_500, 3, 2)];
    for (micros, count, expected) in cases {
        assert_eq!(helpers(micros, count), expected, "{count} reads of {micros}");
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    let env = PosixEnv::new();
    let data: Vec<u8> = (0..200_000).map(|index: u32| (index >> 4) as u8 ^ index as u8).collect();
    write_file(&env, &path, &data);
    let handle = env.handle(super::open::to_read(&path, &DIRECT).unwrap());
    let file = super::random::PosixFile::to_read(handle);
    for helpers in [0, 1, 7] {
        let mut buffers = vec![vec![0; 9_000]; 40];
        let mut requests: Vec<_> = buffers
            .iter_mut()
            .enumerate()
            .map(|(index, buffer)| ReadRequest { offset: index as u64 * 5_003, buffer, result: Ok(0) })
            .collect();
        super::read_many::read_on_threads(&file, &mut requests, CONTEXT, helpers);
        for request in &requests {
            let rest = &data[(request.offset as usize).min(data.len())..];
            let read = *request.result.as_ref().unwrap();
            assert_eq!(read, rest.len().min(9_000));
            assert!(request.buffer[..read] == rest[..read]);
        }
    }
}

#[test]
fn direct_files_are_direct_where_the_file_system_is_willing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    let env = PosixEnv::new();
    write_file(&env, &path, &[5; 10_000]);
    let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::DIRECT;
    let willing = rustix::fs::open(&path, flags, rustix::fs::Mode::empty()).is_ok();
    assert_eq!(super::open::to_read(&path, &DIRECT).unwrap().direct, willing);
    assert_eq!(super::open::to_append(&path, &DIRECT).unwrap().direct, willing);
    assert!(!super::open::to_read(&path, &DIRECT.mmap(true)).unwrap().direct);
}

/// Whatever the file system's blocks are, and wherever the file ends.
#[test]
fn a_direct_file_is_read_from_anywhere_to_anywhere() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    let env = PosixEnv::new();
    for len in [1, 511, 512, 4_095, 4_096, 9_000, (256 << 10) + 700] {
        let bytes: Vec<u8> = (0..len).map(|at: usize| (at * 31 / 7) as u8).collect();
        write_file(&env, &path, &bytes);
        let file = env.open_random(&path, &DIRECT).unwrap();
        let places =
            [0, 1, 511, 512, 513, 1_024, 4_000, 4_096, 5_000, 8_191].into_iter().chain(len.saturating_sub(600)..=len);
        for from in places.filter(|from| *from <= len) {
            for wanted in [1, 512, 1_000, 4_096, 7_777, 300_000] {
                let mut buffer = vec![0; wanted];
                let read = file.read_at(from as u64, &mut buffer, CONTEXT).unwrap();
                assert_eq!(read, wanted.min(len - from), "{wanted} from {from} of {len}");
                assert!(buffer[..read] == bytes[from..from + read], "{wanted} from {from} of {len}");
            }
        }
    }
}

#[test]
fn a_file_system_that_refuses_gets_buffered_files() {
    // The process file system knows no direct I/O.
    let file = PosixEnv::new().open_random(Path::new("/proc/self/stat"), &DIRECT).unwrap();
    let mut data = [0; 5];
    assert_eq!(file.read_at(0, &mut data, CONTEXT).unwrap(), 5);
    assert!(data.starts_with(std::process::id().to_string().get(..1).unwrap().as_bytes()));
}

#[test]
fn aligned_memory_is_aligned() {
    for len in [0, DIRECT_ALIGNMENT, 1 << 20] {
        let mut buffer = AlignedBuffer::new(len);
        assert!(is_aligned(0, &buffer) && buffer.len() == len);
        buffer.fill(1);
        assert!(!is_aligned(1, &buffer));
        assert!(len == 0 || !is_aligned(0, &buffer[1..]) && !is_aligned(0, &buffer[..len - 1]));
    }
}

#[test]
fn a_mapped_file_is_mapped() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    let env = PosixEnv::new();
    write_file(&env, &path, &[5; 10_000]);
    let file = env.open_random(&path, &BUFFERED.mmap(true)).unwrap();
    assert_eq!(file.mapped(4_000, 6_000), Some(&[5; 6_000][..]));
    let mut writer = env.open_append(&path, &BUFFERED).unwrap();
    writer.append(&[6; 10], CONTEXT).unwrap();
    let mut data = [0; 20];
    assert_eq!(file.read_at(9_995, &mut data, CONTEXT).unwrap(), 15, "what was added later is read");
    assert_eq!(data[..15], *b"\x05\x05\x05\x05\x05\x06\x06\x06\x06\x06\x06\x06\x06\x06\x06");
}

/// A device that is always full: every write fails, and a sync makes no sense to it.
#[test]
fn a_full_device_says_so_and_failures_are_final() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("full");
    std::os::unix::fs::symlink("/dev/full", &path).unwrap();
    let env = PosixEnv::new();
    for options in [BUFFERED, DIRECT] {
        for create in [true, false] {
            let file = if create { env.create_append(&path, &options) } else { env.open_append(&path, &options) };
            let mut file = file.unwrap();
            let handle = file.sync_handle().unwrap();
            let written = file.append(b"data", CONTEXT).and_then(|()| file.sync_data(CONTEXT));
            assert_eq!(written.unwrap_err().kind(), io::ErrorKind::StorageFull);
            assert_eq!(file.append(b"data", CONTEXT).unwrap_err().kind(), io::ErrorKind::Other);
            let first = handle.sync_data(CONTEXT).unwrap_err().kind();
            assert_ne!(first, io::ErrorKind::StorageFull);
            assert_eq!(file.sync_data(CONTEXT).unwrap_err().kind(), io::ErrorKind::Other);
            assert_eq!(handle.sync_data(CONTEXT).unwrap_err().kind(), io::ErrorKind::Other);
            assert_eq!(file.finish().unwrap_err().kind(), io::ErrorKind::Other);
        }
    }
    let file = env.open_random_write(&path, &BUFFERED).unwrap();
    assert_eq!(file.write_at(0, b"data", CONTEXT).unwrap_err().kind(), io::ErrorKind::StorageFull);
    assert_eq!(env.io_stats().snapshot().total(), Default::default(), "what failed is not counted");
}

const CHILD: &str = "SILTSTONE_LOCK_FOR_TEST";

/// Not a test of its own: the other process of the next one. Takes the lock, says what it found and keeps it until its input ends.
#[test]
fn lock_child() {
    let Some(path) = std::env::var_os(CHILD) else { return };
    let lock = PosixEnv::new().lock_file(Path::new(&path));
    let found = match &lock {
        Ok(_) => "taken",
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => "held",
        Err(_) => "failed",
    };
    let mut out = io::stdout();
    out.write_all(format!("<{found}>\n").as_bytes()).unwrap();
    out.flush().unwrap();
    io::stdin().read_to_end(&mut Vec::new()).unwrap();
    drop(lock);
}

/// Runs `check` while another process has tried to take the lock, with what it found.
fn with_other_process(path: &Path, check: impl FnOnce(&str)) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "env::posix::tests::lock_child", "--nocapture"])
        .env(CHILD, path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = child.stdout.take().unwrap();
    let mut said = Vec::new();
    let mut byte = [0];
    while !said.ends_with(b">") {
        assert_eq!(output.read(&mut byte).unwrap(), 1, "{}", String::from_utf8_lossy(&said));
        said.push(byte[0]);
    }
    let said = String::from_utf8(said).unwrap();
    check(said.rsplit_once('<').unwrap().1.trim_end_matches('>'));
    drop(child.stdin.take());
    output.read_to_end(&mut Vec::new()).unwrap();
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_lock_keeps_other_processes_out() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("LOCK");
    let env = PosixEnv::new();
    let lock = env.lock_file(&path).unwrap();
    with_other_process(&path, |found| assert_eq!(found, "held"));

    // Whatever is tried in this process meanwhile gives nothing away.
    let link = directory.path().join("other").join("LOCK");
    env.create_dir_all(link.parent().unwrap()).unwrap();
    env.hard_link(&path, &link).unwrap();
    for path in [&path, &link] {
        let would_block = io::ErrorKind::WouldBlock;
        assert_eq!(PosixEnv::new().lock_file(path).unwrap_err().kind(), would_block);
        assert_eq!(env.open_random(path, &BUFFERED).unwrap_err().kind(), would_block);
        assert_eq!(env.open_random_write(path, &BUFFERED).unwrap_err().kind(), would_block);
        assert_eq!(env.open_append(path, &BUFFERED).unwrap_err().kind(), would_block);
        assert_eq!(env.create_append(path, &BUFFERED).unwrap_err().kind(), would_block);
    }
    with_other_process(&path, |found| assert_eq!(found, "held"));

    drop(lock);
    with_other_process(&path, |found| {
        assert_eq!(found, "taken");
        assert_eq!(env.lock_file(&path).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    });
    drop(env.lock_file(&path).unwrap());
}

#[test]
fn names_that_are_not_text_are_left_out() {
    use std::os::unix::ffi::OsStrExt;
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join(std::ffi::OsStr::from_bytes(b"\xFF")), "").unwrap();
    std::fs::write(directory.path().join("text"), "").unwrap();
    let entries = PosixEnv::new().list_dir(directory.path()).unwrap();
    assert_eq!(entries.iter().map(|entry| &entry.name[..]).collect::<Vec<_>>(), ["text"]);
    PosixEnv::new().sync_dir(Path::new("")).unwrap();
}

#[test]
fn a_caller_does_not_wait_for_a_whole_transfer_of_background_work() {
    if !Path::new("/proc/thread-self/io").exists() {
        return;
    }
    // Calls are counted by threads.
    super::background::tests::do_without_threads();
    let directory = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::new(0));
    clock.advance(Duration::from_secs(1));
    let env = PosixEnv { clock: Arc::clone(&clock) as Arc<dyn Clock>, ..PosixEnv::new() };
    let others = directory.path().join("others");
    write_file(&env, &others, &[7; 8192]);
    if !env.handle(super::open::to_read(&others, &DIRECT).unwrap()).is_direct() {
        // The file system refuses the flag.
        return;
    }
    let of_caller = env.open_random(&others, &DIRECT).unwrap();
    let background = IoContext::new(FileKind::Table, IoPriority::Low);

    let path = directory.path().join("table");
    let unit: Vec<u8> = (0..1 << 20).map(|at: u32| (at / 4099) as u8).collect();
    let mut file = env.create_append(&path, &DIRECT).unwrap();
    let mut append = |context| {
        let before = system_calls("syscw");
        file.append(&unit, context).unwrap();
        file.sync_data(context).unwrap();
        system_calls("syscw") - before
    };
    assert_eq!(append(background), 1, "nobody reads");
    of_caller.read_at(0, &mut [0; 4096], background).unwrap();
    assert_eq!(append(background), 1, "background work reads");
    of_caller.read_at(0, &mut [0; 4096], CONTEXT).unwrap();
    assert_eq!(append(background), 8, "a caller read just now");
    assert_eq!(append(CONTEXT), 1, "a caller waits for this one");
    clock.advance(Duration::from_millis(150));
    assert_eq!(append(background), 1, "it was a while ago");
    file.finish().unwrap();

    of_caller.read_at(0, &mut [0; 4096], CONTEXT).unwrap();
    let table = env.open_random(&path, &DIRECT).unwrap();
    let mut buffer = AlignedBuffer::new(5 << 20);
    assert_eq!(table.read_at(0, &mut buffer, background).unwrap(), 5 << 20);
    assert!(buffer.chunks(1 << 20).all(|read| read == unit), "pieces are joined as they were");
}

/// Bytes of which no two stretches are alike.
fn odd_bytes(len: usize) -> Vec<u8> {
    (0..len as u32).map(|index| (index >> 12) as u8 ^ (index.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

#[test]
fn what_was_read_ahead_is_what_the_file_has() {
    read_ahead_and_look(false);
}

#[test]
fn what_was_read_before_it_was_asked_for_is_what_the_file_has() {
    read_ahead_and_look(true);
}

/// Reads ranges of a file of which some were asked for in advance, in vain as well; each of these has been read before the next call, or may yet be.
fn read_ahead_and_look(waits: bool) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    let env = PosixEnv::new();
    let data = odd_bytes((3 << 20) + 123);
    write_file(&env, &path, &data);
    let file = env.open_random(&path, &DIRECT).unwrap();
    let before = env.io_stats().snapshot();
    let mut asked = 0;
    let mut read = |offset: u64, len: usize| {
        let mut buffer = vec![0; len];
        let read = file.read_at(offset, &mut buffer, CONTEXT).unwrap();
        let rest = &data[(offset as usize).min(data.len())..];
        assert_eq!(read, rest.len().min(len), "{len} bytes at {offset}");
        assert!(buffer[..read] == rest[..read], "{len} bytes at {offset}");
        asked += read as u64;
    };
    const MIB: u64 = 1 << 20;
    // A range is asked for, and then that one is read, or a part, or another, or the end of the file.
    let cases = [(0, MIB, 0, MIB), (MIB, MIB, MIB, 4096), (MIB, MIB, 2 * MIB, MIB), (3 * MIB, MIB, 3 * MIB, 123)];
    for (ahead, ahead_len, offset, len) in cases {
        file.will_need(ahead, ahead_len);
        if waits {
            env.read_ahead.wait();
        }
        read(offset, len as usize);
    }
    // More than are kept, out of order; one is forgotten, and one asked for twice.
    (0..6).for_each(|range| file.will_need(range * MIB / 2, MIB / 2));
    file.forget(4 * MIB / 2);
    file.will_need(5 * MIB / 2, MIB / 4);
    [5, 4, 3, 2, 1, 0].into_iter().for_each(|range| read(range * MIB / 2, 1 << 19));
    // What makes no sense.
    for (offset, len) in [(100, 4096), (4 * MIB, 4096), (0, 0), (u64::MAX, u64::MAX), (0, u64::MAX)] {
        file.will_need(offset, len);
    }
    read(0, 4096);
    let counted = env.io_stats().snapshot().since(&before).total();
    if file.is_direct() {
        // A part of a block is counted as a whole one; and a range that was read before it was let go, though nobody read it.
        let more = counted.read_bytes.saturating_sub(asked);
        assert!(more % (MIB / 4) < 8192 && more < 4 * MIB, "{counted:?}, {asked} asked for");
    }
}

#[test]
fn a_range_that_was_read_ahead_is_counted_once() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    let env = PosixEnv::new();
    let data = odd_bytes((3 << 20) + 123);
    write_file(&env, &path, &data);
    let file = env.open_random(&path, &DIRECT).unwrap();
    let before = env.io_stats().snapshot();
    for (index, range) in data.chunks(1 << 19).enumerate() {
        let offset = (index as u64) << 19;
        file.will_need(offset, 1 << 19);
        let mut buffer = vec![0; range.len()];
        assert_eq!(file.read_at(offset, &mut buffer, CONTEXT).unwrap(), range.len());
        assert!(buffer == range, "{} bytes at {offset}", range.len());
    }
    let counted = env.io_stats().snapshot().since(&before).total();
    // A part of a block is counted as a whole one. Nothing was read in vain.
    assert_eq!(counted.read_bytes.saturating_sub(data.len() as u64) / 8192, 0, "{counted:?}");
    assert!(counted.read_bytes >= data.len() as u64, "{counted:?}");
}

#[test]
fn a_range_that_was_read_ahead_costs_its_reader_no_system_call() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    let env = PosixEnv::new();
    write_file(&env, &path, &odd_bytes(1 << 20));
    let file = env.open_random(&path, &DIRECT).unwrap();
    if !file.is_direct() || !Path::new("/proc/thread-self/io").exists() {
        return;
    }
    let mut buffer = vec![0; 1 << 20];
    let mut calls = |is_ahead: bool| {
        if is_ahead {
            file.will_need(0, 1 << 20);
            env.read_ahead.wait();
        }
        let before = system_calls("syscr");
        file.read_at(0, &mut buffer, CONTEXT).unwrap();
        system_calls("syscr") - before
    };
    // Asking for the count is one by itself.
    assert!(calls(false) > calls(true));
}

#[test]
fn a_direct_file_has_what_was_appended_whatever_is_synced_between() {
    let directory = tempfile::tempdir().unwrap();
    let env = PosixEnv::new();
    let data = odd_bytes((5 << 20) + 77);
    for (piece, sync_after) in [(1 << 20, 0), (4096, 300), (100_003, 7), (data.len(), 0), (3 << 20, 1)] {
        let path = directory.path().join(format!("file{piece}"));
        let mut file = env.create_append(&path, &DIRECT).unwrap();
        let handle = file.sync_handle().unwrap();
        for (number, bytes) in data.chunks(piece).enumerate() {
            file.append(bytes, CONTEXT).unwrap();
            match sync_after {
                0 => continue,
                every if number % every == 0 => file.sync_data(CONTEXT).unwrap(),
                every if number % every == every / 2 => handle.sync_data(CONTEXT).unwrap(),
                _ => continue,
            }
            let end = file.len() as usize;
            assert!(std::fs::read(&path).unwrap() == data[..end], "in pieces of {piece}, up to {end}");
        }
        assert_eq!(file.len(), data.len() as u64);
        file.finish().unwrap();
        assert!(std::fs::read(&path).unwrap() == data, "in pieces of {piece}");
    }
    let counted = env.io_stats().snapshot().total();
    assert!(counted.written_bytes >= 5 * data.len() as u64, "{counted:?}");
}

/// Whoever waits behind others, of another database perhaps, whose device does not answer, would wait for ever.
#[test]
fn files_are_read_and_written_though_all_threads_are_busy() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    let env = PosixEnv::new();
    let data = odd_bytes((3 << 20) + 5);
    let gate = super::background::tests::Gate::close();
    let mut file = env.create_append(&path, &DIRECT).unwrap();
    file.append(&data[..2 << 20], CONTEXT).unwrap();
    file.sync_data(CONTEXT).unwrap();
    assert!(std::fs::read(&path).unwrap() == data[..2 << 20]);
    file.append(&data[2 << 20..], CONTEXT).unwrap();
    file.finish().unwrap();
    assert!(std::fs::read(&path).unwrap() == data);

    let file = env.open_random(&path, &DIRECT).unwrap();
    let before = env.io_stats().snapshot();
    let mut buffer = vec![0; 1 << 20];
    for offset in [0, 1 << 20] {
        file.will_need(offset, 1 << 20);
        file.read_at(offset, &mut buffer, CONTEXT).unwrap();
        assert!(buffer == data[offset as usize..][..1 << 20]);
    }
    file.will_need(0, 1 << 20);
    file.forget(0);
    gate.open();
    let counted = env.io_stats().snapshot().since(&before).total();
    assert_eq!(counted.read_bytes, 2 << 20, "what nobody has begun is not read in vain");
}

/// What is written of a file that was given up goes to that file, and not to one of the same name.
#[test]
fn a_unit_of_a_file_that_is_gone_is_not_written_to_the_next_one_of_its_name() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    let env = PosixEnv::new();
    for _ in 0..20 {
        let mut given_up = env.create_append(&path, &DIRECT).unwrap();
        given_up.append(&[1; 3 << 20], CONTEXT).unwrap();
        drop(given_up);
        env.remove_file(&path).unwrap();
        let mut file = env.create_append(&path, &DIRECT).unwrap();
        file.append(&[2; (1 << 20) + 9], CONTEXT).unwrap();
        file.finish().unwrap();
        assert!(std::fs::read(&path).unwrap() == [2; (1 << 20) + 9]);
    }
}

/// The thread that writes a unit meets the error after the append has returned.
#[test]
fn a_unit_that_cannot_be_written_fails_the_next_call_and_all_after_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    let env = PosixEnv::new();
    write_file(&env, &path, b"");
    let opened = super::open::to_read(&path, &DIRECT).unwrap();
    if !opened.direct {
        return;
    }
    // It cannot be written at all.
    let handle = Arc::new(env.handle(opened));
    let file = || super::direct_append::DirectAppendFile::new(Arc::clone(&handle), FileKind::Table).unwrap();
    let unit = vec![1; 1 << 20];
    type Call<'a> = &'a dyn Fn(&mut dyn AppendFile) -> io::Result<()>;
    let calls: [(&str, Call<'_>); 2] =
        [("append", &|file| file.append(&unit, CONTEXT)), ("sync", &|file| file.sync_data(CONTEXT))];
    for (name, call) in calls {
        let mut file = file();
        file.append(&unit, CONTEXT).unwrap();
        let error = call(&mut file).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::BADF.raw_os_error()), "{name}: {error}");
        for _ in 0..2 {
            assert!(file.append(b"more", CONTEXT).unwrap_err().to_string().contains("an earlier append"), "{name}");
            assert!(file.sync_data(CONTEXT).is_err(), "{name}");
        }
        assert!(Box::new(file).finish().is_err(), "{name}");
    }
    let mut file = file();
    file.append(&unit, CONTEXT).unwrap();
    assert!(Box::new(file).finish().is_err(), "the last unit");
}
