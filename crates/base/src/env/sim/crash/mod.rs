//! What a disk may hold after a crash.
//!
//! The generator plays a recording again, change by change. After each it lists the items that are not durable (pages,
//! lengths, changes of names) and yields disks on which some of them were kept and the others lost. Up to
//! [`exhaustive_items`](CrashConfig::exhaustive_items) items all subsets are taken; beyond that every prefix in time, each item
//! alone dropped, each alone kept, and random subsets. Torn writes, cut tails and stale bytes come on top.

mod choices;
mod image;
mod random;

use super::disk::{Recording, SimDisk};
use super::fault::OpInfo;
use super::volume::{Mutation, Volume};
use choices::Choice;
use image::Items;
use random::Random;
use std::collections::{HashSet, VecDeque};
use std::ops::Range;

/// Which assumption about the device a crash state comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CrashModel {
    /// M0: only what was synced is there.
    SyncedOnly,
    /// M1: the process was killed; everything written is there, and what was not synced is still not durable.
    ProcessDeath,
    /// M2: the unsynced tail of a file is cut at any byte.
    TornTail,
    /// M3: any subset of the unsynced pages is there; lost pages read as their durable version or as zero.
    Pages,
    /// M4: the last write is torn at any sector, or at any byte if it is short.
    TornWrite,
    /// M5: lengths and names are there without what came before them, or are lost alone.
    Metadata,
    /// M6: pages that never reached the device show the bytes of a deleted file.
    StaleBytes,
}

impl CrashModel {
    /// Every model, in order.
    pub const ALL: [Self; 7] = [
        Self::SyncedOnly,
        Self::ProcessDeath,
        Self::TornTail,
        Self::Pages,
        Self::TornWrite,
        Self::Metadata,
        Self::StaleBytes,
    ];

    /// The short name: `M0` to `M6`.
    pub const fn code(self) -> &'static str {
        match self {
            Self::SyncedOnly => "M0",
            Self::ProcessDeath => "M1",
            Self::TornTail => "M2",
            Self::Pages => "M3",
            Self::TornWrite => "M4",
            Self::Metadata => "M5",
            Self::StaleBytes => "M6",
        }
    }
}

/// How far the enumeration goes.
#[derive(Debug, Clone)]
pub struct CrashConfig {
    /// Seed of all random choices.
    pub seed: u64,
    /// Cuts to look at: after how many changes the machine stops.
    pub cuts: Range<usize>,
    /// Look at every so many cuts only; the first one is always looked at.
    pub every: usize,
    /// New states at most for one cut.
    pub states_per_cut: usize,
    /// Pending items up to which all subsets are taken. At most 16.
    pub exhaustive_items: usize,
    /// Random subsets of each sort beyond that.
    pub random_subsets: usize,
    /// Cuts of the tail of each file.
    pub tail_cuts: usize,
    /// Ways to tear the last write.
    pub tears: usize,
}

impl Default for CrashConfig {
    fn default() -> Self {
        Self {
            seed: 1,
            cuts: 0..usize::MAX,
            every: 1,
            states_per_cut: 64,
            exhaustive_items: 8,
            random_subsets: 32,
            tail_cuts: 12,
            tears: 16,
        }
    }
}

/// One possible disk after a crash.
#[derive(Debug)]
pub struct CrashState {
    /// How many changes had been made.
    pub cut: usize,
    /// The last of them.
    pub op: Option<OpInfo>,
    /// Where the state comes from.
    pub model: CrashModel,
    /// A hash of names, lengths and bytes.
    pub hash: u64,
    image: Option<Volume>,
}

impl CrashState {
    /// Whether no earlier state of the same generator had the same names, lengths and bytes. What a repeated state
    /// recovers to is known; what it must hold may have become more.
    pub fn is_new(&self) -> bool {
        self.image.is_some()
    }

    /// The disk, without faults, locks and recording. `None` for a repeated state.
    pub fn disk(&self) -> Option<SimDisk> {
        self.image.clone().map(SimDisk::with_volume)
    }
}

/// Enumerates the crash states of a recording, cut by cut.
#[derive(Debug)]
pub struct CrashStates<'a> {
    recording: &'a Recording,
    config: CrashConfig,
    random: Random,
    volume: Volume,
    /// Changes applied to `volume`.
    applied: usize,
    /// The next cut to look at.
    cut: usize,
    seen: HashSet<u64>,
    ready: VecDeque<CrashState>,
}

impl<'a> CrashStates<'a> {
    /// The states of `recording` as far as `config` goes.
    pub fn new(recording: &'a Recording, config: CrashConfig) -> Self {
        Self {
            recording,
            random: Random::new(config.seed),
            volume: recording.base.clone(),
            applied: 0,
            cut: config.cuts.start,
            seen: HashSet::new(),
            ready: VecDeque::new(),
            config,
        }
    }

    /// Takes `hashes` for states that were seen: they are yielded as repeated.
    #[must_use]
    pub fn with_seen(mut self, hashes: HashSet<u64>) -> Self {
        self.seen = hashes;
        self
    }

    /// Distinct states yielded so far, by hash.
    pub fn distinct(&self) -> usize {
        self.seen.len()
    }

    /// Fills `ready` with the states of the next cut. Returns false behind the last one.
    fn advance(&mut self) -> bool {
        let cut = self.cut;
        if cut > self.recording.ops.len() || cut >= self.config.cuts.end {
            return false;
        }
        self.cut = cut.saturating_add(self.config.every.max(1));
        let mut before = None;
        while let Some(op) = self.recording.ops.get(self.applied).filter(|_| self.applied < cut) {
            if self.applied + 1 == cut
                && let Mutation::Write { inode, .. } = &op.mutation
            {
                before = self.volume.inodes.get(inode).map(|file| file.current.clone());
            }
            self.volume.apply(&op.mutation);
            self.applied += 1;
        }
        let op = cut.checked_sub(1).and_then(|last| self.recording.ops.get(last));
        let items = Items::of(&self.volume);
        let mut choices = choices::standard(&self.config);
        choices.extend(choices::subsets(&items, &self.config, &mut self.random));
        choices.extend(choices::tails(&self.volume, &items, &self.config, &mut self.random));
        if let (Some(op), Some(before)) = (op, before) {
            choices.extend(choices::tears(&op.mutation, &before, &self.config, &mut self.random));
        }
        let fixed = choices::standard(&self.config).len();
        self.random.shuffle(&mut choices[fixed..]);
        self.evaluate(&choices, &items, op.map(|op| op.info));
        true
    }

    fn evaluate(&mut self, choices: &[Choice], items: &Items, op: Option<OpInfo>) {
        let mut new = 0;
        for choice in choices {
            if new == self.config.states_per_cut {
                break;
            }
            let candidate = items.build(&self.volume, choice);
            let hash = candidate.hash(&self.volume);
            let image = self.seen.insert(hash).then(|| match choice.model {
                CrashModel::ProcessDeath => self.volume.without_handles(),
                _ => candidate.into_volume(&self.volume),
            });
            new += usize::from(image.is_some());
            self.ready.push_back(CrashState { cut: self.applied, op, model: choice.model, hash, image });
        }
    }
}

impl Iterator for CrashStates<'_> {
    type Item = CrashState;

    fn next(&mut self) -> Option<CrashState> {
        loop {
            if let Some(state) = self.ready.pop_front() {
                return Some(state);
            }
            if !self.advance() {
                return None;
            }
        }
    }
}
