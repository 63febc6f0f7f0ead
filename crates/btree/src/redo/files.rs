//! The files of the redo log: a ring, and the two places of its checkpoints.

use super::position::GroupEnd;
use super::record::MAX_RECORD_LEN;
use super::sequence::Sequence;
use crate::meanwhile::{Moment, meanwhile};
use crate::page::{Lsn, PageMut, PageRead};
use crate::sync_needed::SyncNeeded;
use siltstone_base::checksum::xxh3_64;
use siltstone_base::env::{Env, FileKind, FileOptions, IoContext, IoPriority, RandomWriteFile};
use siltstone_base::sync::Arc;
use siltstone_base::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};

/// Files of the ring.
pub(crate) const FILES: u64 = 2;

/// Bytes of each file before its part of the ring: a header, and in the first file two checkpoints.
const DATA_START: u64 = 12 << 10;
const CHECKPOINT_AT: [u64; 2] = [4 << 10, 8 << 10];
const BLOCK: usize = 512;
const MAGIC: u64 = u64::from_le_bytes(*b"SiltRedo");
const VERSION: u64 = 1;

/// The first LSN of a database: 0 stands for none.
pub(crate) const FIRST_LSN: Lsn = 4096;

const CONTEXT: IoContext = IoContext::new(FileKind::Redo, IoPriority::User);

/// From where recovery begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Checkpoint {
    /// Counts checkpoints.
    pub(crate) sequence: Sequence,
    /// Everything before is in the pages.
    pub(crate) lsn: Lsn,
    /// The groups up to here were durable when the checkpoint was written: if the log ends before, it was damaged.
    pub(crate) synced: GroupEnd,
    /// Whether the database was closed: the log ends here.
    pub(crate) is_clean: bool,
    /// The life of the database in which it was written.
    pub(crate) life: Life,
}

/// From one opening of a database to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Life {
    /// Where the log ended for it at first: it writes from here on.
    pub(crate) start: GroupEnd,
    /// Its first checkpoint. Records from `start` on that state an older one were left by lives before.
    pub(crate) sequence: Sequence,
}

impl Life {
    /// Whether a record was left by a life before this one, where this one writes.
    pub(super) fn is_before(&self, lsn: Lsn, sequence: Sequence) -> bool {
        lsn >= self.start.lsn() && sequence.is_before(self.sequence)
    }

    /// The life as the checkpoint `sequence` states it, of a log that is durable up to `synced`. Once its first checkpoint is so far back that a comparison could soon go wrong, the life is said to have begun
    /// at `synced`, and with a checkpoint that is older than any record from there on.
    pub(super) fn as_of(self, sequence: Sequence, synced: GroupEnd) -> Self {
        if sequence.is_far_behind(self.sequence) { Self { start: synced, sequence: sequence.back() } } else { self }
    }
}

#[derive(Debug)]
struct File {
    path: PathBuf,
    file: Arc<dyn RandomWriteFile>,
    sync_needed: SyncNeeded,
}

/// The open files.
#[derive(Debug)]
pub(crate) struct RedoFiles {
    files: Vec<File>,
    /// Bytes of the ring in each file.
    file_len: u64,
    /// Bytes of the ring that were ever written, as the files were found.
    found_len: u64,
}

/// A block that sums itself up: some words, then a checksum of them.
fn block<const N: usize>(words: [u64; N]) -> [u8; BLOCK] {
    let mut out = [0; BLOCK];
    for (index, word) in words.into_iter().enumerate() {
        out.as_mut_slice().set_word(8 * index, word);
    }
    let sum = xxh3_64(&out[..8 * N]);
    out.as_mut_slice().set_word(8 * N, sum);
    out
}

fn words<const N: usize>(block: &[u8]) -> Option<[u64; N]> {
    let sum = xxh3_64(block.get(..8 * N)?);
    (block.word(8 * N) == sum).then(|| std::array::from_fn(|index| block.word(8 * index)))
}

/// The name of a file of the ring.
fn file_name(index: u64) -> String {
    format!("redo-{index}.log")
}

/// Whether a file of this name belongs to a ring.
pub(crate) fn is_redo_file(name: &str) -> bool {
    (0..FILES).any(|index| name == file_name(index))
}

/// The name of a file that is to take another's place.
fn new_name(index: u64) -> String {
    format!("redo-{index}.new")
}

