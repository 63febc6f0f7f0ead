//! Removing a large file.
//!
//! The kernel lets go of all of a file with its last name, in one call. Of a file that is cached these are its pages: 64 MiB that were written in small pieces take it 10 ms, in which nobody else gets the
//! processor before a tick ends. And where the file system tells the device what is free (`discard`), reads of others stand behind all of that. So a large file loses its name first, and then becomes
//! shorter, a piece at a time; the return from each call is where others get their turn.
//!
//! For that it must be nobody else's: have no other name, and not be open, for which the kernel grants a lease to write to it. Who has found the name just before it went may still open the file: [`open::to_read`] then
//! says that it is not there. (Another program may see a shorter file.) It is done on ext4 alone: XFS writes what is cached of a file before it shortens it, where the whole file would have been forgotten.
//!
//! Otherwise, the pages that are on the device are dropped from the cache in pieces, so that the last who closes the file finds none: a follower of the database in another process reads them again.
#![expect(unsafe_code, reason = "cachestat and leases are only in libc")]

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Advice, AtFlags, CWD, FileType, OFlags};

use super::{lock, open};

/// Files of fewer bytes are removed in one call.
const LEAST_BYTES: u64 = 2 << 20;

/// What the kernel lets go of at a time: a fifth of a millisecond.
const PIECE_BYTES: u64 = 1 << 20;

/// The magic number of ext2, ext3 and ext4.
const EXT4: u64 = 0xEF53;

/// The number of `cachestat` (Linux 6.5), which libc has no name for everywhere.
const SYS_CACHESTAT: libc::c_long = 451;

/// The command of `fcntl` that names the signal to send when a lease is broken; libc has no name for it.
const F_SETSIG: libc::c_int = 10;

/// How the pages of a file went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Removed {
    /// With its name, or when the last who has it closes it.
    AtOnce,
    /// Out of the cache, in so many pieces; then with its name.
    Dropped(u64),
    /// With all that was in it, in so many pieces.
    Cut(u64),
}

/// A large file of one name.
struct Large {
    file: OwnedFd,
    len: u64,
}

/// Removes the file.
pub(super) fn remove(path: &Path) -> io::Result<Removed> {
    let large = open_if_large(path);
    rustix::fs::unlink(path)?;
    Ok(large.map_or(Removed::AtOnce, |large| large.let_go()))
}

/// The file, if it is so large that it should go by and by.
fn open_if_large(path: &Path) -> Option<Large> {
    lock::refuse_held(path).ok()?;
    let found = rustix::fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    let len = u64::try_from(found.st_size).ok().filter(|len| *len >= LEAST_BYTES)?;
    if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile || found.st_nlink > 1 {
        return None;
    }
    let file = open::raw(path, OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK).ok()?;
    Some(Large { file, len })
}

impl Large {
    /// Lets go of a file that has lost its name.
    fn let_go(&self) -> Removed {
        if self.is_nobodys() && self.is_on_ext4() {
            return Removed::Cut(self.cut());
        }
        match cached_pages(self.file.as_fd()) {
            Some(pages) if pages.cached >= LEAST_BYTES.max(self.len / 2) && pages.not_written == 0 => {
                Removed::Dropped(self.drop_pages())
            }
            _ => Removed::AtOnce,
        }
    }

    fn drop_pages(&self) -> u64 {
        let pieces = self.len.div_ceil(PIECE_BYTES);
        for piece in 0..pieces {
            // What stays goes with the file.
            let _ = rustix::fs::fadvise(&self.file, piece * PIECE_BYTES, PIECE_BYTES.try_into().ok(), Advice::DontNeed);
        }
        pieces
    }

    /// From its end, to whole pieces: else what is left of a page would be written.
    fn cut(&self) -> u64 {
        let pieces = self.len.div_ceil(PIECE_BYTES);
        let cut = |piece: &u64| rustix::fs::ftruncate(&self.file, piece * PIECE_BYTES).is_ok();
        (0..pieces).rev().take_while(cut).count() as u64
    }

    /// Whether nobody else has it, by name, open or mapped.
    fn is_nobodys(&self) -> bool {
        rustix::fs::fstat(&self.file).is_ok_and(|status| status.st_nlink == 0) && is_alone(self.file.as_fd())
    }

    fn is_on_ext4(&self) -> bool {
        rustix::fs::fstatfs(&self.file).is_ok_and(|system| system.f_type as u64 == EXT4)
    }
}

/// Bytes of a file in the page cache.
struct CachedPages {
    cached: u64,
    /// Those that are not on the device.
    not_written: u64,
}

/// What of a file is in the page cache; `None` where the kernel does not tell.
fn cached_pages(file: BorrowedFd<'_>) -> Option<CachedPages> {
    // An offset and a length, of which 0 is everything.
    let range = [0_u64; 2];
    // Pages that are cached, dirty, being written, gone, and gone recently.
    let mut pages = [0_u64; 5];
    // SAFETY: the kernel reads two integers and writes five, which the arrays have room for; the descriptor is open for as long as it is borrowed.
    let result = unsafe { libc::syscall(SYS_CACHESTAT, file.as_raw_fd(), range.as_ptr(), pages.as_mut_ptr(), 0) };
    let [cached, dirty, being_written, ..] = pages.map(|pages| pages.saturating_mul(rustix::param::page_size() as u64));
    (result == 0).then(|| CachedPages { cached, not_written: dirty.saturating_add(being_written) })
}

