//! From entries to values: what readers see of a key's versions.
//!
//! A put is its value, and every read knows that by itself. Everything else comes here: operands, which need older versions.

use super::column_family::Family;
use super::ranges::range_view;
use super::read::unsupported_entry;
use super::state::DbInner;
use super::super_version::SuperVersion;
use crate::iterator::InternalIterator;
use crate::key::{InternalKeyComparator, LookupKey, ParsedKey, SeqNo, ValueType};
use crate::merge::{MergeOperator, Operands, full_merge, no_operator};
use crate::metrics::{Counter, Metrics};
use crate::options::ColumnFamilyOptions;
use crate::sst::TableReadOptions;
use siltstone_base::sync::Arc;
use siltstone_base::{ErrorKind, Result};
use std::borrow::Cow;

/// How the entries of one family become values.
#[derive(Debug)]
pub(crate) struct Resolver {
    family_name: String,
    merge_operator: Option<Arc<dyn MergeOperator>>,
}

impl Resolver {
    pub(crate) fn new(family_name: &str, options: &ColumnFamilyOptions) -> Self {
        Self { family_name: family_name.to_owned(), merge_operator: options.merge_operator.clone() }
    }

    /// The value of a key whose newest visible entry is of type `kind` and holds `stored`; `None` for a tombstone. Operands are for
    /// [`merged`](Self::merged).
    pub(crate) fn value<'a>(&self, kind: ValueType, stored: &'a [u8]) -> Result<Option<Cow<'a, [u8]>>> {
        match kind {
            ValueType::Put => Ok(Some(Cow::Borrowed(stored))),
            ValueType::Delete | ValueType::SingleDelete => Ok(None),
            other => Err(unsupported_entry(other)),
        }
    }

    /// The value of `key` that has `operands`, oldest first, over `base`: the entry behind them, if there is one.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if the family has no merge operator, and those of [`full_merge`].
    pub(crate) fn merged(
        &self,
        key: &[u8],
        base: Option<(ValueType, &[u8])>,
        operands: &[&[u8]],
        metrics: &Metrics,
    ) -> Result<Vec<u8>> {
        let Some(operator) = &self.merge_operator else { return Err(no_operator(&self.family_name)) };
        let existing = match base {
            Some((kind, stored)) => self.value(kind, stored)?,
            None => None,
        };
        let merged = full_merge(&**operator, &self.family_name, key, existing.as_deref(), operands);
        if merged.as_ref().is_err_and(|error| error.kind() == ErrorKind::MergeFailed) {
            metrics.add(Counter::MergeFailures, 1);
        }
        merged
    }
}

/// The versions of one key, newest first, as far as its value depends on them.
struct Versions<'a> {
    order: &'a InternalKeyComparator,
    lookup: &'a LookupKey,
    /// Range tombstones hide versions of smaller numbers.
    covering: SeqNo,
    /// Newest first.
    operands: Operands,
    base: Option<(ValueType, Vec<u8>)>,
}

impl Versions<'_> {
    /// Takes the versions in `source`, which are older than those before. Returns whether older ones matter.
    fn take(&mut self, source: &mut impl InternalIterator) -> Result<bool> {
        source.seek(self.lookup.internal_key());
        while source.valid() {
            let parsed = ParsedKey::parse(source.key())?;
            if self.order.compare_user(parsed.user_key, self.lookup.user_key()).is_ne() {
                break;
            }
            if parsed.seqno < self.covering {
                return Ok(false);
            }
            match parsed.value_type {
                ValueType::Merge => self.operands.push(source.value()),
                ValueType::Delete | ValueType::SingleDelete => return Ok(false),
                kind => {
                    self.base = Some((kind, source.value().to_vec()));
                    return Ok(false);
                }
            }
            source.next();
        }
        source.status()?;
        Ok(true)
    }
}

impl DbInner {
    /// The value of a key whose newest visible version is an operand: looks at all sources again.
    #[cold]
    pub(super) fn get_merged(
        &self,
        family: &Family,
        pinned: &SuperVersion,
        lookup: &LookupKey,
        options: &TableReadOptions,
    ) -> Result<Vec<u8>> {
        let covering = match range_view(family, pinned, lookup.seqno())? {
            None => 0,
            Some(mut ranges) => ranges.covering(lookup.user_key())?,
        };
        let order = &family.comparator;
        let mut versions = Versions { order, lookup, covering, operands: Operands::default(), base: None };
        let mut goes_on = true;
        for memtable in std::iter::once(&pinned.memtable).chain(pinned.immutables.newest_first()) {
            goes_on = goes_on && versions.take(&mut memtable.iter())?;
        }
        if goes_on {
            let table_cache = &family.table_cache;
            pinned.version.visit(table_cache, options, lookup, &mut |source| versions.take(source))?;
        }
        let base = versions.base.as_ref().map(|(kind, stored)| (*kind, stored.as_slice()));
        family.resolver.merged(lookup.user_key(), base, &versions.operands.reversed(), &self.metrics)
    }
}
