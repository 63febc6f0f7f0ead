//! XXPH3, the hash of a key for filters: the preview of XXH3 in xxHash 0.7.2, seed 0.
//!
//! Released XXH3 gives other values. Up to 16 bytes the hash is inlined; longer keys take a call.

/// The default secret of XXH3.
#[rustfmt::skip]
const SECRET: [u8; 192] = [
    0xb8, 0xfe, 0x6c, 0x39, 0x23, 0xa4, 0x4b, 0xbe, 0x7c, 0x01, 0x81, 0x2c, 0xf7, 0x21, 0xad, 0x1c,
    0xde, 0xd4, 0x6d, 0xe9, 0x83, 0x90, 0x97, 0xdb, 0x72, 0x40, 0xa4, 0xa4, 0xb7, 0xb3, 0x67, 0x1f,
    0xcb, 0x79, 0xe6, 0x4e, 0xcc, 0xc0, 0xe5, 0x78, 0x82, 0x5a, 0xd0, 0x7d, 0xcc, 0xff, 0x72, 0x21,
    0xb8, 0x08, 0x46, 0x74, 0xf7, 0x43, 0x24, 0x8e, 0xe0, 0x35, 0x90, 0xe6, 0x81, 0x3a, 0x26, 0x4c,
    0x3c, 0x28, 0x52, 0xbb, 0x91, 0xc3, 0x00, 0xcb, 0x88, 0xd0, 0x65, 0x8b, 0x1b, 0x53, 0x2e, 0xa3,
    0x71, 0x64, 0x48, 0x97, 0xa2, 0x0d, 0xf9, 0x4e, 0x38, 0x19, 0xef, 0x46, 0xa9, 0xde, 0xac, 0xd8,
    0xa8, 0xfa, 0x76, 0x3f, 0xe3, 0x9c, 0x34, 0x3f, 0xf9, 0xdc, 0xbb, 0xc7, 0xc7, 0x0b, 0x4f, 0x1d,
    0x8a, 0x51, 0xe0, 0x4b, 0xcd, 0xb4, 0x59, 0x31, 0xc8, 0x9f, 0x7e, 0xc9, 0xd9, 0x78, 0x73, 0x64,
    0xea, 0xc5, 0xac, 0x83, 0x34, 0xd3, 0xeb, 0xc3, 0xc5, 0x81, 0xa0, 0xff, 0xfa, 0x13, 0x63, 0xeb,
    0x17, 0x0d, 0xdd, 0x51, 0xb7, 0xf0, 0xda, 0x49, 0xd3, 0x16, 0x55, 0x26, 0x29, 0xd4, 0x68, 0x9e,
    0x2b, 0x16, 0xbe, 0x58, 0x7d, 0x47, 0xa1, 0xfc, 0x8f, 0xf8, 0xb8, 0xd1, 0x7a, 0xd0, 0x31, 0xce,
    0x45, 0xcb, 0x3a, 0x8f, 0x95, 0x16, 0x04, 0x28, 0xaf, 0xd7, 0xfb, 0xca, 0xbb, 0x4b, 0x40, 0x7e,
];

const P32_1: u64 = 0x9e37_79b1;
const P32_2: u64 = 0x85eb_ca77;
const P32_3: u64 = 0xc2b2_ae3d;
const P64_1: u64 = 0x9e37_79b1_85eb_ca87;
const P64_2: u64 = 0xc2b2_ae3d_27d4_eb4f;
const P64_3: u64 = 0x1656_67b1_9e37_79f9;
const P64_4: u64 = 0x85eb_ca77_c2b2_ae63;
const P64_5: u64 = 0x27d4_eb2f_1656_67c5;

/// Eight bytes of the secret as a number.
const fn secret(at: usize) -> u64 {
    let mut value = 0;
    let mut index = 0;
    while index < 8 {
        value |= (SECRET[at + index] as u64) << (8 * index);
        index += 1;
    }
    value
}

const SECRET_0: u64 = secret(0);
const SECRET_8: u64 = secret(8);
const EMPTY: u64 = fold(SECRET_0, P64_2);

/// The low half of a product of 128 bits, xored with the high half.
#[inline(always)]
const fn fold(a: u64, b: u64) -> u64 {
    let product = a as u128 * b as u128;
    product as u64 ^ (product >> 64) as u64
}

#[inline(always)]
const fn avalanche(mut x: u64) -> u64 {
    x ^= x >> 37;
    x = x.wrapping_mul(P64_3);
    x ^ (x >> 32)
}

