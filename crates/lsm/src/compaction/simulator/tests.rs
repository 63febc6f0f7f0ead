//! Tests of what styles cost, and of the trees that they make.

use super::*;
use crate::options::{ColumnFamilyOptions, CompactionStyle, FifoCompactionOptions, UniversalCompactionOptions};
use siltstone_base::script::{Command, run_dir};

/// A flush has 64 KiB unless it is said.
fn simulation_of(command: &Command) -> Simulation {
    let kib = |name: &str, default: u64| command.get_or(name, default) << 10;
    let options = ColumnFamilyOptions::default()
        .write_buffer_size(kib("flush", 64) as usize)
        .num_levels(command.get_or("levels", 7))
        .level0_file_num_compaction_trigger(command.get_or("trigger", 4))
        .max_bytes_for_level_base(kib("base", 256))
        .max_bytes_for_level_multiplier(command.get_or("multiplier", 10))
        .target_file_size_base(kib("target", 64))
        .level_compaction_dynamic_level_bytes(!command.has("static"))
        .level0_sublevels(command.has("sublevels"));
    let options = match command.has("universal") {
        false => options,
        true => options.compaction_style(CompactionStyle::Universal).compaction_options_universal(
            UniversalCompactionOptions::default()
                .size_ratio(command.get_or("ratio", 1))
                .max_size_amplification_percent(command.get_or("space", 200))
                .incremental(!command.has("at-once")),
        ),
    };
    let options = match command.get::<u64>("fifo") {
        None => options,
        Some(kib) => {
            options.compaction_style(CompactionStyle::Fifo).ttl(command.get_or("ttl", 0)).compaction_options_fifo(
                FifoCompactionOptions::default()
                    .max_table_files_size(kib << 10)
                    .allow_compaction(command.has("merges")),
            )
        }
    };
    let options = if command.has("lazy") { options.compaction_style(CompactionStyle::Lazy) } else { options };
    let mut simulation = Simulation::new(options);
    simulation.pattern = match command.get_or("pattern", "uniform".to_owned()).as_str() {
        "uniform" => Pattern::Uniform,
        "ascending" => Pattern::Ascending,
        "hot" => Pattern::Hot,
        other => panic!("line {}: pattern {other}", command.line),
    };
    simulation.keys = command.get_or("keys", 100_000);
    simulation.entry_bytes = command.get_or("entry", 100);
    simulation.jobs = command.get_or("jobs", 1);
    simulation.work_bytes = command.get::<u64>("work").map_or(u64::MAX, |kib| kib << 10);
    simulation
}

fn run(command: &Command) -> String {
    let simulation = simulation_of(command);
    let (outcome, picture) = simulation.run_to_picture(command.get_or("flushes", 2000));
    match command.name.as_str() {
        "cost" => format!(
            "write {:.1}, space {:.2} up to {:.2}, runs {:.1} up to {}\ninput up to {:.0} % of what is live; stops {}; debt up to {} KiB, {} flushes long\n",
            outcome.write_amp,
            outcome.space_amp,
            outcome.space_amp_max,
            outcome.sorted_runs,
            outcome.sorted_runs_max,
            outcome.largest_input * 100.0,
            outcome.stops,
            outcome.debt_bytes_max >> 10,
            outcome.debt_flushes_max,
        ),
        "draw" => picture.to_string(),
        other => panic!("line {}: unknown command {other}", command.line),
    }
}

#[test]
fn styles_cost_what_the_scripts_say() {
    run_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/simulator"), |_| run);
}

#[test]
fn tens_of_thousands_of_flushes_keep_the_shape_of_the_tree() {
    let options = ColumnFamilyOptions::default().write_buffer_size(64 << 10).max_bytes_for_level_base(256 << 10);
    let options = options.target_file_size_base(256 << 10);
    let simulation = Simulation { keys: 10_000, entry_bytes: 100, ..Simulation::new(options) };
    let (early, late) = (simulation.run(1_000), simulation.run(30_000));
    assert!((early.write_amp - late.write_amp).abs() < 0.1 * early.write_amp, "{early:?} {late:?}");
    assert_eq!(early.sorted_runs_max, late.sorted_runs_max);
    assert!(late.space_amp_max < early.space_amp_max * 1.1, "{early:?} {late:?}");
}
