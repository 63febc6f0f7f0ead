//! How many bytes of a table have which stamps.
//!
//! Of each group of rows it has up to [`MAX_BUCKETS`] buckets, each with the latest stamp in it: rows that it counts as expired are. It is a hint: a table
//! without one, or with one of another policy, or of which a number does not fit, has none.

use siltstone_base::coding::{
    get_length_prefixed, get_varint32, get_varint64, put_length_prefixed, put_varint32, put_varint64,
};
use siltstone_base::expiry::Stamp;
use std::collections::BTreeMap;

/// Most buckets of a group.
const MAX_BUCKETS: usize = 128;
/// Most buckets of a group, where there are many.
const MAX_BUCKETS_OF_MANY: usize = 16;
/// So many groups are many.
const MANY_GROUPS: usize = 8;
/// More groups than these are not told apart: there is no histogram then.
const MAX_GROUPS: usize = 1024;

/// The form of the property.
const FORM: u32 = 1;

/// Rows whose stamps are in one stretch of time, and all before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Bucket {
    /// The latest stamp.
    latest: u64,
    /// Rows of this bucket and those before it.
    rows: u64,
    /// Their bytes.
    bytes: u64,
}

/// The stamps of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Group {
    group: u32,
    /// Ascending by stamp; at least one.
    buckets: Vec<Bucket>,
}

impl Group {
    /// What is expired for certain, given the latest expired stamp.
    fn expired(&self, bound: Option<u64>) -> Tally {
        let Some(bound) = bound else { return Tally::default() };
        let count = self.buckets.partition_point(|bucket| bucket.latest <= bound);
        let last = count.checked_sub(1).and_then(|index| self.buckets.get(index));
        last.map_or(Tally::default(), |last| Tally { rows: last.rows, bytes: last.bytes })
    }
}

/// Rows and their bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) rows: u64,
    pub(crate) bytes: u64,
}

/// A group of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GroupTally {
    pub(crate) all: Tally,
    /// What is expired for certain.
    pub(crate) expired: Tally,
    /// The earliest stamp, as far as the buckets tell.
    pub(crate) earliest: u64,
}

/// The stamps of a table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct StampHistogram {
    /// The name of the policy that told them.
    policy: String,
    /// Ascending.
    groups: Vec<Group>,
    /// Entries that are no row with a stamp: such never expire.
    others: Tally,
}

impl StampHistogram {
    /// The name of the policy that told the stamps.
    pub(crate) fn policy(&self) -> &str {
        &self.policy
    }

    /// All entries.
    pub(crate) fn all(&self) -> Tally {
        self.groups.iter().filter_map(|group| group.buckets.last()).fold(self.others, |sum, last| Tally {
            rows: sum.rows.saturating_add(last.rows),
            bytes: sum.bytes.saturating_add(last.bytes),
        })
    }

    /// What is expired for certain, given the latest expired stamp of each group.
    pub(crate) fn expired(&self, bound: impl Fn(u32) -> Option<u64>) -> Tally {
        let expired = self.groups.iter().map(|group| group.expired(bound(group.group)));
        expired.fold(Tally::default(), |sum, group| Tally {
            rows: sum.rows.saturating_add(group.rows),
            bytes: sum.bytes.saturating_add(group.bytes),
        })
    }

    /// One group, if the table has rows of it; `bound` is its latest expired stamp.
    pub(crate) fn of_group(&self, group: u32, bound: Option<u64>) -> Option<GroupTally> {
        let index = self.groups.binary_search_by_key(&group, |group| group.group).ok()?;
        let group = self.groups.get(index)?;
        let (first, last) = (group.buckets.first()?, group.buckets.last()?);
        let all = Tally { rows: last.rows, bytes: last.bytes };
        Some(GroupTally { all, expired: group.expired(bound), earliest: first.latest })
    }

    /// Whether all of it is expired.
    pub(crate) fn is_all_expired(&self, bound: impl Fn(u32) -> Option<u64>) -> bool {
        let is_expired = |group: &Group| {
            let latest = group.buckets.last().map(|last| last.latest);
            latest.zip(bound(group.group)).is_some_and(|(latest, bound)| latest <= bound)
        };
        self.others.rows == 0 && !self.groups.is_empty() && self.groups.iter().all(is_expired)
    }

    /// The latest stamp of each group, if nothing but rows with stamps is there.
    pub(crate) fn latest(&self) -> Option<impl Iterator<Item = Stamp>> {
        let latest = |group: &Group| Some(Stamp { group: group.group, seconds: group.buckets.last()?.latest });
        (self.others.rows == 0 && !self.groups.is_empty()).then(|| self.groups.iter().filter_map(latest))
    }

    /// The earliest stamp of each group, as far as the buckets tell.
    pub(crate) fn earliest(&self) -> impl Iterator<Item = Stamp> {
        self.groups
            .iter()
            .filter_map(|group| Some(Stamp { group: group.group, seconds: group.buckets.first()?.latest }))
    }

