//! Direct files: what they asked for in advance, and what was appended to them and nobody has waited for.

use super::device::{Device, Range};
use crate::env::posix::{Beside, MOST_AHEAD, MOST_AT_ONCE, is_read_ahead};
use crate::sync::{Mutex, Rank};
use std::collections::VecDeque;

/// Taken below every lock of an engine.
const RANK: Rank = Rank(u16::MAX - 15);

/// The same, of the whole machine.
const ASKED_RANK: Rank = Rank(u16::MAX - 14);

/// Bytes that a direct file that is appended to writes at a time, while as many more are taken in.
const UNIT: u64 = 1 << 20;

/// When the ranges of all direct files will be there that are read in advance: as many at a time as the files beneath read. Whoever needs one of the others reads it himself.
pub(super) struct AllDirect {
    done: Mutex<Vec<u64>>,
    read_ahead: Beside,
    written_behind: Beside,
}

impl AllDirect {
    pub(super) fn new() -> Self {
        let done = Mutex::new(ASKED_RANK, Vec::new());
        Self { done, read_ahead: Beside::default(), written_behind: Beside::default() }
    }

    /// Whether one more may be read in advance at `now`.
    fn has_room(&self, now: u64) -> bool {
        if !self.read_ahead.is_of_use() {
            return false;
        }
        let mut done = self.done.lock();
        done.retain(|done| *done > now);
        done.len() < MOST_AT_ONCE
    }

    fn add(&self, done: u64) {
        self.done.lock().push(done);
    }
}

/// One open direct file.
pub(super) struct Direct {
    /// What was asked for in advance, the oldest first.
    ahead: Mutex<VecDeque<Ahead>>,
    behind: Mutex<Behind>,
}

/// A range on its way, and when it will be there.
struct Ahead {
    offset: u64,
    len: u64,
    asked: u64,
    done: u64,
}

/// What was appended and nobody has waited for.
#[derive(Default)]
struct Behind {
    bytes: u64,
    /// When the unit before was whole, and will be there.
    unit_begun: u64,
    unit_done: u64,
    /// When all of it will be.
    done: u64,
}

impl Direct {
    pub(super) fn new() -> Self {
        Self { ahead: Mutex::new(RANK, VecDeque::new()), behind: Mutex::new(RANK, Behind::default()) }
    }

    /// Reads a range since `begin`, unless just that was asked for in advance. Returns when it will be there.
    pub(super) fn read(&self, device: &Device, all: &AllDirect, begin: u64, range: Range) -> u64 {
        let Some(ahead) = self.take(range) else { return device.read(begin, range, false) };
        all.read_ahead.came(ahead.asked, begin, ahead.done);
        ahead.done
    }

    /// Asks for a range in advance.
    pub(super) fn ask(&self, device: &Device, all: &AllDirect, begin: u64, range: Range) {
        let Range { offset, len, .. } = range;
        if !is_read_ahead(offset, len) || !all.has_room(begin) {
            return;
        }
        let done = device.read(begin, range, false);
        all.add(done);
        let mut ahead = self.ahead.lock();
        if ahead.len() >= MOST_AHEAD {
            ahead.pop_front();
        }
        ahead.push_back(Ahead { offset, len, asked: begin, done });
    }

    fn take(&self, range: Range) -> Option<Ahead> {
        let mut ahead = self.ahead.lock();
        let at = ahead.iter().position(|ahead| ahead.offset == range.offset && ahead.len == range.len)?;
        ahead.remove(at)
    }

    /// What was asked for in advance at `offset` was read in vain.
    pub(super) fn forget(&self, offset: u64) {
        self.ahead.lock().retain(|ahead| ahead.offset != offset);
    }

    /// Appends since `begin`: a unit is written while the next one is taken in, so the end of the one before is waited for.
    pub(super) fn append(&self, device: &Device, all: &AllDirect, begin: u64, range: Range, goes_on: bool) {
        let Range { file, mut offset, len: mut left } = range;
        let mut goes_on = goes_on;
        while left > 0 {
            let (piece, before) = {
                let mut behind = self.behind.lock();
                let piece = left.min(UNIT - behind.bytes);
                behind.bytes += piece;
                behind.done = device.write(begin, Range { file, offset, len: piece }, goes_on);
                let is_whole = behind.bytes == UNIT;
                let done = behind.done;
                let before = is_whole.then(|| {
                    let begun = std::mem::replace(&mut behind.unit_begun, begin);
                    (begun, std::mem::replace(&mut behind.unit_done, done))
                });
                behind.bytes %= UNIT;
                (piece, before)
            };
            if let Some(before) = before {
                self.wait_for_unit(device, &all.written_behind, begin, before);
            }
            (offset, left, goes_on) = (offset + piece, left - piece, true);
        }
    }

    /// A unit is whole: waits for the one before, which will be there at `before`, or, where it is of no use to write behind, for this one.
    fn wait_for_unit(&self, device: &Device, beside: &Beside, now: u64, (begun, before): (u64, u64)) {
        if before > 0 {
            beside.came(begun, now, before);
        }
        let is_behind = beside.is_of_use();
        let wait = if is_behind { before } else { std::mem::take(&mut self.behind.lock().unit_done) };
        device.wait(wait);
    }

    /// Waits for all that was appended.
    pub(super) fn finish(&self, device: &Device) {
        let done = self.behind.lock().done;
        device.wait(done);
    }
}
