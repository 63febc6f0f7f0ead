//! What the machine and the process do while an engine is measured.

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::path::Path;

mod pauses;
#[cfg(test)]
mod tests;
mod usage;

pub use pauses::PauseMeter;
pub use usage::ProcessUsage;

/// A file of `/proc`.
#[expect(clippy::disallowed_methods, reason = "files of /proc have no length")]
fn proc_text(name: &str) -> Option<String> {
    std::fs::read_to_string(format!("/proc/{name}")).ok()
}

/// A file of `/proc` about the process.
fn proc_file(name: &str) -> Option<String> {
    proc_text(&format!("self/{name}"))
}

/// The number behind a field at the beginning of a line.
fn proc_number(text: &str, field: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(field))?.split_whitespace().next()?.parse().ok()
}

fn memory(field: &str) -> Option<u64> {
    proc_number(&proc_text("meminfo")?, field).map(|kb| kb.saturating_mul(1024))
}

/// Bytes of memory that are to be had. `None` where the system does not tell.
pub(crate) fn available_memory() -> Option<u64> {
    memory("MemAvailable:")
}

/// Bytes of memory that the machine has.
pub(crate) fn total_memory() -> Option<u64> {
    memory("MemTotal:")
}

/// Cores that the process may use.
pub(crate) fn cores() -> Option<u32> {
    std::thread::available_parallelism().ok().and_then(|cores| u32::try_from(cores.get()).ok())
}

/// The model of the processor. `None` where the system does not tell.
pub(crate) fn cpu_model() -> Option<String> {
    let text = proc_text("cpuinfo")?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    line.split_once(':').map(|(_, model)| model.trim().to_owned())
}

/// The operating system's kernel with its version.
pub(crate) fn kernel() -> Option<String> {
    let (name, version) = (proc_text("sys/kernel/ostype")?, proc_text("sys/kernel/osrelease")?);
    Some(format!("{} {}", name.trim(), version.trim()))
}

/// The file system on which `dir` is, with its device: `ext4 on /dev/vda`. What is not there yet is where its parent is.
pub(crate) fn file_system(dir: &Path) -> Option<String> {
    let place = |dir: &Path| if dir.as_os_str().is_empty() { rustix::fs::stat(".") } else { rustix::fs::stat(dir) };
    let (dir, device) = dir.ancestors().find_map(|dir| Some((dir, place(dir).ok()?.st_dev)))?;
    let device = format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
    let found = file_system_in(&proc_file("mountinfo")?, &device)?;
    Some(if refuses_direct_io(dir) { found + ", which refuses direct I/O" } else { found })
}

/// Whether files in `dir` cannot be opened past the page cache, so that engines that ask for it go through it.
fn refuses_direct_io(dir: &Path) -> bool {
    let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
    // A file without a name, which goes when it is closed. Where there are none the error is another.
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::DIRECT | OFlags::CLOEXEC;
    rustix::fs::open(dir, flags, Mode::RUSR | Mode::WUSR).err() == Some(Errno::INVAL)
}

/// The file system with a device's numbers among those that are mounted.
pub(crate) fn file_system_in(mounts: &str, device: &str) -> Option<String> {
    mounts.lines().find_map(|line| {
        // Fields without a fixed number stand before the dash; the device's numbers are the third.
        let (mount, about) = line.split_once(" - ")?;
        let mut about = about.split_whitespace();
        let is_meant = mount.split_whitespace().nth(2) == Some(device);
        if is_meant { Some(format!("{} on {}", about.next()?, about.next()?)) } else { None }
    })
}
