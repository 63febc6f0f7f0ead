//! Tests of mistakes that are made on purpose.

use siltstone_base::plant::{PlantedBug, with_planted};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What the first of `seeds` says whose run, in which the mistake is made, fails or panics.
pub fn hunt<T>(
    bug: PlantedBug,
    seeds: impl IntoIterator<Item = u64>,
    mut run: impl FnMut(u64) -> Result<T, String>,
) -> Option<String> {
    seeds.into_iter().find_map(|seed| match with_planted(bug, || catch_unwind(AssertUnwindSafe(|| run(seed)))) {
        Ok(outcome) => outcome.err().map(|message| format!("script {seed}: {message}")),
        Err(_) => Some(format!("script {seed}: a panic")),
    })
}

/// A test for each mistake: `$hunt` must see it.
#[macro_export]
macro_rules! planted {
    ($hunt:ident: $($test:ident: $bug:ident;)+) => {
        $(
            #[test]
            fn $test() {
                let found = $hunt(PlantedBug::$bug);
                println!("{:?}: {}", PlantedBug::$bug, found.as_deref().unwrap_or("not seen"));
                assert!(found.is_some(), "{:?} was not seen", PlantedBug::$bug);
            }
        )+
    };
}
