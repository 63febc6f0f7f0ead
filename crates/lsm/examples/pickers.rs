//! What the compaction styles cost, as the picker simulator has it: a line for each setting of the knob between write and space amplification.
//!
//! ```text
//! cargo run --release -p siltstone-lsm --features testing --example pickers -- [FLUSHES [GIB [styles [MIB]]]]
//! ```
//!
//! A flush has 64 MiB; keys are overwritten with uniform probability. With `styles` there is one line a style, with the time that the simulation took and what compactions owed. They read as much between two
//! flushes as it takes, or `MIB`.

#![expect(clippy::print_stdout, reason = "an example")]

use siltstone_base::clock::{Clock, SystemClock};
use siltstone_lsm::testing::{Outcome, Simulation};
use siltstone_lsm::{ColumnFamilyOptions, CompactionStyle, FifoCompactionOptions, UniversalCompactionOptions};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize| arguments.get(index).and_then(|text| text.parse().ok());
    let (flushes, gib) = (number(0).unwrap_or(5_000), number(1).unwrap_or(10));
    if arguments.get(2).is_some_and(|text| text == "styles") {
        return styles(flushes, gib, number(3));
    }
    println!("{flushes} flushes of 64 MiB over {gib} GiB of keys");
    println!("| style | write | space | most | runs | most | largest |\n| --- | --- | --- | --- | --- | --- | --- |");
    for multiplier in [4, 6, 10] {
        let options = ColumnFamilyOptions::default().max_bytes_for_level_multiplier(multiplier);
        print(&format!("leveled, multiplier {multiplier}"), options, flushes, gib);
    }
    print("leveled, sublevels", ColumnFamilyOptions::default().level0_sublevels(true), flushes, gib);
    for trigger in [4, 6, 8, 12, 16] {
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

/// One setting of each style, with the time that its simulation takes, the most bytes that were pending, for how many flushes in a row some were, and the most that unfinished
/// outputs took, in parts of what is live.
fn styles(flushes: u64, gib: u64, work_mib: Option<u64>) {
    let work = work_mib.map_or_else(|| "all that is due".to_owned(), |mib| format!("{mib} MiB"));
    println!("{flushes} flushes of 64 MiB over {gib} GiB of keys; between two of them compactions read {work}");
    println!("| style | seconds | write | space | runs | most | debt | longest | unfinished |");
    println!("| --- | --- | --- | --- | --- | --- | --- | --- | --- |");
    let leveled = ColumnFamilyOptions::default();
    let other = |style| ColumnFamilyOptions::default().compaction_style(style).num_levels(9);
    let fifo = FifoCompactionOptions::default().max_table_files_size((gib << 30) / 2);
    let universal = other(CompactionStyle::Universal).level0_file_num_compaction_trigger(8);
    let styles = [
        ("leveled", leveled.clone()),
        ("leveled, sublevels", leveled.level0_sublevels(true)),
        ("universal, 8 runs", universal),
        ("lazy, tiers of 4, multiplier 4", other(CompactionStyle::Lazy).max_bytes_for_level_multiplier(4)),
        ("FIFO, half of the keys", other(CompactionStyle::Fifo).compaction_options_fifo(fifo)),
    ];
    let clock = SystemClock::new();
    for (name, options) in styles {
        let started = clock.now_micros();
        let cost = simulate(options, flushes, gib, work_mib);
        let seconds = (clock.now_micros() - started) as f64 / 1e6;
        println!(
            "| {name} | {seconds:.1} | {:.1} | {:.2} | {:.1} | {} | {} MiB | {} | {:.0} % |",
            cost.write_amp,
            cost.space_amp,
            cost.sorted_runs,
            cost.sorted_runs_max,
            cost.debt_bytes_max >> 20,
            cost.debt_flushes_max,
            cost.unfinished_max * 100.0,
        );
    }
}

fn simulate(options: ColumnFamilyOptions, flushes: u64, gib: u64, work_mib: Option<u64>) -> Outcome {
    let entry_bytes = 400;
    let work_bytes = work_mib.map_or(u64::MAX, |mib| mib << 20);
    Simulation { keys: (gib << 30) / entry_bytes, entry_bytes, work_bytes, ..Simulation::new(options) }.run(flushes)
}

fn print(name: &str, options: ColumnFamilyOptions, flushes: u64, gib: u64) {
    let cost = simulate(options, flushes, gib, None);
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
