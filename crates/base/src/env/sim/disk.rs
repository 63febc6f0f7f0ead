//! The handle on a simulated disk, and its control panel.

use super::fault::{FaultKind, FaultPlan, Faults, OpClass, OpInfo};
use super::names::{InodeId, NameChange, Node};
use super::volume::{Mutation, SyncEffect, Volume};
use crate::env::{Env, FileKind, IoStats};
use crate::sync::Arc;
use parking_lot::{Mutex, MutexGuard};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::path::Path;

/// Writes beyond this are refused: the list of a file's pages is as long as the file.
const LONGEST_FILE: u64 = 1 << 34;

/// A file system in memory. Clones are handles on the same disk.
#[derive(Clone)]
pub struct SimDisk(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    stats: IoStats,
}

/// What a disk knows.
pub(super) struct State {
    pub(super) volume: Volume,
    faults: Faults,
    phase: &'static str,
    recording: Option<Recording>,
    pub(super) locks: BTreeSet<String>,
    late_errors: BTreeSet<InodeId>,
    capacity: Option<u64>,
    is_dead: bool,
}

/// What happened to a disk since its recording was started.
#[derive(Clone)]
pub struct Recording {
    pub(super) base: Volume,
    pub(super) ops: Vec<RecordedOp>,
}

impl Recording {
    /// How many changes were recorded: the last cut.
    pub fn len(&self) -> usize {
        self.ops.len()
    }

    /// Whether nothing changed.
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    /// What each change was.
    pub fn ops(&self) -> impl ExactSizeIterator<Item = OpInfo> {
        self.ops.iter().map(|op| op.info)
    }
}

impl fmt::Debug for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recording").field("len", &self.ops.len()).finish_non_exhaustive()
    }
}

/// A change and what caused it.
#[derive(Debug, Clone)]
pub(super) struct RecordedOp {
    pub(super) mutation: Mutation,
    pub(super) info: OpInfo,
}

impl fmt::Debug for SimDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimDisk").finish_non_exhaustive()
    }
}

impl Default for SimDisk {
    fn default() -> Self {
        Self::new()
    }
}

impl SimDisk {
    /// An empty disk.
    pub fn new() -> Self {
        Self::with_volume(Volume::new())
    }

    pub(super) fn with_volume(volume: Volume) -> Self {
        let state = State {
            volume,
            faults: Faults::default(),
            phase: "",
            recording: None,
            locks: BTreeSet::new(),
            late_errors: BTreeSet::new(),
            capacity: None,
            is_dead: false,
        };
        Self(Arc::new(Shared { state: Mutex::new(state), stats: IoStats::new() }))
    }

    /// The disk as an environment.
    pub fn env(&self) -> Arc<dyn Env> {
        Arc::new(self.clone())
    }

    /// Creates a directory and those above it, all durable at once, past faults and recording.
    pub fn make_durable_dir(&self, path: &Path) -> io::Result<()> {
        let path = normal(path)?;
        let mut state = self.state();
        let known = state.volume.pending.len();
        state.make_dirs(&path, |volume, mutation| volume.apply(&mutation))?;
        let made = state.volume.pending.split_off(known);
        for pending in made {
            state.volume.durable.apply(&pending.change);
        }
        Ok(())
    }

    /// Names what the workload does from now on, for [`OpInfo::phase`].
    pub fn set_phase(&self, phase: &'static str) {
        self.state().phase = phase;
    }

