//! Tables with rows that are expired for every reader: all of them, or so many that rewriting the others costs little.
//!
//! A table of which every entry is an expired row may go by an edit of the MANIFEST alone, unless something older has keys in its range: that would come back. So
//! tables are looked at from the oldest data to the newest, and one may go if all that is older and meets its range goes too.
//!
//! A table with fewer is merged into what is beneath it, if that is the bottom: then no tombstones take the place of the rows. That must write at most [`MOST_REWRITTEN`]
//! bytes for each byte that it gives back.
//!
//! A table at the bottom is rewritten where it is, when it is its *turn*. Rows of one age expire in all tables of a range together: if each table were rewritten at the
//! same share, much would be expired everywhere until all were written at once. So neighbors take turns. Once enough of what some of them have together is expired, the
//! one with the largest share goes, though it may be early; the others wait, and give the more back the later they go. What is expired on the whole stays less, and so does
//! what is written for it.
//!
//! One that [goes soon](Expiring::goes_soon) as a whole is not rewritten before: tables of keys that follow time would be, each once, for nothing.

use super::inputs::{Scene, meeting};
use super::upkeep;
use crate::compaction::{Compaction, CompressionType, LevelInputs};
use crate::event::CompactionReason;
use crate::expiry::Expiring;
use crate::file_meta::{FileMeta, Stamps};
use crate::options::CompactionStyle;
use crate::version::Version;
use siltstone_base::expiry::Stamp;
use siltstone_base::plant::{PlantedBug, is_planted};
use std::collections::HashSet;
use std::sync::Arc;

/// Most bytes that are written for each byte that a rewrite gives back.
const MOST_REWRITTEN: u64 = 2;

/// At most so many tables are tried, the best first.
const MAX_TRIED: usize = 16;

/// Neighbors of a table at either side that take turns with it, if they are as old as it is.
const NEIGHBORS: usize = 4;

/// Tables are of one age if their last rows expire within such a part of the time for which rows live. Those that writes still reach have younger rows, and lose their
/// expired ones to other compactions.
const SAME_AGE_PART: u64 = 8;

/// Percentage of the bytes of neighbors that are expired when it is the turn of one of them: so many, and a share of so many for each of them. A table alone is
/// rewritten when a third of it is expired.
const TURN_PERCENT: u64 = 23;
const TURN_PERCENT_OF_ONE: u64 = 10;

/// Percentage that is expired of all tables that are rewritten with one whose turn it is: versions of one key stay together.
const LEAST_EXPIRED_PERCENT: u64 = 20;

/// A table whose last row expires within such a part of the time for which rows live is left to go as a whole.
const SOON_PART: u64 = 64;

/// Percentage of a table that is expired when it waits for nobody.
const MOST_EXPIRED_PERCENT: u64 = 45;

impl Expiring {
    /// Whether every entry of a table is an expired row.
    pub(crate) fn is_whole_table(&self, file: &FileMeta) -> bool {
        match file.stamps(self.policy.name()) {
            Stamps::Known(stamps) => stamps.is_all_expired(|group| self.bound(group)),
            Stamps::Unread | Stamps::Unknown | Stamps::Foreign => false,
        }
    }

    /// Whether a table goes as a whole before long: its last row expires within a [part](SOON_PART) of the time for which rows live. One that could go now and does not is kept
    /// by something, and does not go soon.
    fn goes_soon(&self, file: &FileMeta) -> bool {
        let Stamps::Known(stamps) = file.stamps(self.policy.name()) else { return false };
        let left = |stamp| self.policy.expires_at(stamp).map(|at| at.saturating_sub(self.time));
        let is_soon = |stamp: Stamp| {
            let lives = left(Stamp { seconds: self.time, ..stamp });
            left(stamp).zip(lives).is_some_and(|(left, lives)| left <= lives / SOON_PART)
        };
        let may_go = file.oldest_blob_file().is_none() && !self.is_whole_table(file);
        may_go && stamps.latest().is_some_and(|mut latest| latest.all(is_soon))
    }

    /// When the last row of a table expires; `None` if that is not known, or never.
    fn last_expiry(&self, file: &FileMeta) -> Option<u64> {
        let Stamps::Known(stamps) = file.stamps(self.policy.name()) else { return None };
        stamps.latest()?.try_fold(0, |last: u64, stamp| Some(last.max(self.policy.expires_at(stamp)?)))
    }

    /// For how long rows of a table live that are written now: those that live the shortest time of all that it has.
    fn lives(&self, file: &FileMeta) -> u64 {
        let Stamps::Known(stamps) = file.stamps(self.policy.name()) else { return 0 };
        let expiries = stamps.latest().into_iter().flatten();
        let lives = expiries.filter_map(|stamp| self.policy.expires_at(Stamp { seconds: self.time, ..stamp }));
        lives.min().map_or(0, |at| at.saturating_sub(self.time))
    }