impl RedoFiles {
    /// Writes one file of a ring, whole and synced.
    fn create_file(
        env: &dyn Env,
        path: &Path,
        index: u64,
        file_len: u64,
        id: u64,
        checkpoint: &Checkpoint,
    ) -> Result<()> {
        let failed = |operation, error| Error::io(operation, path, error);
        let file =
            env.open_random_write(path, &FileOptions::new(FileKind::Redo)).map_err(|error| failed("create", error))?;
        file.set_len(0).map_err(|error| failed("truncate", error))?;
        // So that the disk can't be full when a commit must be written.
        file.preallocate(0, DATA_START + file_len).map_err(|error| failed("reserve space for", error))?;
        let header = block([MAGIC, VERSION | index << 32, file_len, id]);
        file.write_at(0, &header, CONTEXT).map_err(|error| failed("write", error))?;
        if index == 0 {
            let at = CHECKPOINT_AT[checkpoint.sequence.place()];
            file.write_at(at, &checkpoint.encode(), CONTEXT).map_err(|error| failed("write", error))?;
        }
        file.sync_data(CONTEXT).map_err(|error| failed("sync", error))
    }

    /// Gives the log of a database that was closed another capacity: files of the new length, with the same checkpoint, take the places of the old ones, the first one last. A
    /// crash in between is finished by [`finish_resize`](Self::finish_resize). Returns whether it was done; where there is no room for files beside the old ones, it is not.
    pub(crate) fn resize(env: &dyn Env, dir: &Path, id: u64, checkpoint: &Checkpoint, capacity: u64) -> Result<bool> {
        let synced = || env.sync_dir(dir).map_err(|error| Error::io("sync", dir, error));
        let prepared = (0..FILES).try_for_each(|index| {
            Self::create_file(env, &dir.join(new_name(index)), index, capacity / FILES, id, checkpoint)
        });
        if let Err(error) = prepared.and_then(|()| synced()) {
            (0..FILES).for_each(|index| drop(env.remove_file(&dir.join(new_name(index)))));
            // Nothing depends on it, unless the device fails.
            return if error.kind() == ErrorKind::NoSpace { Ok(false) } else { Err(error) };
        }
        for index in (0..FILES).rev() {
            let (from, to) = (dir.join(new_name(index)), dir.join(file_name(index)));
            env.rename(&from, &to).map_err(|error| Error::io("rename", &from, error))?;
            synced()?;
        }
        Ok(true)
    }

    /// Finishes what a crash left of a change of capacity, or takes it back: it is finished if a file but the first has the new length already.
    pub(crate) fn finish_resize(env: &dyn Env, dir: &Path, id: u64) -> Result<()> {
        let exists = |path: &Path| env.exists(path).map_err(|error| Error::io("look for", path, error));
        let names = (0..FILES).map(new_name).map(|name| dir.join(name));
        let left: Vec<PathBuf> =
            names.filter_map(|path| exists(&path).map(|is| is.then_some(path)).transpose()).collect::<Result<_>>()?;
        if left.is_empty() {
            return Ok(());
        }
        let len = |path: PathBuf, index: u64| -> Result<Option<u64>> {
            if !exists(&path)? {
                return Ok(None);
            }
            let file = env.open_random(&path, &FileOptions::new(FileKind::Redo));
            let file = file.map_err(|error| Error::io("open", &path, error))?;
            let mut header = [0; BLOCK];
            file.read_at(0, &mut header, CONTEXT).map_err(|error| Error::io("read", &path, error))?;
            let found = words(&header).filter(|words| *words == [MAGIC, VERSION | index << 32, words[2], id]);
            Ok(found.map(|words| words[2]))
        };
        let (new, old) = (len(dir.join(new_name(0)), 0)?, len(dir.join(file_name(0)), 0)?);
        let others = (1..FILES).map(|index| len(dir.join(file_name(index)), index)).collect::<Result<Vec<_>>>()?;
        if new.is_some() && new != old && others.iter().all(|other| *other == new) {
            let (from, to) = (dir.join(new_name(0)), dir.join(file_name(0)));
            env.rename(&from, &to).map_err(|error| Error::io("rename", &from, error))?;
        } else {
            for path in &left {
                env.remove_file(path).map_err(|error| Error::io("delete", path, error))?;
            }
        }
        env.sync_dir(dir).map_err(|error| Error::io("sync", dir, error))
    }

