//! What the allocator of the process keeps for itself.

#![expect(unsafe_code, reason = "the figures of glibc's malloc are behind a C function that older versions lack")]

/// Bytes that the allocator has from the operating system and that nobody uses: what was given back in between what is still in use. 0 where it does not tell; glibc does since its version 2.33. An upper bound of what is resident of them.
///
/// Takes the allocator's locks one after the other: for reports, not for hot paths.
pub fn free_bytes() -> u64 {
    #[cfg(all(target_os = "linux", target_env = "gnu", not(miri)))]
    {
        use std::sync::OnceLock;

        type MallInfo = unsafe extern "C" fn() -> libc::mallinfo2;
        static MALLINFO2: OnceLock<Option<MallInfo>> = OnceLock::new();

        let mallinfo2 = MALLINFO2.get_or_init(|| {
            // SAFETY: the name ends with a zero, and the default namespace may be searched at any time.
            let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"mallinfo2".as_ptr()) };
            // SAFETY: the function of this name has this type in glibc, and in whatever takes its place.
            (!found.is_null()).then(|| unsafe { std::mem::transmute::<*mut libc::c_void, MallInfo>(found) })
        });
        // SAFETY: it may be called by any thread at any time.
        mallinfo2.map_or(0, |mallinfo2| unsafe { mallinfo2() }.fordblks as u64)
    }
    #[cfg(not(all(target_os = "linux", target_env = "gnu", not(miri))))]
    0
}

#[cfg(test)]
mod tests {
    use super::free_bytes;

    #[test]
    #[cfg(all(target_os = "linux", target_env = "gnu", not(miri)))]
    fn what_lies_free_between_what_is_in_use_is_told() {
        let mut rows: Vec<Option<Vec<u8>>> = (0..4_000).map(|_| Some(vec![1; 1_000])).collect();
        rows.iter_mut().step_by(2).for_each(|row| *row = None);
        assert!(free_bytes() > 1_000_000, "{}", free_bytes());
    }
}
