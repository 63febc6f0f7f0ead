//! Files of `/proc`, and what a process uses.

use super::usage::{Stat, Switches, some_pressure};
use super::*;

#[test]
fn times_and_faults_are_found_behind_any_name() {
    let stat = "1917 (a) R (b) R 1908 1908 27852 0 -1 4194304 100 0 7 0 250 50 0 0 20 0 1 0 4120133 3133440";
    let expected = Stat { major_page_faults: 7, user_s: 2.5, system_s: 0.5 };
    assert_eq!(Stat::parse(stat), Some(expected));
    assert_eq!(Stat::parse("1917 (a) R 1908 1908"), None);
    assert_eq!(Stat::parse(""), None);
}

#[test]
fn switches_of_both_kinds_are_told_apart() {
    let status = "Name:\tone\nThreads:\t1\nvoluntary_ctxt_switches:\t150\nnonvoluntary_ctxt_switches:\t545\n";
    assert_eq!(Switches::parse(status), Some(Switches { voluntary: 150, involuntary: 545 }));
    assert_eq!(Switches::parse("voluntary_ctxt_switches:\t150\n"), None);
}

#[test]
fn pressure_is_that_of_some_threads() {
    let text =
        "some avg10=3.94 avg60=2.34 avg300=2.90 total=5678721164\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=9\n";
    assert_eq!(some_pressure(text), Some(5_678_721_164));
    assert_eq!(some_pressure("full avg10=0.00 total=9\n"), None);
    assert_eq!(some_pressure("some avg10=0.00 total=many\n"), None);
}

#[test]
fn what_was_used_since_is_the_difference_and_unknown_where_either_is() {
    let earlier = ProcessUsage {
        cpu_s: Some(1.0),
        user_cpu_s: Some(0.75),
        voluntary_context_switches: Some(10),
        involuntary_context_switches: Some(30),
        write_syscalls: Some(5),
        io_pressure_us: None,
        rss_mb: Some(1.0),
        ..ProcessUsage::default()
    };
    let now = ProcessUsage {
        cpu_s: Some(3.0),
        user_cpu_s: Some(1.75),
        voluntary_context_switches: Some(12),
        // Threads that ended took what they had with them.
        involuntary_context_switches: Some(20),
        write_syscalls: Some(9),
        io_pressure_us: Some(7),
        rss_mb: Some(4.0),
        ..ProcessUsage::default()
    };
    let expected = ProcessUsage {
        cpu_s: Some(2.0),
        user_cpu_s: Some(1.0),
        voluntary_context_switches: Some(2),
        involuntary_context_switches: Some(0),
        write_syscalls: Some(4),
        rss_mb: Some(4.0),
        ..ProcessUsage::default()
    };
    assert_eq!(now.since(&earlier), expected);
}

#[test]
fn a_process_is_told_what_it_uses() {
    let used = ProcessUsage::now();
    assert!(used.cpu_s.is_some() && used.user_cpu_s <= used.cpu_s && used.system_cpu_s <= used.cpu_s, "{used:?}");
    assert!(used.voluntary_context_switches.is_some() && used.involuntary_context_switches.is_some(), "{used:?}");
    assert!(used.rss_mb > Some(1.0) && used.major_page_faults.is_some(), "{used:?}");
    // Not every kernel counts these.
    assert_eq!(used.read_syscalls.is_some(), used.read.is_some(), "{used:?}");
    assert_eq!(used.cpu_pressure_us.is_some(), used.io_pressure_us.is_some(), "{used:?}");
}
