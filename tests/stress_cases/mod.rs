//! The cases.

mod closing;
mod fairness;
mod kills;
mod panics;
mod threads;