    /// Creates the files of a ring of about `capacity` bytes, with a first checkpoint, all durable but for the directory.
    pub(crate) fn create(env: &dyn Env, dir: &Path, capacity: u64, id: u64) -> Result<()> {
        let synced = GroupEnd(FIRST_LSN);
        let life = Life { start: synced, sequence: Sequence::FIRST };
        let first = Checkpoint { sequence: Sequence::FIRST, lsn: FIRST_LSN, synced, is_clean: true, life };
        let path = |index| dir.join(file_name(index));
        (0..FILES).try_for_each(|index| Self::create_file(env, &path(index), index, capacity / FILES, id, &first))
    }

    /// Whether there is a log of a database that was opened: each opening writes a checkpoint behind the one that the log was created with.
    pub(crate) fn was_opened(env: &dyn Env, dir: &Path) -> Result<bool> {
        let path = dir.join(file_name(0));
        if !env.exists(&path).map_err(|error| Error::io("look for", &path, error))? {
            return Ok(false);
        }
        let file = env.open_random_write(&path, &FileOptions::new(FileKind::Redo));
        let file = file.map_err(|error| Error::io("open", &path, error))?;
        let file = File { path, file, sync_needed: SyncNeeded::new() };
        match file.newest_checkpoint() {
            Ok(newest) => Ok(newest.sequence != Sequence::FIRST),
            // As an attempt to create it may leave it.
            Err(error) if error.kind() == ErrorKind::Corruption => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Opens the files of a database and reads the newest checkpoint.
    pub(crate) fn open(env: &dyn Env, dir: &Path, id: u64) -> Result<(Self, Checkpoint)> {
        let mut files = Vec::new();
        let mut lens = Vec::new();
        let mut found_len: u64 = 0;
        for index in 0..FILES {
            let path = dir.join(file_name(index));
            if !env.exists(&path).map_err(|error| Error::io("look for", &path, error))? {
                return Err(Error::io("open", &path, std::io::ErrorKind::NotFound.into()));
            }
            let file = env.open_random_write(&path, &FileOptions::new(FileKind::Redo));
            let file = file.map_err(|error| Error::io("open", &path, error))?;
            let mut header = [0; BLOCK];
            file.read_at(0, &mut header, CONTEXT).map_err(|error| Error::io("read", &path, error))?;
            let found = words(&header).filter(|words| words[0] == MAGIC);
            let Some([_, version, len, owner]) = found else {
                return Err(Error::corruption(&path, 0, "the header of the redo log is damaged"));
            };
            if version as u32 != VERSION as u32 {
                return Err(Error::not_supported("a redo log of another format version").with_file(&path));
            }
            if version >> 32 != index || owner != id || !(1 << 10..=1 << 40).contains(&len) {
                return Err(Error::corruption(&path, 0, "the redo log belongs to another database, or elsewhere"));
            }
            let bytes = file.len().map_err(|error| Error::io("measure", &path, error))?;
            found_len = found_len.saturating_add(bytes.saturating_sub(DATA_START));
            lens.push(len);
            files.push(File { path, file, sync_needed: SyncNeeded::new() });
        }
        let (Some(first), Some(len)) = (files.first(), lens.first().copied()) else {
            return Err(Error::corrupt("a redo log without files"));
        };
        if lens.iter().any(|other| *other != len) {
            return Err(Error::corruption(&first.path, 16, "the files of the redo log differ in length"));
        }
        let checkpoint = first.newest_checkpoint()?;
        Ok((Self { files, file_len: len, found_len }, checkpoint))
    }

    /// Bytes of the ring that is made for `wanted` ones.
    pub(crate) fn capacity_of(wanted: u64) -> u64 {
        wanted / FILES * FILES
    }

    /// Bytes of the ring.
    pub(crate) fn capacity(&self) -> u64 {
        self.file_len * self.files.len() as u64
    }

    /// The longest record that there may be, as far as the files were found to be written: what a header claims is no reason to reserve more.
    pub(super) fn longest_record(&self) -> u64 {
        self.found_len.min(MAX_RECORD_LEN)
    }

    /// The first file, to name it in errors.
    pub(crate) fn path(&self) -> &Path {
        self.files.first().map_or(Path::new("redo"), |file| &file.path)
    }

    /// The file of an LSN, the offset in it, and the bytes up to its end.
    fn place(&self, lsn: Lsn) -> Option<(&File, u64, u64)> {
        let position = lsn % self.capacity();
        let (index, offset) = (position / self.file_len, position % self.file_len);
        Some((self.files.get(index as usize)?, DATA_START + offset, self.file_len - offset))
    }

    /// Writes the bytes of the log from `lsn` on.
    pub(super) fn write(&self, mut lsn: Lsn, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            let Some((file, offset, room)) = self.place(lsn) else {
                return Err(Error::corrupt("no place in the redo log"));
            };
            let (now, later) = bytes.split_at(bytes.len().min(usize::try_from(room).unwrap_or(usize::MAX)));
            let written = file.sync_needed.write(|| {
                meanwhile(Moment::Write);
                file.file.write_at(offset, now, CONTEXT)
            });
            written.map_err(|error| Error::io("write", &file.path, error).with_offset(offset))?;
            lsn += now.len() as u64;
            bytes = later;
        }
        Ok(())
    }

    /// Reads the bytes of the log from `lsn` on; what was never written reads as zeros.
    pub(super) fn read(&self, mut lsn: Lsn, mut bytes: &mut [u8]) -> Result<()> {
        while !bytes.is_empty() {
            let Some((file, offset, room)) = self.place(lsn) else {
                return Err(Error::corrupt("no place in the redo log"));
            };
            let (now, later) = bytes.split_at_mut(bytes.len().min(usize::try_from(room).unwrap_or(usize::MAX)));
            let read = file.file.read_at(offset, now, CONTEXT);
            let read = read.map_err(|error| Error::io("read", &file.path, error).with_offset(offset))?;
            now[read..].fill(0);
            lsn += now.len() as u64;
            bytes = later;
        }
        Ok(())
    }

    /// Makes everything durable that was written before. The caller is alone.
    pub(super) fn sync(&self) -> Result<()> {
        for file in &self.files {
            let synced = file.sync_needed.sync(|| file.file.sync_data(CONTEXT));
            synced.map_err(|error| Error::io("sync", &file.path, error))?;
        }
        Ok(())
    }

    pub(super) fn write_checkpoint(&self, checkpoint: &Checkpoint) -> Result<()> {
        let Some(file) = self.files.first() else { return Ok(()) };
        let at = CHECKPOINT_AT[checkpoint.sequence.place()];
        let written = file.file.write_at(at, &checkpoint.encode(), CONTEXT);
        written.map_err(|error| Error::io("write", &file.path, error).with_offset(at))
    }

    pub(super) fn sync_checkpoint(&self) -> Result<()> {
        let Some(file) = self.files.first() else { return Ok(()) };
        file.file.sync_data(CONTEXT).map_err(|error| Error::io("sync", &file.path, error))
    }
}

impl Checkpoint {
    fn encode(&self) -> [u8; BLOCK] {
        let sequences = u64::from(self.sequence.number()) | u64::from(self.life.sequence.number()) << 32;
        block([sequences, self.lsn, self.synced.lsn(), self.life.start.lsn(), u64::from(self.is_clean)])
    }
}

impl File {
    fn newest_checkpoint(&self) -> Result<Checkpoint> {
        let mut newest: Option<Checkpoint> = None;
        for (place, at) in CHECKPOINT_AT.into_iter().enumerate() {
            let mut bytes = [0; BLOCK];
            self.file.read_at(at, &mut bytes, CONTEXT).map_err(|error| Error::io("read", &self.path, error))?;
            let Some([sequences, lsn, synced, start, is_clean]) = words(&bytes) else { continue };
            let sequence = Sequence::from_file(sequences as u32);
            let life = Life { start: GroupEnd(start), sequence: Sequence::from_file((sequences >> 32) as u32) };
            let is_sane = sequence.place() == place
                && !sequence.is_before(life.sequence)
                && [lsn, synced, start].iter().all(|lsn| (FIRST_LSN..=1 << 62).contains(lsn))
                && is_clean <= 1;
            if is_sane && newest.is_none_or(|newest| newest.sequence.is_before(sequence)) {
                newest = Some(Checkpoint { sequence, lsn, synced: GroupEnd(synced), is_clean: is_clean != 0, life });
            }
        }
        newest.ok_or_else(|| Error::corruption(&self.path, CHECKPOINT_AT[0], "the redo log has no checkpoint"))
    }
}
