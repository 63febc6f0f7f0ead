//! What a workload does.

use super::rig::{FAMILIES, Profile};

/// One call, or a check of what is there.
#[derive(Debug, Clone)]
pub enum Step {
    /// A batch: slot of the family, key, length of the value or a delete.
    Write { changes: Vec<(usize, u32, Option<usize>)>, sync: bool },
    /// Deletes the keys of a family from one number to another, exclusive.
    DeleteRange { slot: usize, from: u32, to: u32, sync: bool },
    /// Flushes the families in these slots.
    Flush(Vec<usize>),
    /// Makes all so far durable.
    SyncWal,
    /// Compacts all keys of a family.
    Compact(usize),
    /// Lets background work end.
    Idle,
    /// Lets background work go so many steps on.
    Work(usize),
    /// Creates the family of a slot, unless it exists.
    Create(usize),
    /// Drops the family of a slot, if it exists.
    Drop(usize),
    /// Closes and opens again.
    Reopen,
    /// Holds the state of this moment.
    TakeSnapshot,
    /// Reads every held state, and lets it go.
    CheckSnapshots,
    /// Reads everything.
    Check,
}

/// A workload.
#[derive(Debug, Clone)]
pub struct Script {
    /// Its name.
    pub name: String,
    /// The options that it needs.
    pub profile: Profile,
    /// What it does.
    pub steps: Vec<Step>,
}

/// How often a random script does what.
#[derive(Debug, Clone)]
pub struct Mix {
    /// Steps of the script.
    pub steps: usize,
    /// Families that it uses, `default` among them.
    pub families: usize,
    /// Keys in each.
    pub keys: u64,
    /// Longest value.
    pub value_len: u64,
    /// Percent of batches that are synced.
    pub synced: u64,
    /// Percent of changes that delete.
    pub deletes: u64,
    /// Percent of writes that delete a range.
    pub range_deletes: u64,
    /// Weights: write, flush, sync the WAL, compact, idle, work, create or drop, reopen, snapshots.
    pub weights: [u64; 9],
}

impl Default for Mix {
    fn default() -> Self {
        Self {
            steps: 60,
            families: 2,
            keys: 24,
            value_len: 300,
            synced: 25,
            deletes: 20,
            range_deletes: 0,
            weights: [70, 6, 3, 2, 2, 10, 0, 0, 3],
        }
    }
}

/// A random script of `mix`, the same for the same seed.
pub fn random(name: &str, seed: u64, profile: &Profile, mix: &Mix) -> Script {
    let mut random = Random::new(seed);
    let mut steps: Vec<Step> = (1..mix.families).map(Step::Create).collect();
    let total: u64 = mix.weights.iter().sum();
    while steps.len() < mix.steps {
        let mut at = random.below(total);
        let chosen = mix.weights.iter().position(|weight| {
            let here = at < *weight;
            at = at.saturating_sub(*weight);
            here
        });
        let slot = random.below(mix.families as u64) as usize;
        steps.push(match chosen.unwrap_or(0) {
            0 if mix.range_deletes > 0 && random.below(100) < mix.range_deletes => delete_range(&mut random, mix),
            0 => write(&mut random, mix),
            1 if random.below(4) == 0 => Step::Flush((0..mix.families).collect()),
            1 => Step::Flush(vec![slot]),
            2 => Step::SyncWal,
            3 => Step::Compact(slot),
            4 => Step::Idle,
            5 => Step::Work(1 + random.below(4) as usize),
            6 if random.below(2) == 0 => Step::Drop(slot.max(1)),
            6 => Step::Create(slot.max(1)),
            7 => Step::Reopen,
            _ if random.below(2) == 0 => Step::CheckSnapshots,
            _ => Step::TakeSnapshot,
        });
    }
    steps.push(Step::CheckSnapshots);
    steps.push(Step::Idle);
    steps.push(Step::Check);
    assert!(mix.families <= FAMILIES.len());
    Script { name: format!("{name}/{seed}"), profile: profile.clone(), steps }
}

fn write(random: &mut Random, mix: &Mix) -> Step {
    let count = 1 + random.below(4);
    let change = |random: &mut Random| {
        let slot = random.below(mix.families as u64) as usize;
        let key = random.below(mix.keys) as u32;
        let len = (random.below(100) >= mix.deletes).then(|| 8 + random.below(mix.value_len) as usize);
        (slot, key, len)
    };
    let changes = (0..count).map(|_| change(random)).collect();
    Step::Write { changes, sync: random.below(100) < mix.synced }
}

fn delete_range(random: &mut Random, mix: &Mix) -> Step {
    let slot = random.below(mix.families as u64) as usize;
    let from = random.below(mix.keys) as u32;
    let to = from + 1 + random.below(mix.keys) as u32;
    Step::DeleteRange { slot, from, to, sync: random.below(100) < mix.synced }
}

/// `SplitMix64`.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// A generator that gives the same numbers for the same seed.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x2545_f491_4f6c_dd1d))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.0;
        value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ (value >> 31)
    }

    /// A number below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }
}
