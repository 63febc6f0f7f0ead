//! The data set is put in place.

use super::data::{COMMENTS, DataSet, USERS_OF_PROJECT};
use super::rows::{ISSUE_COLUMNS, Issue, RowBuffer};
use super::schema::Table;
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

/// What a journal, a watcher or a value of a custom field belongs to.
pub(super) const ISSUE: u32 = 1;
pub(super) const PROJECT: u32 = 2;

/// The enumeration of priorities, and another one.
pub(super) const PRIORITY: u32 = 1;
const ACTIVITY: u32 = 2;

/// How many there are. Of roles, the first ones are given to members; the others are what Redmine has for everybody else.
const STATUSES: u32 = 6;
const TRACKERS: u32 = 3;
const PRIORITIES: u32 = 5;
const ACTIVITIES: u32 = 2;
const CATEGORIES: u32 = 5;
const VERSIONS: u32 = 5;
const ROLES: u32 = 5;
const ROLES_OF_MEMBERS: u32 = 3;

/// Modules that are enabled in a project.
const MODULES: u32 = 10;

/// One task in so many has a parent, and one in so many somebody who watches it.
const WITH_PARENT: u32 = 5;
const WITH_WATCHER: u32 = 10;

/// The only status of tasks that are closed.
const CLOSED: u32 = 5;

/// The tables.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ids([TableId; Table::COUNT]);

impl Ids {
    /// Makes the tables, or finds them again.
    pub(super) fn new(open: impl Fn(&TableSpec) -> Result<TableId>) -> Result<Self> {
        let mut ids = [TableId(0); Table::COUNT];
        for (id, table) in ids.iter_mut().zip(Table::all()) {
            *id = open(&table.spec())?;
        }
        Ok(Self(ids))
    }

    /// A table.
    pub(super) fn of(&self, table: Table) -> TableId {
        self.0[table as usize]
    }

    /// Reads every row and every entry.
    pub(super) fn read_all(&self, tables: &dyn Tables) -> Result<()> {
        for table in Table::all() {
            tables.scan_rows(self.of(table), b"", usize::MAX, &mut |_| {})?;
            for index in 0..table.spec().indexes.len() {
                tables.scan_index(self.of(table), index, b"", usize::MAX, &mut |_| {})?;
            }
        }
        Ok(())
    }
}

/// The columns of a new task, which has no place in the tree of tasks yet.
pub(super) fn new_task(id: u32, data_set: DataSet, tasks: u32, rng: &mut Rng) -> [u32; ISSUE_COLUMNS] {
    let project = below(rng, data_set.projects());
    let member = |rng: &mut Rng| member_of(data_set, project, below(rng, USERS_OF_PROJECT) - 1);
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
    if tasks > 0 && below(rng, WITH_PARENT) == WITH_PARENT {
        set(Issue::Parent, below(rng, tasks));
    }
    set(Issue::CreatedOn, id);
    set(Issue::UpdatedOn, id);
    set(Issue::StartDate, id);
    task
}

/// Gives a task its place in the tree of tasks: it is a root.
pub(super) fn place_in_tree(id: u32, task: &mut [u32; ISSUE_COLUMNS]) {
    for (column, number) in [(Issue::Root, id), (Issue::Left, 1), (Issue::Right, 2)] {
        task[column as usize] = number;
    }
}

/// A number from 1 to `limit`.
fn below(rng: &mut Rng, limit: u32) -> u32 {
    1 + rng.below(u64::from(limit)) as u32
}

/// User number `place` of a project.
pub(super) fn member_of(data_set: DataSet, project: u32, place: u32) -> u32 {
    1 + ((project - 1) * USERS_OF_PROJECT + place) % data_set.users()
}

/// Puts every row of the data set in place; returns the numbers of tasks and journals.
pub(super) fn load(engine: &dyn Tables, ids: &Ids, data_set: DataSet, seed: u64) -> Result<(u32, u32)> {
    let loader = |table| Loader::new(engine, ids, table, seed);
    load_settings(&loader)?;
    load_projects(&loader, data_set)?;
    let mut rng = Rng::new(seed, 0x7265_646d);
    let (mut issues, mut journals) = (loader(Table::Issues), loader(Table::Journals));
    let mut watchers = loader(Table::Watchers);
    for task in 1..=data_set.tasks() {
        let mut columns = new_task(task, data_set, task - 1, &mut rng);
        place_in_tree(task, &mut columns);
        issues.add(&columns)?;
        let member = |place| member_of(data_set, columns[Issue::Project as usize], place);
        for place in 0..COMMENTS {
            journals.add(&[task, ISSUE, member(place), task, 0])?;
        }
        if task % WITH_WATCHER == 0 {
            watchers.add(&[task, ISSUE, member(0)])?;
        }
    }
    watchers.finish()?;
    Ok((issues.finish()?, journals.finish()?))
}

