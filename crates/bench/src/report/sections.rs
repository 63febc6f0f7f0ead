//! The parts of the page.

use super::RunRecord;
use super::amplification;
use super::charts::{self, Caption};
use super::comparison;
use super::conditions::ended_early;
use super::over_time;
use super::published;
use super::system;
use crate::ResultLine;
use crate::figures::{megabytes, short, thousands};
use crate::load::median;
use siltstone_base::Result;
use std::fmt::Write;

/// Runs of one workload with the same number of threads.
struct Group<'a> {
    workload: &'a str,
    threads: u32,
    records: Vec<&'a RunRecord>,
    /// The engines of which a run lacks rows, with what was ended early: their figures are shown, and not compared.
    early: Vec<(&'a str, &'a ResultLine)>,
    /// The engines of which a run inserted too little beside its queries, with the least rate that was kept and the one that the step asks for: likewise.
    behind: Vec<(&'a str, f64, f64)>,
}

impl Group<'_> {
    fn is_compared(&self, engine: &str) -> bool {
        self.early.iter().all(|(early, _)| *early != engine) && self.behind.iter().all(|(behind, ..)| *behind != engine)
    }

    /// What stands beside the rate of an engine that inserted too little.
    fn mark(&self, engine: &str) -> String {
        let behind = self.behind.iter().find(|(behind, ..)| *behind == engine);
        behind.map_or_else(String::new, |(_, kept, asked)| {
            format!(" (inserts: {} of {}/s)", thousands(*kept), thousands(*asked))
        })
    }
}

/// The text, safe between tags and in attributes.
pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// The engines in the order in which they appear.
pub(super) fn engines(records: &[RunRecord]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for record in records {
        if !names.contains(&record.result.engine.as_str()) {
            names.push(&record.result.engine);
        }
    }
    names
}

fn groups<'a>(records: &'a [RunRecord], experiment: &str) -> Vec<Group<'a>> {
    let mut groups: Vec<Group<'a>> = Vec::new();
    for record in records.iter().filter(|record| record.result.experiment == experiment) {
        let result = &record.result;
        let is_same = |group: &&mut Group<'_>| {
            group.workload == result.workload
                && group.threads == result.threads
                && group.records.first().is_none_or(|first| is_one_run(first, record))
        };
        match groups.iter_mut().find(is_same) {
            Some(group) => group.records.push(record),
            None => groups.push(Group {
                workload: &result.workload,
                threads: result.threads,
                records: vec![record],
                early: Vec::new(),
                behind: Vec::new(),
            }),
        }
    }
    for group in &mut groups {
        for record in &group.records {
            let engine = record.result.engine.as_str();
            if let Some(step) =
                ended_early(records, record).filter(|_| group.early.iter().all(|(one, _)| *one != engine))
            {
                group.early.push((engine, step));
            }
        }
        group.behind = behind(&group.records);
    }
    groups
}

