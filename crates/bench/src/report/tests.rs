//! The report: parsing, published figures, the page.

use super::*;
use crate::JsonLines;
use crate::Provenance;

fn result(engine: &str, ops_per_s: f64) -> ResultLine {
    ResultLine {
        experiment: "insert".to_owned(),
        workload: "l".to_owned(),
        engine: engine.to_owned(),
        threads: 2,
        ops: 100,
        seconds: 1.0,
        ops_per_s,
        kb_written_per_row: Some(0.33),
        ..ResultLine::default()
    }
}

fn interval(interval_s: f64, ops_per_s: f64) -> IntervalLine {
    IntervalLine { interval_s, ops_per_s, ..IntervalLine::default() }
}

#[test]
fn every_published_table_has_full_rows() {
    let tables = published::tables();
    assert_eq!(tables.len(), 8);
    for table in &tables {
        assert!(!table.notes.is_empty() && !table.rows.is_empty(), "{}", table.name);
        for row in &table.rows {
            assert_eq!(row.len(), table.columns.len(), "{}: {row:?}", table.name);
        }
    }
}

/// A run of the insert benchmark on a device, with data and memory of these sizes.
fn inserted(engine: &str, device: &str, (data, memory): (u64, u64)) -> RunRecord {
    let result = ResultLine {
        device: Some(device.to_owned()),
        data_bytes: Some(data),
        memory_bytes: Some(memory),
        compressed: Some(false),
        ..result(engine, 163_900.0)
    };
    RunRecord::new(result)
}

#[test]
fn a_published_figure_stands_beside_the_measured_one() {
    let of = |run: &RunRecord| comparison::of(std::slice::from_ref(run));
    let figures = |run: &RunRecord| {
        let found = of(run);
        found.into_iter().map(|one| (one.published_engine, one.published, one.unit)).collect::<Vec<_>>()
    };
    let (fits, exceeds) = ((1_000, 1_000), (1_000, 300));
    let expected = |engine: &str, rate, engine_of_bytes: &str, bytes| {
        vec![(engine.to_owned(), rate, "rows/s"), (engine_of_bytes.to_owned(), bytes, "KB/row")]
    };
    // In memory and beyond it, each of ours beside the one that works as it does.
    let mut in_memory = inserted("lsm-leveled", "none", fits);
    assert_eq!(figures(&in_memory), expected("myrocks", 81_950.0, "myrocks", 3.30));
    assert_eq!(of(&in_memory)[0].ratio(), 2.0);
    let modelled = inserted("lsm-leveled", "fast-ssd", fits);
    assert_eq!(figures(&modelled), figures(&in_memory));
    assert!(of(&modelled).iter().all(|one| one.what.contains("in memory") && one.what.contains("fast-ssd")));
    assert_eq!(figures(&inserted("btree", "none", fits)), expected("innodb-5.7.10", 62_490.0, "innodb-5.7", 4.35));
    assert_eq!(figures(&inserted("lsm-universal", "none", fits)), [("myrocks".to_owned(), 79_888.0, "rows/s")]);
    let fast = inserted("lsm-leveled", "fast-ssd", exceeds);
    assert_eq!(figures(&fast), expected("myrocks", 115_234.0, "myrocks", 3.96));
    assert!(of(&fast).iter().all(|one| one.what.contains("larger than memory") && one.what.contains("fast-ssd")));
    let slow = inserted("btree-mysql84", "slow-ssd", exceeds);
    assert_eq!(figures(&slow), expected("innodb-5.7", 38_207.0, "innodb-5.7", 10.08));
    // Nothing was published for anything in between, for another engine, for compressed data, or for a part of the rows.
    let nothing = [
        inserted("lsm-leveled", "slow-ssd", fits),
        inserted("lsm-leveled", "none", exceeds),
        inserted("lsm-leveled", "slow-ssd", (1_000, 600)),
        inserted("fjall", "none", fits),
    ];
    assert!(nothing.iter().all(|run| of(run).is_empty()));
    let change = |change: fn(&mut ResultLine)| {
        let mut run = inserted("lsm-leveled", "none", fits);
        change(&mut run.result);
        run
    };
    assert!(of(&change(|run| run.compressed = Some(true))).is_empty());
    assert!(of(&change(|run| run.rows_left_out = Some(1))).is_empty());
    assert!(
        of(&change(|run| run.level0 = Some("10/20/20".to_owned()))).is_empty(),
        "of engines as they are by themselves"
    );

    (in_memory.result.binlog_bytes, in_memory.result.threads) = (Some(1), 3);
    in_memory.result.setup = "100 rows a commit, binlog os".to_owned();
    let with_binlog = of(&in_memory);
    let is_told = with_binlog.iter().all(|one| one.unit == "KB/row" && one.what.contains("binlog on"));
    assert!(is_told && !with_binlog.is_empty(), "nothing else was published for 3 clients");
    in_memory.result.setup = "100 rows a commit, binlog sync".to_owned();
    assert!(of(&in_memory).is_empty(), "the published binlogs were not synced");
}

