//! RocksDB's unique ids of table files, and the session ids that they are made from.

use siltstone_base::checksum::xxh3_128_with_seed;

/// Characters of a session id.
const SESSION_ID_LEN: usize = 20;
/// Characters of a session id that encode its low 62 bits.
const LOW_DIGITS: usize = 12;

const DIGITS: &[u8; 36] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";

/// The text of a session id made from random bits: 20 characters of `[0-9A-Z]`.
pub(crate) fn encode_session_id(upper: u64, lower: u64) -> String {
    // A lower word of 0 is not a legal session.
    let lower = lower.max(1);
    let mut text = [0; SESSION_ID_LEN];
    put_base36((upper << 2) | (lower >> 62), &mut text[..SESSION_ID_LEN - LOW_DIGITS]);
    put_base36(lower & (u64::MAX >> 2), &mut text[SESSION_ID_LEN - LOW_DIGITS..]);
    text.iter().map(|byte| *byte as char).collect()
}

fn put_base36(mut value: u64, out: &mut [u8]) {
    for digit in out.iter_mut().rev() {
        *digit = DIGITS[(value % 36) as usize];
        value /= 36;
    }
}

fn get_base36(text: &[u8]) -> Option<u64> {
    text.iter().try_fold(0u64, |value, byte| {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'A'..=b'Z' => byte - b'A' + 10,
            _ => return None,
        };
        Some(value.wrapping_mul(36).wrapping_add(u64::from(digit)))
    })
}

/// The unique id of the table that the database `db_id` wrote in session `session_id` as file `number`, in the form that
/// the MANIFEST stores. `None` if a part is missing or malformed.
pub(crate) fn unique_id(db_id: &str, session_id: &str, number: u64) -> Option<[u8; 16]> {
    let session = session_id.as_bytes();
    if db_id.is_empty() || number == 0 || !(LOW_DIGITS + 1..=2 * LOW_DIGITS).contains(&session.len()) {
        return None;
    }
    let (high, low) = session.split_at(session.len() - LOW_DIGITS);
    let (a, b) = (get_base36(high)?, get_base36(low)?);
    let upper = a >> 2;
    let lower = (b & (u64::MAX >> 2)) | (a << 62);
    let hash = xxh3_128_with_seed(db_id.as_bytes(), upper);
    let mut id = [0; 16];
    id[..8].copy_from_slice(&lower.to_le_bytes());
    id[8..].copy_from_slice(&((hash >> 64) as u64 ^ number).to_le_bytes());
    Some(id)
}
