//! Versions of engines.

use super::*;

#[test]
fn every_engine_has_a_version() {
    let versions = versions();
    for name in ["fjall", "redb", "lmdb", "sqlite"] {
        let version = versions.iter().find(|(engine, _)| *engine == name).map(|(_, version)| version.as_str());
        let is_one =
            |version: &str| version.split('.').count() == 3 && version.starts_with(|c: char| c.is_ascii_digit());
        assert!(version.is_some_and(is_one), "{name}: {version:?}");
    }
}

#[test]
fn a_package_is_found_by_its_whole_name() {
    let lock_file =
        "[[package]]\nname = \"redb-more\"\nversion = \"1.0.0\"\n\n[[package]]\nname = \"redb\"\nversion = \"4.4.0\"\n";
    assert_eq!(locked(lock_file, "redb"), Some("4.4.0"));
    assert_eq!(locked(lock_file, "more"), None);
}
