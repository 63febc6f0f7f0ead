//! Open files and the environment's calls.

use super::disk::{SimDisk, normal};
use super::fault::OpClass;
use super::names::{InodeId, NameChange, Node};
use super::volume::Mutation;
use crate::env::{
    AppendFile, DirEntry, Env, FileKind, FileLock, FileOptions, IoContext, IoStats, RandomFile, RandomWriteFile,
    SyncHandle,
};
use crate::sync::Arc;
use std::io;
use std::path::{Path, PathBuf};

/// An open file: keeps the bytes of a removed file readable.
#[derive(Debug)]
struct SimFile {
    disk: SimDisk,
    inode: InodeId,
    kind: FileKind,
}

impl SimFile {
    fn open(disk: &SimDisk, inode: InodeId, kind: FileKind) -> Self {
        disk.state().volume.open_handle(inode);
        Self { disk: disk.clone(), inode, kind }
    }

    fn len(&self) -> u64 {
        self.disk.state().volume.inodes.get(&self.inode).map_or(0, |file| file.current.len())
    }

    fn sync(&self, context: IoContext) -> io::Result<()> {
        self.disk.state().sync(self.inode, context.kind)?;
        // Time stands still on this disk.
        self.disk.stats().record_sync(context, 0);
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8], context: IoContext) -> io::Result<()> {
        self.disk.state().write(self.inode, offset, data, context.kind)?;
        self.disk.stats().record_write(context, data.len() as u64);
        Ok(())
    }

    fn preallocate(&self, offset: u64, len: u64) -> io::Result<()> {
        let mut state = self.disk.state();
        state.begin(OpClass::Resize, self.kind)?;
        state.reserve(self.inode, offset, len)?;
        if let Some(file) = state.volume.inodes.get_mut(&self.inode) {
            file.preallocated = file.preallocated.max(offset.saturating_add(len));
        }
        Ok(())
    }
}

impl Drop for SimFile {
    fn drop(&mut self) {
        self.disk.state().volume.close_handle(self.inode);
    }
}

impl RandomFile for SimFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8], context: IoContext) -> io::Result<usize> {
        let mut state = self.disk.state();
        state.begin(OpClass::Read, context.kind)?;
        let read = state.volume.inodes.get(&self.inode).map_or(0, |file| file.current.read(offset, buffer));
        drop(state);
        self.disk.stats().record_read(context, read as u64);
        Ok(read)
    }

    fn len(&self) -> io::Result<u64> {
        self.disk.state().begin(OpClass::Stat, self.kind)?;
        Ok(Self::len(self))
    }
}

impl RandomWriteFile for SimFile {
    fn write_at(&self, offset: u64, data: &[u8], context: IoContext) -> io::Result<()> {
        self.write(offset, data, context)
    }

    fn sync_data(&self, context: IoContext) -> io::Result<()> {
        self.sync(context)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut state = self.disk.state();
        state.begin(OpClass::Resize, self.kind)?;
        state.mutate(OpClass::Resize, self.kind, Mutation::SetLen { inode: self.inode, len });
        Ok(())
    }

    fn punch_hole(&self, offset: u64, len: u64) -> io::Result<()> {
        let mut state = self.disk.state();
        state.begin(OpClass::Resize, self.kind)?;
        state.mutate(OpClass::Resize, self.kind, Mutation::Zero { inode: self.inode, offset, len });
        Ok(())
    }

    fn preallocate(&self, offset: u64, len: u64) -> io::Result<()> {
        Self::preallocate(self, offset, len)
    }
}

impl SyncHandle for SimFile {
    fn sync_data(&self, context: IoContext) -> io::Result<()> {
        self.sync(context)
    }
}

/// A file that grows at its end. What is appended is visible at once, whether the file is direct or not.
#[derive(Debug)]
struct SimAppend {
    file: SimFile,
    end: u64,
}

impl AppendFile for SimAppend {
    fn append(&mut self, data: &[u8], context: IoContext) -> io::Result<()> {
        self.file.write(self.end, data, context)?;
        self.end += data.len() as u64;
        Ok(())
    }

    fn sync_data(&mut self, context: IoContext) -> io::Result<()> {
        self.file.sync(context)
    }

    fn sync_range(&mut self, _: u64, _: u64) -> io::Result<()> {
        self.file.disk.state().begin(OpClass::SyncRange, self.file.kind)
    }

    fn preallocate(&mut self, len: u64) -> io::Result<()> {
        self.file.preallocate(0, len)
    }

    fn len(&self) -> u64 {
        self.end
    }

    fn finish(self: Box<Self>) -> io::Result<()> {
        let mut state = self.file.disk.state();
        if let Some(file) = state.volume.inodes.get_mut(&self.file.inode) {
            file.preallocated = 0;
        }
        state.begin(OpClass::Finish, self.file.kind)
    }

