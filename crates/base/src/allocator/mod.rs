//! What the allocator of the process keeps for itself.
//!
//! Only of glibc's malloc is anything known. Its pages in between what is in use go back to the operating system when it is [asked](give_back_beyond), and hardly ever by themselves; it goes on counting them as its own, so they are
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

    /// Bytes that were free when the allocator was asked last, or the fewest since.
    static ASKED_FOR: AtomicU64 = AtomicU64::new(0);

    pub(super) fn free_bytes() -> u64 {
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

    pub(super) fn give_back_beyond(most: u64) -> bool {
        let free = free_bytes();
        let is_due = free - ASKED_FOR.fetch_min(free, Ordering::Relaxed).min(free) > most;
        if is_due {
            // SAFETY: it may be called by any thread at any time.
            unsafe { libc::malloc_trim(0) };
            ASKED_FOR.store(free_bytes(), Ordering::Relaxed);
        }
        is_due
    }
}

/// Bytes that the allocator has from the operating system and that nobody uses: what was freed in between what is still in use. 0 where it does not tell; glibc does since its version 2.33. An upper bound of what is
/// resident of them.
///
/// Takes the allocator's locks one after the other, and looks at everything that is free: for reports, not for hot paths.
pub fn free_bytes() -> u64 {
    #[cfg(all(target_os = "linux", target_env = "gnu", not(miri)))]
    return glibc::free_bytes();
    #[cfg(not(all(target_os = "linux", target_env = "gnu", not(miri))))]
    0
}

/// If more than `most` bytes were freed since it was asked last, has the allocator give whole pages that nobody uses back to the operating system, where it can; returns whether. Takes its locks as
/// [`free_bytes`] does, and as long as the system takes.
pub fn give_back_beyond(most: u64) -> bool {
    #[cfg(all(target_os = "linux", target_env = "gnu", not(miri)))]
    return glibc::give_back_beyond(most);
    #[cfg(not(all(target_os = "linux", target_env = "gnu", not(miri))))]
    {
        let _ = most;
        false
    }
}

#[cfg(test)]
mod tests {
    use super::{free_bytes, give_back_beyond};

    #[test]
    #[cfg(all(target_os = "linux", target_env = "gnu", not(miri)))]
    fn what_lies_free_between_what_is_in_use_is_told_and_given_back() {
        // Of eight pages each, with rows in between that stay.
        let mut rows: Vec<Option<Vec<u8>>> = (0..2_000).map(|_| Some(vec![1; 32_000])).collect();
        rows.iter_mut().enumerate().filter(|(place, _)| place % 8 > 0).for_each(|(_, row)| *row = None);
        assert!(free_bytes() > 40_000_000, "{}", free_bytes());
        let resident = || {
            let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
            statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * rustix::param::page_size()
        };
        let before = resident();
        assert!(!give_back_beyond(1 << 40) && give_back_beyond(30_000_000));
        assert!(resident() + 20_000_000 < before, "{before}, {} now", resident());
        assert!(!give_back_beyond(30_000_000), "nothing was freed since");
        assert!(rows.iter().flatten().all(|row| row.iter().all(|byte| *byte == 1)));
    }
}
