//! Write-back of a range: the one system call that has no safe wrapper.
#![expect(unsafe_code, reason = "sync_file_range is only in libc")]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Starts writing the range back to the device without waiting. A file system without the operation does nothing.
pub(super) fn start_write_back(file: BorrowedFd<'_>, offset: u64, len: u64) -> io::Result<()> {
    sync_file_range(file, offset, len, libc::SYNC_FILE_RANGE_WRITE)
}

/// Waits until what was started of the range is written.
pub(super) fn wait_for_write_back(file: BorrowedFd<'_>, offset: u64, len: u64) -> io::Result<()> {
    sync_file_range(file, offset, len, libc::SYNC_FILE_RANGE_WAIT_BEFORE)
}

fn sync_file_range(file: BorrowedFd<'_>, offset: u64, len: u64, flags: libc::c_uint) -> io::Result<()> {
    // To the system call a length of zero means everything up to the end.
    if len == 0 {
        return Ok(());
    }
    let (Ok(offset), Ok(len)) = (i64::try_from(offset), i64::try_from(len)) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    loop {
        // SAFETY: the call takes no pointer, and the descriptor is open for as long as it is borrowed.
        let result = unsafe { libc::sync_file_range(file.as_raw_fd(), offset, len, flags) };
        if result == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EINTR) => {}
            Some(libc::ENOSYS | libc::ESPIPE) => return Ok(()),
            _ => return Err(error),
        }
    }
}
