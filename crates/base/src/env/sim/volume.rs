//! What a disk holds: every file and name twice, as the operating system shows it and as it is durable, and what
//! lies between.

use super::content::{Content, PAGE_BYTES};
use super::names::{InodeId, NameChange, Names, Node};
use crate::env::FileKind;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Deleted files whose bytes may show up again in blocks that were never written.
const GRAVES: usize = 8;

/// How a sync of a file ended, for the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SyncEffect {
    /// All is durable.
    Done,
    /// Nothing became durable, but the system takes the blocks for clean: no later sync writes them.
    FailedVisible,
    /// The same, and the blocks show their durable content again.
    FailedReverted,
    /// Nothing became durable, and nobody was told.
    Lied,
}

/// One change of a disk. A recording is a list of them.
#[derive(Debug, Clone)]
pub(super) enum Mutation {
    /// A new empty file with one name.
    Create {
        dir: Arc<str>,
        name: Arc<str>,
        inode: InodeId,
        kind: FileKind,
    },
    /// Any other change of names.
    Name(NameChange),
    Write {
        inode: InodeId,
        offset: u64,
        data: Arc<[u8]>,
    },
    SetLen {
        inode: InodeId,
        len: u64,
    },
    Zero {
        inode: InodeId,
        offset: u64,
        len: u64,
    },
    Sync {
        inode: InodeId,
        effect: SyncEffect,
    },
    /// Dirty blocks of the range could not be written back: they are clean but not durable.
    Lose {
        inode: InodeId,
        offset: u64,
        len: u64,
    },
    SyncDir {
        dir: Arc<str>,
    },
}

/// A file.
#[derive(Debug, Clone)]
pub(super) struct Inode {
    pub(super) kind: FileKind,
    /// What a reader sees.
    pub(super) current: Arc<Content>,
    /// What a power loss leaves at least.
    pub(super) durable: Arc<Content>,
    /// Unsynced pages, and when each was last written.
    pub(super) dirty: BTreeMap<u64, u64>,
    /// Pages that a failed sync left behind: only writing them again makes them durable.
    pub(super) lost: BTreeMap<u64, u64>,
    /// When the length was last changed without a sync.
    pub(super) resized: Option<u64>,
    /// Ends of the writes since the last sync.
    pub(super) write_ends: Vec<u64>,
    /// Bytes reserved from the front.
    pub(super) preallocated: u64,
    links: u32,
    handles: u32,
}

impl Inode {
    /// A file that is durable as it is.
    pub(super) fn settled(kind: FileKind, content: Arc<Content>) -> Self {
        Self {
            kind,
            current: Arc::clone(&content),
            durable: content,
            dirty: BTreeMap::new(),
            lost: BTreeMap::new(),
            resized: None,
            write_ends: Vec::new(),
            preallocated: 0,
            links: 0,
            handles: 0,
        }
    }

    /// The durable version with the length `len` and with the pages of the current version that `take` picks.
    pub(super) fn mixture(&self, len: u64, take: impl Fn(u64) -> bool) -> Content {
        let mut content = Content::clone(&self.durable);
        content.set_len(len);
        for page in self.dirty.keys().chain(self.lost.keys()).copied() {
            if take(page) {
                content.put_page(page, self.current.page(page).cloned());
            }
        }
        content
    }

    fn touch(&mut self, offset: u64, len: u64, now: u64) {
        if len == 0 {
            return;
        }
        for page in offset / PAGE_BYTES..=(offset + len - 1) / PAGE_BYTES {
            self.lost.remove(&page);
            self.dirty.insert(page, now);
        }
    }

    fn write(&mut self, offset: u64, data: &[u8], now: u64) {
        let end = offset + data.len() as u64;
        let before = self.current.len();
        Arc::make_mut(&mut self.current).write(offset, data);
        self.touch(offset, data.len() as u64, now);
        if end > before {
            self.resized = Some(now);
        }
        self.write_ends.push(end);
    }

