//! Names, directories and locks.

use std::io;
use std::path::Path;

use super::{CONTEXT, pattern};
use crate::env::{DirEntry, Env, FileKind, FileOptions, read_file, write_file_atomically};

fn create(env: &dyn Env, path: &Path, data: &[u8]) {
    let mut file = env.create_append(path, &FileOptions::new(FileKind::Other)).unwrap();
    file.append(data, CONTEXT).unwrap();
    file.sync_data(CONTEXT).unwrap();
    file.finish().unwrap();
}

fn contents(env: &dyn Env, path: &Path) -> Vec<u8> {
    read_file(env, path, FileKind::Other, 1 << 20).unwrap()
}

/// Entries come sorted and say which are directories.
pub(super) fn list(env: &dyn Env, directory: &Path) {
    assert_eq!(env.list_dir(directory).unwrap(), []);
    env.create_dir_all(&directory.join("sub/b/c")).unwrap();
    env.create_dir_all(&directory.join("sub/b")).unwrap();
    let sub = directory.join("sub");
    for name in ["z", "a", "000010.sst", "000009.sst"] {
        create(env, &sub.join(name), b"x");
    }
    let names: Vec<(String, bool)> =
        env.list_dir(&sub).unwrap().into_iter().map(|DirEntry { name, is_dir }| (name, is_dir)).collect();
    let expected = [("000009.sst", false), ("000010.sst", false), ("a", false), ("b", true), ("z", false)];
    assert_eq!(names, expected.map(|(name, is_dir)| (name.to_owned(), is_dir)));
    env.sync_dir(&sub).unwrap();
    assert!(env.exists(&sub.join("b")).unwrap() && env.exists(&sub.join("a")).unwrap());
    assert!(env.remove_dir(&sub).is_err(), "only an empty directory is removed");
    for name in ["z", "a", "000010.sst", "000009.sst"] {
        env.remove_file(&sub.join(name)).unwrap();
    }
    for name in ["sub/b/c", "sub/b", "sub"] {
        env.remove_dir(&directory.join(name)).unwrap();
    }
    assert!(!env.exists(&sub).unwrap());
}

/// A rename replaces; a link is a second name of the same bytes, and takes no name that exists.
pub(super) fn rename_and_link(env: &dyn Env, directory: &Path) {
    let [one, two, three] = ["one", "two", "three"].map(|name| directory.join(name));
    create(env, &one, b"first");
    create(env, &two, b"second");
    env.rename(&one, &two).unwrap();
    assert_eq!(contents(env, &two), b"first");
    assert!(!env.exists(&one).unwrap());
    env.hard_link(&two, &three).unwrap();
    assert_eq!(env.resolve(&directory.join(".").join("two")).unwrap(), env.resolve(&two).unwrap());
    assert_eq!(env.resolve(&two).unwrap().parent(), Some(&*env.resolve(directory).unwrap()));
    assert_eq!(env.resolve(&one).unwrap_err().kind(), io::ErrorKind::NotFound);
    assert_eq!(env.hard_link(&two, &three).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    let mut file = env.open_append(&two, &FileOptions::new(FileKind::Other)).unwrap();
    file.append(b" and more", CONTEXT).unwrap();
    file.finish().unwrap();
    env.remove_file(&two).unwrap();
    assert_eq!(contents(env, &three), b"first and more");
    env.remove_file(&three).unwrap();
}

/// An open file lives on without a name, and under another one.
pub(super) fn open_files_outlive_names(env: &dyn Env, directory: &Path) {
    let [old, new] = ["old", "new"].map(|name| directory.join(name));
    let data = pattern(5_000, 2);
    create(env, &old, &data);
    let reader = env.open_random(&old, &FileOptions::new(FileKind::Other)).unwrap();
    let mut writer = env.open_append(&old, &FileOptions::new(FileKind::Other)).unwrap();
    env.rename(&old, &new).unwrap();
    writer.append(b"!", CONTEXT).unwrap();
    writer.finish().unwrap();
    assert_eq!(env.file_len(&new).unwrap(), 5_001);
    env.remove_file(&new).unwrap();
    let mut read = vec![0; 6_000];
    assert_eq!(reader.read_at(0, &mut read, CONTEXT).unwrap(), 5_001);
    assert!(read[..5_000] == data);
}

/// The functions beside the trait.
pub(super) fn helpers(env: &dyn Env, directory: &Path) {
    let [path, temporary] = ["CURRENT", "CURRENT.tmp"].map(|name| directory.join(name));
    for data in ["first", "second"] {
        write_file_atomically(env, &path, &temporary, data.as_bytes(), FileKind::Manifest).unwrap();
        assert_eq!(contents(env, &path), data.as_bytes());
        assert!(!env.exists(&temporary).unwrap());
    }
    let refused = read_file(env, &path, FileKind::Manifest, 5).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::FileTooLarge);
    env.remove_file(&path).unwrap();
}

/// A lock is held once, whatever name it is asked by, and can be taken again after it was given back.
pub(super) fn lock(env: &dyn Env, directory: &Path) {
    let path = directory.join("LOCK");
    for _ in 0..2 {
        let held = env.lock_file(&path).unwrap();
        assert!(env.exists(&path).unwrap());
        assert_eq!(env.lock_file(&path).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        assert_eq!(env.lock_file(&path).unwrap_err().kind(), io::ErrorKind::WouldBlock, "asking gives nothing away");
        let other = env.lock_file(&directory.join("OTHER")).unwrap();
        drop(held);
        drop(other);
    }
    env.remove_file(&path).unwrap();
    env.remove_file(&directory.join("OTHER")).unwrap();
}
