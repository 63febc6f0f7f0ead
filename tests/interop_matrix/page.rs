//! The page about compatibility.

use super::routes::Route;
use super::{Outcome, Table};
use crate::interop_tools::repository;

/// What stands before the table.
const FRONT: &str = "\
# Compatibility

Which features of RocksDB's format pass from engine to engine. In every cell the first engine writes tables with the feature and a WAL, the second one reads all rows and
compacts them, the first one reads them again and writes more, and the second one reads that. An independent reader checks every byte in between.
9.8.4 is RocksDB as the Python package `rocksdict` has it; 7.8.3 is `db_bench` and `ldb`.

`cargo test --test interop` fills the cells and fails where this page differs; with `SILTSTONE_REWRITE_PAGES=1` it writes the page.
`scripts/interop-11` plays the same with RocksDB 11.8.1, and keeps the second table.

`Db::open` opens every column family of a directory; those with a comparator or merge operator of their own are named with it (`Db::open_families`), and one of another name is refused. Options are the program's, not those of the OPTIONS file;
`Db::load_latest_options` reads these. Read and never written are blob files, entities and, with the feature `bzip2`, tables compressed so. Families whose keys have timestamps are opened by `Db::open_read_only` alone.
Not supported are `ingest_behind`, transactions of other policies than write-committed, and a WAL directory apart.

";

/// What stands before the table of RocksDB 11.8.1, and ends the other one.
const FRONT_OF_11: &str =
    "\n## With RocksDB 11.8.1\n\nIts tables have format_version 6 where the feature does not say.\n\n";

/// A part of the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// What `cargo test` can play.
    Packaged,
    /// What needs RocksDB 11.8.1.
    With11,
}

/// The table as Markdown.
pub fn render(table: &Table, routes: &[Route]) -> String {
    let titles: Vec<&str> = routes.iter().map(|route| route.title()).collect();
    let mut page = format!("| feature | {} |\n| --- {}|\n", titles.join(" | "), "| --- ".repeat(routes.len()));
    let (mut passed, mut all) = (0, 0);
    for (feature, row) in table {
        let cells: Vec<&str> = row
            .iter()
            .map(|outcome| match outcome {
                Outcome::Passed => "yes",
                Outcome::Unsupported(reason) => reason,
            })
            .collect();
        passed += cells.iter().filter(|cell| **cell == "yes").count();
        all += cells.len();
        page.push_str(&format!("| {}: {} | {} |\n", feature.group, feature.name, cells.join(" | ")));
    }
    page.push_str(&format!("\n{passed} of {all} cells pass.\n"));
    page
}

/// Compares a part of the page with the one in the book, or writes it there.
#[expect(clippy::disallowed_methods, reason = "a page of the book is no file of an engine")]
pub fn keep(part: Part, table: &str) {
    let path = repository("docs/src/compatibility.md");
    let page = std::fs::read_to_string(&path).unwrap_or_default();
    let (first, second) = page.split_once(FRONT_OF_11).unwrap_or((&page, ""));
    let now = match part {
        Part::Packaged => format!("{FRONT}{table}{FRONT_OF_11}{second}"),
        Part::With11 => format!("{first}{FRONT_OF_11}{table}"),
    };
    if std::env::var_os("SILTSTONE_REWRITE_PAGES").is_some() {
        std::fs::write(&path, &now).unwrap();
    } else {
        assert!(page == now, "docs/src/compatibility.md says something else: run with SILTSTONE_REWRITE_PAGES=1");
    }
}
