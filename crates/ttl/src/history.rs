//! What the duration was, as far as it still matters.
//!
//! A row that was expired once stays so, whatever becomes of the duration. So the bound of a moment is the latest of
//!
//! 1. the *horizon*: what durations that nobody remembers made expire;
//! 2. for each duration that was in force at or before the moment: the last moment of its time, less the duration.
//!
//! A new duration is in force from the second after the one in which it was given, and time stands still while it is given. Therefore what a moment's bound was, it
//! stays. One that another follows within the second never was in force.

use crate::TtlDuration;
use siltstone_base::coding::{get_varint64, put_varint64};
use siltstone_base::{Error, ErrorKind, Result};

/// Most changes of the duration while a family is open.
const MAX_STEPS: usize = 256;

/// The form of what is saved.
const FORM: u64 = 1;

/// A duration from `since` on, in Unix seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Step {
    since: u64,
    duration: TtlDuration,
}

/// Durations over time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct History {
    horizon: Option<u64>,
    /// Those that ended, oldest first, and the one in force.
    steps: Vec<Step>,
    /// The last that was given.
    current: TtlDuration,
}

impl History {
    /// One duration since ever.
    pub(crate) fn new(duration: TtlDuration) -> Self {
        Self { horizon: None, steps: vec![Step { since: 0, duration }], current: duration }
    }

    /// The same, with rows of a stamp, and of earlier ones, that are expired whatever the durations are.
    pub(crate) fn expired_until(self, stamp: Option<u64>) -> Self {
        Self { horizon: self.horizon.max(stamp), ..self }
    }

    /// The duration that was given last.
    pub(crate) fn current(&self) -> TtlDuration {
        self.current
    }

    /// The latest stamp that is expired whatever the durations are.
    pub(crate) fn horizon(&self) -> Option<u64> {
        self.horizon
    }

    /// The latest stamp that is expired at `now`.
    #[inline]
    pub(crate) fn bound(&self, now: u64) -> Option<u64> {
        let mut bound = self.horizon;
        for (index, step) in self.steps.iter().enumerate().take_while(|(_, step)| step.since <= now) {
            let end = self.steps.get(index + 1).map_or(u64::MAX, |next| next.since - 1);
            bound = bound.max(now.min(end).checked_sub(step.duration.seconds()));
        }
        bound
    }

    /// When a row of this stamp expires, as things stand; 0 if it was before anything that is remembered.
    pub(crate) fn expires_at(&self, stamp: u64) -> u64 {
        if self.horizon.is_some_and(|horizon| stamp <= horizon) {
            return 0;
        }
        let ends = self.steps.iter().skip(1).map(|next| next.since - 1).chain([u64::MAX]);
        let mut times = self.steps.iter().zip(ends).filter_map(|(step, end)| {
            let at = stamp.saturating_add(step.duration.seconds()).max(step.since);
            (at <= end).then_some(at)
        });
        times.next().unwrap_or(u64::MAX)
    }

    /// With another duration, given at `now`: nobody has read as of a later time.
    ///
    /// # Errors
    ///
    /// `LimitExceeded` for one change too many.
    pub(crate) fn changed(&self, duration: TtlDuration, now: u64) -> Result<Self> {
        let mut changed = self.clone();
        // By these nobody has read: they are as if they never were.
        changed.steps.retain(|step| step.since <= now);
        changed.current = duration;
        if changed.steps.last().is_some_and(|step| step.duration == duration) {
            return Ok(changed);
        }
        if changed.steps.len() >= MAX_STEPS {
            return Err(Error::new(ErrorKind::LimitExceeded, "ttl: too many changes since the family was opened"));
        }
        changed.steps.push(Step { since: now.saturating_add(1), duration });
        Ok(changed)
    }

