//! The report: parsing, published figures, the page.

use super::*;
use crate::output::JsonLines;

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
    assert_eq!(tables.len(), 7);
    for table in &tables {
        assert!(!table.notes.is_empty() && !table.rows.is_empty(), "{}", table.name);
        for row in &table.rows {
            assert_eq!(row.len(), table.columns.len(), "{}: {row:?}", table.name);
        }
    }
}

#[test]
fn a_published_figure_stands_beside_the_measured_one() {
    let mut measured = result("ours", 163_900.0);
    let records = [RunRecord { result: measured.clone(), intervals: Vec::new() }];
    let found = comparison::of(&records);
    let rate = found.iter().find(|one| one.unit == "rows/s" && one.published_engine == "myrocks").unwrap();
    assert_eq!(rate.published, 81_950.0);
    assert_eq!(rate.ratio(), 2.0);
    let bytes = found.iter().find(|one| one.unit == "KB/row" && one.published_engine == "myrocks").unwrap();
    assert_eq!(bytes.published, 3.30);
    assert!((bytes.ratio() - 0.1).abs() < 1e-9);

    measured.binlog_bytes = Some(1);
    measured.threads = 3;
    let records = [RunRecord { result: measured, intervals: Vec::new() }];
    assert!(comparison::of(&records).iter().all(|one| one.unit == "KB/row"), "nothing was published for 3 clients");
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
    let run = |longest_gap_us| RunRecord {
        result: ResultLine {
            experiment: "stalls".to_owned(),
            workload: "maximum".to_owned(),
            engine: "memory".to_owned(),
            ops_per_s: 10.0,
            longest_gap_us,
            ..ResultLine::default()
        },
        intervals: Vec::new(),
    };
    let page = |gap| page::render(&[run(gap)]).unwrap();
    assert!(page(Some(4321.0)).contains("longest gap us") && page(Some(4321.0)).contains("4,321"));
    assert!(!page(None).contains("longest gap us"));
}

#[test]
fn shapes_and_maps_stand_on_the_page_where_they_were_measured() {
    let run = |engine: &str, threads, ops_per_s| RunRecord {
        result: ResultLine {
            experiment: "sysbench".to_owned(),
            workload: "write_only".to_owned(),
            engine: engine.to_owned(),
            threads,
            ops_per_s,
            device: Some("slow-ssd".to_owned()),
            data_bytes: Some(1_000),
            memory_bytes: Some(200),
            ..ResultLine::default()
        },
        intervals: Vec::new(),
    };
    let records =
        [run("lsm-leveled", 8, 100.0), run("btree", 8, 50.0), run("lsm-leveled", 16, 10.0), run("btree", 16, 40.0)];
    let map = heat::measured(&records, "write_only").unwrap();
    assert_eq!(map.columns, ["8", "16"]);
    assert_eq!(map.rows, [("20 % in memory".to_owned(), vec![Some(2.0), Some(0.25)])]);
    assert_eq!(heat::measured(&records, "read_only"), None);
    let html = page::render(&records).unwrap();
    assert!(html.contains("Does the published shape hold?") && html.contains("<tr class=\"yes\">"));
    assert!(html.contains("write_only, measured") && html.contains("write_only, published"));
    assert!(!page::render(&[result_of_nothing()]).unwrap().contains("Does the published shape hold?"));
}

fn result_of_nothing() -> RunRecord {
    RunRecord { result: result("memory", 1.0), intervals: Vec::new() }
}