/// Whether nobody else has the file open or mapped.
fn is_alone(file: BorrowedFd<'_>) -> bool {
    let descriptor = file.as_raw_fd();
    // SAFETY: the calls take no pointers, and the descriptor is open for as long as it is borrowed. Were the lease broken before it is given back, the kernel would send
    // the signal that is set first, which is ignored unless somebody handles it.
    unsafe {
        libc::fcntl(descriptor, F_SETSIG, libc::SIGURG) == 0
            && libc::fcntl(descriptor, libc::F_SETLEASE, libc::F_WRLCK) == 0
            && libc::fcntl(descriptor, libc::F_SETLEASE, libc::F_UNLCK) == 0
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "what the environment did is looked at from outside it")]

    use super::*;
    use crate::env::{FileKind, FileOptions};
    use std::fs::File;
    use std::os::unix::fs::FileExt;
    use std::path::PathBuf;

    /// Five pieces and some.
    const LEN: usize = (5 << 20) + 123;

    /// A file whose pages are cached.
    fn write(path: &Path, is_clean: bool) -> File {
        std::fs::write(path, vec![7; LEN]).unwrap();
        let file = File::options().read(true).write(true).open(path).unwrap();
        if is_clean {
            file.sync_all().unwrap();
        }
        file
    }

    /// Whether the kernel tells what is cached, and whether it grants a lease to whom a file belongs, and that is on ext4.
    fn abilities(directory: &Path) -> (bool, bool) {
        let file = write(&directory.join("probe"), false);
        let tells = cached_pages(file.as_fd()).is_some();
        let large = Large { file: file.into(), len: LEN as u64 };
        let cuts = large.is_on_ext4() && (0..100).any(|_| is_alone(large.file.as_fd()));
        (tells, cuts)
    }

    #[test]
    fn a_large_file_goes_in_pieces() {
        let directory = tempfile::tempdir().unwrap();
        let (_, cuts) = abilities(directory.path());
        let path = directory.path().join("file");
        // Dirty, on the device as well, and on the device alone.
        for (is_clean, is_cached) in [(false, true), (true, true), (true, false)] {
            // A process that another test starts has the file open for a moment.
            let cut = (0..100).any(|_| {
                let file = write(&path, is_clean);
                if !is_cached {
                    rustix::fs::fadvise(&file, 0, None, Advice::DontNeed).unwrap();
                }
                drop(file);
                let removed = remove(&path).unwrap();
                assert!(!path.exists());
                removed == Removed::Cut(6)
            });
            assert_eq!(cut, cuts, "clean {is_clean}, cached {is_cached}");
        }
        assert_eq!(remove(&path).unwrap_err().kind(), io::ErrorKind::NotFound);
        std::fs::write(&path, "little").unwrap();
        assert_eq!(remove(&path).unwrap(), Removed::AtOnce);
        assert!(!path.exists());
    }

    #[test]
    fn of_a_file_that_others_have_the_cached_pages_go_in_pieces() {
        let directory = tempfile::tempdir().unwrap();
        let (tells, _) = abilities(directory.path());
        let path = directory.path().join("file");
        let _reader = write(&path, true);
        assert_eq!(remove(&path).unwrap(), if tells { Removed::Dropped(6) } else { Removed::AtOnce });
        assert!(!path.exists());
    }

    #[test]
    fn a_file_that_lost_its_name_while_it_was_opened_is_not_found() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let reader = write(&path, true);
        let by_descriptor = PathBuf::from(format!("/proc/self/fd/{}", reader.as_raw_fd()));
        let options = FileOptions::new(FileKind::Table);
        assert!(open::to_read(&by_descriptor, &options).is_ok());
        remove(&path).unwrap();
        let opened = open::to_read(&by_descriptor, &options).map(|_| ());
        assert_eq!(opened.unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn who_reads_a_removed_file_or_has_another_name_for_it_sees_all_of_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        for is_clean in [false, true] {
            let reader = write(&path, is_clean);
            assert!(!matches!(remove(&path).unwrap(), Removed::Cut(_)));
            let mut read = vec![0; LEN];
            reader.read_exact_at(&mut read, 0).unwrap();
            assert!(read.iter().all(|byte| *byte == 7));

            let reader = write(&path, is_clean);
            // SAFETY: nobody writes to the file.
            let mapped = unsafe { memmap2::Mmap::map(&reader) }.unwrap();
            drop(reader);
            assert!(!matches!(remove(&path).unwrap(), Removed::Cut(_)));
            assert!(mapped.iter().all(|byte| *byte == 7));

            let link = directory.path().join("link");
            write(&path, is_clean);
            std::fs::hard_link(&path, &link).unwrap();
            assert_eq!(remove(&path).unwrap(), Removed::AtOnce);
            assert_eq!(std::fs::read(&link).unwrap(), vec![7; LEN]);

            let symbolic = directory.path().join("symbolic");
            std::os::unix::fs::symlink(&link, &symbolic).unwrap();
            assert_eq!(remove(&symbolic).unwrap(), Removed::AtOnce);
            assert_eq!(std::fs::read(&link).unwrap(), vec![7; LEN]);
            std::fs::remove_file(&link).unwrap();
        }
    }

    /// As when somebody gives the file another name while it is removed.
    #[test]
    fn a_file_that_has_a_name_is_not_cut() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let large = Large { file: write(&path, false).into(), len: LEN as u64 };
        assert_eq!(large.let_go(), Removed::AtOnce);
        assert_eq!(std::fs::metadata(&path).unwrap().len(), LEN as u64);
    }
}
