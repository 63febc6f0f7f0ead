//! Nodes: a tower of links, and behind it the entry.

#![expect(unsafe_code, reason = "nodes have a size of their own, and links lie before the address of their node")]

use super::super::block::ALIGNMENT;
use crate::key::TRAILER_LEN;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// The prefix of no successor: no search goes on there.
pub(super) const NO_SUCCESSOR: u64 = u64::MAX;

/// One level of a node's tower.
pub(super) struct Link {
    /// The successor, or null.
    pub(super) next: AtomicPtr<u8>,
    /// At most the successor's prefix.
    pub(super) prefix: AtomicU64,
}

impl Link {
    /// A link without a successor.
    pub(super) const fn to_nowhere() -> Self {
        Self { next: AtomicPtr::new(std::ptr::null_mut()), prefix: AtomicU64::new(NO_SUCCESSOR) }
    }
}

const _: () = assert!(align_of::<Link>() <= ALIGNMENT && size_of::<Link>() == 16);

/// The address of a node's entry, or null.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Node(pub(super) *mut u8);

impl Node {
    pub(super) const NULL: Self = Self(std::ptr::null_mut());

    #[inline]
    pub(super) fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// # Safety
    ///
    /// The node is not null, its list is alive for `'a`, and its tower is higher than `level`.
    #[inline]
    pub(super) unsafe fn link<'a>(self, level: usize) -> &'a Link {
        // SAFETY: the links lie before the entry, in the same allocation and aligned.
        unsafe { &*self.0.cast::<Link>().sub(level + 1) }
    }

    /// The successor at `level`.
    ///
    /// # Safety
    ///
    /// As for [`link`](Self::link).
    #[inline]
    pub(super) unsafe fn next(self, level: usize) -> Self {
        // SAFETY: by the caller.
        Self(unsafe { self.link(level) }.next.load(Ordering::Acquire))
    }

    /// The internal key.
    ///
    /// # Safety
    ///
    /// The node is reachable and not the head, and its list is alive for `'a`.
    #[inline]
    pub(super) unsafe fn internal_key<'a>(self) -> &'a [u8] {
        // SAFETY: an entry starts with a length and as many bytes, and never changes (2).
        unsafe {
            let (len, bytes) = read_len(self.0);
            std::slice::from_raw_parts(bytes, len)
        }
    }

    /// The value.
    ///
    /// # Safety
    ///
    /// As for [`internal_key`](Self::internal_key).
    #[inline]
    pub(super) unsafe fn value<'a>(self) -> &'a [u8] {
        // SAFETY: after the key come a length and as many bytes, which never change (2).
        unsafe {
            let (key_len, key) = read_len(self.0);
            let (len, bytes) = read_len(key.add(key_len));
            std::slice::from_raw_parts(bytes, len)
        }
    }
}

/// Reads a varint32 that was written by [`write_len`]; returns it and the address after it.
///
/// # Safety
///
/// `at` is the address of such a varint.
#[inline]
unsafe fn read_len(at: *const u8) -> (usize, *const u8) {
    // SAFETY: by the caller, bytes up to the first without the high bit are readable.
    unsafe {
        let first = at.read();
        if first < 0x80 {
            return (usize::from(first), at.add(1));
        }
        let (mut len, mut shift, mut at) = (usize::from(first & 0x7F), 7, at.add(1));
        loop {
            let byte = at.read();
            at = at.add(1);
            len |= usize::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                return (len, at);
            }
            shift += 7;
        }
    }
}

/// Writes a varint32; returns the address after it.
///
/// # Safety
///
/// `at` is the address of [`len_len`] writable bytes.
#[inline]
unsafe fn write_len(mut at: *mut u8, mut len: u32) -> *mut u8 {
    // SAFETY: by the caller.
    unsafe {
        while len >= 0x80 {
            at.write(len as u8 | 0x80);
            at = at.add(1);
            len >>= 7;
        }
        at.write(len as u8);
        at.add(1)
    }
}

/// Bytes of a varint32.
#[inline]
fn len_len(len: u32) -> usize {
    (38 - (len | 1).leading_zeros() as usize) / 7
}

/// The size of a node, and where in it the entry starts.
#[derive(Clone, Copy)]
pub(super) struct NodeLayout {
    key_len: u32,
    value_len: u32,
    entry_at: usize,
    /// Bytes of the node.
    pub(super) total: usize,
}

impl NodeLayout {
    /// The layout of a node of `height` levels.
    #[inline]
    pub(super) fn new(height: usize, user_key: &[u8], value: &[u8], protection_bytes: usize) -> Self {
        assert!(
            user_key.len() < u32::MAX as usize - TRAILER_LEN && value.len() <= u32::MAX as usize,
            "batches hold no longer ones"
        );
        let (key_len, value_len) = ((user_key.len() + TRAILER_LEN) as u32, value.len() as u32);
        let entry_at = height * size_of::<Link>();
        let lens = len_len(key_len) + len_len(value_len);
        let total = entry_at + lens + key_len as usize + value_len as usize + protection_bytes;
        Self { key_len, value_len, entry_at, total }
    }

    /// Writes the entry; returns the node.
    ///
    /// # Safety
    ///
    /// `memory` is the address of `total` bytes that belong to the caller, and key and value are those of `new`.
    #[inline]
    pub(super) unsafe fn write_entry(&self, memory: NonNull<u8>, user_key: &[u8], trailer: u64, value: &[u8]) -> Node {
        // SAFETY: what is written adds up to `total`, counting the links before the entry and the reserved bytes after it.
        unsafe {
            let entry = memory.as_ptr().add(self.entry_at);
            let key = write_len(entry, self.key_len);
            key.copy_from_nonoverlapping(user_key.as_ptr(), user_key.len());
            let end = key.add(user_key.len());
            end.cast::<[u8; TRAILER_LEN]>().write(trailer.to_le_bytes());
            let at = write_len(end.add(TRAILER_LEN), self.value_len);
            at.copy_from_nonoverlapping(value.as_ptr(), value.len());
            let checksum = at.add(value.len());
            let reserved = self.total - (checksum.offset_from_unsigned(memory.as_ptr()));
            checksum.write_bytes(0, reserved);
            Node(entry)
        }
    }
}

/// Has the processor fetch a node soon.
#[inline]
pub(super) fn prefetch(node: Node) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch has no effect that a program could see, whatever the address.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(node.0.cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = node;
}
