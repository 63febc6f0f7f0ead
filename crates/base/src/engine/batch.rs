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
    /// Removes a key that was put at most once since it was last removed, and is removed in this way only: RocksDB's single delete, which goes together with that put. An engine that has no
    /// such thing, or asks for more, deletes the key. What is left of a key that was put more often is undefined.
    DeleteOnce {
        /// The key.
        key: &'a [u8],
    },
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Put,
    Delete,
    DeleteOnce,
}

#[derive(Debug, Clone, Copy)]
struct Span {
    key_end: usize,
    value_end: usize,
    kind: Kind,
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
        self.spans.push(Span { key_end, value_end: self.bytes.len(), kind: Kind::Put });
    }

    /// Adds a delete.
    #[inline]
    pub fn delete(&mut self, key: &[u8]) {
        self.remove(key, Kind::Delete);
    }

    /// Adds a delete of a key that was put at most once since it was last removed, and is removed in this way only: [`KvOp::DeleteOnce`].
    #[inline]
    pub fn delete_once(&mut self, key: &[u8]) {
        self.remove(key, Kind::DeleteOnce);
    }

    #[inline]
    fn remove(&mut self, key: &[u8], kind: Kind) {
        self.bytes.extend_from_slice(key);
        let key_end = self.bytes.len();
        self.spans.push(Span { key_end, value_end: key_end, kind });
    }

    /// Adds the operations of another batch behind its own.
    pub fn append(&mut self, other: &Self) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&other.bytes);
        self.spans.extend(other.spans.iter().map(|span| Span {
            key_end: start + span.key_end,
            value_end: start + span.value_end,
            kind: span.kind,
        }));
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
        Some(match span.kind {
            Kind::Put => KvOp::Put { key, value: &self.bytes[span.key_end..span.value_end] },
            Kind::Delete => KvOp::Delete { key },
            Kind::DeleteOnce => KvOp::DeleteOnce { key },
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.spans.size_hint()
    }
}
