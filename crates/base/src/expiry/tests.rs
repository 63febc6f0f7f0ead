//! Tests of trusted time, and of the file EXPIRY.

use super::*;
use crate::ErrorKind;
use crate::clock::Clock;
use crate::sync::Arc;
use crate::sync::atomic::{AtomicU64, Ordering};
use proptest::prelude::*;
use std::time::Duration;

/// A clock whose two times move apart.
#[derive(Debug, Default)]
struct TwoTimes {
    micros: AtomicU64,
    seconds: AtomicU64,
}

impl TwoTimes {
    fn at(seconds: u64) -> Arc<Self> {
        let clock = Self::default();
        clock.seconds.store(seconds, Ordering::SeqCst);
        Arc::new(clock)
    }

    fn pass(&self, monotonic: u64, wall: i64) {
        self.micros.fetch_add(monotonic * 1_000_000, Ordering::SeqCst);
        self.seconds.store(self.unix_seconds().saturating_add_signed(wall), Ordering::SeqCst);
    }
}

impl Clock for TwoTimes {
    fn now_micros(&self) -> u64 {
        self.micros.load(Ordering::SeqCst)
    }

    fn unix_seconds(&self) -> u64 {
        self.seconds.load(Ordering::SeqCst)
    }

    fn sleep(&self, _: Duration) {}
}

const YEAR: u64 = 365 * 86_400;
const DAY: u64 = 86_400;

#[test]
fn time_follows_the_wall_no_faster_than_the_monotonic_clock() {
    let clock = TwoTimes::at(1000);
    let trusted = TrustedClock::new(clock.clone(), None, DAY);
    assert_eq!(trusted.trusted_now(), Some(1000));
    clock.pass(10, 10);
    assert_eq!(trusted.now(), 1010);
    clock.pass(10, YEAR as i64);
    assert_eq!(trusted.now(), 1020, "the wall clock jumped, and ten seconds passed");
    clock.pass(0, -(2 * YEAR as i64).min(1_000_000));
    assert_eq!(trusted.now(), 1020);
}

#[test]
fn time_stands_still_while_the_wall_clock_is_behind() {
    let clock = TwoTimes::at(1000);
    let trusted = TrustedClock::new(clock.clone(), None, DAY);
    clock.pass(100, 100);
    assert_eq!(trusted.now(), 1100);
    clock.pass(50, -500);
    assert_eq!(trusted.now(), 1100);
    clock.pass(600, 600);
    assert_eq!(trusted.now(), 1200);
}

#[test]
fn a_clock_that_went_back_before_the_opening_changes_nothing() {
    let clock = TwoTimes::at(1000);
    let trusted = TrustedClock::new(clock.clone(), Some(5000), DAY);
    assert_eq!((trusted.trusted_now(), trusted.distrusted()), (Some(5000), None));
    clock.pass(100, 100);
    assert_eq!(trusted.now(), 5000);
    clock.pass(4000, 4000);
    assert_eq!(trusted.now(), 5100);
}

#[test]
fn a_jump_at_the_opening_is_not_trusted_until_it_is_confirmed() {
    let clock = TwoTimes::at(1000 + YEAR);
    let trusted = TrustedClock::new(clock.clone(), Some(1000), DAY);
    assert_eq!(trusted.distrusted(), Some(ClockJump { known: 1000, found: 1000 + YEAR }));
    assert_eq!((trusted.trusted_now(), trusted.trusted_or_known(), trusted.now()), (None, 1000, 1000 + YEAR));
    clock.pass(10, 10);
    assert_eq!(trusted.trusted_or_known(), 1000);
    trusted.confirm();
    assert_eq!((trusted.trusted_now(), trusted.distrusted()), (Some(1010 + YEAR), None));
}

#[test]
fn jumps_up_to_the_limit_are_trusted_and_without_a_limit_all_are() {
    let is_trusted =
        |jump, limit| TrustedClock::new(TwoTimes::at(1000 + jump), Some(1000), limit).trusted_now().is_some();
    assert!(is_trusted(DAY, DAY) && !is_trusted(DAY + 1, DAY) && is_trusted(YEAR, 0));
}

