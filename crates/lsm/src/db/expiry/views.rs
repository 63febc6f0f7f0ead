//! Views for reading that share a policy. A policy judges rows by one history of durations: views of one family may share it, those of different ones may not.

use crate::db::state::Surroundings;
use siltstone_base::expiry::ExpiryPolicy;
use siltstone_base::sync::{Arc, ArcSwapOption, Weak};
use siltstone_base::{Error, ErrorKind, Result};
use std::path::PathBuf;

/// All views of this process that have a policy.
static VIEWS: ArcSwapOption<Vec<Shared>> = ArcSwapOption::const_empty();

/// Of which family a view is. A copy of a database has the id of that one, and another directory.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Viewed {
    dir: PathBuf,
    db_id: String,
    family: u32,
}

#[derive(Debug, Clone)]
struct Shared {
    /// Where the policy is, which lives as long as the view.
    policy: usize,
    viewed: Weak<Viewed>,
}

/// Lets a view have a policy, until what is returned is dropped.
///
/// # Errors
///
/// `Busy` if the policy judges the rows of another family.
pub(super) fn share(policy: &Arc<dyn ExpiryPolicy>, surroundings: &Surroundings, family: u32) -> Result<Arc<Viewed>> {
    let dir = surroundings.env.resolve(&surroundings.dir).unwrap_or_else(|_| surroundings.dir.clone());
    let viewed = Arc::new(Viewed { dir, db_id: surroundings.db_id.clone(), family });
    let policy = Arc::as_ptr(policy).cast::<()>() as usize;
    let mut is_taken = false;
    VIEWS.rcu(|views| {
        let is_alive = |view: &&Shared| view.viewed.strong_count() > 0;
        let mut alive: Vec<Shared> = views.iter().flat_map(|views| views.iter()).filter(is_alive).cloned().collect();
        let mut others = alive.iter().filter(|view| view.policy == policy).filter_map(|view| view.viewed.upgrade());
        is_taken = others.any(|other| other != viewed);
        if !is_taken {
            alive.push(Shared { policy, viewed: Arc::downgrade(&viewed) });
        }
        Some(Arc::new(alive))
    });
    match is_taken {
        true => Err(Error::new(ErrorKind::Busy, "expiry: the policy is that of another open family")),
        false => Ok(viewed),
    }
}
