//! The data set is put in place.

use super::data::{COMMENT_TEXT, COMMENTS, DataSet, TASK_TEXT, USERS_OF_PROJECT};
use super::schema::{self, ISSUE_COLUMNS, Issue, RowBuffer};
use crate::Rng;
use crate::values::Values;
use siltstone_base::engine::{Row, TableId, TableSpec, Tables};
use siltstone_base::{ErrorKind, Result};

/// Rows of a commit, where the engine takes so many.
const AT_ONCE: usize = 50;

/// Status of a task: new, in progress, resolved.
pub(super) const NEW: u32 = 1;
pub(super) const IN_PROGRESS: u32 = 2;
pub(super) const RESOLVED: u32 = 3;

/// Trackers, priorities, categories and versions there are.
const TRACKERS: u64 = 3;
const PRIORITIES: u64 = 5;
const CATEGORIES: u64 = 5;
const VERSIONS: u64 = 5;

/// One task in so many has a parent.
const WITH_PARENT: u64 = 5;

/// The tables.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ids {
    pub(super) issues: TableId,
    pub(super) journals: TableId,
    pub(super) details: TableId,
    pub(super) users: TableId,
    pub(super) projects: TableId,
    pub(super) members: TableId,
}

impl Ids {
    /// Makes the tables, or finds them again.
    pub(super) fn new(open: impl Fn(&TableSpec) -> Result<TableId>) -> Result<Self> {
        Ok(Self {
            issues: open(&schema::issues())?,
            journals: open(&schema::journals())?,
            details: open(&schema::journal_details())?,
            users: open(&schema::users())?,
            projects: open(&schema::projects())?,
            members: open(&schema::members())?,
        })
    }
}

impl Ids {
    /// Reads every row and every entry.
    pub(super) fn read_all(&self, tables: &dyn Tables) -> Result<()> {
        let all = [
            (self.issues, schema::issues()),
            (self.journals, schema::journals()),
            (self.details, schema::journal_details()),
            (self.users, schema::users()),
            (self.projects, schema::projects()),
            (self.members, schema::members()),
        ];
        for (table, spec) in all {
            tables.scan_rows(table, b"", usize::MAX, &mut |_| {})?;
            for index in 0..spec.indexes.len() {
                tables.scan_index(table, index, b"", usize::MAX, &mut |_| {})?;
            }
        }
        Ok(())
    }
}

/// The columns of a new task.
pub(super) fn new_task(id: u32, data_set: DataSet, tasks: u32, rng: &mut Rng) -> [u32; ISSUE_COLUMNS] {
    let project = below(rng, u64::from(data_set.projects()));
    let member = |rng: &mut Rng| member_of(data_set, project, below(rng, u64::from(USERS_OF_PROJECT)) - 1);
    let mut task = [0; ISSUE_COLUMNS];
    let mut set = |column: Issue, number: u32| task[column as usize] = number;
    set(Issue::Tracker, below(rng, TRACKERS));
    set(Issue::Project, project);
    set(Issue::Category, below(rng, CATEGORIES));
    set(Issue::Status, NEW);
    set(Issue::AssignedTo, member(rng));
    set(Issue::Priority, below(rng, PRIORITIES));
    set(Issue::FixedVersion, below(rng, VERSIONS));
    set(Issue::Author, member(rng));
    if tasks > 0 && rng.below(WITH_PARENT) == 0 {
        set(Issue::Parent, below(rng, u64::from(tasks)));
    }
    set(Issue::Root, id);
    set(Issue::Left, 1);
    set(Issue::Right, 2);
    set(Issue::CreatedOn, id);
    set(Issue::UpdatedOn, id);
    task
}

/// A number from 1 to `limit`.
fn below(rng: &mut Rng, limit: u64) -> u32 {
    1 + rng.below(limit) as u32
}

/// User number `place` of a project.
pub(super) fn member_of(data_set: DataSet, project: u32, place: u32) -> u32 {
    1 + ((project - 1) * USERS_OF_PROJECT + place) % data_set.users()
}

/// Puts every row of the data set in place; returns the numbers of tasks and journals.
pub(super) fn load(engine: &dyn Tables, ids: &Ids, data_set: DataSet, seed: u64) -> Result<(u32, u32)> {
    let mut rng = Rng::new(seed, 0x7265_646d);
    let mut texts = Values::new(TASK_TEXT, seed);
    let mut comments = Values::new(COMMENT_TEXT, seed + 1);
    let mut users = Loader::new(engine, ids.users);
    for user in 1..=data_set.users() {
        users.add(user, &[1], b"A user of the data set")?;
    }
    users.finish()?;
    let (mut projects, mut members) = (Loader::new(engine, ids.projects), Loader::new(engine, ids.members));
    let mut member = 0;
    for project in 1..=data_set.projects() {
        projects.add(project, &[2 * project - 1, 2 * project], texts.next())?;
        for place in 0..USERS_OF_PROJECT.min(data_set.users()) {
            member += 1;
            members.add(member, &[member_of(data_set, project, place), project, 1], b"")?;
        }
    }
    projects.finish()?;
    members.finish()?;
    let (mut issues, mut journals) = (Loader::new(engine, ids.issues), Loader::new(engine, ids.journals));
    let mut journal = 0;
    for task in 1..=data_set.tasks() {
        let columns = new_task(task, data_set, task - 1, &mut rng);
        issues.add(task, &columns, texts.next())?;
        for place in 0..COMMENTS {
            journal += 1;
            let user = member_of(data_set, columns[Issue::Project as usize], place);
            journals.add(journal, &[task, 1, user, task], comments.next())?;
        }
    }
    issues.finish()?;
    journals.finish()?;
    Ok((data_set.tasks(), journal))
}

/// Inserts rows of one table, many in one commit.
struct Loader<'a> {
    engine: &'a dyn Tables,
    table: TableId,
    rows: Vec<RowBuffer>,
    used: usize,
    at_once: usize,
}

impl<'a> Loader<'a> {
    fn new(engine: &'a dyn Tables, table: TableId) -> Self {
        Self { engine, table, rows: vec![RowBuffer::default(); AT_ONCE], used: 0, at_once: AT_ONCE }
    }

    fn add(&mut self, id: u32, columns: &[u32], text: &[u8]) -> Result<()> {
        if let Some(row) = self.rows.get_mut(self.used) {
            row.set(id, columns, text);
            self.used += 1;
        }
        if self.used == self.rows.len() { self.finish() } else { Ok(()) }
    }

    fn finish(&mut self) -> Result<()> {
        let rows: Vec<Row<'_>> = self.rows.iter().take(self.used).map(RowBuffer::as_row).collect();
        let mut left = &rows[..];
        while !left.is_empty() {
            let part = left.len().min(self.at_once);
            match self.engine.insert(self.table, &left[..part]) {
                Ok(()) => left = &left[part..],
                // A small buffer pool takes fewer rows at once.
                Err(error) if error.kind() == ErrorKind::LimitExceeded && part > 1 => self.at_once = part / 2,
                Err(error) => return Err(error),
            }
        }
        self.used = 0;
        Ok(())
    }
}
