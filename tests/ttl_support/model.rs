//! What was written, and which of it is expired: found out by looking at the time again and again, not by remembering durations.

use siltstone::ttl::StampLayout;
use std::collections::BTreeMap;

/// Keys and values as they are stored.
pub type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

/// A family.
#[derive(Debug)]
pub struct Model {
    layout: StampLayout,
    pub rows: Rows,
    /// Keys that a single delete may delete: they were put once.
    pub put_once: Vec<Vec<u8>>,
    /// Stamps up to here are expired for good.
    floor: u64,
    /// The same as far as changes of the duration say so, which a crash does not forget.
    lasting_floor: u64,
    /// When a duration that was given came into force last.
    pub changed: u64,
    /// In force.
    pub duration: u64,
    /// The next duration, and from when on it is in force.
    next: Option<(u64, u64)>,
}

impl Model {
    pub fn new(layout: StampLayout, duration: u64) -> Self {
        Self {
            layout,
            rows: Rows::new(),
            put_once: Vec::new(),
            floor: 0,
            lasting_floor: 0,
            changed: 0,
            duration,
            next: None,
        }
    }

    /// It is `now`: what is expired stays so, unless the time may be taken back.
    pub fn look(&mut self, now: u64, is_trusted: bool) {
        if let Some((since, duration)) = self.next.filter(|(since, _)| *since <= now) {
            self.raise((since - 1).saturating_sub(self.duration));
            (self.duration, self.next) = (duration, None);
        }
        if is_trusted {
            self.floor = self.bound(now);
        }
    }

    fn raise(&mut self, stamp: u64) {
        self.floor = self.floor.max(stamp);
        self.lasting_floor = self.lasting_floor.max(stamp);
    }

    /// Time went back by a crash: rows that expired meanwhile may be seen again, unless they were removed. Returns those that must be seen at `now`.
    pub fn went_back(&mut self, now: u64) -> Rows {
        let still_there = self.visible(now);
        self.floor = self.lasting_floor;
        still_there
    }

    fn bound(&self, now: u64) -> u64 {
        self.floor.max(now.saturating_sub(self.duration))
    }

    /// Another duration was given at `now`.
    pub fn change(&mut self, duration: u64, now: u64) {
        self.next = (duration != self.duration).then_some((now + 1, duration));
        self.changed = now + 1;
    }

    /// The duration that was given last.
    pub fn given(&self) -> u64 {
        self.next.map_or(self.duration, |(_, duration)| duration)
    }

    /// The engine was opened at `known`, a time that is trusted, with `duration`.
    pub fn reopened(&mut self, duration: u64, known: u64) {
        // One that is in force from a later second on never was: nobody has read by it.
        if let Some((since, given)) = self.next.take().filter(|(since, _)| *since <= known) {
            self.raise((since - 1).saturating_sub(self.duration));
            self.duration = given;
        }
        if duration != self.duration {
            self.floor = self.bound(known);
            self.raise(known.saturating_sub(self.duration));
            self.duration = duration;
        }
    }

    /// What a read at `now` shows.
    pub fn visible(&self, now: u64) -> Rows {
        let bound = self.bound(now);
        let is_visible = |value: &[u8]| self.layout.split(value).map_or(true, |(_, stamp)| stamp > bound);
        let rows = self.rows.iter().filter(|(_, value)| is_visible(value));
        rows.map(|(key, value)| (key.clone(), value.clone())).collect()
    }
}
