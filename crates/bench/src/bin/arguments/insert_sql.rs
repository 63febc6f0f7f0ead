//! Arguments of `insert-sql`.

use clap::Args;
use siltstone_base::Result;
use siltstone_bench::insert::Schema;
use siltstone_bench::insert::sql::{SqlConfig, write_inserts, write_table};
use std::io::Write;

/// The rows of one client of `insert`, as SQL statements: one a commit.
#[derive(Debug, Args)]
pub struct InsertSqlArguments {
    /// The statement that creates the client's table for this storage engine, instead of rows.
    #[arg(long, value_name = "STORAGE_ENGINE")]
    create: Option<String>,
    /// Rows of this client.
    #[arg(long, default_value_t = 1_000_000)]
    rows: u64,
    /// The client, from 1; its table is pi1.
    #[arg(long, default_value_t = 1)]
    client: usize,
    /// Rows in one commit.
    #[arg(long, default_value_t = 100)]
    rows_per_commit: usize,
    /// The form of the table: 2017 or current.
    #[arg(long, default_value_t = Schema::Of2017)]
    schema: Schema,
    /// Draws the rows.
    #[arg(long, default_value_t = 42)]
    seed: u64,
}

impl InsertSqlArguments {
    /// Writes what was asked for.
    pub fn write(&self, out: &mut impl Write) -> Result<()> {
        let Self { rows, client, rows_per_commit, schema, seed, .. } = *self;
        let config = SqlConfig { rows, client, rows_per_commit, schema, seed };
        match &self.create {
            Some(storage_engine) => write_table(&config, storage_engine, out),
            None => write_inserts(&config, out),
        }
    }
}
