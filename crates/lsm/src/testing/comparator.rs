//! The laws of an order.

use super::Failure;
use siltstone_base::comparator::Comparator;
use std::cmp::Ordering;

/// Holds `order` against the laws that the engine relies on, for every one, two and three of `keys`.
///
/// # Errors
///
/// The first law that does not hold, with the keys.
pub fn check_comparator(order: &dyn Comparator, keys: &[Vec<u8>]) -> Result<(), Failure> {
    for a in keys {
        demand(order.compare(a, a) == Ordering::Equal, "a key equals itself", &[a])?;
        check_successor(order, a)?;
        for b in keys {
            check_pair(order, a, b)?;
            for c in keys {
                let is_chain = order.compare(a, b).is_le() && order.compare(b, c).is_le();
                demand(!is_chain || order.compare(a, c).is_le(), "a <= b and b <= c mean a <= c", &[a, b, c])?;
            }
        }
    }
    Ok(())
}

fn check_pair(order: &dyn Comparator, a: &[u8], b: &[u8]) -> Result<(), Failure> {
    let found = order.compare(a, b);
    demand(found == order.compare(b, a).reverse(), "an order is the same from both sides", &[a, b])?;
    if !order.equal_may_differ() {
        demand((found == Ordering::Equal) == (a == b), "keys that differ do not compare equal", &[a, b])?;
    }
    if order.is_bytewise() {
        demand(found == a.cmp(b), "an order that says so is that of the bytes", &[a, b])?;
    }
    if found == Ordering::Less {
        let mut separator = Vec::new();
        order.shortest_separator(a, b, &mut separator);
        let is_between = order.compare(a, &separator).is_le() && order.compare(&separator, b).is_lt();
        demand(is_between, "a separator is at or after the one key and before the other", &[a, b, &separator])?;
    }
    Ok(())
}

fn check_successor(order: &dyn Comparator, key: &[u8]) -> Result<(), Failure> {
    let mut successor = Vec::new();
    order.short_successor(key, &mut successor);
    demand(order.compare(key, &successor).is_le(), "a successor is not before its key", &[key, &successor])
}

fn demand(holds: bool, law: &str, keys: &[&[u8]]) -> Result<(), Failure> {
    if holds { Ok(()) } else { Err(Failure::new(format!("{law}: {keys:?}"))) }
}
