//! Memory that compressed blocks are appended to, and that goes back to the operating system as a whole.

use memmap2::MmapMut;
use siltstone_base::cache::CacheKey;

/// Bytes before each block: file and offset of its key, its length, and its flags.
pub(super) const HEADER_LEN: usize = 24;

/// Where a header has the length, and where the flags.
const LEN: usize = 16;
const FLAGS: usize = 20;

/// The bits of the flags that count how often a block was asked for since it came, or since it last went to the first tier.
pub(super) const ASKS: u8 = 0x0f;

/// Flag of a block that was in the first tier for a while and has come back from there.
pub(super) const RETURNED: u8 = 0x80;

/// Blocks one behind the other, in the order in which they came.
pub(super) struct Chunk {
    memory: MmapMut,
    filled: usize,
    page_len: usize,
}

impl Chunk {
    /// An empty one of so many bytes; `None` if the operating system has none.
    pub(super) fn new(bytes: usize) -> Option<Self> {
        Some(Self { memory: MmapMut::map_anon(bytes).ok()?, filled: 0, page_len: rustix::param::page_size() })
    }

    /// Bytes of its pages that have memory: nothing was ever written to the others.
    pub(super) fn resident(&self) -> usize {
        self.filled.next_multiple_of(self.page_len).min(self.memory.len())
    }

    /// Appends a block and says where it is; `None` if there is no room for it.
    pub(super) fn push(&mut self, key: CacheKey, data: &[u8]) -> Option<u32> {
        let at = self.filled;
        let len = u32::try_from(data.len()).ok()?;
        let place = self.memory.get_mut(at..at + HEADER_LEN + data.len())?;
        let (header, bytes) = place.split_at_mut(HEADER_LEN);
        header[..8].copy_from_slice(&key.file.to_le_bytes());
        header[8..LEN].copy_from_slice(&key.offset.to_le_bytes());
        header[LEN..FLAGS].copy_from_slice(&len.to_le_bytes());
        header[FLAGS] = 0;
        bytes.copy_from_slice(data);
        self.filled += HEADER_LEN + data.len();
        u32::try_from(at).ok()
    }

    /// Whether a block of `len` bytes has room.
    pub(super) fn has_room(&self, len: usize) -> bool {
        self.memory.len() - self.filled >= HEADER_LEN + len
    }

    /// Bytes that may have memory yet.
    pub(super) fn room(&self) -> usize {
        self.memory.len() - self.resident()
    }

    /// The key of the block at `at`.
    #[inline]
    pub(super) fn key(&self, at: u32) -> CacheKey {
        let header = self.header(at);
        CacheKey { file: number(&header[..8]), offset: number(&header[8..LEN]) }
    }

    /// Its compressed bytes.
    pub(super) fn data(&self, at: u32) -> &[u8] {
        let start = at as usize + HEADER_LEN;
        &self.memory[start..start + self.len(at)]
    }

    pub(super) fn flags(&self, at: u32) -> u8 {
        self.header(at)[FLAGS]
    }

    pub(super) fn set_flags(&mut self, at: u32, flags: u8) {
        self.memory[at as usize + FLAGS] = flags;
    }

    /// Where its blocks are, oldest first, those included that nobody knows any more.
    pub(super) fn places(&self) -> impl Iterator<Item = u32> {
        let mut next = 0;
        std::iter::from_fn(move || {
            let at = next;
            if at >= self.filled {
                return None;
            }
            next = at + HEADER_LEN + self.len(at as u32);
            Some(at as u32)
        })
    }

    #[inline]
    fn header(&self, at: u32) -> &[u8] {
        &self.memory[at as usize..at as usize + HEADER_LEN]
    }

    fn len(&self, at: u32) -> usize {
        number(&self.header(at)[LEN..FLAGS]) as usize
    }
}

/// The number that up to eight bytes are, little-endian.
#[inline]
fn number(bytes: &[u8]) -> u64 {
    let mut whole = [0; 8];
    whole[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(whole)
}
