//! A second opening, a full device, a failed sync, a callback that panics: what a user meets, and what is left afterwards.

#![expect(clippy::unwrap_used, reason = "a test")]
#![expect(clippy::disallowed_methods, reason = "the files are looked at from outside the engine")]

mod trouble_cases;
