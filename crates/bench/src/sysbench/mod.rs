//! The command `sysbench`: the transactions of sysbench's oltp scripts, statement for statement, without SQL above them.
//!
//! Tables have an integer primary key `id`, an integer `k` with a secondary index, and the strings `c` of 119 and `pad` of 59 characters. Rows are drawn
//! uniformly.
//!
//! | workload | statements of a transaction |
//! | --- | --- |
//! | `load` | a hundred rows inserted; a table gets its index when all its rows are there |
//! | `point_select` | one row by its key |
//! | `read_only` | 10 rows by key; then over 100 rows by key each: their `c`; the sum of `k`; `c` sorted; `c` sorted, each once |
//! | `write_only` | `k + 1` in one row; a new `c` in one; one deleted, and inserted with the same key and new columns |
//! | `read_write` | those of `read_only`, then those of `write_only` |
//! | `update_index` | `k + 1` in one row |
//! | `update_non_index` | a new `c` in one row |
//!
//! As in sysbench, each group of statements (the points, each range, each change) is on a table drawn for it, and each statement draws its row; a delete and its insert share both.
//!
//! A statement that changes a row locks it, reads it, and changes it as an earlier statement of the transaction may have left it. Locks are held until the transaction has committed; the
//! lock manager is that of the engines, the same for all. They are taken in the order of the statements: where clients would wait for one another in a circle, one of them gives its locks back
//! and begins its transaction anew, with other rows, as sysbench does; the time counts.
//!
//! What a transaction changes is one commit. A row that is deleted and inserted goes and comes there, with the entry of its index: the LSM tree writes a tombstone of the one and a single
//! delete of the other, and then puts both; the B-tree removes and inserts them. That the key is free the transaction knows, since it deleted the row itself, and nothing is
//! read for it; the B-tree looks all the same, where it puts the row. A row that several statements drew is changed once, from what it was to what the last of them left. What only reads sees what is committed.
//!
//! Each workload with clients begins with what was loaded, opened anew: a copy of it takes the place of a database that another workload changed, and the clients of `read_only` run
//! for a quarter of the workload's time before that is taken, again and again while that gets quicker by more than 5 %, eight times at most. `settle` has what is in memory written to its place first. An engine whose rows end with it stays open, and runs nothing that changes them.
//!
//! Ours and the peers are called as a library. To stand beside an engine in a server, a client can be given [processor time](StatementCost) that it takes for every statement, as the server's SQL
//! and connections do for theirs: it works for so long when a statement comes, before the engine sees it.
//!
//! In a closed loop each client begins a transaction when it has ended the one before. Where rates are offered, the workload then runs again at each of them in an open loop, and begins with what was loaded
//! as well: transactions arrive at random, whether or not the engine keeps up, and go to the clients in turn; latencies count from the moment at which a transaction was due. The run is called
//! `read_write poisson-80` at 80 % of the engine's own rate in the closed loop, `read_write poisson-500/s` at 500 transactions a second. One that does not keep up is ended after twice its time and five
//! seconds: what is not served by then has waited until then.

use crate::config_json;
use crate::engines::{EngineKind, EngineSettings};
use crate::load::offered::{self, OfferedRates};
use crate::memory_cgroup::MemoryCgroup;
use crate::place::{Found, Place};
use crate::{Output, ResultLine};
use serde::Serialize;
use siltstone_base::{Error, Result};
use std::path::PathBuf;
use std::time::Duration;

mod changes;
mod client;
mod rows;
mod session;
mod statement_cost;
mod tables;
#[cfg(test)]
mod tests;
mod workload;

pub(crate) use session::WARMED;
use session::{Run, Session};
pub use statement_cost::StatementCost;
pub use workload::Workload;

