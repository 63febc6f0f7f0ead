//! Zstd frames without a declared size: records of compressed logs.

use crate::{Error, ErrorKind, Result};
use std::io::Read;

/// Logarithm of the largest window that a frame may ask for: 8 MiB, which every level but the most expensive ones keeps to.
const MAX_WINDOW_LOG: u32 = 23;

/// Bytes that are decoded at a time.
const STEP: usize = 64 << 10;

/// Appends what the one frame in `frame` decodes to, which may be `limit` bytes at most.
///
/// # Errors
///
/// `Corruption` if `frame` is not exactly one whole frame; `LimitExceeded` beyond `limit`.
pub fn decompress_zstd_frame(frame: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<()> {
    let corrupt = |error: std::io::Error| Error::corrupt("Zstd frame").with_source(error);
    let mut decoder = zstd::stream::read::Decoder::with_buffer(frame).map_err(corrupt)?.single_frame();
    decoder.window_log_max(MAX_WINDOW_LOG).map_err(corrupt)?;
    let start = out.len();
    loop {
        let filled = out.len();
        let room = STEP.min(limit.saturating_add(1).saturating_sub(filled - start));
        out.resize(filled + room, 0);
        let read = decoder.read(&mut out[filled..]);
        out.truncate(filled + read.as_ref().map_or(0, |read| *read));
        match read {
            Err(error) => return Err(corrupt(error)),
            Ok(0) => break,
            Ok(_) if out.len() - start > limit => {
                return Err(Error::new(ErrorKind::LimitExceeded, format!("Zstd frame of more than {limit} bytes")));
            }
            Ok(_) => {}
        }
    }
    if decoder.finish().is_empty() { Ok(()) } else { Err(Error::corrupt("bytes behind a Zstd frame")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(data: &[u8]) -> Vec<u8> {
        zstd::stream::encode_all(data, 3).unwrap()
    }

    #[test]
    fn one_whole_frame_is_decoded() {
        for len in [0, 1, 1000, STEP - 1, STEP, 3 * STEP + 5] {
            let data: Vec<u8> = (0..len).map(|at| (at / 7) as u8).collect();
            let mut out = b"before".to_vec();
            decompress_zstd_frame(&frame(&data), len, &mut out).unwrap();
            assert_eq!(&out[6..], data);
        }
    }

    #[test]
    fn a_limit_is_kept_and_damage_is_told() {
        let data = vec![7; 100_000];
        let good = frame(&data);
        let kind = |bytes: &[u8], limit| decompress_zstd_frame(bytes, limit, &mut Vec::new()).unwrap_err().kind();
        assert_eq!(kind(&good, data.len() - 1), ErrorKind::LimitExceeded);
        assert_eq!(kind(&[], 10), ErrorKind::Corruption);
        assert_eq!(kind(&[&good[..], b"x"].concat(), 1 << 20), ErrorKind::Corruption);
        for cut in 0..good.len() {
            assert_eq!(kind(&good[..cut], 1 << 20), ErrorKind::Corruption, "{cut}");
        }
        for at in 0..good.len() {
            let mut bytes = good.clone();
            bytes[at] ^= 0x55;
            let _ = decompress_zstd_frame(&bytes, 1 << 20, &mut Vec::new());
        }
    }
}
