//! What all changes that a transaction made of one key amount to: in tables that are taken in together, two entries of one key may not share a number.
//!
//! Changes come newest first. What came before a put or a tombstone does not matter, but for a single delete that was the first of all: it takes away what the
//! database has, and nothing else may (the put over it would be one too many for the next single delete). So it stays, beneath. Operands are merged into the put or the
//! tombstone beneath them, or become one; where the operator cannot do that, who asks reads the key.

use crate::key::ValueType;
use crate::merge::{MergeOperator, Operands, full_merge};
use siltstone_base::Result;

/// Operands beyond so many bytes become one as soon as they can.
const OPERAND_BYTES: usize = 1 << 20;

/// What changes of a key amount to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Amount {
    /// One entry, perhaps over a single delete.
    Entry {
        /// What it does.
        kind: ValueType,
        /// Its value.
        value: Vec<u8>,
        /// Whether a single delete lies beneath.
        over_single_delete: bool,
    },
    /// Operands that only the value that the database has can be merged with.
    Unknown,
}

/// Takes in the changes of a key, one key after the other.
#[derive(Debug, Default)]
pub(super) struct Collapse {
    /// Newest first.
    operands: Operands,
    /// The newest put or tombstone.
    base: Option<(ValueType, Vec<u8>)>,
    count: usize,
    /// Operands of more bytes are joined again.
    join_at: usize,
    /// The type of the oldest change so far.
    oldest: Option<ValueType>,
    /// Whether there is a change that is neither a put nor a single delete.
    has_others: bool,
}

impl Collapse {
    /// Takes in a change, which is older than those before it.
    pub(super) fn take(&mut self, key: &[u8], kind: ValueType, value: &[u8], operator: Option<&dyn MergeOperator>) {
        self.count += 1;
        self.oldest = Some(kind);
        self.has_others |= !matches!(kind, ValueType::Put | ValueType::SingleDelete);
        match kind {
            _ if self.base.is_some() => {}
            ValueType::Merge => {
                self.operands.push(value);
                if self.operands.bytes() > self.join_at.max(OPERAND_BYTES) {
                    self.join(key, operator);
                    // Twice as many each time, so that all joins together cost as much as the last.
                    self.join_at = 2 * self.operands.bytes();
                }
            }
            _ => self.base = Some((kind, value.to_vec())),
        }
    }

    /// Makes one operand of all, if the operator can.
    fn join(&mut self, key: &[u8], operator: Option<&dyn MergeOperator>) {
        let joined = match (operator, &self.operands.reversed()[..]) {
            (Some(operator), operands @ [_, _, ..]) => operator.partial_merge(key, operands),
            _ => None,
        };
        if let Some(joined) = joined {
            self.operands.clear();
            self.operands.push(&joined);
        }
    }

    /// What was taken in amounts to; the next change is of another key.
    ///
    /// # Errors
    ///
    /// Those of merging, for the family of this name.
    pub(super) fn finish(&mut self, key: &[u8], family: &str, operator: Option<&dyn MergeOperator>) -> Result<Amount> {
        let amount = self.amount(key, family, operator);
        self.operands.clear();
        (self.base, self.count, self.join_at, self.oldest, self.has_others) = (None, 0, 0, None, false);
        amount
    }

