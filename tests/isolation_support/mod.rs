//! Histories of concurrent transactions, and what is wrong with them.

pub mod checker;
pub mod cycles;
pub mod engines;
pub mod run;
pub mod sessions;
pub mod threads;
