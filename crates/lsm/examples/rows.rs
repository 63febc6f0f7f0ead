//! Prints every live row of a database that this engine or RocksDB wrote, and changes nothing:
//! `cargo run --release -p siltstone-lsm --example rows -- DIR`
//!
//! A line is `column family <TAB> key in hex <TAB> value in hex`; families in the order of their numbers, keys in that of their
//! comparator. What only the WAL has is recovered in memory. The database may be open in another process.

use siltstone_lsm::{AppendOperator, ColumnFamilyOptions, Db, DbOptions, ReadOptions};
use std::error::Error;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

fn main() -> Result<(), Box<dyn Error>> {
    let dir = std::env::args_os().nth(1).ok_or("usage: rows DIR")?;
    let mut out = BufWriter::new(io::stdout().lock());
    print_rows(Path::new(&dir), &options(), &mut out)?;
    out.flush()?;
    Ok(())
}

/// Options for any directory whose merge operator, if it has one, is called `append` and joins by commas.
pub fn options() -> DbOptions {
    let operator = AppendOperator::new(",").named("append");
    DbOptions::default().unnamed_families(ColumnFamilyOptions::default().merge_operator(Some(Arc::new(operator))))
}

/// Prints every live row of the database in `dir`.
pub fn print_rows(dir: &Path, options: &DbOptions, out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let db = Db::open_read_only(dir, options, &[])?;
    let mut line = String::new();
    for family in db.families() {
        let mut rows = db.iter_cf(&family, &ReadOptions::default().fill_cache(false))?;
        rows.seek_to_first();
        while rows.valid() {
            line.clear();
            line.push_str(family.name());
            line.push('\t');
            push_hex(&mut line, rows.key());
            line.push('\t');
            push_hex(&mut line, rows.value());
            line.push('\n');
            out.write_all(line.as_bytes())?;
            rows.next();
        }
        rows.status()?;
    }
    db.close()?;
    Ok(())
}

/// Appends two lower-case digits a byte.
fn push_hex(line: &mut String, bytes: &[u8]) {
    const DIGITS: [char; 16] = ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
    for byte in bytes {
        line.push(DIGITS[usize::from(byte >> 4)]);
        line.push(DIGITS[usize::from(byte & 15)]);
    }
}
