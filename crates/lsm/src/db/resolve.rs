//! From entries to values: what readers see of a key's versions.
//!
//! A put is its value, and every read knows that by itself. Everything else comes here: operands, which need older versions.

use super::column_family::Family;
use super::ranges::range_view;
use super::read::unsupported_entry;
use super::state::DbInner;
use super::super_version::SuperVersion;
use crate::blob::BlobFiles;
use crate::iterator::InternalIterator;
use crate::key::{InternalKeyComparator, LookupKey, ParsedKey, SeqNo, ValueType};
use crate::merge::{MergeOperator, Operands, full_merge, no_operator};
use crate::metrics::{Counter, HistogramKind, Metrics, PerfTime, times};
use crate::options::{ColumnFamilyOptions, ReadOptions, ReadTier};
use crate::sst::TableReadOptions;
use crate::wide_columns::{WideColumn, columns, default_column};
use siltstone_base::sync::Arc;
use siltstone_base::{Error, ErrorKind, Result};
use std::borrow::Cow;

/// How the entries of one family become values.
#[derive(Debug)]
pub(crate) struct Resolver {
    family_name: String,
    merge_operator: Option<Arc<dyn MergeOperator>>,
    blob_files: Arc<BlobFiles>,
}

impl Resolver {
    pub(crate) fn new(family_name: &str, options: &ColumnFamilyOptions, blob_files: &Arc<BlobFiles>) -> Self {
        Self {
            family_name: family_name.to_owned(),
            merge_operator: options.merge_operator.clone(),
            blob_files: Arc::clone(blob_files),
        }
    }

    /// Whether operands can be put together.
    pub(crate) fn has_operator(&self) -> bool {
        self.merge_operator.is_some()
    }

    /// The value of `key`, whose newest visible entry is of type `kind` and holds `stored`; `None` for a tombstone. Of an entity: its default
    /// column. Operands are for [`merged`](Self::merged).
    ///
    /// # Errors
    ///
    /// `Corruption` for bytes that are not of their type, `Incomplete` if `read_tier` forbids to read a blob file, and errors of that.
    pub(crate) fn value<'a>(
        &self,
        key: &[u8],
        kind: ValueType,
        stored: &'a [u8],
        read_tier: ReadTier,
    ) -> Result<Option<Cow<'a, [u8]>>> {
        match kind {
            ValueType::Put => Ok(Some(Cow::Borrowed(stored))),
            ValueType::Delete | ValueType::SingleDelete | ValueType::DeleteWithTimestamp => Ok(None),
            ValueType::WideColumnEntity => Ok(Some(Cow::Borrowed(default_column(stored)?))),
            ValueType::TimedPut => match stored.split_last_chunk::<8>() {
                Some((value, _preferred_seqno)) => Ok(Some(Cow::Borrowed(value))),
                None => Err(Error::corrupt("timed put without its sequence number")),
            },
            ValueType::BlobIndex if read_tier == ReadTier::BlockCache => {
                Err(Error::new(ErrorKind::Incomplete, "blobs are not cached"))
            }
            ValueType::BlobIndex => Ok(Some(Cow::Owned(self.blob_files.value(key, stored)?))),
            ValueType::Merge | ValueType::RangeDelete => Err(unsupported_entry(kind)),
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
        read_tier: ReadTier,
        metrics: &Metrics,
    ) -> Result<Vec<u8>> {
        let Some(operator) = &self.merge_operator else { return Err(no_operator(&self.family_name)) };
        let existing = match base {
            Some((kind, stored)) => self.value(key, kind, stored, read_tier)?,
            None => None,
        };
        metrics.record(HistogramKind::ReadNumMergeOperands, operands.len() as u64);
        let began = metrics.begin();
        let merged = times::timed(PerfTime::MergeOperator, || {
            full_merge(&**operator, &self.family_name, key, existing.as_deref(), operands)
        });
        if let Some(nanos) = metrics.nanos_since(began) {
            metrics.add(Counter::MergeOperationNanos, nanos);
        }
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
    /// The entry that the operands are merged into.
    fn base(&self) -> Option<(ValueType, &[u8])> {
        self.base.as_ref().map(|(kind, stored)| (*kind, stored.as_slice()))
    }

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
                ValueType::Delete | ValueType::SingleDelete | ValueType::DeleteWithTimestamp => return Ok(false),
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
    /// Looks at all sources for the versions that the value of a key depends on.
    fn versions<'a>(
        &self,
        family: &'a Family,
        pinned: &SuperVersion,
        lookup: &'a LookupKey,
        options: &TableReadOptions,
    ) -> Result<Versions<'a>> {
        let covering = match range_view(family, pinned, lookup.seqno(), 0, options.read_tier)? {
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
            pinned.version.visit(table_cache, options, lookup, 0, &mut |source| versions.take(source))?;
        }
        Ok(versions)
    }

    /// The value of a key whose newest visible version is an operand.
    #[cold]
    pub(super) fn get_merged(
        &self,
        family: &Family,
        pinned: &SuperVersion,
        lookup: &LookupKey,
        options: &TableReadOptions,
    ) -> Result<Vec<u8>> {
        let versions = self.versions(family, pinned, lookup, options)?;
        let operands = versions.operands.reversed();
        family.resolver.merged(lookup.user_key(), versions.base(), &operands, options.read_tier, &self.metrics)
    }

    /// The columns of `key`, or `None` if it has no value.
    pub(crate) fn get_entity(
        &self,
        family: &Family,
        key: &[u8],
        options: &ReadOptions,
    ) -> Result<Option<Vec<WideColumn>>> {
        // The order matters: see `SuperVersion`.
        let pinned = family.super_version.load();
        self.check_readable(family)?;
        if family.timestamps.is_some() || options.timestamp.is_some() {
            return Err(Error::not_supported("the columns of keys with timestamps"));
        }
        let lookup = LookupKey::new(key, self.read_seqno(options)?);
        let versions = self.versions(family, &pinned, &lookup, &options.into())?;
        let base = versions.base();
        let stored = match base {
            Some((ValueType::WideColumnEntity, stored)) => columns(stored)?,
            _ => Vec::new(),
        };
        let has_default = stored.first().is_some_and(|(name, _)| name.is_empty());
        let default = match (base, versions.operands.is_empty()) {
            (None, true) => return Ok(None),
            (Some((ValueType::WideColumnEntity, _)), true) if !has_default => None,
            (Some((kind, stored)), true) => {
                family.resolver.value(key, kind, stored, options.read_tier)?.map(Cow::into_owned)
            }
            (base, false) => {
                let operands = versions.operands.reversed();
                Some(family.resolver.merged(key, base, &operands, options.read_tier, &self.metrics)?)
            }
        };
        if let (Some(expiry), Some(value)) = (&family.expiry, &default)
            && self.unexpired(expiry, key, Some(value), self.read_time(options)).is_none()
        {
            return Ok(None);
        }
        let default = default.into_iter().map(|value| WideColumn { name: Vec::new(), value });
        let others = stored.iter().filter(|(name, _)| !name.is_empty());
        let others = others.map(|(name, value)| WideColumn { name: name.to_vec(), value: value.to_vec() });
        Ok(Some(default.chain(others).collect()))
    }
}
