//! Arguments of `report`.

use clap::Args;
use std::path::PathBuf;

/// Results to one page.
#[derive(Debug, Args)]
pub struct ReportArguments {
    /// Files of results, as `--json` writes them.
    #[arg(required = true)]
    pub results: Vec<PathBuf>,
    /// The page.
    #[arg(long, value_name = "FILE", default_value = "siltstone-report.html")]
    pub out: PathBuf,
    /// Writes the page of the control instead: what becomes of comparisons with the labels of engines exchanged. Fails where one does not fail.
    #[arg(long)]
    pub swap_labels: bool,
}
