//! The tables that are open.

use super::index::Table;
use siltstone_base::sync::atomic::{AtomicBool, Ordering};
use siltstone_base::sync::{Arc, ArcSwap};
use std::ops::Deref;

/// Open tables, ascending by id. Replaced as a whole under the lock of the dictionary.
#[derive(Debug, Default)]
pub(super) struct OpenTables {
    tables: ArcSwap<Vec<Arc<Table>>>,
    has_had_lazy: AtomicBool,
}

impl OpenTables {
    /// The tables as they are now.
    #[inline]
    pub(super) fn load(&self) -> impl Deref<Target = Arc<Vec<Arc<Table>>>> + use<> {
        self.tables.load()
    }

    /// Replaces them.
    pub(super) fn store(&self, tables: Vec<Arc<Table>>) {
        if tables.iter().any(|table| table.definition.lazy) {
            // Before whoever may ask about one of them can know it.
            self.has_had_lazy.store(true, Ordering::Release);
        }
        self.tables.store(Arc::new(tables));
    }

    /// Whether a lazy table is open, or was. This is asked for every entry that a compaction meets.
    #[inline]
    pub(super) fn has_had_lazy(&self) -> bool {
        self.has_had_lazy.load(Ordering::Acquire)
    }
}
