//! What every environment must do, as one suite that each of them runs.
//!
//! The checks panic with what was found. They hold under any schedule and never look at time. Sizes on the device are
//! looked at only where the environment says that it keeps them ([`Traits::sparse`]).
#![expect(clippy::unwrap_used, reason = "a suite of tests: a failed operation is a failed test")]

mod directories;
mod files;

use std::path::Path;

use super::{Env, FileKind, IoContext, IoPriority};

const CONTEXT: IoContext = IoContext::new(FileKind::Table, IoPriority::User);

/// What an environment keeps beyond the contract of [`Env`].
#[derive(Debug, Clone, Copy)]
pub struct Traits {
    /// Holes and preallocated space show in [`Env::allocated_bytes`].
    pub sparse: bool,
}

/// Runs every check in an existing, empty directory, which is empty again afterwards.
///
/// # Panics
/// When the environment breaks its contract.
pub fn check(env: &dyn Env, directory: &Path, traits: Traits) {
    for direct in [false, true] {
        files::append_and_read(env, directory, direct);
        files::reopen(env, directory, direct);
        files::replace(env, directory, direct);
        files::sync_handle(env, directory, direct);
        files::read_edges(env, directory, direct);
        files::read_many(env, directory, direct);
        files::write_anywhere(env, directory, direct);
        files::preallocate(env, directory, direct, traits);
        files::punch_hole(env, directory, direct, traits);
    }
    files::mapped(env, directory);
    files::missing(env, directory);
    files::accounting(env, directory);
    directories::list(env, directory);
    directories::rename_and_link(env, directory);
    directories::open_files_outlive_names(env, directory);
    directories::helpers(env, directory);
    directories::lock(env, directory);
    let left = env.list_dir(directory).unwrap();
    assert!(left.is_empty(), "the suite removes what it makes: {left:?}");
}

/// `len` bytes that differ from place to place.
fn pattern(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|index| (index as u8).wrapping_mul(31) ^ (index >> 8) as u8 ^ seed).collect()
}
