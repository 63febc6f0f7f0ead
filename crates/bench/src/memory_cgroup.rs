//! A limit on all memory of this process, the operating system's page cache included: a machine with less memory than this one has.

use siltstone_base::sync::atomic::{AtomicU32, Ordering};
use siltstone_base::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};

/// Names of cgroups of one process differ by this.
static NUMBER: AtomicU32 = AtomicU32::new(0);

/// The interface of the kernel's memory controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    V1,
    V2,
}

/// Where the memory controller is mounted, and where this process is in it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Controller {
    version: Version,
    mount: PathBuf,
    current: PathBuf,
}

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
    /// `NotSupported` where there is no memory controller; `Io` where no cgroup may be made.
    pub(crate) fn enter(bytes: u64) -> Result<Self> {
        let mounts = read(Path::new("/proc/self/mountinfo"))?;
        let controller = Controller::find(&mounts, &read(Path::new("/proc/self/cgroup"))?)
            .ok_or_else(|| Error::not_supported("the kernel has no controller for the memory of cgroups"))?;
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let dir = controller.mount.join(format!("siltstone-{}-{number}", std::process::id()));
        if controller.version == Version::V2 {
            // Refused where it is on already by another name; the limit tells.
            let _ = write(&controller.mount.join("cgroup.subtree_control"), "+memory");
        }
        make_directory(&dir)?;
        let entered = Self { dir, back: controller.current.join("cgroup.procs") };
        let limit = match controller.version {
            Version::V1 => "memory.limit_in_bytes",
            Version::V2 => "memory.max",
        };
        write(&entered.dir.join(limit), &bytes.to_string())?;
        write(&entered.dir.join("cgroup.procs"), "0")?;
        Ok(entered)
    }
}

impl Drop for MemoryCgroup {
    fn drop(&mut self) {
        // Where either fails the cgroup stays: it is empty, or the process ends in it.
        let _ = write(&self.back, "0");
        remove_directory(&self.dir);
    }
}

impl Controller {
    /// From the texts of `/proc/self/mountinfo` and `/proc/self/cgroup`. The first version where it has the memory controller.
    fn find(mountinfo: &str, cgroup: &str) -> Option<Self> {
        let mounts = mountinfo.lines().filter_map(Mount::parse);
        let v1 =
            mounts.clone().find(|mount| mount.kind == "cgroup" && mount.options.split(',').any(|one| one == "memory"));
        let (version, mount) = match v1 {
            Some(mount) => (Version::V1, mount),
            None => (Version::V2, mounts.clone().find(|mount| mount.kind == "cgroup2")?),
        };
        let path = cgroup.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':').skip(1);
            let (controllers, path) = (parts.next()?, parts.next()?);
            let is_it = match version {
                Version::V1 => controllers.split(',').any(|one| one == "memory"),
                Version::V2 => controllers.is_empty(),
            };
            is_it.then_some(path)
        })?;
        let mount_point = PathBuf::from(mount.point);
        let current = mount_point.join(path.trim_start_matches('/'));
        Some(Self { version, mount: mount_point, current })
    }
}

/// A line of `/proc/self/mountinfo`.
#[derive(Clone, Copy)]
struct Mount<'a> {
    point: &'a str,
    kind: &'a str,
    options: &'a str,
}

impl<'a> Mount<'a> {
    /// `id parent major:minor root mount-point options... - kind source super-options`.
    fn parse(line: &'a str) -> Option<Self> {
        let (before, after) = line.split_once(" - ")?;
        let point = before.split(' ').nth(4)?;
        let mut after = after.split(' ');
        let (kind, _, options) = (after.next()?, after.next()?, after.next()?);
        Some(Self { point, kind, options })
    }
}

fn io(what: &'static str, path: &Path, error: std::io::Error) -> Error {
    Error::new(ErrorKind::Io, format!("{what} of a memory cgroup")).with_file(path).with_source(error)
}

#[expect(clippy::disallowed_methods, reason = "files of /proc and of cgroups are no files of a database")]
fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).map_err(|error| io("read", path, error))
}

#[expect(clippy::disallowed_methods, reason = "files of /proc and of cgroups are no files of a database")]
fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).map_err(|error| io("write", path, error))
}

#[expect(clippy::disallowed_methods, reason = "files of /proc and of cgroups are no files of a database")]
fn make_directory(dir: &Path) -> Result<()> {
    std::fs::create_dir(dir).map_err(|error| io("creation", dir, error))
}

#[expect(clippy::disallowed_methods, reason = "files of /proc and of cgroups are no files of a database")]
fn remove_directory(dir: &Path) {
    let _ = std::fs::remove_dir(dir);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_controller_is_found_in_either_version() {
        let mounts = "\
22 1 8:1 / / rw - ext4 /dev/sda1 rw
30 25 0:26 / /sys/fs/cgroup ro - tmpfs tmpfs ro,mode=755
31 30 0:27 / /sys/fs/cgroup/unified rw,nosuid shared:10 - cgroup2 cgroup2 rw
33 30 0:29 / /sys/fs/cgroup/memory rw,nosuid shared:11 - cgroup cgroup rw,memory
";
        let found = Controller::find(mounts, "4:memory:/service/one\n1:cpu:/\n0::/\n").unwrap();
        assert_eq!(found.version, Version::V1);
        assert_eq!(found.current, Path::new("/sys/fs/cgroup/memory/service/one"));
        let mounts = "31 30 0:27 / /sys/fs/cgroup rw shared:10 - cgroup2 cgroup2 rw,nsdelegate\n";
        let found = Controller::find(mounts, "0::/user.slice\n").unwrap();
        assert_eq!((found.version, found.mount.as_path()), (Version::V2, Path::new("/sys/fs/cgroup")));
        assert_eq!(found.current, Path::new("/sys/fs/cgroup/user.slice"));
        assert_eq!(Controller::find("22 1 8:1 / / rw - ext4 /dev/sda1 rw\n", "0::/\n"), None);
    }
}
