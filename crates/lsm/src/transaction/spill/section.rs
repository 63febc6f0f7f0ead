//! Several tables in one file, one behind the other: each is written and read as if it had a file of its own.

use siltstone_base::env::{AppendFile, IoContext, RandomFile, SyncHandle};
use siltstone_base::sync::{Arc, Mutex, Rank};
use std::io;
use std::ops::Range;

/// Held while something is appended; whoever appends holds no other lock.
const RANK: Rank = Rank(945);

/// A file that is written by one section at a time.
#[derive(Debug, Clone)]
pub(super) struct SharedFile(Arc<Mutex<Option<Box<dyn AppendFile>>>>);

impl SharedFile {
    pub(super) fn new(file: Box<dyn AppendFile>) -> Self {
        Self(Arc::new(Mutex::new(RANK, Some(file))))
    }

    /// Begins a section where the file ends.
    pub(super) fn section(&self) -> WrittenSection {
        WrittenSection { begin: self.len(), file: self.clone() }
    }

    /// The bytes appended so far.
    pub(super) fn len(&self) -> u64 {
        self.0.lock().as_ref().map_or(0, |file| file.len())
    }

    /// Writes what is buffered, and closes.
    pub(super) fn finish(self) -> io::Result<()> {
        self.0.lock().take().map_or(Ok(()), |file| file.finish())
    }

    fn with<T>(&self, call: impl FnOnce(&mut dyn AppendFile) -> io::Result<T>) -> io::Result<T> {
        match self.0.lock().as_mut() {
            Some(file) => call(&mut **file),
            None => Err(io::Error::other("the file is closed")),
        }
    }
}

/// The end of a file, as one that begins there. It is no safer than it must be while the process lives: nobody reads it after a crash.
#[derive(Debug)]
pub(super) struct WrittenSection {
    file: SharedFile,
    begin: u64,
}

impl WrittenSection {
    /// Where it begins.
    pub(super) fn begin(&self) -> u64 {
        self.begin
    }
}

impl AppendFile for WrittenSection {
    fn append(&mut self, data: &[u8], context: IoContext) -> io::Result<()> {
        self.file.with(|file| file.append(data, context))
    }

    fn sync_data(&mut self, _: IoContext) -> io::Result<()> {
        Ok(())
    }

    fn sync_range(&mut self, offset: u64, len: u64) -> io::Result<()> {
        self.file.with(|file| file.sync_range(self.begin + offset, len))
    }

    fn wait_range(&mut self, offset: u64, len: u64) -> io::Result<()> {
        self.file.with(|file| file.wait_range(self.begin + offset, len))
    }

    fn preallocate(&mut self, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn len(&self) -> u64 {
        self.file.len() - self.begin
    }

    fn finish(self: Box<Self>) -> io::Result<()> {
        // The file goes on with the next section.
        Ok(())
    }

    fn sync_handle(&self) -> io::Result<Arc<dyn SyncHandle>> {
        self.file.with(|file| file.sync_handle())
    }
}

/// A part of a file that is read as if it were all of one.
#[derive(Debug)]
pub(super) struct ReadSection {
    file: Arc<dyn RandomFile>,
    range: Range<u64>,
}

impl ReadSection {
    pub(super) fn new(file: &Arc<dyn RandomFile>, range: Range<u64>) -> Self {
        Self { file: Arc::clone(file), range }
    }

    /// How many bytes there are from `offset` on.
    fn left(&self, offset: u64) -> u64 {
        (self.range.end - self.range.start).saturating_sub(offset)
    }
}

impl RandomFile for ReadSection {
    fn read_at(&self, offset: u64, buffer: &mut [u8], context: IoContext) -> io::Result<usize> {
        let len = usize::try_from(self.left(offset)).unwrap_or(usize::MAX).min(buffer.len());
        match buffer.get_mut(..len) {
            Some(buffer) if len > 0 => self.file.read_at(self.range.start + offset, buffer, context),
            _ => Ok(0),
        }
    }

    fn mapped(&self, offset: u64, len: usize) -> Option<&[u8]> {
        let is_within = len as u64 <= self.left(offset);
        if is_within { self.file.mapped(self.range.start + offset, len) } else { None }
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.range.end - self.range.start)
    }

    fn will_need(&self, offset: u64, len: u64) {
        let len = len.min(self.left(offset));
        if len > 0 {
            self.file.will_need(self.range.start + offset, len);
        }
    }

    fn is_direct(&self) -> bool {
        self.file.is_direct()
    }

    fn forget(&self, offset: u64) {
        self.file.forget(self.range.start.saturating_add(offset));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use siltstone_base::env::sim::SimDisk;
    use siltstone_base::env::{FileKind, FileOptions, IoPriority};
    use std::path::Path;

    #[test]
    fn sections_know_nothing_of_their_neighbours() {
        let (env, path, context) =
            (SimDisk::new().env(), Path::new("/sections"), IoContext::new(FileKind::Table, IoPriority::User));
        let options = FileOptions::new(FileKind::Table);
        let file = SharedFile::new(env.create_append(path, &options).unwrap());
        let mut ranges = Vec::new();
        for text in ["first", "", "second", "3"] {
            let mut section = Box::new(file.section());
            section.append(text.as_bytes(), context).unwrap();
            assert_eq!(section.len(), text.len() as u64);
            section.sync_data(context).unwrap();
            ranges.push((text, section.begin()..section.begin() + section.len()));
            section.finish().unwrap();
        }
        file.finish().unwrap();
        let file = env.open_random(path, &options).unwrap();
        for (text, range) in ranges {
            let section = ReadSection::new(&file, range);
            assert_eq!(section.len().unwrap(), text.len() as u64);
            for offset in 0..=text.len() + 1 {
                let expected = text.as_bytes().get(offset..).unwrap_or_default();
                let mut buffer = [0; 100];
                let read = section.read_at(offset as u64, &mut buffer, context).unwrap();
                assert_eq!(&buffer[..read], expected);
            }
        }
    }
}
