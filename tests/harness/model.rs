//! What a history of calls means: a list of commits with what was promised for each, and the contents after any prefix.

use super::Outcome;
use crate::demand;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// One change of one key; `None` deletes it.
pub type Change = (u32, Vec<u8>, Option<Vec<u8>>);

/// The contents of one family.
pub type Contents = BTreeMap<Vec<u8>, Vec<u8>>;

/// The contents of all families, by number.
pub type State = BTreeMap<u32, Contents>;

/// One batch. Positions count the changes that the disk had recorded.
#[derive(Debug, Clone)]
pub struct Commit {
    /// What it changes.
    pub changes: Vec<Change>,
    /// When it was asked for.
    pub issued: usize,
    /// When it was acknowledged; `None` if it never was.
    pub acked: Option<usize>,
    /// Whether the acknowledgement promises durability.
    pub synced: bool,
}

/// A promise that the first `commits` are durable, made at `acked`.
#[derive(Debug, Clone, Copy)]
pub struct Barrier {
    /// How many commits.
    pub commits: usize,
    /// When the call that promises it returned.
    pub acked: usize,
}

/// The life of one family.
#[derive(Debug, Clone)]
pub struct FamilyLife {
    /// Its name.
    pub name: String,
    /// When its creation was asked for and acknowledged.
    pub create: (usize, usize),
    /// The same for its drop.
    pub drop: Option<(usize, usize)>,
}

/// All that was asked of an engine.
#[derive(Debug, Clone, Default)]
pub struct History {
    /// The batches, in order.
    pub commits: Vec<Commit>,
    /// Promises of durability other than those of synced batches.
    pub barriers: Vec<Barrier>,
    /// Every family that ever was, by number.
    pub families: BTreeMap<u32, FamilyLife>,
}

/// What a crash leaves of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Death {
    /// The machine stopped: only what was synced is promised.
    PowerLoss,
    /// The process was killed: everything acknowledged is promised.
    Kill,
}

impl History {
    /// The contents after the first `commits`, of all families that ever were.
    pub fn state_after(&self, commits: usize) -> State {
        let mut state: State = self.families.keys().map(|id| (*id, Contents::new())).collect();
        for commit in &self.commits[..commits] {
            apply(&mut state, &commit.changes);
        }
        state
    }

    /// How many commits must be there after a crash at `cut`.
    pub fn promised(&self, cut: usize, death: Death) -> usize {
        let is_promised =
            |commit: &Commit| commit.acked.is_some_and(|acked| acked <= cut) && (commit.synced || death == Death::Kill);
        let commits = self.commits.iter().rposition(is_promised).map_or(0, |index| index + 1);
        let barriers = self.barriers.iter().filter(|barrier| barrier.acked <= cut).map(|barrier| barrier.commits);
        commits.max(barriers.max().unwrap_or(0))
    }

    /// How many commits may be there after a crash at `cut`.
    pub fn possible(&self, cut: usize) -> usize {
        self.commits.iter().take_while(|commit| commit.issued < cut).count()
    }

    /// The hashes of every family after every prefix.
    pub fn prefixes(&self) -> Prefixes {
        let mut state = self.state_after(0);
        let mut hashes: BTreeMap<u32, Vec<u64>> = self.families.keys().map(|id| (*id, vec![0])).collect();
        for commit in &self.commits {
            for (id, hashes) in &mut hashes {
                hashes.push(hashes.last().copied().unwrap_or(0));
                let _ = id;
            }
            for (id, key, value) in &commit.changes {
                let Some(contents) = state.get_mut(id) else { continue };
                let old = match value {
                    Some(value) => contents.insert(key.clone(), value.clone()),
                    None => contents.remove(key),
                };
                if let Some(last) = hashes.get_mut(id).and_then(|hashes| hashes.last_mut()) {
                    *last = last.wrapping_sub(old.map_or(0, |old| hash_entry(key, &old)));
                    *last = last.wrapping_add(value.as_ref().map_or(0, |value| hash_entry(key, value)));
                }
            }
        }
        Prefixes(hashes)
    }

    /// Which families a crash at `cut` must and may leave.
    pub fn check_families(&self, found: &BTreeMap<u32, (String, u64)>, cut: usize) -> Outcome {
        for (id, life) in &self.families {
            let must = life.create.1 <= cut && life.drop.is_none_or(|(issued, _)| issued >= cut);
            let may = life.create.0 < cut && life.drop.is_none_or(|(_, acked)| acked > cut);
            let exists = found.contains_key(id);
            demand!(exists || !must, "family {id} ({}) is gone", life.name);
            demand!(!exists || may || *id == 0, "family {id} ({}) exists", life.name);
        }
        for (id, (name, _)) in found {
            let known = self.families.get(id).is_some_and(|life| life.name == *name);
            demand!(known, "family {id} ({name}) was never created");
        }
        Ok(())
    }
}

/// Applies changes; families that the state does not have are left out.
pub fn apply(state: &mut State, changes: &[Change]) {
    for (id, key, value) in changes {
        let Some(contents) = state.get_mut(id) else { continue };
        match value {
            Some(value) => contents.insert(key.clone(), value.clone()),
            None => contents.remove(key),
        };
    }
}

/// The hash of every family after every prefix of the commits.
#[derive(Debug)]
pub struct Prefixes(BTreeMap<u32, Vec<u64>>);

impl Prefixes {
    /// The longest prefix, of `from..=to` commits, after which all `found` families hold what was found in them.
    pub fn find(&self, found: &BTreeMap<u32, (String, u64)>, from: usize, to: usize) -> Option<usize> {
        let matches = |commits: usize| {
            found.iter().all(|(id, (_, hash))| self.0.get(id).and_then(|hashes| hashes.get(commits)) == Some(hash))
        };
        (from..=to).rev().find(|commits| matches(*commits))
    }
}

/// A hash of contents that does not depend on their order.
pub fn hash_contents<'a>(entries: impl IntoIterator<Item = (&'a [u8], &'a [u8])>) -> u64 {
    entries.into_iter().fold(0, |sum, (key, value)| sum.wrapping_add(hash_entry(key, value)))
}

fn hash_entry(key: &[u8], value: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    (key, value).hash(&mut hasher);
    hasher.finish()
}
