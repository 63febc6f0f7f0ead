//! The report page in a real browser: every chart is there and has its size, nothing is wider than the window, nothing is complained about.
//!
//! Needs Chromium; where it is missing the test says that it was skipped, unless `SILTSTONE_REQUIRE_TOOLS` is set: then it fails.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]
#![expect(clippy::disallowed_methods, reason = "prepares files for a program that knows nothing of environments")]
#![expect(clippy::print_stdout, reason = "says which tests were skipped")]

use siltstone_bench::{IntervalLine, JsonLines, ResultLine, report};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Measures what the browser made of the page and leaves it in the document, which is then printed.
const PROBE: &str = "<script>addEventListener('load',()=>{\
    const charts=[...document.querySelectorAll('svg')].map(svg=>svg.getBoundingClientRect());\
    const shown=charts.filter(box=>box.width>100&&box.height>20).length;\
    const page=document.documentElement;\
    const probe=document.createElement('pre');probe.id='probe';\
    probe.textContent=`charts ${charts.length} shown ${shown} wide ${page.scrollWidth} window ${innerWidth} ink ${getComputedStyle(document.body).color}`;\
    document.body.append(probe)})</script>";

fn chromium() -> Option<&'static str> {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let found = names.into_iter().find(|name| Command::new(name).arg("--version").output().is_ok());
    if found.is_none() {
        assert!(std::env::var_os("SILTSTONE_REQUIRE_TOOLS").is_none(), "Chromium is not installed");
        println!("skipped: Chromium is not installed");
    }
    found
}

/// Results of two engines: a bar chart, distributions and rates over time for each of two workloads.
fn results(file: &Path) {
    let mut lines = JsonLines::create(file).unwrap();
    for (engine, factor) in [("lsm-leveled", 2.0), ("btree", 1.0)] {
        for workload in ["read_only", "write_only"] {
            let result = ResultLine {
                experiment: "sysbench".to_owned(),
                workload: workload.to_owned(),
                engine: engine.to_owned(),
                config_hash: "1".to_owned(),
                setup: "4 tables of 1,000 rows".to_owned(),
                threads: 8,
                ops: 1_000,
                seconds: 10.0,
                ops_per_s: 1_000.0 * factor,
                p50_us: Some(80.0 / factor),
                p95_us: Some(200.0),
                p99_us: Some(500.0),
                p999_us: Some(2_000.0),
                p9999_us: Some(9_000.0),
                max_us: Some(12_000.0),
                device: Some("slow-ssd".to_owned()),
                memory_bytes: Some(200),
                data_bytes: Some(1_000),
                ..ResultLine::default()
            };
            lines.push(&result).unwrap();
            for second in 1..=6 {
                let rate = 1_000.0 * factor + 10.0 * f64::from(second);
                let interval = IntervalLine {
                    experiment: result.experiment.clone(),
                    workload: result.workload.clone(),
                    engine: result.engine.clone(),
                    interval_s: f64::from(second) * 5.0,
                    ops_per_s: rate,
                    written_per_s: Some(rate * 300.0),
                    read_per_s: Some(rate * 20.0),
                    space_bytes: Some(1 << 20),
                };
                lines.push(&interval).unwrap();
            }
        }
    }
}

/// What the browser says of the page in a window of this size: the document as it is afterwards, and the complaints.
fn look(browser: &str, page: &Path, size: (u32, u32), more: &[&str]) -> (String, String) {
    let profile = tempfile::tempdir().unwrap();
    let output = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"])
        .args(["--enable-logging=stderr", "--virtual-time-budget=2000"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(format!("--window-size={},{}", size.0, size.1))
        .args(more)
        .arg(format!("file://{}", page.display()))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

/// A number of the probe.
fn probed(document: &str, name: &str) -> f64 {
    let probe = document.split("id=\"probe\">").nth(1).unwrap_or_default();
    let mut words = probe.split_whitespace().skip_while(|word| *word != name);
    words.nth(1).and_then(|word| word.parse().ok()).unwrap_or(f64::NAN)
}

fn pages(dir: &Path) -> (PathBuf, PathBuf) {
    let (json, page, probing) = (dir.join("results.json"), dir.join("index.html"), dir.join("probing.html"));
    results(&json);
    report::run(&[json], &page).unwrap();
    let html = std::fs::read_to_string(&page).unwrap();
    assert!(!html.contains("<script"), "the page itself runs nothing");
    std::fs::write(&probing, html.replace("</body>", &format!("{PROBE}</body>"))).unwrap();
    (page, probing)
}

#[test]
fn a_browser_shows_every_chart_on_a_desk_and_on_a_phone() {
    let Some(browser) = chromium() else { return };
    let dir = tempfile::tempdir().unwrap();
    let (page, probing) = pages(dir.path());
    let charts = std::fs::read_to_string(&page).unwrap().matches("<svg").count();
    assert_eq!(charts, 6, "rates, distributions and rates over time of two workloads");
    for size in [(1280, 900), (500, 800)] {
        let (document, complaints) = look(browser, &probing, size, &["--dump-dom"]);
        assert_eq!(probed(&document, "charts"), charts as f64, "{size:?}");
        assert_eq!(probed(&document, "shown"), charts as f64, "{size:?}");
        assert!(
            probed(&document, "wide") <= probed(&document, "window"),
            "{size:?}: the page is wider than its window"
        );
        assert!(!complaints.contains("CONSOLE"), "{complaints}");
    }
}

#[test]
fn a_dark_browser_gets_light_ink() {
    let Some(browser) = chromium() else { return };
    let dir = tempfile::tempdir().unwrap();
    let (_, probing) = pages(dir.path());
    let ink = |more: &[&str]| {
        let (document, _) = look(browser, &probing, (1280, 900), &[&["--dump-dom"], more].concat());
        let probe = document.split("id=\"probe\">").nth(1).unwrap_or_default();
        probe.split("ink ").nth(1).and_then(|rest| rest.split('<').next()).unwrap_or_default().to_owned()
    };
    assert_eq!(ink(&[]), "rgb(15, 23, 42)");
    assert_eq!(ink(&["--blink-settings=preferredColorScheme=0"]), "rgb(226, 232, 240)");
}

#[test]
fn the_picture_of_the_page_has_the_colours_of_both_engines() {
    let Some(browser) = chromium() else { return };
    let dir = tempfile::tempdir().unwrap();
    let (page, _) = pages(dir.path());
    let picture = dir.path().join("page.png");
    let argument = format!("--screenshot={}", picture.display());
    look(browser, &page, (1280, 2400), &[&argument]);
    let decoder = png::Decoder::new(std::io::BufReader::new(std::fs::File::open(&picture).unwrap()));
    let mut reader = decoder.read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut pixels).unwrap();
    assert_eq!((info.width, info.height), (1280, 2400));
    let bytes = info.color_type.samples();
    let count = |colour: [u8; 3]| pixels.chunks_exact(bytes).filter(|pixel| pixel.starts_with(&colour)).count();
    // Blue for the first engine, amber for the second; their bars alone are hundreds of pixels.
    for colour in [[0x1f, 0x77, 0xb4], [0xe6, 0x9f, 0x00]] {
        assert!(count(colour) > 1_000, "{colour:?} covers {} pixels", count(colour));
    }
}
