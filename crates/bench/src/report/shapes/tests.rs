//! Shapes: bounds, conditions, and the control with swapped labels.

use super::catalogue::CLASSIC;
use super::*;
use crate::IntervalLine;

/// A run of an engine on a device with 100 bytes of memory for each `data_bytes` of data.
fn run(
    experiment: &str,
    workload: &str,
    engine: &str,
    threads: u32,
    device: &str,
    (data, memory): (u64, u64),
) -> RunRecord {
    let result = ResultLine {
        experiment: experiment.to_owned(),
        workload: workload.to_owned(),
        engine: engine.to_owned(),
        threads,
        device: Some(device.to_owned()),
        data_bytes: Some(data),
        memory_bytes: Some(memory),
        bytes_user: data,
        ops: data / 10,
        compressed: Some(false),
        ..ResultLine::default()
    };
    RunRecord { result, intervals: Vec::new() }
}

/// Intervals of so many seconds in each of which so many rows were written.
fn intervals_of(record: &mut RunRecord, seconds: f64, rows: &[f64]) {
    record.intervals = rows
        .iter()
        .enumerate()
        .map(|(number, rows)| IntervalLine {
            interval_s: (number + 1) as f64 * seconds,
            ops_per_s: rows / seconds,
            ..IntervalLine::default()
        })
        .collect();
}

/// Intervals of five seconds in each of which so many rows were written.
fn intervals(record: &mut RunRecord, rows: &[f64]) {
    intervals_of(record, 5.0, rows);
}

/// The same rows again and again, in sixteen intervals: more than a moving median is of.
fn again(rows: [f64; 4]) -> Vec<f64> {
    rows.repeat(4)
}

/// Results in which every shape is as published.
fn as_published() -> Vec<RunRecord> {
    let mut records = Vec::new();
    for (engine, rate, row_kb, space) in
        [("lsm-leveled", 3_000.0, 1.0, 600), ("btree", 1_000.0, 4.0, 1_000), ("lsm-classic", 2_900.0, 1.0, 600)]
    {
        for threads in [1, 2, 8] {
            let mut record = run("insert", "l", engine, threads, "none", (1_000, 2_000));
            record.result.ops_per_s = rate;
            records.push(record);
        }
        for device in ["fast-ssd", "slow-ssd"] {
            let mut record = run("insert", "l", engine, 2, device, (1_000, 200));
            record.result.ops_per_s = rate;
            record.result.kb_written_per_row = Some(row_kb);
            // A hundred rows of ten bytes: memory is full after twenty.
            match engine {
                "lsm-leveled" => intervals(&mut record, &again([10.0, 10.0, 9.0, 10.0])),
                "lsm-classic" => intervals(&mut record, &again([10.0, 10.0, 2.0, 14.0])),
                _ => intervals(&mut record, &[vec![10.0, 10.0], again([5.0, 3.0, 4.0, 6.0])].concat()),
            }
            records.push(record);
            let mut settled = run("insert", "settle", engine, 2, device, (1_000, 200));
            settled.result.space_bytes = Some(space);
            records.push(settled);
        }
        for (workload, rate) in [("write_only", rate), ("read_write", rate), ("read_only", 3_000.0 / rate.powf(0.25))] {
            let mut record = run("sysbench", workload, engine, 8, "slow-ssd", (1_000, 200));
            record.result.ops_per_s = rate;
            records.push(record);
        }
        for (operation, as_published) in
            [("create_task", true), ("process_10_tasks", true), ("create_task", false), ("process_10_tasks", false)]
        {
            for (load, time) in [(0.0, 10.0), (4.0, if engine == "btree" { 40.0 } else { 12.0 })] {
                let mut record = run("redmine", operation, engine, 1, "hdd", (1_000, 200));
                record.result.data_set = Some("large".to_owned());
                record.result.device_load = Some(load);
                record.result.as_published = Some(as_published);
                record.result.mean_trimmed_us = Some(time);
                // What is published left the log of one of the two to the operating system.
                let waits = engine == "btree" || !as_published;
                record.result.durability = Some(if waits { "commit" } else { "os" }.to_owned());
                records.push(record);
            }
        }
    }
    for (engine, rate) in [("lsm-leveled", 3_000.0), ("btree", 1_000.0), ("myrocks", 2_500.0), ("innodb", 900.0)] {
        for device in ["unlimited", "4000 reads/s"] {
            for workload in ["insert", "read_only", "read_write", "write_only"] {
                let mut record = run("mariadb", workload, engine, 8, device, (1_000, 200));
                record.result.ops_per_s = rate;
                records.push(record);
            }
        }
    }
    records
}

