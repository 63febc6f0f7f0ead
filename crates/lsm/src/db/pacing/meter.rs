//! What a kind of job achieves while it runs, and what one kind makes for another.

/// The seconds of work that a rate is measured over: what is older fades.
const MEMORY_SECONDS: f64 = 20.0;

/// The seconds of work before a rate is believed.
const FIRST_SECONDS: f64 = 0.1;

/// How long a guess counts beside what was measured, in seconds of work.
const GUESS_SECONDS: f64 = 4.0;

/// A rate is at least this part of the guess: jobs that wait for something else while they run must not seem to stand.
const LEAST_OF_GUESS: f64 = 0.01;

/// A rate in bytes a second of busy time. Idle time does not lower it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Meter {
    rate: f64,
    /// Seconds of work that the rate stands for.
    seconds: f64,
}

impl Meter {
    /// Takes note of `bytes` in `seconds` of work.
    pub(crate) fn add(&mut self, bytes: u64, seconds: f64) {
        let total = self.seconds + seconds;
        if total > 0.0 {
            self.rate = (self.rate * self.seconds + bytes as f64) / total;
            self.seconds = total.min(MEMORY_SECONDS);
        }
    }

    /// The rate, once there was enough work to tell.
    pub(crate) fn rate(&self) -> Option<f64> {
        (self.seconds >= FIRST_SECONDS && self.rate > 0.0).then_some(self.rate)
    }

    /// The rate, with a guess that counts as so many seconds of work.
    pub(crate) fn rate_beside(&self, guess: f64, seconds: f64) -> f64 {
        (self.rate * self.seconds + guess * seconds) / (self.seconds + seconds)
    }

    /// The rate, with a guess in its place before there was any work; the more work there was, the less the guess counts.
    pub(crate) fn rate_or(&self, guess: f64) -> f64 {
        let guessed = self.guessed();
        (self.rate * (1.0 - guessed) + guess * guessed).max(guess * LEAST_OF_GUESS)
    }

    /// How much of [`rate_or`](Self::rate_or) is the guess: from 1, before there was any work, to 0.
    pub(crate) fn guessed(&self) -> f64 {
        let weight = GUESS_SECONDS * (1.0 - self.seconds / MEMORY_SECONDS);
        weight / (self.seconds + weight)
    }
}

/// The flushed bytes that an amplification is measured over, in write buffers: what is older fades.
const MEMORY_BUFFERS: f64 = 16.0;

/// More than any tree needs; what is above comes of dropped families or deleted files.
const MAX_AMPLIFICATION: f64 = 100.0;

/// How much work for compactions a flushed byte makes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Amplification {
    ratio: f64,
    /// Flushed bytes that the ratio stands for.
    flushed: f64,
}

impl Amplification {
    /// Takes note of `work` that came of `flushed` bytes; both in bytes, from write buffers of `buffer_bytes`.
    pub(crate) fn add(&mut self, work: f64, flushed: f64, buffer_bytes: f64) {
        let total = self.flushed + flushed;
        if total > 0.0 {
            let work = work.clamp(0.0, flushed * MAX_AMPLIFICATION);
            self.ratio = (self.ratio * self.flushed + work) / total;
            self.flushed = total.min(MEMORY_BUFFERS * buffer_bytes);
        }
    }

    /// The ratio; 0 until there is one.
    pub(crate) fn ratio(&self) -> f64 {
        self.ratio
    }
}
