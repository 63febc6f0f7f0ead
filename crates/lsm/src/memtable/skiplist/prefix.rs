//! Prefixes: eight bytes of a user key as a number that is compared in place of the key.

use std::cmp::Ordering;

/// The longest common start of keys that is left out of prefixes, in bytes.
const MAX_COMMON_LEN: usize = 64;

/// How prefixes are taken from keys: the order of prefixes never contradicts the order of their keys.
#[derive(Debug)]
pub(super) struct Prefixes {
    /// Whether keys are ordered by their bytes. If not, all prefixes are equal.
    bytewise: bool,
    /// A start that most keys are expected to have. Prefixes are taken from what follows it; keys without it get the smallest
    /// or the largest prefix.
    common: Box<[u8]>,
}

impl Prefixes {
    /// Prefixes for keys that are ordered by their bytes if `bytewise`, most of which lie between the keys `first` and `last`.
    pub(super) fn new(bytewise: bool, first: &[u8], last: &[u8]) -> Self {
        let common = first.iter().zip(last).take(MAX_COMMON_LEN).take_while(|(a, b)| a == b).count();
        Self { bytewise, common: first[..common].into() }
    }

    /// What is left out of prefixes.
    pub(super) fn common_start(&self) -> &[u8] {
        &self.common
    }

    /// The prefix of a key.
    #[inline]
    pub(super) fn of(&self, user_key: &[u8]) -> u64 {
        if !self.bytewise {
            0
        } else if self.common.is_empty() {
            first_eight(user_key)
        } else {
            self.after_common(user_key)
        }
    }

    #[inline]
    fn after_common(&self, user_key: &[u8]) -> u64 {
        match user_key.split_at_checked(self.common.len()) {
            Some((start, rest)) if *start == *self.common => first_eight(rest),
            _ => match user_key.cmp(&self.common) {
                Ordering::Less => 0,
                _ => u64::MAX,
            },
        }
    }
}

/// The first eight bytes as a number, in the order of bytes; missing ones count as zero.
#[inline]
fn first_eight(bytes: &[u8]) -> u64 {
    match bytes.first_chunk::<8>() {
        Some(bytes) => u64::from_be_bytes(*bytes),
        None => {
            let mut padded = [0; 8];
            padded[..bytes.len()].copy_from_slice(bytes);
            u64::from_be_bytes(padded)
        }
    }
}
