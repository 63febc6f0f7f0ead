//! The command `all`: every experiment at one scale, then the page.
//!
//! An experiment is a cell of the plan ([`plan`]). Each leaves a file of results in the directory of the run, named after it, once it is complete; its first line says of which experiment it is, with all settings. A run that was interrupted
//! goes on with the cells that have no such file, or one of another experiment. The page tells of all that are complete, and of what `scripts/beside-mariadb` left there as `mariadb*.json`; it is written anew after each cell. The databases lie in a directory
//! of their own beneath, which is empty between two cells, so that no cell finds what another left; what an interrupted run left there takes no room from the next.

use crate::engines::{EngineKind, allocated_bytes};
use crate::output::CellLine;
use crate::place::remove_place;
use crate::stopwatch::Stopwatch;
use crate::{JsonLines, Output, ads, insert, kv, redmine, report, stalls, sysbench, ycsb};
use siltstone_base::env::{DirEntry, Env, FileKind, PosixEnv, read_file};
use siltstone_base::text_table::TextTable;
use siltstone_base::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};

mod plan;
mod room;
mod scale;
#[cfg(test)]
mod tests;

pub use plan::{Cell, Experiment, plan};
pub use room::Room;
pub use scale::Scale;

/// Longest file of results that is looked at, in bytes.
const MOST_BYTES: u64 = 1 << 30;

/// What `all` runs.
#[derive(Debug, Clone)]
pub struct AllConfig {
    /// How large.
    pub scale: Scale,
    /// Only the cells of these names, and where there is none of a name, those whose names contain it; all, if nothing is named.
    pub only: Vec<String>,
    /// Engines beside ours in the cells that they can run, and in cells of their own.
    pub peers: Vec<EngineKind>,
    /// Files of results, by other commands, that the page tells of, too.
    pub also: Vec<PathBuf>,
    /// Where results, page and databases are.
    pub dir: PathBuf,
    /// Draws keys and values.
    pub seed: u64,
    /// Runs also what is complete.
    pub is_anew: bool,
    /// Says what would be run and how large it is, and runs nothing.
    pub dry_run: bool,
}

/// Runs the cells that are left, and writes the page. Returns where it is; none, where nothing was run.
///
/// # Errors
///
/// `NoSpace` and `LimitExceeded` name the cell for which disk or memory is too small, before anything is run, also by a dry run. A cell whose experiment fails does not keep the others from being run; the error names all
/// that failed, and is of the kind of the first.
pub fn run(config: &AllConfig, output: &mut Output<'_>) -> Result<Option<PathBuf>> {
    let all = plan(config);
    let is_meant = |cell: &&Cell| config.only.is_empty() || config.only.iter().any(|name| is_named(cell, name, &all));
    let cells: Vec<&Cell> = all.iter().filter(is_meant).collect();
    if cells.is_empty() {
        return Err(Error::invalid_argument("--only names no experiment; --dry-run lists them"));
    }
    let is_left = |cell: &&Cell| config.is_anew || !is_done(&config.dir, cell);
    let left: Vec<&Cell> = cells.iter().copied().filter(is_left).collect();
    output.say(listing(&cells, &left))?;
    if let Some(note) = left_out(&config.peers) {
        output.say(note)?;
    }
    // What an interrupted run left is gone before the first cell: a dry run leaves it, and counts it as free.
    let leftovers = databases(&config.dir);
    if !config.dry_run {
        remove_place(&leftovers)?;
    }
    let room = Room::of(existing(&config.dir)).with_freed(allocated_bytes(&leftovers, &|_| true));
    left.iter().try_for_each(|cell| room.check(cell))?;
    if config.dry_run {
        return Ok(None);
    }
    let env = PosixEnv::new();
    env.create_dir_all(&config.dir).map_err(|error| Error::io("create directory", &config.dir, error))?;
    if config.is_anew {
        left.iter().try_for_each(|cell| forget(&results(&config.dir, cell)))?;
    }
    // A file that cannot be read is told of now, not when the first cell is done.
    let mut page = write_page(config, &all)?;
    let mut failed = Vec::new();
    let watch = Stopwatch::start();
    let seconds: Vec<_> = left.iter().map(|cell| cell.seconds).collect();
    for (number, cell) in left.iter().enumerate() {
        let minutes = seconds_left(&seconds, number, watch.seconds()) / 60.0;
        output.say(format!("\n{} ({} of {}, about {minutes:.0} minutes left)", cell.name, number + 1, left.len()))?;
        match run_cell(config, cell, output) {
            Ok(()) => page = write_page(config, &all)?,
            Err(error) => {
                output.say(format!("{} failed: {error}", cell.name))?;
                failed.push((cell.name.as_str(), error));
            }
        }
    }
    outcome(failed)?;
    Ok(Some(page))
}

