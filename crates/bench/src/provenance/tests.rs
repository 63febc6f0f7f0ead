//! What is known of a build and a machine, and what older results lack.

use super::*;
use crate::ResultLine;

#[test]
fn a_process_knows_its_machine_and_its_build() {
    let dir = tempfile::tempdir().unwrap();
    let here = Provenance::of(dir.path());
    assert_eq!(here.version.as_deref(), Some(env!("CARGO_PKG_VERSION")));
    assert_eq!(here.profile.as_deref(), Some(if cfg!(debug_assertions) { "debug" } else { "release" }));
    assert!(here.cores >= Some(1) && here.memory_bytes > Some(1 << 20), "{here:?}");
    assert!(here.kernel.as_deref().is_some_and(|kernel| kernel.starts_with("Linux ")), "{here:?}");
    assert_eq!(here.peers.is_empty(), !cfg!(feature = "peers"));
    // A directory that is not there yet is where its parent is.
    assert_eq!(Provenance::of(&dir.path().join("not/there/yet")), here);
}

#[test]
fn the_file_system_is_found_by_its_device() {
    let mounts = "22 27 0:21 / /proc rw,relatime - proc proc rw\n\
                  27 1 254:0 / / rw,relatime shared:1 master:2 - ext4 /dev/vda rw,discard\n\
                  28 27 254:01 / /odd rw - xfs /dev/vdb rw\n\
                  29 27 9:9 torn";
    let of = |device| machine::file_system_in(mounts, device);
    assert_eq!(of("254:0").as_deref(), Some("ext4 on /dev/vda"));
    assert_eq!(of("0:21").as_deref(), Some("proc on proc"));
    assert_eq!(of("9:9"), None);
    assert_eq!(of("1:1"), None);
}

#[test]
fn results_without_a_provenance_are_read() {
    let line: ResultLine = serde_json::from_str(r#"{"experiment":"kv","ops":3}"#).unwrap();
    assert_eq!((line.ops, line.provenance, line.level0, line.config), (3, None, None, None));
    // One that knows less, or more.
    let line: ResultLine = serde_json::from_str(r#"{"provenance":{"cores":2,"moon":"full"}}"#).unwrap();
    assert_eq!(line.provenance, Some(Provenance { cores: Some(2), ..Provenance::default() }));
    let here = Provenance::of(Path::new("."));
    let line = ResultLine { provenance: Some(here), ..ResultLine::default() };
    let text = serde_json::to_string(&line).unwrap();
    assert_eq!(serde_json::from_str::<ResultLine>(&text).unwrap(), line);
}
