//! A batch of puts and deletes in no engine's format.

/// One operation of a [`KvBatch`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KvOp<'a> {
    /// Sets a key.
    Put {
        /// The key.
        key: &'a [u8],
        /// Its new value.
        value: &'a [u8],
    },
    /// Removes a key.
    Delete {
        /// The key.
        key: &'a [u8],
    },
}

#[derive(Debug, Clone, Copy)]
struct Span {
    key_end: usize,
    value_end: usize,
    is_put: bool,
}

/// Puts and deletes that become visible together. Keeps its memory when it is cleared.
#[derive(Debug, Clone, Default)]
pub struct KvBatch {
    bytes: Vec<u8>,
    spans: Vec<Span>,
}

impl KvBatch {
    /// An empty batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a put.
    #[inline]
    pub fn put(&mut self, key: &[u8], value: &[u8]) {
        self.bytes.extend_from_slice(key);
        let key_end = self.bytes.len();
        self.bytes.extend_from_slice(value);
        self.spans.push(Span { key_end, value_end: self.bytes.len(), is_put: true });
    }

    /// Adds a delete.
    #[inline]
    pub fn delete(&mut self, key: &[u8]) {
        self.bytes.extend_from_slice(key);
        let key_end = self.bytes.len();
        self.spans.push(Span { key_end, value_end: key_end, is_put: false });
    }

    /// Forgets the operations and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.spans.clear();
    }

    /// The number of operations.
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Whether there is no operation.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Bytes of all keys and values.
    pub fn payload_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The operations in the order in which they were added.
    pub fn iter(&self) -> KvOps<'_> {
        KvOps { bytes: &self.bytes, spans: self.spans.iter(), start: 0 }
    }
}

impl<'a> IntoIterator for &'a KvBatch {
    type Item = KvOp<'a>;
    type IntoIter = KvOps<'a>;

    fn into_iter(self) -> KvOps<'a> {
        self.iter()
    }
}

/// Iterates over the operations of a [`KvBatch`].
#[derive(Debug, Clone)]
pub struct KvOps<'a> {
    bytes: &'a [u8],
    spans: std::slice::Iter<'a, Span>,
    start: usize,
}

impl<'a> Iterator for KvOps<'a> {
    type Item = KvOp<'a>;

    #[inline]
    fn next(&mut self) -> Option<KvOp<'a>> {
        let span = self.spans.next()?;
        let key = &self.bytes[self.start..span.key_end];
        self.start = span.value_end;
        Some(if span.is_put {
            KvOp::Put { key, value: &self.bytes[span.key_end..span.value_end] }
        } else {
            KvOp::Delete { key }
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.spans.size_hint()
    }
}
