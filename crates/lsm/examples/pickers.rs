//! What the compaction styles cost, as the picker simulator has it: a line for each setting of the knob between write and space amplification.
//!
//! ```text
//! cargo run --release -p siltstone-lsm --features testing --example pickers -- FLUSHES
//! ```
//!
//! A flush has 64 MiB; there are 10 GiB of keys, overwritten with uniform probability.

#![expect(clippy::print_stdout, reason = "an example")]

use siltstone_lsm::ColumnFamilyOptions;
use siltstone_lsm::testing::Simulation;

fn main() {
    let flushes = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(10_000);
    println!("{flushes} flushes of 64 MiB over 10 GiB of keys of 400 bytes, uniformly drawn");
    println!("{:32} {:>6} {:>6} {:>6} {:>6} {:>5} {:>8}", "", "write", "space", "most", "runs", "most", "largest");
    for multiplier in [4, 6, 8, 10, 15] {
        let options = ColumnFamilyOptions::default().max_bytes_for_level_multiplier(multiplier);
        print(&format!("leveled, multiplier {multiplier}"), options, flushes);
    }
}

fn print(name: &str, options: ColumnFamilyOptions, flushes: u64) {
    let simulation = Simulation { keys: (10 << 30) / 400, entry_bytes: 400, ..Simulation::new(options) };
    let cost = simulation.run(flushes);
    println!(
        "{name:32} {:>6.1} {:>6.2} {:>6.2} {:>6.1} {:>5} {:>6.0} %",
        cost.write_amp,
        cost.space_amp,
        cost.space_amp_max,
        cost.sorted_runs,
        cost.sorted_runs_max,
        cost.largest_input * 100.0,
    );
}