/// How long what is left of a plan takes, if `done` of its parts took `took` seconds together: as planned, and at the pace so far where a minute and more was planned for them.
fn seconds_left(planned: &[f64], done: usize, took: f64) -> f64 {
    let (before, after) = planned.split_at(done.min(planned.len()));
    let (before, after): (f64, f64) = (before.iter().sum(), after.iter().sum());
    if before < 60.0 { after } else { after * took / before }
}

/// Whether a cell is meant by `name`: its own or, where no cell has it, a part of its own.
fn is_named(cell: &Cell, name: &str, all: &[Cell]) -> bool {
    if all.iter().any(|cell| cell.name == name) { cell.name == name } else { cell.name.contains(name) }
}

/// The nearest directory above a path that is there, or the path itself.
fn existing(path: &Path) -> &Path {
    let env = PosixEnv::new();
    let is_there = |path: &&Path| env.exists(path).unwrap_or(false);
    path.ancestors().find(is_there).unwrap_or(Path::new("."))
}

/// Where the databases of a run in `dir` are.
fn databases(dir: &Path) -> PathBuf {
    dir.join("databases")
}

/// The error of a run some of whose cells failed.
fn outcome(failed: Vec<(&str, Error)>) -> Result<()> {
    let names: Vec<_> = failed.iter().map(|(name, _)| *name).collect();
    let names = names.join(", ");
    match failed.into_iter().next() {
        Some((_, error)) => Err(Error::new(error.kind(), format!("not complete: {names}")).with_source(error)),
        None => Ok(()),
    }
}

/// Removes results, where there are any.
fn forget(file: &Path) -> Result<()> {
    match PosixEnv::new().remove_file(file) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Error::io("remove", file, error)),
        _ => Ok(()),
    }
}

/// Writes the page of all cells that are complete, also by earlier runs, of MariaDB's results beside them, and of those that are named; returns where it is.
fn write_page(config: &AllConfig, all: &[Cell]) -> Result<PathBuf> {
    let dir = config.dir.as_path();
    let page = dir.join("index.html");
    let complete = all.iter().filter(|cell| is_done(dir, cell)).map(|cell| results(dir, cell));
    let files: Vec<_> = config.also.iter().cloned().chain(complete).chain(of_mariadb(dir)?).collect();
    report::run(&files, &page)?;
    Ok(page)
}

/// The files in `dir` that `scripts/beside-mariadb` wrote, by their names.
fn of_mariadb(dir: &Path) -> Result<Vec<PathBuf>> {
    let entries = PosixEnv::new().list_dir(dir).map_err(|error| Error::io("list", dir, error))?;
    let is_meant = |entry: &&DirEntry| {
        !entry.is_dir
            && entry.name.starts_with("mariadb")
            && Path::new(&entry.name).extension() == Some("json".as_ref())
    };
    Ok(entries.iter().filter(is_meant).map(|entry| dir.join(&entry.name)).collect())
}

