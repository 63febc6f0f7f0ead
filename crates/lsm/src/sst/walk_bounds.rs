//! The bounds of a walk, for tables that pass by blocks of it.

use crate::options::ReadOptions;
use siltstone_base::sync::Arc;

/// The user keys between which a walk shows entries. A walk ends with the first entry behind them, so blocks there are read and never passed by: it would go on to the next block with rows that
/// live, however far away, and fail if that one could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct WalkBounds {
    /// The first key that is shown.
    pub(crate) lower: Option<Vec<u8>>,
    /// The first key behind them.
    pub(crate) upper: Option<Vec<u8>>,
}

impl WalkBounds {
    /// Those of a read; `None` if it has none.
    pub(crate) fn of(options: &ReadOptions) -> Option<Arc<Self>> {
        let (lower, upper) = (options.iterate_lower_bound.clone(), options.iterate_upper_bound.clone());
        (lower.is_some() || upper.is_some()).then(|| Arc::new(Self { lower, upper }))
    }
}
