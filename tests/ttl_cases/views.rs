//! Openings for reading only: rows expire in them by what whoever writes had said when they were opened.

use super::super::{compact, keys, life, put};
use crate::expiry_support::{self, START, seconds};
use crate::ttl_support::small_family;
use siltstone::lsm::{CompactionStyle, Counter, Db, FlushOptions, Follower, ReadOptions};
use siltstone::ttl::{StampLayout, Ttl};
use siltstone_base::clock::ManualClock;
use siltstone_base::env::sim::SimDisk;
use siltstone_base::executor::StepExecutor;
use std::sync::Arc;
use std::time::Duration;

fn all(db: &Db) -> Vec<String> {
    keys(db, &ReadOptions::default())
}

fn view(disk: &SimDisk, ttl: &Arc<Ttl>, now: u64) -> Db {
    let executor = Arc::new(StepExecutor::new(Arc::new(ManualClock::new(now))));
    let family = small_family(CompactionStyle::Leveled).expiry(Some(ttl.clone()));
    Db::open_read_only("/db", &expiry_support::options(disk, &executor), &[("default", family)]).unwrap()
}

fn follower(disk: &SimDisk, ttl: &Arc<Ttl>, now: u64) -> (Follower, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::new(now));
    let options = expiry_support::options(disk, &Arc::new(StepExecutor::new(clock.clone())));
    let family = small_family(CompactionStyle::Leveled).expiry(Some(ttl.clone()));
    (Follower::open("/db", &options, &[("default", family)]).unwrap(), clock)
}

#[test]
fn a_view_keeps_the_durations_that_it_was_opened_with() {
    let disk = SimDisk::new();
    let ttl = Arc::new(Ttl::new(StampLayout::Prefix, seconds(1000)));
    let life = life(&disk, &ttl, START);
    put(&life.db, &ttl, "row", START);
    // Where nothing else is said, the policy that is given judges, as it is then.
    let own = Arc::new(Ttl::new(StampLayout::Prefix, seconds(5)));
    let view = view(&disk, &own, START + 500);
    own.set_duration(seconds(1)).unwrap();
    ttl.set_duration(seconds(10)).unwrap();
    life.pass(500);
    assert_eq!((all(&view), all(&life.db)), (vec!["row".to_owned()], vec![]));
    view.close().unwrap();
}

#[test]
fn a_directory_without_durations_is_read_by_those_of_the_reader() {
    let disk = SimDisk::new();
    let layout = StampLayout::Suffix;
    let executor = Arc::new(StepExecutor::new(Arc::new(ManualClock::new(START))));
    let db = Db::open("/db", &expiry_support::options(&disk, &executor)).unwrap();
    for (key, stamp) in [("new", START + 90), ("old", START)] {
        db.put(key, layout.stamped(b"v", stamp).unwrap()).unwrap();
    }
    db.flush(&FlushOptions::default()).unwrap();
    let ttl = Arc::new(Ttl::new(layout, seconds(100)));
    let (follower, _) = follower(&disk, &ttl, START + 150);
    let first = follower.db();
    assert_eq!(all(&first), ["new"]);
    // What comes later is not of this view, nor of the next one, whose tables are open already.
    ttl.set_duration(seconds(10)).unwrap();
    db.put("another", layout.stamped(b"v", START + 90).unwrap()).unwrap();
    follower.catch_up().unwrap();
    assert_eq!(
        (all(&first), all(&follower.db())),
        (vec!["new".to_owned()], vec!["another".to_owned(), "new".to_owned()])
    );
    assert!(all(&view(&disk, &ttl, START + 150)).is_empty());
}

/// Whoever follows would show rows that are expired, or hide rows that live.
#[test]
fn a_follower_shows_rows_by_the_durations_of_who_writes() {
    for (writers, followers, later) in [(10, 1000, 500), (1000, 10, 5)] {
        let disk = SimDisk::new();
        let ttl = Arc::new(Ttl::new(StampLayout::Prefix, seconds(writers)));
        let life = life(&disk, &ttl, START);
        put(&life.db, &ttl, "row", START);
        put(&life.db, &ttl, "next", START + 80);
        life.db.flush(&FlushOptions::default()).unwrap();
        let own = Arc::new(Ttl::new(StampLayout::Prefix, seconds(followers)));
        let (follower, clock) = follower(&disk, &own, START);
        for pass in [50, 50] {
            life.pass(pass);
            clock.advance(Duration::from_secs(pass));
            assert_eq!(all(&follower.db()), all(&life.db), "{writers} s and {followers} s");
        }
        // Nothing but the duration changes.
        ttl.set_duration(seconds(later)).unwrap();
        follower.catch_up().unwrap();
        for pass in [1, 30, 200] {
            life.clock.advance(Duration::from_secs(pass));
            clock.advance(Duration::from_secs(pass));
            assert_eq!(all(&follower.db()), all(&life.db), "{writers} s, then {later} s");
        }
        assert_eq!(own.duration(), seconds(followers), "what was given");
    }
}

