//! Spans for who traces the program: of opening and recovery, of copies, of flushes and compactions; and an event for each slow write. Without the feature `tracing` there is nothing
//! of it.

#[cfg(feature = "tracing")]
mod listener;
#[cfg(test)]
#[cfg(feature = "tracing")]
mod tests;

#[cfg(feature = "tracing")]
pub use listener::TracingListener;

use siltstone_base::clock::Clock;
use std::path::Path;

/// A write that takes as long, waiting included, is slow.
#[cfg(feature = "tracing")]
const SLOW_WRITE_MICROS: u64 = 100_000;

/// Something that takes time and is done by one thread from its begin to its end.
#[derive(Debug, Clone, Copy)]
#[cfg_attr(not(feature = "tracing"), expect(dead_code, reason = "only a span says what is done"))]
pub(crate) enum Work<'a> {
    /// A database is opened, for reading only or not.
    Open(&'a Path, bool),
    /// So many WALs are replayed.
    Recovery(usize),
    /// A checkpoint or a live copy is made there.
    Checkpoint(&'a Path),
    /// A backup is made of the database there.
    Backup(&'a Path),
}

/// The span that this thread is in until it is dropped.
pub(crate) struct Entered {
    #[cfg(feature = "tracing")]
    _span: tracing::span::EnteredSpan,
}

/// Begins the span of `work`.
pub(crate) fn enter(work: Work<'_>) -> Entered {
    #[cfg(feature = "tracing")]
    return Entered { _span: span(work).entered() };
    #[cfg(not(feature = "tracing"))]
    {
        let _ = work;
        Entered {}
    }
}

#[cfg(feature = "tracing")]
fn span(work: Work<'_>) -> tracing::Span {
    match work {
        Work::Open(dir, read_only) => tracing::info_span!("open", dir = %dir.display(), read_only),
        Work::Recovery(wals) => tracing::info_span!("recovery", wals = wals as u64),
        Work::Checkpoint(dir) => tracing::info_span!("checkpoint", dir = %dir.display()),
        Work::Backup(dir) => tracing::info_span!("backup", dir = %dir.display()),
    }
}

/// Does a write, and tells if it was slow.
#[inline]
pub(crate) fn write<T>(clock: &dyn Clock, write: impl FnOnce() -> T) -> T {
    #[cfg(feature = "tracing")]
    if tracing::enabled!(tracing::Level::WARN) {
        let started = clock.now_micros();
        let outcome = write();
        let micros = clock.now_micros().saturating_sub(started);
        if micros >= SLOW_WRITE_MICROS {
            tracing::warn!(micros, "slow write");
        }
        return outcome;
    }
    let _ = clock;
    write()
}