/// The engines of which a run inserted too little beside its queries, as [`Group::behind`] has them.
fn behind<'a>(records: &[&'a RunRecord]) -> Vec<(&'a str, f64, f64)> {
    let mut behind: Vec<(&'a str, f64, f64)> = Vec::new();
    for record in records {
        let engine = record.result.engine.as_str();
        let Some((kept, asked)) = record.result.inserts_behind() else { continue };
        match behind.iter_mut().find(|(other, ..)| *other == engine) {
            Some((_, least, _)) => *least = least.min(kept),
            None => behind.push((engine, kept, asked)),
        }
    }
    behind
}

/// Whether two records belong to the same configuration.
fn is_one_run(a: &RunRecord, b: &RunRecord) -> bool {
    a.result.config_hash == b.result.config_hash
}

pub(super) fn table(columns: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut html = String::from("<div class=\"scroll\"><table><thead><tr>");
    for column in columns {
        let _ = write!(html, "<th>{}</th>", escape(column));
    }
    html += "</tr></thead><tbody>";
    for row in rows {
        html += "<tr>";
        for cell in row {
            let _ = write!(html, "<td>{}</td>", escape(&cell));
        }
        html += "</tr>";
    }
    html + "</tbody></table></div>"
}

/// The colours of the engines.
pub(super) fn legend(records: &[RunRecord]) -> String {
    charts::legend(engines(records).into_iter().zip(0..))
}

/// The heading of a workload: its name, and what it is where the name does not say.
fn heading(experiment: &str, workload: &str) -> String {
    let about = match (experiment, workload) {
        ("ycsb", "a") => "half reads, half updates",
        ("ycsb", "b") => "95 % reads, 5 % updates",
        ("ycsb", "c") => "reads alone",
        ("ycsb", "d") => "95 % reads of the latest, 5 % inserts",
        ("ycsb", "e") => "95 % short scans, 5 % inserts",
        ("ycsb", "f") => "half reads, half reads that are written back changed",
        ("insert", "l") => "load in the order of the primary key, with three secondary indexes",
        _ => return workload.to_owned(),
    };
    format!("{workload}: {about}")
}

/// What must be known of all figures of an experiment, where there is something.
fn about(experiment: &str) -> &'static str {
    match experiment {
        "redmine" => {
            "<p>Means and rates contain the time of the application, as the published means do: for each request as much as the settings of the run say. create_task is 11 requests, a task and ten comments; process_10_tasks is ten. The percentiles are without it.</p><p>What the published times of create_task are of is not settled: 18 ms on an idle machine are too short for 11 requests of such an application, and are taken for one of them. Ratios between engines are the same for one and for all 11, as long as the application takes its time for each. The 18 ms of a request are what was published of MyRocks without load: that the LSM tree's time of it is near that says nothing. A client makes the commits of an operation in a row, and then waits as long as its requests take the application.</p>"
        }
        "mariadb" => {
            "<p>MariaDB's engines are in a server: SQL, connections and the programs of the clients take time of the same processors, which ours, called as a library, do not need. That brings the ratio of MyRocks and InnoDB nearer to one than that of our two, and is an advantage of ours beside theirs. Engines with <code>+sql</code> are ours whose clients take as much of the processor for a statement as MariaDB and its client do for the statements of the same mix on tables that keep no rows (BLACKHOLE): less than SQL takes with rows to hand over.</p><p>The earlier run of InnoDB and MyRocks that stands in the place of published figures is not among these results, and on which machine it was is not known; where its rates are known they stand beside its ratio.</p><p>Of the insert benchmark, MyRocks looks whether the primary key of a row is there, as SQL demands; our LSM tree takes the word of its caller, and reads nothing.</p>"
        }
        "insert" => {
            "<p>Of the published KB written a row, those of MyRocks count what it trimmed as written, about as much again (iostat); ours are what the process wrote.</p><p>LSM trees insert rows without looking whether their primary keys are there: the caller vouches for it. Our B-tree finds out on its way, and refuses such a row.</p>"
        }
        _ => "",
    }
}

