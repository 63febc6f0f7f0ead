//! Shapes: bounds, conditions, and the control with swapped labels.

use super::catalogue::CLASSIC;
use super::control::swapped;
use super::side::Level0;
use super::*;
use crate::report::Settling;
use crate::{IntervalLine, Provenance};

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
        seconds: 10.0,
        provenance: Some(Provenance { cores: Some(16), ..Provenance::default() }),
        ..ResultLine::default()
    };
    RunRecord::new(result)
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
    for (engine, rate, row_kb, space) in [
        ("lsm-leveled", 3_000.0, 1.0, 600),
        ("btree", 1_000.0, 4.0, 1_000),
        ("lsm-classic", 2_900.0, 1.0, 600),
        ("lsm-universal", 3_100.0, 0.8, 700),
        ("btree-mysql84", 1_010.0, 4.0, 1_000),
    ] {
        inserted(engine, (rate, row_kb, space), &mut records);
        for (workload, rate) in [("write_only", rate), ("read_write", rate), ("read_only", 3_000.0 / rate.powf(0.25))] {
            for (memory, device, page_cache) in
                [(200, "slow-ssd", false), (400, "slow-ssd", false), (800, "slow-ssd", false), (333, "none", true)]
            {
                let mut record = run("sysbench", workload, engine, 8, device, (1_000, memory));
                record.result.ops_per_s = rate;
                record.result.page_cache = Some(page_cache);
                records.push(record);
            }
        }
        in_redmine(engine, space, &mut records);
    }
    serving_ads(&mut records);
    for engine in ["lsm-leveled", "btree", "lsm-leveled+sql", "btree+sql", "myrocks", "innodb"] {
        beside_mariadb(engine, &mut records);
    }
    records
}

/// The insert benchmark: in memory, with and without a binlog; beyond it, by itself and beneath limits of level 0; settled.
fn inserted(engine: &str, (rate, row_kb, space): (f64, f64, u64), records: &mut Vec<RunRecord>) {
    // What is all in memory on the devices of the loads below.
    for device in ["fast-ssd", "slow-ssd"] {
        let mut record = run("insert", "l", engine, 2, device, (1_000, 2_000));
        record.result.ops_per_s = rate * if engine == "btree" { 3.0 } else { 1.0 };
        record.result.config =
            Some(serde_json::json!({ "settings": { "write_buffers": 2, "write_buffer_bytes": 20 } }));
        records.push(record);
    }
    for (threads, binlog) in
        [1, 2, 4, 8, 12, 16].map(|threads| (threads, "off")).into_iter().chain([(2, "os"), (2, "sync")])
    {
        let mut record = run("insert", "l", engine, threads, "none", (1_000, 2_000));
        record.result.ops_per_s = rate;
        record.result.setup = format!("schema 2017, 100 rows a commit, binlog {binlog}, durability second");
        record.result.binlog_bytes = (binlog != "off").then_some(1);
        records.push(record);
    }
    for (device, level0) in
        [("fast-ssd", None), ("slow-ssd", None), ("slow-ssd", Some("4/10/20")), ("slow-ssd", Some("4/20/30"))]
    {
        let mut record = run("insert", "l", engine, 2, device, (1_000, 200));
        record.result.ops_per_s = rate;
        record.result.kb_written_per_row = Some(row_kb);
        record.settling = Some(Settling { seconds: 5.0, written: Some(0) });
        record.result.level0 = level0.map(str::to_owned);
        // The time of these is limited, and the slower engine leaves rows out.
        if level0.is_some() && engine == "btree" {
            (record.result.rows_left_out, record.result.data_bytes) = (Some(40), Some(600));
        }
        // A hundred rows of ten bytes: memory is full after twenty.
        match engine {
            "lsm-leveled" | "lsm-universal" => intervals(&mut record, &again([10.0, 10.0, 9.0, 10.0])),
            "lsm-classic" => intervals(&mut record, &again([10.0, 10.0, 2.0, 14.0])),
            _ => intervals(&mut record, &[vec![10.0, 10.0], again([5.0, 3.0, 4.0, 6.0])].concat()),
        }
        record.result.cv_detrended = Some(match engine {
            "lsm-leveled" | "lsm-universal" => 0.05,
            "lsm-classic" => 0.4,
            _ => 0.1,
        });
        if level0.is_none() && engine == "btree" {
            let mut flushing = record.clone();
            flushing.result.engine = "btree-ssd".to_owned();
            records.push(flushing);
        }
        records.push(record);
    }
    for device in ["fast-ssd", "slow-ssd"] {
        let mut settled = run("insert", "settle", engine, 2, device, (1_000, 200));
        settled.result.space_bytes = Some(space);
        records.push(settled);
    }
}

/// Redmine: one process without load, and four under four times what the disk has.
fn in_redmine(engine: &str, space: u64, records: &mut Vec<RunRecord>) {
    for (operation, as_published) in
        ["create_task", "process_10_tasks", "search"].into_iter().flat_map(|one| [(one, true), (one, false)])
    {
        for data_set in ["small", "large", "giant"] {
            let [alone, loaded] = if engine == "btree" { [13.0, 40.0] } else { [10.0, 12.0] };
            for (threads, load, time) in [(1, 0.0, alone), (1, 4.0, 11.0), (4, 0.0, 11.0), (4, 4.0, loaded)] {
                let mut record = run("redmine", operation, engine, threads, "hdd", (1_000, 200));
                record.result.data_set = Some(data_set.to_owned());
                record.result.device_load = Some(load);
                record.result.as_published = Some(as_published);
                record.result.mean_trimmed_us = Some(time);
                record.result.config = Some(serde_json::json!({ "app_ms": 0.0005 }));
                record.result.space_bytes = Some(space);
                // What is published left the log of one of the two to the operating system.
                let waits = engine == "btree" || !as_published;
                record.result.durability = Some(if waits { "commit" } else { "os" }.to_owned());
                records.push(record);
            }
        }
    }
}

/// The ladder of `ads`: its rows differ in memory, some of which is the page cache's.
fn serving_ads(records: &mut Vec<RunRecord>) {
    for (engine, row, space, written, expired) in [
        ("lsm-leveled", "ttl", 450, 900.0, 0.1),
        ("lsm-leveled", "dense", 400, 600.0, 0.12),
        ("lsm-leveled", "expiry-off", 900, 500.0, 0.6),
        ("btree-compressed", "daily-deletes", 1_000, 8_000.0, 0.05),
    ] {
        let result = ResultLine {
            experiment: "ads".to_owned(),
            workload: row.to_owned(),
            engine: engine.to_owned(),
            config_hash: "78 days".to_owned(),
            threads: 3,
            device: Some("none".to_owned()),
            memory_bytes: Some(if row == "daily-deletes" { 100 } else { 50 }),
            data_bytes: Some(500),
            durability: Some("second".to_owned()),
            compressed: Some(true),
            space_bytes: Some(space),
            written_per_upsert: Some(written),
            expired_share: Some(expired),
            idle_expired_share: Some(expired * 1.2),
            cpu_s: Some(if row == "daily-deletes" { 22.0 } else { 28.0 }),
            bytes_read: Some(if row == "daily-deletes" { 20 } else { 5 }),
            process_read: Some(11),
            write_peak_over_mean: Some(2.0),
            ..ResultLine::default()
        };
        records.push(RunRecord::new(result));
    }
}