    fn amount(&mut self, key: &[u8], family: &str, operator: Option<&dyn MergeOperator>) -> Result<Amount> {
        let over_single_delete = self.count > 1 && self.oldest == Some(ValueType::SingleDelete);
        let entry = |kind, value| Ok(Amount::Entry { kind, value, over_single_delete });
        let alone = |kind, value| Ok(Amount::Entry { kind, value, over_single_delete: false });
        match (self.base.take(), operator) {
            // A put between two of them goes with one; a tombstone in their place would be hidden by the next put, and what it hid laid bare by the next single delete.
            (Some((ValueType::SingleDelete, _)), _) if self.count == 1 || !self.has_others => {
                alone(ValueType::SingleDelete, Vec::new())
            }
            // After other changes the key is gone for good.
            (Some((kind, _)), _) if kind.is_tombstone() && self.operands.is_empty() => {
                alone(ValueType::Delete, Vec::new())
            }
            (Some((kind, value)), _) if self.operands.is_empty() => entry(kind, value),
            (Some((kind, value)), Some(operator)) => {
                let existing = (!kind.is_tombstone()).then_some(&value[..]);
                let merged = full_merge(operator, family, key, existing, &self.operands.reversed())?;
                entry(ValueType::Put, merged)
            }
            (None, operator) => {
                self.join(key, operator);
                match self.operands.reversed()[..] {
                    [operand] => alone(ValueType::Merge, operand.to_vec()),
                    _ => Ok(Amount::Unknown),
                }
            }
            (Some(_), None) => Ok(Amount::Unknown),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AppendOperator, MergeFailure};
    use ValueType::{Delete, Merge, Put, SingleDelete};

    /// Joins, and cannot join without the value before.
    #[derive(Debug)]
    struct Whole;

    impl MergeOperator for Whole {
        fn name(&self) -> &str {
            "Whole"
        }

        fn full_merge(&self, _: &[u8], old: Option<&[u8]>, operands: &[&[u8]]) -> Result<Vec<u8>, MergeFailure> {
            AppendOperator::new("").full_merge(b"", old, operands)
        }
    }

    /// What changes amount to: of each its type and its value, oldest first.
    fn amount(changes: &[(ValueType, &str)], operator: &dyn MergeOperator) -> Amount {
        let mut collapse = Collapse::default();
        // What came before leaves nothing behind.
        for key in ["before", "key"] {
            for (kind, value) in changes.iter().rev() {
                collapse.take(key.as_bytes(), *kind, value.as_bytes(), Some(operator));
            }
            let amount = collapse.finish(key.as_bytes(), "default", Some(operator)).unwrap();
            if key == "key" {
                return amount;
            }
        }
        Amount::Unknown
    }

    #[test]
    fn changes_of_a_key_become_one_entry() {
        let operator = AppendOperator::new(",");
        let is = |changes: &[(ValueType, &str)], kind, value: &str, over_single_delete| {
            let expected = Amount::Entry { kind, value: value.as_bytes().to_vec(), over_single_delete };
            assert_eq!(amount(changes, &operator), expected, "{changes:?}");
        };
        is(&[(Put, "a")], Put, "a", false);
        is(&[(Put, "a"), (Put, "b")], Put, "b", false);
        is(&[(Delete, ""), (Put, "b")], Put, "b", false);
        is(&[(Put, "a"), (Delete, "")], Delete, "", false);
        is(&[(SingleDelete, "")], SingleDelete, "", false);
        is(&[(Put, "a"), (SingleDelete, "")], SingleDelete, "", false);
        is(&[(SingleDelete, ""), (Put, "a"), (SingleDelete, "")], SingleDelete, "", false);
        is(&[(Delete, ""), (Put, "a"), (SingleDelete, "")], Delete, "", false);
        is(&[(Merge, "a")], Merge, "a", false);
        is(&[(Merge, "a"), (Merge, "b"), (Merge, "c")], Merge, "a,b,c", false);
        is(&[(Put, "a"), (Merge, "b"), (Merge, "c")], Put, "a,b,c", false);
        is(&[(Put, "a"), (Delete, ""), (Merge, "c")], Put, "c", false);
        is(&[(Merge, "a"), (Put, "b"), (Merge, "c")], Put, "b,c", false);
        is(&[(Merge, "a"), (Delete, "")], Delete, "", false);
    }

    /// Without it, the next single delete would bring back what the database had before the first.
    #[test]
    fn a_single_delete_of_what_the_database_has_stays_beneath() {
        let operator = AppendOperator::new(",");
        let is = |changes: &[(ValueType, &str)], value: &str| {
            let expected = Amount::Entry { kind: Put, value: value.as_bytes().to_vec(), over_single_delete: true };
            assert_eq!(amount(changes, &operator), expected, "{changes:?}");
        };
        is(&[(SingleDelete, ""), (Put, "a")], "a");
        is(&[(SingleDelete, ""), (Put, "a"), (SingleDelete, ""), (Put, "b")], "b");
        is(&[(SingleDelete, ""), (Merge, "a"), (Merge, "b")], "a,b");
    }

    #[test]
    fn operands_that_cannot_be_joined_need_the_value_before() {
        assert_eq!(amount(&[(Merge, "a"), (Merge, "b")], &Whole), Amount::Unknown);
        let one = Amount::Entry { kind: Merge, value: b"a".to_vec(), over_single_delete: false };
        assert_eq!(amount(&[(Merge, "a")], &Whole), one);
        let merged = Amount::Entry { kind: Put, value: b"abc".to_vec(), over_single_delete: false };
        assert_eq!(amount(&[(Put, "a"), (Merge, "b"), (Merge, "c")], &Whole), merged);
    }

    #[test]
    fn operands_of_one_key_do_not_pile_up() {
        let (operator, operand) = (AppendOperator::new(""), vec![7; 100_000]);
        let mut collapse = Collapse::default();
        for number in 0..30 {
            collapse.take(b"key", Merge, &operand, Some(&operator));
            assert!(collapse.operands.iter().len() <= 13, "{number}");
        }
        let amount = collapse.finish(b"key", "default", Some(&operator)).unwrap();
        let value = vec![7; 3_000_000];
        assert_eq!(amount, Amount::Entry { kind: Merge, value, over_single_delete: false });
    }
}
