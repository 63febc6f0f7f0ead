//! The cases, by kind of trouble.

mod failed_syncs;
mod full_device;
mod locking;
mod panics;
mod support;
