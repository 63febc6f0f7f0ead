//! Removing a file whose pages are cached.
//!
//! The kernel lets go of the pages of a file with its last name, all of them in one call: 64 MiB that were written in small pieces take it 10 ms, in which nobody
//! else gets the processor before a tick ends. So a large file that is cached loses its name first, and then its pages, a piece at a time. Nobody may see it shorter than it was: not another name, and
//! not whoever opened it before, as a follower of the database in another process. The kernel grants a lease to write to a file only to the one who has it open.
#![expect(unsafe_code, reason = "cachestat and leases are only in libc")]

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, FileType, OFlags};

use super::open;

/// Files of fewer cached bytes are removed in one call.
const LEAST_BYTES: u64 = 2 << 20;

/// What the kernel lets go of at a time: a fifth of a millisecond.
const PIECE_BYTES: u64 = 1 << 20;

/// The number of `cachestat` (Linux 6.5), the same for all processors; libc has no name for it everywhere.
const SYS_CACHESTAT: libc::c_long = 451;

/// The command of `fcntl` that names the signal to send when a lease is broken; libc has no name for it.
const F_SETSIG: libc::c_int = 10;

/// Removes the file. Returns how many pieces it was shortened by before.
pub(super) fn remove(path: &Path) -> io::Result<u64> {
    let cached = open_if_cached(path);
    rustix::fs::unlink(path)?;
    Ok(cached.map_or(0, |file| shorten(&file).unwrap_or_else(|pieces| pieces)))
}

/// The file, if so much of it is cached that its pages should go by and by.
fn open_if_cached(path: &Path) -> Option<OwnedFd> {
    let found = rustix::fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    let is_large = u64::try_from(found.st_size).is_ok_and(|len| len >= LEAST_BYTES);
    if !is_large || FileType::from_raw_mode(found.st_mode) != FileType::RegularFile || found.st_nlink > 1 {
        return None;
    }
    let file = open::raw(path, OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK).ok()?;
    (cached_bytes(file.as_fd())? >= LEAST_BYTES).then_some(file)
}

/// Cuts a file without a name that only the caller has open, from its end. Returns in how many pieces, as `Err` if it was not to the end.
fn shorten(file: &OwnedFd) -> Result<u64, u64> {
    let status = rustix::fs::fstat(file).map_err(|_| 0_u64)?;
    if status.st_nlink > 0 || !is_alone(file.as_fd()) {
        return Err(0);
    }
    let len = u64::try_from(status.st_size).unwrap_or(0);
    let mut pieces = 0;
    while pieces * PIECE_BYTES < len {
        let left = len.saturating_sub((pieces + 1) * PIECE_BYTES);
        rustix::fs::ftruncate(file, left).map_err(|_| pieces)?;
        pieces += 1;
        std::thread::yield_now();
    }
    Ok(pieces)
}

/// How much of a file is in the page cache; `None` where the kernel does not tell.
fn cached_bytes(file: BorrowedFd<'_>) -> Option<u64> {
    // An offset and a length, of which 0 is everything.
    let range = [0_u64; 2];
    // Pages that are cached, dirty, being written, gone, and gone recently.
    let mut pages = [0_u64; 5];
    // SAFETY: the kernel reads two integers and writes five, which the arrays have room for; the descriptor is open for as long as it is borrowed.
    let result = unsafe { libc::syscall(SYS_CACHESTAT, file.as_raw_fd(), range.as_ptr(), pages.as_mut_ptr(), 0) };
    (result == 0).then(|| pages[0].saturating_mul(rustix::param::page_size() as u64))
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
    use std::os::unix::fs::FileExt;

    const LEN: usize = 5 << 20;

    /// A file whose pages are cached. False where the kernel does not say so.
    fn cached(path: &Path) -> bool {
        std::fs::write(path, vec![7; LEN]).unwrap();
        open_if_cached(path).is_some()
    }

    #[test]
    fn a_cached_file_goes_in_pieces() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let expected = if cached(&path) { 5 } else { 0 };
        assert_eq!(remove(&path).unwrap(), expected);
        assert!(!path.exists());
        assert_eq!(remove(&path).unwrap_err().kind(), io::ErrorKind::NotFound);
        std::fs::write(&path, "little").unwrap();
        assert_eq!(remove(&path).unwrap(), 0);
        assert!(!path.exists());
    }

    #[test]
    fn who_reads_a_removed_file_or_has_another_name_for_it_sees_all_of_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        cached(&path);
        let reader = std::fs::File::open(&path).unwrap();
        assert_eq!(remove(&path).unwrap(), 0);
        let mut read = vec![0; LEN];
        reader.read_exact_at(&mut read, 0).unwrap();
        assert!(read.iter().all(|byte| *byte == 7));

        cached(&path);
        let reader = std::fs::File::open(&path).unwrap();
        // SAFETY: nobody writes to the file.
        let mapped = unsafe { memmap2::Mmap::map(&reader) }.unwrap();
        drop(reader);
        assert_eq!(remove(&path).unwrap(), 0);
        assert!(mapped.iter().all(|byte| *byte == 7));

        let link = directory.path().join("link");
        cached(&path);
        std::fs::hard_link(&path, &link).unwrap();
        assert_eq!(remove(&path).unwrap(), 0);
        assert_eq!(std::fs::read(&link).unwrap(), vec![7; LEN]);

        let symbolic = directory.path().join("symbolic");
        std::os::unix::fs::symlink(&link, &symbolic).unwrap();
        assert_eq!(remove(&symbolic).unwrap(), 0);
        assert_eq!(std::fs::metadata(&link).unwrap().len(), LEN as u64);
    }
}