/// Runs one cell. Its results get their name when they are complete.
fn run_cell(config: &AllConfig, cell: &Cell, output: &mut Output<'_>) -> Result<()> {
    let (file, partial) = (results(&config.dir, cell), config.dir.join(format!("{}.partial", cell.name)));
    let databases = databases(&config.dir);
    remove_place(&databases)?;
    let mut json = JsonLines::create(&partial)?;
    json.push(&CellLine { cell: cell.identity() })?;
    output.with_json(json, |output| match cell.experiment(&databases) {
        Experiment::Kv(config) => kv::run(&config, output).map(drop),
        Experiment::Ycsb(config) => ycsb::run(&config, output).map(drop),
        Experiment::Insert(config) => insert::run(&config, output).map(drop),
        Experiment::Sysbench(config) => sysbench::run(&config, output).map(drop),
        Experiment::Redmine(config) => redmine::run(&config, output).map(drop),
        Experiment::Stalls(config) => stalls::run(&config, output).map(drop),
        Experiment::Ads(config) => ads::run(&config, output).map(drop),
    })?;
    remove_place(&databases)?;
    let env = PosixEnv::new();
    env.rename(&partial, &file).map_err(|error| Error::io("rename", &partial, error))
}

/// The file of the results of a cell.
fn results(dir: &Path, cell: &Cell) -> PathBuf {
    dir.join(format!("{}.json", cell.name))
}

/// Whether there are complete results of this very cell: the first line says of which they are. A run that the machine had no means for is none: the next time it may have them.
fn is_done(dir: &Path, cell: &Cell) -> bool {
    let file = results(dir, cell);
    let read = read_file(&PosixEnv::new(), &file, FileKind::Other, MOST_BYTES);
    let Some(text) = read.ok().and_then(|bytes| String::from_utf8(bytes).ok()) else { return false };
    let named = text.lines().next().and_then(|line| serde_json::from_str::<CellLine>(line).ok());
    named.is_some_and(|line| line.cell == cell.identity())
        && report::parse(&text, &file)
            .is_ok_and(|records| !records.is_empty() && records.iter().all(|record| record.result.was_run()))
}

fn listing(cells: &[&Cell], left: &[&Cell]) -> String {
    let mut table = TextTable::new(["experiment", "about", "disk GB", "memory MB", "minutes", "done"]);
    for cell in cells {
        let is_left = left.iter().any(|other| other.name == cell.name);
        table.row([
            cell.name.clone(),
            cell.about.to_owned(),
            format!("{:.1}", cell.disk_bytes as f64 / 1e9),
            format!("{:.0}", cell.memory_bytes as f64 / 1e6),
            format!("{:.1}", cell.seconds / 60.0),
            if is_left { "" } else { "yes" }.to_owned(),
        ]);
    }
    let minutes = left.iter().map(|cell| cell.seconds).sum::<f64>() / 60.0;
    format!("{table}\n{} of {} left, about {minutes:.0} minutes", left.len(), cells.len())
}

/// Which of the engines beside ours are left out of which cells, and why.
fn left_out(peers: &[EngineKind]) -> Option<String> {
    let foreign: Vec<_> = peers.iter().filter(|peer| peer.is_foreign()).collect();
    let names = |engines: &[&EngineKind]| engines.iter().map(|engine| engine.name()).collect::<Vec<_>>().join(", ");
    if foreign.is_empty() {
        return None;
    }
    let mut note = format!("Left out of cells on a modelled device, for they do their own I/O: {}.", names(&foreign));
    let buffered: Vec<_> = foreign.into_iter().filter(|peer| !peer.has_direct_io()).collect();
    if !buffered.is_empty() {
        note += &format!(" Left out of cells past the page cache, for they have no direct I/O: {}.", names(&buffered));
    }
    Some(note)
}

/// An error for a cell that does not fit.
fn too_small(kind: ErrorKind, what: &str, cell: &Cell, needed: u64, there: u64) -> Error {
    let gigabytes = |bytes: u64| bytes as f64 / 1e9;
    let (name, needed, there) = (&cell.name, gigabytes(needed), gigabytes(there));
    Error::new(
        kind,
        format!(
            "{name} needs {needed:.1} GB of {what}, and there are {there:.1}; take a smaller --scale or --only others"
        ),
    )
}
