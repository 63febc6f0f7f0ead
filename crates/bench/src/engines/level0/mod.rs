//! The numbers of files in level 0 at which something happens.

use serde::Serialize;
use siltstone_base::{Error, Result};
use siltstone_lsm::{ColumnFamilyOptions, CompactionStyle};
use std::fmt;

#[cfg(test)]
mod tests;

/// What RocksDB and our LSM engine do by themselves: compaction, slowdown, stop.
const BY_THEMSELVES: [usize; 3] = [4, 20, 36];

/// Most levels that the LSM engine has.
const MOST_LEVELS: usize = 64;

/// Files in level 0 of an LSM tree at which it is compacted, writers are slowed down, and writers stop; with the universal style sorted runs. `None`: what the engine does by itself. Engines without
/// such a level have no use for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Level0 {
    /// Files at which it is compacted.
    pub compaction: Option<usize>,
    /// Files at which writers are slowed down.
    pub slowdown: Option<usize>,
    /// Files at which writers stop.
    pub stop: Option<usize>,
}

impl Level0 {
    /// All three.
    pub const fn of(compaction: usize, slowdown: usize, stop: usize) -> Self {
        Self { compaction: Some(compaction), slowdown: Some(slowdown), stop: Some(stop) }
    }

    fn all(self) -> [Option<usize>; 3] {
        [self.compaction, self.slowdown, self.stop]
    }

    /// Whether every engine does what it does by itself.
    pub fn is_default(self) -> bool {
        self == Self::default()
    }

    /// Refuses numbers that fall, those that are not given being what engines do by themselves: RocksDB would correct them in silence.
    pub fn check(self) -> Result<()> {
        let mut numbers = [0; 3];
        for ((number, given), by_itself) in numbers.iter_mut().zip(self.all()).zip(BY_THEMSELVES) {
            *number = given.unwrap_or(by_itself);
        }
        let [compaction, slowdown, stop] = numbers;
        let rises = [
            ("level0-trigger is less than 1", compaction >= 1),
            ("level0-slowdown is less than the number of files at which level 0 is compacted", slowdown >= compaction),
            ("level0-stop is less than the number of files at which writers are slowed down", stop >= slowdown),
        ];
        match rises.iter().find(|(_, is_right)| !is_right) {
            Some((what, _)) => Err(Error::invalid_argument(format!("--{what}: {self}"))),
            None => Ok(()),
        }
    }

    /// The family with these numbers, and a level for each run that waits.
    pub(super) fn apply(self, family: ColumnFamilyOptions, style: CompactionStyle) -> ColumnFamilyOptions {
        let mut family = family;
        if let Some(files) = self.compaction {
            let levels = match style {
                CompactionStyle::Universal => files.saturating_add(1),
                CompactionStyle::Lazy => files.saturating_mul(2).saturating_add(1),
                _ => 0,
            };
            let levels = family.num_levels.max(levels.min(MOST_LEVELS));
            family = family.level0_file_num_compaction_trigger(files).num_levels(levels);
        }
        if let Some(files) = self.slowdown {
            family = family.level0_slowdown_writes_trigger(files);
        }
        if let Some(files) = self.stop {
            family = family.level0_stop_writes_trigger(files);
        }
        family
    }
}

/// The three numbers, `-` for what the engine does by itself.
impl fmt::Display for Level0 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |files: Option<usize>| files.map_or_else(|| "-".to_owned(), |files| files.to_string());
        f.write_str(&self.all().map(name).join("/"))
    }
}