    /// The phase that was named last.
    pub fn phase(&self) -> &'static str {
        self.state().phase
    }

    /// Forgets what was recorded and records every change from now on.
    pub fn start_recording(&self) {
        let mut state = self.state();
        state.recording = Some(Recording { base: state.volume.without_handles(), ops: Vec::new() });
    }

    /// How many changes were recorded so far. A change that is acknowledged when this says `n` is in every cut
    /// from `n` on.
    pub fn recorded(&self) -> usize {
        self.state().recording.as_ref().map_or(0, Recording::len)
    }

    /// What was recorded. Recording ends.
    pub fn take_recording(&self) -> Recording {
        let mut state = self.state();
        let base = state.recording.take();
        base.unwrap_or_else(|| Recording { base: state.volume.without_handles(), ops: Vec::new() })
    }

    /// A disk with what a power loss leaves if nothing unsynced reached the device (M0).
    pub fn after_power_loss(&self) -> Self {
        let state = self.state();
        let volume = &state.volume;
        let durable = |inode| volume.inodes.get(&inode).map_or_else(Default::default, |file| Arc::clone(&file.durable));
        Self::with_volume(volume.settled(volume.durable.clone(), durable))
    }

    /// A disk as another process sees it after this one was killed (M1). What was not synced is there, and not durable.
    pub fn after_process_death(&self) -> Self {
        Self::with_volume(self.state().volume.without_handles())
    }

    /// Makes every later operation fail, so that what an abandoned engine still does changes nothing.
    pub fn power_off(&self) {
        self.state().is_dead = true;
    }

    /// Arms a fault, in place of the one that is armed, and forgets earlier hits.
    pub fn set_fault(&self, plan: FaultPlan) {
        self.state().faults.install(Some(plan));
    }

    /// Takes the fault away. The hits stay known.
    pub fn clear_fault(&self) {
        self.state().faults.clear();
    }

    /// The operations that failed since a fault was armed.
    pub fn fault_hits(&self) -> Vec<OpInfo> {
        self.state().faults.hits().to_vec()
    }

    /// How many operations of any class were asked for.
    pub fn op_count(&self) -> u64 {
        self.state().faults.count()
    }

    /// Keeps a list of all operations from now on.
    pub fn start_trace(&self) {
        self.state().faults.start_trace();
    }

    /// The operations since [`start_trace`](Self::start_trace). The trace ends.
    pub fn take_trace(&self) -> Vec<OpInfo> {
        self.state().faults.take_trace()
    }

    /// Limits the bytes that all files may occupy: writes that need more fail with `ENOSPC`. `None`: no limit.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.state().capacity = bytes;
    }

    /// Bytes that all files occupy, in whole pages.
    pub fn allocated_total(&self) -> u64 {
        self.state().volume.allocated_bytes()
    }

    /// Flips the bits of `mask` in one byte of a file, durably and unseen by recording and faults: bit rot.
    pub fn flip(&self, path: &Path, offset: u64, mask: u8) -> io::Result<()> {
        let path = normal(path)?;
        let mut state = self.state();
        let (inode, _) = state.file(&path)?;
        let Some(file) = state.volume.inodes.get_mut(&inode) else { return Err(io::ErrorKind::NotFound.into()) };
        for content in [&mut file.current, &mut file.durable] {
            let mut byte = [0];
            if content.read(offset, &mut byte) == 1 {
                Arc::make_mut(content).write(offset, &[byte[0] ^ mask]);
            }
        }
        Ok(())
    }

    /// A hash of all that is visible: names, lengths and bytes.
    pub fn image_hash(&self) -> u64 {
        let state = self.state();
        let inodes = &state.volume.inodes;
        state.volume.current.hash(|inode| inodes.get(&inode).map_or(0, |file| file.current.hash()))
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock()
    }

    pub(super) fn stats(&self) -> &IoStats {
        &self.0.stats
    }
}

impl State {
    /// Counts an operation that fails as a whole or not at all.
    pub(super) fn begin(&mut self, class: OpClass, file: FileKind) -> io::Result<()> {
        match self.strike(class, file)? {
            None => Ok(()),
            Some(kind) => Err(kind.error()),
        }
    }

    fn strike(&mut self, class: OpClass, file: FileKind) -> io::Result<Option<FaultKind>> {
        if self.is_dead {
            return Err(io::Error::from_raw_os_error(libc::EIO));
        }
        Ok(self.faults.strike(OpInfo { class, file, phase: self.phase }))
    }

    /// Changes the disk and records the change.
    pub(super) fn mutate(&mut self, class: OpClass, file: FileKind, mutation: Mutation) {
        self.volume.apply(&mutation);
        self.record(class, file, || mutation);
    }

    fn record(&mut self, class: OpClass, file: FileKind, mutation: impl FnOnce() -> Mutation) {
        let info = OpInfo { class, file, phase: self.phase };
        if let Some(recording) = &mut self.recording {
            recording.ops.push(RecordedOp { mutation: mutation(), info });
        }
    }

