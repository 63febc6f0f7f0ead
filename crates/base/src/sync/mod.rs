//! Locks, atomics and signals: the one door to them, so that a model checker can take their place.
//!
//! [`Mutex`] and [`RwLock`] carry a [`Rank`]; in debug builds a thread that takes a lock while it holds one of the same or a
//! higher rank panics. The ranks of all locks are listed in `docs/src/locking.md`.

mod latch;
mod rank;
mod signal;
#[cfg(test)]
mod tests;

pub use arc_swap::{ArcSwap, ArcSwapOption, ArcSwapWeak};
pub use crossbeam::queue::SegQueue;
pub use crossbeam::utils::CachePadded;
pub use latch::{Latch, LatchVersion};
pub use rank::{Mutex, MutexGuard, Rank, RwLock, RwLockReadGuard, RwLockWriteGuard};
pub use signal::Signal;
pub use std::sync::atomic;
pub use std::sync::{Arc, OnceLock, Weak};
pub use std::thread::panicking;