    /// Whether tables are of [one age](SAME_AGE_PART).
    fn are_of_one_age(&self, one: &FileMeta, other: &FileMeta) -> bool {
        let lives = self.lives(one).min(self.lives(other));
        match (self.last_expiry(one), self.last_expiry(other)) {
            (Some(one), Some(other)) => one.abs_diff(other) <= lives / SAME_AGE_PART,
            (one, other) => one == other,
        }
    }

    /// How many bytes of a table expired rows take: about, and rather too few. Of one whose stamps are not known and that was written so long ago that rows which were
    /// stamped then are expired: all.
    pub(crate) fn bytes_of_table(&self, file: &FileMeta) -> u64 {
        match file.stamps(self.policy.name()) {
            Stamps::Known(stamps) => {
                let (all, expired) = (stamps.all().bytes, stamps.expired(|group| self.bound(group)).bytes);
                let part = u128::from(file.data_bytes()) * u128::from(expired) / u128::from(all.max(1));
                u64::try_from(part).unwrap_or(u64::MAX).min(file.file_size)
            }
            Stamps::Unknown if self.bound(0).is_some_and(|bound| (1..=bound).contains(&upkeep::written(file))) => {
                file.file_size
            }
            // Stamps of another policy may be anything to this one: such a table stays until somebody compacts it.
            Stamps::Unread | Stamps::Unknown | Stamps::Foreign => 0,
        }
    }
}

/// The tables that may go by an edit, with their levels, the oldest data first.
pub(crate) fn droppable<'a>(version: &'a Version, expiring: &Expiring) -> Vec<(usize, &'a Arc<FileMeta>)> {
    let mut going: Vec<(usize, &Arc<FileMeta>)> = Vec::new();
    let mut numbers = HashSet::new();
    for level in (0..version.num_levels()).rev() {
        // Of level 0 the newest come first.
        let files = version.files(level);
        let oldest_first = (0..files.len()).map(|index| if level == 0 { files.len() - 1 - index } else { index });
        for file in oldest_first.filter_map(|index| files.get(index)) {
            // The counts of what blob files still have are kept by compactions that read it.
            if !file.is_being_compacted()
                && file.oldest_blob_file().is_none()
                && expiring.is_whole_table(file)
                && is_nothing_older(version, level, file, &numbers)
            {
                numbers.insert(file.number);
                going.push((level, file));
            }
        }
    }
    going
}

/// Whether nothing that is older than `file` of `level` and has keys of its range stays when `going` go.
fn is_nothing_older(version: &Version, level: usize, file: &Arc<FileMeta>, going: &HashSet<u64>) -> bool {
    if is_planted(PlantedBug::ExpiredOverOlder) {
        return true;
    }
    let (smallest, largest) = (Some(file.smallest.user_key()), Some(file.largest.user_key()));
    let goes = |other: &Arc<FileMeta>| going.contains(&other.number);
    // Versions of one key may go on in the next table of a level.
    let beside = || match level {
        0 => version
            .files(0)
            .iter()
            .skip_while(|other| other.number != file.number)
            .skip(1)
            .all(|other| goes(other) || !meets(version, file, other)),
        _ => meeting(version, level, std::slice::from_ref(file)).iter().all(|other| other.number == file.number),
    };
    let beneath = || {
        (level + 1..version.num_levels())
            .all(|below| version.overlapping_files(below, smallest, largest).iter().all(goes))
    };
    beside() && beneath()
}

/// Whether tables that were picked to go as a whole may still go: they are where they were, and nothing older has come beneath.
pub(crate) fn may_still_go(compaction: &Compaction, version: &Version) -> bool {
    let going: HashSet<u64> = compaction.input_files().map(|(_, file)| file.number).collect();
    compaction.input_files().all(|(level, file)| {
        let is_there = version.files(level).iter().any(|other| other.number == file.number);
        is_there && is_nothing_older(version, level, file, &going)
    })
}

fn meets(version: &Version, one: &FileMeta, other: &FileMeta) -> bool {
    let order = version.comparator();
    order.compare_user(one.smallest.user_key(), other.largest.user_key()).is_le()
        && order.compare_user(other.smallest.user_key(), one.largest.user_key()).is_le()
}

/// The compaction that lets all tables go that may; `None` if none may.
pub(super) fn pick_drop(version: &Arc<Version>, expiring: &Expiring) -> Option<Compaction> {
    let mut inputs: Vec<LevelInputs> = Vec::new();
    for (level, file) in droppable(version, expiring) {
        let place = inputs.partition_point(|inputs| inputs.level < level);
        if inputs.get(place).is_none_or(|inputs| inputs.level != level) {
            inputs.insert(place, LevelInputs { level, files: Vec::new() });
        }
        // Of level 0 the newest come first.
        let files = &mut inputs[place].files;
        files.insert(if level == 0 { 0 } else { files.len() }, Arc::clone(file));
    }
    let output_level = inputs.first()?.level;
    Some(Compaction {
        family: version.family(),
        reason: CompactionReason::Expired,
        inputs,
        output_level,
        input_version: Arc::clone(version),
        grandparents: Vec::new(),
        target_file_size: u64::MAX,
        max_output_file_size: u64::MAX,
        max_compaction_bytes: u64::MAX,
        compression: CompressionType::None,
        trivial_move: false,
        deletes: true,
        bottommost: false,
        fences: Vec::new(),
        merge: None,
    })
}

