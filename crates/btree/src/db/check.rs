//! Checking all trees, each by itself.

use super::CheckReport;
use super::state::{OpenTree, State};
use siltstone_base::Result;
use siltstone_base::sync::Arc;

impl State {
    /// Walks all trees. For who holds the lock of writers.
    pub(super) fn check_trees(&self) -> Result<CheckReport> {
        self.catalog.check()?;
        let tables = self.tables.all();
        let mut trees: Vec<(Arc<OpenTree>, bool)> =
            self.trees.read().values().map(|tree| (Arc::clone(tree), false)).collect();
        for table in &tables {
            trees.extend(table.trees().enumerate().map(|(number, tree)| (Arc::clone(tree), number > 0)));
        }
        let (undo, kept) = self.undo.check()?;
        let spaces = trees.iter().map(|(tree, _)| (tree.tree().space(), tree.tree())).collect();
        let changes = self.changes.check(&spaces)?;
        let mut report = CheckReport {
            trees: trees.len() as u64,
            tables: tables.len() as u64,
            undo_records: undo.rows,
            lost_pages: undo.lost_pages + changes.lost_pages,
            buffered_entries: changes.ops,
            ..CheckReport::default()
        };
        for (tree, is_index) in &trees {
            let found = tree.tree().check()?;
            *(if *is_index { &mut report.index_entries } else { &mut report.rows }) += found.rows;
            report.deleted_rows += found.deleted_rows;
            report.levels = report.levels.max(found.levels);
            report.leaf_pages += found.leaf_pages;
            report.inner_pages += found.inner_pages;
            report.overflow_pages += found.overflow_pages;
            report.free_pages += found.free_pages;
            let kept = kept.get(&tree.tree().space()).copied().unwrap_or_default();
            report.kept_pages += kept;
            report.lost_pages += found.lost_pages.saturating_sub(kept);
            report.leaf_bytes_used += found.leaf_bytes_used;
        }
        Ok(report)
    }
}