/// What is there before any project: trackers, statuses, priorities, roles, and what a role may do.
fn load_settings<'a>(loader: &impl Fn(Table) -> Loader<'a>) -> Result<()> {
    loader(Table::Trackers).all((1..=TRACKERS).map(|tracker| [tracker, 1, NEW]))?;
    loader(Table::IssueStatuses).all((1..=STATUSES).map(|status| [u32::from(status == CLOSED), status]))?;
    let enumeration = |kind, count| (1..=count).map(move |position| [kind, 0, position, 0, 1]);
    let enumerations = enumeration(PRIORITY, PRIORITIES).chain(enumeration(ACTIVITY, ACTIVITIES));
    loader(Table::Enumerations).all(enumerations)?;
    loader(Table::Roles).all((1..=ROLES).map(|role| [role, 1, u32::from(role > ROLES_OF_MEMBERS)]))?;
    let mut workflows = loader(Table::Workflows);
    for (role, tracker) in (1..=ROLES_OF_MEMBERS).flat_map(|role| (1..=TRACKERS).map(move |tracker| (role, tracker))) {
        for (old, new) in (1..=STATUSES).flat_map(|old| (1..=STATUSES).map(move |new| (old, new))) {
            if old != new {
                workflows.add(&[role, tracker, old, new, 0, 0, 1])?;
            }
        }
    }
    workflows.finish().map(drop)
}

/// Users, and projects with their members.
fn load_projects<'a>(loader: &impl Fn(Table) -> Loader<'a>, data_set: DataSet) -> Result<()> {
    let (users, projects) = (data_set.users(), data_set.projects());
    loader(Table::Users).all((1..=users).map(|_| [1, 0, 1]))?;
    loader(Table::EmailAddresses).all((1..=users).map(|user| [user, 1, 1, user, user]))?;
    loader(Table::Projects).all((1..=projects).map(|project| [2 * project - 1, 2 * project, 1, 0, 1]))?;
    loader(Table::CustomValues).all((1..=projects).map(|project| [PROJECT, project, 1]))?;
    let each = |count| (1..=projects).flat_map(move |project| (0..count).map(move |place| (project, place)));
    loader(Table::EnabledModules).all(each(MODULES).map(|(project, _)| [project]))?;
    loader(Table::ProjectsTrackers).all(each(TRACKERS).map(|(project, place)| [project, 1 + place]))?;
    let (mut members, mut roles) = (loader(Table::Members), loader(Table::MemberRoles));
    for (project, place) in each(USERS_OF_PROJECT.min(users)) {
        let member = members.add(&[member_of(data_set, project, place), project, 1, 0])?;
        roles.add(&[member, 1 + place % ROLES_OF_MEMBERS, 0])?;
    }
    members.finish()?;
    roles.finish().map(drop)
}

/// Inserts rows of one table, numbered from 1, many in one commit.
struct Loader<'a> {
    engine: &'a dyn Tables,
    table: TableId,
    texts: Values,
    rows: Vec<RowBuffer>,
    used: usize,
    at_once: usize,
    last: u32,
}

impl<'a> Loader<'a> {
    fn new(engine: &'a dyn Tables, ids: &Ids, table: Table, seed: u64) -> Self {
        let (texts, rows) = (Values::new(table.text_bytes(), seed), vec![RowBuffer::default(); AT_ONCE]);
        Self { engine, table: ids.of(table), texts, rows, used: 0, at_once: AT_ONCE, last: 0 }
    }

    /// Adds all rows that there are.
    fn all<const COLUMNS: usize>(mut self, rows: impl IntoIterator<Item = [u32; COLUMNS]>) -> Result<()> {
        rows.into_iter().try_for_each(|columns| self.add(&columns).map(drop))?;
        self.finish().map(drop)
    }

    /// Adds a row, and returns its number.
    fn add(&mut self, columns: &[u32]) -> Result<u32> {
        self.last += 1;
        if let Some(row) = self.rows.get_mut(self.used) {
            row.set(self.last, columns, self.texts.next());
            self.used += 1;
        }
        if self.used == self.rows.len() {
            self.insert()?;
        }
        Ok(self.last)
    }

    /// Inserts what is left, and returns the number of the last row.
    fn finish(mut self) -> Result<u32> {
        self.insert()?;
        Ok(self.last)
    }

    fn insert(&mut self) -> Result<()> {
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
