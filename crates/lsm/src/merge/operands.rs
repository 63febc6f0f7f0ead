//! Operands of one key, copied one behind the other.

/// A list of operands. Its memory is kept when it is cleared.
#[derive(Debug, Default)]
pub(crate) struct Operands {
    bytes: Vec<u8>,
    /// Where each operand ends, in the order in which they came.
    ends: Vec<usize>,
}

impl Operands {
    /// Adds an operand behind the others.
    pub(crate) fn push(&mut self, operand: &[u8]) {
        self.bytes.extend_from_slice(operand);
        self.ends.push(self.bytes.len());
    }

    /// Whether there is none.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Bytes of all operands.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Removes all.
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// In the order in which they came.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &[u8]> + ExactSizeIterator {
        (0..self.ends.len()).map(|index| {
            let start = if index == 0 { 0 } else { self.ends[index - 1] };
            &self.bytes[start..self.ends[index]]
        })
    }

    /// As they came: for those that came oldest first.
    pub(crate) fn in_order(&self) -> Vec<&[u8]> {
        self.iter().collect()
    }

    /// The last one first: for those that came newest first.
    pub(crate) fn reversed(&self) -> Vec<&[u8]> {
        self.iter().rev().collect()
    }
}