    /// Writes bytes, as far as the fault that is due allows.
    pub(super) fn write(&mut self, inode: InodeId, offset: u64, data: &[u8], file: FileKind) -> io::Result<()> {
        if offset.saturating_add(data.len() as u64) > LONGEST_FILE {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let fault = self.strike(OpClass::Write, file)?;
        let written = match fault {
            None | Some(FaultKind::WriteBackFails) => data,
            Some(FaultKind::ShortWrite | FaultKind::ShortWriteNoSpace) => &data[..data.len() / 2],
            Some(kind) => return Err(kind.error()),
        };
        self.reserve(inode, offset, written.len() as u64)?;
        self.volume.write(inode, offset, written);
        self.record(OpClass::Write, file, || Mutation::Write { inode, offset, data: written.into() });
        match fault {
            Some(FaultKind::WriteBackFails) => {
                let len = data.len() as u64;
                self.mutate(OpClass::Write, file, Mutation::Lose { inode, offset, len });
                self.late_errors.insert(inode);
                Ok(())
            }
            Some(kind) => Err(kind.error()),
            None => Ok(()),
        }
    }

    pub(super) fn sync(&mut self, inode: InodeId, file: FileKind) -> io::Result<()> {
        let fault = self.strike(OpClass::Sync, file)?;
        let effect = match fault {
            None => SyncEffect::Done,
            Some(FaultKind::SyncFailsVisible) => SyncEffect::FailedVisible,
            Some(FaultKind::SyncFailsReverted) => SyncEffect::FailedReverted,
            Some(FaultKind::SyncLies) => SyncEffect::Lied,
            Some(kind) => return Err(kind.error()),
        };
        self.mutate(OpClass::Sync, file, Mutation::Sync { inode, effect });
        match fault {
            Some(FaultKind::SyncLies) => Ok(()),
            Some(kind) => Err(kind.error()),
            None if self.late_errors.remove(&inode) => Err(FaultKind::WriteBackFails.error()),
            None => Ok(()),
        }
    }

    /// Fails if a write needs more pages than the disk has left.
    pub(super) fn reserve(&self, inode: InodeId, offset: u64, len: u64) -> io::Result<()> {
        let (Some(capacity), Some(file)) = (self.capacity, self.volume.inodes.get(&inode)) else { return Ok(()) };
        let page = super::content::PAGE_BYTES;
        let pages = offset / page..offset.saturating_add(len).div_ceil(page);
        let missing = pages.filter(|index| file.current.page(*index).is_none()).count() as u64;
        let reserved = file.preallocated.saturating_sub(file.current.allocated_bytes());
        let needed = (missing * page).saturating_sub(reserved);
        if needed > 0 && self.volume.allocated_bytes().saturating_add(needed) > capacity {
            return Err(FaultKind::NoSpace.error());
        }
        Ok(())
    }

    pub(super) fn make_dirs(&mut self, path: &str, mut make: impl FnMut(&mut Volume, Mutation)) -> io::Result<()> {
        let mut at = 0;
        while at < path.len() {
            let end = path[at + 1..].find('/').map_or(path.len(), |found| at + 1 + found);
            let Some((dir, name)) = super::names::split(&path[..end]) else { return Ok(()) };
            match self.volume.current.get(dir, name) {
                Some(Node::Dir) => {}
                Some(Node::File(_)) => return Err(io::ErrorKind::NotADirectory.into()),
                None => {
                    let change = NameChange::Insert { dir: dir.into(), name: name.into(), node: Node::Dir };
                    make(&mut self.volume, Mutation::Name(change));
                }
            }
            at = end;
        }
        Ok(())
    }

    /// The file at a normal path, and its kind.
    pub(super) fn file(&self, path: &str) -> io::Result<(InodeId, FileKind)> {
        match self.node(path)? {
            Some(Node::File(inode)) => {
                Ok((inode, self.volume.inodes.get(&inode).map_or(FileKind::Other, |file| file.kind)))
            }
            Some(Node::Dir) => Err(io::ErrorKind::IsADirectory.into()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// What a normal path leads to.
    pub(super) fn node(&self, path: &str) -> io::Result<Option<Node>> {
        let Some((dir, name)) = super::names::split(path) else { return Ok(Some(Node::Dir)) };
        Ok(self.volume.current.get(dir, name))
    }

    /// Directory and name of a normal path whose directory exists.
    pub(super) fn place<'a>(&self, path: &'a str) -> io::Result<(&'a str, &'a str)> {
        let place = super::names::split(path).ok_or(io::ErrorKind::IsADirectory)?;
        if self.volume.current.has_dir(place.0) { Ok(place) } else { Err(io::ErrorKind::NotFound.into()) }
    }
}

/// The one spelling of a path: no trailing or double slashes, no dots.
pub(super) fn normal(path: &Path) -> io::Result<Cow<'_, str>> {
    let text = path.to_str().ok_or(io::ErrorKind::InvalidInput)?;
    let is_normal = text == "/"
        || (!text.ends_with('/') && !text.contains("//") && !text.split('/').any(|component| component == "."));
    if is_normal {
        return Ok(Cow::Borrowed(text));
    }
    let components: std::path::PathBuf =
        path.components().filter(|component| *component != std::path::Component::CurDir).collect();
    components.into_os_string().into_string().map(Cow::Owned).map_err(|_| io::ErrorKind::InvalidInput.into())
}
