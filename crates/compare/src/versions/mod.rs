//! The versions of the foreign engines of this build.

#[cfg(test)]
mod tests;

/// What cargo builds is what its lock file says.
const LOCK_FILE: &str = include_str!("../../../../Cargo.lock");

/// Every engine of this build by its name, with its version.
pub fn versions() -> Vec<(&'static str, String)> {
    let lmdb = heed::lmdb_version();
    let mut versions = vec![
        ("lmdb", format!("{}.{}.{}", lmdb.major, lmdb.minor, lmdb.patch)),
        ("sqlite", rusqlite::version().to_owned()),
    ];
    for name in ["fjall", "redb"] {
        versions.extend(locked(LOCK_FILE, name).map(|version| (name, version.to_owned())));
    }
    #[cfg(feature = "rocksdb")]
    versions.push(("rocksdb", crate::rocksdb::VERSION.to_owned()));
    versions
}

/// The version of a package in a lock file.
fn locked<'a>(lock_file: &'a str, package: &str) -> Option<&'a str> {
    let (_, rest) = lock_file.split_once(&format!("\nname = \"{package}\"\nversion = \""))?;
    rest.split_once('"').map(|(version, _)| version)
}
