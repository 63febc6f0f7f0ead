//! The events of the ad-serving workload: the same for every engine and every run of a seed.
//!
//! 1. A source has its events at even distances of time. An event is an upsert of one row.
//! 2. Half of the events are of a new row, whose number is drawn over all 64 bits: rows come in no order. The others are of one of the last rows of the source,
//!    whose values are written anew.
//! 3. Rows whose numbers lie in the first third are *idle*: from day 30 on their events are left out, so that a third of the key range is not written any more.
//!
//! A key has 16 bytes: the number of the row, and that of the source. A value has the stamp of its event (8 bytes, big-endian) and 300 bytes of text ([`payload`](super::payload)).

use super::payload::{self, PAYLOAD_BYTES};
use crate::Rng;
use std::collections::VecDeque;

/// Bytes of a key and of its value.
pub(super) const ROW_BYTES: usize = 16 + 8 + PAYLOAD_BYTES;

/// The first row that is not idle.
const IDLE_END: u64 = u64::MAX / 3;

/// From this day on idle rows are not written.
pub(super) const IDLE_DAY: u64 = 30;

/// Seconds of a day.
pub(super) const DAY: u64 = 86_400;

/// Rows of a source that may be written again.
const RECENT: usize = 4096;

/// Whether a key is of the range that becomes idle.
pub(super) fn is_idle(key: &[u8]) -> bool {
    key.first_chunk::<8>().is_some_and(|row| u64::from_be_bytes(*row) < IDLE_END)
}

/// The events of one source.
#[derive(Debug)]
pub(super) struct Generator {
    source: u64,
    rng: Rng,
    payloads: Rng,
    recent: VecDeque<u64>,
    /// Events so far, those left out included.
    events: u64,
    /// Events of a day.
    per_day: u64,
    value: Vec<u8>,
}

/// An upsert.
#[derive(Debug)]
pub(super) struct Event<'a> {
    /// When it happens, in microseconds from the beginning.
    pub micros: u64,
    /// The row, unless the event is left out: its key and its value.
    pub row: Option<([u8; 16], &'a [u8])>,
}

impl Generator {
    /// Of a source with so many events a day, the first at the wall time `begin`.
    pub(super) fn new(source: u64, per_day: u64, seed: u64) -> Self {
        Self {
            source,
            rng: Rng::new(seed, source),
            payloads: Rng::new(seed, source | 1 << 32),
            recent: VecDeque::with_capacity(RECENT),
            events: 0,
            per_day: per_day.max(1),
            value: Vec::with_capacity(8 + PAYLOAD_BYTES),
        }
    }

    /// The next event; `begin` is the wall time of the first one, in Unix seconds.
    pub(super) fn next(&mut self, begin: u64) -> Event<'_> {
        let micros = (u128::from(self.events) * u128::from(DAY) * 1_000_000 / u128::from(self.per_day)) as u64;
        self.events += 1;
        let (draw, place) = (self.rng.next_u64(), self.rng.next_u64());
        let row = match self.recent.len() as u64 {
            known if known > 0 && draw % 2 == 0 => self.recent.get((place % known) as usize).copied().unwrap_or(place),
            _ => {
                if self.recent.len() == RECENT {
                    self.recent.pop_front();
                }
                self.recent.push_back(place);
                place
            }
        };
        let seconds = micros / 1_000_000;
        if row < IDLE_END && seconds >= IDLE_DAY * DAY {
            return Event { micros, row: None };
        }
        let mut key = [0; 16];
        key[..8].copy_from_slice(&row.to_be_bytes());
        key[8..].copy_from_slice(&self.source.to_be_bytes());
        self.value.clear();
        self.value.extend_from_slice(&(begin + seconds).to_be_bytes());
        payload::append(&mut self.payloads, &mut self.value);
        Event { micros, row: Some((key, &self.value)) }
    }
}
