//! Short runs of every command by the binary itself: results name the whole configuration, down to the seed.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]
#![expect(clippy::disallowed_methods, reason = "reads what another program left")]

use siltstone_base::engine::Durability;
use siltstone_bench::report::{self, RunRecord};
use std::path::Path;
use std::process::Command;

/// The commands that measure, with arguments that make them short.
const COMMANDS: [(&str, &[&str]); 7] = [
    ("kv", &["--num=500", "--workloads=fillseq,settle"]),
    ("ycsb", &["--records=200", "--operations=100", "--workloads=load,a"]),
    ("insert", &["--rows=500", "--steps=l,settle"]),
    ("sysbench", &["--tables=1", "--rows=250", "--clients=1", "--seconds=0.2", "--workloads=load,read_only"]),
    ("redmine", &["--operations=search", "--clients=1", "--seconds=0.2"]),
    ("stalls", &["--num=1000", "--steps=fill,overwrite", "--seconds=0.2"]),
    ("ads", &["--rows=ttl", "--days=70", "--day-seconds=0.02", "--upserts-per-day=40", "--buffered"]),
];

/// The results of one command.
fn results(command: &str, arguments: &[&str], seed: u64, json: &Path) -> Vec<RunRecord> {
    let output = Command::new(env!("CARGO_BIN_EXE_siltstone-bench"))
        .arg(command)
        .args(arguments)
        .arg(format!("--seed={seed}"))
        .arg(format!("--json={}", json.display()))
        .output()
        .unwrap();
    assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    report::parse(&std::fs::read_to_string(json).unwrap(), json).unwrap()
}

#[test]
fn every_command_names_its_whole_configuration_in_each_result() {
    let dir = tempfile::tempdir().unwrap();
    for ((command, arguments), seed) in COMMANDS.into_iter().zip(4_711..) {
        let records = results(command, arguments, seed, &dir.path().join(format!("{command}.json")));
        assert!(!records.is_empty(), "{command}");
        for RunRecord { result, .. } in &records {
            assert_eq!(result.experiment, command);
            let config = result.config.as_ref().unwrap();
            assert_eq!(config["seed"], seed, "{command}: {config}");
            assert!(config["settings"]["cache_bytes"].as_u64() > Some(0), "{command}: {config}");
            let words = ["durability", "device", "write_admission"].map(|name| config["settings"][name].as_str());
            assert_eq!([words[1], words[2]], [Some("none"), Some("paced")], "{command}: {config}");
            assert!(words[0].is_some_and(|durability| durability.parse::<Durability>().is_ok()), "{command}: {config}");
        }
    }
}
