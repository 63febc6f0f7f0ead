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

/// Where the memory controller is mounted, and where this process is in it: that directory is not there in a container that does not see it.
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

/// Bytes that the cgroups of this process leave it, beside what its own memory takes already. `None` where they tell of no limit.
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

impl Drop for MemoryCgroup {
    fn drop(&mut self) {
        // Where either fails the cgroup stays: it is empty, or the process ends in it.
        let _ = write(&self.back, "0");
        remove_directory(&self.dir);
    }
}

impl Controller {
    fn of_process() -> Result<Self> {
        let mounts = read(Path::new("/proc/self/mountinfo"))?;
        Self::find(&mounts, &read(Path::new("/proc/self/cgroup"))?)
            .ok_or_else(|| Error::not_supported("the kernel has no controller for the memory of cgroups"))
    }

    /// The cgroup of the process and those above it, as far as they are mounted.
    fn upwards(&self) -> impl Iterator<Item = &Path> {
        self.current.ancestors().take_while(|dir| dir.starts_with(&self.mount))
    }

    /// Makes a cgroup that can be limited: in version 2 in the nearest one above that has the controller for those in it, or gets it.
    fn divide(&self, name: &str) -> Result<PathBuf> {
        if self.version == Version::V1 {
            let dir = self.mount.join(name);
            return make_directory(&dir).map(|()| dir);
        }
        let mut refused = Error::not_supported("no cgroup above this process may be divided");
        for above in self.upwards() {
            let control = above.join("cgroup.subtree_control");
            let has_memory = |text: String| text.split_whitespace().any(|one| one == "memory");
            if read(&control).is_ok_and(has_memory) || write(&control, "+memory").is_ok() {
                let dir = above.join(name);
                match make_directory(&dir) {
                    Ok(()) => return Ok(dir),
                    Err(error) => refused = error,
                }
            }
        }
        Err(refused)
    }

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
        // In a container a part of the hierarchy may be mounted, and the path be that in the whole.
        let below = Path::new(path).strip_prefix(mount.root).unwrap_or(Path::new(path));
        let current = mount_point.join(below.strip_prefix("/").unwrap_or(below));
        Some(Self { version, mount: mount_point, current })
    }
}

/// A line of `/proc/self/mountinfo`.
#[derive(Clone, Copy)]
struct Mount<'a> {
    /// What of the hierarchy is mounted.
    root: &'a str,
    point: &'a str,
    kind: &'a str,
    options: &'a str,
}

impl<'a> Mount<'a> {
    /// `id parent major:minor root mount-point options... - kind source super-options`.
    fn parse(line: &'a str) -> Option<Self> {
        let (before, after) = line.split_once(" - ")?;
        let mut before = before.split(' ').skip(3);
        let (root, point) = (before.next()?, before.next()?);
        let mut after = after.split(' ');
        let (kind, _, options) = (after.next()?, after.next()?, after.next()?);
        Some(Self { root, point, kind, options })
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
    fn what_a_cgroup_leaves_is_what_is_beyond_memory_that_nobody_can_take_back() {
        let dir = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| write(&dir.path().join(name), text).unwrap();
        put("memory.stat", "anon 300\nanon_thp 7\nfile 5000\n");
        assert_eq!(left_in(Version::V2, dir.path()), None, "no limit is told");
        put("memory.max", "max\n");
        assert_eq!(left_in(Version::V2, dir.path()), None);
        put("memory.max", "1000\n");
        assert_eq!(left_in(Version::V2, dir.path()), Some(700));
        put("memory.limit_in_bytes", "2000\n");
        put("memory.stat", "rss 1\ntotal_rss 2500\n");
        assert_eq!(left_in(Version::V1, dir.path()), Some(0));
    }

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
        let mounts = "33 30 0:29 /docker/one /sys/fs/cgroup/memory rw shared:11 - cgroup cgroup rw,memory\n";
        let found = Controller::find(mounts, "4:memory:/docker/one/two\n").unwrap();
        assert_eq!(found.current, Path::new("/sys/fs/cgroup/memory/two"), "of what is mounted");
        let found = Controller::find(mounts, "4:memory:/docker/one\n").unwrap();
        let upwards: Vec<_> = found.upwards().collect();
        assert_eq!(upwards, [Path::new("/sys/fs/cgroup/memory")]);
        assert_eq!(Controller::find("22 1 8:1 / / rw - ext4 /dev/sda1 rw\n", "0::/\n"), None);
    }
}
