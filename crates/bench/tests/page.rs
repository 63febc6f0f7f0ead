//! The report page in a real browser, with results of every experiment: every chart is there and shows something, no number is none, nothing is wider than the window, nothing is complained about, and it can be printed.
//!
//! Needs Chromium; where it is missing the test says that it was skipped, unless `SILTSTONE_REQUIRE_TOOLS` is set: then it fails.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]
#![expect(clippy::disallowed_methods, reason = "prepares files for a program that knows nothing of environments")]
#![expect(clippy::print_stdout, reason = "says which tests were skipped")]

mod page_results;

use serde_json::Value;
use siltstone_bench::report;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Measures what the browser made of the page.
const PROBE: &str = include_str!("page_results/probe.js");

/// Colour schemes: the argument that asks for one, and the colour of text in it.
const SCHEMES: [(&[&str], &str); 2] =
    [(&[], "rgb(15, 23, 42)"), (&["--blink-settings=preferredColorScheme=0"], "rgb(226, 232, 240)")];

/// A window on a desk, and one on a phone, in pixels.
const DESK: (u32, u32) = (1280, 900);
const PHONE: (u32, u32) = (390, 844);

/// No window is narrower.
const LEAST_WIDTH: u32 = 500;

fn chromium() -> Option<&'static str> {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let found = names.into_iter().find(|name| Command::new(name).arg("--version").output().is_ok());
    if found.is_none() {
        assert!(std::env::var_os("SILTSTONE_REQUIRE_TOOLS").is_none(), "Chromium is not installed");
        println!("skipped: Chromium is not installed");
    }
    found
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

/// The page of these results.
fn page(dir: &Path, results: impl Fn(&Path)) -> PathBuf {
    let (json, page) = (dir.join("results.json"), dir.join("index.html"));
    results(&json);
    report::run(&[json], &page).unwrap();
    page
}

/// A document that has the page in a frame of this size, probed, and leaves what it is told where it can be found: windows cannot be as narrow as a phone, frames can.
fn framed(html: &str, (width, height): (u32, u32)) -> String {
    let probed = html.replace("</body>", &format!("<script>{PROBE}</script></body>"));
    let attribute = probed.replace('&', "&amp;").replace('"', "&quot;");
    format!(
        "<!doctype html><meta charset=\"utf-8\"><style>:root{{color-scheme:light dark}}body{{margin:0}}iframe{{border:0}}</style>\
         <script>addEventListener('message',event=>{{const told=document.createElement('pre');told.id='told';\
         told.textContent=event.data;document.body.append(told)}})</script>\
         <body><iframe width=\"{width}\" height=\"{height}\" srcdoc=\"{attribute}\"></iframe>"
    )
}

/// What the probe tells of the page in a frame of this size.
fn probe(browser: &str, page: &Path, size: (u32, u32), scheme: &[&str]) -> Value {
    let html = std::fs::read_to_string(page).unwrap();
    assert!(!html.contains("<script"), "the page itself runs nothing");
    let frame = page.with_file_name("frame.html");
    std::fs::write(&frame, framed(&html, size)).unwrap();
    let window = (size.0.max(LEAST_WIDTH), size.1);
    let (document, complaints) = look(browser, &frame, window, &[&["--dump-dom"], scheme].concat());
    assert!(!complaints.contains("CONSOLE"), "{complaints}");
    let told = document.split("<pre id=\"told\">").nth(1).and_then(|rest| rest.split("</pre>").next());
    let told =
        told.unwrap().replace("&lt;", "<").replace("&gt;", ">").replace("&nbsp;", "\u{a0}").replace("&amp;", "&");
    serde_json::from_str(&told).unwrap()
}

fn list<'a>(told: &'a Value, name: &str) -> &'a [Value] {
    told[name].as_array().map(Vec::as_slice).unwrap()
}

fn texts<'a>(values: impl Iterator<Item = &'a Value>) -> BTreeSet<&'a str> {
    values.filter_map(Value::as_str).collect()
}

/// Every chart is there, has a size, and shows what stands for results, all of it within the chart.
fn check_charts(told: &Value) {
    let charts = list(told, "charts");
    let expected = page_results::titles();
    let expected: BTreeSet<&str> = expected.iter().map(String::as_str).collect();
    assert_eq!(texts(charts.iter().map(|chart| &chart["title"])), expected);
    assert_eq!(charts.len(), page_results::count());
    for chart in charts {
        let number = |name: &str| chart[name].as_u64().unwrap();
        assert!(number("width") > 100 && number("height") > 20, "{chart}");
        assert!(number("marks") > 0 && number("drawn") == number("marks"), "{chart}");
    }
}

/// The map of every mix has a colour in every cell.
fn check_maps(told: &Value) {
    for mix in ["read_only", "read_write", "write_only"] {
        let of_mix = |map: &&Value| map["caption"].as_str().is_some_and(|caption| caption.contains(mix));
        let measured: Vec<_> = list(told, "maps")
            .iter()
            .filter(of_mix)
            .filter(|map| map["caption"].as_str().is_some_and(|caption| caption.contains("measured")))
            .collect();
        assert_eq!(measured.len(), 1, "{mix}: {measured:?}");
        assert_eq!(measured[0]["shaded"].as_u64(), Some(page_results::CELLS as u64), "{mix}");
        assert!(list(told, "maps").iter().filter(of_mix).count() > 1, "{mix}: what was published stands beside");
    }
}

