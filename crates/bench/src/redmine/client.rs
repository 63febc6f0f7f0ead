//! One application process.

use super::data::{COMMENTS, DataSet};
use super::load::{IN_PROGRESS, ISSUE, Ids, RESOLVED, member_of, new_task, place_in_tree};
use super::operation::Operation;
use super::reads::{Reader, missing};
use super::rows::{ISSUE_COLUMNS, Issue, RowBuffer, decode_column, encode_id};
use super::schema::Table;
use crate::Rng;
use crate::row_guards::RowGuards;
use crate::values::Values;
use siltstone_base::engine::{RowChange, Tables};
use siltstone_base::sync::atomic::{AtomicU32, Ordering};
use siltstone_base::{Error, ErrorKind, Result};
use std::hint::black_box;

/// Tasks that are processed at once.
pub(super) const PROCESSED: usize = 10;

/// Users that are drawn until one has so many tasks. Some always have: tasks are passed on, and there are ten for each user.
const MOST_DRAWS: u32 = 100_000;

/// Rows of a step of the search.
const SEARCHED: usize = 1_000;

/// What all clients share.
pub(super) struct Shared<'a> {
    pub(super) engine: &'a dyn Tables,
    pub(super) ids: Ids,
    pub(super) data_set: DataSet,
    /// Whether a task is resolved and given back by one save, and not by two.
    pub(super) is_resolved_at_once: bool,
    pub(super) guards: RowGuards,
    pub(super) next: &'a Numbers,
}

/// The last number of each table that grows.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    pub(super) issues: AtomicU32,
    pub(super) journals: AtomicU32,
    pub(super) details: AtomicU32,
}

fn next(number: &AtomicU32) -> u32 {
    number.fetch_add(1, Ordering::Relaxed) + 1
}

pub(super) struct Client<'a> {
    shared: &'a Shared<'a>,
    number: u64,
    rng: Rng,
    reader: Reader<'a>,
    /// Whose tasks are processed next.
    user: u32,
    texts: Values,
    comments: Values,
    old: RowBuffer,
    new: RowBuffer,
    journal: RowBuffer,
    details: [RowBuffer; 2],
    bytes: u64,
}

impl<'a> Client<'a> {
    pub(super) fn new(shared: &'a Shared<'a>, number: u64, seed: u64) -> Self {
        Self {
            shared,
            number,
            rng: Rng::new(seed, 0x636c_6900 ^ number),
            reader: Reader::new(shared.engine, shared.ids),
            user: 1,
            texts: Values::new(Table::Issues.text_bytes(), seed ^ number),
            comments: Values::new(Table::Journals.text_bytes(), seed ^ number),
            old: RowBuffer::default(),
            new: RowBuffer::default(),
            journal: RowBuffer::default(),
            details: Default::default(),
            bytes: 0,
        }
    }

    /// Bytes of rows written.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Draws what the next operation needs to be there: a user with enough tasks.
    pub(super) fn prepare(&mut self, operation: Operation) -> Result<()> {
        if operation != Operation::Process10Tasks {
            return Ok(());
        }
        for _ in 0..MOST_DRAWS {
            self.user = 1 + self.rng.below(u64::from(self.shared.data_set.users())) as u32;
            if self.reader.has_enough_tasks(self.user)? {
                return Ok(());
            }
        }
        Err(Error::new(ErrorKind::NotFound, "no user has ten tasks"))
    }

    /// Does one operation. False: another client took some of its tasks since it was prepared, and it does not count.
    pub(super) fn operation(&mut self, operation: Operation) -> Result<bool> {
        match operation {
            Operation::CreateTask => self.create_task()?,
            Operation::Process10Tasks => return self.process_tasks(),
            Operation::Search => self.search()?,
        }
        Ok(true)
    }

    /// A task, then its comments.
    fn create_task(&mut self) -> Result<()> {
        let Shared { data_set, next: numbers, .. } = self.shared;
        let task = next(&numbers.issues);
        let columns = new_task(task, *data_set, task - 1, &mut self.rng);
        let column = |column: Issue| columns[column as usize];
        let project = column(Issue::Project);
        self.reader.project(project)?;
        self.reader.form(project)?;
        let role = self.reader.member(column(Issue::Author), project)?;
        self.reader.transitions(role, column(Issue::Tracker), column(Issue::Status))?;
        self.reader.watchers(task)?;
        self.insert_task(task, columns)?;
        for place in 0..COMMENTS {
            let user = member_of(*data_set, project, place);
            self.reader.member(user, project)?;
            self.reader.watchers(task)?;
            self.change_task(task, user, &[], &[])?;
        }
        Ok(())
    }

