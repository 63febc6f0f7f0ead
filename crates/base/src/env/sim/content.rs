//! The bytes of a file: 4 KiB pages shared between the versions of a file and between disks.

use std::sync::{Arc, OnceLock};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// Bytes of a page: the unit in which a simulated device keeps or loses unsynced data.
pub(super) const PAGE_BYTES: u64 = 4096;

const PAGE_LEN: usize = PAGE_BYTES as usize;

/// One page and, once asked for, its hash.
#[derive(Debug)]
pub(super) struct Page {
    bytes: [u8; PAGE_LEN],
    hash: OnceLock<u64>,
}

impl Page {
    fn zeroed() -> Self {
        Self { bytes: [0; PAGE_LEN], hash: OnceLock::new() }
    }

    /// A page filled with `byte`.
    pub(super) fn filled(byte: u8) -> Self {
        Self { bytes: [byte; PAGE_LEN], hash: OnceLock::new() }
    }

    fn bytes_mut(&mut self) -> &mut [u8; PAGE_LEN] {
        self.hash.take();
        &mut self.bytes
    }

    fn hash(&self) -> u64 {
        *self.hash.get_or_init(|| xxh3_64(&self.bytes))
    }
}

impl Clone for Page {
    fn clone(&self) -> Self {
        Self { bytes: self.bytes, hash: OnceLock::new() }
    }
}

/// The bytes of one version of a file. Absent pages read as zero; the bytes of the last page beyond the length are zero.
#[derive(Debug, Default)]
pub(super) struct Content {
    len: u64,
    pages: Vec<Option<Arc<Page>>>,
    hash: OnceLock<u64>,
}

impl Clone for Content {
    fn clone(&self) -> Self {
        Self { len: self.len, pages: self.pages.clone(), hash: OnceLock::new() }
    }
}

impl Content {
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Pages that the length needs.
    pub(super) fn page_count(&self) -> u64 {
        self.len.div_ceil(PAGE_BYTES)
    }

    /// Bytes of the pages that exist.
    pub(super) fn allocated_bytes(&self) -> u64 {
        self.pages.iter().flatten().count() as u64 * PAGE_BYTES
    }

    /// A page, unless it is a hole.
    pub(super) fn page(&self, index: u64) -> Option<&Arc<Page>> {
        self.pages.get(index as usize)?.as_ref()
    }

    /// Puts a page, or a hole, at an index within the length. Bytes beyond the length are cleared.
    pub(super) fn put_page(&mut self, index: u64, page: Option<Arc<Page>>) {
        self.hash.take();
        let index = index as usize;
        if index as u64 >= self.page_count() {
            return;
        }
        if self.pages.len() <= index {
            self.pages.resize(index + 1, None);
        }
        if let Some(slot) = self.pages.get_mut(index) {
            *slot = page;
        }
        self.clear_beyond_len();
    }

    pub(super) fn read(&self, offset: u64, buffer: &mut [u8]) -> usize {
        let wanted = (buffer.len() as u64).min(self.len.saturating_sub(offset)) as usize;
        let mut done = 0;
        while done < wanted {
            let at = offset + done as u64;
            let within = (at % PAGE_BYTES) as usize;
            let count = (PAGE_LEN - within).min(wanted - done);
            let target = &mut buffer[done..done + count];
            match self.page(at / PAGE_BYTES) {
                Some(page) => target.copy_from_slice(&page.bytes[within..within + count]),
                None => target.fill(0),
            }
            done += count;
        }
        wanted
    }

    pub(super) fn write(&mut self, offset: u64, data: &[u8]) {
        self.hash.take();
        let end = offset + data.len() as u64;
        self.len = self.len.max(end);
        let pages = end.div_ceil(PAGE_BYTES) as usize;
        if self.pages.len() < pages {
            self.pages.resize(pages, None);
        }
        let mut done = 0;
        while done < data.len() {
            let at = offset + done as u64;
            let within = (at % PAGE_BYTES) as usize;
            let count = (PAGE_LEN - within).min(data.len() - done);
            let slot = &mut self.pages[(at / PAGE_BYTES) as usize];
            let page = Arc::make_mut(slot.get_or_insert_with(|| Arc::new(Page::zeroed())));
            page.bytes_mut()[within..within + count].copy_from_slice(&data[done..done + count]);
            done += count;
        }
    }

    pub(super) fn set_len(&mut self, len: u64) {
        self.hash.take();
        self.len = len;
        let pages = self.page_count() as usize;
        self.pages.truncate(pages);
        self.clear_beyond_len();
    }

    /// Makes a range read as zero, within the length; whole pages become holes.
    pub(super) fn zero(&mut self, offset: u64, len: u64) {
        self.hash.take();
        let end = offset.saturating_add(len).min(self.len);
        let mut at = offset;
        while at < end {
            let index = (at / PAGE_BYTES) as usize;
            let from = (at % PAGE_BYTES) as usize;
            let to = (end - (at - from as u64)).min(PAGE_BYTES) as usize;
            if let Some(slot) = self.pages.get_mut(index) {
                if from == 0 && to == PAGE_LEN {
                    *slot = None;
                } else if let Some(page) = slot {
                    Arc::make_mut(page).bytes_mut()[from..to].fill(0);
                }
            }
            at += (to - from) as u64;
        }
    }

    /// A hash of length and bytes. Equal bytes give equal hashes, holes or not.
    pub(super) fn hash(&self) -> u64 {
        *self.hash.get_or_init(|| {
            let zero = zero_page_hash();
            let mut hash = self.len;
            for (index, page) in self.pages.iter().enumerate() {
                let page_hash = page.as_ref().map_or(zero, |page| page.hash());
                if page_hash != zero {
                    let mut key = [0; 16];
                    key[..8].copy_from_slice(&(index as u64).to_le_bytes());
                    key[8..].copy_from_slice(&page_hash.to_le_bytes());
                    hash = xxh3_64_with_seed(&key, hash);
                }
            }
            hash
        })
    }

    fn clear_beyond_len(&mut self) {
        let used = (self.len % PAGE_BYTES) as usize;
        if used == 0 {
            return;
        }
        if let Some(Some(page)) = self.pages.get_mut((self.len / PAGE_BYTES) as usize)
            && page.bytes[used..].iter().any(|byte| *byte != 0)
        {
            Arc::make_mut(page).bytes_mut()[used..].fill(0);
        }
    }
}

fn zero_page_hash() -> u64 {
    static HASH: OnceLock<u64> = OnceLock::new();
    *HASH.get_or_init(|| Page::zeroed().hash())
}