#[test]
fn a_held_time_stands_still_for_everybody_and_then_goes_on() {
    let clock = TwoTimes::at(1000);
    let trusted = TrustedClock::new(clock.clone(), None, DAY);
    clock.pass(5, 5);
    let held = trusted.hold();
    assert_eq!(held.seconds(), 1005);
    clock.pass(10, 10);
    let other = trusted.hold();
    assert_eq!((other.seconds(), trusted.now(), trusted.behind()), (1005, 1005, 10));
    drop(held);
    assert_eq!(trusted.now(), 1005, "somebody holds it still");
    drop(other);
    assert_eq!((trusted.now(), trusted.behind()), (1015, 0));
}

#[test]
fn a_clock_that_is_behind_says_so_and_catches_up_when_it_is_confirmed() {
    let clock = TwoTimes::at(1000);
    let trusted = TrustedClock::new(clock.clone(), None, DAY);
    // The machine slept.
    clock.pass(10, 8 * 3600);
    assert_eq!((trusted.now(), trusted.behind()), (1010, 8 * 3600 - 10));
    trusted.confirm();
    assert_eq!((trusted.now(), trusted.behind()), (1000 + 8 * 3600, 0));
    clock.pass(10, 10);
    assert_eq!(trusted.now(), 1010 + 8 * 3600);
    // A wall clock that is behind is not gone back to.
    clock.pass(10, -100);
    trusted.confirm();
    assert_eq!(trusted.now(), 1010 + 8 * 3600);
}

#[test]
fn a_witness_tells_of_jumps_and_never_where_time_begins() {
    let with_witness = |wall, known, witness| TrustedClock::with_witness(TwoTimes::at(wall), known, witness, DAY);
    let old = with_witness(1000 + YEAR, None, Some(1000));
    assert_eq!((old.distrusted(), old.now()), (Some(ClockJump { known: 1000, found: 1000 + YEAR }), 1000 + YEAR));
    let later = with_witness(1000, Some(900), Some(1000 + YEAR));
    assert_eq!((later.trusted_now(), later.distrusted()), (Some(1000), None));
    let known = with_witness(1000 + YEAR, Some(1000), Some(YEAR));
    assert_eq!(known.trusted_now(), None, "what a wrong clock wrote does not confirm it");
}

#[test]
fn times_that_no_clock_should_tell_do_no_harm() {
    let trusted = TrustedClock::new(TwoTimes::at(u64::MAX), Some(u64::MAX), 0);
    let now = trusted.now();
    assert_eq!((trusted.hold().seconds(), trusted.now(), trusted.behind()), (now, now, 0));
}

#[test]
fn the_file_is_what_was_written_or_damaged() {
    let mut record = Record { seen: 1_700_000_000, ..Record::default() };
    let saved = |policy: &str, state: &[u8]| Saved { policy: policy.to_owned(), state: state.to_vec() };
    record.db_id = "an id".to_owned();
    record.states.insert(0, saved("a policy", b"state"));
    record.states.insert(7, Saved::default());
    let file = record.encode();
    assert_eq!((file.len(), Record::decode(&file).unwrap()), (4096, record));
    for place in 0..24 {
        let mut damaged = file.clone();
        damaged[place] ^= 1;
        assert_eq!(Record::decode(&damaged).unwrap_err().kind(), ErrorKind::Corruption);
    }
    for len in [0, 7, 15, 20] {
        assert!(Record::decode(&file[..len]).is_err());
    }
}

#[test]
fn the_first_form_of_the_file_has_no_names() {
    // Seen at 7; of family 3 the state "s".
    let body = [7, 1, 3, 1, b's'];
    let crc = crate::checksum::mask_crc(crate::checksum::crc32c(&body));
    let file = [&b"siltexp1"[..], &crc.to_le_bytes(), &5u32.to_le_bytes(), &body, &[0; 99]].concat();
    let saved = Saved { policy: String::new(), state: b"s".to_vec() };
    let record = Record { seen: 7, states: [(3, saved)].into(), ..Record::default() };
    assert_eq!(Record::decode(&file).unwrap(), record);
}

proptest! {
    #[test]
    fn no_bytes_make_the_decoder_panic(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
        let _ = Record::decode(&bytes);
    }
}
