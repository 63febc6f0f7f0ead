//! Known mistakes of the change buffer, made on purpose: the model must show each of them.

use super::model;
use siltstone_base::plant::{PlantedBug, with_planted};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Whether one of some cases fails with the mistake made.
fn is_seen(bug: PlantedBug) -> bool {
    (100..130).any(|seed| with_planted(bug, || catch_unwind(AssertUnwindSafe(|| model::run(seed)))).is_err())
}

#[test]
fn entries_that_outlive_their_leaf_are_seen() {
    assert!(is_seen(PlantedBug::FreedLeafKeepsEntries));
}

#[test]
fn a_merge_without_its_bitmap_is_seen() {
    assert!(is_seen(PlantedBug::MergeForgetsBitmap));
}

#[test]
fn a_cursor_that_skips_what_waits_is_seen() {
    assert!(is_seen(PlantedBug::WaitingEntriesAreSkipped));
}

#[test]
fn room_that_is_not_there_is_seen() {
    assert!(is_seen(PlantedBug::RoomIsOverstated));
}