/// Lines as `scripts/beside-mariadb` writes them: what all of a run have in common overwrites what ours say of it.
fn beside_mariadb(engine: &str, records: &mut Vec<RunRecord>) {
    let (insert, mix) = match engine.trim_end_matches("+sql") {
        "lsm-leveled" => (3_000.0, 2_000.0),
        "btree" => (1_000.0, 1_000.0),
        "myrocks" => (2_500.0, 1_500.0),
        _ => (900.0, 900.0),
    };
    let limited = "80 MiB/s, 4000 reads/s, 4000 writes/s";
    let mixes = ["read_only", "read_write", "write_only"];
    let of_sysbench = ["unlimited", "4000 reads/s"].into_iter().flat_map(|device| mixes.map(|mix| (device, mix)));
    for (device, workload) in std::iter::once((limited, "insert")).chain(of_sysbench) {
        let is_insert = workload == "insert";
        let result = ResultLine {
            experiment: "mariadb".to_owned(),
            workload: workload.to_owned(),
            engine: engine.to_owned(),
            device: Some(device.to_owned()),
            memory_bytes: Some(if is_insert { 192 << 20 } else { 800 << 20 }),
            data_bytes: Some(if is_insert { 522_000_000 } else { 1_241_600_000 }),
            durability: Some("second".to_owned()),
            compressed: Some(!is_insert),
            page_cache: Some(false),
            threads: if is_insert { 2 } else { 8 },
            setup: "rows, memory, device".to_owned(),
            config_hash: format!("{workload} {device}"),
            pair: 1,
            ops: 10_000,
            seconds: 10.0,
            ops_per_s: if is_insert { insert } else { mix },
            cpu_s: Some(19.0),
            provenance: Some(Provenance { cores: Some(2), ..Provenance::default() }),
            ..ResultLine::default()
        };
        let mut record = RunRecord::new(result);
        if is_insert {
            intervals(
                &mut record,
                match engine {
                    "lsm-leveled" => &[10.0, 9.0, 11.0, 10.0, 10.0],
                    "myrocks" => &[10.0, 1.0, 10.0, 10.0, 10.0],
                    "innodb" => &[20.0, 5.0, 3.0, 1.0, 1.0],
                    _ => &[20.0, 11.0, 11.0, 11.0, 11.0],
                },
            );
        }
        records.push(record);
    }
}

/// Whether anything is asked of a shape's ratio.
fn is_asked(shape: &Shape) -> bool {
    shape.has_bounds() || shape.lead().is_some()
}

#[test]
fn results_as_published_hold_and_each_row_fails_with_swapped_labels() {
    for judged in judge(&as_published()) {
        let claim = &judged.shape.claim;
        let verdict = if is_asked(&judged.shape) { Verdict::Holds } else { Verdict::Shown };
        assert_eq!(judged.verdict, verdict, "{claim}: {:?} {:?}", judged.measured, judged.reason);
        let fails = matches!(judged.control, Some(Control::Fails(..)));
        assert_eq!(fails, is_asked(&judged.shape), "{claim}: {:?}", judged.control);
        // What holds says why only where it is far from what was published.
        let published = judged.shape.published.filter(|_| judged.shape.relative_to.is_none());
        let begins = match (published, judged.measured) {
            (Some((_, most)), Some(ratio)) if ratio > 2.0 * most => Some("More than the published "),
            (Some((least, _)), Some(ratio)) if ratio < 0.5 * least => Some("Less than the published "),
            _ => None,
        };
        // Also where we ask for more than was published, and the other side led there.
        let begins_so = |why: &str, begin: &str| why.starts_with(begin) || why.starts_with("Not the same side leads ");
        let is_told = |begin: &str| judged.why.as_ref().is_some_and(|why| begins_so(why, begin));
        assert!(begins.map_or(judged.why.is_none(), is_told), "{claim}: {:?}", judged.why);
    }
}

#[test]
fn what_is_done_behind_a_load_counts_in_what_counts_until_all_is_settled() {
    let mut record = run("insert", "l", LSM, 2, "fast-ssd", (1_000, 200));
    (record.result.ops_per_s, record.result.kb_written_per_row) = (10.0, Some(2.0));
    assert_eq!((figures::settled_rate(&record), settled_written_per_row(&record)), (None, None));
    // Ten seconds and a hundred rows, and then thirty seconds more.
    record.settling = Some(Settling { seconds: 30.0, written: Some(300_000) });
    assert_eq!((figures::settled_rate(&record), settled_written_per_row(&record)), (Some(2.5), Some(5.0)));
    record.settling = Some(Settling { seconds: 30.0, written: None });
    assert_eq!((figures::settled_rate(&record), settled_written_per_row(&record)), (Some(2.5), None));
}

#[test]
fn a_row_says_of_how_many_pairs_of_runs_it_is() {
    let once = as_published();
    for judged in judge(&once) {
        assert_eq!(judged.pairs, Some(1), "{}", judged.shape.claim);
    }
    let mut thrice = [once.as_slice(); 3].concat();
    assert!(judge(&thrice).iter().all(|judged| judged.pairs == Some(3)));
    // The side that has fewer counts, also where a ratio is compared with another.
    let last = thrice.iter().rposition(|record| record.result.engine == "innodb" && record.result.workload == "insert");
    thrice.remove(last.unwrap());
    for judged in judge(&thrice).iter().filter(|judged| judged.shape.claim.starts_with("insert, limited device")) {
        let is_of_innodb = judged.shape.relative_to.is_some() || judged.shape.by.engine == "innodb";
        assert_eq!(judged.pairs, Some(if is_of_innodb { 2 } else { 3 }), "{}", judged.shape.claim);
    }
    assert!(judge(&[]).iter().all(|judged| judged.pairs.is_none()));
}