/// Intervals of this length with these rates.
fn with_rates(length: f64, rates: &[f64]) -> RunRecord {
    let intervals = (1..).zip(rates).map(|(number, rate)| interval(f64::from(number) * length, *rate)).collect();
    RunRecord { intervals, ..RunRecord::new(result("lsm-leveled", 1.0)) }
}

#[test]
fn rates_of_five_seconds_are_made_of_shorter_ones() {
    let seconds = with_rates(1.01, &[10.0, 20.0, 30.0, 40.0, 50.0, 7.0, 7.0, 7.0, 7.0, 7.0, 1_000.0]);
    let made = rates::by(&seconds, 5.0).unwrap();
    let rounded: Vec<_> = made.iter().map(|(end, rate)| ((end * 100.0).round(), rate.round())).collect();
    assert_eq!(rounded, [(505.0, 30.0), (1010.0, 7.0)], "what is left at the end is no interval");
    let fives = with_rates(5.0, &[1.0, 2.0]);
    assert_eq!(rates::by(&fives, 5.0).unwrap(), [(5.0, 1.0), (10.0, 2.0)]);
    assert_eq!(rates::by(&fives, 1.0), None);
    assert_eq!(rates::by(&with_rates(1.0, &[]), 1.0), None);
}

#[test]
fn a_chart_says_of_what_its_rates_are() {
    let page = |seconds| page::render(&[with_rates(1.0, &vec![5.0; seconds])]).unwrap();
    assert!(page(75).contains("Rates of 5.0 s each"));
    assert!(page(74).contains("Rates of 1.0 s each"), "there are too few of five seconds");
}

#[test]
fn curves_of_amplification_count_all_that_was_written_and_read_until_then() {
    let interval = |interval_s, written_per_s, space_bytes| IntervalLine {
        written_per_s: Some(written_per_s),
        read_per_s: None,
        space_bytes: Some(space_bytes),
        ..interval(interval_s, 1e6)
    };
    let result = ResultLine { bytes_user: 10_000_000, ops: 100_000, ..result("lsm-leveled", 1e6) };
    let intervals = vec![interval(1.0, 2e8, 150_000_000), interval(3.0, 5e8, 300_000_000)];
    let run = RunRecord { intervals, ..RunRecord::new(result) };
    let points = amplification::points(&run);
    let point = |rows, written, space| amplification::Point { rows, written, read: None, space };
    assert_eq!(points, [point(1.0, Some(2.0), Some(1.5)), point(3.0, Some(4.0), Some(1.0))]);
    let unknown = RunRecord { result: ResultLine { bytes_user: 0, ..run.result.clone() }, ..run };
    assert!(amplification::points(&unknown).is_empty());
}

#[test]
fn what_was_ended_early_is_shown_and_not_compared() {
    let step = |engine: &str, workload: &str, ops_per_s, rows_left_out| {
        let result = ResultLine { workload: workload.to_owned(), rows_left_out, ..result(engine, ops_per_s) };
        RunRecord::new(result)
    };
    let whole = [
        step("btree-mysql84", "l", 100.0, None),
        step("btree-mysql84", "qr100", 100.0, None),
        step("lsm-leveled", "l", 300.0, None),
        step("lsm-leveled", "qr100", 300.0, None),
    ];
    let page = |records: &[RunRecord]| page::render(records).unwrap();
    let bars = |html: &str| html.matches("<rect").count();
    let ratio = "<td>3.00</td>";
    let html = page(&whole);
    let bars_of_all = bars(&html);
    assert!(html.contains(ratio) && !html.contains("was ended after"));
    let mut early = whole.clone();
    early[0].result.rows_left_out = Some(4_321);
    let html = page(&early);
    assert_eq!(html.matches("btree-mysql84: step l was ended after 1 s without 4,321 rows").count(), 2, "{html}");
    assert!(html.contains("rows; it is shown") && html.contains("rows; what it did after that is shown"));
    assert!(!html.contains(ratio), "the LSM tree is the first of those that are compared");
    assert_eq!(bars(&html), bars_of_all - 2, "it has no bar in either step");
    // The next load begins anew.
    let again = [early.as_slice(), &whole].concat();
    assert_eq!(conditions::ended_early(&again, &again[1]).and_then(|step| step.rows_left_out), Some(4_321));
    assert_eq!(conditions::ended_early(&again, &again[5]), None);
    assert_eq!(conditions::ended_early(&again, &again[3]), None);
}

