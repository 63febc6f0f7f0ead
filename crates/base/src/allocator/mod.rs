//! What the process takes beside what its parts hold: what its allocator keeps for itself, and the program.
//!
//! Only of glibc's malloc is anything known. Each time that something larger is freed it raises the size up to which it maps nothing by itself, up to 32 MiB, and keeps up to twice as much as that free at the end of
//! each of its areas, of which there are eight to a core: [`bound_free`] ends that.

#![expect(unsafe_code, reason = "what glibc's malloc tells and does is behind C functions")]

#[cfg(all(target_os = "linux", target_env = "gnu", not(miri)))]
mod glibc {
    use std::sync::OnceLock;

    /// What glibc begins with.
    const MAPPED_BYTES: libc::c_int = 128 << 10;

    type MallInfo = unsafe extern "C" fn() -> libc::mallinfo2;

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

    pub(super) fn bound_free(most: usize) {
        let most = i32::try_from(most).unwrap_or(i32::MAX);
        // SAFETY: it may be called by any thread at any time, and refuses what makes no sense.
        unsafe {
            libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPED_BYTES);
            libc::mallopt(libc::M_TRIM_THRESHOLD, most);
        }
    }
}

/// Bytes that the allocator has from the operating system and that nobody uses: what was freed in between what is still in use, and at the end. 0 where it does not tell; glibc does since its version 2.33. An upper
/// bound of what is resident of them.
///
/// Takes the allocator's locks one after the other, and looks at everything that is free: for reports, not for hot paths.
pub fn free_bytes() -> u64 {
    #[cfg(all(target_os = "linux", target_env = "gnu", not(miri)))]
    return glibc::free_bytes();
    #[cfg(not(all(target_os = "linux", target_env = "gnu", not(miri))))]
    0
}

/// From now on, and for good, has the allocator map what is of 128 KiB or more by itself, and give it back when it is freed, and keep no more than `most` bytes free at the end of each of its areas.
pub fn bound_free(most: usize) {
    #[cfg(all(target_os = "linux", target_env = "gnu", not(miri)))]
    glibc::bound_free(most);
    #[cfg(not(all(target_os = "linux", target_env = "gnu", not(miri))))]
    let _ = most;
}

/// Resident bytes of the program and its libraries, and of other files that are mapped. 0 where the system does not tell.
#[expect(clippy::disallowed_methods, reason = "the kernel tells it in a file of its own")]
pub fn mapped_file_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let shared = statm.split(' ').nth(2).and_then(|pages| pages.parse::<u64>().ok());
    shared.unwrap_or(0) * rustix::param::page_size() as u64
}

#[cfg(test)]
mod tests {
    use super::{bound_free, free_bytes, mapped_file_bytes};

    /// One after the other: the figures are the process's.
    #[test]
    #[cfg(all(target_os = "linux", target_env = "gnu", not(miri)))]
    fn what_lies_free_is_told_and_what_is_large_is_given_back() {
        bound_free(1 << 20);
        for _ in 0..4 {
            drop(vec![1_u8; 30 << 20]);
        }
        assert!(free_bytes() < 20_000_000, "{}", free_bytes());
        let mut rows: Vec<Option<Vec<u8>>> = (0..4_000).map(|_| Some(vec![1; 1_000])).collect();
        rows.iter_mut().step_by(2).for_each(|row| *row = None);
        assert!(free_bytes() > 1_000_000, "{}", free_bytes());
        assert!((100_000..10_000_000_000).contains(&mapped_file_bytes()), "{}", mapped_file_bytes());
    }
}
