//! Real threads on real files: what no single-threaded test can see.
//!
//! Every batch writes the same value to the same key of two families, so any snapshot must show them equal, whatever is flushed, compacted,
//! switched, created or dropped meanwhile; each writer's counters only rise; and what was acknowledged is there after reopening. All is
//! bounded by numbers of operations. A second part kills the process between acknowledgements.

#![expect(clippy::unwrap_used, reason = "a test")]

mod stress_cases;
