//! Events of the engine as spans and events of the `tracing` crate.

use crate::event::{
    CompactionInfo, EventListener, FlushInfo, JobId, OptionsInfo, PacingInfo, RateLimitInfo, StallCondition, StallInfo,
};
use siltstone_base::Error;
use siltstone_base::sync::{Mutex, Rank};
use std::collections::HashMap;
use std::fmt;
use tracing::Span;
use tracing::field::{Empty, display};

/// Rank of the open spans: a listener is called without the state lock, perhaps under that of writers.
const RANK: Rank = Rank(870);

/// Tells `tracing` what happens in the background: each flush and each compaction is a span from its begin to its end, with what it did as fields; stalls, changes of options and of
/// the rate limit, and errors are events. Names of families and numbers of files are in it, keys and values never are.
///
/// ```
/// use siltstone_lsm::{Db, DbOptions, TracingListener};
/// use std::sync::Arc;
///
/// # fn main() -> siltstone_lsm::Result<()> {
/// # let dir = tempfile::tempdir().expect("a directory");
/// let options = DbOptions::default().create_if_missing(true).listeners(vec![Arc::new(TracingListener::new())]);
/// let db = Db::open(dir.path(), &options)?;
/// # db.close()
/// # }
/// ```
///
/// Thread safety: every method may be called from any thread.
pub struct TracingListener {
    /// Those that have begun, by job.
    spans: Mutex<HashMap<JobId, Span>>,
}

impl TracingListener {
    /// A listener for any number of databases with options of their own; one for each that is to be told apart.
    pub fn new() -> Self {
        Self { spans: Mutex::new(RANK, HashMap::new()) }
    }

    fn begin(&self, job: JobId, span: Span) {
        self.spans.lock().insert(job, span);
    }

    /// Ends the span of a job.
    fn end(&self, job: JobId, error: Option<&Error>, record: impl FnOnce(&Span)) {
        let span = self.spans.lock().remove(&job);
        if let Some(span) = span {
            record(&span);
            if let Some(error) = error {
                span.record("error", display(error));
            }
        }
    }
}

impl Default for TracingListener {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for TracingListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TracingListener").field("spans", &self.spans.lock().len()).finish()
    }
}

impl EventListener for TracingListener {
    fn flush_begin(&self, info: &FlushInfo) {
        let (job, family) = (info.job_id, info.column_family.as_str());
        let span = tracing::info_span!(
            "flush",
            job,
            family,
            reason = ?info.reason,
            entries = Empty,
            file = Empty,
            bytes = Empty,
            error = Empty
        );
        self.begin(job, span);
    }

    fn flush_end(&self, info: &FlushInfo) {
        self.end(info.job_id, info.error.as_ref(), |span| {
            span.record("entries", info.entries).record("file", info.file_number).record("bytes", info.file_size);
        });
    }

    fn compaction_begin(&self, info: &CompactionInfo) {
        let (job, family) = (info.job_id, info.column_family.as_str());
        let span = tracing::info_span!(
            "compaction",
            job,
            family,
            reason = ?info.reason,
            inputs = info.inputs.len() as u64,
            input_bytes = info.input_bytes,
            output_level = info.output_level as u64,
            outputs = Empty,
            output_bytes = Empty,
            error = Empty
        );
        self.begin(job, span);
    }

    fn compaction_end(&self, info: &CompactionInfo) {
        self.end(info.job_id, info.error.as_ref(), |span| {
            span.record("outputs", info.outputs.len() as u64).record("output_bytes", info.output_bytes);
        });
    }

    fn stall_changed(&self, info: &StallInfo) {
        let (family, previous, current) = (info.column_family.as_str(), info.previous, info.current);
        match current {
            StallCondition::Stopped(_) => tracing::warn!(family, ?previous, ?current, "writers are stopped"),
            _ => tracing::info!(family, ?previous, ?current, "stall condition"),
        }
    }

    fn pacing_changed(&self, info: &PacingInfo) {
        let (previous, current, bytes_per_sec) = (info.previous, info.current, info.bytes_per_sec);
        tracing::info!(?previous, ?current, bytes_per_sec, "pacing");
    }

    fn options_changed(&self, info: &OptionsInfo) {
        for changed in &info.changed {
            let (option, before, now) = (changed.name.as_str(), changed.before.as_str(), changed.now.as_str());
            tracing::info!(family = info.column_family.as_deref(), option, before, now, "option changed");
        }
    }

    fn rate_limit_changed(&self, info: &RateLimitInfo) {
        tracing::debug!(previous = info.previous, current = info.current, "rate limit changed");
    }

    fn background_error(&self, error: Option<&Error>) {
        match error {
            Some(error) => tracing::error!(error = %error, "the engine is read-only"),
            None => tracing::info!("the engine has left its error behind"),
        }
    }
}