    fn sync_handle(&self) -> io::Result<Arc<dyn SyncHandle>> {
        Ok(Arc::new(SimFile::open(&self.file.disk, self.file.inode, self.file.kind)))
    }
}

/// A lock that ends with its holder, or with the disk.
#[derive(Debug)]
struct SimLock {
    disk: SimDisk,
    path: String,
}

impl FileLock for SimLock {}

impl Drop for SimLock {
    fn drop(&mut self) {
        self.disk.state().locks.remove(&self.path);
    }
}

impl SimDisk {
    /// Opens a file, creating it if it may be, replacing it by an empty one if it should be.
    fn open(&self, path: &Path, kind: FileKind, create: bool, replace: bool) -> io::Result<SimFile> {
        let path = normal(path)?;
        let mut state = self.state();
        state.begin(if create { OpClass::Create } else { OpClass::Open }, kind)?;
        let found = match state.file(&path) {
            Ok((inode, kind)) => Some((inode, kind)),
            Err(error) if create && error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let inode = match found {
            Some((inode, _)) if !replace => inode,
            _ => {
                let (dir, name) = state.place(&path)?;
                let (dir, name): (Arc<str>, Arc<str>) = (dir.into(), name.into());
                if let Some((inode, kind)) = found {
                    let (dir, name, node) = (Arc::clone(&dir), Arc::clone(&name), Node::File(inode));
                    state.mutate(OpClass::Unlink, kind, Mutation::Name(NameChange::Remove { dir, name, node }));
                }
                let inode = state.volume.take_inode_number();
                state.mutate(OpClass::Create, kind, Mutation::Create { dir, name, inode, kind });
                inode
            }
        };
        drop(state);
        Ok(SimFile::open(self, inode, kind))
    }

    fn open_end(&self, path: &Path, kind: FileKind, create: bool) -> io::Result<Box<dyn AppendFile>> {
        let file = self.open(path, kind, create, create)?;
        let end = SimFile::len(&file);
        Ok(Box::new(SimAppend { file, end }))
    }
}

impl Env for SimDisk {
    fn open_random(&self, path: &Path, options: &FileOptions) -> io::Result<Arc<dyn RandomFile>> {
        Ok(Arc::new(self.open(path, options.kind, false, false)?))
    }

    fn open_random_write(&self, path: &Path, options: &FileOptions) -> io::Result<Arc<dyn RandomWriteFile>> {
        Ok(Arc::new(self.open(path, options.kind, true, false)?))
    }

    fn create_append(&self, path: &Path, options: &FileOptions) -> io::Result<Box<dyn AppendFile>> {
        self.open_end(path, options.kind, true)
    }

    fn open_append(&self, path: &Path, options: &FileOptions) -> io::Result<Box<dyn AppendFile>> {
        self.open_end(path, options.kind, false)
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        let path = normal(path)?;
        let mut state = self.state();
        state.begin(OpClass::MakeDir, FileKind::Other)?;
        let mut made = Vec::new();
        state.make_dirs(&path, |_, mutation| made.push(mutation))?;
        for mutation in made {
            state.mutate(OpClass::MakeDir, FileKind::Other, mutation);
        }
        Ok(())
    }

