//! Entries of secondary indexes, one and many.

/// An entry of a secondary index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexEntry<'a> {
    /// What the index sorts by.
    pub index_key: &'a [u8],
    /// The row that it leads to.
    pub primary_key: &'a [u8],
    /// What it holds of the row beside, as the index's specification says.
    pub covered: &'a [u8],
}

/// Entries that wait for their rows.
#[derive(Debug, Default)]
pub struct IndexEntries {
    bytes: Vec<u8>,
    /// Where the index key, the primary key and the covered columns of each end.
    ends: Vec<[usize; 3]>,
}

impl IndexEntries {
    /// Forgets all.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// Adds one behind the others.
    pub fn push(&mut self, entry: IndexEntry<'_>) {
        let parts = [entry.index_key, entry.primary_key, entry.covered];
        self.ends.push(parts.map(|part| {
            self.bytes.extend_from_slice(part);
            self.bytes.len()
        }));
    }

    /// Their number.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Bytes of all.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The entry at a position.
    ///
    /// # Panics
    ///
    /// If there are not so many.
    pub fn get(&self, position: usize) -> IndexEntry<'_> {
        let start = position.checked_sub(1).map_or(0, |before| self.ends[before][2]);
        let [index_key, primary_key, covered] = self.ends[position];
        IndexEntry {
            index_key: &self.bytes[start..index_key],
            primary_key: &self.bytes[index_key..primary_key],
            covered: &self.bytes[primary_key..covered],
        }
    }

    /// Positions in the order of primary keys.
    pub fn by_primary_key(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.len()).collect();
        order.sort_unstable_by(|a, b| self.get(*a).primary_key.cmp(self.get(*b).primary_key));
        order
    }
}
