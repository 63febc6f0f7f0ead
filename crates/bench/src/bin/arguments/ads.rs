//! Arguments of `ads`.

use super::CommonArguments;
use clap::Args;
use siltstone_base::Result;
use siltstone_bench::ads::{AdsConfig, Row};
use siltstone_bench::all::Scale;

/// Sources of an ad-serving system that replicate into one store, whose rows are valid for 60 days.
#[derive(Debug, Args)]
pub struct AdsArguments {
    #[command(flatten)]
    pub common: CommonArguments,
    /// How large: quick, hour or night. What follows says otherwise.
    #[arg(long, default_value_t = Scale::Quick)]
    scale: Scale,
    /// Rows of the ladder, in this order: commit, second, lz4-zstd1, page-cache, ttl, dense, expiry-off, daily-deletes, purge. The engines are theirs.
    #[arg(long, value_delimiter = ',')]
    rows: Vec<Row>,
    /// Simulated days.
    #[arg(long)]
    days: Option<u64>,
    /// Seconds that a day takes.
    #[arg(long)]
    day_seconds: Option<f64>,
    /// Upserts of a day.
    #[arg(long)]
    upserts_per_day: Option<u64>,
    /// Sources, each of which replicates by itself.
    #[arg(long, default_value_t = 3)]
    sources: usize,
    /// Upserts of a commit.
    #[arg(long, default_value_t = 10)]
    rows_per_commit: usize,
    /// Let every row of the ladder go through the page cache: for file systems that have no direct I/O.
    #[arg(long)]
    buffered: bool,
}

impl AdsArguments {
    /// What is to be run.
    pub fn config(&self) -> Result<AdsConfig> {
        let scaled = AdsConfig::of_scale(self.scale, self.common.seed);
        Ok(AdsConfig {
            rows: if self.rows.is_empty() { scaled.rows } else { self.rows.clone() },
            days: self.days.unwrap_or(scaled.days),
            day_seconds: self.day_seconds.unwrap_or(scaled.day_seconds),
            upserts_per_day: self.upserts_per_day.unwrap_or(scaled.upserts_per_day),
            sources: self.sources,
            rows_per_commit: self.rows_per_commit,
            is_buffered: self.buffered,
            interval_s: self.common.interval,
            dir: self.common.dir.clone(),
            settings: match self.common.memory_mb {
                Some(_) => self.common.settings()?,
                None => {
                    let given = self.common.settings()?;
                    let memory = scaled.settings;
                    siltstone_bench::engines::EngineSettings {
                        cache_bytes: memory.cache_bytes,
                        write_buffer_bytes: memory.write_buffer_bytes,
                        ..given
                    }
                }
            },
            ..scaled
        })
    }
}
