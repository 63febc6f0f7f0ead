//! Which numbers are refused, and what those that are given change.

use super::*;
use crate::engines::{EngineSettings, LsmOptions, config_hash};
use siltstone_base::ErrorKind;

#[test]
fn numbers_that_fall_are_refused() {
    for fine in [Level0::default(), Level0::of(10, 20, 20), Level0::of(10, 20, 30), Level0::of(1, 1, 1)] {
        fine.check().unwrap();
    }
    let alone = |compaction, slowdown, stop| Level0 { compaction, slowdown, stop };
    for (wrong, name) in [
        (Level0::of(0, 20, 30), "--level0-trigger"),
        (Level0::of(21, 20, 30), "--level0-slowdown"),
        (Level0::of(10, 20, 19), "--level0-stop"),
        // Beside what engines do by themselves.
        (alone(Some(21), None, None), "--level0-slowdown"),
        (alone(None, Some(3), None), "--level0-slowdown"),
        (alone(None, Some(40), None), "--level0-stop"),
        (alone(None, None, Some(19)), "--level0-stop"),
    ] {
        let error = wrong.check().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains(name) && error.to_string().contains(&wrong.to_string()), "{error}");
    }
}

#[test]
fn what_engines_do_by_themselves_is_what_the_engine_does() {
    let family = ColumnFamilyOptions::default();
    let own = [
        family.level0_file_num_compaction_trigger,
        family.level0_slowdown_writes_trigger,
        family.level0_stop_writes_trigger,
    ];
    assert_eq!(own, BY_THEMSELVES);
}

/// The numbers of the family, and its levels.
fn of(level0: Level0, style: CompactionStyle) -> ([usize; 3], usize) {
    let family = LsmOptions::new(&EngineSettings { level0, ..EngineSettings::default() }, style).family;
    family.validate().unwrap();
    let numbers = [
        family.level0_file_num_compaction_trigger,
        family.level0_slowdown_writes_trigger,
        family.level0_stop_writes_trigger,
    ];
    (numbers, family.num_levels)
}

#[test]
fn the_lsm_engine_is_opened_with_them_whatever_its_style() {
    let styles = [CompactionStyle::Leveled, CompactionStyle::Universal, CompactionStyle::Lazy];
    for style in styles {
        let (own, levels) = of(Level0::default(), style);
        let (numbers, more_levels) = of(Level0::of(12, 20, 30), style);
        assert_eq!(numbers, [12, 20, 30]);
        assert!(more_levels >= levels, "{style:?}");
        let (numbers, _) = of(Level0 { stop: Some(50), ..Level0::default() }, style);
        assert_eq!(numbers, [own[0], own[1], 50], "the others are the profile's");
    }
    // A level for each run that waits.
    assert_eq!(of(Level0::of(20, 40, 60), CompactionStyle::Universal).1, 21);
    assert_eq!(of(Level0::of(12, 20, 30), CompactionStyle::Lazy).1, 25);
}

#[test]
fn each_number_is_a_part_of_the_configuration_and_none_leaves_it_as_it_was() {
    let settings = |level0| EngineSettings { level0, ..EngineSettings::default() };
    let hashes = [
        Level0::default(),
        Level0 { compaction: Some(10), ..Level0::default() },
        Level0 { slowdown: Some(10), ..Level0::default() },
        Level0 { stop: Some(10), ..Level0::default() },
    ]
    .map(|level0| config_hash(&"rows", &settings(level0)));
    for (number, hash) in hashes.iter().enumerate() {
        assert!(!hashes[..number].contains(hash), "{hashes:?}");
    }
    // Results of before the knob keep their names.
    let before = "EngineSettings { cache_bytes: 268435456, write_buffer_bytes: 67108864, write_buffers: 2, bloom_bits_per_key: 10.0, \
                  background_jobs: 2, write_admission: Paced, direct: false, format_version: None, durability: Os, device: None, \
                  background_load: 0.0, io_capacity: None, change_buffering: None, compress: true }";
    assert_eq!(format!("{:?}", EngineSettings::default()), before);
}

#[test]
fn results_and_words_name_them_where_they_are_given() {
    let of = |level0| {
        let settings = EngineSettings { level0, ..EngineSettings::default() };
        (settings.line().level0, settings.in_words().contains("level 0"))
    };
    assert_eq!(of(Level0::default()), (None, false));
    assert_eq!(of(Level0::of(10, 20, 30)), (Some("10/20/30".to_owned()), true));
    assert_eq!(of(Level0 { stop: Some(30), ..Level0::default() }), (Some("-/-/30".to_owned()), true));
}
