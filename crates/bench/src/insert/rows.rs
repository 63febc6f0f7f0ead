//! The rows of the insert benchmark.

use crate::Rng;
use siltstone_base::engine::{LazyTableSpec, TableSpec};
use siltstone_base::index_spec::{IndexSpec, LazyIndexSpec};
use siltstone_base::memcomparable::{get, put};
use siltstone_base::{Error, Result};
use std::fmt;
use std::ops::Range;
use std::str::FromStr;

/// The form of the table. In both, a row's value is, in memcomparable form,
///
/// ```text
/// dateandtime 5 bytes | cashregisterid int | customerid int | productid int | price 4 bytes | length of data 2 bytes | data
/// ```
///
/// with registers below 1,000, customers below 100,000, products below 10,000 and 10 to 20 bytes of data, half of it random.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Schema {
    /// `transactionid int`, `price float` = (500 random + customer) / 100 with two decimals. Indexes:
    /// marketsegment (price, customer), registersegment (register, price, customer), pdc (price, dateandtime, customer).
    Of2017,
    /// `transactionid bigint`, `price int` below 500. Indexes: marketsegment (product, customer, price),
    /// registersegment (register, customer, price), pdc (price, dateandtime, customer).
    Current,
}

const DATE: Range<usize> = 0..5;
const REGISTER: Range<usize> = 5..9;
const CUSTOMER: Range<usize> = 9..13;
const PRODUCT: Range<usize> = 13..17;
const PRICE: Range<usize> = 17..21;

const REGISTERS: u64 = 1_000;
const CUSTOMERS: u64 = 100_000;
const PRODUCTS: u64 = 10_000;

impl Schema {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Of2017 => "2017",
            Self::Current => "current",
        }
    }

    /// The table of a client, counted from 1.
    pub(super) fn table(self, client: usize) -> TableSpec {
        let (market, register) = match self {
            Self::Of2017 => (vec![PRICE, CUSTOMER], vec![REGISTER, PRICE, CUSTOMER]),
            Self::Current => (vec![PRODUCT, CUSTOMER, PRICE], vec![REGISTER, CUSTOMER, PRICE]),
        };
        let indexes = vec![
            IndexSpec::over_columns("marketsegment", market),
            IndexSpec::over_columns("registersegment", register),
            IndexSpec::over_columns("pdc", [PRICE, DATE, CUSTOMER]),
        ];
        TableSpec { name: format!("pi{client}"), indexes }
    }

    /// The same table, lazy.
    pub(super) fn lazy_table(self, client: usize) -> LazyTableSpec {
        let TableSpec { name, indexes } = self.table(client);
        let lazy = |index: IndexSpec| LazyIndexSpec::new(index.name, index.extractor);
        LazyTableSpec { name, indexes: indexes.into_iter().map(lazy).collect() }
    }

    fn key_bytes(self) -> usize {
        match self {
            Self::Of2017 => 4,
            Self::Current => 8,
        }
    }

    /// Bytes of the entries of one row in the three indexes: their columns and the primary key.
    pub(super) fn entry_bytes(self) -> usize {
        let columns: usize = match self {
            Self::Of2017 => 8 + 12 + 13,
            Self::Current => 12 + 12 + 13,
        };
        columns + 3 * self.key_bytes()
    }

    /// Bytes of a row of average length with its index entries.
    pub(crate) fn row_bytes(self) -> u64 {
        let value = PRICE.end + 2 + 15;
        (self.key_bytes() + value + self.entry_bytes()) as u64
    }

    /// Bytes of a row of average length without index entries.
    pub(super) fn plain_row_bytes(self) -> u64 {
        self.row_bytes() - self.entry_bytes() as u64
    }

    /// Secondary indexes of a table.
    pub(super) const INDEXES: usize = 3;

    /// Appends the primary key of the row of this number.
    pub(super) fn put_id(self, id: u64, key: &mut Vec<u8>) {
        match self {
            Self::Of2017 => put::<i32>(key, id as i32),
            Self::Current => put::<i64>(key, id as i64),
        }
    }

    /// Rows that the primary key has numbers for.
    pub(super) fn most_rows(self) -> u64 {
        match self {
            Self::Of2017 => i32::MAX as u64,
            Self::Current => i64::MAX as u64,
        }
    }
}