    /// What it says from now on, to somebody who reads nothing older: `duration` is in force from `now` on, and what was expired by then stays so.
    pub(crate) fn resumed(&self, duration: TtlDuration, now: u64) -> Self {
        // By others nobody has read: they are as if they never were.
        let in_force = || self.steps.iter().filter(|step| step.since <= now);
        let is_same = in_force().next_back().is_some_and(|last| last.duration == duration);
        let mut horizon = self.horizon;
        for (index, step) in in_force().enumerate() {
            let end = match in_force().nth(index + 1) {
                Some(next) => next.since - 1,
                None if is_same => continue,
                None => now,
            };
            horizon = horizon.max(end.checked_sub(step.duration.seconds()));
        }
        Self { horizon, ..Self::new(duration) }
    }

    /// What [`decode`](Self::decode) takes.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_varint64(&mut out, FORM);
        // One more, so that 0 is none.
        put_varint64(&mut out, u64::from(self.horizon.is_some()));
        put_varint64(&mut out, self.horizon.unwrap_or(0));
        put_varint64(&mut out, self.steps.len() as u64);
        for step in &self.steps {
            put_varint64(&mut out, step.since);
            put_varint64(&mut out, step.duration.seconds());
        }
        out
    }

    /// What was encoded.
    ///
    /// # Errors
    ///
    /// `Corruption` for bytes that are no history, `NotSupported` for a newer form.
    pub(crate) fn decode(mut input: &[u8]) -> Result<Self> {
        let wrong = || Error::corrupt("the saved durations of an expiry policy are damaged");
        let mut next = || get_varint64(&mut input).ok_or_else(wrong);
        match next()? {
            FORM => {}
            form => return Err(Error::not_supported(format!("saved durations of an expiry policy, of form {form}"))),
        }
        let has_horizon = next()?;
        let horizon = next()?;
        let count = next()?;
        if has_horizon > 1 || !(1..=MAX_STEPS as u64).contains(&count) {
            return Err(wrong());
        }
        let mut steps: Vec<Step> = Vec::with_capacity(count as usize);
        for _ in 0..count {
            let (since, seconds) = (next()?, next()?);
            let is_first = steps.is_empty();
            if is_first != (since == 0) || steps.last().is_some_and(|last| last.since >= since) {
                return Err(wrong());
            }
            steps.push(Step { since, duration: TtlDuration::from_seconds(seconds).map_err(|_| wrong())? });
        }
        let current = steps.last().map(|step| step.duration).ok_or_else(wrong)?;
        if !input.is_empty() {
            return Err(wrong());
        }
        Ok(Self { horizon: (has_horizon == 1).then_some(horizon), steps, current })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn seconds(seconds: u64) -> TtlDuration {
        TtlDuration::from_seconds(seconds).unwrap()
    }

    #[test]
    fn a_longer_duration_revives_nothing() {
        let history = History::new(seconds(10));
        assert_eq!((history.bound(9), history.bound(10), history.bound(100)), (None, Some(0), Some(90)));
        let longer = history.changed(seconds(1000), 100).unwrap();
        assert_eq!((longer.bound(100), longer.bound(101), longer.bound(1090)), (Some(90), Some(90), Some(90)));
        assert_eq!(longer.bound(1091), Some(91));
        assert_eq!((longer.expires_at(90), longer.expires_at(91)), (100, 1091));
    }

    #[test]
    fn a_shorter_duration_counts_from_the_next_second_on() {
        let shorter = History::new(seconds(50)).changed(seconds(10), 100).unwrap();
        assert_eq!((shorter.bound(100), shorter.bound(101)), (Some(50), Some(91)));
        assert_eq!((shorter.expires_at(50), shorter.expires_at(51), shorter.expires_at(95)), (100, 101, 105));
    }

    #[test]
    fn what_is_forgotten_becomes_the_horizon() {
        let history = History::new(seconds(10)).changed(seconds(1000), 100).unwrap();
        let same = history.resumed(seconds(1000), 200);
        assert_eq!((same.bound(150), same.steps.len(), same.expires_at(80)), (Some(90), 1, 0));
        let longer = history.resumed(seconds(5000), 2000);
        assert_eq!((longer.bound(2000), longer.bound(7000)), (Some(1000), Some(2000)));
    }

    #[test]
    fn damaged_histories_are_refused() {
        let good = History::new(seconds(10)).changed(seconds(20), 100).unwrap().encode();
        assert!(History::decode(&good).is_ok());
        for len in 0..good.len() {
            assert!(History::decode(&good[..len]).is_err());
        }
        let mut longer = good.clone();
        longer.push(0);
        assert_eq!(History::decode(&longer).unwrap_err().kind(), ErrorKind::Corruption);
        assert_eq!(History::decode(&[9, 0, 0, 1, 0, 5]).unwrap_err().kind(), ErrorKind::NotSupported);
        assert_eq!(History::decode(&[1, 0, 0, 1, 0, 0]).unwrap_err().kind(), ErrorKind::Corruption);
    }

    #[test]
    fn a_duration_that_never_was_in_force_expires_nothing() {
        // A slip that is mended within the second.
        let history = History::new(seconds(1000)).changed(seconds(1), 100).unwrap();
        assert_eq!(history.bound(101), Some(100));
        let mended = history.changed(seconds(1000), 100).unwrap();
        assert_eq!(mended, History::new(seconds(1000)));
        let other = history.changed(seconds(500), 100).unwrap();
        assert_eq!(other, History::new(seconds(1000)).changed(seconds(500), 100).unwrap());
        // Nor is it where the slip is mended by opening again while time stands still.
        assert_eq!(history.resumed(seconds(1000), 100), History::new(seconds(1000)));
        assert_eq!(history.resumed(seconds(500), 100).bound(100), History::new(seconds(500)).bound(100));
        // A second later it was.
        let late = history.changed(seconds(1000), 101).unwrap();
        assert_eq!((late.bound(101), late.bound(500)), (Some(100), Some(100)));
    }

    #[test]
    fn only_so_many_changes_are_remembered() {
        let mut history = History::new(seconds(10));
        let mut now = 5;
        let error = loop {
            now += 1;
            match history.changed(seconds(10 + now % 2), now) {
                Ok(changed) => history = changed,
                Err(error) => break error,
            }
        };
        assert_eq!((error.kind(), history.steps.len()), (ErrorKind::LimitExceeded, MAX_STEPS));
        assert_eq!(History::decode(&history.encode()).unwrap(), history);
    }

    proptest! {
        /// A row that is expired stays so; what a moment showed it shows; the times of expiry are those of the bounds; and nothing changes by being saved.
        #[test]
        fn bounds_never_fall_and_the_past_stays(
            first in 1u64..60,
            changes in proptest::collection::vec((0u64..40, 1u64..60), 0..6),
            stamps in proptest::collection::vec(0u64..200, 1..6),
            reopened in 1u64..60,
        ) {
            let mut history = History::new(seconds(first));
            let mut now = 50;
            for (later, duration) in changes {
                now += later;
                let changed = history.changed(seconds(duration), now).unwrap();
                for past in 0..=now {
                    prop_assert_eq!(history.bound(past), changed.bound(past));
                }
                history = changed;
            }
            let bounds: Vec<_> = (0..500).map(|time| history.bound(time)).collect();
            prop_assert!(bounds.is_sorted());
            for stamp in stamps {
                let first = (0..500).find(|time| history.bound(*time).is_some_and(|bound| stamp <= bound));
                prop_assert_eq!(first, Some(history.expires_at(stamp)));
            }
            prop_assert_eq!(&History::decode(&history.encode()).unwrap(), &history);
            let later = now + 300;
            let resumed = history.resumed(seconds(reopened), later);
            prop_assert!(resumed.bound(later) >= history.bound(later));
            let same = history.resumed(history.current(), later);
            prop_assert_eq!(same.bound(later), history.bound(later));
        }
    }
}
