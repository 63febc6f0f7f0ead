//! What a server takes of the processor for a statement beside its engine, for SQL, connections and the programs of its clients: ours, called as a library, take as much where it is asked for.

use super::Workload;
use rustix::time::{ClockId, clock_gettime};
use serde::{Serialize, Serializer};
use std::collections::HashSet;
use std::fmt;
use std::hint::spin_loop;
use std::str::FromStr;
use std::time::Duration;

/// The most that a statement may be given, in microseconds.
const MOST_US: f64 = 1e6;

/// Processor time that a client takes for each statement of a workload, beside what the engine takes. Written `write_only=75.5`, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StatementCost {
    /// Of this workload.
    pub workload: Workload,
    /// Microseconds a statement, of those that [`Workload::queries`] counts.
    pub us: f64,
}

impl StatementCost {
    pub(super) fn is_right(&self) -> bool {
        self.workload.has_clients() && (0.0..=MOST_US).contains(&self.us)
    }

    pub(super) fn are_of_different_workloads(costs: &[Self]) -> bool {
        let mut seen = HashSet::new();
        costs.iter().all(|cost| seen.insert(cost.workload))
    }

    /// None where it is not right.
    pub(super) fn duration(&self) -> Duration {
        Duration::try_from_secs_f64(self.us / 1e6).unwrap_or(Duration::ZERO)
    }
}

impl fmt::Display for StatementCost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.workload, self.us)
    }
}

impl FromStr for StatementCost {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (workload, us) = text.split_once('=').ok_or("expected WORKLOAD=MICROSECONDS")?;
        let workload: Workload = workload.parse()?;
        let us: f64 = us.parse().map_err(|error| format!("{us}: {error}"))?;
        match (Self { workload, us }) {
            cost if cost.is_right() => Ok(cost),
            _ => Err(format!("{text}: workloads with clients take 0 to {MOST_US} microseconds a statement")),
        }
    }
}

impl Serialize for StatementCost {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// What stands above the engine of one client.
pub(super) struct Above {
    per_statement: Duration,
    statements: u64,
}

impl Above {
    /// Takes so much of the processor for a statement.
    pub(super) fn new(per_statement: Duration) -> Self {
        Self { per_statement, statements: 0 }
    }

    /// A statement comes: works for its time. What the thread waits for a processor does not count.
    pub(super) fn statement(&mut self) {
        self.statements += 1;
        if self.per_statement.is_zero() {
            return;
        }
        let end = thread_time() + self.per_statement;
        while thread_time() < end {
            spin_loop();
        }
    }

    /// How many came.
    #[cfg(test)]
    pub(super) fn statements(&self) -> u64 {
        self.statements
    }
}

/// Processor time of this thread so far.
pub(super) fn thread_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs() as u32)
}
