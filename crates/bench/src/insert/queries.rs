//! The queries of the steps `qrN` and `qpN`.

use super::client_table::ClientTable;
use super::rows::{RowSource, Schema};
use crate::Rng;
use crate::engines::OpenEngine;
use siltstone_base::engine::TableSpec;
use siltstone_base::{Error, ErrorKind, Result};
use std::ops::Range;

/// Entries or rows of one query.
const LIMIT: usize = 10;

/// Draws queries over a client's table.
pub(super) struct Queries<'a> {
    engine: &'a OpenEngine,
    table: ClientTable,
    schema: Schema,
    spec: TableSpec,
    rng: Rng,
    /// Makes rows whose columns ranges begin at.
    source: RowSource,
    row: Vec<u8>,
    from: Vec<u8>,
}

impl<'a> Queries<'a> {
    /// Draws that differ where `turn` does: what one step read may still be in memory in the next.
    pub(super) fn new(
        engine: &'a OpenEngine,
        table: ClientTable,
        schema: Schema,
        seed: u64,
        client: usize,
        turn: u64,
    ) -> Self {
        let rng = Rng::new(seed, 0x7175_6572 ^ ((client as u64) << 32) ^ (turn << 48));
        let source = RowSource::new(schema, seed ^ 0x5155_4552 ^ (turn << 48), client);
        Self { engine, table, schema, spec: schema.table(client + 1), rng, source, row: Vec::new(), from: Vec::new() }
    }

    /// Reads ten entries of an index from a place on that is drawn as the columns of rows are. Each has all that is asked for.
    pub(super) fn range(&mut self) -> Result<()> {
        self.row.clear();
        let key_end = self.source.next(0, &mut self.row);
        let index = self.rng.below(self.spec.indexes.len() as u64) as usize;
        let spec = self.spec.indexes.get(index).ok_or_else(|| Error::invalid_argument("there are no indexes"))?;
        self.from.clear();
        let (key, value) = self.row.split_at(key_end);
        spec.try_key(key, value, &mut self.from)?;
        self.table.range(self.engine, index, &self.from, LIMIT)
    }

    /// Reads ten rows whose numbers are drawn from `ids`; those that are deleted meanwhile are not there.
    pub(super) fn points(&mut self, ids: Range<u64>) -> Result<()> {
        for _ in 0..LIMIT {
            let id = ids.start + self.rng.below(ids.end.saturating_sub(ids.start).max(1));
            self.from.clear();
            self.schema.put_id(id, &mut self.from);
            self.table.row(self.engine, &self.from)?;
        }
        Ok(())
    }
}

/// Hands out the moments at which an inserter of `rate` rows a second, `at_once` in a commit, has to commit.
#[derive(Debug)]
pub(super) struct Pace {
    seconds_per_commit: f64,
    commits: u64,
}

impl Pace {
    pub(super) fn new(rate: u32, at_once: usize) -> Result<Self> {
        if rate == 0 {
            return Err(Error::new(ErrorKind::InvalidArgument, "no rate"));
        }
        Ok(Self { seconds_per_commit: at_once as f64 / f64::from(rate), commits: 0 })
    }

    /// When the next commit is due, in seconds from the start.
    pub(super) fn next(&mut self) -> f64 {
        let due = self.commits as f64 * self.seconds_per_commit;
        self.commits += 1;
        due
    }
}
