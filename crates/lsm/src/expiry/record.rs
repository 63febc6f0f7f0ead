//! The file EXPIRY: the latest time that was trusted, and what the policies of families must not forget. Written as a whole.
//!
//! ```text
//! magic "siltexp1" | crc32c of the rest, masked, 4 bytes | length of what follows, 4 bytes | seen | count | (family, state) ... | zeros
//! ```
//!
//! It is filled up to whole blocks of 4096 bytes, so that whoever copies it by its length while another one takes its place has one or the other.

use siltstone_base::checksum::{crc32c, mask_crc, unmask_crc};
use siltstone_base::coding::{
    get_length_prefixed, get_varint32, get_varint64, put_length_prefixed, put_varint32, put_varint64,
};
use siltstone_base::{Error, Result};
use std::collections::BTreeMap;

/// How the file begins.
const MAGIC: &[u8; 8] = b"siltexp1";
/// Bytes before what is said.
const HEADER_LEN: usize = 16;
/// The file is a multiple of this.
const BLOCK: usize = 4096;
/// Most bytes of a file that is believed.
pub(crate) const MAX_RECORD_BYTES: u64 = 16 << 20;

/// What the file says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Record {
    /// The latest time that was trusted, in Unix seconds.
    pub(crate) seen: u64,
    /// The states of policies, by the numbers of their families.
    pub(crate) states: BTreeMap<u32, Vec<u8>>,
}

impl Record {
    /// The bytes of the file.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut body = Vec::new();
        put_varint64(&mut body, self.seen);
        put_varint64(&mut body, self.states.len() as u64);
        for (family, state) in &self.states {
            put_varint32(&mut body, *family);
            put_length_prefixed(&mut body, state);
        }
        let mut file = Vec::with_capacity(HEADER_LEN + body.len() + BLOCK);
        file.extend_from_slice(MAGIC);
        file.extend_from_slice(&mask_crc(crc32c(&body)).to_le_bytes());
        file.extend_from_slice(&u32::try_from(body.len()).unwrap_or(u32::MAX).to_le_bytes());
        file.extend_from_slice(&body);
        file.resize(file.len().next_multiple_of(BLOCK), 0);
        file
    }

    /// What the bytes of the file say.
    ///
    /// # Errors
    ///
    /// `Corruption` for bytes that are not what was written.
    pub(crate) fn decode(file: &[u8]) -> Result<Self> {
        let wrong = || Error::corrupt("what is remembered of expired rows is damaged");
        let (magic, rest) = file.split_first_chunk::<8>().ok_or_else(wrong)?;
        let (crc, rest) = rest.split_first_chunk::<4>().ok_or_else(wrong)?;
        let (len, rest) = rest.split_first_chunk::<4>().ok_or_else(wrong)?;
        let body = usize::try_from(u32::from_le_bytes(*len)).ok().and_then(|len| rest.get(..len)).ok_or_else(wrong)?;
        if magic != MAGIC || crc32c(body) != unmask_crc(u32::from_le_bytes(*crc)) {
            return Err(wrong());
        }
        Self::decode_body(body).ok_or_else(wrong)
    }

    fn decode_body(mut body: &[u8]) -> Option<Self> {
        let body = &mut body;
        let seen = get_varint64(body)?;
        let count = get_varint64(body)?;
        let mut states = BTreeMap::new();
        for _ in 0..count {
            let family = get_varint32(body)?;
            states.insert(family, get_length_prefixed(body)?.to_vec());
        }
        body.is_empty().then_some(Self { seen, states })
    }
}
