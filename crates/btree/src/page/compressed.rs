//! Pages that are stored compressed: in the place of the whole page, its first blocks; the others are given back to the file system.
//!
//! What is summed up is what is stored, padding included. The LSN and the name stand where every page has them; the rest of the page, but for its trailer, is the
//! payload.

use super::access::{PageMut, u32_at};
use super::header::{Header, PageId, PageKind, at};
use super::seal::Damage;
use super::{HEADER_LEN, Lsn, TRAILER_LEN};
use crate::options::PageCompression;
use siltstone_base::Result;
use siltstone_base::checksum::xxh3_64;
use siltstone_base::compression::{CompressionType, Compressor, DEFAULT_LEVEL, decompress_into};

/// Stands where other pages have their kind.
const COMPRESSED: u8 = 0x40;

/// Where the codec, the length of the payload, and the payload stand.
const CODEC_AT: usize = 25;
const RESERVED_AT: usize = 26;
const PAYLOAD_LEN_AT: usize = 28;
const PAYLOAD_AT: usize = 32;

/// Bytes of which the stored form takes a multiple: a file system's block. The short pages of tests have shorter ones.
pub const fn block_len(page_len: usize) -> usize {
    if page_len >= 8 << 10 { 4 << 10 } else { page_len / 4 }
}

/// Bytes that a page takes in its place: fewer than a page has if it is compressed. `slot` is the place; what makes no sense counts as whole.
pub fn stored_len(slot: &[u8]) -> usize {
    let page_len = slot.len();
    if slot.get(at::KIND) != Some(&COMPRESSED) {
        return page_len;
    }
    let len = (u32_at(slot, PAYLOAD_LEN_AT) as usize).saturating_add(PAYLOAD_AT);
    len.checked_next_multiple_of(block_len(page_len).max(1)).map_or(page_len, |len| len.min(page_len))
}

/// Whether a page that passed [`verify`](super::verify) must be decompressed.
pub fn is_compressed(slot: &[u8]) -> bool {
    slot.get(at::KIND) == Some(&COMPRESSED)
}

/// Makes a page of its compressed form, which passed [`verify`](super::verify).
///
/// # Errors
///
/// [`Damage::Payload`] if it does not decompress to a page.
pub fn decompress(slot: &[u8], page: &mut [u8]) -> std::result::Result<(), Damage> {
    let len = u32_at(slot, PAYLOAD_LEN_AT) as usize;
    let payload = PAYLOAD_AT.checked_add(len).and_then(|end| slot.get(PAYLOAD_AT..end)).ok_or(Damage::Payload)?;
    let codec = slot.get(CODEC_AT).copied().and_then(codec_of).ok_or(Damage::Payload)?;
    if slot.len() != page.len() || page.len() < HEADER_LEN + TRAILER_LEN || slot[RESERVED_AT..PAYLOAD_LEN_AT] != [0, 0]
    {
        return Err(Damage::Payload);
    }
    let trailer = page.len() - TRAILER_LEN;
    decompress_into(codec, payload, &mut page[at::KIND..trailer]).map_err(|_| Damage::Payload)?;
    if page[at::KIND] == COMPRESSED {
        return Err(Damage::Payload);
    }
    page[..at::KIND].copy_from_slice(&slot[..at::KIND]);
    page[trailer..].copy_from_slice(&slot[at::LSN..at::LSN + 8]);
    Ok(())
}

/// The codec of a number in a page.
const fn codec_of(code: u8) -> Option<CompressionType> {
    match code {
        1 => Some(CompressionType::Zlib),
        2 => Some(CompressionType::Lz4),
        3 => Some(CompressionType::Zstd),
        _ => None,
    }
}

/// Compresses pages one after the other, in the same memory.
#[derive(Debug)]
pub struct PageCompressor {
    compression: PageCompression,
    compressor: Compressor,
    payload: Vec<u8>,
}

impl PageCompressor {
    /// One for a codec; `None` for none.
    ///
    /// # Errors
    ///
    /// `OutOfMemory` if a context could not be made.
    pub fn new(compression: PageCompression) -> Result<Option<Self>> {
        let Some(codec) = codec_of(compression.code()) else { return Ok(None) };
        Ok(Some(Self { compression, compressor: Compressor::new(codec, DEFAULT_LEVEL)?, payload: Vec::new() }))
    }

    /// What it was made for.
    pub fn compression(&self) -> PageCompression {
        self.compression
    }