/// The hash of a key for filters of format version 5 and later.
#[inline]
pub fn xxph3(data: &[u8]) -> u64 {
    let len = data.len();
    if let (Some(head), Some(tail)) = (data.first_chunk::<8>(), data.last_chunk::<8>()) {
        if len > 16 {
            return above_16(data);
        }
        let (head, tail) = (u64::from_le_bytes(*head), u64::from_le_bytes(*tail));
        if len > 8 {
            let (low, high) = (head ^ SECRET_0, tail ^ SECRET_8);
            return avalanche((len as u64).wrapping_add(low).wrapping_add(high).wrapping_add(fold(low, high)));
        }
    }
    if let (Some(head), Some(tail)) = (data.first_chunk::<4>(), data.last_chunk::<4>()) {
        let (head, tail) = (u32::from_le_bytes(*head), u32::from_le_bytes(*tail));
        let keyed = (u64::from(head) | u64::from(tail) << 32) ^ SECRET_0;
        let mixed = (len as u64).wrapping_add((keyed ^ (keyed >> 51)).wrapping_mul(P32_1));
        return avalanche((mixed ^ (mixed >> 47)).wrapping_mul(P64_2));
    }
    match (data.first(), data.get(len / 2), data.last()) {
        (Some(&first), Some(&middle), Some(&last)) => {
            let combined = u32::from_le_bytes([first, middle, last, len as u8]);
            avalanche(u64::from(combined ^ SECRET_0 as u32).wrapping_mul(P64_1))
        }
        _ => EMPTY,
    }
}

#[inline(never)]
fn above_16(data: &[u8]) -> u64 {
    match data.len() {
        ..=128 => avalanche(up_to_128(data)),
        129..=240 => avalanche(up_to_240(data)),
        _ => long(data),
    }
}

#[inline(always)]
fn read(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

/// Sixteen bytes of `data` folded with sixteen of the secret.
#[inline(always)]
fn mix(data: &[u8], at: usize, secret_at: usize) -> u64 {
    fold(read(data, at) ^ read(&SECRET, secret_at), read(data, at + 8) ^ read(&SECRET, secret_at + 8))
}

fn up_to_128(data: &[u8]) -> u64 {
    let len = data.len();
    let mut acc = (len as u64).wrapping_mul(P64_1);
    acc = acc.wrapping_add(mix(data, 0, 0)).wrapping_add(mix(data, len - 16, 16));
    for pair in 1..len.div_ceil(32) {
        acc = acc.wrapping_add(mix(data, 16 * pair, 32 * pair));
        acc = acc.wrapping_add(mix(data, len - 16 * (pair + 1), 32 * pair + 16));
    }
    acc
}

fn up_to_240(data: &[u8]) -> u64 {
    let len = data.len();
    let mut acc = (len as u64).wrapping_mul(P64_1);
    for index in 0..8 {
        acc = acc.wrapping_add(mix(data, 16 * index, 16 * index));
    }
    acc = avalanche(acc);
    for index in 8..len / 16 {
        acc = acc.wrapping_add(mix(data, 16 * index, 16 * (index - 8) + 3));
    }
    acc.wrapping_add(mix(data, len - 16, 119))
}

const STRIPE: usize = 64;
const STRIPES_OF_BLOCK: usize = 16;

fn long(data: &[u8]) -> u64 {
    let mut acc = [P32_3, P64_1, P64_2, P64_3, P64_4, P32_2, P64_5, P32_1];
    let blocks = data.chunks_exact(STRIPE * STRIPES_OF_BLOCK);
    let rest = blocks.remainder();
    for block in blocks {
        add_stripes(&mut acc, block);
        for (lane, acc) in acc.iter_mut().enumerate() {
            *acc = (*acc ^ (*acc >> 47) ^ read(&SECRET, 128 + 8 * lane)).wrapping_mul(P32_1);
        }
    }
    add_stripes(&mut acc, rest);
    if !data.len().is_multiple_of(STRIPE) {
        add_stripe(&mut acc, &data[data.len() - STRIPE..], 121);
    }
    let mut result = (data.len() as u64).wrapping_mul(P64_1);
    for (pair, lanes) in acc.as_chunks::<2>().0.iter().enumerate() {
        let keyed = (lanes[0] ^ read(&SECRET, 11 + 16 * pair), lanes[1] ^ read(&SECRET, 19 + 16 * pair));
        result = result.wrapping_add(fold(keyed.0, keyed.1));
    }
    avalanche(result)
}

fn add_stripes(acc: &mut [u64; 8], data: &[u8]) {
    for (index, stripe) in data.chunks_exact(STRIPE).enumerate() {
        add_stripe(acc, stripe, 8 * index);
    }
}

#[inline(always)]
fn add_stripe(acc: &mut [u64; 8], stripe: &[u8], secret_at: usize) {
    for (lane, acc) in acc.iter_mut().enumerate() {
        let value = read(stripe, 8 * lane);
        let keyed = value ^ read(&SECRET, secret_at + 8 * lane);
        *acc = acc.wrapping_add(value).wrapping_add((keyed & 0xffff_ffff).wrapping_mul(keyed >> 32));
    }
}