/// What `sysbench` runs.
#[derive(Debug, Clone, Serialize)]
pub struct SysbenchConfig {
    /// The engines, to be run alternately.
    #[serde(serialize_with = "config_json::names")]
    pub engines: Vec<EngineKind>,
    /// The workloads, in this order.
    #[serde(serialize_with = "config_json::names")]
    pub workloads: Vec<Workload>,
    /// Tables.
    pub tables: u32,
    /// Rows of each.
    pub rows: u32,
    /// Clients.
    pub clients: Vec<usize>,
    /// Length of a workload other than load, for each number of clients and each rate.
    pub seconds: f64,
    /// At which rates workloads with clients run again in open loops.
    pub offered: OfferedRates,
    /// What clients take of the processor in place of what stands above the engine in a server. A workload that is not among them: nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub statement_costs: Vec<StatementCost>,
    /// How many times every engine runs.
    pub pairs: u32,
    /// Length of an interval in seconds.
    pub interval_s: f64,
    /// Draws rows.
    pub seed: u64,
    /// Where the databases are and stay. `None`: a temporary directory.
    pub dir: Option<PathBuf>,
    /// How the engines use the memory of the settings.
    pub memory: MemorySetup,
    /// What the engines are opened with.
    pub settings: EngineSettings,
}

/// The two ways in which the literature gives engines their memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub enum MemorySetup {
    /// All of it is the engine's own budget; the settings say whether it reads and writes past the page cache.
    #[default]
    Budget,
    /// It is the memory of a whole machine, here a cgroup. Our B-trees have three quarters of it for their buffer pool and read and write past the page cache; all others are set up as LSM trees
    /// are, with an eighth of it for the block cache, another for write buffers, and the page cache.
    PageCache,
}

impl MemorySetup {
    /// The settings of one engine.
    fn settings(self, kind: EngineKind, settings: &EngineSettings) -> EngineSettings {
        let bytes = settings.memory_bytes() as usize;
        match self {
            Self::Budget => settings.clone(),
            Self::PageCache if kind.is_btree() => {
                EngineSettings { direct: true, ..settings.clone() }.with_memory(bytes / 4 * 3)
            }
            Self::PageCache => EngineSettings {
                direct: false,
                cache_bytes: bytes / 8,
                write_buffer_bytes: (bytes / 8 / settings.write_buffers).max(1 << 16),
                ..settings.clone()
            },
        }
    }
}

/// Bytes of a row with the entry of its index.
pub(crate) const ROW_BYTES: u64 = 194;

/// What distinguishes one configuration from another in results.
#[derive(Serialize)]
struct Identity<'a> {
    tables: u32,
    rows: u32,
    seed: u64,
    memory: MemorySetup,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    statement_costs: &'a [StatementCost],
}

impl SysbenchConfig {
    fn check(&self) -> Result<()> {
        let bounds = [
            ("tables is out of bounds", (1..=10_000).contains(&self.tables)),
            ("rows is out of bounds", (1..=i32::MAX as u32).contains(&self.rows)),
            ("clients is out of bounds", self.clients.iter().all(|clients| (1..=1024).contains(clients))),
            ("clients is missing", !self.clients.is_empty()),
            ("seconds is out of bounds", (0.1..=86_400.0).contains(&self.seconds)),
            ("statement-us is out of bounds", self.statement_costs.iter().all(StatementCost::is_right)),
            ("statement-us names a workload twice", StatementCost::are_of_different_workloads(&self.statement_costs)),
            ("pairs is out of bounds", self.pairs >= 1),
            ("interval is out of bounds", self.interval_s >= 0.1),
            ("engine is missing", !self.engines.is_empty()),
            ("workloads must begin with load", self.workloads.first() == Some(&Workload::Load)),
        ];
        match bounds.iter().find(|(_, is_right)| !is_right) {
            Some((what, _)) => Err(Error::invalid_argument(format!("--{what}"))),
            None => self.offered.check(),
        }
    }

    /// About how many bytes the rows take, with the entries of their index.
    fn data_bytes(&self) -> u64 {
        u64::from(self.tables) * u64::from(self.rows) * ROW_BYTES
    }