#[test]
fn queries_beside_too_few_inserts_are_shown_and_not_compared() {
    let step = |engine: &str, ops_per_s, kept| {
        let (offered_ops_per_s, writer_ops_per_s) = (Some(1_000.0), Some(kept));
        let workload = "qr500".to_owned();
        let result = ResultLine { workload, offered_ops_per_s, writer_ops_per_s, ..result(engine, ops_per_s) };
        RunRecord::new(result)
    };
    let page = |kept: &[f64]| {
        let mut records: Vec<_> = kept.iter().map(|kept| step("btree", 1_200.0, *kept)).collect();
        records.push(step("lsm-leveled", 300.0, 1_000.0));
        page::render(&records).unwrap()
    };
    let html = page(&[950.0]);
    assert!(html.contains("<td>1,200</td><td>1.00</td>") && html.contains("<td>300</td><td>0.25</td>"), "{html}");
    assert!(!html.contains("inserts:") && !html.contains("have it easier"));
    let bars_of_all = html.matches("<rect").count();
    // One run is enough, and the one that kept least is told of.
    let html = page(&[949.0, 640.0, 1_000.0]);
    assert!(html.contains("<td>1,200 (inserts: 640 of 1,000/s)</td><td>-</td>"), "{html}");
    assert!(html.contains("<p>btree: 640 of 1,000 rows/s were inserted beside the queries, which have it easier"));
    assert!(html.contains("<td>300</td><td>1.00</td>"), "the LSM tree is the first of those that are compared");
    assert_eq!(html.matches("<rect").count(), bars_of_all - 1, "it has no bar");
}

#[test]
fn what_could_not_be_measured_is_listed_with_the_reason() {
    let mut records =
        vec![inserted("lsm-leveled", "slow-ssd", (1_000, 200)), inserted("btree", "slow-ssd", (900, 200))];
    records.push(inserted("lsm-leveled", "none", (1_000, 2_000)));
    records.push(inserted("btree", "none", (1_000, 2_000)));
    let reason = |records: &[RunRecord], claim: &str| {
        let judged = shapes::judge(records).into_iter().find(|one| one.shape.claim.starts_with(claim));
        judged.and_then(|one| one.reason).unwrap_or_default()
    };
    let slow = "larger than memory, slow SSD: rows";
    assert_eq!(reason(&records, slow), "the runs of lsm-leveled and btree differ in data");
    assert_eq!(reason(&records, "in memory, 2 clients"), "");
    assert_eq!(reason(&records, "in memory, 1 client"), "there is no run of lsm-leveled under these conditions");
    assert!(reason(&records, "slow SSD: the LSM tree's rows/s once").contains("lsm-leveled was done too soon for it"));
    (records[1].result.rows_left_out, records[1].result.seconds) = (Some(7_000), 300.0);
    assert_eq!(reason(&records, slow), "btree was ended after 300 s without 7,000 rows");
    let html = page::render(&records).unwrap();
    assert!(html.contains("btree was ended after 300 s without 7,000 rows"));
}

#[test]
fn files_of_results_become_a_page() {
    let dir = tempfile::TempDir::new().unwrap();
    let (json, page) = (dir.path().join("results.json"), dir.path().join("pages/index.html"));
    let mut lines = JsonLines::create(&json).unwrap();
    for engine in ["first", "<second>"] {
        lines.push(&result(engine, 1_234.5)).unwrap();
        for second in 1..=4 {
            lines.push(&interval(f64::from(second), 1_000.0 * f64::from(second))).unwrap();
        }
    }
    run(&[json], &page).unwrap();
    let html = read_file(&PosixEnv::new(), &page, FileKind::Other, 1 << 24).unwrap();
    let html = String::from_utf8(html).unwrap();
    assert!(html.contains("1,234") || html.contains("1,235"), "the rate stands on the page");
    assert!(html.contains("&lt;second&gt;") && !html.contains("<second>"), "names are escaped");
    assert_eq!(html.matches("<svg").count(), 2, "bars and lines");
    assert!(html.contains("<polyline"), "rates over time are drawn");
    assert!(!html.contains("http://") || html.matches("http://").count() == html.matches("http://www.w3.org").count());
}

#[test]
fn the_results_that_are_kept_become_a_page() {
    let [hour, night] = ["hour", "night"].map(page_of_kept);
    assert!(hour.contains("<svg") && hour.contains("Does the published shape hold?"), "charts and verdicts");
    assert!(night.contains("<svg"), "charts");
}

#[expect(clippy::disallowed_methods, reason = "files of the repository")]
fn page_of_kept(scale: &str) -> String {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../results").join(scale);
    let files: Vec<_> = std::fs::read_dir(&kept)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .collect();
    assert!(!files.is_empty(), "there are results in {}", kept.display());
    let records = read(&files).unwrap();
    for RunRecord { result, .. } in &records {
        let place = result.config.as_ref().and_then(|config| config.get("dir"));
        assert_eq!(place, None, "a directory of where it was measured tells nobody anything: {}", result.engine);
        assert!(result.provenance.is_some(), "of which machine: {} {}", result.experiment, result.engine);
    }
    let dir = tempfile::TempDir::new().unwrap();
    let page = dir.path().join("index.html");
    run(&files, &page).unwrap();
    std::fs::read_to_string(&page).unwrap()
}

