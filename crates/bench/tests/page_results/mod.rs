//! Results of every experiment of the page, made up: their figures are of the size that those of runs are.

use siltstone_bench::{IntervalLine, JsonLines, Provenance, ResultLine};
use std::collections::BTreeSet;
use std::path::Path;

/// An experiment of the page: of each workload with each engine there is one run of every set-up.
pub struct Experiment {
    /// Its name in results.
    pub name: &'static str,
    /// The heading of its section.
    pub title: &'static str,
    engines: &'static [&'static str],
    /// The names of the workloads, and their headings where these are others.
    workloads: &'static [(&'static str, &'static str)],
    /// Clients, and memory for 1,000 parts of data.
    setups: &'static [(u32, u64)],
}

const OURS: &[&str] = &["lsm-leveled", "btree", "lsm-classic"];
const ONE: &[(u32, u64)] = &[(8, 200)];

/// Parts of the data that memory holds in `sysbench`, each with two numbers of clients.
const MEMORIES: &[(u32, u64)] = &[(8, 200), (64, 200), (8, 400), (64, 400), (8, 800), (64, 800)];

/// The cells of a heat map.
pub const CELLS: usize = MEMORIES.len();

/// Every experiment but the ladder of `ads`, whose lines have a shape of their own.
pub static EXPERIMENTS: [Experiment; 7] = [
    Experiment {
        name: "kv",
        title: "Keys and values",
        engines: &["lsm-leveled", "btree"],
        workloads: &[("fillrandom", "fillrandom"), ("readrandom", "readrandom")],
        setups: ONE,
    },
    Experiment {
        name: "insert",
        title: "Insert benchmark",
        engines: OURS,
        workloads: &[
            ("l", "l: load in the order of the primary key, with three secondary indexes"),
            ("qr100", "qr100"),
        ],
        setups: ONE,
    },
    Experiment {
        name: "ycsb",
        title: "YCSB",
        engines: OURS,
        workloads: &[("a", "a: half reads, half updates"), ("e", "e: 95 % short scans, 5 % inserts")],
        setups: ONE,
    },
    Experiment {
        name: "sysbench",
        title: "sysbench",
        engines: OURS,
        workloads: &[("read_only", "read_only"), ("read_write", "read_write"), ("write_only", "write_only")],
        setups: MEMORIES,
    },
    Experiment {
        name: "mariadb",
        title: "Beside MariaDB",
        engines: &["lsm-leveled", "btree", "myrocks", "innodb"],
        workloads: &[("insert", "insert"), ("read_only", "read_only")],
        setups: ONE,
    },
    Experiment {
        name: "redmine",
        title: "Redmine",
        engines: OURS,
        workloads: &[("create_task", "create_task"), ("search", "search")],
        setups: ONE,
    },
    Experiment {
        name: "stalls",
        title: "Evenness under load",
        engines: OURS,
        workloads: &[("maximum", "maximum"), ("poisson-80", "poisson-80")],
        setups: ONE,
    },
];

/// The heading of the section about the ladder.
pub const LADDER: &str = "Ad serving";

/// What is drawn of every workload.
const CHARTS: [&str; 4] = ["operations a second", "distribution of latencies", "rates over time", "p99 over time"];

/// The workload whose arrivals are offered at a rate: what is done of them is not drawn.
const OFFERED: &str = "poisson-80";

/// What is drawn of a workload.
fn charts(workload: &str) -> &'static [&'static str] {
    if workload == OFFERED { &CHARTS[1..] } else { &CHARTS }
}

/// What is drawn of growing tables, and of the ladder.
const MORE_CHARTS: [&str; 6] = [
    "Written for each byte of rows, by their number.",
    "Read for each byte of rows, by their number.",
    "Occupied for each byte of rows, by their number.",
    "MB written a second.",
    "MB read a second.",
    "p99 latencies of commits over time.",
];

/// The titles of all charts.
pub fn titles() -> BTreeSet<String> {
    let of_workloads = EXPERIMENTS.iter().flat_map(|experiment| {
        experiment.workloads.iter().flat_map(move |(workload, heading)| {
            charts(workload).iter().map(move |chart| format!("{}, {heading}: {chart}", experiment.title))
        })
    });
    of_workloads.chain(MORE_CHARTS.map(str::to_owned)).collect()
}

/// How many charts there are: a title may be that of several set-ups.
pub fn count() -> usize {
    let of_workloads = |experiment: &Experiment| {
        let drawn = experiment.workloads.iter().map(|(workload, _)| charts(workload).len()).sum::<usize>();
        drawn * experiment.setups.len()
    };
    EXPERIMENTS.iter().map(of_workloads).sum::<usize>() + MORE_CHARTS.len()
}

/// Writes the lines of all experiments.
pub fn write_all(file: &Path) {
    let mut lines = JsonLines::create(file).unwrap();
    EXPERIMENTS.iter().for_each(|experiment| write_experiment(experiment, &mut lines));
    write_ladder(&mut lines);
}

fn write_experiment(experiment: &Experiment, lines: &mut JsonLines) {
    for (number, engine) in experiment.engines.iter().enumerate() {
        for (workload, _) in experiment.workloads {
            for setup in experiment.setups {
                let result = result(experiment.name, workload, engine, number, *setup);
                write(&result, lines);
            }
        }
    }
}

