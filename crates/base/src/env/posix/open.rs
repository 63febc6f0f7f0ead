//! Opening files: the flags of each way to use one.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags};
use rustix::io::{Errno, retry_on_intr};

use crate::env::FileOptions;

/// An open file and whether it bypasses the page cache.
pub(super) struct Opened {
    pub(super) descriptor: OwnedFd,
    pub(super) direct: bool,
}

/// Opens a file with these flags.
pub(super) fn raw(path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let mode = Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::ROTH;
    retry_on_intr(|| rustix::fs::open(path, flags | OFlags::CLOEXEC, mode))
}

/// Opens with `O_DIRECT` if asked, without it where the file system refuses.
fn open(path: &Path, flags: OFlags, direct: bool) -> Result<Opened, Errno> {
    if direct {
        match raw(path, flags | OFlags::DIRECT) {
            Ok(descriptor) => return Ok(Opened { descriptor, direct: true }),
            // `O_CREAT` may have created the file before the flag was refused.
            Err(Errno::INVAL) => return open(path, flags - OFlags::EXCL, false),
            Err(error) => return Err(error),
        }
    }
    Ok(Opened { descriptor: raw(path, flags)?, direct: false })
}

/// An existing file, to read. One that lost its name meanwhile is not there: who removes it may be about to shorten it.
pub(super) fn to_read(path: &Path, options: &FileOptions) -> io::Result<Opened> {
    let opened = open(path, OFlags::RDONLY, options.direct && !options.mmap)?;
    match rustix::fs::fstat(&opened.descriptor)?.st_nlink {
        0 => Err(Errno::NOENT.into()),
        _ => Ok(opened),
    }
}

/// A file to read and write, created if it does not exist.
pub(super) fn to_read_write(path: &Path, options: &FileOptions) -> io::Result<Opened> {
    Ok(open(path, OFlags::RDWR | OFlags::CREATE, options.direct)?)
}

/// An existing file, to append. A direct one reads its last block back.
pub(super) fn to_append(path: &Path, options: &FileOptions) -> io::Result<Opened> {
    Ok(open(path, if options.direct { OFlags::RDWR } else { OFlags::WRONLY }, options.direct)?)
}

/// A new, empty file, to append. A file of the same name is unlinked, not truncated: its other names and its readers keep it.
pub(super) fn to_create(path: &Path, options: &FileOptions) -> io::Result<Opened> {
    let access = if options.direct { OFlags::RDWR } else { OFlags::WRONLY };
    let new = access | OFlags::CREATE | OFlags::EXCL;
    match open(path, new, options.direct) {
        Err(Errno::EXIST) => {}
        result => return Ok(result?),
    }
    let found = rustix::fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW)?;
    if FileType::from_raw_mode(found.st_mode) == FileType::RegularFile {
        rustix::fs::unlink(path)?;
        return Ok(open(path, new, options.direct)?);
    }
    Ok(open(path, access | OFlags::TRUNC, options.direct)?)
}

/// A directory, to sync it.
pub(super) fn directory(path: &Path) -> io::Result<OwnedFd> {
    Ok(raw(path, OFlags::RDONLY | OFlags::DIRECTORY)?)
}
