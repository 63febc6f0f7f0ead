//! Arguments of `all`.

use clap::Args;
use siltstone_bench::all::{AllConfig, Scale};
use siltstone_bench::engines::EngineKind;
use std::path::PathBuf;

/// Every experiment at one scale, then the page.
#[derive(Debug, Args)]
pub struct AllArguments {
    /// How large: quick, hour or night.
    #[arg(long, default_value_t = Scale::Quick)]
    scale: Scale,
    /// Only the experiments of these names; a name that none has stands for all that contain it.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Engines beside ours: in kv, ycsb and stalls, which go past the page cache, those that can; all of them in insert-peers, and in sysbench-peers those with direct I/O. None is on a modelled device.
    #[arg(long, value_delimiter = ',')]
    peers: Vec<EngineKind>,
    /// Files of results, by other commands, that the page tells of, too.
    #[arg(long)]
    also: Vec<PathBuf>,
    /// Where results and the page are, and meanwhile the databases. What is complete there is not run again.
    #[arg(long, default_value = "siltstone-results")]
    dir: PathBuf,
    /// Draws keys and values.
    #[arg(long, default_value_t = 42)]
    seed: u64,
    /// Run also what is complete.
    #[arg(long)]
    anew: bool,
    /// Say what would be run, how large it is and about how long it takes; run nothing.
    #[arg(long, visible_alias = "list")]
    dry_run: bool,
}

impl AllArguments {
    /// What is to be run.
    pub fn config(&self) -> AllConfig {
        AllConfig {
            scale: self.scale,
            only: self.only.clone(),
            peers: self.peers.clone(),
            also: self.also.clone(),
            dir: self.dir.clone(),
            seed: self.seed,
            is_anew: self.anew,
            dry_run: self.dry_run,
        }
    }
}