/// The columns of a row, as SQL writes them.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SqlRow {
    pub(super) id: i64,
    pub(super) seconds: u64,
    pub(super) register: i32,
    pub(super) customer: i32,
    pub(super) product: i32,
    pub(super) price: String,
    pub(super) data: String,
}

impl Schema {
    /// Reads a row that [`RowSource`] made.
    pub(super) fn decode(self, mut key: &[u8], value: &[u8]) -> Result<SqlRow> {
        let cut = || Error::corrupt("a row of the insert benchmark is cut off");
        let id = match self {
            Self::Of2017 => i64::from(get::<i32>(&mut key)?),
            Self::Current => get::<i64>(&mut key)?,
        };
        let (date, mut rest) = value.split_at_checked(DATE.len()).ok_or_else(cut)?;
        let seconds = date.iter().fold(0, |seconds, byte| seconds << 8 | u64::from(*byte));
        let (register, customer) = (get::<i32>(&mut rest)?, get::<i32>(&mut rest)?);
        let product = get::<i32>(&mut rest)?;
        let price = match self {
            Self::Of2017 => format!("{:.2}", get::<f32>(&mut rest)?),
            Self::Current => get::<i32>(&mut rest)?.to_string(),
        };
        let (_, data) = rest.split_at_checked(2).ok_or_else(cut)?;
        let data = String::from_utf8_lossy(data).into_owned();
        Ok(SqlRow { id, seconds, register, customer, product, price, data })
    }
}

impl fmt::Display for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Schema {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "2017" => Ok(Self::Of2017),
            "current" => Ok(Self::Current),
            _ => Err("expected 2017 or current"),
        }
    }
}

/// Makes the rows of one client.
#[derive(Debug)]
pub(super) struct RowSource {
    schema: Schema,
    rng: Rng,
    next_id: u64,
}

impl RowSource {
    pub(super) fn new(schema: Schema, seed: u64, client: usize) -> Self {
        Self::starting_at(schema, seed, client, 1)
    }

    /// The rows from a number on; drawn anew for each such number.
    pub(super) fn starting_at(schema: Schema, seed: u64, client: usize, next_id: u64) -> Self {
        let rng = Rng::new(seed, 0x696e_7300 ^ client as u64 ^ ((next_id - 1) << 16));
        Self { schema, rng, next_id }
    }

    /// Appends the primary key of the next row to `bytes`, then its value; returns where the key ends.
    pub(super) fn next(&mut self, unix_seconds: u64, bytes: &mut Vec<u8>) -> usize {
        let id = self.next_id;
        self.next_id += 1;
        self.row(id, unix_seconds, bytes)
    }

    /// The same for the row of this number.
    pub(super) fn row(&mut self, id: u64, unix_seconds: u64, bytes: &mut Vec<u8>) -> usize {
        self.schema.put_id(id, bytes);
        let key_end = bytes.len();
        let register = self.rng.below(REGISTERS);
        let customer = self.rng.below(CUSTOMERS);
        let product = self.rng.below(PRODUCTS);
        bytes.extend_from_slice(&unix_seconds.to_be_bytes()[3..]);
        put::<i32>(bytes, register as i32);
        put::<i32>(bytes, customer as i32);
        put::<i32>(bytes, product as i32);
        match self.schema {
            Schema::Of2017 => {
                // A fraction in thousandths is as fine as two decimals of the sum can show.
                let hundredths = (self.rng.below(500_000) as f64 / 1000.0 + customer as f64).round();
                put::<f32>(bytes, (hundredths / 100.0) as f32);
            }
            Schema::Current => put::<i32>(bytes, self.rng.below(500) as i32),
        }
        self.data(bytes);
        key_end
    }

    fn data(&mut self, bytes: &mut Vec<u8>) {
        const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let len = 10 + self.rng.below(11) as usize;
        bytes.extend_from_slice(&(len as u16).to_be_bytes());
        let random = len / 2;
        let mut bits = self.rng.next_u64();
        for _ in 0..random {
            bytes.push(ALPHABET[(bits & 63) as usize]);
            bits >>= 6;
        }
        bytes.resize(bytes.len() + len - random, b'a');
    }
}
