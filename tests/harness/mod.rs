//! A whole engine on a simulated disk: scripts of calls, a model of what they mean, and the check of what is left of them.
//!
//! * [`script`]: what a workload does; [`run`]: doing it; [`model`]: what it means.
//! * [`verify`]: opens a disk and demands an exact prefix of the commits; [`crash`]: does so for every crash state;
//!   [`faults`]: does so after every operation that can fail.
//!
//! Everything runs on the calling thread, so that a planted bug and a failure concern one test alone.
#![allow(dead_code, reason = "each test binary uses a part")]
#![expect(clippy::expect_used, reason = "a script that does not exist is a mistake in a test")]

pub mod crash;
pub mod faults;
pub mod model;
pub mod rig;
pub mod run;
pub mod script;
pub mod verify;
pub mod workloads;

/// What a demand of the harness found wrong.
pub type Outcome<T = ()> = Result<T, String>;

/// Fails with a message unless a condition holds.
#[macro_export]
macro_rules! demand {
    ($condition:expr, $($message:tt)+) => {
        if !$condition {
            return Err(format!($($message)+));
        }
    };
}
