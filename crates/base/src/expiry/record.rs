//! The file EXPIRY: the latest time that was trusted, and what the policies of families must not forget. Written as a whole.
//!
//! ```text
//! magic "siltexp2" | crc32c of the rest, masked, 4 bytes | length of what follows, 4 bytes | id of the database | seen | count | (family, policy, state) ... | zeros
//! ```
//!
//! The first form, "siltexp1", has neither ids nor names of policies.
//!
//! It is filled up to whole blocks of 4096 bytes, so that whoever copies it by its length while another one takes its place has one or the other.

use crate::checksum::{crc32c, mask_crc, unmask_crc};
use crate::coding::{get_length_prefixed, get_varint32, get_varint64, put_length_prefixed, put_varint32, put_varint64};
use crate::{Error, Result};
use std::collections::BTreeMap;

/// How the file begins.
const MAGIC: &[u8; 8] = b"siltexp2";
/// How it began.
const FIRST_MAGIC: &[u8; 8] = b"siltexp1";
/// Bytes before what is said.
const HEADER_LEN: usize = 16;
/// The file is a multiple of this.
const BLOCK: usize = 4096;
/// Most bytes of a file that is believed.
pub const MAX_RECORD_BYTES: u64 = 16 << 20;

/// What the file says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Record {
    /// Whose it is; empty if that is not known.
    pub db_id: String,
    /// The latest time that was trusted, in Unix seconds.
    pub seen: u64,
    /// What policies must not forget, by the numbers of their families.
    pub states: BTreeMap<u32, Saved>,
}

/// What the policy of a family must not forget.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Saved {
    /// The name of the policy; empty if that is not known.
    pub policy: String,
    /// Its state.
    pub state: Vec<u8>,
}

impl Record {
    /// The bytes of the file.
    pub fn encode(&self) -> Vec<u8> {
        let mut body = Vec::new();
        put_length_prefixed(&mut body, self.db_id.as_bytes());
        put_varint64(&mut body, self.seen);
        put_varint64(&mut body, self.states.len() as u64);
        for (family, saved) in &self.states {
            put_varint32(&mut body, *family);
            put_length_prefixed(&mut body, saved.policy.as_bytes());
            put_length_prefixed(&mut body, &saved.state);
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
    pub fn decode(file: &[u8]) -> Result<Self> {
        let wrong = || Error::corrupt("what is remembered of expired rows is damaged");
        let (magic, rest) = file.split_first_chunk::<8>().ok_or_else(wrong)?;
        let (crc, rest) = rest.split_first_chunk::<4>().ok_or_else(wrong)?;
        let (len, rest) = rest.split_first_chunk::<4>().ok_or_else(wrong)?;
        let body = usize::try_from(u32::from_le_bytes(*len)).ok().and_then(|len| rest.get(..len)).ok_or_else(wrong)?;
        let is_first = magic == FIRST_MAGIC;
        if !(is_first || magic == MAGIC) || crc32c(body) != unmask_crc(u32::from_le_bytes(*crc)) {
            return Err(wrong());
        }
        Self::decode_body(body, is_first).ok_or_else(wrong)
    }

    fn decode_body(mut body: &[u8], is_first: bool) -> Option<Self> {
        let body = &mut body;
        let text = |body: &mut &[u8]| match is_first {
            true => Some(String::new()),
            false => Some(std::str::from_utf8(get_length_prefixed(body)?).ok()?.to_owned()),
        };
        let db_id = text(body)?;
        let seen = get_varint64(body)?;
        let count = get_varint64(body)?;
        let mut states = BTreeMap::new();
        for _ in 0..count {
            let family = get_varint32(body)?;
            let policy = text(body)?;
            states.insert(family, Saved { policy, state: get_length_prefixed(body)?.to_vec() });
        }
        body.is_empty().then_some(Self { db_id, seen, states })
    }
}
