//! A binlog: every commit of every client, in one order, in a file of its own.
//!
//! Commits are grouped: the first client that finds no leader leads. It takes what all others have queued by then, appends
//! it with one write, syncs as the mode says, and takes what was queued meanwhile; a client returns when its own record is
//! where the mode wants it. A record is its length (fixed32), the CRC32c of the rest (fixed32), and the rows. A full
//! file is followed by a new one, and the one before it is removed: replicas have read it.

use siltstone_base::checksum::crc32c;
use siltstone_base::env::{AppendFile, Env, FileKind, FileOptions, IoContext, IoPriority};
use siltstone_base::sync::atomic::{AtomicU64, Ordering};
use siltstone_base::sync::{Arc, Mutex, Rank, Signal};
use siltstone_base::{Error, Result};
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// What becomes of a commit in the binlog before the engine commits it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BinlogMode {
    /// There is no binlog.
    Off,
    /// It is written to the operating system.
    Os,
    /// It is on the device.
    Sync,
    /// It is written to the operating system, and the file is synced after every so many groups of commits.
    Every(u64),
}

impl fmt::Display for BinlogMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::Os => f.write_str("os"),
            Self::Sync => f.write_str("sync"),
            Self::Every(groups) => groups.fmt(f),
        }
    }
}

impl FromStr for BinlogMode {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "off" => Ok(Self::Off),
            "os" => Ok(Self::Os),
            "sync" => Ok(Self::Sync),
            _ => match text.parse() {
                Ok(groups) if groups > 0 => Ok(Self::Every(groups)),
                _ => Err("expected off, os, sync or a number of groups above 0"),
            },
        }
    }
}

/// Bytes of a file before the next one begins.
const FILE_BYTES: u64 = 1 << 30;

const CONTEXT: IoContext = IoContext::new(FileKind::Binlog, IoPriority::User);

/// Taken with no other lock held.
const RANK: Rank = Rank(1);

/// The binlog of one run.
#[derive(Debug)]
pub(super) struct Binlog {
    env: Arc<dyn Env>,
    dir: PathBuf,
    groups_per_sync: Option<u64>,
    queue: Mutex<Queue>,
    /// Held by the leader alone.
    writer: Mutex<Writer>,
    /// Records that are where the mode wants them.
    done: AtomicU64,
    signal: Signal,
}

#[derive(Debug, Default)]
struct Queue {
    bytes: Vec<u8>,
    records: u64,
    has_leader: bool,
    error: Option<Error>,
}

#[derive(Debug)]
struct Writer {
    file: Box<dyn AppendFile>,
    path: PathBuf,
    number: u64,
    groups_since_sync: u64,
    bytes: u64,
    groups: u64,
}

impl Binlog {
    /// Starts a binlog in `dir`; `None` if the mode is off.
    pub(super) fn create(env: Arc<dyn Env>, dir: &Path, mode: BinlogMode) -> Result<Option<Self>> {
        let groups_per_sync = match mode {
            BinlogMode::Off => return Ok(None),
            BinlogMode::Os => None,
            BinlogMode::Sync => Some(1),
            BinlogMode::Every(groups) => Some(groups),
        };
        env.create_dir_all(dir).map_err(|error| Error::io("create directory", dir, error))?;
        let (file, path) = create_file(&*env, dir, 1)?;
        let writer = Writer { file, path, number: 1, groups_since_sync: 0, bytes: 0, groups: 0 };
        Ok(Some(Self {
            env,
            dir: dir.to_path_buf(),
            groups_per_sync,
            queue: Mutex::new(RANK, Queue::default()),
            writer: Mutex::new(RANK, writer),
            done: AtomicU64::new(0),
            signal: Signal::new(),
        }))
    }

    /// Appends a commit and returns when it is where the mode wants it.
    pub(super) fn commit(&self, rows: &[u8]) -> Result<()> {
        let (own, leads) = {
            let mut queue = self.queue.lock();
            if let Some(error) = &queue.error {
                return Err(error.clone());
            }
            queue.bytes.extend_from_slice(&(rows.len() as u32).to_le_bytes());
            queue.bytes.extend_from_slice(&crc32c(rows).to_le_bytes());
            queue.bytes.extend_from_slice(rows);
            queue.records += 1;
            (queue.records, !std::mem::replace(&mut queue.has_leader, true))
        };
        if leads {
            self.lead();
        } else {
            let is_waiting = || self.done.load(Ordering::Acquire) < own;
            self.signal.wait_while(None, &mut || is_waiting() && self.queue.lock().error.is_none());
        }
        if self.done.load(Ordering::Acquire) >= own {
            return Ok(());
        }
        self.queue.lock().error.clone().map_or(Ok(()), Err)
    }

    fn lead(&self) {
        let mut group = Vec::new();
        loop {
            let records = {
                let mut queue = self.queue.lock();
                if queue.bytes.is_empty() || queue.error.is_some() {
                    queue.has_leader = false;
                    return;
                }
                group.clear();
                std::mem::swap(&mut group, &mut queue.bytes);
                queue.records
            };
            match self.append(&group) {
                Ok(()) => self.done.store(records, Ordering::Release),
                Err(error) => self.queue.lock().error = Some(error),
            }
            self.signal.notify_all();
        }
    }

    fn append(&self, group: &[u8]) -> Result<()> {
        let mut writer = self.writer.lock();
        let writer = &mut *writer;
        writer.file.append(group, CONTEXT).map_err(|error| Error::io("append", &writer.path, error))?;
        writer.bytes += group.len() as u64;
        writer.groups += 1;
        writer.groups_since_sync += 1;
        if self.groups_per_sync.is_some_and(|groups| writer.groups_since_sync >= groups) {
            writer.file.sync_data(CONTEXT).map_err(|error| Error::io("sync", &writer.path, error))?;
            writer.groups_since_sync = 0;
        }
        if writer.file.len() >= FILE_BYTES { self.rotate(writer) } else { Ok(()) }
    }

    fn rotate(&self, writer: &mut Writer) -> Result<()> {
        let (file, path) = create_file(&*self.env, &self.dir, writer.number + 1)?;
        let old = std::mem::replace(&mut writer.file, file);
        old.finish().map_err(|error| Error::io("finish", &writer.path, error))?;
        if let Some(read) = writer.number.checked_sub(1).filter(|&number| number > 0) {
            let path = file_path(&self.dir, read);
            self.env.remove_file(&path).map_err(|error| Error::io("remove", &path, error))?;
        }
        writer.number += 1;
        writer.path = path;
        Ok(())
    }

    /// Bytes and groups written so far.
    pub(super) fn written(&self) -> (u64, u64) {
        let writer = self.writer.lock();
        (writer.bytes, writer.groups)
    }
}

fn file_path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("binlog.{number:06}"))
}

fn create_file(env: &dyn Env, dir: &Path, number: u64) -> Result<(Box<dyn AppendFile>, PathBuf)> {
    let path = file_path(dir, number);
    let file = env
        .create_append(&path, &FileOptions::new(FileKind::Binlog))
        .map_err(|error| Error::io("create", &path, error))?;
    Ok((file, path))
}
