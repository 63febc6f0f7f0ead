//! `stalls` on the engine in memory, and what it decides.

use super::steady::is_growing;
use super::*;

fn config(steps: &str) -> StallsConfig {
    StallsConfig {
        engines: vec![EngineKind::Memory],
        steps: steps.split(',').map(|step| step.parse().unwrap()).collect(),
        num: 3_000,
        value_size: 100,
        threads: 2,
        pairs: 1,
        seconds: 0.2,
        rate: None,
        offered: Offered::Own,
        existing: false,
        interval_s: 1.0,
        seed: 7,
        dir: None,
        settings: EngineSettings::default(),
    }
}

fn run_quietly(config: &StallsConfig) -> Result<(Vec<ResultLine>, String)> {
    let mut text = Vec::new();
    let lines = run(config, &mut Output::new(&mut text, None, false))?;
    Ok((lines, String::from_utf8_lossy(&text).into_owned()))
}

#[test]
fn every_step_is_run_and_reported() {
    let config = config("fill,settle,reads,reads-while-filling,maximum,poisson-70,constant-5,bursts,overwrite");
    let (lines, text) = run_quietly(&config).unwrap();
    assert_eq!(lines.len(), config.steps.len());
    assert!(lines.iter().all(|line| line.provenance.is_some()));
    for (line, step) in lines.iter().zip(&config.steps) {
        assert_eq!(line.workload, step.to_string());
        assert!(text.contains(&line.workload), "{text}");
        assert_eq!(line.offered_ops_per_s.is_some(), step.is_open_loop());
        assert_eq!(line.generator_late_max_us.is_some(), step.is_open_loop());
        assert_eq!(line.warm_up_max_us.is_some(), ["poisson-70", "constant-5"].contains(&line.workload.as_str()));
        if *step != Step::Settle {
            assert!(line.ops > 0 && line.longest_gap_us > Some(0.0), "{line:?}");
        }
    }
    assert_eq!(lines[0].ops, config.num);
    assert_eq!(lines[0].bytes_user, config.num * 116);
    let maximum = lines[4].ops_per_s;
    assert_eq!(lines[5].offered_ops_per_s, Some(maximum * 70.0 / 100.0));
    assert_eq!(lines[6].offered_ops_per_s, Some(maximum * 5.0 / 100.0));
}

#[test]
fn engines_run_in_pairs_and_races_are_compared() {
    let mut config = config("fill,overwrite,constant-5");
    config.engines = vec![EngineKind::Memory, EngineKind::Null];
    config.rate = Some(20_000);
    config.pairs = 2;
    let (lines, text) = run_quietly(&config).unwrap();
    let ran: Vec<_> = lines.iter().map(|line| (line.pair, line.engine.as_str())).collect();
    let (memory, null) = (lines[0].engine.as_str(), lines[3].engine.as_str());
    let expected = [(1, memory), (1, null), (2, null), (2, memory)].map(|run| [run; 3]).concat();
    assert_eq!(ran, expected);
    let (_, ratios) = text.split_once(&format!("{memory} / {null}")).unwrap();
    assert!(ratios.contains("fill") && ratios.contains("overwrite") && !ratios.contains("constant"), "{ratios}");
    config.existing = true;
    assert!(run_quietly(&config).unwrap_err().to_string().contains("existing"));
}

#[test]
fn a_given_rate_takes_the_place_of_a_maximum() {
    let mut config = config("fill,constant-50");
    config.rate = Some(20_000);
    let (lines, _) = run_quietly(&config).unwrap();
    assert_eq!(lines[1].offered_ops_per_s, Some(10_000.0));
    assert_eq!(lines[1].ops, 2_000, "equal gaps for 0.2 s: what came before does not count");
}

#[test]
fn a_short_step_of_bursts_has_one_too() {
    let mut config = config("fill,bursts");
    config.rate = Some(20_000);
    let (lines, _) = run_quietly(&config).unwrap();
    let offered = lines[1].offered_ops_per_s.unwrap();
    assert!((offered - 15_000.0).abs() < 1.0, "five sixths at half the rate and one at twice: {offered}");
}

#[test]
fn the_first_engines_maximum_can_hold_for_all() {
    let mut config = config("fill,maximum,poisson-10");
    config.engines = vec![EngineKind::Memory, EngineKind::Null];
    config.offered = Offered::First;
    let (lines, _) = run_quietly(&config).unwrap();
    assert_eq!(lines[2].offered_ops_per_s, lines[5].offered_ops_per_s);
    config.offered = Offered::Own;
    let (lines, _) = run_quietly(&config).unwrap();
    assert_eq!(lines[5].offered_ops_per_s, Some(lines[4].ops_per_s * 10.0 / 100.0));
}

#[test]
fn steps_that_lack_what_they_need_are_refused() {
    for (steps, part) in [("maximum", "--existing"), ("fill,poisson-80", "--rate"), ("fill,bursts,maximum", "--rate")] {
        let error = run_quietly(&config(steps)).unwrap_err();
        assert_eq!(error.kind(), siltstone_base::ErrorKind::InvalidArgument);
        assert!(error.to_string().contains(part), "{error}");
    }
}

#[test]
fn steps_have_names() {
    for step in Step::DEFAULT.split(',').chain(["overwrite", "constant-1000"]) {
        assert_eq!(step.parse::<Step>().map(|step| step.to_string()), Ok(step.to_owned()));
    }
    for text in ["", "poisson", "poisson-0", "poisson-1001", "constant-x", "fills", "uniform-80"] {
        assert!(text.parse::<Step>().is_err(), "{text}");
    }
}

#[test]
fn debt_grows_only_beyond_its_own_ups_and_downs() {
    const MIB: u64 = 1 << 20;
    let saw = |second: u64| 1_000 * MIB + second % 10 * 20 * MIB;
    assert!(!is_growing(&[]));
    assert!(!is_growing(&[0, 0]));
    assert!(!is_growing(&(0..60).map(saw).collect::<Vec<_>>()), "up and down");
    assert!(!is_growing(&(0..60).map(|second| second * MIB / 2).collect::<Vec<_>>()), "a few tables");
    assert!(is_growing(&(0..60).map(|second| saw(second) + second * 20 * MIB).collect::<Vec<_>>()));
    assert!(!is_growing(&(0..60).map(|second| saw(60 - second) + (60 - second) * 20 * MIB).collect::<Vec<_>>()));
}