/// Every experiment has its section.
fn check_sections(told: &Value) {
    let sections = texts(list(told, "sections").iter());
    let titles = page_results::EXPERIMENTS.iter().map(|experiment| experiment.title);
    for title in titles.chain([page_results::LADDER, "Does the published shape hold?", "Conditions"]) {
        assert!(sections.contains(title), "{title} is missing: {sections:?}");
    }
}

/// In a window of this size, by day and by night.
fn shows_every_chart(size: (u32, u32)) {
    let Some(browser) = chromium() else { return };
    let dir = tempfile::tempdir().unwrap();
    let page = page(dir.path(), page_results::write_all);
    for (scheme, ink) in SCHEMES {
        println!("{size:?} {scheme:?}");
        let told = probe(browser, &page, size, scheme);
        assert_eq!(told["ink"], ink);
        assert_eq!(told["window"], size.0);
        let wide = told["wide"].as_u64().unwrap();
        assert!(wide <= u64::from(size.0), "the page is {wide} pixels wide, wider than its window");
        assert!(list(&told, "errors").is_empty(), "{:?}", list(&told, "errors"));
        assert!(list(&told, "no_numbers").is_empty(), "{:?}", list(&told, "no_numbers"));
        check_charts(&told);
        check_maps(&told);
        check_sections(&told);
    }
}

#[test]
fn a_browser_shows_every_chart_on_a_desk_by_day_and_by_night() {
    shows_every_chart(DESK);
}

#[test]
fn a_browser_shows_every_chart_on_a_phone_by_day_and_by_night() {
    shows_every_chart(PHONE);
}

/// A picture: its width, and red, green and blue of each pixel.
fn pixels_of(picture: &Path) -> (usize, Vec<[u8; 3]>) {
    let decoder = png::Decoder::new(std::io::BufReader::new(std::fs::File::open(picture).unwrap()));
    let mut reader = decoder.read_info().unwrap();
    let mut bytes = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut bytes).unwrap();
    let pixels = bytes.chunks_exact(info.color_type.samples()).map(|pixel| [pixel[0], pixel[1], pixel[2]]);
    (info.width as usize, pixels.collect())
}

/// Whether it is the colour of an engine: words, axes and grids are nearly grey.
fn is_coloured(pixel: [u8; 3]) -> bool {
    let (least, most) = (pixel.iter().min().unwrap(), pixel.iter().max().unwrap());
    most - least > 60
}

/// Pixels of the page for one of its picture, each way: it is tens of thousands of pixels tall.
const SHRUNK: usize = 2;

#[test]
fn a_picture_of_the_whole_page_shows_something_in_every_chart() {
    /// A line from one side of a chart to the other has more.
    const LEAST_COLOURED: usize = 50;
    let Some(browser) = chromium() else { return };
    let dir = tempfile::tempdir().unwrap();
    let page = page(dir.path(), page_results::write_all);
    // The same for both: lines of words are as tall as whole pixels.
    let shrunk = format!("--force-device-scale-factor={}", 1.0 / SHRUNK as f64);
    let told = probe(browser, &page, DESK, &[&shrunk]);
    let size = (DESK.0, told["tall"].as_u64().map(u32::try_from).unwrap().unwrap());
    let picture = dir.path().join("page.png");
    look(browser, &page, size, &[&format!("--screenshot={}", picture.display()), &shrunk]);
    let (width, pixels) = pixels_of(&picture);
    assert_eq!((width, pixels.len() / width), (size.0 as usize / SHRUNK, (size.1 as usize).div_ceil(SHRUNK)));
    for chart in list(&told, "charts") {
        let number = |name: &str| chart[name].as_u64().unwrap() as usize / SHRUNK;
        let columns = number("left")..(number("left") + number("width")).min(width);
        let rows = pixels.chunks_exact(width).skip(number("top")).take(number("height"));
        let coloured = rows.flat_map(|row| &row[columns.clone()]).filter(|pixel| is_coloured(**pixel)).count();
        assert!(coloured >= LEAST_COLOURED, "{coloured} pixels of {chart} have a colour");
    }
    // Blue for the first engine, amber for the second; their bars alone are hundreds of pixels.
    for colour in [[0x1f, 0x77, 0xb4], [0xe6, 0x9f, 0x00]] {
        let count = pixels.iter().filter(|pixel| **pixel == colour).count();
        assert!(count > 1_000 / SHRUNK / SHRUNK, "{colour:?} covers {count} pixels");
    }
}

/// Printed sheets in a PDF, by the objects that stand for them: what is on a sheet is compressed, its object is not.
fn sheets(pdf: &[u8]) -> usize {
    // With an s behind it, it stands for all of them together.
    let of = |name: &[u8]| {
        let found = pdf.windows(name.len() + 1).filter(|window| window.starts_with(name) && !window.ends_with(b"s"));
        found.count()
    };
    of(b"/Type /Page") + of(b"/Type/Page")
}

#[test]
fn the_page_is_printed_on_several_sheets() {
    /// Less than this is sheets with nothing on them.
    const LEAST_BYTES: usize = 50_000;
    let Some(browser) = chromium() else { return };
    let dir = tempfile::tempdir().unwrap();
    let page = page(dir.path(), page_results::write_all);
    let paper = dir.path().join("page.pdf");
    let argument = format!("--print-to-pdf={}", paper.display());
    look(browser, &page, DESK, &[&argument, "--no-pdf-header-footer"]);
    let pdf = std::fs::read(&paper).unwrap();
    assert!(pdf.starts_with(b"%PDF"));
    assert!(sheets(&pdf) >= 2, "{} sheets of {} bytes", sheets(&pdf), pdf.len());
    assert!(pdf.len() >= LEAST_BYTES, "{} sheets of {} bytes", sheets(&pdf), pdf.len());
}
