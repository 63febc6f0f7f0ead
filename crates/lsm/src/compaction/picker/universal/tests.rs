//! Tests of choices by size alone.

use super::choices;
use super::runs::SortedRun;
use crate::options::{ColumnFamilyOptions, CompactionStyle, UniversalCompactionOptions, UniversalStopStyle};
use siltstone_base::script::{Command, run_file};

/// `L0:1 L0:1 L5:4* L6:100`: runs with their bytes, newest first; * is busy.
fn run_of(word: &str) -> SortedRun {
    let (word, is_busy) = word.strip_suffix('*').map_or((word, false), |word| (word, true));
    let (level, bytes) = word.split_once(':').unwrap();
    SortedRun { level: level.strip_prefix('L').unwrap().parse().unwrap(), bytes: bytes.parse().unwrap(), is_busy }
}

fn run(command: &Command) -> String {
    assert_eq!(command.name, "choose");
    let runs: Vec<SortedRun> = command.input.split_whitespace().map(run_of).collect();
    let universal = UniversalCompactionOptions::default()
        .size_ratio(command.get_or("ratio", 1))
        .min_merge_width(command.get_or("min", 2))
        .max_merge_width(command.get_or("max", u32::MAX))
        .max_size_amplification_percent(command.get_or("space", 200))
        .stop_style(match command.has("similar") {
            true => UniversalStopStyle::SimilarSize,
            false => UniversalStopStyle::TotalSize,
        });
    let options = ColumnFamilyOptions::default()
        .level0_file_num_compaction_trigger(command.get_or("trigger", 4))
        .write_buffer_size(command.get_or("flush", 64))
        .max_bytes_for_level_multiplier(command.get_or("multiplier", 10))
        .compaction_style(if command.has("lazy") { CompactionStyle::Lazy } else { CompactionStyle::Universal })
        .compaction_options_universal(universal);
    let choices = choices(&runs, !command.has("above"), &options);
    let shown = choices.iter().map(|choice| {
        let (first, last) = (choice.runs.start, choice.runs.end - 1);
        format!("{first} to {last}: {:?}", choice.reason)
    });
    let shown = shown.take(if command.has("all") { usize::MAX } else { 1 });
    match shown.collect::<Vec<_>>() {
        shown if shown.is_empty() => "nothing".to_owned(),
        shown => shown.join("\n"),
    }
}

#[test]
fn runs_are_chosen_as_the_script_says() {
    run_file(concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/universal_choice"), run);
}
