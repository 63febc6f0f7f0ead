//! Numbers: big-endian, moved so that unsigned bytes sort as the values do.

mod sealed {
    pub trait Sealed {}
}

/// A number with a memcomparable form of fixed width: the integers of 8 to 64 bits and both floating-point types.
///
/// Floating-point numbers sort as `total_cmp` says: -NaN, -inf, ..., -0.0, 0.0, ..., inf, NaN.
pub trait FixedKey: Copy + sealed::Sealed {
    /// The form.
    type Bytes: AsRef<[u8]> + AsMut<[u8]> + Default;

    /// The form of `self`.
    fn to_ordered(self) -> Self::Bytes;

    /// The number of a form; every one is valid.
    fn from_ordered(bytes: Self::Bytes) -> Self;
}

macro_rules! fixed_keys {
    ($($type:ty, $len:literal, |$value:ident| $to:expr, |$bits:ident: $unsigned:ty| $from:expr;)*) => {$(
        impl sealed::Sealed for $type {}

        impl FixedKey for $type {
            type Bytes = [u8; $len];

            #[inline(always)]
            fn to_ordered(self) -> Self::Bytes {
                let $value = self;
                let ordered: $unsigned = $to;
                ordered.to_be_bytes()
            }

            #[inline(always)]
            fn from_ordered(bytes: Self::Bytes) -> Self {
                let $bits = <$unsigned>::from_be_bytes(bytes);
                $from
            }
        }
    )*};
}

fixed_keys! {
    u8, 1, |value| value, |bits: u8| bits;
    u16, 2, |value| value, |bits: u16| bits;
    u32, 4, |value| value, |bits: u32| bits;
    u64, 8, |value| value, |bits: u64| bits;
    i8, 1, |value| value as u8 ^ (1 << 7), |bits: u8| (bits ^ (1 << 7)) as i8;
    i16, 2, |value| value as u16 ^ (1 << 15), |bits: u16| (bits ^ (1 << 15)) as i16;
    i32, 4, |value| value as u32 ^ (1 << 31), |bits: u32| (bits ^ (1 << 31)) as i32;
    i64, 8, |value| value as u64 ^ (1 << 63), |bits: u64| (bits ^ (1 << 63)) as i64;
    f32, 4, |value| order_f32(value.to_bits()), |bits: u32| f32::from_bits(unorder_f32(bits));
    f64, 8, |value| order_f64(value.to_bits()), |bits: u64| f64::from_bits(unorder_f64(bits));
}

/// Negative numbers are inverted, others get the highest bit.
#[inline(always)]
const fn order_f32(bits: u32) -> u32 {
    bits ^ (((bits as i32 >> 31) as u32) | 1 << 31)
}

#[inline(always)]
const fn unorder_f32(ordered: u32) -> u32 {
    ordered ^ (((!ordered as i32 >> 31) as u32) | 1 << 31)
}

#[inline(always)]
const fn order_f64(bits: u64) -> u64 {
    bits ^ (((bits as i64 >> 63) as u64) | 1 << 63)
}

#[inline(always)]
const fn unorder_f64(ordered: u64) -> u64 {
    ordered ^ (((!ordered as i64 >> 63) as u64) | 1 << 63)
}
