//! Keys, mixes, and every workload on an engine in memory.

use super::keys::{KEY_BYTES, Popular, encode_key};
use super::workload::Operation;
use super::*;
use rand::SeedableRng;
use rand::rngs::StdRng;
use std::collections::BTreeSet;

#[test]
fn keys_have_one_length_and_are_scattered() {
    let mut keys = BTreeSet::new();
    let mut key = Vec::new();
    for number in 0..10_000 {
        encode_key(number, &mut key);
        assert_eq!((key.len(), &key[..4]), (KEY_BYTES, &b"user"[..]));
        keys.insert(key.clone());
    }
    assert_eq!(keys.len(), 10_000);
    encode_key(0, &mut key);
    assert_ne!(keys.first(), Some(&key));
}

#[test]
fn a_few_records_are_asked_for_most_often() {
    let records = 10_000;
    let popular = Popular::new(records).unwrap();
    let mut rng = StdRng::seed_from_u64(7);
    let mut counts = vec![0_u32; records as usize];
    for _ in 0..100_000 {
        counts[popular.anywhere(&mut rng) as usize] += 1;
    }
    counts.sort_unstable_by(|a, b| b.cmp(a));
    // With an exponent of 0.99 the sum of 1/k^0.99 over 10,000 ranks is about 10.2.
    assert!((9_000..11_000).contains(&counts[0]), "{}", counts[0]);
    let hundred: u32 = counts[..100].iter().sum();
    assert!((48_000..58_000).contains(&hundred), "{hundred}");
}

#[test]
fn the_newest_record_is_the_most_popular_where_it_should_be() {
    let popular = Popular::new(1_000).unwrap();
    let mut rng = StdRng::seed_from_u64(7);
    let drawn: Vec<_> = (0..10_000).map(|_| popular.newest(1_500, &mut rng)).collect();
    let newest = drawn.iter().filter(|record| **record == 1_499).count();
    assert!((1_100..1_600).contains(&newest), "{newest}");
    assert!(drawn.iter().all(|record| (500..1_500).contains(record)));
    assert_eq!(popular.newest(1, &mut rng), 0);
}

#[test]
fn mixes_are_those_of_the_benchmark() {
    let count = |workload: Workload, operation| (0..100).filter(|draw| workload.operation(*draw) == operation).count();
    for (workload, reads, other, others) in [
        (Workload::A, 50, Operation::Update, 50),
        (Workload::B, 95, Operation::Update, 5),
        (Workload::C, 100, Operation::Update, 0),
        (Workload::D, 95, Operation::Insert, 5),
        (Workload::F, 50, Operation::ReadModifyWrite, 50),
    ] {
        assert_eq!((count(workload, Operation::Read), count(workload, other)), (reads, others), "{workload}");
    }
    assert_eq!((count(Workload::E, Operation::Scan), count(Workload::E, Operation::Insert)), (95, 5));
    assert_eq!(count(Workload::Load, Operation::Insert), 100);
}

fn config(engine: EngineKind) -> YcsbConfig {
    YcsbConfig {
        engines: vec![engine],
        workloads: Workload::DEFAULT.split(',').map(|name| name.parse().unwrap()).collect(),
        records: 500,
        operations: 400,
        fields: 2,
        threads: 2,
        offered: OfferedRates::default(),
        pairs: 1,
        interval_s: 1.0,
        seed: 3,
        dir: None,
        settings: EngineSettings::default().with_memory(24 << 20),
    }
}

#[test]
fn every_workload_finds_its_records_on_both_engines() {
    for engine in [EngineKind::LsmLeveled, EngineKind::Btree] {
        let mut text = Vec::new();
        let lines = run(&config(engine), &mut Output::new(&mut text, None, false)).unwrap();
        let ops: Vec<_> = lines.iter().map(|line| (line.workload.as_str(), line.ops)).collect();
        let expected =
            [("load", 500), ("a", 400), ("b", 400), ("c", 400), ("f", 400), ("d", 400), ("load", 500), ("e", 400)];
        assert_eq!(ops, expected);
        assert!(lines.iter().all(|line| line.experiment == "ycsb" && line.p99_us.is_some()));
        assert!(lines.iter().all(|line| line.provenance.is_some()));
        let table = String::from_utf8(text).unwrap();
        assert!(table.contains("500 records of 2 fields"), "{table}");
    }
}

