//! Other streams of reads and writes on the machine's own device.

use crate::Rng;
use crate::load::{Measured, Worker};
use crate::stopwatch::Stopwatch;
use crate::values::Values;
use siltstone_base::clock::{Clock, SystemClock};
use siltstone_base::env::{Env, FileKind, FileOptions, IoContext, IoCounters, IoPriority, PosixEnv, RandomWriteFile};
use siltstone_base::sync::Arc;
use siltstone_base::{Error, Result};
use std::path::PathBuf;
use std::time::Duration;

/// Bytes of a read or a write.
const BLOCK: usize = 4_096;

/// Bytes of a write that fills the file.
const PIECE: usize = 1 << 20;

/// Reads and writes a second of a load of one, for loads below it: a quarter are 14.
const PER_SECOND: f64 = 56.0;

/// Longest single sleep: a stream sees after it that it is stopped.
const LONGEST_SLEEP: Duration = Duration::from_millis(50);

const CONTEXT: IoContext = IoContext::new(FileKind::Other, IoPriority::User);

/// A file of which random blocks are read and written, as many of the one as of the other, past the page cache where the file system lets it. Dropping it removes the file.
#[derive(Debug)]
pub(super) struct Streams {
    env: PosixEnv,
    path: PathBuf,
    file: Arc<dyn RandomWriteFile>,
    blocks: u64,
}

impl Streams {
    /// Fills a file of `bytes`, rounded up to whole pieces: what was never written is not read from the device.
    pub(super) fn new(path: PathBuf, bytes: u64, seed: u64) -> Result<Self> {
        let env = PosixEnv::new();
        let failed = |error| Error::io("make the file of the other streams", &path, error);
        if let Some(dir) = path.parent() {
            env.create_dir_all(dir).map_err(failed)?;
        }
        let file = env.open_random_write(&path, &FileOptions::new(FileKind::Other).direct(true)).map_err(failed)?;
        let mut values = Values::new(PIECE, seed);
        let pieces = bytes.div_ceil(PIECE as u64);
        (0..pieces)
            .try_for_each(|piece| file.write_at(piece * PIECE as u64, values.next(), CONTEXT))
            .and_then(|()| file.sync_data(CONTEXT))
            .map_err(failed)?;
        Ok(Self { blocks: pieces * (PIECE / BLOCK) as u64, env, path, file })
    }

    /// How many there are for a load: one that is throttled below one, and otherwise as many as it says, each as fast as it can.
    pub(super) fn count(load: f64) -> usize {
        load.ceil() as usize
    }

    /// Reads and writes until the worker is stopped.
    pub(super) fn run(&self, load: f64, mut rng: Rng, worker: &Worker<'_>) -> Result<()> {
        let (clock, watch) = (SystemClock::new(), Stopwatch::start());
        let mut block = vec![0; BLOCK];
        let gap = if load < 1.0 { 1.0 / (PER_SECOND * load) } else { 0.0 };
        let mut due = 0.0;
        while !worker.is_stopped() {
            let early = due - watch.seconds();
            if early > 0.0 {
                clock.sleep(Duration::from_secs_f64(early).min(LONGEST_SLEEP));
                continue;
            }
            due += gap;
            let at = rng.below(self.blocks) * BLOCK as u64;
            let done = match rng.below(2) {
                0 => self.file.read_at(at, &mut block, CONTEXT).map(drop),
                _ => self.file.write_at(at, &block, CONTEXT),
            };
            done.map_err(|error| Error::io("read or write in another stream", &self.path, error))?;
        }
        Ok(())
    }

    /// What was read and written so far.
    pub(super) fn moved(&self) -> IoCounters {
        self.env.io_stats().snapshot().total()
    }

    /// Takes what the streams moved since `before` out of what the process did. Of single intervals it is not known.
    pub(super) fn take_out(&self, before: &IoCounters, measured: &mut Measured) {
        let moved = self.moved();
        let take = |of_process: &mut Option<u64>, bytes: u64| {
            *of_process = of_process.map(|all| all.saturating_sub(bytes));
        };
        take(&mut measured.usage.written, moved.written_bytes - before.written_bytes);
        take(&mut measured.usage.read, moved.read_bytes - before.read_bytes);
        for interval in &mut measured.intervals {
            (interval.written_per_s, interval.read_per_s) = (None, None);
        }
    }
}

impl Drop for Streams {
    fn drop(&mut self) {
        // Nothing is lost with a file that stays.
        self.env.remove_file(&self.path).ok();
    }
}