    fn set_len(&mut self, len: u64, now: u64) {
        let before = self.current.len();
        Arc::make_mut(&mut self.current).set_len(len);
        if len < before {
            self.touch(len, before - len, now);
        }
        if len != before {
            self.resized = Some(now);
        }
        self.write_ends.push(len);
    }

    fn zero(&mut self, offset: u64, len: u64, now: u64) {
        let len = len.min(self.current.len().saturating_sub(offset));
        Arc::make_mut(&mut self.current).zero(offset, len);
        self.touch(offset, len, now);
    }

    fn sync(&mut self, effect: SyncEffect) {
        match effect {
            SyncEffect::Done => {
                self.durable = if self.lost.is_empty() {
                    Arc::clone(&self.current)
                } else {
                    Arc::new(self.mixture(self.current.len(), |page| !self.lost.contains_key(&page)))
                };
                self.dirty.clear();
                self.resized = None;
                self.write_ends.clear();
            }
            SyncEffect::FailedVisible => self.lost.append(&mut self.dirty),
            SyncEffect::FailedReverted => {
                let reverted = self.mixture(self.current.len(), |page| self.lost.contains_key(&page));
                self.current = Arc::new(reverted);
                self.dirty.clear();
            }
            SyncEffect::Lied => {}
        }
    }

    fn lose(&mut self, offset: u64, len: u64) {
        for page in offset / PAGE_BYTES..(offset + len).div_ceil(PAGE_BYTES) {
            if let Some(when) = self.dirty.remove(&page) {
                self.lost.insert(page, when);
            }
        }
    }
}

/// A change of names that is not durable yet, and when it was made.
#[derive(Debug, Clone)]
pub(super) struct PendingName {
    pub(super) change: NameChange,
    pub(super) when: u64,
}

/// A whole disk. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Volume {
    pub(super) inodes: BTreeMap<InodeId, Inode>,
    pub(super) current: Names,
    pub(super) durable: Names,
    /// Changes of names since their directory was synced, in order.
    pub(super) pending: Vec<PendingName>,
    /// The last deleted files.
    pub(super) graves: VecDeque<(FileKind, Arc<Content>)>,
    next_inode: InodeId,
    now: u64,
}

impl Volume {
    pub(super) fn new() -> Self {
        Self {
            inodes: BTreeMap::new(),
            current: Names::new(),
            durable: Names::new(),
            pending: Vec::new(),
            graves: VecDeque::new(),
            next_inode: 1,
            now: 0,
        }
    }

    /// A disk after a power loss that left `names` with `content` behind them: all of it is durable.
    pub(super) fn settled(&self, mut names: Names, content: impl Fn(InodeId) -> Arc<Content>) -> Self {
        names.prune();
        let mut inodes = BTreeMap::new();
        for inode in names.inodes() {
            if let Some(file) = self.inodes.get(&inode) {
                let entry = inodes.entry(inode).or_insert_with(|| Inode::settled(file.kind, content(inode)));
                entry.links += 1;
            }
        }
        Self {
            inodes,
            current: names.clone(),
            durable: names,
            pending: Vec::new(),
            graves: self.graves.clone(),
            next_inode: self.next_inode,
            now: self.now,
        }
    }

    /// The same disk after its process died: what was not synced is still pending; nobody has a file open.
    pub(super) fn without_handles(&self) -> Self {
        let mut volume = self.clone();
        for file in volume.inodes.values_mut() {
            file.handles = 0;
        }
        volume.forget_unreachable();
        volume
    }

    pub(super) fn take_inode_number(&mut self) -> InodeId {
        self.next_inode += 1;
        self.next_inode - 1
    }

    /// Bytes that all files occupy, reservations included.
    pub(super) fn allocated_bytes(&self) -> u64 {
        self.inodes.values().map(|file| file.current.allocated_bytes().max(file.preallocated)).sum()
    }