#[test]
fn results_as_published_hold_and_each_row_fails_with_swapped_labels() {
    for judged in judge(&as_published()) {
        let claim = judged.shape.claim;
        let has_bounds = judged.shape.at_least.is_some() || judged.shape.at_most.is_some();
        let (verdict, is_sensitive) = if has_bounds { (Verdict::Holds, Some(true)) } else { (Verdict::Shown, None) };
        assert_eq!(judged.verdict, verdict, "{claim}: {:?}", judged.measured);
        assert_eq!(judged.is_sensitive, is_sensitive, "{claim}");
    }
}

/// The same results in which runs of the shape's first engine have a figure that is so many times as large, whichever of the plain ones the shape is about.
fn scaled(records: &[RunRecord], shape: &Shape, factor: f64) -> Vec<RunRecord> {
    let mut records = records.to_vec();
    for RunRecord { result, .. } in records.iter_mut().filter(|record| shape.of.is_of(&record.result)) {
        result.ops_per_s *= factor;
        result.kb_written_per_row = result.kb_written_per_row.map(|kb| kb * factor);
        result.mean_trimmed_us = result.mean_trimmed_us.map(|time| time * factor);
        result.space_bytes = result.space_bytes.map(|bytes| (bytes as f64 * factor) as u64);
    }
    records
}

/// Ratios from one bound of the shape to the other, or from it far to the other side; none that is a bound, and none that is 1, which is its own inverse.
fn ratios_within(shape: &Shape) -> Vec<f64> {
    let least = shape.at_least.or(shape.at_most.map(|most| most / 8.0)).unwrap();
    let most = shape.at_most.or(shape.at_least.map(|least| least * 8.0)).unwrap();
    let between = (1..24).map(|step| least * (most / least).powf(f64::from(step) / 24.0));
    between.filter(|ratio| (ratio - 1.0).abs() > 1e-3).collect()
}

/// Results as published, but for those beside MariaDB: there LSM tree and B-tree are about as fast as each other in each of the two servers, and twice as fast as their counterparts.
fn about_equal() -> Vec<RunRecord> {
    let mut records = as_published();
    for RunRecord { result, .. } in records.iter_mut().filter(|record| record.result.experiment == "mariadb") {
        result.ops_per_s = if ["myrocks", "innodb"].contains(&result.engine.as_str()) { 500.0 } else { 1_000.0 };
    }
    records
}

#[test]
fn whatever_ratio_has_the_shape_a_control_fails() {
    let records = about_equal();
    let mut judged_with_bounds = 0;
    for shape in all_shapes().filter(|shape| shape.at_least.is_some() || shape.at_most.is_some()) {
        judged_with_bounds += 1;
        let (now, _) = shape.ratio(&records).unwrap();
        let is_plain =
            shape.ratio(&scaled(&records, shape, 2.0)).is_some_and(|(ratio, _)| (ratio / now - 2.0).abs() < 0.01);
        // Where one engine is compared with itself, or the figure is made of intervals, the results as published stand for all.
        let of_one = shape.of.engine == shape.by.engine;
        let targets = if is_plain && !of_one { ratios_within(shape) } else { vec![now] };
        for target in targets {
            let judged = shape.judge(&scaled(&records, shape, if is_plain { target / now } else { 1.0 }));
            assert_eq!(judged.verdict, Verdict::Holds, "{} at {target}: {:?}", shape.claim, judged.measured);
            assert_eq!(judged.is_sensitive, Some(true), "{} at {target}", shape.claim);
        }
    }
    assert!(judged_with_bounds > 30, "{judged_with_bounds}");
}

#[test]
fn bounds_that_hold_a_ratio_and_its_inverse_have_a_second_control() {
    let holds_either_way = |shape: &&Shape| {
        shape.at_least.is_some_and(|least| least < 1.0) && shape.at_most.is_some_and(|most| most > 1.0)
    };
    let shapes: Vec<_> = all_shapes().filter(|shape| holds_either_way(shape)).collect();
    assert!(!shapes.is_empty());
    for shape in shapes {
        let controls = shape.controls();
        assert!(controls.len() == 2 && controls[0] != controls[1], "{}: {controls:?}", shape.claim);
        // With the two engines swapped alone, the row holds as before.
        let (ratio, _) = shape.ratio(&swapped(&about_equal(), controls[0])).unwrap();
        assert_eq!(shape.verdict(Some(ratio)), Verdict::Holds, "{}", shape.claim);
    }
}

#[test]
fn four_engines_that_are_all_alike_cannot_be_told_apart() {
    let mut records = as_published();
    for RunRecord { result, .. } in &mut records {
        result.ops_per_s = 1_000.0;
    }
    let of = |judged: &Judged| judged.shape.relative_to.is_some();
    for judged in judge(&records).into_iter().filter(of) {
        assert_eq!((judged.verdict, judged.is_sensitive), (Verdict::Holds, Some(false)), "{}", judged.shape.claim);
    }
}

