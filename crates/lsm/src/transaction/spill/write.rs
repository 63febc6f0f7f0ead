//! From runs to tables that a database takes in.

use super::Spilled;
use super::collapse::{Amount, Collapse};
use crate::db::{ChangedTables, ColumnFamily, Depth};
use crate::iterator::InternalIterator;
use crate::key::{ParsedKey, ValueType};
use crate::memtable::Memtable;
use siltstone_base::Result;

/// Reads a key.
type ReadKey<'a> = &'a dyn Fn(&[u8]) -> Result<Option<Vec<u8>>>;

impl Spilled {
    /// Adds what all entries of a family amount to, those in `memtables` (newest first) as well, to `tables`. `read` reads a key, with all changes.
    ///
    /// # Errors
    ///
    /// Those of reading and writing files, and of merging.
    pub(in crate::transaction) fn write(
        &self,
        family: &ColumnFamily,
        memtables: &[&Memtable],
        tables: &mut ChangedTables,
        read: ReadKey<'_>,
    ) -> Result<()> {
        let (order, options) = (&family.0.comparator, family.options());
        let operator = options.merge_operator.as_deref();
        let in_memory: usize = memtables.iter().map(|memtable| memtable.approximate_memory_usage()).sum();
        tables.begin(family.0.id, self.file_bytes(family.0.id) + in_memory as u64)?;
        let mut end_key = |key: &[u8], collapse: &mut Collapse| {
            let (kind, value) = match collapse.finish(key, family.name(), operator)? {
                Amount::Entry { kind, value, over_single_delete } => {
                    if over_single_delete {
                        tables.add(Depth::Beneath, ValueType::SingleDelete, key, &[])?;
                    }
                    (kind, value)
                }
                // Nobody else changes it before the commit, or the commit fails.
                Amount::Unknown => match read(key)? {
                    Some(value) => (ValueType::Put, value),
                    None => (ValueType::Delete, Vec::new()),
                },
            };
            tables.add(Depth::Above, kind, key, &value)
        };
        let mut entries = self.entries(family.0.id, memtables, order);
        let (mut key, mut collapse) = (Vec::new(), Collapse::default());
        let mut is_begun = false;
        entries.seek_to_first()?;
        while entries.valid() {
            let parsed = ParsedKey::parse(entries.merged.key())?;
            if is_begun && order.compare_user(parsed.user_key, &key).is_ne() {
                end_key(&key, &mut collapse)?;
                is_begun = false;
            }
            if !is_begun {
                key.clear();
                key.extend_from_slice(parsed.user_key);
                is_begun = true;
            }
            collapse.take(&key, parsed.value_type, entries.merged.value(), operator);
            entries.next()?;
        }
        if is_begun { end_key(&key, &mut collapse) } else { Ok(()) }
    }
}
