//! Tests of the operators that come with the engine: results, failures, and the contract.

use super::*;
use proptest::prelude::*;

fn full(operator: &dyn MergeOperator, existing: Option<&[u8]>, operands: &[&[u8]]) -> Vec<u8> {
    operator.full_merge(b"key", existing, operands).unwrap()
}

#[test]
fn append_joins_in_order_and_puts_no_delimiter_in_front() {
    let operator = AppendOperator::new(",");
    assert_eq!(operator.name(), "StringAppendOperator");
    assert_eq!(full(&operator, Some(b"a"), &[b"b", b"c"]), b"a,b,c");
    assert_eq!(full(&operator, None, &[b"b"]), b"b");
    assert_eq!(full(&operator, Some(b""), &[b"b", b""]), b",b,");
    assert_eq!(AppendOperator::new("").named("append").name(), "append");
    assert_eq!(full(&AppendOperator::new(""), Some(b"a"), &[b"b"]), b"ab");
}

#[test]
fn numbers_are_added_and_other_lengths_refused() {
    let number = |number: u64| number.to_le_bytes();
    let operator = UInt64AddOperator;
    assert_eq!(full(&operator, Some(&number(5)), &[&number(7), &number(1)]), number(13));
    assert_eq!(full(&operator, None, &[&number(7)]), number(7));
    assert_eq!(full(&operator, Some(&number(u64::MAX)), &[&number(2)]), number(1));
    for (existing, operand) in [(Some(&b"1234567"[..]), &number(1)[..]), (None, b"123456789"), (None, b"")] {
        assert!(operator.full_merge(b"key", existing, &[operand]).is_err());
    }
    assert_eq!(operator.partial_merge(b"key", &[b"1", &number(1)]), None);
    let error = full_merge(&operator, "meta", b"secret", Some(b"hidden"), &[&number(1)]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::MergeFailed);
    assert_eq!(
        error.message(),
        "merge operator UInt64AddOperator of column family meta: a value or an operand is not 8 bytes long"
    );
}

#[test]
fn the_largest_is_kept() {
    assert_eq!(full(&MaxOperator, Some(b"b"), &[b"a", b"ba"]), b"ba");
    assert_eq!(full(&MaxOperator, None, &[b"", b""]), b"");
}

proptest! {
    /// However operands are grouped, the value is the same.
    #[test]
    fn grouping_does_not_matter(
        existing in proptest::option::of(any::<u64>()),
        operands in proptest::collection::vec(any::<u64>(), 2..8),
        cut in 1usize..7,
    ) {
        let cut = cut.min(operands.len() - 1);
        let bytes: Vec<_> = operands.iter().map(|number| number.to_le_bytes()).collect();
        let operands: Vec<&[u8]> = bytes.iter().map(<[u8; 8]>::as_slice).collect();
        let existing = existing.map(u64::to_le_bytes);
        let existing = existing.as_ref().map(<[u8; 8]>::as_slice);
        let operators: [&dyn MergeOperator; 3] = [&AppendOperator::new("--"), &UInt64AddOperator, &MaxOperator];
        for operator in operators {
            let whole = full(operator, existing, &operands);
            let first = full(operator, existing, &operands[..cut]);
            prop_assert_eq!(&full(operator, Some(&first), &operands[cut..]), &whole);
            if cut >= 2 {
                let joined = operator.partial_merge(b"key", &operands[..cut]).unwrap();
                let rest: Vec<&[u8]> = std::iter::once(joined.as_slice()).chain(operands[cut..].iter().copied()).collect();
                prop_assert_eq!(full(operator, existing, &rest), whole);
            }
        }
    }
}

#[test]
fn operands_come_back_in_both_orders() {
    let mut operands = Operands::default();
    assert!(operands.is_empty());
    for operand in [&b"ab"[..], b"", b"c"] {
        operands.push(operand);
    }
    assert_eq!(operands.in_order(), [&b"ab"[..], b"", b"c"]);
    assert_eq!(operands.reversed(), [&b"c"[..], b"", b"ab"]);
    assert_eq!(operands.bytes(), 3);
    operands.clear();
    assert!(operands.is_empty() && operands.in_order().is_empty());
}
