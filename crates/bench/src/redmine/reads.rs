//! What Redmine reads before it writes.

use super::client::PROCESSED;
use super::load::{ISSUE, Ids, PRIORITY, PROJECT};
use super::rows::{Issue, decode_column, encode_columns, encode_id, id_at_end};
use super::schema::{
    ADDRESSES_OF_USER, ENUMERATIONS_BY_TYPE, JOURNALS_OF, MEMBER, MODULES_OF_PROJECT, ROLES_OF_MEMBER, ReadIndex,
    TASKS_BY_ASSIGNEE, TRACKERS_OF_PROJECT, TRANSITIONS, Table, VALUES_OF, WATCHERS_OF,
};
use siltstone_base::engine::Tables;
use siltstone_base::index_scan::IndexScan;
use siltstone_base::{Error, Result};
use std::hint::black_box;

/// Journals of a task that are read: those with which it was loaded, and as many. A task that was processed often has more, and who is quicker would have more to read.
const JOURNALS: usize = 20;

/// Places of columns of other tables.
const TRACKER_OF_PROJECT: usize = 1;
const ROLE_OF_MEMBER: usize = 1;

/// A task that was found.
#[derive(Debug, Clone, Copy)]
pub(super) struct Task {
    pub(super) id: u32,
    pub(super) tracker: u32,
    pub(super) project: u32,
    pub(super) status: u32,
    pub(super) author: u32,
}

/// Reads rows by their keys and by indexes.
pub(super) struct Reader<'a> {
    engine: &'a dyn Tables,
    ids: Ids,
    key: Vec<u8>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(engine: &'a dyn Tables, ids: Ids) -> Self {
        Self { engine, ids, key: Vec::new() }
    }

    /// A project, and the modules that are enabled in it.
    pub(super) fn project(&mut self, project: u32) -> Result<()> {
        self.row(Table::Projects, project)?;
        self.look_at(MODULES_OF_PROJECT, &[project])
    }

    /// What the form of a new task offers: trackers of the project, statuses, priorities, and values of custom fields.
    pub(super) fn form(&mut self, project: u32) -> Result<()> {
        for tracker in self.numbers_by(TRACKERS_OF_PROJECT, &[project], TRACKER_OF_PROJECT)? {
            self.row(Table::Trackers, tracker)?;
        }
        let statuses = self.ids.of(Table::IssueStatuses);
        self.engine.scan_rows(statuses, b"", usize::MAX, &mut |row| _ = black_box(row))?;
        self.look_at(ENUMERATIONS_BY_TYPE, &[PRIORITY])?;
        self.look_at(VALUES_OF, &[PROJECT, project])
    }

    /// A user, where mail reaches it, and its part in a project. Returns its role.
    pub(super) fn member(&mut self, user: u32, project: u32) -> Result<u32> {
        self.row(Table::Users, user)?;
        self.look_at(ADDRESSES_OF_USER, &[user])?;
        let mut member = None;
        self.by(MEMBER, &[user, project], 1, &mut |id, _| {
            member = Some(id);
            Ok(())
        })?;
        let roles = self.numbers_by(ROLES_OF_MEMBER, &[member.ok_or_else(missing)?], ROLE_OF_MEMBER)?;
        for role in &roles {
            self.row(Table::Roles, *role)?;
        }
        roles.first().copied().ok_or_else(missing)
    }

    /// The statuses that a role may give a task.
    pub(super) fn transitions(&mut self, role: u32, tracker: u32, status: u32) -> Result<()> {
        self.look_at(TRANSITIONS, &[role, tracker, status])
    }

    /// Who watches a task.
    pub(super) fn watchers(&mut self, task: u32) -> Result<()> {
        self.look_at(WATCHERS_OF, &[task, ISSUE])
    }

    /// What was written about a task.
    pub(super) fn journals(&mut self, task: u32) -> Result<()> {
        self.by(JOURNALS_OF, &[task, ISSUE], JOURNALS, &mut |_, _| Ok(()))
    }

    /// Whether a user has as many tasks as are processed at once. Only the index is read.
    pub(super) fn has_enough_tasks(&mut self, user: u32) -> Result<bool> {
        let (table, index) = TASKS_BY_ASSIGNEE;
        let scan = self.scan(&[user]).limit(PROCESSED);
        Ok(self.engine.scan_entries(self.ids.of(table), index, &scan, &mut |_| {})? == PROCESSED)
    }

    /// The first tasks of a user, as many as are processed at once, or all if there are fewer.
    pub(super) fn tasks_of(&mut self, user: u32) -> Result<Vec<Task>> {
        let mut found = Vec::with_capacity(PROCESSED);
        self.by(TASKS_BY_ASSIGNEE, &[user], PROCESSED, &mut |id, value| {
            let column = |column: Issue| decode_column(value, column as usize);
            let (tracker, project) = (column(Issue::Tracker)?, column(Issue::Project)?);
            found.push(Task { id, tracker, project, status: column(Issue::Status)?, author: column(Issue::Author)? });
            Ok(())
        })?;
        Ok(found)
    }

    /// A row by its key, which is there.
    fn row(&mut self, table: Table, id: u32) -> Result<()> {
        encode_id(id, &mut self.key);
        let found = self.engine.get_row(self.ids.of(table), &self.key, &mut |value| _ = black_box(value))?;
        if found { Ok(()) } else { Err(missing()) }
    }

    /// All rows whose entries begin with these columns.
    fn look_at(&mut self, index: ReadIndex, columns: &[u32]) -> Result<()> {
        self.by(index, columns, usize::MAX, &mut |_, _| Ok(()))
    }

    /// A column of each of those rows.
    fn numbers_by(&mut self, index: ReadIndex, columns: &[u32], place: usize) -> Result<Vec<u32>> {
        let mut numbers = Vec::new();
        self.by(index, columns, usize::MAX, &mut |_, value| {
            numbers.push(decode_column(value, place)?);
            Ok(())
        })?;
        Ok(numbers)
    }

    /// At most `limit` rows whose entries begin with these columns; `found` gets the number and the value of each.
    fn by(
        &mut self,
        (table, index): ReadIndex,
        columns: &[u32],
        limit: usize,
        found: &mut dyn FnMut(u32, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let scan = self.scan(columns).limit(limit);
        let mut outcome = Ok(());
        self.engine.scan_rows_by(self.ids.of(table), index, &scan, &mut |entry, value| {
            if outcome.is_ok() {
                outcome = id_at_end(entry.primary_key).and_then(|id| found(id, black_box(value)));
            }
        })?;
        outcome
    }

    fn scan(&mut self, columns: &[u32]) -> IndexScan {
        self.key.clear();
        encode_columns(columns, &mut self.key);
        IndexScan::all().prefix(&self.key)
    }
}

#[cold]
pub(super) fn missing() -> Error {
    Error::corrupt("a row that was loaded is missing")
}