#[test]
fn swapped_results_hold_nowhere() {
    let mut records = as_published();
    for record in &mut records {
        record.result.engine = match record.result.engine.as_str() {
            "lsm-leveled" => "btree",
            "btree" => "lsm-leveled",
            other => other,
        }
        .to_owned();
    }
    let of_both = |judged: &Judged| {
        judged.shape.of.engine != "lsm-classic" && !["myrocks", "innodb"].contains(&judged.shape.by.engine)
    };
    for judged in judge(&records).into_iter().filter(of_both) {
        assert_ne!(judged.verdict, Verdict::Holds, "{}", judged.shape.claim);
        assert_ne!(judged.verdict, Verdict::NotMeasured, "{}", judged.shape.claim);
    }
}

#[test]
fn what_was_not_run_is_not_judged() {
    assert!(judge(&[]).iter().all(|judged| judged.verdict == Verdict::NotMeasured && judged.measured.is_none()));
    let one_engine: Vec<_> = as_published().into_iter().filter(|record| record.result.engine == "btree").collect();
    assert!(judge(&one_engine).iter().all(|judged| judged.verdict == Verdict::NotMeasured));
}

#[test]
fn runs_under_other_conditions_are_not_compared() {
    let mut records = as_published();
    for record in records.iter_mut().filter(|record| record.result.engine == "btree") {
        record.result.memory_bytes = record.result.memory_bytes.map(|bytes| bytes + 1);
    }
    let compares = |judged: &Judged| {
        let (of, by) = (judged.shape.of.engine, judged.shape.by.engine);
        of != by && of != "lsm-classic" && by != "myrocks"
    };
    for judged in judge(&records).iter().filter(|judged| compares(judged)) {
        assert_eq!(judged.verdict, Verdict::NotMeasured, "{}", judged.shape.claim);
    }
}

#[test]
fn of_two_sizes_the_larger_is_judged() {
    let mut records = as_published();
    let mut larger = records.clone();
    for RunRecord { result, .. } in &mut larger {
        result.data_bytes = result.data_bytes.map(|bytes| bytes * 2);
        result.memory_bytes = result.memory_bytes.map(|bytes| bytes * 2);
        if result.engine == "btree" {
            result.ops_per_s *= 100.0;
        }
    }
    records.extend(larger);
    let write_only = judge(&records).into_iter().find(|judged| judged.shape.claim.starts_with("write_only"));
    assert_eq!(write_only.map(|judged| judged.verdict), Some(Verdict::Differs));
}

/// The verdict on the variation of LSM tree and B-tree with these intervals, in seconds.
fn variation_judged(seconds: f64, lsm: &[f64], btree: &[f64]) -> (Verdict, Option<&'static str>) {
    let mut records = Vec::new();
    for (engine, rows) in [(LSM, lsm), (BTREE, btree)] {
        let mut record = run("insert", "l", engine, 2, "slow-ssd", (1_000, 200));
        intervals_of(&mut record, seconds, rows);
        records.push(record);
    }
    let judged = judge(&records).into_iter().find(|judged| judged.shape.claim.contains("variation of the LSM tree's"));
    judged.map(|judged| (judged.verdict, judged.finer)).unwrap()
}

#[test]
fn a_decline_is_no_variation() {
    let falls: Vec<f64> = (0..40).map(|number| 100.0 - 2.0 * f64::from(number)).collect();
    let jagged: Vec<f64> = (0..40).map(|number| if number % 2 == 0 { 90.0 } else { 110.0 }).collect();
    // Over its own mean the first varies by two fifths, the second by a tenth: about its median the second more.
    assert_eq!(variation_judged(5.0, &jagged, &falls), (Verdict::Differs, None));
    assert_eq!(variation_judged(5.0, &falls, &jagged), (Verdict::Holds, None));
}

#[test]
fn of_short_runs_the_rates_of_seconds_are_judged_on_both_sides() {
    let even = vec![10.0; 200];
    let jagged = [5.0, 15.0, 10.0, 5.0, 15.0, 8.0, 8.0, 8.0, 8.0, 8.0].repeat(20);
    assert_eq!(variation_judged(1.0, &even, &jagged).1, None, "there are enough rates of five seconds");
    let (verdict, finer) = variation_judged(1.0, &even[..8], &jagged);
    assert!(verdict == Verdict::Holds && finer.is_some_and(|finer| finer.contains("1 s")), "{finer:?}");
    assert_eq!(variation_judged(1.0, &jagged[..12], &[even.as_slice(), &[11.0]].concat()).0, Verdict::Differs);
    assert_eq!(variation_judged(1.0, &even[..7], &jagged), (Verdict::NotMeasured, None));
    assert_eq!(variation_judged(5.0, &even[..12], &jagged), (Verdict::NotMeasured, None), "five seconds are no one");
}

