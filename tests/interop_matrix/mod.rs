//! The matrix of features of the format against writers: in each cell one engine writes, the other one reads and compacts, the first
//! reads again and writes, and the second one reads that.
//!
//! What came of it is a page of the book, `docs/src/compatibility.md`. With `SILTSTONE_REWRITE_PAGES=1` the test writes the page;
//! otherwise it fails where the page says something else.

mod chain;
mod features;
mod page;
mod routes;
mod server;

use super::interop_tools::{Python, RocksDbTools};
use features::FEATURES;
use routes::{Cast, Route};

/// What came of a cell.
pub enum Outcome {
    /// All rows were there at every step.
    Passed,
    /// It is not tried, for this reason.
    Unsupported(&'static str),
}

/// Fewest cells that must pass.
const FEWEST: usize = 60;

#[test]
fn every_cell_of_the_matrix_does_as_the_book_says() {
    let (Some(tools), Some(python)) = (RocksDbTools::find(), Python::find()) else { return };
    let mut cast = Cast::new(tools.ignoring_unknown_options(), &python);
    let mut table = Vec::new();
    let mut failures = Vec::new();
    for (number, feature) in FEATURES.iter().enumerate() {
        let mut row = Vec::new();
        for route in Route::ALL {
            if let Some(reason) = route.hindrance(feature) {
                row.push(Outcome::Unsupported(reason));
                continue;
            }
            if let Err(message) = cast.play(route, feature, number as u64) {
                failures.push(format!("{}, {}: {message}", feature.name, route.title()));
            }
            row.push(Outcome::Passed);
        }
        table.push((feature, row));
    }
    assert!(failures.is_empty(), "\n{}\n", failures.join("\n"));
    let page = page::render(&table);
    print!("{page}");
    let passed = table.iter().flat_map(|(_, row)| row).filter(|outcome| matches!(outcome, Outcome::Passed)).count();
    assert!(passed >= FEWEST, "{passed} cells pass");
    page::keep(&page);
}
