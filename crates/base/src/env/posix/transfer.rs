//! Whole transfers over system calls that may do less than asked. Direct ones go in pieces if they are told to.

use std::io;
use std::os::fd::BorrowedFd;

use rustix::io::Errno;

/// Reads until `buffer` is full or the file ends.
#[inline]
pub(super) fn read_at(file: BorrowedFd<'_>, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
    let mut done = 0;
    while done < buffer.len() {
        match rustix::io::pread(file, &mut buffer[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(done)
}

/// The same on a direct file of such `blocks`, at most `most` bytes with a call. Offset, length, memory of the buffer and `most`, if it is less, are aligned to them; so a count that is
/// not means that the file ended there.
pub(super) fn read_at_direct(
    file: BorrowedFd<'_>,
    offset: u64,
    buffer: &mut [u8],
    most: usize,
    blocks: usize,
) -> io::Result<usize> {
    debug_assert!(offset.is_multiple_of(blocks as u64) && buffer.len().is_multiple_of(blocks));
    let mut done = 0;
    while done < buffer.len() {
        let end = buffer.len().min(done.saturating_add(most));
        match rustix::io::pread(file, &mut buffer[done..end], offset + done as u64) {
            Ok(0) => break,
            Ok(count) => {
                done += count;
                if !count.is_multiple_of(blocks) {
                    break;
                }
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(done)
}

/// Writes all of `data`, at most `most` bytes with a call.
#[inline]
pub(super) fn write_at(file: BorrowedFd<'_>, offset: u64, data: &[u8], most: usize) -> io::Result<()> {
    let mut done = 0;
    while done < data.len() {
        let end = data.len().min(done.saturating_add(most));
        match rustix::io::pwrite(file, &data[done..end], offset + done as u64) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => done += count,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
