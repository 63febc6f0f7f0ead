//! Whose runs a comparison is about, and under which conditions.

use super::Figure;
use crate::ResultLine;
use crate::report::conditions::{OWN_DEVICE, exceeds, fits, is_cache_alone, is_half, is_on, is_whole, kept_up};

/// Runs of one engine under some conditions.
#[derive(Debug, Clone, Copy)]
pub(in crate::report) struct Side {
    /// The engine.
    pub engine: &'static str,
    /// Which of its runs count.
    pub runs: Runs,
    /// What is looked at of them.
    pub figure: Figure,
}

/// Which runs count, by their conditions; of what is `None` it may be any.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::report) struct Runs {
    /// The command.
    pub experiment: &'static str,
    /// The workload, or the step.
    pub workload: &'static str,
    /// How many clients.
    pub clients: Option<u32>,
    /// The device.
    pub device: Option<On>,
    /// How much of the data is in memory.
    pub memory: Option<Memory>,
    /// Whether LSM trees compressed.
    pub is_compressed: Option<bool>,
    /// The binlog, as results say it in words.
    pub binlog: Option<Binlog>,
    /// Whether memory was that of the whole process with its page cache.
    pub page_cache: Option<bool>,
    /// The data set.
    pub data_set: Option<&'static str>,
    /// What another stream asks of the device.
    pub load: Option<f64>,
    /// Whether durabilities were as published.
    pub as_published: Option<bool>,
    /// The limits of level 0.
    pub level0: Level0,
    /// Whether runs count, too, that were ended before all their rows were there: what is looked at does not depend on how many there are.
    pub may_end_early: bool,
}

/// The device of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::report) enum On {
    /// One that is modelled, by its name.
    Model(&'static str),
    /// Any but the machine's own.
    NotOwn,
    /// One whose limits the kernel keeps.
    Limited,
    /// The machine's own, without limits of the kernel's.
    Unlimited,
}

/// How much of the data is in memory.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::report) enum Memory {
    /// All of it.
    All,
    /// All of it in a cache that is larger, and nothing else.
    AllInCache,
    /// Half of it and less.
    Half,
    /// A third and less.
    Beyond,
    /// So many fifths, or about as many.
    Fifths(f64),
}

/// The binlog of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::report) enum Binlog {
    /// None.
    Off,
    /// It is left to the operating system.
    Os,
    /// It is synced at every commit.
    Sync,
}

/// The limits of level 0 of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::report) enum Level0 {
    /// The engine's own: runs in which somebody chose them are of experiments with these.
    #[default]
    Own,
    /// Chosen ones: so many files slow writers down.
    Slowdown(&'static str),
}

impl Side {
    /// Whether a run is one of this side's.
    pub(super) fn is_of(&self, run: &ResultLine) -> bool {
        run.engine == self.engine && self.runs.have(run)
    }

    /// Whether a run of this side counts: most do only if they did all that they were to do.
    pub(super) fn counts(&self, run: &ResultLine) -> bool {
        (self.runs.may_end_early || is_whole(run)) && kept_up(run)
    }
}

impl Runs {
    fn have(&self, run: &ResultLine) -> bool {
        let is = |wanted: Option<bool>, is: bool| wanted.is_none_or(|wanted| wanted == is);
        run.experiment == self.experiment
            && run.workload == self.workload
            && self.clients.is_none_or(|clients| run.threads == clients)
            && self.device.is_none_or(|device| device.is_of(run))
            && self.memory.is_none_or(|memory| memory.is_of(run))
            && self.is_compressed.is_none_or(|is_compressed| run.compressed == Some(is_compressed))
            && self.binlog.is_none_or(|binlog| Binlog::of(run) == Some(binlog))
            && is(self.page_cache, run.page_cache == Some(true))
            && self.data_set.is_none_or(|data_set| run.data_set.as_deref() == Some(data_set))
            && self.load.is_none_or(|load| run.device_load == Some(load))
            && self.as_published.is_none_or(|as_published| run.as_published == Some(as_published))
            && self.level0.is_of(run)
    }
}

impl On {
    fn is_of(self, run: &ResultLine) -> bool {
        match self {
            Self::Model(name) => is_on(run, name),
            Self::NotOwn => !is_on(run, OWN_DEVICE),
            Self::Limited => !is_on(run, "unlimited"),
            Self::Unlimited => is_on(run, "unlimited"),
        }
    }
}

impl Memory {
    fn is_of(self, run: &ResultLine) -> bool {
        match self {
            Self::All => fits(run) && !is_cache_alone(run),
            Self::AllInCache => fits(run) && is_cache_alone(run),
            Self::Half => is_half(run),
            Self::Beyond => exceeds(run),
            Self::Fifths(fifths) => run
                .memory_bytes
                .zip(run.data_bytes)
                .is_some_and(|(memory, data)| data > 0 && (memory as f64 * 5.0 / data as f64 - fifths).abs() < 0.5),
        }
    }
}

impl Binlog {
    /// That of a run. `None` where it has one and does not say which.
    pub(in crate::report) fn of(run: &ResultLine) -> Option<Self> {
        if run.binlog_bytes.is_none() {
            return Some(Self::Off);
        }
        let named = [("binlog os", Self::Os), ("binlog sync", Self::Sync)];
        named.into_iter().find(|(name, _)| run.setup.contains(name)).map(|(_, binlog)| binlog)
    }
}

impl Level0 {
    fn is_of(self, run: &ResultLine) -> bool {
        match (self, run.level0.as_deref()) {
            (Self::Own, chosen) => chosen.is_none(),
            // Files at which it is compacted, writers are slowed down, and writers stop.
            (Self::Slowdown(files), Some(chosen)) => chosen.split('/').nth(1) == Some(files),
            (Self::Slowdown(_), None) => false,
        }
    }
}
