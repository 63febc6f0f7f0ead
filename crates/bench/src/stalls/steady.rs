//! Whether an engine could go on like that.

use crate::load::median;

/// Debt below which growth says nothing: a few tables.
const NOISE: f64 = (64 << 20) as f64;

/// Growth from the first half to the second that counts as none.
const TOLERANCE: f64 = 1.05;

/// Whether debt, looked at at equal distances, was still growing at the end: whether its median over the last third is above that over the
/// third before. Debt goes up and down with every compaction, which medians pass over.
pub(super) fn is_growing(debts: &[u64]) -> bool {
    let third = debts.len() / 3;
    let of = |part: &[u64]| median(&part.iter().map(|debt| *debt as f64).collect::<Vec<_>>()).unwrap_or(0.0);
    let (before, last) = debts.split_at(debts.len() - third);
    let (before, last) = (of(&before[before.len() - third..]), of(last));
    last > before * TOLERANCE + NOISE
}
