//! The three data sets. The published databases took 6.7, 61.2 and 596.5 MB in MyRocks, and 30.5, 123.2 and 913.2 MB in InnoDB.

use super::schema::Table;
use std::fmt;
use std::str::FromStr;

/// A data set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DataSet {
    /// 30 users, 13 projects, 1,000 tasks.
    Small,
    /// 1,000 users, 120 projects, 10,000 tasks.
    Large,
    /// 10,000 users, 1,200 projects, 100,000 tasks.
    Giant,
}

/// Comments of a task.
pub(super) const COMMENTS: u32 = 10;

/// Users of a project, where there are as many.
pub(super) const USERS_OF_PROJECT: u32 = 10;

impl DataSet {
    const NAMES: [(Self, &'static str); 3] = [(Self::Small, "small"), (Self::Large, "large"), (Self::Giant, "giant")];

    pub(super) fn users(self) -> u32 {
        self.of(30, 1_000, 10_000)
    }

    pub(super) fn projects(self) -> u32 {
        self.of(13, 120, 1_200)
    }

    pub(super) fn tasks(self) -> u32 {
        self.of(1_000, 10_000, 100_000)
    }

    /// The engine's memory unless another is asked for: an eighth of the machine's in the published runs.
    pub fn memory_bytes(self) -> usize {
        self.of(128, 256, 1_024) << 20
    }

    /// Bytes of the rows of tasks and their comments, without indexes.
    pub fn bytes(self) -> u64 {
        u64::from(self.tasks()) * (Table::Issues.row_bytes() + u64::from(COMMENTS) * Table::Journals.row_bytes())
    }

    fn of<T>(self, small: T, large: T, giant: T) -> T {
        match self {
            Self::Small => small,
            Self::Large => large,
            Self::Giant => giant,
        }
    }
}

impl fmt::Display for DataSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.of("small", "large", "giant"))
    }
}

impl FromStr for DataSet {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::NAMES.iter().find(|(_, name)| *name == text);
        found.map(|(set, _)| *set).ok_or("expected small, large or giant")
    }
}