    fn setup(&self) -> String {
        let Self { tables, settings, .. } = self;
        let rows = crate::figures::thousands(f64::from(self.rows));
        let memory = match self.memory {
            MemorySetup::Budget => settings.in_words(),
            MemorySetup::PageCache => format!(
                ", {} MiB for the process and its page cache (our B-trees: three quarters for the pool, direct I/O; all others: an eighth for the block cache)",
                settings.memory_bytes() >> 20
            ),
        };
        let costs: Vec<_> =
            self.statement_costs.iter().map(|cost| format!("{} {} us", cost.workload, cost.us)).collect();
        let above = match costs.is_empty() {
            true => String::new(),
            false => format!(", processor time of the clients for each statement: {}", costs.join(", ")),
        };
        format!("{tables} tables of {rows} rows, durability {}{memory}{above}", settings.durability)
    }

    /// The row of an engine that did not run because its memory could not be limited.
    fn not_run(&self, kind: EngineKind, pair: u32, error: &Error) -> ResultLine {
        ResultLine {
            experiment: "sysbench".to_owned(),
            workload: ResultLine::NOT_RUN.to_owned(),
            engine: kind.name().to_owned(),
            config_hash: self.config_hash(),
            setup: format!("{}: not run, for no memory cgroup could be made ({error})", self.setup()),
            config: config_json::whole(self),
            pair,
            ..self.settings.line()
        }
    }

    pub(crate) fn config_hash(&self) -> String {
        let &Self { tables, rows, seed, memory, ref statement_costs, .. } = self;
        crate::engines::config_hash(&Identity { tables, rows, seed, memory, statement_costs }, &self.settings)
    }

    /// What a client takes of the processor for a statement of this workload, beside what the engine takes.
    fn statement_cost(&self, workload: Workload) -> Duration {
        let cost = self.statement_costs.iter().find(|cost| cost.workload == workload);
        cost.map_or(Duration::ZERO, StatementCost::duration)
    }
}

/// Runs the workloads and returns one line a run.
pub fn run(config: &SysbenchConfig, output: &mut Output<'_>) -> Result<Vec<ResultLine>> {
    config.check()?;
    let place = Place::new(config.dir.as_deref(), config.engines.len() > 1, Found::Removed)?;
    output.say(config.setup())?;
    let mut lines: Vec<ResultLine> = Vec::new();
    for pair in 1..=config.pairs {
        let mut engines = config.engines.clone();
        if pair % 2 == 0 {
            engines.reverse();
        }
        for kind in engines {
            let limit = match config.memory {
                MemorySetup::Budget => None,
                MemorySetup::PageCache => match MemoryCgroup::enter(config.settings.memory_bytes()) {
                    Ok(limit) => Some(limit),
                    Err(error) => {
                        let mut line = config.not_run(kind, pair, &error);
                        place.mark(&mut line);
                        output.json(&line)?;
                        output.say(&line.setup)?;
                        lines.push(line);
                        continue;
                    }
                },
            };
            let mut session = Session::new(config, kind, place.of(kind), pair);
            for (number, &workload) in config.workloads.iter().enumerate() {
                let clients: &[usize] = if workload.has_clients() { &config.clients } else { &config.clients[..1] };
                for &clients in clients {
                    let closed = Run::closed(workload, number as u64, clients);
                    lines.extend(config.offered.phases(workload.has_clients(), |open| {
                        let run = open.map_or(closed, |(rate, order)| closed.at(rate, order));
                        run_once(&mut session, run, &place, output)
                    })?);
                }
            }
            session.close()?;
            limit.map_or(Ok(()), MemoryCgroup::leave)?;
        }
    }
    output.say(tables::results(&lines))?;
    if let Some(table) = offered::table(&lines) {
        output.say(table)?;
    }
    Ok(lines)
}

/// Runs a workload once, and says what it gave.
fn run_once(session: &mut Session<'_>, run: Run<'_>, place: &Place, output: &mut Output<'_>) -> Result<ResultLine> {
    let (mut line, intervals) = session.run(run, output.bars)?;
    place.mark(&mut line);
    output.json(&line)?;
    for interval in &intervals {
        output.json(interval)?;
    }
    output.say(tables::progress(&line))?;
    Ok(line)
}
