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
    assert!(here.compiler.as_deref().is_some_and(|compiler| compiler.starts_with("1.")), "{here:?}");
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
fn the_compiler_is_named_by_its_program() {
    let of = |text: &[u8]| compiler_of(text);
    let version = "1.95.0 (59807616e 2026-04-14)";
    let section = format!("\u{7f}ELF\0rustc version {version}\0Linker: LLD");
    assert_eq!(of(section.as_bytes()).as_deref(), Some(version));
    // As debuggers are told, and with the text that is looked for before it.
    let producer = format!("rustc version rustc version x.y\0clang LLVM (rustc version {version})\0");
    assert_eq!(of(producer.as_bytes()).as_deref(), Some(version));
    assert_eq!(of(b"rustc version 1.95.0\0").as_deref(), Some("1.95.0"));
    for nothing in [&b""[..], b"rustc version ", b"rustc version 1.9", b"rustc version 1..0", b"GCC: (Debian) 12.2.0"] {
        assert_eq!(of(nothing), None);
    }
}

#[test]
fn results_without_a_provenance_are_read() {
    let line: ResultLine = serde_json::from_str(r#"{"experiment":"kv","ops":3}"#).unwrap();
    assert_eq!((line.ops, line.provenance, line.level0), (3, None, None));
    // One that knows less, or more.
    let line: ResultLine = serde_json::from_str(r#"{"provenance":{"cores":2,"moon":"full"}}"#).unwrap();
    assert_eq!(line.provenance, Some(Provenance { cores: Some(2), ..Provenance::default() }));
    let here = Provenance::of(Path::new("."));
    let line = ResultLine { provenance: Some(here), ..ResultLine::default() };
    let text = serde_json::to_string(&line).unwrap();
    assert_eq!(serde_json::from_str::<ResultLine>(&text).unwrap(), line);
}
