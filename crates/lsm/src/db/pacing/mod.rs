//! Paced admission: writers are slowed down a little and early, so that they are never stopped for long.
//!
//! What a write costs is not over when it returns: its bytes must still be flushed and rewritten on every level. [`law`] says from
//! counters alone how fast writers may be for the work that is [`owed`], and [`level0`] while level 0 is compacted; [`meter`] measures what background jobs achieve; [`FamilyWork`] is
//! what jobs tell of their progress while they run, so that the figures move evenly and not in jumps at the ends of jobs.
//! [`Pacer`] keeps writers to the rate.
//!
//! Ideas: the spring and the gears of bLSM (Sears and Ramakrishnan, 2012), rates without memory of earlier rates as in Speedb.

mod law;
mod level0;
mod low_priority;
mod meter;
mod owed;
mod pacer;
#[cfg(test)]
mod tests;
mod work;

pub(crate) use law::{Gauges, Pace, pace, wal_pace};
pub(crate) use level0::{level0_job, level0_next};
pub(crate) use low_priority::LowPriority;
pub(crate) use meter::Meter;
pub(crate) use owed::{owed_bytes, owed_bytes_of, owed_bytes_universal};
pub(crate) use pacer::{Figures, HeldBack, Pacer};
pub(crate) use work::{FamilyWork, Kind, Working};
