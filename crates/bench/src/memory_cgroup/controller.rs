//! The memory controller: where it is mounted, and where a cgroup can be made.

use super::files::{make_directory, read, write};
use siltstone_base::{Error, Result};
use std::path::{Path, PathBuf};

/// The interface of the kernel's memory controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    V1,
    V2,
}

/// Where the memory controller is mounted, and where this process is in it: that directory is not there in a container that does not see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Controller {
    pub(super) version: Version,
    pub(super) mount: PathBuf,
    pub(super) current: PathBuf,
}

impl Controller {
    pub(super) fn of_process() -> Result<Self> {
        let mounts = read(Path::new("/proc/self/mountinfo"))?;
        Self::find(&mounts, &read(Path::new("/proc/self/cgroup"))?)
            .ok_or_else(|| Error::not_supported("the kernel has no controller for the memory of cgroups"))
    }

    /// The cgroup of the process and those above it, as far as they are mounted.
    pub(super) fn upwards(&self) -> impl Iterator<Item = &Path> {
        self.current.ancestors().take_while(|dir| dir.starts_with(&self.mount))
    }

    /// Makes a cgroup that can be limited: in version 2 in the nearest one above that has the controller for those in it, or gets it.
    pub(super) fn divide(&self, name: &str) -> Result<PathBuf> {
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
    pub(super) fn find(mountinfo: &str, cgroup: &str) -> Option<Self> {
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
