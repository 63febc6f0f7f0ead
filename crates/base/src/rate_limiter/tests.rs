//! Jobs on a manual clock.

use super::*;
use crate::clock::ManualClock;
use crate::script::{Command, run_file};
use std::fmt::Write;

const MB: u64 = 1_000_000;

struct World {
    clock: Arc<ManualClock>,
    limiter: RateLimiter,
    tickets: Vec<Ticket>,
}

impl World {
    fn new(limit: RateLimit) -> Self {
        let clock = Arc::new(ManualClock::new(0));
        clock.advance(Duration::from_secs(10));
        let limiter = RateLimiter::new(clock.clone(), limit);
        Self { clock, limiter, tickets: Vec::new() }
    }
}

fn priority(name: &str) -> RatePriority {
    let of_name = |priority: &RatePriority| format!("{priority:?}").eq_ignore_ascii_case(name);
    RatePriority::ALL.into_iter().find(of_name).unwrap()
}

/// Lets jobs move 64 KB as often as they may for `seconds`; returns the bytes that each has moved.
fn contend(limit: RateLimit, jobs: &[RatePriority], seconds: u64) -> Vec<u64> {
    let World { clock, limiter, .. } = World::new(limit);
    let mut moved = vec![0; jobs.len()];
    let mut tickets: Vec<Option<Ticket>> = vec![None; jobs.len()];
    let end = clock.now_micros() + seconds * 1_000_000;
    while clock.now_micros() < end {
        for (job, priority) in jobs.iter().enumerate() {
            if tickets[job].is_none_or(|mut ticket| limiter.remaining(&mut ticket).is_zero()) {
                moved[job] += 64_000;
                tickets[job] = Some(limiter.request(64_000, *priority));
            }
        }
        clock.advance(Duration::from_micros(200));
    }
    moved
}

fn limit(command: &Command) -> RateLimit {
    RateLimit {
        bytes_per_second: command.get_or("rate", MB),
        burst: Duration::from_millis(command.get_or("burst", 100)),
        fairness: command.get_or("fairness", 10),
    }
}

/// One command of the script.
fn run(world: &mut World, command: &Command) -> String {
    let mut text = String::new();
    match command.name.as_str() {
        "limiter" => *world = World::new(limit(command)),
        "pass" => world.clock.advance(Duration::from_millis(command.get_or("ms", 0))),
        "rate" => world.limiter.set_bytes_per_second(command.get_or("to", 0)),
        "ask" => {
            for line in command.input.lines() {
                let (who, bytes) = line.split_once(' ').unwrap();
                let mut ticket = world.limiter.request(bytes.parse().unwrap(), priority(who));
                let _ = writeln!(text, "{who}: {} ms", world.limiter.remaining(&mut ticket).as_millis());
                world.tickets.push(ticket);
            }
        }
        "left" => {
            for ticket in &mut world.tickets {
                let _ = writeln!(text, "{} ms", world.limiter.remaining(ticket).as_millis());
            }
        }
        "contend" => {
            let limit = limit(command);
            let seconds = command.get_or("seconds", 20);
            let jobs: Vec<&str> = command.input.split_whitespace().collect();
            let priorities: Vec<RatePriority> = jobs.iter().map(|name| priority(name)).collect();
            let moved = contend(limit, &priorities, seconds);
            let all = (limit.bytes_per_second * seconds) as f64;
            for (job, moved) in jobs.iter().zip(moved) {
                let _ = writeln!(text, "{job}: {:.0} %", moved as f64 * 100.0 / all);
            }
        }
        other => panic!("no command {other}"),
    }
    text
}

#[test]
fn waits_are_as_the_script_says() {
    let mut world = World::new(RateLimit::new(MB));
    run_file(concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/rate_limiter"), |command| run(&mut world, command));
}

#[test]
fn nothing_of_the_rate_is_lost_and_nothing_is_added() {
    use RatePriority::{Deep, Flush, Level0, Upkeep};
    for jobs in
        [&[Flush][..], &[Deep], &[Upkeep], &[Deep; 4], &[Flush, Level0, Deep, Upkeep], &[Level0, Level0, Upkeep]]
    {
        for fairness in [0, LEAST_FAIRNESS, 10, 1000] {
            let limit = RateLimit { fairness, ..RateLimit::new(10 * MB) };
            let moved = contend(limit, jobs, 20);
            let total: u64 = moved.iter().sum();
            assert!((196 * MB..214 * MB).contains(&total), "{jobs:?} {fairness}: {moved:?}");
        }
    }
}

#[test]
fn equals_share() {
    let moved = contend(RateLimit::new(10 * MB), &[RatePriority::Deep; 4], 20);
    let total: u64 = moved.iter().sum();
    assert!(moved.iter().all(|bytes| bytes * 5 > total), "{moved:?}");
}

#[test]
fn what_is_granted_and_waited_for_is_counted() {
    let world = World::new(RateLimit::new(MB));
    world.limiter.request(2 * MB, RatePriority::User);
    world.limiter.request(2 * MB, RatePriority::User);
    let mut ticket = world.limiter.request(1, RatePriority::Flush);
    assert_eq!(world.limiter.remaining(&mut ticket), Duration::from_millis(3900), "four seconds less the burst");
    assert_eq!(world.limiter.granted_bytes(RatePriority::User), 4 * MB);
    assert_eq!(world.limiter.granted_bytes(RatePriority::Flush), 1);
    assert_eq!(world.limiter.waited(), Duration::from_millis(3900));
}

#[test]
fn no_number_overflows() {
    let world = World::new(RateLimit { bytes_per_second: 1, burst: Duration::MAX, fairness: u32::MAX });
    for priority in RatePriority::ALL {
        for _ in 0..3 {
            let mut ticket = world.limiter.request(u64::MAX, priority);
            world.limiter.remaining(&mut ticket);
        }
    }
    world.limiter.set_bytes_per_second(u64::MAX);
    world.limiter.set_bytes_per_second(0);
    assert!(!world.limiter.is_limited());
}