/// The workloads of `experiment`: a bar for each engine, the figures, the rates and latencies over time.
pub(super) fn experiment(records: &[RunRecord], experiment: &str, title: &str) -> Result<String> {
    let groups = groups(records, experiment);
    if groups.is_empty() {
        return Ok(String::new());
    }
    let names = engines(records);
    let mut html = format!("<section><h2>{}</h2>{}", escape(title), about(experiment));
    for group in groups {
        let heading = heading(experiment, group.workload);
        let title = |what: &str| format!("{title}, {heading}: {what}");
        let _ = write!(html, "<article><h3>{}", escape(&heading));
        if group.threads > 1 {
            let _ = write!(html, " <small>{} clients</small>", group.threads);
        }
        html += "</h3>";
        if let Some(first) = group.records.first().filter(|first| !first.result.setup.is_empty()) {
            let _ = write!(html, "<p>{}</p>", escape(&first.result.setup));
        }
        let of = |engine: &str, figure: Figure| {
            let runs = group.records.iter().filter(|record| record.result.engine == engine);
            median(&runs.filter_map(|record| figure(record)).collect::<Vec<_>>())
        };
        let rates: Vec<_> = names
            .iter()
            .enumerate()
            .filter_map(|(position, name)| {
                Some(((*name).to_owned(), of(name, |run| Some(run.result.ops_per_s))?, position))
            })
            .filter(|(name, rate, _)| *rate > 0.0 && group.is_compared(name))
            .collect();
        // What the insert benchmark offers are rows, beside queries that go as fast as they can.
        let is_offered =
            experiment != "insert" && group.records.iter().any(|record| record.result.offered_ops_per_s.is_some());
        if is_offered {
            html += "<p>What is done is what was offered, to each engine its own rate unless it was given: not the rates compare here, but how long arrivals took.</p>";
        } else if !rates.is_empty() {
            html += &charts::bars(&rates, &title("operations a second"))?;
        }
        let reference = rates.first().map(|(_, rate, _)| *rate).filter(|_| !is_offered);
        let rows = names.iter().filter(|name| group.records.iter().any(|record| record.result.engine == **name));
        let is_known = |figure: Figure| group.records.iter().any(|record| figure(record).is_some());
        let evenness = if is_known(|run| run.result.longest_gap_us) { &EVENNESS[..] } else { &[] };
        let more: Vec<_> = OWN.iter().filter(|(_, figure)| is_known(*figure)).chain(evenness).collect();
        let columns: Vec<_> = FIGURES.into_iter().chain(more.iter().map(|(column, _)| *column)).collect();
        html += &table(
            &columns,
            rows.map(|name| {
                let more = more.iter().map(|(_, figure)| short(of(name, *figure)));
                figures(name, &group, reference, &of).into_iter().chain(more).collect()
            }),
        );
        html += &system::counted(&group.records, &names, &of);
        html += &ended_early_notes(&group);
        html += &behind_notes(&group);
        html += &distributions(&names, &of, &title("distribution of latencies"))?;
        html += &over_time::over_time(&group.records, &names, &title)?;
        html += &amplification::over_size(&group.records, &names)?;
        html += "</article>";
    }
    Ok(html + "</section>")
}

const FIGURES: [&str; 18] = [
    "engine",
    "runs",
    "ops/s",
    "first = 1",
    "p50 us",
    "p95 us",
    "p99 us",
    "p99.99 us",
    "longest us",
    "machine us",
    "CPU s",
    "RSS MB",
    "written MB",
    "write amp",
    "space MB",
    "debt MB",
    "stalled ms",
    "harness ns",
];

/// What is shown beside them where it is known: experiments have figures of their own.
const OWN: [(&str, Figure); 2] = [
    // Without the first and the last tenth of the operations.
    ("trimmed mean us", |run| run.result.mean_trimmed_us),
    ("KB a row", |run| run.result.kb_written_per_row),
];

/// What is shown beside them where an experiment is about evenness.
const EVENNESS: [(&str, Figure); 11] = [
    ("offered/s", |run| run.result.offered_ops_per_s),
    ("unserved", |run| run.result.unserved_ops.map(|ops| ops as f64)),
    ("p99.9 us", |run| run.result.p999_us),
    ("CV", |run| run.result.cv_plain),
    ("CV 15 s", |run| run.result.cv_detrended),
    ("CV of 5 s", |run| run.result.cv_five_seconds),
    ("worst s", |run| run.result.worst_second),
    ("worst 5 s", |run| run.result.worst_five_seconds),
    ("longest gap us", |run| run.result.longest_gap_us),
    ("warm-up max us", |run| run.result.warm_up_max_us),
    ("late p99 us", |run| run.result.generator_late_p99_us),
];

/// What is shown of a run.
pub(super) type Figure = fn(&RunRecord) -> Option<f64>;

/// The median of a figure of an engine's runs.
pub(super) type Median<'a> = &'a dyn Fn(&str, Figure) -> Option<f64>;

