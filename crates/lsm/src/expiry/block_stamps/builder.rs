//! Gathers the latest stamps of the data blocks of a table that is written.
//!
//! 1. A block that ends becomes a stretch, or joins the one before it if both have the same latest stamp.
//! 2. Where there are too many stretches, those neighbors are joined that lose least by it: seconds, added up over blocks, for which blocks are read that need not be.

use super::{BlockStamps, MAX_STRETCHES, Stretch};
use siltstone_base::expiry::Stamp;

/// What a block loses that is kept for the sake of another one, in seconds; and most that it loses otherwise.
const KEPT_SECONDS: u64 = 1 << 32;

/// Consecutive data blocks, before it is known where in the file they lie.
#[derive(Debug, Clone, Copy)]
struct Blocks {
    count: u64,
    latest: Option<Stamp>,
}

impl Blocks {
    /// These and the next ones as one.
    fn joined(self, next: Self) -> Self {
        Self { count: self.count + next.count, latest: later(self.latest, next.latest) }
    }

    /// What is lost if these blocks are read until `latest` is expired.
    fn loss(self, latest: Option<Stamp>) -> u64 {
        let seconds = match (self.latest, latest) {
            (None, _) => 0,
            (Some(_), None) => KEPT_SECONDS,
            (Some(own), Some(latest)) => latest.seconds.saturating_sub(own.seconds).min(KEPT_SECONDS),
        };
        self.count.saturating_mul(seconds)
    }

    /// What is lost if these and the next ones become one.
    fn loss_of_joining(self, next: Self) -> u64 {
        let latest = later(self.latest, next.latest);
        self.loss(latest).saturating_add(next.loss(latest))
    }
}

/// The later of two stamps; none for those of different groups.
fn later(one: Option<Stamp>, other: Option<Stamp>) -> Option<Stamp> {
    let (one, other) = (one?, other?);
    (one.group == other.group).then(|| one.max(other))
}

/// The latest stamps of the data blocks of one table, while it is written.
#[derive(Debug, Default)]
pub(crate) struct BlockStampsBuilder {
    ended: Vec<Blocks>,
    /// How many blocks ended.
    blocks: u64,
    /// Of the block that is being written: what it has so far, if it has anything.
    latest: Option<Option<Stamp>>,
}

impl BlockStampsBuilder {
    /// Adds an entry of the block at hand; without a stamp if it never expires.
    #[inline]
    pub(crate) fn add(&mut self, stamp: Option<Stamp>) {
        self.latest = Some(match self.latest {
            None => stamp,
            Some(latest) => later(latest, stamp),
        });
    }

    /// Ends the block at hand. `goes_on` says that the next one begins with an older version of its last user key.
    pub(crate) fn end_block(&mut self, goes_on: bool) {
        let latest = self.latest.take().flatten().filter(|_| !goes_on);
        self.blocks += 1;
        push(&mut self.ended, Blocks { count: 1, latest });
        if self.ended.len() >= 2 * MAX_STRETCHES {
            self.thin_out();
        }
    }

    /// The latest stamps, by the name of the policy that told them. `ends` are the offsets behind all blocks that ended. `None` if all are kept.
    pub(crate) fn finish(mut self, policy: &str, mut ends: impl Iterator<Item = u64>) -> Option<BlockStamps> {
        self.thin_out();
        if self.ended.iter().all(|blocks| blocks.latest.is_none()) {
            return None;
        }
        let stretch = |blocks: &Blocks| {
            let last = usize::try_from(blocks.count).ok()?.checked_sub(1)?;
            Some(Stretch { end: ends.nth(last)?, latest: blocks.latest })
        };
        let stretches = self.ended.iter().map(stretch).collect::<Option<Vec<Stretch>>>()?;
        Some(BlockStamps { policy: policy.to_owned(), blocks: self.blocks, stretches })
    }

    /// Joins neighbors until there are not too many.
    fn thin_out(&mut self) {
        while self.ended.len() > MAX_STRETCHES {
            let pairs = self.ended.iter().zip(self.ended.iter().skip(1));
            let mut losses: Vec<u64> = pairs.map(|(one, next)| one.loss_of_joining(*next)).collect();
            let middle = losses.len() / 2;
            let (_, most, _) = losses.select_nth_unstable(middle);
            let most = *most;
            let mut rest = std::mem::take(&mut self.ended).into_iter().peekable();
            while let Some(one) = rest.next() {
                let next = rest.next_if(|next| one.loss_of_joining(*next) <= most);
                push(&mut self.ended, next.map_or(one, |next| one.joined(next)));
            }
        }
    }
}

/// Adds blocks behind others, which they join if nothing is lost by it.
fn push(ended: &mut Vec<Blocks>, blocks: Blocks) {
    match ended.last_mut() {
        Some(last) if last.latest == blocks.latest => *last = last.joined(blocks),
        _ => ended.push(blocks),
    }
}
