//! A simulated disk: an [`Env`] in memory that knows what a crash would leave of it.
//!
//! The disk holds every file and every name twice: as the operating system shows them, and as they are
//! durable. Only what POSIX promises is durable: a file's bytes and length after a sync of the file, a directory's
//! entries after a sync of the directory; a rename is atomic, not durable. Every change is recorded on request
//! ([`start_recording`](SimDisk::start_recording)), and [`CrashStates`] enumerates what the disk may hold if the machine
//! stops after any of them. [`FaultPlan`] makes operations fail.
//!
//! ```
//! use siltstone_base::env::sim::SimDisk;
//! use siltstone_base::env::{Env, FileKind, FileOptions, IoContext, IoPriority};
//! use std::path::Path;
//!
//! let disk = SimDisk::new();
//! disk.make_durable_dir(Path::new("/db"))?;
//! let context = IoContext::new(FileKind::Wal, IoPriority::User);
//! let mut file = disk.create_append(Path::new("/db/1.log"), &FileOptions::new(FileKind::Wal))?;
//! file.append(b"synced", context)?;
//! file.sync_data(context)?;
//! file.append(b" and not", context)?;
//! assert_eq!(disk.after_process_death().file_len(Path::new("/db/1.log"))?, 14);
//! assert!(!disk.after_power_loss().exists(Path::new("/db/1.log"))?); // the directory was not synced
//! disk.sync_dir(Path::new("/db"))?;
//! assert_eq!(disk.after_power_loss().file_len(Path::new("/db/1.log"))?, 6);
//! # Ok::<(), std::io::Error>(())
//! ```

mod content;
mod crash;
mod disk;
mod fault;
mod files;
mod names;
#[cfg(test)]
mod tests;
mod volume;

pub use crash::{CrashConfig, CrashModel, CrashState, CrashStates};
pub use disk::{Recording, SimDisk};
pub use fault::{FaultKind, FaultPlan, OpClass, OpFilter, OpInfo};

#[expect(unused_imports, reason = "named by the documentation")]
use super::Env;
