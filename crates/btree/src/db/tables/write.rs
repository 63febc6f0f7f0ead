//! Rows that are written without a transaction: with their entries, in one group.

use super::super::Db;
use super::super::state::{OpenTree, State};
use super::super::write::{Group, Locked};
use super::super::writers::Writer;
use super::{OpenTable, Plan, Step};
use siltstone_base::Result;
use siltstone_base::engine::{KvOp, Row, RowChange, TableId, check_distinct};
use siltstone_base::sync::Arc;

/// What has to be locked: a row by its primary key, or a key of a unique index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Claim<'a> {
    space: u32,
    key: &'a [u8],
    /// The index, of a key of one, and whether it gets an entry.
    index: Option<(usize, bool)>,
}

/// What becomes of one table.
struct Part<'a> {
    table: Arc<OpenTable>,
    plan: Plan<'a>,
}

impl Part<'_> {
    /// Takes note of its rows, if somebody must know which ones change.
    fn note_rows(&self) {
        for step in self.plan.steps() {
            if let Step::Row { op: KvOp::Put { key, .. } | KvOp::Delete { key } | KvOp::DeleteOnce { key }, .. } = step
            {
                self.table.table.standing.note(key);
            }
        }
    }
}

impl Db {
    /// Inserts rows whose primary keys are new, with their index entries, as one batch.
    ///
    /// # Errors
    ///
    /// `NotFound` if no open table has this id; `AlreadyExists` for a primary key, or a key of a unique index, that another row has; `LimitExceeded` as for
    /// [`write`](Self::write), where a row counts once and each of its entries once more; `InvalidArgument` for a primary key that comes twice. `Poisoned` or `InvalidArgument` name an index
    /// whose extractor panics or breaks its promises; `Corruption` one whose extractor cannot read a row; `Busy` if an index that is about to be [added](Self::add_index) is waited for too long; those of [`put`](Self::put). Nothing of the batch was then done.
    pub fn insert(&self, table: TableId, rows: &[Row<'_>]) -> Result<()> {
        self.0.write_rows(table, rows.iter().map(|row| RowChange::Insert(*row)))
    }

    /// Removes rows with their index entries, as one batch. The caller says what they are.
    ///
    /// # Errors
    ///
    /// Those of [`insert`](Self::insert); `NotFound` for a row that does not exist, `Busy` for one with another value.
    pub fn delete_rows(&self, table: TableId, rows: &[Row<'_>]) -> Result<()> {
        self.0.write_rows(table, rows.iter().map(|row| RowChange::Delete(*row)))
    }

    /// Replaces rows, each the first of a pair by the second, as one batch. Entries that stay the same are left alone.
    ///
    /// # Errors
    ///
    /// Those of [`insert`](Self::insert) and of [`delete_rows`](Self::delete_rows).
    pub fn update_rows(&self, table: TableId, rows: &[(Row<'_>, Row<'_>)]) -> Result<()> {
        self.0.write_rows(table, rows.iter().map(|(old, new)| RowChange::Update(*old, *new)))
    }

    /// Changes rows of any tables as one batch. Whatever goes goes before anything comes: a row may take over a primary key, or a key of a unique index, that another one gives
    /// up.
    ///
    /// # Errors
    ///
    /// Those of [`insert`](Self::insert) and of [`delete_rows`](Self::delete_rows).
    pub fn commit_rows(&self, changes: &[(TableId, RowChange<'_>)]) -> Result<()> {
        self.0.write_changes(changes)
    }
}

impl State {
    fn write_rows<'a>(
        self: &Arc<Self>,
        table: TableId,
        changes: impl ExactSizeIterator<Item = RowChange<'a>> + Clone,
    ) -> Result<()> {
        loop {
            let table = self.tables.get(table)?;
            if changes.len() == 0 {
                return Ok(());
            }
            let id = table.table.id();
            let plan = Plan::new(&table, changes.clone().enumerate())?;
            let check = || check_distinct(changes.clone().map(|change| (id, change)));
            if self.write_parts(&[Part { table, plan }], check)? {
                return Ok(());
            }
        }
    }

    /// Writes changes of any tables as one group.
    fn write_changes(self: &Arc<Self>, changes: &[(TableId, RowChange<'_>)]) -> Result<()> {
        if changes.is_empty() {
            return Ok(());
        }
        // The changes of a table together, in the order of the call.
        let mut order: Vec<_> =
            changes.iter().enumerate().map(|(number, (table, change))| (*table, number, *change)).collect();
        order.sort_by_key(|(table, _, _)| *table);
        while !self.write_parts(&self.plan_parts(&order)?, || check_distinct(changes.iter().copied()))? {}
        Ok(())
    }

    /// Plans of changes that are sorted by their tables, each with its number in the call.
    fn plan_parts<'a>(&self, order: &[(TableId, usize, RowChange<'a>)]) -> Result<Vec<Part<'a>>> {
        let mut parts = Vec::new();
        for own in order.chunk_by(|(table, _, _), (next, _, _)| table == next) {
            let Some((table, _, _)) = own.first() else { continue };
            let table = self.tables.get(*table)?;
            let plan = Plan::new(&table, own.iter().map(|(_, number, change)| (*number, *change)))?;
            parts.push(Part { table, plan });
        }
        Ok(parts)
    }

    /// Makes plans as one group. Returns whether that was done: a table that has other indexes by now must be planned for anew.
    fn write_parts(self: &Arc<Self>, parts: &[Part<'_>], check: impl FnOnce() -> Result<()>) -> Result<bool> {
        parts.iter().try_for_each(|part| part.plan.check_entries(&part.table, self.pool.page_len()))?;
        let count = parts.iter().map(|part| part.plan.len()).sum();
        let needed = self.check_sizes(count, parts.iter().flat_map(|part| part.plan.sizes(&part.table)))?;
        check()?;
        self.hold_back();
        parts.iter().for_each(|part| self.bring_in_plan(&part.table, &part.plan));
        let mut locked = None;
        let writer = loop {
            let writer = self.lock_with_room(needed)?;
            if parts.iter().any(|part| part.table.table.standing.is_replaced()) {
                return Ok(false);
            }
            if let Some(part) = parts.iter().find(|part| part.table.table.standing.is_held()) {
                drop(writer);
                // Whoever is waited for may need them.
                drop(locked.take());
                self.wait_while_held(&part.table.table, None)?;
                return Ok(false);
            }
            parts.iter().for_each(Part::note_rows);
            let owner = locked.as_ref().map_or(0, |Locked(_, owner)| *owner);
            if !self.transactions.has_owners() || self.are_free(owner, parts)? {
                break writer;
            }
            // As for batches of a tree: behind whoever was first, and in one order.
            let owner = self.new_id()?;
            drop(writer);
            let owner = locked.insert(Locked(self, owner)).1;
            let with_table = |part| claims(part).map(move |claim| (claim, &part.table));
            let mut claims: Vec<(Claim<'_>, &Arc<OpenTable>)> = parts.iter().flat_map(with_table).collect();
            claims.sort_unstable_by_key(|(claim, _)| *claim);
            claims.dedup_by(|(claim, _), (other, _)| claim == other);
            for (claim, table) in claims {
                match self.lock_claim(self.writer.lock(), owner, table, claim) {
                    // Its index was dropped meanwhile.
                    Err(_) if table.table.standing.is_replaced() => return Ok(false),
                    outcome => outcome?,
                }
            }
        };
        for part in parts {
            part.table.table.rows.live()?;
        }
        let (number, end) = self.make_group_of(|number, group| {
            let mut steps = parts.iter().flat_map(|part| part.plan.steps().map(move |step| (&part.table, step)));
            steps.try_for_each(|(table, step)| self.apply_step(table, step, number, group))
        })?;
        let outcome = self.end_group(number, end, writer);
        self.wake_jobs();
        outcome.map(|()| true)
    }

    fn are_free(&self, owner: u64, parts: &[Part<'_>]) -> Result<bool> {
        for part in parts {
            if !self.is_free(owner, part)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Brings in what the steps of a plan will change, before the lock of writers is taken.
    fn bring_in_plan(&self, table: &OpenTable, plan: &Plan<'_>) {
        for step in plan.steps() {
            match step {
                Step::Row { op: KvOp::Put { key, .. } | KvOp::Delete { key } | KvOp::DeleteOnce { key }, .. } => {
                    self.bring_in(&table.table.rows, key);
                }
                Step::Entry { index, entry, .. } => {
                    let tree = table.table.indexes.get(index);
                    tree.iter().for_each(|tree| self.bring_in(tree, entry));
                }
            }
        }
    }

    fn apply_step<'a>(&self, table: &'a OpenTable, step: Step<'a>, number: u64, group: &mut Group<'a>) -> Result<()> {
        match step {
            Step::Row { op, expected } => self.apply(table.table.rows.tree(), &op, expected, number, group),
            Step::Entry { index, entry, key_len, is_insertion } => {
                let index_tree = table.index(index)?;
                if is_insertion && table.is_unique(index) {
                    self.check_unique(index_tree, entry.get(..key_len).unwrap_or_default())?;
                }
                self.apply_entry(index_tree.tree(), entry, is_insertion, number, group)
            }
        }
    }

    #[cold]
    fn is_free(&self, owner: u64, part: &Part<'_>) -> Result<bool> {
        let table = &part.table;
        for claim in claims(part) {
            let is_locked = match claim.index {
                None => {
                    let stamp = table.table.rows.live()?.stamp(claim.key)?;
                    self.is_row_locked(owner, &table.table.rows, claim.key, stamp)
                }
                Some((index, is_insertion)) => {
                    self.is_key_locked(owner, table.index(index)?, claim.key, is_insertion)?
                }
            };
            if is_locked {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn lock_claim(self: &Arc<Self>, writer: Writer<'_>, owner: u64, table: &OpenTable, claim: Claim<'_>) -> Result<()> {
        self.check_open()?;
        match claim.index {
            None => self.lock_row_from(writer, owner, &table.table.rows, claim.key, None),
            Some((index, _)) => self.lock_key_from(writer, owner, table.index(index)?, claim.key, None),
        }
    }
}

/// What a plan needs locks of.
fn claims<'p>(part: &'p Part<'_>) -> impl Iterator<Item = Claim<'p>> {
    let (table, space) = (&part.table, |tree: &OpenTree| tree.tree().space());
    part.plan.steps().filter_map(move |step| match step {
        Step::Row { op: KvOp::Put { key, .. } | KvOp::Delete { key } | KvOp::DeleteOnce { key }, .. } => {
            Some(Claim { space: space(&table.table.rows), key, index: None })
        }
        Step::Entry { index, entry, key_len, is_insertion } => {
            let tree = table.table.indexes.get(index).filter(|_| table.is_unique(index))?;
            Some(Claim { space: space(tree), key: entry.get(..key_len)?, index: Some((index, is_insertion)) })
        }
    })
}
