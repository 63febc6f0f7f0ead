//! An allocator that knows how much each thread has allocated, to see what damaged bytes make the engine ask for. Databases of these tests
//! have no threads of their own: all that they ask for is asked for by the test's.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// Counts, and leaves the work to the system's allocator.
pub struct Counting;

thread_local! {
    /// Below zero where a thread frees more than it allocated.
    static NOW: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

fn grow(bytes: usize) {
    NOW.set(NOW.get() + bytes as isize);
    PEAK.set(PEAK.get().max(NOW.get()));
}

fn shrink(bytes: usize) {
    NOW.set(NOW.get() - bytes as isize);
}

// SAFETY: every call goes to the system's allocator with the same arguments; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grow(layout.size());
        // SAFETY: the caller keeps the contract of this method, which is that of the one called.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        shrink(layout.size());
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        grow(new_size);
        shrink(layout.size());
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, new_size) }
    }
}

/// The most bytes that this thread had allocated at one time while `work` ran, beyond those allocated before.
pub fn peak_bytes(work: impl FnOnce()) -> usize {
    let before = NOW.get();
    PEAK.set(before);
    work();
    (PEAK.get() - before).max(0) as usize
}
