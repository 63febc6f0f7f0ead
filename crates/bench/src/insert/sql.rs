//! The same rows as SQL statements, for engines that have a server in front.
//!
//! One statement inserts the rows of one commit: with autocommit it is one.

use super::Schema;
use super::rows::{RowSource, SqlRow};
use siltstone_base::clock::{Clock, SystemClock};
use siltstone_base::{Error, ErrorKind, Result};
use std::io::Write;

/// Which statements.
#[derive(Debug, Clone, Copy)]
pub struct SqlConfig {
    /// Rows of this client.
    pub rows: u64,
    /// The client, counted from 1; its table is `pi` and this number.
    pub client: usize,
    /// Rows in one statement.
    pub rows_per_commit: usize,
    /// The form of the table.
    pub schema: Schema,
    /// Draws the rows.
    pub seed: u64,
}

/// Writes the statement that creates the client's table, for the storage engine of this name.
///
/// # Errors
///
/// Those of `out`.
pub fn write_table(config: &SqlConfig, storage_engine: &str, out: &mut dyn Write) -> Result<()> {
    let SqlConfig { client, .. } = config;
    let (id, price, market, register) = match config.schema {
        Schema::Of2017 => ("int", "float", "price, customerid", "cashregisterid, price, customerid"),
        Schema::Current => ("bigint", "int", "productid, customerid, price", "cashregisterid, customerid, price"),
    };
    writeln!(
        out,
        "create table pi{client} (transactionid {id} not null, dateandtime datetime, cashregisterid int not null, customerid int not null, \
         productid int not null, price {price} not null, data varchar(4000), primary key (transactionid), key marketsegment ({market}), \
         key registersegment ({register}), key pdc (price, dateandtime, customerid)) engine={storage_engine} default charset=latin1;"
    )
    .map_err(failed)
}

/// Writes the statements that insert the client's rows.
///
/// # Errors
///
/// `InvalidArgument` for no rows in a statement, or more rows than the primary key can number; those of `out`.
pub fn write_inserts(config: &SqlConfig, out: &mut dyn Write) -> Result<()> {
    if config.rows_per_commit == 0 || config.rows >= config.schema.most_rows() || config.client == 0 {
        return Err(Error::invalid_argument("--rows, --rows-per-commit or --client is out of bounds"));
    }
    let clock = SystemClock::new();
    let mut source = RowSource::new(config.schema, config.seed, config.client - 1);
    let (mut left, mut bytes, mut statement) = (config.rows, Vec::new(), Vec::new());
    while left > 0 {
        let count = left.min(config.rows_per_commit as u64);
        let now = clock.unix_seconds();
        statement.clear();
        statement.extend_from_slice(format!("insert into pi{} values ", config.client).as_bytes());
        for row in 0..count {
            bytes.clear();
            let key_end = source.next(now, &mut bytes);
            let (key, value) = bytes.split_at(key_end);
            let SqlRow { id, seconds, register, customer, product, price, data } = config.schema.decode(key, value)?;
            let comma = if row == 0 { "" } else { "," };
            write!(
                statement,
                "{comma}({id},from_unixtime({seconds}),{register},{customer},{product},{price},'{data}')"
            )
            .map_err(failed)?;
        }
        statement.extend_from_slice(b";\n");
        out.write_all(&statement).map_err(failed)?;
        left -= count;
    }
    out.flush().map_err(failed)
}

fn failed(error: std::io::Error) -> Error {
    Error::new(ErrorKind::Io, "write statements").with_source(error)
}
