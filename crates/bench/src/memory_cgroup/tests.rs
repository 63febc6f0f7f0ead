//! The controller in the texts of the kernel, and limits in directories that look like cgroups.

use super::files::make_directory;
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

#[test]
fn a_cgroup_is_made_in_the_nearest_one_that_may_be_divided() {
    let dir = tempfile::tempdir().unwrap();
    let (mount, one) = (dir.path().to_path_buf(), dir.path().join("one"));
    let controller = Controller { version: Version::V2, mount: mount.clone(), current: one.join("two") };
    // What cannot be written stands for what the kernel refuses.
    for refused in [&one, &one.join("two")] {
        make_directory(refused).unwrap();
        make_directory(&refused.join("cgroup.subtree_control")).unwrap();
    }
    make_directory(&mount.join("cgroup.subtree_control")).unwrap();
    assert!(controller.divide("limited").unwrap_err().to_string().contains("no cgroup above"));
    remove_directory(&mount.join("cgroup.subtree_control"));
    write(&mount.join("cgroup.subtree_control"), "cpu memory\n").unwrap();
    assert_eq!(controller.divide("limited").unwrap(), mount.join("limited"));
    remove_directory(&one.join("cgroup.subtree_control"));
    assert_eq!(controller.divide("limited").unwrap(), one.join("limited"), "which got the controller");
    assert_eq!(read(&one.join("cgroup.subtree_control")).unwrap(), "+memory");
}