/// A result, and the intervals of its run; of the last but one no latency is known.
fn write(result: &ResultLine, lines: &mut JsonLines) {
    const INTERVALS: u32 = 20;
    lines.push(result).unwrap();
    for number in 1..=INTERVALS {
        let rate = result.ops_per_s * (1.0 + 0.1 * f64::from(number % 4));
        let p99_us = result.p99_us.filter(|_| number != INTERVALS - 1).map(|micros| micros * f64::from(1 + number % 7));
        let interval = IntervalLine {
            experiment: result.experiment.clone(),
            workload: result.workload.clone(),
            engine: result.engine.clone(),
            interval_s: f64::from(number) * 5.0,
            ops_per_s: rate,
            p50_us: result.p50_us,
            p99_us,
            max_us: p99_us.map(|micros| micros * 10.0),
            written_per_s: Some(rate * 300.0),
            read_per_s: Some(rate * 20.0),
            space_bytes: Some(u64::from(number) << 20),
        };
        lines.push(&interval).unwrap();
    }
}

/// The result of the engine of this number among those of the experiment.
fn result(experiment: &str, workload: &str, engine: &str, number: usize, (threads, memory): (u32, u64)) -> ResultLine {
    let slower = 1.0 + number as f64 / 2.0;
    let common = ResultLine {
        experiment: experiment.to_owned(),
        workload: workload.to_owned(),
        engine: engine.to_owned(),
        config_hash: format!("{experiment} {memory}"),
        setup: format!("{experiment}: rows of 100 bytes, {memory} of 1,000 parts in memory, durability second"),
        provenance: Some(provenance()),
        device: Some("slow-ssd".to_owned()),
        memory_bytes: Some(memory * 1_000),
        data_bytes: Some(1_000_000),
        durability: Some("second".to_owned()),
        compressed: Some(false),
        pair: 1,
        threads,
        ops: 100_000,
        seconds: 100.0,
        ops_per_s: 1_000.0 / slower,
        bytes_user: 10_000_000,
        cpu_s: Some(30.0 * slower),
        rss_mb: Some(100.0),
        process_written: Some(30_000_000),
        write_amp: Some(3.0 * slower),
        space_bytes: Some(1 << 24),
        debt_bytes: Some(1 << 20),
        stall_us: Some([("l0_file_count".to_owned(), 20_000_000)].into()),
        ..ResultLine::default()
    };
    own_figures(with_latencies(common, slower), slower)
}

fn with_latencies(line: ResultLine, slower: f64) -> ResultLine {
    ResultLine {
        p50_us: Some(80.0 * slower),
        p95_us: Some(200.0 * slower),
        p99_us: Some(500.0 * slower),
        p999_us: Some(2_000.0 * slower),
        p9999_us: Some(9_000.0 * slower),
        max_us: Some(12_000.0 * slower),
        machine_pause_us: Some(150.0),
        user_cpu_s: Some(20.0 * slower),
        system_cpu_s: Some(10.0 * slower),
        voluntary_context_switches: Some(100_000),
        involuntary_context_switches: Some(2_000),
        major_page_faults: Some(0),
        read_syscalls: Some(40_000),
        write_syscalls: Some(50_000),
        cpu_pressure_us: Some(9_000_000),
        io_pressure_us: Some(70_000_000),
        ..line
    }
}

/// What an experiment alone has.
fn own_figures(line: ResultLine, slower: f64) -> ResultLine {
    match line.experiment.as_str() {
        "insert" => ResultLine { kb_written_per_row: Some(0.4 * slower), reads_per_row: Some(0.01), ..line },
        "sysbench" => ResultLine { page_cache: Some(false), ..line },
        "mariadb" => ResultLine { device: Some("unlimited".to_owned()), page_cache: Some(false), ..line },
        "redmine" => ResultLine {
            device: Some("hdd".to_owned()),
            mean_trimmed_us: Some(28_000.0 * slower),
            device_load: Some(4.0),
            data_set: Some("large".to_owned()),
            as_published: Some(true),
            ..line
        },
        "stalls" => ResultLine {
            offered_ops_per_s: (line.workload == OFFERED).then_some(800.0),
            cv_plain: Some(0.1),
            cv_detrended: Some(0.05),
            worst_second: Some(0.7),
            longest_gap_us: Some(90_000.0),
            generator_late_p99_us: Some(90.0),
            ..line
        },
        _ => line,
    }
}

/// Rows of the ladder of `ads`, with their engines.
fn write_ladder(lines: &mut JsonLines) {
    let rows = [
        ("ttl", "lsm-leveled"),
        ("dense", "lsm-leveled"),
        ("expiry-off", "lsm-leveled"),
        ("daily-deletes", "btree-compressed"),
    ];
    for (number, (row, engine)) in rows.into_iter().enumerate() {
        let result = ResultLine {
            written_per_upsert: Some(800.0 * (1 + number) as f64),
            expired_share: Some(0.1),
            idle_expired_share: Some(0.12),
            read_rise: Some(1.1),
            write_peak_over_mean: Some(1.4),
            replication_lag_s: Some(0.2),
            shutdown_s: Some(0.1),
            startup_s: Some(0.2),
            ..result("ads", row, engine, number, (3, 200))
        };
        write(&result, lines);
    }
}

fn provenance() -> Provenance {
    Provenance {
        cpu: Some("A processor with a name".to_owned()),
        cores: Some(2),
        memory_bytes: Some(8 << 30),
        kernel: Some("Linux 6.1".to_owned()),
        file_system: Some("ext4 on /dev/vda".to_owned()),
        version: Some("0.1.0".to_owned()),
        ..Provenance::default()
    }
}
