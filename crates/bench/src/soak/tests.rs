//! A short run, and what makes a run fail.

use super::samples::{Sample, Samples};
use super::*;

#[test]
fn a_short_run_does_everything_and_ends() {
    let dir = tempfile::tempdir().unwrap();
    let config = SoakConfig {
        seconds: 2.0,
        // Tests of other things run in the same process: its memory is not looked at.
        budget: 4 << 30,
        cores: 2,
        keys: 2_000,
        seed: 1,
        dir: Some(dir.path().join("soak")),
    };
    let mut text = Vec::new();
    run(&config, &mut Output::new(&mut text, None, false)).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("tables are what they should be") && text.contains("prepared transactions"), "{text}");
    assert!(!text.contains(" 0 commits"), "{text}");
    let bad = SoakConfig { budget: 1, ..config };
    let error = run(&bad, &mut Output::new(&mut Vec::new(), None, false)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
}

#[test]
fn memory_is_compared_once_there_is_enough_of_it() {
    let mut samples = Samples::new(100 << 20);
    for (resident, held, is_bad) in [
        // The program alone.
        (12.0, 0, false),
        (52.0, 45, false),
        (53.0, 50, false),
        // From here on the report must fit.
        (53.0, 45, true),
        (109.0, 101, false),
        (111.0, 111, true),
        (90.0, 100, true),
    ] {
        assert_eq!(samples.add(Sample::for_test(resident, held)), is_bad, "{resident} {held}");
    }
    assert_eq!(samples.counts_for_test(), [7, 1, 5, 2]);
    assert_eq!(samples.verdict().unwrap_err().kind(), ErrorKind::LimitExceeded);
    let mut fine = Samples::new(100 << 20);
    fine.add(Sample::for_test(100.0, 99));
    fine.verdict().unwrap();
}