    /// The property.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_varint32(&mut out, FORM);
        put_length_prefixed(&mut out, self.policy.as_bytes());
        put_varint64(&mut out, self.others.rows);
        put_varint64(&mut out, self.others.bytes);
        put_varint64(&mut out, self.groups.len() as u64);
        for group in &self.groups {
            put_varint32(&mut out, group.group);
            put_varint64(&mut out, group.buckets.len() as u64);
            let mut before = Bucket { latest: 0, rows: 0, bytes: 0 };
            for bucket in &group.buckets {
                put_varint64(&mut out, bucket.latest - before.latest);
                put_varint64(&mut out, bucket.rows - before.rows);
                put_varint64(&mut out, bucket.bytes - before.bytes);
                before = *bucket;
            }
        }
        out
    }

    /// What was encoded; `None` for anything else.
    pub(crate) fn decode(mut input: &[u8]) -> Option<Self> {
        let input = &mut input;
        if get_varint32(input)? != FORM {
            return None;
        }
        let policy = std::str::from_utf8(get_length_prefixed(input)?).ok()?.to_owned();
        let others = Tally { rows: get_varint64(input)?, bytes: get_varint64(input)? };
        let count = get_varint64(input)?;
        let mut all = others;
        let mut groups: Vec<Group> = Vec::new();
        for _ in 0..count {
            let group = get_varint32(input)?;
            let len = get_varint64(input)?;
            if groups.len() == MAX_GROUPS || len == 0 || groups.last().is_some_and(|last| last.group >= group) {
                return None;
            }
            let mut buckets: Vec<Bucket> = Vec::new();
            let mut last = Bucket { latest: 0, rows: 0, bytes: 0 };
            for _ in 0..len {
                let (step, rows, bytes) = (get_varint64(input)?, get_varint64(input)?, get_varint64(input)?);
                if buckets.len() == MAX_BUCKETS || (step == 0 && !buckets.is_empty()) {
                    return None;
                }
                last = Bucket {
                    latest: last.latest.checked_add(step)?,
                    rows: last.rows.checked_add(rows)?,
                    bytes: last.bytes.checked_add(bytes)?,
                };
                buckets.push(last);
            }
            all = Tally { rows: all.rows.checked_add(last.rows)?, bytes: all.bytes.checked_add(last.bytes)? };
            groups.push(Group { group, buckets });
        }
        input.is_empty().then_some(Self { policy, groups, others })
    }
}

/// Gathers the stamps of a table.
#[derive(Debug)]
pub(crate) struct HistogramBuilder {
    policy: String,
    groups: BTreeMap<u32, GroupBuilder>,
    others: Tally,
    /// There are too many groups.
    is_given_up: bool,
}

#[derive(Debug, Default)]
struct GroupBuilder {
    /// A bucket has stamps that are equal but for so many low bits.
    shift: u32,
    /// By the high bits of stamps: the latest stamp, rows, bytes.
    buckets: BTreeMap<u64, (u64, Tally)>,
}

impl GroupBuilder {
    fn add(&mut self, stamp: u64, rows: Tally, most: usize) {
        self.put(stamp >> self.shift, stamp, rows);
        while self.buckets.len() > most {
            self.shift += 1;
            for (_, (latest, rows)) in std::mem::take(&mut self.buckets) {
                self.put(latest >> self.shift, latest, rows);
            }
        }
    }

    fn put(&mut self, high: u64, stamp: u64, added: Tally) {
        let (latest, tally) = self.buckets.entry(high).or_default();
        *latest = stamp.max(*latest);
        tally.rows += added.rows;
        tally.bytes += added.bytes;
    }
}

impl HistogramBuilder {
    /// Of no rows so far; `policy` tells their stamps.
    pub(crate) fn new(policy: &str) -> Self {
        Self { policy: policy.to_owned(), groups: BTreeMap::new(), others: Tally::default(), is_given_up: false }
    }

    /// Adds an entry of so many bytes; without a stamp if it never expires.
    pub(crate) fn add(&mut self, stamp: Option<Stamp>, bytes: usize) {
        let entry = Tally { rows: 1, bytes: bytes as u64 };
        let Some(stamp) = stamp else {
            self.others.rows += 1;
            self.others.bytes += entry.bytes;
            return;
        };
        if self.groups.len() >= MAX_GROUPS && !self.groups.contains_key(&stamp.group) {
            self.is_given_up = true;
            return;
        }
        let most = if self.groups.len() > MANY_GROUPS { MAX_BUCKETS_OF_MANY } else { MAX_BUCKETS };
        self.groups.entry(stamp.group).or_default().add(stamp.seconds, entry, most);
    }

    /// The histogram; `None` if there can be none.
    pub(crate) fn finish(self) -> Option<StampHistogram> {
        if self.is_given_up {
            return None;
        }
        let groups = self.groups.into_iter().map(|(group, builder)| {
            let mut sum = Tally::default();
            let buckets = builder.buckets.into_values().map(|(latest, tally)| {
                sum = Tally { rows: sum.rows + tally.rows, bytes: sum.bytes + tally.bytes };
                Bucket { latest, rows: sum.rows, bytes: sum.bytes }
            });
            Group { group, buckets: buckets.collect() }
        });
        let groups = groups.collect();
        Some(StampHistogram { policy: self.policy, groups, others: self.others })
    }
}