/// The compaction that gives most bytes back; `None` if there is none that is worth it.
pub(super) fn pick_rewrite(scene: &Scene<'_>, expiring: &Expiring) -> Option<Compaction> {
    let last = scene.version.last_level_with_data()?;
    let is_leveled = scene.options.compaction_style == CompactionStyle::Leveled;
    let is_level0_busy = scene.running.has_level0();
    let mut candidates: Vec<(u64, usize, &Arc<FileMeta>)> = Vec::new();
    for (level, file) in scene.version.all_files() {
        // In other styles a table is not merged into the next level.
        if file.is_being_compacted() || (!is_leveled && (level == 0 || level < last)) || (level == 0 && is_level0_busy)
        {
            continue;
        }
        let bytes = expiring.bytes_of_table(file);
        let is_good = match upkeep::output_level(scene, level, last) == level {
            true => is_its_turn(scene.version, expiring, level, file, bytes) && !expiring.goes_soon(file),
            false => is_worth_it(file.file_size, bytes),
        };
        // What cannot be the bottom is not tried: there may be many of it, with most bytes.
        if is_good && ends_at_bottom(scene, level, last, file) {
            candidates.push((bytes, level, file));
        }
    }
    candidates.sort_by(|a, b| b.0.cmp(&a.0).then(a.2.number.cmp(&b.2.number)));
    candidates.into_iter().take(MAX_TRIED).find_map(|(_, level, file)| {
        let picked = upkeep::compaction(scene, level, file, CompactionReason::Expired)?;
        let given_back = picked.input_files().map(|(_, file)| expiring.bytes_of_table(file));
        let given_back = given_back.fold(0, u64::saturating_add);
        let is_worth_it = match picked.output_level == level {
            true => is_part(given_back, LEAST_EXPIRED_PERCENT, picked.input_bytes()),
            false => is_worth_it(picked.input_bytes(), given_back),
        };
        (picked.bottommost && picked.output_level > 0 && is_worth_it).then_some(picked)
    })
}

/// Whether rewriting a table of `level` alone would end above nothing.
fn ends_at_bottom(scene: &Scene<'_>, level: usize, last: usize, file: &FileMeta) -> bool {
    let output_level = upkeep::output_level(scene, level, last);
    let (smallest, largest) = (Some(file.smallest.user_key()), Some(file.largest.user_key()));
    (output_level + 1..=last).all(|below| scene.version.overlapping_files(below, smallest, largest).is_empty())
}

/// Whether a table at the bottom, of which so many bytes are expired, is to be rewritten before its neighbors.
fn is_its_turn(version: &Version, expiring: &Expiring, level: usize, file: &FileMeta, expired: u64) -> bool {
    if is_part(expired, MOST_EXPIRED_PERCENT, file.file_size) {
        return true;
    }
    // Most tables are nowhere near.
    if !is_part(expired, TURN_PERCENT, file.file_size) {
        return false;
    }
    let files = version.files(level);
    let Some(place) = files.iter().position(|other| other.number == file.number) else { return false };
    let around = files.iter().take(place + NEIGHBORS + 1).skip(place.saturating_sub(NEIGHBORS));
    let (mut tables, mut all, mut all_expired) = (0, 0_u64, 0_u64);
    let takes_part = |other: &&Arc<FileMeta>| {
        let is_free = || !other.is_being_compacted() && !expiring.goes_soon(other);
        other.number == file.number || (is_free() && expiring.are_of_one_age(file, other))
    };
    for other in around.filter(takes_part) {
        let of_other = expiring.bytes_of_table(other);
        if u128::from(of_other) * u128::from(file.file_size) > u128::from(expired) * u128::from(other.file_size) {
            return false;
        }
        tables += 1;
        all = all.saturating_add(other.file_size);
        all_expired = all_expired.saturating_add(of_other);
    }
    is_part(all_expired, TURN_PERCENT + TURN_PERCENT_OF_ONE / tables.max(1), all)
}

/// Whether `part` is at least so many percent of `whole`.
fn is_part(part: u64, percent: u64, whole: u64) -> bool {
    part > 0 && u128::from(part) * 100 >= u128::from(whole) * u128::from(percent)
}

/// Whether rewriting tables of so many bytes is worth the expired ones among them.
fn is_worth_it(bytes: u64, expired: u64) -> bool {
    expired > 0 && bytes.saturating_sub(expired) <= expired.saturating_mul(MOST_REWRITTEN)
}
