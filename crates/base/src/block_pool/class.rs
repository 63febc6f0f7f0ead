//! Size classes: multiples of 16 up to 128 bytes, then eight to every doubling.

/// The shift of the first power of two with eight classes above it.
const FIRST_SHIFT: usize = 7;

/// Buffers longer than this are not pooled.
const MAX_POOLED: usize = 16 << 20;

/// The number of classes.
pub(super) const CLASSES: usize = 8 + 8 * (MAX_POOLED.ilog2() as usize - FIRST_SHIFT);

/// The class that serves `len` bytes; [`CLASSES`] if none does.
#[inline]
pub(super) fn class_of(len: usize) -> usize {
    let last = len.saturating_sub(1);
    if last < 1 << FIRST_SHIFT {
        return last / 16;
    }
    let shift = last.ilog2() as usize;
    let class = 8 * (shift - FIRST_SHIFT) + (last >> (shift - 3));
    class.min(CLASSES)
}

/// The bytes of a buffer of `class`; for no class, those asked for.
#[inline]
pub(super) fn size_of_class(class: usize, asked: usize) -> usize {
    match class {
        ..8 => (class + 1) * 16,
        8..CLASSES => {
            let doubling = class / 8 - 1;
            (class % 8 + 9) << (FIRST_SHIFT - 3 + doubling)
        }
        _ => asked,
    }
}