#[test]
fn mixes_run_again_at_every_offered_rate() {
    for engine in [EngineKind::LsmLeveled, EngineKind::Btree] {
        let config = YcsbConfig {
            workloads: vec![Workload::Load, Workload::A, Workload::D, Workload::Settle],
            offered: OfferedRates { fractions: vec![1.5, 0.8], rates: vec![20_000] },
            ..config(engine)
        };
        let mut text = Vec::new();
        let lines = run(&config, &mut Output::new(&mut text, None, false)).unwrap();
        let ran: Vec<_> = lines.iter().map(|line| (line.workload.as_str(), line.ops)).collect();
        let expected = [
            ("load", 500),
            ("a", 400),
            ("a poisson-150", 400),
            ("a poisson-80", 400),
            ("a poisson-20000/s", 400),
            ("d", 400),
            ("d poisson-150", 400),
            ("d poisson-80", 400),
            ("d poisson-20000/s", 400),
            ("settle", 0),
        ];
        assert_eq!(ran, expected);
        for phases in lines[1..9].chunks(4) {
            let maximum = phases[0].ops_per_s;
            let offered: Vec<_> = phases.iter().map(|line| line.offered_ops_per_s).collect();
            assert_eq!(offered, [None, Some(maximum * 1.5), Some(maximum * 0.8), Some(20_000.0)]);
            assert_eq!((phases[0].generator_late_max_us, phases[0].longest_gap_us), (None, None));
            for line in &phases[1..] {
                assert!(line.generator_late_max_us >= line.generator_late_p99_us, "{line:?}");
                assert!(line.generator_late_p99_us.is_some() && line.longest_gap_us.is_some(), "{line:?}");
                assert!(line.p9999_us >= line.p50_us && line.p50_us.is_some(), "{line:?}");
                assert_eq!((&line.config_hash, &line.setup), (&phases[0].config_hash, &phases[0].setup));
            }
        }
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains("offered/s") && text.contains("late max us"), "{text}");
    }
}

#[test]
fn engines_are_held_against_each_other_by_their_closed_loops() {
    let config = YcsbConfig {
        engines: vec![EngineKind::LsmLeveled, EngineKind::Btree],
        workloads: vec![Workload::Load, Workload::C],
        offered: OfferedRates { fractions: vec![0.8], rates: Vec::new() },
        ..config(EngineKind::LsmLeveled)
    };
    let mut text = Vec::new();
    let lines = run(&config, &mut Output::new(&mut text, None, false)).unwrap();
    assert_eq!(lines.len(), 6);
    for phases in lines.chunks(3) {
        assert_eq!(phases[2].offered_ops_per_s, Some(phases[1].ops_per_s * 0.8), "of the engine's own maximum");
    }
    let text = String::from_utf8(text).unwrap();
    let (_, ratios) = text.split_once("lsm-leveled / btree").unwrap();
    assert!(ratios.contains("load") && !ratios.contains("poisson"), "{ratios}");
}

#[test]
fn what_cannot_be_run_is_refused() {
    let refused = |change: fn(&mut YcsbConfig)| {
        let mut config = config(EngineKind::LsmLeveled);
        change(&mut config);
        run(&config, &mut Output::new(&mut Vec::new(), None, false)).unwrap_err().to_string()
    };
    assert!(refused(|config| config.records = 0).contains("--records"));
    assert!(refused(|config| config.workloads = vec![Workload::A]).contains("--workloads must begin with load"));
    assert!(refused(|config| config.threads = 0).contains("--threads"));
    assert!(refused(|config| config.offered.fractions = vec![0.0]).contains("--fractions"));
    assert!(refused(|config| config.offered.rates = vec![2_000_000]).contains("--rate"));
}
