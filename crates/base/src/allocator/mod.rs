//! What the allocator of the process keeps for itself.
//!
//! Only of glibc's malloc is anything known. Its pages in between what is in use go back to the operating system when it is [asked](give_back), and never by themselves; it goes on counting them as its own, so they are
//! counted here.

#![expect(
    unsafe_code,
    reason = "what glibc's malloc tells and does is behind C functions, of which older versions lack one"
)]

#[cfg(all(target_os = "linux", target_env = "gnu", not(miri)))]
mod glibc {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    type MallInfo = unsafe extern "C" fn() -> libc::mallinfo2;

    /// Bytes that are free and without memory, as far as is known: those that were free when the allocator was asked last.
    static WITHOUT_MEMORY: AtomicU64 = AtomicU64::new(0);

    /// All bytes that are free.
    fn free() -> u64 {
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

    pub(super) fn free_bytes() -> u64 {
        let free = free();
        // With fewer of them free than that, some are in use again.
        let without = WITHOUT_MEMORY.fetch_min(free, Ordering::Relaxed).min(free);
        free - without
    }

    pub(super) fn give_back() {
        // SAFETY: it may be called by any thread at any time.
        unsafe { libc::malloc_trim(0) };
        WITHOUT_MEMORY.store(free(), Ordering::Relaxed);
    }
}

/// Bytes that the allocator has from the operating system and that nobody uses: what was freed in between what is still in use, since it was [asked](give_back) last. 0 where it does not tell;
/// glibc does since its version 2.33.
///
/// Takes the allocator's locks one after the other, and looks at everything that is free: for reports, not for hot paths.
pub fn free_bytes() -> u64 {
    #[cfg(all(target_os = "linux", target_env = "gnu", not(miri)))]
    return glibc::free_bytes();
    #[cfg(not(all(target_os = "linux", target_env = "gnu", not(miri))))]
    0
}

/// Has the allocator give whole pages that nobody uses back to the operating system, where it can. Takes its locks as [`free_bytes`] does, and as long as the system takes.
pub fn give_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu", not(miri)))]
    glibc::give_back();
}

#[cfg(test)]
mod tests {
    use super::{free_bytes, give_back};

    #[test]
    #[cfg(all(target_os = "linux", target_env = "gnu", not(miri)))]
    fn what_lies_free_between_what_is_in_use_is_told_until_it_is_given_back() {
        // Of eight pages each, with rows in between that stay.
        let mut rows: Vec<Option<Vec<u8>>> = (0..2_000).map(|_| Some(vec![1; 32_000])).collect();
        rows.iter_mut().enumerate().filter(|(place, _)| place % 8 > 0).for_each(|(_, row)| *row = None);
        assert!(free_bytes() > 40_000_000, "{}", free_bytes());
        give_back();
        assert!(free_bytes() < 20_000_000, "{}", free_bytes());
        assert!(rows.iter().flatten().all(|row| row.iter().all(|byte| *byte == 1)));
    }
}