    pub(super) fn apply(&mut self, mutation: &Mutation) {
        match mutation {
            Mutation::Create { dir, name, inode, kind } => {
                self.inodes.insert(*inode, Inode::settled(*kind, Arc::default()));
                self.next_inode = self.next_inode.max(inode + 1);
                let (dir, name) = (Arc::clone(dir), Arc::clone(name));
                self.rename(&NameChange::Insert { dir, name, node: Node::File(*inode) });
            }
            Mutation::Name(change) => self.rename(change),
            Mutation::Write { inode, offset, data } => self.write(*inode, *offset, data),
            Mutation::SetLen { inode, len } => self.edit(*inode, |file, now| file.set_len(*len, now)),
            Mutation::Zero { inode, offset, len } => self.edit(*inode, |file, now| file.zero(*offset, *len, now)),
            Mutation::Sync { inode, effect } => self.edit(*inode, |file, _| file.sync(*effect)),
            Mutation::Lose { inode, offset, len } => self.edit(*inode, |file, _| file.lose(*offset, *len)),
            Mutation::SyncDir { dir } => self.sync_dir(dir),
        }
    }

    pub(super) fn write(&mut self, inode: InodeId, offset: u64, data: &[u8]) {
        self.edit(inode, |file, now| file.write(offset, data, now));
    }

    pub(super) fn open_handle(&mut self, inode: InodeId) {
        if let Some(file) = self.inodes.get_mut(&inode) {
            file.handles += 1;
        }
    }

    pub(super) fn close_handle(&mut self, inode: InodeId) {
        let Some(file) = self.inodes.get_mut(&inode) else { return };
        file.handles = file.handles.saturating_sub(1);
        if file.handles == 0 && file.links == 0 {
            self.forget_unreachable();
        }
    }

    fn edit(&mut self, inode: InodeId, change: impl FnOnce(&mut Inode, u64)) {
        self.now += 1;
        let now = self.now;
        if let Some(file) = self.inodes.get_mut(&inode) {
            change(file, now);
        }
    }

    fn rename(&mut self, change: &NameChange) {
        self.now += 1;
        match change {
            NameChange::Insert { dir, name, node } => {
                self.unlink(dir, name);
                self.link(*node);
            }
            NameChange::Remove { dir, name, .. } => self.unlink(dir, name),
            NameChange::Rename { from_dir, from, to_dir, to, inode } => {
                self.unlink(to_dir, to);
                self.link(Node::File(*inode));
                self.unlink(from_dir, from);
            }
        }
        self.current.apply(change);
        self.pending.push(PendingName { change: change.clone(), when: self.now });
    }

    fn link(&mut self, node: Node) {
        if let Node::File(inode) = node
            && let Some(file) = self.inodes.get_mut(&inode)
        {
            file.links += 1;
        }
    }

    fn unlink(&mut self, dir: &str, name: &str) {
        let Some(Node::File(inode)) = self.current.get(dir, name) else { return };
        let Some(file) = self.inodes.get_mut(&inode) else { return };
        file.links = file.links.saturating_sub(1);
        if file.links == 0 {
            if self.graves.len() == GRAVES {
                self.graves.pop_front();
            }
            self.graves.push_back((file.kind, Arc::clone(&file.current)));
        }
    }

    fn sync_dir(&mut self, dir: &str) {
        let durable = &mut self.durable;
        self.pending.retain(|pending| {
            let synced = pending.change.dir() == dir;
            if synced {
                durable.apply(&pending.change);
            }
            !synced
        });
        self.forget_unreachable();
    }

    /// Drops files that no name and no handle leads to, whatever a crash does.
    fn forget_unreachable(&mut self) {
        let gone = |file: &Inode| file.links == 0 && file.handles == 0;
        if !self.inodes.values().any(gone) {
            return;
        }
        let mut reachable: Vec<InodeId> = self.durable.inodes().collect();
        reachable.extend(self.pending.iter().filter_map(|pending| pending.change.inode()));
        self.inodes.retain(|inode, file| !gone(file) || reachable.contains(inode));
    }
}
