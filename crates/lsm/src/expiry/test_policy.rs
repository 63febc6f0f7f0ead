//! A policy for tests.

use siltstone_base::Result;
use siltstone_base::expiry::{ExpiryHome, ExpiryPolicy, Stamp};
use siltstone_base::sync::{Arc, Weak};

/// A value `v@7` expires at 7, and `v@7/2`, of group 2, at 9; others never do.
#[derive(Debug)]
pub(crate) struct AtItsStamp;

impl AtItsStamp {
    /// The stamp in a text such as `7` or `7/2`.
    pub(crate) fn parse(text: &str) -> Option<Stamp> {
        let (seconds, group) = text.split_once('/').unwrap_or((text, "0"));
        Some(Stamp { group: group.parse().ok()?, seconds: seconds.parse().ok()? })
    }
}

impl ExpiryPolicy for AtItsStamp {
    fn name(&self) -> &str {
        "at its stamp"
    }

    fn stamp(&self, _: &[u8], value: &[u8]) -> Option<Stamp> {
        let (_, stamp) = std::str::from_utf8(value).ok()?.split_once('@')?;
        Self::parse(stamp)
    }

    fn bound(&self, group: u32, now: u64) -> Option<u64> {
        now.checked_sub(u64::from(group))
    }

    fn expires_at(&self, stamp: Stamp) -> Option<u64> {
        Some(stamp.seconds + u64::from(stamp.group))
    }

    fn attach(&self, _: Weak<dyn ExpiryHome>, _: &[u8]) -> Result<()> {
        Ok(())
    }

    fn view(self: Arc<Self>, _: &[u8]) -> Result<Arc<dyn ExpiryPolicy>> {
        Ok(self)
    }
}
