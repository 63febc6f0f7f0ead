//! The substrate of the Siltstone engines. It knows nothing of any engine.
//!
//! * [`mod@env`]: every byte of I/O; [`clock`]: all time; [`executor`]: all background work; [`sync`]: all locks.
//! * [`coding`], [`checksum`], [`compression`], [`bloom`], [`ribbon`], [`comparator`], [`prefix_extractor`], [`memcomparable`]: bytes and their meaning.
//! * [`block_pool`], [`cache`], [`mod@prefetch`], [`rate_limiter`], [`row_locks`], [`histogram`]: resources.
//! * [`entry_filter`], [`expiry`]: what users decide about entries.
//! * [`engine`]: what the laboratory and the differential tests ask of an engine.
//!
//! ```
//! use siltstone_base::clock::{Clock, ManualClock};
//! use std::time::Duration;
//!
//! let clock = ManualClock::new(1_700_000_000);
//! clock.advance(Duration::from_secs(2));
//! assert_eq!(clock.unix_seconds(), 1_700_000_002);
//! ```

pub mod allocator;
pub mod block_pool;
pub mod bloom;
pub mod cache;
pub mod checksum;
pub mod clock;
pub mod coding;
pub mod comparator;
pub mod compression;
pub mod engine;
pub mod entry_filter;
pub mod env;
mod error;
pub mod executor;
pub mod expiry;
pub mod histogram;
pub mod index_scan;
pub mod index_spec;
pub mod memcomparable;
mod options_macro;
pub mod plant;
pub mod prefetch;
pub mod prefix_extractor;
pub mod rate_limiter;
pub mod ribbon;
pub mod row_locks;
#[cfg(any(test, feature = "testing"))]
pub mod script;
pub mod sync;
pub mod text_table;

pub use error::{Error, ErrorKind, Result};
