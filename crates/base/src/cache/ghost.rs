//! What a cache remembers of entries that it has no more.

/// Remembers the hashes of entries that left probation, as many as there are entries; approximately. Who comes back while it is remembered was asked for again too late, and is worth more than a newcomer.
///
/// ```
/// use siltstone_base::cache::Ghost;
///
/// let mut ghost = Ghost::default();
/// ghost.add(0x1234_5678_9abc_def0, 100);
/// assert!(ghost.remove(0x1234_5678_9abc_def0));
/// assert!(!ghost.remove(0x1234_5678_9abc_def0), "once");
/// ```
#[derive(Debug, Default)]
pub struct Ghost {
    /// Fingerprint and time of departure; a newer one takes the place of an older one with the same slot.
    slots: Vec<(u32, u32)>,
    departures: u32,
    remembered: u32,
}

impl Ghost {
    /// Makes room for as many hashes as there are entries, and as many slots that are free.
    pub fn reserve(&mut self, entries: usize) {
        let wanted = (2 * entries.max(8)).next_power_of_two();
        if self.slots.len() < wanted {
            self.slots = vec![(0, 0); wanted];
        }
    }

    /// Remembers the hash of an entry that left; there are `entries` others.
    pub fn add(&mut self, hash: u64, entries: usize) {
        self.reserve(entries);
        self.remembered = u32::try_from(entries).unwrap_or(u32::MAX / 2);
        self.departures = self.departures.wrapping_add(1);
        let slot = self.slot(hash);
        self.slots[slot] = (fingerprint(hash), self.departures);
    }

    /// Whether `hash` is remembered; it is not afterwards.
    pub fn remove(&mut self, hash: u64) -> bool {
        if self.slots.is_empty() {
            return false;
        }
        let slot = self.slot(hash);
        let (known, departed) = self.slots[slot];
        let found = known == fingerprint(hash) && self.departures.wrapping_sub(departed) <= self.remembered;
        if found {
            self.slots[slot] = (0, 0);
        }
        found
    }

    /// Bytes that it takes.
    pub fn memory_usage(&self) -> usize {
        self.slots.capacity() * size_of::<(u32, u32)>()
    }

    fn slot(&self, hash: u64) -> usize {
        hash as usize & (self.slots.len() - 1)
    }
}

/// Never 0, which marks a free slot.
fn fingerprint(hash: u64) -> u32 {
    (hash >> 32) as u32 | 1
}