#[test]
fn what_was_ended_early_is_not_judged() {
    let mut records = as_published();
    for record in
        records.iter_mut().filter(|record| record.result.engine == BTREE && record.result.experiment == "insert")
    {
        record.result.rows_left_out = Some(10);
    }
    let of_both = |judged: &&Judged| {
        judged.shape.experiment == "Insert benchmark" && judged.shape.by.engine != judged.shape.of.engine
    };
    let judged = judge(&records);
    for judged in judged.iter().filter(of_both).filter(|judged| judged.shape.of.engine != CLASSIC) {
        assert_eq!(judged.verdict, Verdict::NotMeasured, "{}", judged.shape.claim);
        assert!(
            judged.reason.as_deref().is_some_and(|reason| reason.contains("btree was ended")),
            "{:?}",
            judged.reason
        );
    }
}

#[test]
fn runs_beneath_chosen_limits_of_level_0_are_not_judged() {
    let mut records = as_published();
    for record in &mut records {
        record.result.level0 = Some("10/20/30".to_owned());
    }
    assert!(judge(&records).iter().all(|judged| judged.verdict == Verdict::NotMeasured));
    // Beside others they change nothing, however large they are.
    for record in &mut records {
        record.result.data_bytes = record.result.data_bytes.map(|bytes| bytes * 2);
        record.result.ops_per_s = 1.0;
    }
    records.extend(as_published());
    let verdicts = |records: &[RunRecord]| judge(records).iter().map(|judged| judged.verdict).collect::<Vec<_>>();
    assert_eq!(verdicts(&records), verdicts(&as_published()));
}

#[test]
fn redmine_is_judged_on_a_hard_disk_only() {
    let mut records = as_published();
    for record in &mut records {
        record.result.device =
            record.result.device.take().map(|device| if device == "hdd" { "none".to_owned() } else { device });
    }
    let judged = judge(&records);
    let of_redmine: Vec<_> = judged.iter().filter(|judged| judged.shape.experiment == "Redmine").collect();
    assert_eq!(of_redmine.len(), 6);
    assert!(of_redmine.iter().all(|judged| judged.verdict == Verdict::NotMeasured));
}

#[test]
fn published_ratios_come_from_the_published_tables() {
    let published = |claim: &str| {
        let shape = all_shapes().find(|shape| shape.claim.starts_with(claim));
        shape
            .and_then(|shape| (shape.published)())
            .map(|(least, most)| [least, most].map(|ratio| (ratio * 100.0).round() / 100.0))
    };
    assert_eq!(published("in memory, 1 client"), Some([1.34, 1.34]));
    assert_eq!(published("larger than memory, slow SSD: rows/s"), Some([2.26, 2.26]));
    assert_eq!(published("larger than memory, fast SSD: KB"), Some([3.38, 3.38]));
    assert_eq!(published("space"), Some([0.62, 0.62]));
    assert_eq!(published("write_only"), Some([1.53, 1.80]));
    assert_eq!(published("read_only"), Some([0.86, 0.88]));
    assert_eq!(published("create_task, large, full load: mean"), Some([2.19, 2.22]));
    for shape in SHAPES {
        let compares_ours = shape.claim.contains("variation") || shape.claim.contains("equal durability");
        assert_eq!((shape.published)().is_none(), compares_ours, "{}", shape.claim);
    }
}

#[test]
fn a_ratio_is_compared_with_that_of_the_counterparts() {
    let mut records = as_published();
    let judged = |records: &[RunRecord]| {
        let of = |judged: &Judged| judged.shape.claim.starts_with("insert, limited device");
        judge(records).into_iter().find(of).map(|judged| (judged.verdict, judged.measured))
    };
    assert_eq!(judged(&records), Some((Verdict::Holds, Some(3.0 / (2_500.0 / 900.0)))));
    for record in records.iter_mut().filter(|record| record.result.engine == "myrocks") {
        record.result.ops_per_s = 900.0;
    }
    assert_eq!(judged(&records), Some((Verdict::Differs, Some(3.0))));
    records.retain(|record| record.result.engine != "innodb");
    assert_eq!(judged(&records), Some((Verdict::NotMeasured, None)));
}

#[test]
fn the_transition_compares_before_memory_is_full_with_well_after() {
    let mut record = run("insert", "l", "btree", 1, "slow-ssd", (1_000, 200));
    // Twenty rows fill memory, thirty are half as many again: the third and fourth interval are neither.
    intervals(&mut record, &[10.0, 10.0, 7.0, 7.0, 5.0, 5.0]);
    assert_eq!(figures::transition(&record), Some(0.5));
    intervals(&mut record, &[10.0, 5.0]);
    assert_eq!(figures::transition(&record), None, "nothing was written beyond memory");
}
