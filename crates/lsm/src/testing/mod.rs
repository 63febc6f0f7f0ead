//! Property tests of what users plug into the engine: comparators, compaction filters and merge operators.
//!
//! With the feature `testing`. A [`Checker`] runs [`steps`] on an engine with the user's parts, on one thread and a simulated disk, beside a
//! [`Model`]: it flushes, compacts, kills and opens again, and compares every row after each. What the parts must never do is found by the
//! runs; what they must do is for the user's own tests. [`check_comparator`] holds an order against the laws that the engine relies on.
//!
//! ```
//! use proptest::prelude::*;
//! use proptest::test_runner::TestRunner;
//! use siltstone_base::comparator::{Comparator, ReverseBytewise};
//! use siltstone_base::entry_filter::{Decision, EntryFilter};
//! use siltstone_lsm::testing::{Checker, check_comparator, keys, steps, steps_with_merges, values};
//! use siltstone_lsm::{AppendOperator, ColumnFamilyOptions};
//! use std::cmp::Ordering;
//! use std::sync::Arc;
//!
//! /// Shorter keys first.
//! #[derive(Debug)]
//! struct ByLength;
//!
//! impl Comparator for ByLength {
//!     fn name(&self) -> &str {
//!         "example.ByLength"
//!     }
//!
//!     fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
//!         a.len().cmp(&b.len()).then_with(|| a.cmp(b))
//!     }
//! }
//!
//! /// Removes values that begin with a zero, and cuts long ones.
//! #[derive(Debug)]
//! struct Tidy;
//!
//! impl EntryFilter for Tidy {
//!     fn name(&self) -> &str {
//!         "example.Tidy"
//!     }
//!
//!     fn filter(&self, _level: usize, _key: &[u8], value: &[u8]) -> Decision {
//!         match value {
//!             [0, ..] => Decision::Remove,
//!             value if value.len() > 20 => Decision::Change(value[..20].to_vec()),
//!             _ => Decision::Keep,
//!         }
//!     }
//! }
//!
//! let mut runner = TestRunner::deterministic();
//! runner.run(&prop::collection::vec(keys(), 1..6), |keys| {
//!     check_comparator(&ByLength, &keys).map_err(|failure| TestCaseError::fail(failure.to_string()))
//! })?;
//!
//! let options = ColumnFamilyOptions::default().comparator(Arc::new(ByLength)).compaction_filter(Some(Arc::new(Tidy)));
//! let checker = Checker::new(options);
//! runner.run(&steps(keys(), values(), 1..60), |steps| {
//!     checker.run(&steps).map_err(|failure| TestCaseError::fail(failure.to_string()))
//! })?;
//!
//! // A merge operator: the engine merges operands in groups of its own choice, the model one at a time.
//! let checker = Checker::new(ColumnFamilyOptions::default().merge_operator(Some(Arc::new(AppendOperator::new(",")))));
//! runner.run(&steps_with_merges(keys(), values(), values(), 1..60), |steps| {
//!     checker.run(&steps).map_err(|failure| TestCaseError::fail(failure.to_string()))
//! })?;
//!
//! // Both together: which of them comes first is the engine's affair, and the model follows every order.
//! let operator = Arc::new(AppendOperator::new(","));
//! let options = ColumnFamilyOptions::default().compaction_filter(Some(Arc::new(Tidy))).merge_operator(Some(operator));
//! let checker = Checker::new(options);
//! runner.run(&steps_with_merges(keys(), values(), values(), 1..40), |steps| {
//!     checker.run(&steps).map_err(|failure| TestCaseError::fail(failure.to_string()))
//! })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub use crate::compaction::simulator::{Outcome, Pattern, Picture, Simulation};

mod checker;
mod comparator;
mod decoders;
mod history;
mod model;
mod steps;
#[cfg(test)]
mod tests;

pub use checker::Checker;
pub use comparator::check_comparator;
pub use decoders::{DECODERS, Decoder, decode, fuzz};
pub use model::Model;
pub use steps::{Step, keys, steps, steps_with_merges, values};

use std::fmt;

/// What a check found. The keys and values are those of the test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    message: String,
}

impl Failure {
    fn new(message: impl Into<String>) -> Self {
        Self { message: message.into() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}
