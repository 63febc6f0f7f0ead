//! Other threads that come in between, each at a moment of the one that is under test.

use siltstone_base::plant::{planted, with_planted};
use siltstone_btree::testing::{self, Moment, Step};

/// Runs `body`; at each moment that it passes another thread does what `choose` says, while this one waits.
pub fn with_meanwhile<T>(mut choose: impl FnMut(Moment) -> Option<Step> + 'static, body: impl FnOnce() -> T) -> T {
    let act = move |moment, act: testing::Act<'_>| {
        let Some(step) = choose(moment) else { return };
        let bug = planted();
        let done = std::thread::scope(|scope| {
            let other = scope.spawn(|| match bug {
                Some(bug) => with_planted(bug, || act(step)),
                None => act(step),
            });
            other.join()
        });
        if let Err(panic) = done {
            std::panic::resume_unwind(panic);
        }
    };
    testing::with_meanwhile(act, body)
}