    /// Writes the sealed, compressed form of a page to the front of `out`, which is as long as the page. Returns how many bytes are to be stored; `None` if that
    /// saves no block. Bytes between slots and cells, which mean nothing, become 0.
    ///
    /// # Errors
    ///
    /// Those of the codec.
    pub fn compress(&mut self, page: &mut [u8], id: PageId, lsn: Lsn, out: &mut [u8]) -> Result<Option<usize>> {
        let page_len = page.len();
        if page_len < HEADER_LEN + TRAILER_LEN || out.len() != page_len {
            return Ok(None);
        }
        let header = Header::read(page);
        if matches!(header.kind(), Some(PageKind::Leaf | PageKind::Inner))
            && let Some(gap) = page.get_mut(header.slots_end()..usize::from(header.heap))
        {
            gap.fill(0);
        }
        self.payload.clear();
        self.compressor.compress(&page[at::KIND..page_len - TRAILER_LEN], &mut self.payload)?;
        let end = PAYLOAD_AT + self.payload.len();
        let stored = end.next_multiple_of(block_len(page_len));
        if stored >= page_len {
            return Ok(None);
        }
        out.write(at::LSN, &lsn.to_le_bytes());
        out.write(at::ID, &id.space.to_le_bytes());
        out.write(at::ID + 4, &id.number.to_le_bytes());
        out.write(at::KIND, &[COMPRESSED, self.compression.code(), 0, 0]);
        out.write(PAYLOAD_LEN_AT, &(self.payload.len() as u32).to_le_bytes());
        out.write(PAYLOAD_AT, &self.payload);
        out[end..stored].fill(0);
        let sum = xxh3_64(&out[at::LSN..stored]);
        out.write(at::CHECKSUM, &sum.to_le_bytes());
        Ok(Some(stored))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::{Cell, build, check, seal, verify};

    const CODECS: [PageCompression; 3] = [PageCompression::Zlib, PageCompression::Lz4, PageCompression::Zstd];
    const ID: PageId = PageId::new(7, 9);

    fn page(page_len: usize, rows: usize, entropy: bool) -> Vec<u8> {
        let mut state = 5_u64;
        let rows: Vec<(Vec<u8>, Vec<u8>)> = (0..rows)
            .map(|row| {
                let byte = |_| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    if entropy { (state >> 33) as u8 } else { row as u8 }
                };
                (format!("key{row:05}").into_bytes(), (0..60).map(byte).collect())
            })
            .collect();
        let cells = rows.iter().map(|(key, value)| Cell { flags: 0, key, value });
        let mut page = build(page_len, &Header::empty(PageKind::Leaf, 0, page_len), cells).unwrap();
        seal(&mut page, ID, 77);
        page
    }

    fn stored(compression: PageCompression, page: &mut [u8]) -> (Vec<u8>, Option<usize>) {
        let mut slot = vec![0xee; page.len()];
        let mut compressor = PageCompressor::new(compression).unwrap().unwrap();
        let len = compressor.compress(page, ID, 77, &mut slot).unwrap();
        (slot, len)
    }

    #[test]
    fn pages_come_back_whatever_follows_them() {
        for codec in CODECS {
            for (page_len, rows) in [(512, 4), (4096, 30), (16 << 10, 150), (64 << 10, 600)] {
                let mut plain = page(page_len, rows, false);
                let (slot, len) = stored(codec, &mut plain);
                let len = len.unwrap();
                assert_eq!((stored_len(&slot), len % block_len(page_len)), (len, 0));
                assert!(len <= page_len * 3 / 4 && is_compressed(&slot));
                for rest in [0x00, 0xff] {
                    let mut slot = slot.clone();
                    slot[len..].fill(rest);
                    assert_eq!(verify(&slot, ID), Ok(77));
                    let mut back = vec![0xaa; page_len];
                    decompress(&slot, &mut back).unwrap();
                    assert_eq!(back[8..], plain[8..]);
                    check(&back).unwrap();
                }
                assert_eq!(verify(&slot, PageId::new(7, 8)), Err(Damage::Misplaced(ID)));
            }
        }
    }

    #[test]
    fn what_saves_no_block_stays_as_it_is() {
        for codec in CODECS {
            let mut plain = page(16 << 10, 200, true);
            assert_eq!(stored(codec, &mut plain).1, None);
        }
        assert!(PageCompressor::new(PageCompression::None).unwrap().is_none());
    }

    #[test]
    fn every_flipped_bit_of_what_is_stored_is_noticed() {
        for codec in CODECS {
            let (slot, len) = stored(codec, &mut page(2048, 20, false));
            for bit in 0..len.unwrap() * 8 {
                let mut slot = slot.clone();
                slot[bit / 8] ^= 1 << (bit % 8);
                assert!(verify(&slot, ID).is_err(), "{codec:?}: bit {bit}");
            }
        }
    }

    #[test]
    fn forged_lengths_and_payloads_are_damage() {
        let (slot, len) = stored(PageCompression::Lz4, &mut page(2048, 20, false));
        let sealed = |change: &dyn Fn(&mut [u8])| {
            let mut slot = slot.clone();
            change(&mut slot);
            let len = stored_len(&slot);
            let sum = xxh3_64(&slot[at::LSN..len]);
            slot.as_mut_slice().write(at::CHECKSUM, &sum.to_le_bytes());
            assert_eq!(verify(&slot, ID), Ok(77));
            decompress(&slot, &mut vec![0; 2048])
        };
        assert_eq!(sealed(&|_| {}), Ok(()));
        for payload in [0, 1, 5, len.unwrap() as u32, 2016, 2017, 1 << 16, u32::MAX] {
            let change = |slot: &mut [u8]| slot.write(PAYLOAD_LEN_AT, &payload.to_le_bytes());
            assert_eq!(sealed(&change), Err(Damage::Payload), "{payload}");
        }
        for codec in [0, 1, 3, 4, 255] {
            assert_eq!(sealed(&|slot| slot[CODEC_AT] = codec), Err(Damage::Payload), "codec {codec}");
        }
        assert_eq!(sealed(&|slot| slot[RESERVED_AT] = 1), Err(Damage::Payload));
        assert_eq!(sealed(&|slot| slot[PAYLOAD_AT + 1] ^= 0x55), Err(Damage::Payload));
        assert_eq!(decompress(&slot, &mut [0; 512]), Err(Damage::Payload));
        assert_eq!(decompress(&[], &mut []), Err(Damage::Payload));
    }
}
