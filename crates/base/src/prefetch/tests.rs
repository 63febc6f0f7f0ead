//! Memory that begins with a cache line.

use super::*;

#[test]
fn what_is_aligned_is_so_whatever_its_length() {
    for len in [0, 1, 63, 64, 65, 4_000, 300_000] {
        let bytes: Vec<u8> = (0..len).map(|at| at as u8).collect();
        let aligned = LineAligned::new(&bytes);
        assert_eq!(*aligned, bytes);
        assert!(aligned.as_ptr().addr().is_multiple_of(CACHE_LINE), "{len}");
        assert!(aligned.memory_usage() >= len);
    }
}
