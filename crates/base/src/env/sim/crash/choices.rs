//! Which items a crash keeps.

use super::image::{ItemKind, Items};
use super::random::Random;
use super::{CrashConfig, CrashModel};
use crate::env::sim::content::Content;
use crate::env::sim::names::InodeId;
use crate::env::sim::volume::{Mutation, Volume};
use std::sync::Arc;

/// Bytes that a device writes as one.
const SECTOR: u64 = 512;

/// Which of the pending items are kept.
#[derive(Debug, Clone)]
pub(super) enum Keep {
    All,
    None,
    /// Lengths and names.
    NoPages,
    OnlyNames,
    /// Pages and lengths.
    NoNames,
    Some(Vec<bool>),
}

/// What a file holds beside what is kept of it.
#[derive(Debug, Clone)]
pub(super) enum Special {
    None,
    /// Lost pages show the bytes of deleted files.
    Stale,
    /// A file holds exactly this.
    Content(InodeId, Arc<Content>),
}

impl Special {
    pub(super) fn inode(&self) -> Option<InodeId> {
        match self {
            Self::Content(inode, _) => Some(*inode),
            Self::None | Self::Stale => None,
        }
    }
}

/// One outcome of a crash.
#[derive(Debug, Clone)]
pub(super) struct Choice {
    pub(super) model: CrashModel,
    pub(super) keep: Keep,
    pub(super) special: Special,
}

impl Choice {
    fn plain(model: CrashModel, keep: Keep) -> Self {
        Self { model, keep, special: Special::None }
    }
}

/// What is looked at first at every cut.
pub(super) fn standard(_: &CrashConfig) -> Vec<Choice> {
    vec![
        Choice::plain(CrashModel::SyncedOnly, Keep::None),
        Choice::plain(CrashModel::ProcessDeath, Keep::All),
        Choice::plain(CrashModel::Pages, Keep::OnlyNames),
        Choice::plain(CrashModel::Metadata, Keep::NoPages),
        Choice::plain(CrashModel::Metadata, Keep::NoNames),
        Choice { model: CrashModel::StaleBytes, keep: Keep::NoPages, special: Special::Stale },
    ]
}

/// All subsets of few items; prefixes, single items and random subsets of many.
pub(super) fn subsets(items: &Items, config: &CrashConfig, random: &mut Random) -> Vec<Choice> {
    let count = items.kinds.len();
    let mut masks: Vec<Vec<bool>> = Vec::new();
    if count <= config.exhaustive_items.min(16) {
        masks.extend((1..1_u32 << count).map(|bits| (0..count).map(|index| bits >> index & 1 == 1).collect()));
    } else {
        let is_name = |index: usize| matches!(items.kinds[index], ItemKind::Name(_));
        let singles = count.min(config.random_subsets.max(1));
        for chosen in 0..singles {
            // Beyond so many items, a spread of them, another one at every cut.
            let at = if singles == count { chosen } else { random.below(count as u64) as usize };
            masks.push((0..count).map(|index| index <= at).collect());
            masks.push((0..count).map(|index| index != at).collect());
            masks.push((0..count).map(|index| index == at).collect());
            masks.push((0..count).map(|index| index == at || is_name(index)).collect());
            if is_name(at) {
                masks.push((0..count).map(|index| index <= at || !is_name(index)).collect());
                masks.push((0..count).map(|index| index <= at && is_name(index)).collect());
            }
        }
        for _ in 0..config.random_subsets {
            let mut coin = || random.next() & 1 == 1;
            masks.push((0..count).map(|_| coin()).collect());
            masks.push((0..count).map(|index| is_name(index) || coin()).collect());
            masks.push((0..count).map(|index| !is_name(index) || coin()).collect());
        }
    }
    let mut choices = Vec::with_capacity(masks.len() + config.random_subsets);
    for (index, mask) in masks.into_iter().enumerate() {
        let model = model_of(items, &mask);
        if index < config.random_subsets && lengths_without_pages(items, &mask) {
            let keep = Keep::Some(mask.clone());
            choices.push(Choice { model: CrashModel::StaleBytes, keep, special: Special::Stale });
        }
        choices.push(Choice::plain(model, Keep::Some(mask)));
    }
    choices
}

/// M3 if only pages are lost, M5 otherwise.
fn model_of(items: &Items, mask: &[bool]) -> CrashModel {
    let lost = |(kind, kept): (&ItemKind, &bool)| !kept && !matches!(kind, ItemKind::Page(..));
    if items.kinds.iter().zip(mask).any(lost) { CrashModel::Metadata } else { CrashModel::Pages }
}

