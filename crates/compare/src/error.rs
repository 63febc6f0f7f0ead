//! Foreign errors in the form of ours.

use siltstone_base::engine::Durability;
use siltstone_base::{Error, ErrorKind};

/// An error that `engine` reported while doing `operation`.
#[cold]
pub(crate) fn foreign(
    engine: &'static str,
    operation: &'static str,
    source: impl std::error::Error + Send + Sync + 'static,
) -> Error {
    Error::new(ErrorKind::Io, format!("{engine}: {operation}")).with_source(source)
}

/// A cell of the table of durabilities that has no equivalent.
#[cold]
pub(crate) fn no_durability(engine: &'static str, durability: Durability) -> Error {
    Error::not_supported(format!("{engine} has no equivalent of durability {durability}"))
}

/// Direct I/O asked of an engine that has none.
#[cold]
pub(crate) fn no_direct(engine: &'static str) -> Error {
    Error::not_supported(format!("{engine} has no direct I/O"))
}