    /// Inserts a task, and then gives it its place in the tree of tasks.
    fn insert_task(&mut self, task: u32, mut columns: [u32; ISSUE_COLUMNS]) -> Result<()> {
        let Shared { engine, ids, guards, .. } = self.shared;
        let issues = ids.of(Table::Issues);
        let guarded = guards.guard(self.number);
        guarded.lock(issues, task)?;
        let text = self.texts.next();
        self.old.set(task, &columns, text);
        place_in_tree(task, &mut columns);
        self.new.set(task, &columns, text);
        engine.insert(issues, &[self.old.as_row()])?;
        engine.update(issues, &[(self.old.as_row(), self.new.as_row())])?;
        self.bytes += self.old.bytes() + self.new.bytes();
        Ok(())
    }

    /// Ten tasks of a user: all in progress, then each resolved and given back.
    fn process_tasks(&mut self) -> Result<bool> {
        let user = self.user;
        let found = self.reader.tasks_of(user)?;
        if found.len() < PROCESSED {
            return Ok(false);
        }
        for task in &found {
            self.reader.project(task.project)?;
            let role = self.reader.member(user, task.project)?;
            self.reader.transitions(role, task.tracker, task.status)?;
            self.reader.journals(task.id)?;
            self.change_task(task.id, user, &[(Issue::Status, IN_PROGRESS)], &["status_id"])?;
        }
        for task in &found {
            let changes = [(Issue::Status, RESOLVED), (Issue::AssignedTo, task.author)];
            let names = ["status_id", "assigned_to_id"];
            let saved = if self.shared.is_resolved_at_once { changes.len() } else { 1 };
            for (changes, names) in changes.chunks(saved).zip(names.chunks(saved)) {
                self.change_task(task.id, user, changes, names)?;
            }
        }
        Ok(true)
    }

    /// Changes columns of a task and writes a journal of it with these details, in one commit.
    fn change_task(&mut self, task: u32, user: u32, changes: &[(Issue, u32)], details: &[&str]) -> Result<()> {
        let Shared { engine, ids, guards, next: numbers, .. } = self.shared;
        let issues = ids.of(Table::Issues);
        let guarded = guards.guard(self.number);
        guarded.lock(issues, task)?;
        encode_id(task, &mut self.old.key);
        let old = &mut self.old.value;
        old.clear();
        if !engine.get_row(issues, &self.old.key, &mut |value| old.extend_from_slice(value))? {
            return Err(missing());
        }
        self.new.clone_from(&self.old);
        for (column, number) in changes {
            self.new.put(*column as usize, *number)?;
        }
        let version = self.new.get(Issue::LockVersion as usize)?;
        self.new.put(Issue::LockVersion as usize, version + 1)?;
        let journal = next(&numbers.journals);
        self.new.put(Issue::UpdatedOn as usize, journal)?;
        let notes: &[u8] = if details.is_empty() { self.comments.next() } else { b"" };
        self.journal.set(journal, &[task, ISSUE, user, journal, 0], notes);
        let mut all = vec![
            (ids.of(Table::Journals), RowChange::Insert(self.journal.as_row())),
            (issues, RowChange::Update(self.old.as_row(), self.new.as_row())),
        ];
        for (detail, name) in self.details.iter_mut().zip(details) {
            detail.set(next(&numbers.details), &[journal], format!("attr,{name},old,new").as_bytes());
            self.bytes += detail.bytes();
        }
        let written = self.details.iter().take(details.len());
        let table = ids.of(Table::JournalDetails);
        all.extend(written.map(|detail| (table, RowChange::Insert(detail.as_row()))));
        engine.commit(&all)?;
        self.bytes += self.journal.bytes() + self.new.bytes();
        Ok(())
    }

    /// The tasks under a given one.
    fn search(&mut self) -> Result<()> {
        let Shared { engine, ids, next: numbers, .. } = self.shared;
        let tasks = u64::from(numbers.issues.load(Ordering::Relaxed)).max(1);
        let parent = 1 + self.rng.below(tasks) as u32;
        let (mut found, mut last, mut outcome) = (0_u64, Vec::new(), Ok(()));
        loop {
            let from = std::mem::take(&mut last);
            let count = engine.scan_rows(ids.of(Table::Issues), &from, SEARCHED, &mut |row| {
                match decode_column(row.value, Issue::Parent as usize) {
                    Ok(of) => found += u64::from(of == parent),
                    Err(error) => outcome = Err(error),
                }
                last.clear();
                last.extend_from_slice(row.primary_key);
            })?;
            std::mem::replace(&mut outcome, Ok(()))?;
            if count < SEARCHED {
                break;
            }
            // The first key behind it.
            last.push(0);
        }
        black_box(found);
        Ok(())
    }
}