fn figures(name: &str, group: &Group<'_>, reference: Option<f64>, of: Median<'_>) -> Vec<String> {
    let runs = group.records.iter().filter(|record| record.result.engine == name).count();
    let rate = of(name, |run| Some(run.result.ops_per_s));
    let relative = rate.zip(reference).filter(|_| group.is_compared(name)).map(|(rate, first)| rate / first);
    let mb = |figure| megabytes(of(name, figure).map(|bytes| bytes as u64));
    vec![
        name.to_owned(),
        runs.to_string(),
        short(rate) + &group.mark(name),
        short(relative),
        short(of(name, |run| run.result.p50_us)),
        short(of(name, |run| run.result.p95_us)),
        short(of(name, |run| run.result.p99_us)),
        short(of(name, |run| run.result.p9999_us)),
        short(of(name, |run| run.result.max_us)),
        short(of(name, |run| run.result.machine_pause_us)),
        short(of(name, |run| run.result.cpu_s)),
        short(of(name, |run| run.result.rss_mb)),
        mb(|run| run.result.process_written.map(|bytes| bytes as f64)),
        short(of(name, |run| run.result.write_amp)),
        mb(|run| run.result.space_bytes.map(|bytes| bytes as f64)),
        mb(|run| run.result.debt_bytes.map(|bytes| bytes as f64)),
        short(of(name, |run| run.result.stall_us.as_ref().map(|causes| causes.values().sum::<u64>() as f64 / 1e3))),
        short(of(name, |run| run.result.harness_ns_per_op)),
    ]
}

/// Which engines lack rows, and of which step.
fn ended_early_notes(group: &Group<'_>) -> String {
    let mut html = String::new();
    for (engine, step) in &group.early {
        let left = thousands(step.rows_left_out.unwrap_or_default() as f64);
        let what = if step.workload == group.workload { "it is" } else { "what it did after that is" };
        let _ = write!(
            html,
            "<p>{}: step {} was ended after {:.0} s without {left} rows; {what} shown, and not compared.</p>",
            escape(engine),
            escape(&step.workload),
            step.seconds
        );
    }
    html
}

/// Which engines inserted too little beside their queries.
fn behind_notes(group: &Group<'_>) -> String {
    let mut html = String::new();
    for (engine, kept, asked) in &group.behind {
        let _ = write!(
            html,
            "<p>{}: {} of {} rows/s were inserted beside the queries, which have it easier with fewer; they are shown, and not compared.</p>",
            escape(engine),
            thousands(*kept),
            thousands(*asked)
        );
    }
    html
}

/// The distributions of latencies, where there are any.
fn distributions(names: &[&str], of: Median<'_>, title: &str) -> Result<String> {
    let figures: [Figure; charts::PERCENTILES.len()] = [
        |run| run.result.p50_us,
        |run| run.result.p95_us,
        |run| run.result.p99_us,
        |run| run.result.p999_us,
        |run| run.result.p9999_us,
        |run| run.result.max_us,
    ];
    let runs: Vec<_> = names
        .iter()
        .enumerate()
        .map(|(position, name)| (figures.iter().map(|figure| of(name, *figure)).collect::<Vec<_>>(), position))
        .filter(|(points, _)| points.iter().flatten().count() > 1)
        .collect();
    if runs.is_empty() {
        return Ok(String::new());
    }
    charts::distributions(&runs, Caption { title, names })
}

/// Published figures beside measured ones.
pub(super) fn published_and_measured(records: &[RunRecord]) -> String {
    let found = comparison::of(records);
    if found.is_empty() {
        return String::new();
    }
    let rows = found.iter().map(|one| {
        vec![
            one.what.clone(),
            one.published_engine.clone(),
            short(Some(one.published)),
            one.engine.clone(),
            short(Some(one.measured)),
            one.runs.to_string(),
            short(Some(one.ratio())),
            one.unit.to_owned(),
        ]
    });
    let columns = ["what", "published for", "published", "measured for", "measured", "runs", "ratio", "unit"];
    format!(
        "<section><h2>Published and measured</h2><p>The published machines are not this one: what carries over is how \
         engines compare, not the figures themselves. What is measured is the median of so many runs.</p><div class=\"words\">{}</div></section>",
        table(&columns, rows)
    )
}

/// All published figures.
pub(super) fn published_tables() -> String {
    let mut html = String::from("<section><h2>Published figures, and one run of MariaDB</h2>");
    for published in published::tables() {
        let _ = write!(html, "<details><summary>{}</summary>", escape(published.name));
        for note in &published.notes {
            let _ = write!(html, "<p>{}</p>", escape(note));
        }
        let rows = published.rows.iter().map(|row| row.iter().map(|&cell| cell.to_owned()).collect());
        html += &table(&published.columns, rows);
        html += "</details>";
    }
    html + "</section>"
}
