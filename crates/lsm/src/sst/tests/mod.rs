//! Tests of whole tables.

mod damage;
mod format;
mod interop;
mod reading;
mod round_trip;
mod slots;