    fn list_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        let path = normal(path)?;
        let mut state = self.state();
        state.begin(OpClass::Stat, FileKind::Other)?;
        let Some(entries) = state.volume.current.entries(&path) else {
            let is_file = matches!(state.node(&path)?, Some(Node::File(_)));
            return Err(if is_file { io::ErrorKind::NotADirectory } else { io::ErrorKind::NotFound }.into());
        };
        let entry = |(name, node): (&Arc<str>, &Node)| DirEntry { name: name.to_string(), is_dir: *node == Node::Dir };
        Ok(entries.iter().map(entry).collect())
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        let path = normal(path)?;
        let mut state = self.state();
        state.begin(OpClass::SyncDir, FileKind::Other)?;
        if !state.volume.current.has_dir(&path) {
            return Err(io::ErrorKind::NotFound.into());
        }
        state.mutate(OpClass::SyncDir, FileKind::Other, Mutation::SyncDir { dir: path.as_ref().into() });
        Ok(())
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        let path = normal(path)?;
        let mut state = self.state();
        let found = state.file(&path);
        let kind = found.as_ref().map_or(FileKind::Other, |(_, kind)| *kind);
        state.begin(OpClass::Unlink, kind)?;
        let (inode, _) = found?;
        let (dir, name) = state.place(&path)?;
        let change = NameChange::Remove { dir: dir.into(), name: name.into(), node: Node::File(inode) };
        state.mutate(OpClass::Unlink, kind, Mutation::Name(change));
        Ok(())
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        let path = normal(path)?;
        let mut state = self.state();
        state.begin(OpClass::Unlink, FileKind::Other)?;
        match state.node(&path)? {
            Some(Node::Dir) => {}
            Some(Node::File(_)) => return Err(io::ErrorKind::NotADirectory.into()),
            None => return Err(io::ErrorKind::NotFound.into()),
        }
        if state.volume.current.entries(&path).is_some_and(|entries| !entries.is_empty()) {
            return Err(io::ErrorKind::DirectoryNotEmpty.into());
        }
        let (dir, name) = state.place(&path)?;
        let change = NameChange::Remove { dir: dir.into(), name: name.into(), node: Node::Dir };
        state.mutate(OpClass::Unlink, FileKind::Other, Mutation::Name(change));
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (from, to) = (normal(from)?, normal(to)?);
        let mut state = self.state();
        let found = state.file(&from);
        let kind = found.as_ref().map_or(FileKind::Other, |(_, kind)| *kind);
        state.begin(OpClass::Rename, kind)?;
        let (inode, _) = found?;
        match state.node(&to)? {
            Some(Node::Dir) => return Err(io::ErrorKind::IsADirectory.into()),
            Some(Node::File(same)) if same == inode => return Ok(()),
            _ => {}
        }
        let (from_dir, from) = state.place(&from)?;
        let (to_dir, to) = state.place(&to)?;
        let change = NameChange::Rename {
            from_dir: from_dir.into(),
            from: from.into(),
            to_dir: to_dir.into(),
            to: to.into(),
            inode,
        };
        state.mutate(OpClass::Rename, kind, Mutation::Name(change));
        Ok(())
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (from, to) = (normal(from)?, normal(to)?);
        let mut state = self.state();
        let found = state.file(&from);
        let kind = found.as_ref().map_or(FileKind::Other, |(_, kind)| *kind);
        state.begin(OpClass::Link, kind)?;
        let (inode, _) = found?;
        if state.node(&to)?.is_some() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let (dir, name) = state.place(&to)?;
        let change = NameChange::Insert { dir: dir.into(), name: name.into(), node: Node::File(inode) };
        state.mutate(OpClass::Link, kind, Mutation::Name(change));
        Ok(())
    }

    fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        let path = normal(path)?;
        let mut state = self.state();
        state.begin(OpClass::Stat, FileKind::Other)?;
        match state.node(&path)? {
            Some(_) => Ok(PathBuf::from(path.as_ref())),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn file_len(&self, path: &Path) -> io::Result<u64> {
        self.stat(path, |state, inode| state.volume.inodes.get(&inode).map_or(0, |file| file.current.len()))
    }

    /// The disk keeps no times.
    fn modified_unix_seconds(&self, path: &Path) -> io::Result<Option<u64>> {
        self.stat(path, |_, _| None)
    }

    fn allocated_bytes(&self, path: &Path) -> io::Result<u64> {
        self.stat(path, |state, inode| {
            let allocated = |file: &super::volume::Inode| file.current.allocated_bytes().max(file.preallocated);
            state.volume.inodes.get(&inode).map_or(0, allocated)
        })
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        let path = normal(path)?;
        let mut state = self.state();
        state.begin(OpClass::Stat, FileKind::Other)?;
        Ok(state.node(&path)?.is_some())
    }

    fn lock_file(&self, path: &Path) -> io::Result<Box<dyn FileLock>> {
        let path = normal(path)?.into_owned();
        let mut state = self.state();
        state.begin(OpClass::Lock, FileKind::Other)?;
        if state.locks.contains(&path) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        if state.node(&path)?.is_none() {
            let (dir, name) = state.place(&path)?;
            let inode = state.volume.take_inode_number();
            let create = Mutation::Create { dir: dir.into(), name: name.into(), inode, kind: FileKind::Other };
            state.mutate(OpClass::Lock, FileKind::Other, create);
        }
        state.locks.insert(path.clone());
        drop(state);
        Ok(Box::new(SimLock { disk: self.clone(), path }))
    }

    fn io_stats(&self) -> &IoStats {
        self.stats()
    }
}

impl SimDisk {
    fn stat<T>(&self, path: &Path, read: impl FnOnce(&super::disk::State, InodeId) -> T) -> io::Result<T> {
        let path = normal(path)?;
        let mut state = self.state();
        let found = state.file(&path);
        let kind = found.as_ref().map_or(FileKind::Other, |(_, kind)| *kind);
        state.begin(OpClass::Stat, kind)?;
        let (inode, _) = found?;
        Ok(read(&state, inode))
    }
}
