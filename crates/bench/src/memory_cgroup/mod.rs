//! A limit on all memory of this process, the operating system's page cache included: a machine with less memory than this one has.

use siltstone_base::sync::atomic::{AtomicU32, Ordering};
use siltstone_base::{Error, Result};
use std::path::{Path, PathBuf};

mod controller;
mod files;
#[cfg(test)]
mod tests;

use controller::{Controller, Version};
use files::{read, remove_directory, write};

/// Names of cgroups of one process differ by this.
static NUMBER: AtomicU32 = AtomicU32::new(0);

/// The process in a cgroup of its own, until this is dropped. Needs the right to make one, which is root's.
#[derive(Debug)]
pub(crate) struct MemoryCgroup {
    dir: PathBuf,
    back: PathBuf,
}

impl MemoryCgroup {
    /// Puts the process, all its threads included, where it and the page cache of the files that it reads and writes have `bytes` together.
    ///
    /// # Errors
    ///
    /// `NotSupported` where there is no memory controller, or no way back; `Io` where no cgroup may be made.
    pub(crate) fn enter(bytes: u64) -> Result<Self> {
        let controller = Controller::of_process()?;
        let back = controller.current.join("cgroup.procs");
        if read(&back).is_err() {
            return Err(Error::not_supported(
                "the cgroup of this process is not to be seen from here, and it could not go back",
            ));
        }
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let dir = controller.divide(&format!("siltstone-{}-{number}", std::process::id()))?;
        let entered = Self { dir, back };
        let bytes = bytes.to_string();
        // Swap would be more memory. Where the kernel keeps no account of it there is no such file.
        match controller.version {
            Version::V1 => {
                write(&entered.dir.join("memory.limit_in_bytes"), &bytes)?;
                let _ = write(&entered.dir.join("memory.memsw.limit_in_bytes"), &bytes);
            }
            Version::V2 => {
                write(&entered.dir.join("memory.max"), &bytes)?;
                let _ = write(&entered.dir.join("memory.swap.max"), "0");
            }
        }
        write(&entered.dir.join("cgroup.procs"), "0")?;
        Ok(entered)
    }

    /// Puts the process back to where it was.
    ///
    /// # Errors
    ///
    /// Where that fails the process has no more memory than before, whatever it does next.
    pub(crate) fn leave(self) -> Result<()> {
        write(&self.back, "0")
    }
}

impl Drop for MemoryCgroup {
    fn drop(&mut self) {
        // Where either fails the cgroup stays: it is empty, or the process ends in it.
        let _ = write(&self.back, "0");
        remove_directory(&self.dir);
    }
}

/// Bytes that the cgroups of this process leave it, beside what its own memory takes already. `None` where they tell of none.
pub(crate) fn left() -> Option<u64> {
    let controller = Controller::of_process().ok()?;
    controller.upwards().filter_map(|dir| left_in(controller.version, dir)).min()
}

/// What one cgroup leaves: memory that nobody can take back counts, and the page cache does not.
fn left_in(version: Version, dir: &Path) -> Option<u64> {
    let (limit, taken) = match version {
        Version::V1 => ("memory.limit_in_bytes", "total_rss"),
        Version::V2 => ("memory.max", "anon"),
    };
    let limit: u64 = read(&dir.join(limit)).ok()?.trim().parse().ok()?;
    Some(limit.saturating_sub(counted(&read(&dir.join("memory.stat")).ok()?, taken)?))
}

/// A count of `memory.stat`.
fn counted(stat: &str, name: &str) -> Option<u64> {
    stat.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
}
