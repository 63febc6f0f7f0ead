//! What the compaction styles cost, as the picker simulator has it: a line for each setting of the knob between write and space amplification.
//!
//! ```text
//! cargo run --release -p siltstone-lsm --features testing --example pickers -- [FLUSHES [GIB]]
//! ```
//!
//! A flush has 64 MiB; keys are overwritten with uniform probability.

#![expect(clippy::print_stdout, reason = "an example")]

use siltstone_lsm::testing::Simulation;
use siltstone_lsm::{ColumnFamilyOptions, CompactionStyle, UniversalCompactionOptions};

fn main() {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse().ok());
    let flushes = arguments.next().flatten().unwrap_or(5_000);
    let gib: u64 = arguments.next().flatten().unwrap_or(10);
    println!("{flushes} flushes of 64 MiB over {gib} GiB of keys");
    println!("| style | write | space | most | runs | most | largest |\n| --- | --- | --- | --- | --- | --- | --- |");
    for multiplier in [4, 6, 10] {
        let options = ColumnFamilyOptions::default().max_bytes_for_level_multiplier(multiplier);
        print(&format!("leveled, multiplier {multiplier}"), options, flushes, gib);
    }
    print("leveled, sublevels", ColumnFamilyOptions::default().level0_sublevels(true), flushes, gib);
    for trigger in [4, 6, 8, 12] {
        for percent in [25, 50, 100, 200, 300] {
            let universal = UniversalCompactionOptions::default().max_size_amplification_percent(percent);
            let options = ColumnFamilyOptions::default()
                .compaction_style(CompactionStyle::Universal)
                .num_levels(trigger.max(7))
                .level0_file_num_compaction_trigger(trigger)
                .compaction_options_universal(universal);
            print(&format!("universal, {trigger} runs, {percent} %"), options, flushes, gib);
        }
    }
    for trigger in [4, 8] {
        for multiplier in [2, 4, 6, 10] {
            let options = ColumnFamilyOptions::default()
                .compaction_style(CompactionStyle::Lazy)
                .num_levels(9)
                .level0_file_num_compaction_trigger(trigger)
                .max_bytes_for_level_multiplier(multiplier);
            print(&format!("lazy, tiers of {trigger}, multiplier {multiplier}"), options, flushes, gib);
        }
    }
}

fn print(name: &str, options: ColumnFamilyOptions, flushes: u64, gib: u64) {
    let entry_bytes = 400;
    let simulation = Simulation { keys: (gib << 30) / entry_bytes, entry_bytes, ..Simulation::new(options) };
    let cost = simulation.run(flushes);
    println!(
        "| {name} | {:.1} | {:.2} | {:.2} | {:.1} | {} | {:.0} % |",
        cost.write_amp,
        cost.space_amp,
        cost.space_amp_max,
        cost.sorted_runs,
        cost.sorted_runs_max,
        cost.largest_input * 100.0,
    );
}
