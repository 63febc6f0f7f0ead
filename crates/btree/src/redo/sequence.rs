//! Numbers of checkpoints.

/// Counts checkpoints, and begins anew when its 32 bits are used up: of two numbers the older is the one from which fewer steps lead to the other (serial numbers, RFC 1982). So numbers that are compared
/// must lie less than half of all numbers apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sequence(u32);

impl Sequence {
    /// Of the checkpoint that a log is created with, and of no other.
    pub(super) const FIRST: Self = Self(1);

    /// Numbers between a checkpoint and the first of its life beyond which the life is said to have begun later.
    const FAR: u32 = 1 << 30;

    /// As a file states it.
    pub(super) fn from_file(number: u32) -> Self {
        Self(number)
    }

    pub(super) fn number(self) -> u32 {
        self.0
    }

    /// The place of the two that a checkpoint is written to: every second one.
    pub(super) fn place(self) -> usize {
        self.0 as usize % 2
    }

    /// Of the next checkpoint: never [`Self::FIRST`] again.
    pub(super) fn next(self) -> Self {
        Self(self.0.checked_add(1).unwrap_or(Self::FIRST.0 + 1))
    }

    pub(super) fn is_before(self, other: Self) -> bool {
        (self.0.wrapping_sub(other.0) as i32) < 0
    }

    /// Whether `first`, of the life in which this checkpoint is written, lies so far back that it could soon be taken for a later one.
    pub(super) fn is_far_behind(self, first: Self) -> bool {
        self.0.wrapping_sub(first.0) >= Self::FAR
    }

    /// A number that lies half as far back as one [may](Self::is_far_behind).
    pub(super) fn back(self) -> Self {
        Self(self.0.wrapping_sub(Self::FAR / 2))
    }
}