fn lengths_without_pages(items: &Items, mask: &[bool]) -> bool {
    let mut pairs = items.kinds.iter().zip(mask);
    let len_kept = pairs.clone().any(|(kind, kept)| *kept && matches!(kind, ItemKind::Len(_)));
    len_kept && pairs.any(|(kind, kept)| !kept && matches!(kind, ItemKind::Page(..)))
}

/// The unsynced tail of each file cut at ends of writes, at their neighbours, at sectors and anywhere.
pub(super) fn tails(volume: &Volume, items: &Items, config: &CrashConfig, random: &mut Random) -> Vec<Choice> {
    let mut choices = Vec::new();
    for kind in &items.kinds {
        let ItemKind::Len(inode) = kind else { continue };
        let Some(file) = volume.inodes.get(inode) else { continue };
        let (durable, current) = (file.durable.len(), file.current.len());
        if current <= durable {
            continue;
        }
        let mut cuts: Vec<u64> = Vec::new();
        for end in file.write_ends.iter().rev().take(8) {
            cuts.extend([end.saturating_sub(1), *end, end + 1, end + 6, end + 7, end + 8]);
        }
        for _ in 0..config.tail_cuts {
            let at = durable + random.below(current - durable);
            cuts.extend([at, at / SECTOR * SECTOR]);
        }
        cuts.retain(|cut| (durable..current).contains(cut));
        cuts.sort_unstable();
        cuts.dedup();
        random.shuffle(&mut cuts);
        for (index, cut) in cuts.into_iter().take(config.tail_cuts).enumerate() {
            let mut content = Content::clone(&file.current);
            content.set_len(cut);
            if index % 4 == 3 {
                // The length got through, the sectors behind the cut did not.
                content.set_len((cut / SECTOR * SECTOR).max(durable));
                content.set_len(current);
            }
            let keep = if index % 2 == 0 { Keep::All } else { Keep::OnlyNames };
            let special = Special::Content(*inode, Arc::new(content));
            choices.push(Choice { model: CrashModel::TornTail, keep, special });
        }
    }
    choices
}

/// The last write torn: cut short, without its front, with a hole, or with any sectors.
pub(super) fn tears(op: &Mutation, before: &Content, config: &CrashConfig, random: &mut Random) -> Vec<Choice> {
    let Mutation::Write { inode, offset, data } = op else { return Vec::new() };
    let end = offset + data.len() as u64;
    let sectors: Vec<u64> = (offset / SECTOR + 1..end.div_ceil(SECTOR)).map(|sector| sector * SECTOR).collect();
    let unit_starts: Vec<u64> = std::iter::once(*offset).chain(sectors).chain([end]).collect();
    // What is kept of the write, and whether its length may be kept too: not with a part of a sector.
    let mut kept: Vec<(Vec<(u64, u64)>, bool)> = Vec::new();
    if data.len() as u64 <= SECTOR {
        let mut cuts: Vec<u64> = (1..data.len() as u64).collect();
        random.shuffle(&mut cuts);
        kept.extend(cuts.into_iter().take(config.tears).map(|cut| (vec![(*offset, offset + cut)], false)));
    }
    let mut units: Vec<(u64, u64)> = unit_starts.windows(2).map(|pair| (pair[0], pair[1])).collect();
    units.retain(|(from, to)| from < to);
    if units.len() > 1 {
        for _ in 0..config.tears.div_ceil(4) {
            let at = random.below(units.len() as u64) as usize;
            kept.push((units[..at].to_vec(), true));
            kept.push((units[at..].to_vec(), true));
            let but_one = units.iter().enumerate().filter(|(index, _)| *index != at).map(|(_, unit)| *unit);
            kept.push((but_one.collect(), true));
            kept.push((units.iter().filter(|_| random.next() & 1 == 1).copied().collect(), true));
        }
    }
    let mut choices = Vec::new();
    for (index, (ranges, may_keep_len)) in kept.into_iter().enumerate() {
        let mut content = before.clone();
        for (from, to) in &ranges {
            content.write(*from, &data[(from - offset) as usize..(to - offset) as usize]);
        }
        if may_keep_len && index % 2 == 1 && content.len() < end {
            content.set_len(end);
        }
        let keep = if index % 3 == 2 { Keep::OnlyNames } else { Keep::All };
        let special = Special::Content(*inode, Arc::new(content));
        choices.push(Choice { model: CrashModel::TornWrite, keep, special });
    }
    choices
}
