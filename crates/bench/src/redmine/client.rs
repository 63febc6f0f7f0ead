//! One application process.

use super::data::{COMMENT_TEXT, COMMENTS, DataSet, TASK_TEXT};
use super::load::{IN_PROGRESS, Ids, RESOLVED, member_of, new_task};
use super::operation::Operation;
use super::schema::{BY_ASSIGNEE, Issue, RowBuffer, decode_column, encode_id, id_at_end};
use crate::Rng;
use crate::row_guards::RowGuards;
use crate::values::Values;
use siltstone_base::engine::{RowChange, TableId, Tables};
use siltstone_base::memcomparable::put;
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
    /// Whose tasks are processed next.
    user: u32,
    texts: Values,
    comments: Values,
    old: RowBuffer,
    new: RowBuffer,
    journal: RowBuffer,
    details: [RowBuffer; 2],
    key: Vec<u8>,
    bytes: u64,
}

impl<'a> Client<'a> {
    pub(super) fn new(shared: &'a Shared<'a>, number: u64, seed: u64) -> Self {
        Self {
            shared,
            number,
            rng: Rng::new(seed, 0x636c_6900 ^ number),
            user: 1,
            texts: Values::new(TASK_TEXT, seed ^ number),
            comments: Values::new(COMMENT_TEXT, seed ^ number),
            old: RowBuffer::default(),
            new: RowBuffer::default(),
            journal: RowBuffer::default(),
            details: Default::default(),
            key: Vec::new(),
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
            if self.tasks_of(self.user)?.len() == PROCESSED {
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
        let Shared { engine, ids, data_set, next: numbers, .. } = self.shared;
        let task = next(&numbers.issues);
        let columns = new_task(task, *data_set, task - 1, &mut self.rng);
        let project = columns[Issue::Project as usize];
        self.look_at(ids.projects, project)?;
        self.look_at_user(columns[Issue::Author as usize])?;
        self.new.set(task, &columns, self.texts.next());
        self.bytes += self.new.bytes();
        engine.insert(ids.issues, &[self.new.as_row()])?;
        for place in 0..COMMENTS {
            let user = member_of(*data_set, project, place);
            self.look_at_user(user)?;
            self.change_task(task, user, &[], &[])?;
        }
        Ok(())
    }

    /// Ten tasks of a user: in progress, then resolved and given back.
    fn process_tasks(&mut self) -> Result<bool> {
        let user = self.user;
        self.look_at_user(user)?;
        let found = self.tasks_of(user)?;
        if found.len() < PROCESSED {
            return Ok(false);
        }
        for task in found {
            self.change_task(task, user, &[(Issue::Status, IN_PROGRESS)], &["status_id"])?;
            let author = self.new.get(Issue::Author as usize)?;
            let changes = [(Issue::Status, RESOLVED), (Issue::AssignedTo, author)];
            self.change_task(task, user, &changes, &["status_id", "assigned_to_id"])?;
        }
        Ok(true)
    }

    /// The first tasks of a user, as many as are processed at once, or all if there are fewer.
    fn tasks_of(&mut self, user: u32) -> Result<Vec<u32>> {
        let Shared { engine, ids, .. } = self.shared;
        self.key.clear();
        put::<i32>(&mut self.key, user as i32);
        let mut found = Vec::with_capacity(PROCESSED);
        let mut outcome = Ok(());
        let prefix = self.key.clone();
        engine.scan_index(ids.issues, BY_ASSIGNEE, &self.key, PROCESSED, &mut |entry| {
            if entry.starts_with(&prefix) && outcome.is_ok() {
                outcome = id_at_end(entry).map(|task| found.push(task));
            }
        })?;
        outcome?;
        Ok(found)
    }

    /// Changes columns of a task and writes a journal of it with these details, in one commit.
    fn change_task(&mut self, task: u32, user: u32, changes: &[(Issue, u32)], details: &[&str]) -> Result<()> {
        let Shared { engine, ids, guards, next: numbers, .. } = self.shared;
        let _guarded = guards.lock(self.number, &[(ids.issues, task)])?;
        encode_id(task, &mut self.old.key);
        let old = &mut self.old.value;
        old.clear();
        if !engine.get_row(ids.issues, &self.old.key, &mut |value| old.extend_from_slice(value))? {
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
        self.journal.set(journal, &[task, 1, user, journal], notes);
        let mut all = vec![
            (ids.journals, RowChange::Insert(self.journal.as_row())),
            (ids.issues, RowChange::Update(self.old.as_row(), self.new.as_row())),
        ];
        for (detail, name) in self.details.iter_mut().zip(details) {
            detail.set(next(&numbers.details), &[journal], format!("attr,{name},old,new").as_bytes());
            self.bytes += detail.bytes();
        }
        let written = self.details.iter().take(details.len());
        all.extend(written.map(|detail| (ids.details, RowChange::Insert(detail.as_row()))));
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
            let count = engine.scan_rows(ids.issues, &from, SEARCHED, &mut |row| {
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

    fn look_at_user(&mut self, user: u32) -> Result<()> {
        self.look_at(self.shared.ids.users, user)
    }

    fn look_at(&mut self, table: TableId, id: u32) -> Result<()> {
        encode_id(id, &mut self.key);
        let found = self.shared.engine.get_row(table, &self.key, &mut |value| _ = black_box(value))?;
        if found { Ok(()) } else { Err(missing()) }
    }
}

#[cold]
fn missing() -> Error {
    Error::new(ErrorKind::Corruption, "a row that was loaded is missing")
}
