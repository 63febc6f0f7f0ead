//! On which machine and of which build a result is.

use crate::machine;
use serde::{Deserialize, Serialize};
use siltstone_base::env::{FileKind, PosixEnv, read_file};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::OnceLock;

#[cfg(test)]
mod tests;

/// Longest program in which the compiler's name is looked for, in bytes.
const MOST_BYTES: u64 = 1 << 30;

/// What compilers of Rust leave in programs, before their version.
const COMPILER: &[u8] = b"rustc version ";

/// Longest version of a compiler, in bytes.
const LONGEST_VERSION: usize = 64;

/// The machine and the build of a result. What is not known is `None`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Provenance {
    /// The model of the processor.
    pub cpu: Option<String>,
    /// Cores that the process could use.
    pub cores: Option<u32>,
    /// Bytes of memory of the machine.
    pub memory_bytes: Option<u64>,
    /// The operating system's kernel.
    pub kernel: Option<String>,
    /// The file system that the databases were on, and its device.
    pub file_system: Option<String>,
    /// The version of the laboratory.
    pub version: Option<String>,
    /// The commit that it was built from, where the build was told: by `SILTSTONE_COMMIT`.
    pub commit: Option<String>,
    /// The version of the compiler.
    pub compiler: Option<String>,
    /// `release`, or `debug` where the compiler's assertions are on.
    pub profile: Option<String>,
    /// The versions of the foreign engines of the build, by their names.
    pub peers: BTreeMap<String, String>,
}

impl Provenance {
    /// That of this process, for databases in `dir`, which need not be there yet.
    pub(crate) fn of(dir: &Path) -> Self {
        static PROCESS: OnceLock<Provenance> = OnceLock::new();
        Self { file_system: machine::file_system(dir), ..PROCESS.get_or_init(Self::of_process).clone() }
    }

    fn of_process() -> Self {
        let program = read_file(&PosixEnv::new(), Path::new("/proc/self/exe"), FileKind::Other, MOST_BYTES);
        Self {
            cpu: machine::cpu_model(),
            cores: machine::cores(),
            memory_bytes: machine::total_memory(),
            kernel: machine::kernel(),
            file_system: None,
            version: Some(env!("CARGO_PKG_VERSION").to_owned()),
            commit: option_env!("SILTSTONE_COMMIT").filter(|commit| !commit.is_empty()).map(str::to_owned),
            compiler: program.ok().and_then(|program| compiler_of(&program)),
            profile: Some(if cfg!(debug_assertions) { "debug" } else { "release" }.to_owned()),
            peers: peers(),
        }
    }
}

#[cfg(feature = "peers")]
fn peers() -> BTreeMap<String, String> {
    siltstone_compare::versions().into_iter().map(|(name, version)| (name.to_owned(), version)).collect()
}

#[cfg(not(feature = "peers"))]
fn peers() -> BTreeMap<String, String> {
    BTreeMap::new()
}

/// The version of the compiler that made a program: `1.95.0 (59807616e 2026-04-14)` for one.
fn compiler_of(program: &[u8]) -> Option<String> {
    let mut rest = program;
    loop {
        let at = rest.windows(COMPILER.len()).position(|part| part == COMPILER)?;
        rest = rest.get(at + COMPILER.len()..)?;
        let version = rest.get(..rest.len().min(LONGEST_VERSION)).unwrap_or_default();
        let end = version.iter().position(|byte| !matches!(byte, b' '..=b'~')).unwrap_or(version.len());
        let version = String::from_utf8_lossy(version.get(..end).unwrap_or_default()).into_owned();
        // A version ends with the parenthesis around its commit, where it has one; other text with the same beginning is none.
        let version = version.split_inclusive(')').next().unwrap_or_default();
        let number = version.split(' ').next().unwrap_or_default();
        let mut parts = number.splitn(3, '.');
        let mut is_number = || parts.next().is_some_and(|part| part.starts_with(|first: char| first.is_ascii_digit()));
        if is_number() && is_number() && is_number() {
            return Some(version.to_owned());
        }
    }
}
