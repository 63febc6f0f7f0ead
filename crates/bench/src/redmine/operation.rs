//! The operations.

use super::client::PROCESSED;
use super::data::COMMENTS;
use std::fmt;
use std::str::FromStr;

/// An operation of the application.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    /// A task with ten comments.
    CreateTask,
    /// Ten tasks of a user.
    Process10Tasks,
    /// The tasks under a given one.
    Search,
}

impl Operation {
    /// All of them.
    pub const ALL: &'static [Self] = &[Self::CreateTask, Self::Process10Tasks, Self::Search];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::CreateTask => "create_task",
            Self::Process10Tasks => "process_10_tasks",
            Self::Search => "search",
        }
    }

    /// Requests that the application serves for it: one for the task and one for each of its comments, and one for each task that is processed.
    pub fn requests(self) -> u32 {
        match self {
            Self::CreateTask => 1 + COMMENTS,
            Self::Process10Tasks => PROCESSED as u32,
            Self::Search => 1,
        }
    }

    /// Requests whose time a published mean is. Of `create_task` it is taken for that of one of its 11, which the publication leaves open: the 18 ms of an idle machine are not enough for eleven
    /// requests of such an application, and InnoDB takes 4 to 6 ms longer there, less than a hard disk needs for the syncs of 11 commits.
    pub fn requests_of_published_mean(self) -> u32 {
        match self {
            Self::CreateTask | Self::Search => 1,
            Self::Process10Tasks => PROCESSED as u32,
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Operation {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.iter().copied().find(|operation| operation.name() == text);
        found.ok_or("expected create_task, process_10_tasks or search")
    }
}
