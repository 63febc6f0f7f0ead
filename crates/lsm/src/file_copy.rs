//! Bringing a file to another place: by a second name, or byte by byte.

use siltstone_base::checksum::crc32c_append;
use siltstone_base::env::{Access, Env, FileKind, FileOptions, IoContext, IoPriority};
use siltstone_base::{Error, Result};
use std::io;
use std::path::Path;

/// Bytes that are copied at a time.
const CHUNK_LEN: usize = 1 << 20;

/// Bytes after which writing a copy back is started: the sync at its end, which writers of logs on the same device would wait for, then has little to do.
const WRITE_BACK_BYTES: u64 = 8 << 20;

/// Reads the first `len` bytes of a file; returns their CRC32c. `take` gets them piece by piece.
pub(crate) fn read_prefix(
    env: &dyn Env,
    path: &Path,
    kind: FileKind,
    len: u64,
    mut take: impl FnMut(&[u8]) -> Result<()>,
) -> Result<u32> {
    let context = IoContext::new(kind, IoPriority::Low);
    let options = FileOptions::new(kind).access(Access::Sequential);
    let file = env.open_random(path, &options).map_err(|error| Error::io("open", path, error))?;
    let mut chunk = vec![0; CHUNK_LEN.min(usize::try_from(len).unwrap_or(CHUNK_LEN))];
    let (mut crc, mut offset) = (0, 0);
    while offset < len {
        let wanted = usize::try_from(len - offset).map_or(chunk.len(), |rest| rest.min(chunk.len()));
        let Some(buffer) = chunk.get_mut(..wanted) else { break };
        let read = file.read_at(offset, buffer, context);
        let read = read.map_err(|error| Error::io("read", path, error).with_offset(offset))?;
        if read < wanted {
            return Err(Error::corruption(path, offset + read as u64, "the file ends early"));
        }
        crc = crc32c_append(crc, buffer);
        take(buffer)?;
        offset += wanted as u64;
    }
    Ok(crc)
}

/// Copies the first `len` bytes of `from` to the new file `to` and makes them durable, but not the name. Returns their CRC32c.
pub(crate) fn copy_file(env: &dyn Env, from: &Path, to: &Path, kind: FileKind, len: u64) -> Result<u32> {
    copy_between(env, from, env, to, kind, len)
}

/// The same from one environment to another.
pub(crate) fn copy_between(
    source: &dyn Env,
    from: &Path,
    target: &dyn Env,
    to: &Path,
    kind: FileKind,
    len: u64,
) -> Result<u32> {
    let context = IoContext::new(kind, IoPriority::Low);
    let failed = |what: &'static str, error| Error::io(what, to, error);
    let mut file = target.create_append(to, &FileOptions::new(kind)).map_err(|error| failed("create", error))?;
    let mut written_back = 0;
    let append = |bytes: &[u8]| {
        file.append(bytes, context).map_err(|error| failed("write", error))?;
        let waiting = file.len() - written_back;
        if waiting >= WRITE_BACK_BYTES {
            // A hint: an error shows at the sync.
            let _ = file.sync_range(written_back, waiting);
            written_back += waiting;
        }
        Ok(())
    };
    let crc = read_prefix(source, from, kind, len, append)?;
    file.sync_data(context).map_err(|error| failed("sync", error))?;
    file.finish().map_err(|error| failed("close", error))?;
    Ok(crc)
}

/// Whether a file system refuses second names here, but may take a copy.
fn refuses_links(error: &io::Error) -> bool {
    use io::ErrorKind::{CrossesDevices, PermissionDenied, TooManyLinks, Unsupported};
    matches!(error.kind(), CrossesDevices | PermissionDenied | TooManyLinks | Unsupported)
}

/// Gives `from` the second name `to`; copies it where that is impossible. Returns the bytes that were copied.
pub(crate) fn link_or_copy(env: &dyn Env, from: &Path, to: &Path, kind: FileKind, len: u64) -> Result<u64> {
    match env.hard_link(from, to) {
        Ok(()) => Ok(0),
        Err(error) if refuses_links(&error) => copy_file(env, from, to, kind, len).map(|_| len),
        Err(error) => Err(Error::io("link", from, error)),
    }
}