/// The same results in which runs of the shape's first engine have a figure that is so many times as large, whichever of the plain ones the shape is about.
fn scaled(records: &[RunRecord], shape: &Shape, factor: f64) -> Vec<RunRecord> {
    let mut records = records.to_vec();
    for RunRecord { result, .. } in records.iter_mut().filter(|record| shape.of.is_of(&record.result)) {
        result.ops_per_s *= factor;
        result.kb_written_per_row = result.kb_written_per_row.map(|kb| kb * factor);
        result.mean_trimmed_us = result.mean_trimmed_us.map(|time| time * factor);
        result.space_bytes = result.space_bytes.map(|bytes| (bytes as f64 * factor) as u64);
        result.written_per_upsert = result.written_per_upsert.map(|bytes| bytes * factor);
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

/// Results as published, but for those beside MariaDB: there MyRocks is ahead of InnoDB by more than the factor that ours may differ, so that the LSM tree has to be ahead, too.
fn theirs_ahead() -> Vec<RunRecord> {
    let mut records = as_published();
    for RunRecord { result, .. } in records.iter_mut().filter(|record| record.result.experiment == "mariadb") {
        result.ops_per_s = match result.engine.as_str() {
            "myrocks" => 800.0,
            "innodb" => 500.0,
            _ => 1_000.0,
        };
    }
    records
}

/// The same with spaces of which parts can be told apart.
fn theirs_ahead_and_large() -> Vec<RunRecord> {
    let mut records = theirs_ahead();
    for RunRecord { result, .. } in &mut records {
        result.space_bytes = result.space_bytes.map(|bytes| bytes * 1_000_000);
    }
    records
}

#[test]
fn whatever_ratio_has_the_shape_a_control_fails() {
    let records = theirs_ahead_and_large();
    let mut judged_with_bounds = 0;
    for shape in all_shapes().into_iter().filter(Shape::has_bounds) {
        judged_with_bounds += 1;
        let ratio = |records: &[RunRecord]| shape.measure(records).map(|found| found.ratio);
        let now = ratio(&records).unwrap();
        let is_plain = ratio(&scaled(&records, &shape, 2.0)).is_some_and(|ratio| (ratio / now - 2.0).abs() < 0.01);
        // Where one engine is compared with itself, or the figure is made of intervals, the results as published stand for all.
        let of_one = shape.of.engine == shape.by.engine;
        let targets = if is_plain && !of_one { ratios_within(&shape) } else { vec![now] };
        for target in targets {
            let scaled = scaled(&records, &shape, if is_plain { target / now } else { 1.0 });
            let judged = shape.clone().judge(&scaled);
            assert_eq!(judged.verdict, Verdict::Holds, "{} at {target}: {:?}", shape.claim, judged.measured);
            let control = judged.control;
            assert!(matches!(control, Some(Control::Fails(..))), "{} at {target}: {control:?}", shape.claim);
        }
    }
    assert!(judged_with_bounds > 30, "{judged_with_bounds}");
}

/// The same rates everywhere beside MariaDB, but for the LSM tree's and MyRocks'.
fn beside_each_other(ours: f64, theirs: f64) -> Vec<RunRecord> {
    let mut records = as_published();
    for RunRecord { result, .. } in records.iter_mut().filter(|record| record.result.experiment == "mariadb") {
        result.ops_per_s = 1_000.0
            * match result.engine.as_str() {
                "lsm-leveled" | "lsm-leveled+sql" => ours,
                "myrocks" => theirs,
                _ => 1.0,
            };
    }
    records
}

#[test]
fn beside_mariadb_the_same_side_has_to_be_ahead() {
    let cases = [
        // Ours, theirs, and what becomes of the row.
        (1.3, 1.2, Verdict::Holds),
        (0.9, 0.8, Verdict::Holds),
        (1.11, 0.8, Verdict::Differs),
        (0.96, 1.2, Verdict::Differs),
        (1.0, 1.2, Verdict::Differs),
        (2.0, 1.2, Verdict::Differs),
        // Where theirs are no farther apart than from one run to the next, either of ours may be ahead, and with ours exchanged it is the other.
        (1.11, 0.84, Verdict::Insensitive),
        (1.3, 1.02, Verdict::Insensitive),
        (0.8, 1.02, Verdict::Insensitive),
        (1.52, 1.02, Verdict::Holds),
        (1.6, 1.02, Verdict::Differs),
    ];
    let rows: Vec<_> = all_shapes().into_iter().filter(|shape| shape.relative_to.is_some()).collect();
    assert_eq!(rows.len(), 10);
    for (ours, theirs, verdict) in cases {
        let records = beside_each_other(ours, theirs);
        for shape in &rows {
            let judged = shape.clone().judge(&records);
            assert_eq!(judged.verdict, verdict, "{}: {ours} beside {theirs}", shape.claim);
            assert_eq!(judged.figures, Some([(1_000.0 * ours, 1_000.0), (1_000.0 * theirs, 1_000.0)]));
        }
    }
    let judged = rows[1].clone().judge(&beside_each_other(1.11, 0.8));
    let begin =
        "Within the factor, and not the same side ahead: lsm-leveled over btree is 1.11, myrocks over innodb 0.80: ";
    assert!(judged.why.as_ref().is_some_and(|why| why.starts_with(begin)), "{:?}", judged.why);
    // What cannot tell our two apart tells ours from theirs, where these are slower.
    let mut records = beside_each_other(1.3, 1.02);
    for record in records.iter_mut().filter(|record| ["myrocks", "innodb"].contains(&record.result.engine.as_str())) {
        record.result.ops_per_s /= 2.0;
    }
    let control = rows[1].clone().judge(&records).control;
    assert!(matches!(control, Some(Control::FailsBesideTheirs(..))), "{control:?}");
}

#[test]
fn a_row_that_holds_with_swapped_labels_as_well_says_nothing() {
    let mut records = as_published();
    for RunRecord { result, .. } in &mut records {
        result.ops_per_s = 1_000.0;
    }
    let of = |judged: &Judged| judged.shape.relative_to.is_some();
    for judged in judge(&records).into_iter().filter(of) {
        let found = (judged.verdict, judged.control);
        assert_eq!(found, (Verdict::Insensitive, Some(Control::Holds)), "{}", judged.shape.claim);
    }
}

#[test]
fn swapped_results_hold_nowhere() {
    let mut records = as_published();
    for record in &mut records {
        record.result.engine = match record.result.engine.as_str() {
            "lsm-leveled" => "btree",
            "btree" => "lsm-leveled",
            "lsm-leveled+sql" => "btree+sql",
            "btree+sql" => "lsm-leveled+sql",
            other => other,
        }
        .to_owned();
    }
    // Where rows of the ladder are compared, the engine is but one half of a label.
    let of_both = |judged: &Judged| {
        !["lsm-classic", "lsm-universal", "myrocks"].contains(&judged.shape.of.engine)
            && !["myrocks", "innodb"].contains(&judged.shape.by.engine)
            && judged.shape.alike != Alike::ButStep
            && judged.shape.rival.is_none_or(|rival| [LSM, BTREE].contains(&rival.engine))
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
    for judged in judge(&one_engine) {
        // What an engine does beside itself is all that there is of it.
        let is_own = judged.shape.of.engine == BTREE && judged.shape.by.engine == BTREE;
        assert_eq!(
            judged.verdict,
            if is_own { Verdict::Shown } else { Verdict::NotMeasured },
            "{}",
            judged.shape.claim
        );
    }
}

#[test]
fn runs_under_other_conditions_are_not_compared() {
    let mut records = as_published();
    for record in records.iter_mut().filter(|record| ["btree", "btree+sql"].contains(&record.result.engine.as_str())) {
        record.result.memory_bytes = record.result.memory_bytes.map(|bytes| bytes + 1);
    }
    let compares = |judged: &Judged| {
        let (of, by) = (judged.shape.of.engine, judged.shape.by.engine);
        of != by
            && of != "lsm-classic"
            && !["myrocks", MYSQL84, "btree-ssd"].contains(&by)
            && judged.shape.alike != Alike::ButStep
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
    let (verdict, finer) = variation_judged(1.0, &[10.0, 10.1].repeat(4), &jagged);
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
        judged.shape.experiment == "Insert benchmark"
            && judged.shape.by.engine != judged.shape.of.engine
            && judged.shape.by.engine != "btree-ssd"
            && !judged.shape.of.runs.may_end_early
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
    for judged in judge(&records) {
        let is_of_limits = judged.shape.of.runs.level0 != Level0::Own;
        let is_measured = judged.verdict != Verdict::NotMeasured;
        let slowdown = judged.shape.of.runs.level0 == Level0::Slowdown("20");
        assert_eq!(is_measured, is_of_limits && slowdown, "{}", judged.shape.claim);
    }
    // Beside others they change nothing, however large they are.
    for record in &mut records {
        record.result.data_bytes = record.result.data_bytes.map(|bytes| bytes * 2);
        record.result.ops_per_s = 1.0;
    }
    records.extend(as_published());
    let is_own = |judged: &&Judged| judged.shape.of.runs.level0 == Level0::Own;
    let verdicts = |records: &[RunRecord]| {
        let judged = judge(records);
        judged.iter().filter(is_own).map(|judged| judged.verdict).collect::<Vec<_>>()
    };
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
    assert_eq!(of_redmine.len(), 18);
    assert!(of_redmine.iter().all(|judged| judged.verdict == Verdict::NotMeasured));
}

#[test]
fn published_ratios_come_from_the_published_tables() {
    let published = |claim: &str| {
        let shape = all_shapes().into_iter().find(|shape| shape.claim.starts_with(claim));
        shape
            .and_then(|shape| shape.published)
            .map(|(least, most)| [least, most].map(|ratio| (ratio * 100.0).round() / 100.0))
    };
    assert_eq!(published("in memory, 1 client"), Some([1.34, 1.34]));
    assert_eq!(published("larger than memory, slow SSD: rows/s"), Some([2.26, 2.26]));
    // What RocksDB wrote was counted with what it trimmed, about as much again.
    assert_eq!(published("larger than memory, fast SSD: KB"), Some([3.38, 6.76]));
    assert_eq!(published("larger than memory, slow SSD: KB"), Some([2.52, 5.04]));
    assert_eq!(published("space"), Some([0.62, 0.62]));
    assert_eq!(published("write_only"), Some([1.80, 1.80]));
    assert_eq!(published("read_only"), Some([0.86, 0.86]));
    assert_eq!(published("in memory, 8 clients"), Some([0.69, 0.69]));
    assert_eq!(published("universal compaction, in memory, 16 clients"), Some([0.89, 0.89]));
    assert_eq!(published("binlog left to the system, leveled compaction"), Some([1.17, 1.17]));
    assert_eq!(published("fast SSD: the LSM tree's rows/s larger than"), Some([1.12, 1.12]));
    assert_eq!(published("fast SSD: the B-tree's rows/s larger than"), Some([0.24, 0.24]));
    assert_eq!(published("read_only, in a memory cgroup"), Some([0.86, 0.87]));
    assert_eq!(published("row ttl: processor time"), Some([1.27, 1.27]));
    assert_eq!(published("row ttl: bytes read"), Some([0.45, 0.45]));
    assert_eq!(published("read_only, two fifths"), Some([0.87, 0.87]));
    assert_eq!(published("read_write, four fifths"), Some([1.30, 1.30]));
    assert_eq!(published("create_task, large, full load"), Some([2.34, 2.42]));
    assert_eq!(published("process_10_tasks, large, full load"), Some([1.76, 1.80]));
    assert_eq!(published("create_task, large: the LSM tree's"), Some([1.28, 1.28]));
    assert_eq!(published("small data set"), Some([0.22, 0.22]));
    assert_eq!(published("row ttl: space"), Some([0.44, 0.44]));
    assert_eq!(published("row dense: bytes"), Some([13.09, 13.09]));
    assert_eq!(published("row expiry-off: of all"), Some([0.98, 0.98]));
    let compares_ours = [
        "variation",
        "equal durability",
        "synced at every commit",
        "row ttl: of",
        "row dense: of",
        "within a run",
        "without the application's time",
        "busiest ten seconds",
    ];
    for shape in catalogue::shapes() {
        let is_of_ours = compares_ours.iter().any(|part| shape.claim.contains(part));
        assert_eq!(shape.published.is_none(), is_of_ours, "{}", shape.claim);
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

#[test]
fn many_clients_are_judged_where_there_are_cores_for_them() {
    let mut records = as_published();
    let verdicts = |records: &[RunRecord]| -> Vec<_> {
        let of_many = |judged: &Judged| judged.shape.least_cores.is_some();
        judge(records).into_iter().filter(of_many).map(|judged| judged.verdict).collect()
    };
    assert_eq!(verdicts(&records), [Verdict::Holds; 6], "8, 12 and 16 clients of both styles");
    for (cores, verdict) in [(Some(8), Verdict::Holds), (Some(7), Verdict::Shown), (None, Verdict::Shown)] {
        for record in &mut records {
            record.result.provenance = Some(Provenance { cores, ..Provenance::default() });
        }
        assert_eq!(verdicts(&records), [verdict; 6], "{cores:?}");
    }
}

#[test]
fn a_row_without_a_rival_to_swap_with_has_no_control() {
    let records: Vec<_> = as_published().into_iter().filter(|record| record.result.engine == LSM).collect();
    let own = judge(&records).into_iter().find(|judged| judged.shape.claim.starts_with("slow SSD: the LSM tree's"));
    let own = own.map(|judged| (judged.verdict, judged.control));
    assert_eq!(own, Some((Verdict::Uncontrolled, Some(Control::NotMeasured))));
}

#[test]
fn rows_of_the_ladder_are_swapped_with_their_names() {
    let judged = judge(&as_published());
    let labels = |claim: &str| {
        let row = judged.iter().find(|judged| judged.shape.claim.starts_with(claim));
        row.and_then(|row| row.control).map(|control| match control {
            Control::Fails((one, other), ratio) => format!("{one}, {other}: {ratio:.2}"),
            other => format!("{other:?}"),
        })
    };
    let expected = [
        ("row ttl: space", "lsm-leveled ttl, btree-compressed daily-deletes: 2.22"),
        ("row dense: bytes", "btree-compressed daily-deletes, lsm-leveled dense: 0.07"),
        ("row ttl: of all", "lsm-leveled ttl, lsm-leveled expiry-off: 0.60"),
    ];
    for (claim, control) in expected {
        assert_eq!(labels(claim).as_deref(), Some(control));
    }
    // Of two scales, each is compared with itself.
    let mut records = as_published();
    for record in records.iter_mut().filter(|record| record.result.engine == "btree-compressed") {
        record.result.config_hash = "780 days".to_owned();
    }
    let reason = judge(&records).into_iter().find(|judged| judged.shape.claim.starts_with("row ttl: space"));
    let reason = reason.and_then(|judged| judged.reason);
    assert_eq!(reason.as_deref(), Some("the runs of lsm-leveled and btree-compressed differ in settings"));
}

/// Runs of other settings that somebody adds are compared with their like alone.
#[test]
fn times_of_redmine_are_compared_where_the_application_does_the_same() {
    let reasons = |change: fn(&mut ResultLine)| {
        let mut records = as_published();
        let is_changed = |line: &ResultLine| line.experiment == "redmine" && line.engine == LSM && line.threads == 4;
        for RunRecord { result, .. } in records.iter_mut().filter(|record| is_changed(&record.result)) {
            change(result);
        }
        ["create_task, large, full load", "create_task, large: the LSM tree's"].map(|claim| {
            let found = judge(&records).into_iter().find(|judged| judged.shape.claim.starts_with(claim));
            found.unwrap().reason.unwrap_or_default()
        })
    };
    let [beside_btree, growth] = reasons(|line| line.config = Some(serde_json::json!({ "app_ms": 18.0 })));
    assert!(beside_btree.ends_with("differ in what the application does"), "{beside_btree}");
    assert!(growth.ends_with("differ in what the application does"), "{growth}");
    let [beside_btree, growth] = reasons(|line| line.config_hash = "30 transactions".to_owned());
    assert!(beside_btree.ends_with("differ in settings"), "{beside_btree}");
    assert_eq!(growth, "", "the load is one of the settings");
}

#[test]
fn what_is_far_from_what_was_published_is_said_to_be() {
    let is_far = |factor: f64| {
        let shape =
            all_shapes().into_iter().find(|shape| shape.claim.starts_with("larger than memory, slow SSD: rows/s"));
        let shape = shape.unwrap();
        let records = scaled(&as_published(), &shape, factor);
        let found = judge(&records).into_iter().find(|judged| judged.shape.claim == shape.claim).unwrap();
        found.is_far
    };
    // 2.26 was published, and 3 is what these have.
    assert_eq!([0.3, 1.0, 1.4, 1.6].map(is_far), [true, false, false, true]);
}

#[test]
fn full_load_is_four_processes_and_no_load_is_one() {
    let mut records = as_published();
    let of = |records: &[RunRecord], claim: &str| {
        let found = judge(records).into_iter().find(|judged| judged.shape.claim.starts_with(claim));
        found.and_then(|judged| judged.measured).map(|ratio| (ratio * 100.0).round() / 100.0)
    };
    let growth = "create_task, large: the LSM tree's mean time";
    assert_eq!(of(&records, growth), Some(1.2));
    assert_eq!(of(&records, "create_task, large, full load"), Some(3.33));
    records.retain(|record| record.result.experiment != "redmine" || record.result.threads == 1);
    assert_eq!(of(&records, growth), None);
    assert_eq!(of(&records, "create_task, large, full load"), None);
}

/// A run for [`why`]: ten seconds on two cores.
fn evidence(engine: &str, change: impl Fn(&mut ResultLine)) -> RunRecord {
    let mut record = run("insert", "l", engine, 2, "slow-ssd", (1_000_000_000, 200_000_000));
    record.result.provenance = Some(Provenance { cores: Some(2), ..Provenance::default() });
    record.result.cpu_s = Some(5.0);
    change(&mut record.result);
    record
}

/// Why two runs of our engines differ.
fn why_of(of: &RunRecord, by: &RunRecord, ratio: f64, shape: &Shape) -> String {
    why::why(of, by, None, ratio, shape)
}

#[test]
fn a_row_beside_servers_tells_what_those_used_up_beside_their_clients() {
    let shape = all_shapes().into_iter().find(|shape| shape.claim.starts_with("write_only: rate")).unwrap();
    let server = |engine, cpu_s| {
        evidence(engine, |run| {
            run.cpu_s = Some(cpu_s);
            let provenance = run.provenance.as_mut().unwrap();
            provenance.peers.insert("mariadb".to_owned(), "10.11".to_owned());
        })
    };
    let (of, by) = (evidence(LSM, |run| run.cpu_s = Some(19.0)), evidence(BTREE, |_| {}));
    let (myrocks, innodb) = (server("myrocks", 16.0), server("innodb", 18.0));
    let found = why::why(&of, &by, Some(([&myrocks, &innodb], (2.8, 1.0))), 2.8, &shape);
    let expected = "lsm-leveled does better beside btree than myrocks beside innodb: lsm-leveled kept 1.90 of 2 cores busy; btree kept 0.50 of 2 cores busy and was near no limit that was measured; myrocks kept 1.60 of 2 cores busy beside the program that sends it SQL; innodb kept 1.80 of 2 cores busy.";
    assert_eq!(found, expected);
}

#[test]
fn why_a_row_differs_is_said_from_what_its_runs_used_up() {
    let shape = |claim: &str| all_shapes().into_iter().find(|shape| shape.claim.starts_with(claim)).unwrap();
    let quiet = |_: &mut ResultLine| {};
    let (slow, idle) =
        ("larger than memory, slow SSD: rows", "kept 0.50 of 2 cores busy and was near no limit that was measured");
    type Change = fn(&mut ResultLine);
    let facts: [(Change, &str); 12] = [
        (|run| run.cpu_s = Some(19.0), "kept 1.90 of 2 cores busy"),
        (|run| run.process_written = Some(3_900_000_000), "wrote 390 of the 400 MB/s that its device gave it"),
        (|run| run.process_read = Some(3_500_000_000), "read 350 of the 400 MB/s that its device gave it"),
        (
            |run| (run.process_read, run.device_load) = (Some(900_000_000), Some(3.0)),
            "read 90.0 of the 100 MB/s that its device gave it",
        ),
        (
            |run| (run.ops, run.reads_per_row) = (50_000, Some(1.9)),
            "made 9,500 of the 10,000 reads a second that its device gave it",
        ),
        (
            |run| (run.ops, run.reads_per_row, run.process_written) = (50_000, Some(1.2), Some(1_000_000_000)),
            "kept its device busy with reads (1.20 an operation) for 60 % of the time and with writes for 25 %",
        ),
        // 500 µs each: six tenths of ten seconds.
        (
            |run| {
                (run.ops, run.reads_per_row) = (50_000, Some(0.05));
                run.process_written = Some(1_000_000_000);
                run.counters = [("rocksdb.wal.synced".to_owned(), 12_000)].into();
            },
            "kept its device busy with reads for 2 % of the time, with writes for 25 % and with syncs of its log for 60 %",
        ),
        (
            |run| run.io_pressure_us = Some(4_700_000),
            "ran while some thread of the machine waited for the machine's own disk for 47 % of the time",
        ),
        (|run| (run.io_pressure_us, run.cpu_s) = (Some(4_700_000), Some(18.0)), "kept 1.80 of 2 cores busy"),
        (
            |run| (run.io_pressure_us, run.cpu_pressure_us) = (Some(4_700_000), Some(3_400_000)),
            "ran while some thread of the machine waited for the machine's own disk for 47 % and for a core for 34 % of the time",
        ),
        (
            |run| run.stall_us = Some([("l0_file_count".to_owned(), 6_000_000), ("unsynced_wal".to_owned(), 4)].into()),
            "held its clients up for 30 % of their time, most of it for l0_file_count",
        ),
        (
            |run| (run.device, run.process_written) = (Some("80 MiB/s, 4000 reads/s".to_owned()), Some(800_000_000)),
            "wrote 80.0 of the 83.9 MB/s that its device gave it",
        ),
    ];
    for (change, fact) in facts {
        let found = why_of(&evidence(LSM, change), &evidence(BTREE, quiet), 1.5, &shape(slow));
        assert_eq!(found, format!("Less than the published 2.26: lsm-leveled {fact}; btree {idle}."));
    }
    // How long a sync takes its device, which serves four others meanwhile.
    let synced = evidence(BTREE, |run| {
        (run.device, run.device_load) = (Some("hdd".to_owned()), Some(4.0));
        run.durability = Some("commit".to_owned());
    });
    let found = why_of(&evidence(LSM, quiet), &synced, 1.5, &shape(slow));
    assert!(
        found.ends_with(&format!("btree {idle}, and every commit waited for a sync of 41.7 ms or more.")),
        "{found}"
    );
    // Two of them, and nothing at all.
    let both = evidence(BTREE, |run| (run.cpu_s, run.process_written) = (Some(18.0), Some(4_000_000_000)));
    let found = why_of(&evidence(LSM, quiet), &both, 1.5, &shape(slow));
    assert!(found.ends_with("btree kept 1.80 of 2 cores busy and wrote 400 of the 400 MB/s that its device gave it."));
    let unknown = evidence(LSM, |run| run.cpu_s = None);
    let found = why_of(&unknown, &unknown, 1.5, &shape(slow));
    assert_eq!(found, "Less than the published 2.26: the results tell of no limit.");
}

#[test]
fn why_a_row_differs_begins_with_where_its_ratio_lies() {
    let begin = |claim: &str, ratio: f64| {
        let shape = all_shapes().into_iter().find(|shape| shape.claim.starts_with(claim)).unwrap();
        let (of, by) = (evidence(shape.of.engine, |_| {}), evidence(shape.by.engine, |_| {}));
        let sentence = why_of(&of, &by, ratio, &shape);
        assert!(sentence.ends_with('.') && sentence.matches(". ").count() == 0, "one sentence: {sentence}");
        sentence.split(": ").next().unwrap().to_owned()
    };
    for (claim, ratio, expected) in [
        ("larger than memory, slow SSD: rows", 1.5, "Less than the published 2.26"),
        ("larger than memory, slow SSD: rows", 0.5, "Not the same side leads as in the publication, which has 2.26"),
        ("read_only, a fifth", 1.2, "Not the same side leads as in the publication, which has 0.86"),
        ("read_only, a fifth", 0.5, "Less than the published 0.86"),
        ("row ttl: space", 0.61, "More than the published 0.44"),
        ("in memory, 16 clients", 0.478, "As published, 0.48, and outside the bounds"),
        ("in memory, 8 clients", 0.8, "More than the published 0.69, and less than the 1.00 that is asked"),
        ("slow SSD: variation of the LSM", 1.2, "More than 1.00"),
        ("slow SSD: variation of the 5-s", 1.2, "Less than 2.00"),
        ("slow SSD: the LSM tree's", 0.5, "Less than the published 1.03"),
        ("create_task, large: the LSM tree's", 1.5, "More than the published 1.28"),
        ("read_only: rate", 1.8, "lsm-leveled does better beside btree than myrocks beside innodb"),
        ("read_only: rate", 0.5, "lsm-leveled does worse beside btree than myrocks beside innodb"),
    ] {
        assert_eq!(begin(claim, ratio), expected, "{claim} {ratio}");
    }
}

#[test]
fn an_engine_beside_itself_is_told_of_by_its_conditions() {
    let shape = |claim: &str| all_shapes().into_iter().find(|shape| shape.claim.starts_with(claim)).unwrap();
    let with = |threads, load, cpu_s| {
        evidence(LSM, |run| (run.threads, run.device_load, run.cpu_s) = (threads, Some(load), Some(cpu_s)))
    };
    let found = why_of(&with(4, 4.0, 19.0), &with(1, 0.0, 18.0), 1.5, &shape("create_task, large: the LSM"));
    let expected = "lsm-leveled (clients 4, load 4) kept 1.90 of 2 cores busy; lsm-leveled (clients 1, load 0) kept 1.80 of 2 cores busy.";
    assert!(found.ends_with(expected), "{found}");
    // Of two runs under the same conditions, whose figure it is.
    let found = why_of(&with(2, 0.0, 19.0), &with(2, 0.0, 5.0), 0.5, &shape("slow SSD: the LSM tree's"));
    assert_eq!(found, "Less than the published 1.03: lsm-leveled kept 1.90 of 2 cores busy.");
}

#[test]
fn amounts_are_told_of_with_what_is_still_owed() {
    let shape = |claim: &str| all_shapes().into_iter().find(|shape| shape.claim.starts_with(claim)).unwrap();
    let with = |engine: &str, debt| {
        evidence(engine, |run| (run.space_bytes, run.debt_bytes) = (Some(140_000_000), Some(debt)))
    };
    let found = why_of(&with(LSM, 70_000_000), &with("btree-compressed", 0), 0.6, &shape("row ttl: space"));
    assert_eq!(
        found,
        "More than the published 0.44: lsm-leveled has 140 MB on the device and still owed compactions of 70.0 MB; btree-compressed has 140 MB on the device."
    );
    let expired = evidence(LSM, |run| run.expired_share = Some(0.25));
    let found = why_of(&expired, &expired, 0.25, &shape("row ttl: of all"));
    assert_eq!(found, "More than 0.15: lsm-leveled has 0.25 of 1 expired.");
}

#[test]
fn amounts_are_told_of_beside_what_was_published_for_either_side() {
    let shape = all_shapes().into_iter().find(|shape| shape.claim.starts_with("space of the LSM tree over")).unwrap();
    let with = |engine: &str, bytes| {
        evidence(engine, |run| (run.space_bytes, run.data_bytes) = (Some(bytes), Some(87_000_000)))
    };
    assert_eq!(
        why_of(&with(LSM, 114_000_000), &with(BTREE, 167_000_000), 0.683, &shape),
        "More than the published 0.62: lsm-leveled has 114 bytes a row on the device (published: 113); btree has 167 bytes a row on the device (published: 181)."
    );
}

#[test]
fn amounts_of_little_data_are_told_of_as_such() {
    let shape = all_shapes().into_iter().find(|shape| shape.claim.starts_with("row ttl: space")).unwrap();
    let with = |engine: &str, bytes| {
        evidence(engine, |run| (run.space_bytes, run.data_bytes) = (Some(140_000_000), Some(bytes)))
    };
    assert_eq!(
        why_of(&with(LSM, 9_000_000), &with("btree-compressed", 67_200_000), 0.6, &shape),
        "More than the published 0.44: lsm-leveled has 140 MB on the device and had but 9.00 MB of data; btree-compressed has 140 MB on the device."
    );
}

#[test]
fn a_rate_that_sinks_is_told_of_with_what_a_row_costs_as_the_tree_grows() {
    let shape = all_shapes().into_iter().find(|shape| shape.claim.starts_with("slow SSD: the LSM tree's")).unwrap();
    let mut run = evidence(LSM, |run| (run.cpu_s, run.memory_bytes) = (Some(19.0), Some(30_000_000)));
    (run.result.ops, run.result.bytes_user) = (1_000_000, 87_000_000);
    let second = |interval_s, ops_per_s, written_per_s| IntervalLine {
        interval_s,
        ops_per_s,
        written_per_s: Some(written_per_s),
        ..IntervalLine::default()
    };
    run.intervals = vec![second(1.0, 300_000.0, 90e6), second(2.0, 300_000.0, 120e6), second(3.0, 200_000.0, 100e6)];
    assert_eq!(figures::transition(&run), Some(200.0 / 300.0));
    assert_eq!(
        why_of(&run, &run, 0.67, &shape),
        "Less than the published 1.03: lsm-leveled wrote 0.30 KB a row before, while its tree was small, and 0.50 KB afterwards and kept 1.90 of 2 cores busy."
    );
    run.intervals[0].written_per_s = None;
    assert_eq!(
        figures::transition(&run),
        Some(200.0 / 300.0),
        "a system that does not count what is written has rates"
    );
}

#[test]
fn what_differs_says_why() {
    let mut records = as_published();
    for record in records.iter_mut().filter(|record| record.result.engine == BTREE) {
        record.result.ops_per_s *= 100.0;
    }
    let differs: Vec<_> = judge(&records).into_iter().filter(|one| one.verdict == Verdict::Differs).collect();
    assert!(differs.len() > 10 && differs.iter().all(|one| one.why.is_some() && one.control.is_none()));
}

#[test]
fn what_is_far_from_published_says_why_though_it_holds() {
    let claim = "larger than memory, slow SSD: rows";
    let as_it_is = shape_judged(&as_published(), claim).measured.unwrap();
    let verdict = |times_published: f64| {
        let mut records = as_published();
        for record in records.iter_mut().filter(|record| record.result.engine == LSM) {
            record.result.ops_per_s *= 2.26 / as_it_is * times_published;
        }
        let judged = shape_judged(&records, claim);
        (judged.verdict, judged.why)
    };
    assert_eq!(verdict(1.9), (Verdict::Holds, None));
    let (verdict, why) = verdict(2.1);
    assert_eq!(verdict, Verdict::Holds);
    assert!(why.as_ref().is_some_and(|why| why.starts_with("More than the published 2.26: ")), "{why:?}");
}

#[test]
fn where_there_are_no_bounds_the_published_side_has_to_lead() {
    let shape = |claim: &str| all_shapes().into_iter().find(|shape| shape.claim.starts_with(claim)).unwrap();
    for (claim, lead) in [
        ("read_write, a fifth", Some(Lead::First)),
        ("read_only, two fifths", Some(Lead::Second)),
        ("universal compaction, in memory, 4 clients", Some(Lead::First)),
        // With bounds, with nothing published, and of one engine beside itself.
        ("write_only, a fifth in memory, slow SSD: transactions", None),
        ("create_task, large, full load (4 processes, load x4), equal", None),
        ("slow SSD: the B-tree's", None),
        ("row expiry-off", None),
    ] {
        assert_eq!(shape(claim).lead(), lead, "{claim}");
    }
    let straddles = Shape { published: Some((0.9, 1.1)), ..shape("read_write, a fifth") };
    assert_eq!(straddles.lead(), None, "who led depended on something else");
    let about_equal = Shape { published: Some((1.02, 1.04)), ..shape("read_write, a fifth") };
    assert_eq!(about_equal.lead(), None, "nobody did by much");
    let verdict = |rate: f64| {
        let mut records = as_published();
        let is_meant = |record: &&mut RunRecord| record.result.workload == "read_write" && record.result.engine == LSM;
        records.iter_mut().filter(is_meant).for_each(|record| record.result.ops_per_s = rate);
        let judged = shape("read_write, a fifth").judge(&records);
        (judged.verdict, judged.why.is_some())
    };
    assert_eq!(verdict(1_001.0), (Verdict::Holds, false));
    assert_eq!(verdict(1_000.0), (Verdict::Differs, true), "nobody leads");
    assert_eq!(verdict(999.0), (Verdict::Differs, true));
}

#[test]
fn runs_on_other_machines_are_not_compared() {
    let mut records = as_published();
    for record in records.iter_mut().filter(|record| record.result.engine == BTREE) {
        let provenance = record.result.provenance.get_or_insert_default();
        (provenance.cpu, provenance.cores) = (Some("Other".to_owned()), Some(16));
    }
    for record in records.iter_mut().filter(|record| record.result.engine != BTREE) {
        record.result.provenance.get_or_insert_default().cpu = Some("One".to_owned());
    }
    let judged = shape_judged(&records, "write_only, a fifth");
    assert_eq!(judged.verdict, Verdict::NotMeasured);
    assert_eq!(judged.reason.as_deref(), Some("the runs of lsm-leveled and btree differ in machine"));
}

fn shape_judged(records: &[RunRecord], claim: &str) -> Judged {
    all_shapes().into_iter().find(|shape| shape.claim.starts_with(claim)).unwrap().judge(records)
}

#[test]
fn a_quotient_of_ratios_comes_with_both() {
    let judged = shape_judged(&as_published(), "insert, limited device: rate");
    assert_eq!(judged.ratios, Some((3.0, 2_500.0 / 900.0)));
    assert_eq!(judged.shape.published, Some((3.59, 3.59)), "of the others, in an earlier run");
    assert_eq!(shape_judged(&as_published(), "insert, limited device: the LSM").ratios, None);
}

#[test]
fn the_slowest_five_seconds_of_inserting_are_told_of() {
    let judged = |claim: &str| {
        let judged = shape_judged(&as_published(), claim);
        (judged.measured.map(|ratio| (ratio * 100.0).round() / 100.0), judged.verdict)
    };
    assert_eq!(judged("insert, limited device: the LSM tree's slowest"), (Some(0.9), Verdict::Holds));
    assert_eq!(judged("insert, limited device: MyRocks' slowest"), (Some(0.12), Verdict::Shown));
    let mut records = as_published();
    records.iter_mut().for_each(|record| record.intervals.truncate(4));
    let judged = shape_judged(&records, "insert, limited device: the LSM tree's slowest");
    assert_eq!(judged.verdict, Verdict::NotMeasured, "of four none is the least of a run");
}

#[test]
fn the_course_of_a_line_is_who_leads_and_where_that_changes() {
    let told = |ratios: &[f64]| {
        let points: Vec<_> = (1..).map(|place: u32| place.to_string()).zip(ratios.iter().copied()).collect();
        crossings::course(&points).map(|course| {
            let turns: Vec<_> = course.turns.iter().map(|(one, other)| format!("{one}-{other}")).collect();
            (course.first, turns.join(" "), format!("{}-{}", course.ends.0, course.ends.1))
        })
    };
    let expected = |first, turns: &str, ends: &str| Some((first, turns.to_owned(), ends.to_owned()));
    assert_eq!(told(&[1.3, 1.1, 0.7]), expected(Lead::First, "2-3", "1-3"));
    assert_eq!(told(&[0.5, 0.9]), expected(Lead::Second, "", "1-2"));
    assert_eq!(told(&[0.5, 1.5, 0.5]), expected(Lead::Second, "1-2 2-3", "1-3"));
    assert_eq!(told(&[0.5, 1.0, 2.0]), expected(Lead::Second, "1-3", "1-3"), "where both are equal nobody leads");
    assert_eq!(told(&[2.0]), None);
    assert_eq!(told(&[]), None);
}

/// Inserting in memory by so many clients, the LSM tree so many times as fast as the B-tree.
fn by_clients(ratios: &[(u32, f64)], cores: u32) -> Vec<RunRecord> {
    let mut records = Vec::new();
    for (clients, ratio) in ratios {
        for (engine, rate) in [(LSM, *ratio), (BTREE, 1.0)] {
            let mut record = run("insert", "l", engine, *clients, "fast-ssd", (1_000, 2_000));
            record.result.ops_per_s = 1_000.0 * rate;
            record.result.provenance = Some(Provenance { cores: Some(cores), ..Provenance::default() });
            records.push(record);
        }
    }
    records
}

#[test]
fn lines_cross_where_they_did_or_elsewhere() {
    type Case = (&'static [(u32, f64)], u32, Option<Sameness>);
    let cases: [Case; 6] = [
        (&[(1, 1.3), (2, 1.2), (4, 1.1), (8, 0.7)], 16, Some(Sameness::Same)),
        (&[(1, 1.3), (8, 0.7)], 16, Some(Sameness::Same)),
        (&[(1, 1.3), (2, 0.9), (8, 0.7)], 16, Some(Sameness::Elsewhere)),
        (&[(1, 1.3), (2, 1.3), (8, 1.7)], 16, Some(Sameness::Elsewhere)),
        (&[(1, 0.9), (8, 0.7)], 16, Some(Sameness::OtherLead)),
        (&[(1, 1.3), (8, 0.7)], 2, Some(Sameness::Shown)),
    ];
    for (ratios, cores, expected) in cases {
        let found = crossings(&by_clients(ratios, cores));
        let leveled: Vec<_> = found.iter().filter(|one| one.claim.contains("leveled")).collect();
        assert_eq!(leveled.len(), found.len(), "nothing else was run");
        assert_eq!(leveled.first().map(|one| one.sameness), expected, "{ratios:?} on {cores} cores");
        // With labels exchanged the other engine leads first.
        let exchanged = swapped(&by_clients(ratios, cores), (Label::of(LSM), Label::of(BTREE)));
        let exchanged: Vec<_> = crossings(&exchanged).into_iter().map(|one| one.sameness).collect();
        assert!(
            !exchanged.is_empty()
                && exchanged.iter().all(|one| *one != Sameness::Same || expected == Some(Sameness::OtherLead)),
            "{ratios:?}"
        );
    }
    assert!(crossings(&by_clients(&[(2, 1.2)], 16)).is_empty(), "one place is no line");
    assert!(crossings(&as_published()).len() >= 5);
}

#[test]
fn an_engine_that_fell_behind_the_rows_that_came_in_is_not_judged() {
    let mut records = as_published();
    let is_btree = |record: &&mut RunRecord| record.result.workload == "daily-deletes";
    let of_btree = |records: &mut [RunRecord], lag| {
        let run = &mut records.iter_mut().find(is_btree).unwrap().result;
        (run.seconds, run.replication_lag_s) = (200.0, Some(lag));
    };
    of_btree(&mut records, 9.0);
    let space = "row ttl: space over";
    assert_eq!(shape_judged(&records, space).verdict, Verdict::Holds);
    of_btree(&mut records, 73.5);
    let judged = shape_judged(&records, space);
    assert_eq!(judged.verdict, Verdict::NotMeasured);
    assert_eq!(judged.reason.as_deref(), Some("btree-compressed did not keep up: rows came in 74 s late"));
}

#[test]
fn a_run_is_compared_with_those_of_its_own_settings_alone() {
    let mut records = as_published();
    let is_meant = |record: &&RunRecord| {
        let run = &record.result;
        run.workload == "write_only" && run.engine == BTREE && run.memory_bytes == Some(200)
    };
    let without_change_buffer: Vec<_> = records.iter().filter(is_meant).cloned().collect();
    assert_eq!(without_change_buffer.len(), 1);
    for mut record in without_change_buffer {
        record.result.config_hash = "no change buffer".to_owned();
        record.result.ops_per_s *= 100.0;
        records.push(record);
    }
    let judged = shape_judged(&records, "write_only, a fifth");
    assert_eq!((judged.verdict, judged.measured.map(f64::round)), (Verdict::Holds, Some(3.0)));
}

#[test]
fn a_cgroup_that_holds_all_of_the_data_says_nothing_of_little_memory() {
    let mut records = as_published();
    for record in records.iter_mut().filter(|record| record.result.page_cache == Some(true)) {
        record.result.memory_bytes = Some(1_100);
    }
    assert_eq!(shape_judged(&records, "write_only, in a memory cgroup").verdict, Verdict::NotMeasured);
}
