//! Mapped files, read-only.
#![expect(unsafe_code, reason = "a mapping of a file is outside what the compiler can check")]

use std::io;
use std::sync::Arc;

use memmap2::{Advice, Mmap};

use super::handle::Handle;
use super::random::PosixFile;
use crate::env::{Access, IoContext, RandomFile};

/// A file mapped at the length that it had when it was opened; what was added since is read by system calls.
#[derive(Debug)]
struct MappedFile {
    file: PosixFile,
    map: Mmap,
}

/// Maps a file. An empty one is read by system calls.
pub(super) fn open(handle: Handle, access: Access) -> io::Result<Arc<dyn RandomFile>> {
    if handle.len()? == 0 {
        return Ok(Arc::new(PosixFile::to_read(handle)));
    }
    // SAFETY: the mapping is private to this type and read-only. That nobody writes or truncates the file meanwhile cannot
    // be enforced: the engines map only files that are never changed once they are complete, and a file that another
    // process changes is outside the promise of this environment, as the module says.
    let map = unsafe { Mmap::map(&handle.fd()) }?;
    let _ = map.advise(match access {
        Access::Random => Advice::Random,
        Access::Sequential => Advice::Sequential,
    });
    Ok(Arc::new(MappedFile { file: PosixFile::to_read(handle), map }))
}

impl RandomFile for MappedFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8], context: IoContext) -> io::Result<usize> {
        match self.mapped(offset, buffer.len()) {
            Some(bytes) => {
                buffer.copy_from_slice(bytes);
                Ok(buffer.len())
            }
            None => self.file.read_at(offset, buffer, context),
        }
    }

    fn mapped(&self, offset: u64, len: usize) -> Option<&[u8]> {
        let start = usize::try_from(offset).ok()?;
        self.map.get(start..start.checked_add(len)?)
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn will_need(&self, offset: u64, len: u64) {
        if let (Ok(offset), Ok(len)) = (usize::try_from(offset), usize::try_from(len))
            && offset.checked_add(len).is_some_and(|end| end <= self.map.len())
        {
            let _ = self.map.advise_range(Advice::WillNeed, offset, len);
        }
    }
}
