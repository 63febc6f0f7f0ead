//! A writer of low priority beside one that takes all it is given, in virtual time.

use super::super::{LowPriority, Pacer};
use super::*;

const BYTES: u64 = 4096;
const SECOND: u64 = 1_000_000_000;

/// What an ordinary writer (if there is one) and one of low priority write in ten seconds at `rate` bytes a second.
fn written(rate: f64, has_ordinary: bool) -> (u64, u64) {
    let (pacer, low) = (Pacer::new(), LowPriority::new());
    pacer.set(0, Pace { rate, cause: StallCause::L0FileCount });
    let write = |now: u64, is_low: bool| {
        let turn = pacer.wait_for(now, BYTES);
        pacer.book(now, BYTES);
        match turn {
            None => now + 10_000,
            Some(turn) => {
                if !is_low {
                    pacer.hold_back(turn.until_nanos);
                }
                turn.until_nanos
            }
        }
    };
    let (mut ordinary_at, mut low_at) = (if has_ordinary { 0 } else { u64::MAX }, 0);
    let (mut ordinary, mut lower) = (0, 0);
    while ordinary_at.min(low_at) < 10 * SECOND {
        if ordinary_at <= low_at {
            ordinary_at = write(ordinary_at, false);
            ordinary += BYTES;
            continue;
        }
        let wait = pacer.held_back(low_at).and_then(|held_back| low.wait_for(low_at, BYTES, held_back));
        match wait {
            Some(until) => low_at = until.max(low_at + 1),
            None => {
                low_at = write(low_at, true);
                lower += BYTES;
            }
        }
    }
    (ordinary, lower)
}

#[test]
fn a_writer_of_low_priority_gets_a_sixteenth_beside_one_that_waits() {
    let (ordinary, lower) = written(10.0 * MB, true);
    let share = lower as f64 / (ordinary + lower) as f64;
    assert!((0.05..0.07).contains(&share), "{share}: {lower} beside {ordinary}");
    let all = (ordinary + lower) as f64 / (100.0 * MB);
    assert!((0.99..1.01).contains(&all), "nothing is left unused: {all}");
}

#[test]
fn a_writer_of_low_priority_gets_everything_while_nobody_else_writes() {
    let (_, lower) = written(10.0 * MB, false);
    let all = lower as f64 / (100.0 * MB);
    assert!((0.99..1.01).contains(&all), "{all}");
}

#[test]
fn a_writer_of_low_priority_does_not_wait_for_writers_that_do_not() {
    let pacer = Pacer::new();
    pacer.book(0, BYTES);
    assert_eq!(pacer.held_back(1), None);
}