/// What was read once would not be read again, and blocks would be passed by whose rows are not expired.
#[test]
fn a_follower_that_goes_on_changes_nothing_in_its_older_views() {
    let disk = SimDisk::new();
    // Whoever writes and whoever follows may have one policy.
    let followers = Arc::new(Ttl::new(StampLayout::Prefix, seconds(1000)));
    let mut ttl = followers.clone();
    let mut writer = life(&disk, &ttl, START);
    (0..200).for_each(|row| put(&writer.db, &ttl, &format!("row{row:03}"), START + row));
    // Nothing lies beneath: whole blocks may be passed by.
    compact(&writer.db);
    let (follower, clock) = follower(&disk, &followers, START + 500);
    writer.pass(500);
    // With each view what is expired in it whatever time it is, and how long rows live.
    let mut views = vec![(follower.db(), 0, 1000)];
    for (now, (duration, reopens)) in (START + 500..).zip([(400, false), (350, true), (2000, false), (325, true)]) {
        let (_, horizon, before) = views[views.len() - 1];
        if reopens {
            writer.close();
            ttl = Arc::new(Ttl::new(StampLayout::Prefix, seconds(duration)));
            writer = life(&disk, &ttl, now);
        } else {
            ttl.set_duration(seconds(duration)).unwrap();
        }
        writer.clock.advance(Duration::from_secs(1));
        clock.advance(Duration::from_secs(1));
        follower.catch_up().unwrap();
        views.push((follower.db(), horizon.max(now - before), duration));
        let counts: Vec<_> = views.iter().map(|(view, ..)| all(view).len() as u64).collect();
        let rows =
            |(_, horizon, duration): &(Db, u64, u64)| START + 199 - (now + 1 - duration).max(*horizon).max(START - 1);
        assert_eq!(counts, views.iter().map(rows).collect::<Vec<_>>(), "{duration} s");
        for (view, horizon, duration) in &views {
            let lives = |stamp: u64| stamp > (now + 1 - duration).max(*horizon);
            for row in [0, 102, 120, 199] {
                let found = view.get(format!("row{row:03}")).unwrap();
                assert_eq!(found.is_some(), lives(START + row), "row {row} where they live {duration} s");
            }
        }
        assert_eq!(counts.last(), Some(&(all(&writer.db).len() as u64)));
    }
    let skipped = |(view, ..): &(Db, u64, u64)| view.metrics().get(Counter::ExpiredBlocksSkipped);
    assert!(views.iter().skip(1).all(|view| skipped(view) > 0), "{:?}", views.iter().map(skipped).collect::<Vec<_>>());
    assert_eq!(skipped(&views[0]), 0);
    assert_eq!(followers.duration(), seconds(400), "what was given");
}

/// Rows of the one would be judged by the durations of the other.
#[test]
fn one_policy_reads_databases_by_the_durations_of_each() {
    let disks = [SimDisk::new(), SimDisk::new()];
    let own = Arc::new(Ttl::new(StampLayout::Prefix, seconds(50)));
    for (disk, duration) in disks.iter().zip([10, 1000]) {
        let ttl = Arc::new(Ttl::new(StampLayout::Prefix, seconds(duration)));
        let life = life(disk, &ttl, START);
        put(&life.db, &ttl, "row", START);
        life.close();
    }
    let elsewhere = SimDisk::new();
    let writes = life(&elsewhere, &own, START);
    let views = disks.each_ref().map(|disk| view(disk, &own, START + 20));
    assert_eq!(views.each_ref().map(|view| all(view).len()), [0, 1]);
    own.set_duration(seconds(1)).unwrap();
    put(&writes.db, &own, "row", START);
    writes.clock.advance(Duration::from_secs(20));
    assert_eq!((all(&writes.db).len(), views.each_ref().map(|view| all(view).len())), (0, [0, 1]));
}
