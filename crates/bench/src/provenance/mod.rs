//! On which machine and of which build a result is.

use crate::machine;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::OnceLock;

#[cfg(test)]
mod tests;

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
        Self {
            cpu: machine::cpu_model(),
            cores: machine::cores(),
            memory_bytes: machine::total_memory(),
            kernel: machine::kernel(),
            file_system: None,
            version: Some(env!("CARGO_PKG_VERSION").to_owned()),
            commit: option_env!("SILTSTONE_COMMIT").filter(|commit| !commit.is_empty()).map(str::to_owned),
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
