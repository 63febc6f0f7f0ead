//! How long rows live.

use crate::{Error, Result};
use std::fmt;
use std::time::Duration;

/// The longest duration, in seconds: a thousand years. A stamp and a duration never overflow together.
const MAX_SECONDS: u64 = 1000 * 366 * 86_400;

/// A time to live, in whole seconds: at least one, and at most a thousand years.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TtlDuration(u64);

impl TtlDuration {
    /// So many seconds.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for 0 and for more than a thousand years.
    pub fn from_seconds(seconds: u64) -> Result<Self> {
        match seconds {
            1..=MAX_SECONDS => Ok(Self(seconds)),
            _ => Err(Error::invalid_argument(format!("ttl: {seconds} s is not within 1 and {MAX_SECONDS} s"))),
        }
    }

    /// So many seconds, as callers of RocksDB give them.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for 0 and less, which to RocksDB mean that rows live for ever: leave the policy away instead.
    pub fn from_signed_seconds(seconds: i64) -> Result<Self> {
        let unsigned = u64::try_from(seconds);
        unsigned
            .map_err(|_| Error::invalid_argument(format!("ttl: {seconds} s is negative")))
            .and_then(Self::from_seconds)
    }

    /// The duration in whole seconds; a part of one counts as a whole one.
    ///
    /// # Errors
    ///
    /// Those of [`from_seconds`](Self::from_seconds).
    pub fn from_duration(duration: Duration) -> Result<Self> {
        Self::from_seconds(duration.as_secs().saturating_add(u64::from(duration.subsec_nanos() > 0)))
    }

    /// The seconds.
    pub const fn seconds(self) -> u64 {
        self.0
    }
}

impl TryFrom<Duration> for TtlDuration {
    type Error = Error;

    fn try_from(duration: Duration) -> Result<Self> {
        Self::from_duration(duration)
    }
}

impl fmt::Display for TtlDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} s", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    #[test]
    fn nothing_negative_and_endless_is_refused() {
        for seconds in [0, MAX_SECONDS + 1, u64::MAX] {
            assert_eq!(TtlDuration::from_seconds(seconds).unwrap_err().kind(), ErrorKind::InvalidArgument);
        }
        for seconds in [0, -1, i64::MIN] {
            assert_eq!(TtlDuration::from_signed_seconds(seconds).unwrap_err().kind(), ErrorKind::InvalidArgument);
        }
        assert!(
            TtlDuration::from_duration(Duration::ZERO).is_err() && TtlDuration::from_duration(Duration::MAX).is_err()
        );
    }

    #[test]
    fn parts_of_seconds_are_rounded_up() {
        let seconds = |duration| TtlDuration::from_duration(duration).unwrap().seconds();
        assert_eq!((seconds(Duration::from_nanos(1)), seconds(Duration::from_millis(2500))), (1, 3));
        assert_eq!(seconds(Duration::from_secs(MAX_SECONDS)), MAX_SECONDS);
    }
}
