//! The matrix of features of the format against writers: in each cell one engine writes, the other one reads and compacts, the first
//! reads again and writes, and the second one reads that.
//!
//! What came of it is a page of the book, `docs/src/compatibility.md`. With `SILTSTONE_REWRITE_PAGES=1` the test writes the page;
//! otherwise it fails where the page says something else.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod chain;
mod features;
mod page;
mod routes;
mod server;

use super::interop_tools::{Python, RocksDbTools};
use features::{FEATURES, Feature};
use routes::{Cast, Route};
use std::path::Path;

/// What came of a cell.
pub enum Outcome {
    /// All rows were there at every step.
    Passed,
    /// It is not tried, for this reason.
    Unsupported(&'static str),
}

/// Fewest cells that must pass.
const FEWEST: usize = 60;

/// A line of the table for each feature.
pub type Table = Vec<(&'static Feature, Vec<Outcome>)>;

/// Plays all cells of some columns. Returns the table and what failed.
fn fill(cast: &mut Cast, routes: &[Route]) -> (Table, Vec<String>) {
    let mut table = Table::new();
    let mut failures = Vec::new();
    for (number, feature) in FEATURES.iter().enumerate() {
        let mut row = Vec::new();
        for route in routes {
            if let Some(reason) = route.hindrance(feature) {
                row.push(Outcome::Unsupported(reason));
                continue;
            }
            if let Err(message) = cast.play(*route, feature, number as u64) {
                failures.push(format!("{} {}: {}: {message}", feature.group, feature.name, route.title()));
            }
            row.push(Outcome::Passed);
        }
        table.push((feature, row));
    }
    (table, failures)
}

#[test]
fn every_cell_of_the_matrix_does_as_the_book_says() {
    let (Some(tools), Some(python)) = (RocksDbTools::find(), Python::find()) else { return };
    let mut cast = Cast::new(tools.ignoring_unknown_options(), &python);
    let (table, failures) = fill(&mut cast, &Route::ALL);
    assert!(failures.is_empty(), "\n{}\n", failures.join("\n"));
    let page = page::render(&table, &Route::ALL);
    print!("{page}");
    let passed = table.iter().flat_map(|(_, row)| row).filter(|outcome| matches!(outcome, Outcome::Passed)).count();
    assert!(passed >= FEWEST, "{passed} cells pass");
    page::keep(page::Part::Packaged, &page);
}

/// The same with RocksDB 11.8.1, where `scripts/interop-11` says that it is.
#[test]
fn rocksdb_11_takes_part_where_it_is() {
    let (Some(tools), Some(python)) = (RocksDbTools::find(), Python::find()) else { return };
    let Some(program) = std::env::var_os("SILTSTONE_ROCKSDB_11") else { return };
    let mut cast = Cast::new(tools.ignoring_unknown_options(), &python).with_11(Path::new(&program));
    let (table, failures) = fill(&mut cast, &Route::WITH_11);
    assert!(failures.is_empty(), "\n{}\n", failures.join("\n"));
    let page = page::render(&table, &Route::WITH_11);
    print!("{page}");
    page::keep(page::Part::With11, &page);
}
