//! How much of what an engine holds is expired: found by looking at every entry that there is, also at those that reads do not show.

use super::generator::{DAY, is_idle};
use super::ladder::{LAYOUT, Opened, VALID_DAYS};
use siltstone_base::Result;
use siltstone_base::engine::KvCursor;
use siltstone_lsm::{ColumnFamilyOptions, Db, DbOptions, LiveFileKind, SstFileReader, ValueType};

/// Of the idle range only rows count that expired so many days ago.
const IDLE_GRACE_DAYS: u64 = 3;

/// Entries that are looked at in a B-tree before others may go on.
const CHUNK: usize = 1000;

/// Bytes of keys and values.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Shares {
    pub all: u64,
    pub expired: u64,
    pub idle: u64,
    /// Of the idle range: rows that expired some days ago.
    pub idle_expired: u64,
}

impl Shares {
    fn add(&mut self, key: &[u8], value: Option<&[u8]>, now: u64) {
        let bytes = (key.len() + value.map_or(0, <[u8]>::len)) as u64;
        let stamp = value.and_then(|value| LAYOUT.split(value).ok()).map(|(_, stamp)| stamp);
        let is_expired_for = |days: u64| stamp.is_some_and(|stamp| stamp + (VALID_DAYS + days) * DAY <= now);
        self.all += bytes;
        self.expired += if is_expired_for(0) { bytes } else { 0 };
        if is_idle(key) {
            self.idle += bytes;
            self.idle_expired += if is_expired_for(IDLE_GRACE_DAYS) { bytes } else { 0 };
        }
    }

    /// Of `part` in `whole`.
    fn of(part: u64, whole: u64) -> f64 {
        if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
    }

    /// What is expired of all.
    pub(super) fn expired_share(&self) -> f64 {
        Self::of(self.expired, self.all)
    }

    /// What is expired of the idle range.
    pub(super) fn idle_expired_share(&self) -> f64 {
        Self::of(self.idle_expired, self.idle)
    }

    /// What there is at `now`, in Unix seconds.
    pub(super) fn look(opened: &Opened, now: u64) -> Result<Self> {
        match (&opened.lsm, &opened.btree) {
            (Some(db), _) => Self::of_tables(db, now),
            (None, Some(db)) => Self::of_rows(|| Ok(Box::new(db.cursor_with_expired()?)), now),
            (None, None) => Self::of_rows(|| opened.engine.as_kv()?.cursor(), now),
        }
    }

    /// Every entry of every table, read past the engine.
    fn of_tables(db: &Db, now: u64) -> Result<Self> {
        db.disable_file_deletions();
        let looked = Self::of_live_tables(db, now);
        db.enable_file_deletions();
        looked
    }

    fn of_live_tables(db: &Db, now: u64) -> Result<Self> {
        let mut shares = Self::default();
        let live = db.live_files()?;
        for file in live.of_kind(LiveFileKind::Table) {
            let (options, family) = (DbOptions::default(), ColumnFamilyOptions::default());
            let table = SstFileReader::open(db.dir().join(&file.name), &options, &family)?;
            let mut entries = table.iter();
            entries.seek_to_first();
            while entries.valid() {
                let value = (entries.value_type() == Some(ValueType::Put)).then(|| entries.value());
                shares.add(entries.key(), value, now);
                entries.next();
            }
            entries.status()?;
        }
        Ok(shares)
    }

    /// Every row of cursors that hide none.
    fn of_rows<'a>(make: impl Fn() -> Result<Box<dyn KvCursor + 'a>>, now: u64) -> Result<Self> {
        let mut shares = Self::default();
        let mut next = Vec::new();
        loop {
            let mut cursor = make()?;
            let mut is_there = cursor.seek(&next)?;
            for _ in 0..CHUNK {
                if !is_there {
                    return Ok(shares);
                }
                shares.add(cursor.key(), Some(cursor.value()), now);
                next = [cursor.key(), b"\0"].concat();
                is_there = cursor.next()?;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_count_where_they_lie_and_as_old_as_they_are() {
        let (now, mut shares) = (100 * DAY, Shares::default());
        let value = |days_ago: u64| LAYOUT.stamped(&[b'v'; 84], now - days_ago * DAY).unwrap();
        let (idle, other) = ([0_u8; 8], [0xFF_u8; 8]);
        for days_ago in [0, 59, 60, 62, 63] {
            shares.add(&idle, Some(&value(days_ago)), now);
            shares.add(&other, Some(&value(days_ago)), now);
        }
        shares.add(&idle, None, now);
        assert_eq!(shares, Shares { all: 1008, expired: 600, idle: 508, idle_expired: 100 });
        assert!((shares.idle_expired_share() - 100.0 / 508.0).abs() < 1e-9);
        assert_eq!(Shares::default().expired_share(), 0.0);
    }
}
