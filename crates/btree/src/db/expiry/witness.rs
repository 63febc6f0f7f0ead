//! When something of a database was written last, as the file system says: by this its clock is judged where no file EXPIRY tells of time.

use crate::redo::is_redo_file;
use crate::space::space_of;
use siltstone_base::env::Env;
use siltstone_base::expiry::{ExpiryHome, ExpiryPolicy, ExpiryRoom, Stamp};
use siltstone_base::sync::Weak;
use siltstone_base::{Error, Result};
use std::path::Path;

/// The latest second in which a tablespace or a file of the redo log changed; `None` where the file system does not keep that. Before this opening changes any of them.
pub(super) fn last_change(env: &dyn Env, dir: &Path) -> Result<Option<u64>> {
    let entries = env.list_dir(dir).map_err(|error| Error::io("list", dir, error))?;
    let mut last = None;
    for entry in entries.iter().filter(|entry| space_of(&entry.name).is_some() || is_redo_file(&entry.name)) {
        let path = dir.join(&entry.name);
        let changed = env.modified_unix_seconds(&path);
        last = last.max(changed.map_err(|error| Error::io("look at", &path, error))?);
    }
    Ok(last)
}

/// Stands for a policy until the database is open. Where the clock is not trusted it lets the time be written down that was known before, unless that was done by an earlier opening.
#[derive(Debug)]
pub(super) struct Recorder<'a> {
    pub(super) policy: &'a dyn ExpiryPolicy,
    pub(super) room: &'a ExpiryRoom,
}

impl ExpiryPolicy for Recorder<'_> {
    fn name(&self) -> &str {
        self.policy.name()
    }

    fn stamp(&self, key: &[u8], value: &[u8]) -> Option<Stamp> {
        self.policy.stamp(key, value)
    }

    fn bound(&self, group: u32, now: u64) -> Option<u64> {
        self.policy.bound(group, now)
    }

    fn expires_at(&self, stamp: Stamp) -> Option<u64> {
        self.policy.expires_at(stamp)
    }

    fn attach(&self, home: Weak<dyn ExpiryHome>, saved: &[u8]) -> Result<()> {
        match home.upgrade() {
            // A state that was saved has the time beside it.
            Some(home) if saved.is_empty() && self.room.distrusted().is_some() => home.save(saved),
            _ => Ok(()),
        }
    }
}