#[test]
fn intervals_belong_to_the_result_before_them() {
    let text = format!(
        "{}\n{}\n\n{}\n",
        serde_json::to_string(&result("a", 1.0)).unwrap(),
        serde_json::to_string(&interval(5.0, 2.0)).unwrap(),
        serde_json::to_string(&result("b", 3.0)).unwrap()
    );
    let records = parse(&text, Path::new("x")).unwrap();
    assert_eq!(records.len(), 2);
    assert_eq!(records[0].intervals.len(), 1);
    assert_eq!(records[1].result.engine, "b");
}

#[test]
fn a_damaged_line_is_named() {
    let error = parse("{}\nnot json\n", Path::new("results.json")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert!(error.to_string().contains("line 2"), "{error}");
    assert!(run(&[PathBuf::from("/nonexistent/results.json")], Path::new("/nonexistent/page.html")).is_err());
}

#[test]
fn runs_about_evenness_show_it() {
    let run = |longest_gap_us| {
        RunRecord::new(ResultLine {
            experiment: "stalls".to_owned(),
            workload: "maximum".to_owned(),
            engine: "memory".to_owned(),
            ops_per_s: 10.0,
            longest_gap_us,
            ..ResultLine::default()
        })
    };
    let page = |gap| page::render(&[run(gap)]).unwrap();
    assert!(page(Some(4321.0)).contains("longest gap us") && page(Some(4321.0)).contains("4,321"));
    assert!(!page(None).contains("longest gap us"));
}

#[test]
fn shapes_and_maps_stand_on_the_page_where_they_were_measured() {
    let run = |engine: &str, threads, ops_per_s| {
        RunRecord::new(ResultLine {
            experiment: "sysbench".to_owned(),
            workload: "write_only".to_owned(),
            engine: engine.to_owned(),
            threads,
            ops_per_s,
            device: Some("slow-ssd".to_owned()),
            data_bytes: Some(1_000),
            memory_bytes: Some(200),
            ..ResultLine::default()
        })
    };
    let records =
        [run("lsm-leveled", 8, 100.0), run("btree", 8, 50.0), run("lsm-leveled", 16, 10.0), run("btree", 16, 40.0)];
    let map = heat::measured(&records, "write_only", "btree").unwrap();
    assert_eq!(map.columns, ["8", "16"]);
    assert_eq!(map.rows, [("20 % in memory".to_owned(), vec![Some(2.0), Some(0.25)])]);
    assert_eq!(heat::measured(&records, "read_only", "btree"), None);
    let html = page::render(&records).unwrap();
    assert!(html.contains("Does the published shape hold?") && html.contains("<tr class=\"yes\">"));
    assert!(html.contains("write_only, measured") && html.contains("write_only, published"));
    assert!(!page::render(&[result_of_nothing()]).unwrap().contains("Does the published shape hold?"));
}

/// A run of an experiment, which tells this of its machine and its build.
fn run_of(experiment: &str, provenance: Option<Provenance>) -> RunRecord {
    let result = ResultLine { experiment: experiment.to_owned(), provenance, ..result("memory", 1.0) };
    RunRecord::new(result)
}

#[test]
fn the_page_says_on_which_machines_and_of_which_builds_results_are() {
    let here = Provenance {
        cpu: Some("Fast <1>".to_owned()),
        cores: Some(2),
        memory_bytes: Some(3 << 29),
        kernel: Some("Linux 6.18".to_owned()),
        file_system: Some("ext4 on /dev/vda".to_owned()),
        version: Some("0.1.0".to_owned()),
        commit: Some("abc".to_owned()),
        profile: Some("release".to_owned()),
        peers: [("redb".to_owned(), "4.4.0".to_owned())].into(),
    };
    let there = Provenance { cores: Some(64), ..Provenance::default() };
    let records = [
        run_of("kv", Some(here.clone())),
        run_of("insert", None),
        run_of("insert", Some(here.clone())),
        run_of("kv", Some(there)),
        run_of("kv", Some(here)),
    ];
    let html = page::render(&records).unwrap();
    let (_, conditions) = html.split_once("<h2>Conditions</h2>").unwrap();
    for (part, times) in [
        ("<td>Fast &lt;1&gt;, 2 cores</td><td>1.5 GiB</td><td>Linux 6.18</td><td>ext4 on /dev/vda</td>", 1),
        ("<td>0.1.0, commit abc, release</td><td>redb 4.4.0</td><td>3 of insert, kv</td>", 1),
        ("<td>64 cores</td>", 1),
        ("<td>1 of insert</td>", 1),
    ] {
        assert_eq!(conditions.matches(part).count(), times, "{part}");
    }
    // Results of before say nothing of it.
    assert!(!page::render(&[run_of("kv", None)]).unwrap().contains("<h2>Conditions</h2>"));
}

#[test]
fn several_builds_or_machines_are_told_of_at_the_top() {
    let built = |commit: &str| Provenance {
        cores: Some(2),
        memory_bytes: Some(1 << 30),
        commit: Some(commit.to_owned()),
        ..Provenance::default()
    };
    let note = |records: &[RunRecord]| {
        let html = page::render(records).unwrap();
        let (before, rest) = html.split_once("<article class=\"several words\">")?;
        assert!(!before.contains("<h2>"), "{before}");
        Some(rest.split_once("</article>").unwrap().0.to_owned())
    };
    let one = [run_of("kv", Some(built("abc"))), run_of("insert", Some(built("abc")))];
    assert_eq!(note(&one), None);
    // What does not tell is of no other, and a kernel makes no other machine.
    let kernel = Provenance { kernel: Some("Linux 6.18".to_owned()), ..built("abc") };
    assert_eq!(note(&[one.as_slice(), &[run_of("mariadb", None), run_of("kv", Some(kernel))]].concat()), None);
    let builds = [one.as_slice(), &[run_of("insert", Some(built("def"))), run_of("mariadb", None)]].concat();
    let told = note(&builds).unwrap();
    for part in [
        "<b>2 builds</b>",
        "<td>commit abc</td><td>2 of insert, kv</td>",
        "<td>commit def</td><td>1 of insert</td>",
        "<td>-</td><td>1 of mariadb</td>",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert!(!told.contains("machines"), "{told}");
    let large = Provenance { cores: Some(64), ..built("abc") };
    let told = note(&[one.as_slice(), &[run_of("sysbench", Some(large))]].concat()).unwrap();
    for part in [
        "<b>2 machines</b>",
        "<td>2 cores, 1.0 GiB</td><td>2 of insert, kv</td>",
        "<td>64 cores, 1.0 GiB</td><td>1 of sysbench</td>",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert!(!told.contains("builds"), "{told}");
}

#[test]
fn the_page_says_what_each_durability_means() {
    let with = |durability: Option<&str>| {
        let durability = durability.map(str::to_owned);
        page::render(&[RunRecord::new(ResultLine { durability, ..result("memory", 1.0) })])
    };
    let html = with(Some("second")).unwrap();
    let (_, table) = html.split_once("What each durability means to each engine").unwrap();
    for part in [
        "<td>Siltstone</td><td>WriteOptions::sync</td><td>wal_sync_interval_millis</td><td>neither</td>",
        "<td>redb</td><td>Durability::Immediate</td><td>refused</td>",
        "innodb_flush_log_at_trx_commit = 2",
        "rocksdb_flush_log_at_trx_commit = 2",
    ] {
        assert!(table.contains(part), "{part}");
    }
    assert!(!with(None).unwrap().contains("What each durability means"));
}

fn result_of_nothing() -> RunRecord {
    RunRecord::new(result("memory", 1.0))
}

#[test]
fn a_curve_of_one_engine_of_three_that_was_slow_is_not_drawn() {
    let is_drawn = |quick: usize| {
        let mut runs = vec![result_of_nothing(); quick];
        for (number, run) in runs.iter_mut().enumerate() {
            run.result.engine = format!("quick {number}");
        }
        runs.push(with_rates(1.0, &[5.0; 75]));
        page::render(&runs).unwrap().contains("s each, over time.")
    };
    assert_eq!([0, 1, 2].map(is_drawn), [true, true, false]);
}

#[test]
fn of_several_runs_of_an_engine_one_is_drawn_over_time() {
    let run = with_rates(1.0, &[5.0; 75]);
    let lines = |runs: &[RunRecord]| {
        let html = page::render(runs).unwrap();
        let chart = html.split(": rates over time</title>").nth(1).unwrap();
        let chart = chart.split("</svg>").next().unwrap();
        (chart.matches("<polyline").count(), html.contains("Of several runs of an engine its first one is drawn."))
    };
    let (once, says) = lines(std::slice::from_ref(&run));
    assert!(once > 0 && !says);
    assert_eq!(lines(&[run.clone(), run.clone(), run]), (once, true));
}

#[test]
fn latencies_over_time_are_the_largest_of_five_seconds_and_drawn_where_they_are_known() {
    let mut run = with_rates(1.0, &[5.0; 75]);
    assert!(!page::render(std::slice::from_ref(&run)).unwrap().contains("p99 over time"));
    for (number, interval) in run.intervals.iter_mut().enumerate() {
        interval.p99_us = (number != 4).then_some(number as f64);
    }
    let made = rates::p99_by(&run, 5.0).unwrap();
    assert_eq!(made[..2], [(5.0, Some(3.0)), (10.0, Some(9.0))]);
    let recorded = rates::recorded_p99(&run);
    assert_eq!((recorded.len(), recorded[4]), (75, (5.0, None)));
    let html = page::render(std::slice::from_ref(&run)).unwrap();
    assert!(html.contains("p99 latencies over time: of 5.0 s each the largest of 1.0 s."), "{html}");
    assert!(html.contains(": p99 over time</title>"));
    run.intervals.truncate(20);
    assert!(page::render(&[run]).unwrap().contains("p99 latencies of 1.0 s each, over time."));
}

#[test]
fn what_the_operating_system_counted_stands_on_the_page_where_it_is_known() {
    let page = |write_syscalls| {
        let result = ResultLine { write_syscalls, ..result("memory", 1.0) };
        page::render(&[RunRecord::new(result)]).unwrap()
    };
    let html = page(Some(4_321));
    assert!(html.contains("What the operating system counted</summary>"), "{html}");
    assert!(html.contains("<th>write calls</th>") && html.contains("<td>4,321</td>"));
    assert!(!html.contains("<th>major page faults</th>"));
    assert!(!page(None).contains("What the operating system counted"));
}

#[test]
fn lines_of_before_are_read() {
    let text = "{\"experiment\":\"kv\",\"cpu_s\":2.5}\n\
                {\"experiment\":\"kv\",\"workload\":\"\",\"engine\":\"\",\"interval_s\":1.0,\"ops_per_s\":3.0}\n";
    let records = parse(text, Path::new("x")).unwrap();
    let RunRecord { result, intervals, .. } = &records[0];
    assert_eq!((result.cpu_s, result.user_cpu_s, result.io_pressure_us), (Some(2.5), None, None));
    assert_eq!((intervals[0].ops_per_s, intervals[0].p99_us), (3.0, None));
}

#[test]
fn what_is_left_to_do_behind_a_step_belongs_to_it() {
    let line = |workload: &str, engine: &str, seconds: f64, written: u64| {
        let result = ResultLine {
            workload: workload.to_owned(),
            seconds,
            process_written: Some(written),
            ..result(engine, 1.0)
        };
        serde_json::to_string(&result).unwrap() + "\n"
    };
    let settling = |text: &str| parse(text, Path::new("x")).unwrap()[0].settling;
    let load = line("l", "btree", 9.0, 70);
    let later = Settling { seconds: 2.0, written: Some(30) };
    assert_eq!(settling(&(load.clone() + &line("settle", "btree", 2.0, 30))), Some(later));
    assert_eq!(settling(&(load.clone() + &line("l.i1", "btree", 2.0, 30))), None, "another step");
    assert_eq!(settling(&(load.clone() + &line("settle", "lsm-leveled", 2.0, 30))), None, "another engine");
    assert_eq!(settling(&load), None);
}

#[test]
fn a_row_names_the_builds_that_it_is_of() {
    let built = |engine: &str, commit: &str| {
        let mut run = inserted(engine, "fast-ssd", (1_000, 2_000));
        run.result.workload = "l".to_owned();
        run.result.provenance = Some(Provenance { commit: Some(commit.to_owned()), ..Provenance::default() });
        run
    };
    let page =
        |commits: [&str; 2]| page::render(&[built("lsm-leveled", commits[0]), built("btree", commits[1])]).unwrap();
    assert!(page(["abc", "abd"]).contains("builds abc, abd"));
    assert!(!page(["abc", "abc"]).contains("builds abc"));
}

#[test]
fn rows_of_few_pairs_of_runs_are_marked() {
    let once = beside_mariadb([300.0, 200.0, 150.0, 100.0]);
    let page = |times: usize| page::render(&vec![once.as_slice(); times].concat()).unwrap();
    assert_eq!(page(1).matches("<br><small class=\"few\">one run</small>").count(), 3);
    assert!(page(1).contains("A row marked "));
    assert_eq!(page(2).matches("<br><small class=\"few\">two runs</small>").count(), 3);
    assert!(!page(3).contains("class=\"few\""));
}

/// A run of Redmine on a hard disk.
fn in_redmine(engine: &str, operation: &str, (threads, load): (u32, f64)) -> RunRecord {
    let result = ResultLine {
        experiment: "redmine".to_owned(),
        workload: operation.to_owned(),
        threads,
        device: Some("hdd".to_owned()),
        data_set: Some("large".to_owned()),
        device_load: Some(load),
        as_published: Some(true),
        mean_trimmed_us: Some(28_000.0),
        ..result(engine, 50.0)
    };
    RunRecord::new(result)
}

#[test]
fn every_published_cell_of_redmine_stands_beside_the_measured_one() {
    let of = |run: &RunRecord| {
        let found = comparison::of(std::slice::from_ref(run));
        let one = found.into_iter().next()?;
        Some((one.published_engine, one.published, one.measured, one.unit, one.what))
    };
    for (engine, operation, cell, published) in [
        ("lsm-leveled", "create_task", (1, 0.0), ("myrocks", 18.0)),
        ("lsm-leveled", "create_task", (4, 4.0), ("myrocks", 23.0)),
        ("btree", "create_task", (2, 0.25), ("innodb of mysql 5.6", 27.0)),
        ("btree-mysql84", "process_10_tasks", (4, 4.0), ("innodb of mysql 5.6", 595.0)),
    ] {
        let (name, figure, measured, unit, what) = of(&in_redmine(engine, operation, cell)).unwrap();
        // What is published of a task and ten comments is the time of one request of the eleven.
        let expected = if operation == "create_task" { 28.0 / 11.0 } else { 28.0 };
        assert_eq!(
            (name.as_str(), figure.round(), measured, unit),
            (published.0, published.1, expected, "ms"),
            "{what}"
        );
        assert_eq!(what.contains("of a request of"), operation == "create_task", "{what}");
        assert!(what.contains(operation) && what.contains("large data set"), "{what}");
    }
    let change = |change: fn(&mut ResultLine)| {
        let mut run = in_redmine("btree", "create_task", (1, 0.0));
        change(&mut run.result);
        of(&run)
    };
    assert!(change(|_| {}).is_some_and(|(.., what)| what.ends_with("1 process, load 0")));
    // Nothing was published for these.
    let others: [fn(&mut ResultLine); 6] = [
        |run| run.as_published = Some(false),
        |run| run.device = Some("none".to_owned()),
        |run| run.threads = 3,
        |run| run.device_load = Some(3.0),
        |run| run.workload = "search".to_owned(),
        |run| run.engine = "fjall".to_owned(),
    ];
    assert!(others.into_iter().all(|other| change(other).is_none()));
}

#[test]
fn what_was_measured_several_times_stands_once_beside_what_was_published() {
    let of = |measured: &[f64]| {
        let of_btree = |ms: &f64| {
            let mut run = in_redmine("btree", "process_10_tasks", (1, 0.0));
            run.result.mean_trimmed_us = Some(ms * 1e3);
            run
        };
        let other = in_redmine("lsm-leveled", "process_10_tasks", (1, 0.0));
        let runs: Vec<_> = measured.iter().map(of_btree).chain([other]).collect();
        let found = comparison::of(&runs);
        found.into_iter().map(|one| (one.engine, one.measured, one.runs)).collect::<Vec<_>>()
    };
    let lsm = ("lsm-leveled".to_owned(), 28.0, 1);
    assert_eq!(of(&[300.0, 900.0, 310.0]), [("btree".to_owned(), 310.0, 3), lsm.clone()]);
    assert_eq!(of(&[300.0]), [("btree".to_owned(), 300.0, 1), lsm]);
}

#[test]
fn figures_of_an_experiments_own_stand_on_the_page_where_they_are_known() {
    let html = page::render(&[in_redmine("btree", "create_task", (1, 0.0))]).unwrap();
    assert!(html.contains("<th>trimmed mean us</th>") && html.contains("<td>28,000</td>"), "{html}");
    assert!(html.contains("<th>KB a row</th>") && html.contains("<td>0.33</td>") && html.contains("<th>p95 us</th>"));
    let html = page::render(&[RunRecord::new(result("memory", 1.0))]).unwrap();
    assert!(!html.contains("<th>trimmed mean us</th>") && html.contains("<th>KB a row</th>"));
}

#[test]
fn the_page_says_who_looks_whether_primary_keys_of_inserted_rows_are_there() {
    for experiment in ["insert", "mariadb"] {
        let result = ResultLine { experiment: experiment.to_owned(), workload: "l".to_owned(), ..result("btree", 1.0) };
        assert!(page::render(&[RunRecord::new(result)]).unwrap().contains("primary key"), "{experiment}");
    }
    let result = ResultLine { experiment: "kv".to_owned(), ..result("btree", 1.0) };
    assert!(!page::render(&[RunRecord::new(result)]).unwrap().contains("primary key"));
}

#[test]
fn the_page_says_what_means_of_redmine_contain_and_shows_the_settings_of_each_run() {
    let contained = "<p>Means and rates contain the time of the application, as the published means do: ";
    let mut run = in_redmine("btree", "create_task", (1, 0.0));
    run.result.setup = "18 ms of application a request".to_owned();
    let html = page::render(&[run]).unwrap();
    let (_, section) = html.split_once("<h2>Redmine</h2>").unwrap();
    assert!(section.starts_with(contained) && section.contains("<p>18 ms of application a request</p>"), "{section}");
    assert!(!page::render(&[result_of_nothing()]).unwrap().contains(contained));
}

#[test]
fn of_an_experiment_that_was_run_is_listed_what_could_not_be_measured() {
    let html = page::render(&[in_redmine("btree", "create_task", (1, 0.0))]).unwrap();
    let (_, list) = html.split_once("that could not be measured, and why</summary>").unwrap();
    let (list, _) = list.split_once("</details>").unwrap();
    assert_eq!(list.matches("<tr><td>Redmine</td>").count(), 18, "{list}");
    assert!(list.contains("Nothing was run of: Insert benchmark, sysbench, Ad serving, Beside MariaDB."), "{list}");
    assert!(!html.contains("Does the published shape hold?"));
    assert!(!page::render(&[]).unwrap().contains("could not be measured"));
}

#[test]
fn what_is_folded_up_is_printed() {
    let html = page::render(&[]).unwrap();
    let (_, print) = html.split_once("@media print").unwrap();
    assert!(print.contains("details::details-content{content-visibility:visible"));
}

/// MariaDB's engines and ours beside them, with these rates.
fn beside_mariadb(rates: [f64; 4]) -> Vec<RunRecord> {
    let engines = ["lsm-leveled", "btree", "myrocks", "innodb"];
    let run = |(engine, rate): (&str, f64)| {
        let result = ResultLine {
            experiment: "mariadb".to_owned(),
            workload: "read_only".to_owned(),
            threads: 8,
            device: Some("unlimited".to_owned()),
            compressed: Some(true),
            page_cache: Some(false),
            ..result(engine, rate)
        };
        RunRecord::new(result)
    };
    engines.into_iter().zip(rates).map(run).collect()
}

#[test]
fn the_page_says_which_labels_were_exchanged_and_what_holds_either_way() {
    let html = page::render(&beside_mariadb([300.0, 200.0, 150.0, 100.0])).unwrap();
    assert!(html.contains("3 of 3 comparisons hold") && html.contains("0 hold with"), "{html}");
    assert!(html.contains("lsm-leveled and btree: 0.44, fails as it must"));
    assert!(
        html.contains("0.80<br><small>myrocks over innodb, one earlier run</small>")
            && html.contains("1.50 beside 1.50")
            && html.contains("a second: 300 and 200 beside 150 and 100"),
        "{html}"
    );
    assert!(!html.contains("Where the lines cross"), "there is one place of each");
    // Two pairs of about equals: the row tells ours from theirs, and says nothing of who is ahead.
    let html = page::render(&beside_mariadb([300.0, 290.0, 102.0, 100.0])).unwrap();
    let told = "holds with our two exchanged: it cannot tell them apart; lsm-leveled and myrocks: 0.12, fails";
    assert!(html.contains(told) && html.contains("1 hold with"), "{html}");
    let html = page::render(&beside_mariadb([101.0, 100.0, 101.0, 100.0])).unwrap();
    assert!(html.contains("<tr class=\"either\">") && html.contains("<b>either way</b>"), "{html}");
    assert!(html.contains("0 of 3 comparisons hold") && html.contains("3 hold with"));
}

#[test]
fn the_page_says_where_lines_cross() {
    let run = |engine: &str, threads, ops_per_s| {
        RunRecord::new(ResultLine {
            workload: "l".to_owned(),
            threads,
            ops_per_s,
            provenance: Some(Provenance { cores: Some(16), ..Provenance::default() }),
            ..inserted(engine, "fast-ssd", (1_000, 2_000)).result
        })
    };
    let records =
        [run("lsm-leveled", 1, 13.0), run("btree", 1, 10.0), run("lsm-leveled", 8, 7.0), run("btree", 8, 10.0)];
    let html = page::render(&records).unwrap();
    let row = "<td>the LSM tree leads at 1 client; they cross between 1 client and 8 clients</td>";
    assert_eq!(html.matches(row).count(), 2, "published and measured: {html}");
}

#[test]
fn the_control_fails_where_a_comparison_holds_all_the_same() {
    let dir = tempfile::TempDir::new().unwrap();
    let (json, page) = (dir.path().join("results.json"), dir.path().join("control.html"));
    let write = |rates| {
        let mut lines = JsonLines::create(&json).unwrap();
        beside_mariadb(rates).iter().for_each(|record| lines.push(&record.result).unwrap());
    };
    let html = || {
        let html = read_file(&PosixEnv::new(), &page, FileKind::Other, 1 << 20).unwrap();
        String::from_utf8(html).unwrap()
    };
    write([300.0, 200.0, 150.0, 100.0]);
    control(std::slice::from_ref(&json), &page).unwrap();
    assert_eq!(html().matches("<tr class=\"no\">").count(), 3, "every row is red");
    assert!(html().contains("0 do not."));
    write([100.0, 100.0, 100.0, 100.0]);
    let error = control(std::slice::from_ref(&json), &page).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Incomplete);
    assert!(error.to_string().contains("3 comparisons do not fail"), "{error}");
    assert_eq!(html().matches("<tr class=\"yes\">").count(), 3);
}
