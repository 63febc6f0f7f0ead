//! The laboratory: workloads over the engine traits, what it takes to measure them, and reports.
//!
//! Commands of `siltstone-bench` are the modules [`kv`], [`ycsb`], [`insert`], [`sysbench`], [`redmine`], [`ads`], [`stalls`], [`soak`], [`all`] and [`report`]; [`engines`] opens whatever they run on.
//! Nothing here prints: commands write to the writer that they are given.
//!
//! ```
//! use siltstone_base::engine::Kv;
//! use siltstone_bench::Latencies;
//! use siltstone_bench::engines::MemoryEngine;
//!
//! # fn main() -> siltstone_base::Result<()> {
//! // Any engine behind the traits can be measured; this one is the model.
//! let engine = MemoryEngine::new();
//! let mut latencies = Latencies::new()?;
//! for key in 0..100_u64 {
//!     engine.put(&key.to_be_bytes(), b"value")?;
//!     latencies.record(1_000 + key);
//! }
//! let summary = latencies.summary().expect("something was recorded");
//! assert!(summary.p50_us >= 1.0 && summary.p50_us <= summary.max_us);
//! # Ok(())
//! # }
//! ```

pub mod ads;
pub mod all;
mod config_json;
pub mod engines;
mod figures;
pub mod insert;
mod json_lines;
pub mod kv;
mod latency;
mod load;
mod machine;
mod memory_cgroup;
mod output;
mod place;
mod provenance;
mod ratios;
pub mod redmine;
pub mod report;
mod rng;
mod row_guards;
pub mod soak;
pub mod stalls;
mod stopwatch;
pub mod sysbench;
mod values;
pub mod ycsb;

pub use json_lines::JsonLines;
pub use latency::{Latencies, LatencySummary};
pub use load::offered::OfferedRates;
pub use machine::{PauseMeter, ProcessUsage};
pub use output::{IntervalLine, Output, ResultLine};
pub use provenance::Provenance;
pub use rng::Rng;
