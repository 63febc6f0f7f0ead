//! The laboratory's binary.
#![expect(clippy::print_stderr, reason = "a program tells its errors on standard error")]

use clap::{Parser, Subcommand};
use siltstone_base::Result;
use siltstone_bench::{JsonLines, Output};
use std::io::{IsTerminal, stderr, stdout};
use std::path::PathBuf;
use std::process::ExitCode;

#[path = "arguments/mod.rs"]
mod arguments;

/// Measures storage engines: ours, and others beside them.
#[derive(Parser)]
#[command(name = "siltstone-bench", version, max_term_width = 120)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// db_bench's workloads.
    Kv(arguments::kv::KvArguments),
    /// The core workloads A to F of YCSB.
    Ycsb(arguments::ycsb::YcsbArguments),
    /// The insert benchmark: primary-key order, three secondary indexes.
    Insert(arguments::insert::InsertArguments),
    /// The rows of one client of `insert` as SQL statements, on standard output.
    InsertSql(arguments::insert_sql::InsertSqlArguments),
    /// The transactions of sysbench's oltp scripts: rows by key, ranges, updates of an indexed column.
    Sysbench(arguments::sysbench::SysbenchArguments),
    /// Creating and processing tasks in Redmine, on a disk with other work to do.
    Redmine(arguments::redmine::RedmineArguments),
    /// Upserts of rows that are valid for 60 days, in fast time: the published tuning ladder.
    Ads(arguments::ads::AdsArguments),
    /// How evenly engines take writes: closed loop, then arrivals at parts of the maximum.
    Stalls(arguments::stalls::StallsArguments),
    /// Everything beside one another within one budget of memory, for as long as one likes.
    Soak(arguments::soak::SoakArguments),
    /// Every experiment at one scale, then the page.
    All(arguments::all::AllArguments),
    /// Results to one page: published figure, measured figure, ratio, charts.
    Report(arguments::report::ReportArguments),
}

fn output(
    json: Option<&PathBuf>,
    text: &mut std::io::Stdout,
    run: impl FnOnce(&mut Output<'_>) -> Result<()>,
) -> Result<()> {
    let json = json.map(|path| JsonLines::create(path)).transpose()?;
    run(&mut Output::new(text, json, stderr().is_terminal()))
}

fn main() -> ExitCode {
    let mut text = stdout();
    let result = match Cli::parse().command {
        Command::Kv(arguments) => output(arguments.common.json.as_ref(), &mut text, |output| {
            siltstone_bench::kv::run(&arguments.config()?, output).map(drop)
        }),
        Command::Ycsb(arguments) => output(arguments.common.json.as_ref(), &mut text, |output| {
            siltstone_bench::ycsb::run(&arguments.config()?, output).map(drop)
        }),
        Command::Insert(arguments) => output(arguments.common.json.as_ref(), &mut text, |output| {
            siltstone_bench::insert::run(&arguments.config()?, output).map(drop)
        }),
        Command::InsertSql(arguments) => arguments.write(&mut std::io::BufWriter::with_capacity(1 << 16, text.lock())),
        Command::Sysbench(arguments) => output(arguments.common.json.as_ref(), &mut text, |output| {
            siltstone_bench::sysbench::run(&arguments.config()?, output).map(drop)
        }),
        Command::Redmine(arguments) => output(arguments.common.json.as_ref(), &mut text, |output| {
            siltstone_bench::redmine::run(&arguments.config()?, output).map(drop)
        }),
        Command::Ads(arguments) => output(arguments.common.json.as_ref(), &mut text, |output| {
            siltstone_bench::ads::run(&arguments.config()?, output).map(drop)
        }),
        Command::Stalls(arguments) => output(arguments.common.json.as_ref(), &mut text, |output| {
            siltstone_bench::stalls::run(&arguments.config()?, output).map(drop)
        }),
        Command::Soak(arguments) => {
            output(None, &mut text, |output| siltstone_bench::soak::run(&arguments.config(), output))
        }
        Command::All(arguments) => {
            output(None, &mut text, |output| match siltstone_bench::all::run(&arguments.config(), output)? {
                Some(page) => output.say(page.display()),
                None => Ok(()),
            })
        }
        Command::Report(arguments) => output(None, &mut text, |output| {
            match arguments.swap_labels {
                true => siltstone_bench::report::control(&arguments.results, &arguments.out)?,
                false => siltstone_bench::report::run(&arguments.results, &arguments.out)?,
            }
            output.say(arguments.out.display())
        }),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("siltstone-bench: {error}");
            ExitCode::FAILURE
        }
    }
}
