//! Steps of a run, and how they are drawn.

use proptest::prelude::*;
use std::ops::Range;

/// One step of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// Puts a row.
    Put(Vec<u8>, Vec<u8>),
    /// Merges an operand into a row.
    Merge(Vec<u8>, Vec<u8>),
    /// Deletes a key.
    Delete(Vec<u8>),
    /// Gets a key and compares.
    Get(Vec<u8>),
    /// Takes a snapshot, to which all later comparisons look too.
    Snapshot,
    /// Lets the oldest snapshot go.
    Release,
    /// Writes memtables to tables.
    Flush,
    /// Compacts everything down to the last level.
    Compact,
    /// Closes and opens again.
    Reopen,
    /// Dies as a process that is killed, and opens again.
    Kill,
}

/// Runs of `count` steps with these keys and values.
pub fn steps(
    keys: impl Strategy<Value = Vec<u8>> + Clone + 'static,
    values: impl Strategy<Value = Vec<u8>> + 'static,
    count: Range<usize>,
) -> BoxedStrategy<Vec<Step>> {
    let step = prop_oneof![
        12 => (keys.clone(), values).prop_map(|(key, value)| Step::Put(key, value)),
        3 => keys.clone().prop_map(Step::Delete),
        3 => keys.prop_map(Step::Get),
        1 => Just(Step::Snapshot),
        1 => Just(Step::Release),
        2 => Just(Step::Flush),
        2 => Just(Step::Compact),
        1 => Just(Step::Reopen),
        1 => Just(Step::Kill),
    ];
    prop::collection::vec(step, count).boxed()
}

/// The same with merges of these operands, for a family that has a merge operator.
pub fn steps_with_merges(
    keys: impl Strategy<Value = Vec<u8>> + Clone + 'static,
    values: impl Strategy<Value = Vec<u8>> + 'static,
    operands: impl Strategy<Value = Vec<u8>> + 'static,
    count: Range<usize>,
) -> BoxedStrategy<Vec<Step>> {
    let merge = (keys.clone(), operands).prop_map(|(key, operand)| Step::Merge(key, operand));
    let merges = prop::collection::vec(prop::option::of(merge), count.end);
    let interleave = |(steps, merges): (Vec<Step>, Vec<Option<Step>>)| {
        steps.into_iter().zip(merges).flat_map(|(step, merge)| merge.into_iter().chain([step])).collect()
    };
    (steps(keys, values, count), merges).prop_map(interleave).boxed()
}

/// Keys from few, so that they come back: short ones, some that begin others, and bytes at the ends of their range.
pub fn keys() -> BoxedStrategy<Vec<u8>> {
    let byte = prop_oneof![4 => 0x61..0x65_u8, 1 => Just(0), 1 => Just(0xFF)];
    prop_oneof![
        6 => (0..40_u8).prop_map(|number| format!("key{number:03}").into_bytes()),
        2 => prop::collection::vec(byte, 0..5),
    ]
    .boxed()
}

/// Values: mostly short, some empty, some that repeat a byte many times.
pub fn values() -> BoxedStrategy<Vec<u8>> {
    prop_oneof![
        6 => prop::collection::vec(any::<u8>(), 0..24),
        1 => (any::<u8>(), 100..2_000_usize).prop_map(|(byte, len)| vec![byte; len]),
    ]
    .boxed()
}
