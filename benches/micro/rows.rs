//! Rows of both engines.

/// How many there are.
pub const ROWS: u64 = 100_000;

/// The value of each.
pub const VALUE: [u8; 100] = [7; 100];

/// The key of a number: 16 bytes, as the laboratory has them.
pub fn key(number: u64) -> [u8; 16] {
    let mut key = [b'0'; 16];
    key[..8].copy_from_slice(&number.to_be_bytes());
    key
}

/// Numbers below `end` in no order, the same in every run; where `end` has no factors but two and five, each of them once in as many.
pub fn scattered(number: u64, end: u64) -> u64 {
    (number % end) * 61_803 % end
}
