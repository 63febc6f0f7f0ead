//! One error type for the substrate and every engine: an opaque value over a kind.
//!
//! No message ever carries user data (keys or values); files, offsets, option names and numbers only.

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The result of a fallible operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, in terms that a caller can act on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The operating system refused or failed an operation on a file.
    Io,
    /// The device is full. Reads go on; writes resume by themselves when space returns.
    NoSpace,
    /// Bytes on disk are not what was written there. File and offset say where.
    Corruption,
    /// A file that the engine relies on does not exist.
    MissingFile,
    /// The caller asked for something impossible; the message names the argument or option.
    InvalidArgument,
    /// What the caller named (a column family, a table, an index, a property) does not exist.
    NotFound,
    /// What the caller wants to create exists.
    AlreadyExists,
    /// Another process, or another handle of this one, has the directory open.
    Locked,
    /// The engine accepts no writes any more; the source says why.
    ReadOnly,
    /// A conflicting operation holds what this one needs; try again.
    Busy,
    /// Transactions wait for one another; roll this one back and begin again. The source names them.
    Deadlock,
    /// The call would have had to wait, or to do I/O, and was told not to.
    Incomplete,
    /// A background job, or a callback of the user in it, panicked.
    Poisoned,
    /// The file or the request is legitimate, but this engine does not implement it.
    NotSupported,
    /// A size or a count exceeds a documented limit.
    LimitExceeded,
    /// An allocation whose size a file or a caller chose could not be made.
    OutOfMemory,
    /// The merge operator of a column family cannot merge a key's operands.
    MergeFailed,
    /// A deadline passed.
    TimedOut,
    /// The engine is closing, or the operation was cancelled.
    Aborted,
}

struct Repr {
    kind: ErrorKind,
    message: Cow<'static, str>,
    file: Option<PathBuf>,
    offset: Option<u64>,
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

/// An error of the substrate or of an engine. Cheap to clone: the members of a commit group share one.
#[derive(Clone)]
pub struct Error(Arc<Repr>);

impl Error {
    /// An error of `kind` with a message that names no user data.
    #[cold]
    pub fn new(kind: ErrorKind, message: impl Into<Cow<'static, str>>) -> Self {
        let message = message.into();
        Self(Arc::new(Repr { kind, message, file: None, offset: None, source: None }))
    }

    /// Bytes of `file` at `offset` are not what was written there.
    #[cold]
    pub fn corruption(file: &Path, offset: u64, message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Corruption, message).with_file(file).with_offset(offset)
    }

    /// Corruption found by a decoder that does not know its file; the caller adds it with
    /// [`with_file`](Self::with_file).
    #[cold]
    pub fn corrupt(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Corruption, message)
    }

    /// An operating-system error on `file` while doing `operation` (a verb: "append", "sync").
    #[cold]
    pub fn io(operation: &'static str, file: &Path, source: io::Error) -> Self {
        let kind = match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ErrorKind::NoSpace,
            io::ErrorKind::NotFound => ErrorKind::MissingFile,
            io::ErrorKind::UnexpectedEof => ErrorKind::Corruption,
            _ => ErrorKind::Io,
        };
        Self(Arc::new(Repr {
            kind,
            message: Cow::Borrowed(operation),
            file: Some(file.to_path_buf()),
            offset: None,
            source: Some(Arc::new(source)),
        }))
    }

    /// A bad option or argument; `message` names it and its bounds.
    #[cold]
    pub fn invalid_argument(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::InvalidArgument, message)
    }

    /// Something legitimate that this engine does not implement; `what` names it.
    #[cold]
    pub fn not_supported(what: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::NotSupported, what)
    }

    /// Adds the file, unless one is known.
    #[must_use]
    pub fn with_file(self, file: &Path) -> Self {
        self.edit(|repr| {
            repr.file.get_or_insert_with(|| file.to_path_buf());
        })
    }

    /// Adds the byte offset in the file, unless one is known.
    #[must_use]
    pub fn with_offset(self, offset: u64) -> Self {
        self.edit(|repr| {
            repr.offset.get_or_insert(offset);
        })
    }

    /// Adds the cause.
    #[must_use]
    pub fn with_source(self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.edit(|repr| repr.source = Some(Arc::new(source)))
    }

    /// What went wrong.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The file concerned, if one is.
    pub fn file(&self) -> Option<&Path> {
        self.0.file.as_deref()
    }

    /// The byte offset in [`file`](Self::file), if known.
    pub fn offset(&self) -> Option<u64> {
        self.0.offset
    }

    /// The message without kind, file, offset and cause.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    fn edit(self, change: impl FnOnce(&mut Repr)) -> Self {
        let mut repr = Arc::try_unwrap(self.0).unwrap_or_else(|shared| Repr {
            kind: shared.kind,
            message: shared.message.clone(),
            file: shared.file.clone(),
            offset: shared.offset,
            source: shared.source.clone(),
        });
        change(&mut repr);
        Self(Arc::new(repr))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.0.kind, self.0.message)?;
        if let Some(file) = &self.0.file {
            write!(f, " ({}", file.display())?;
            if let Some(offset) = self.0.offset {
                write!(f, " at offset {offset}")?;
            }
            write!(f, ")")?;
        }
        if let Some(source) = &self.0.source {
            write!(f, ": {source}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}
