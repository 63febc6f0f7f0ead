//! Tests of whole tables.

mod damage;
mod format;
mod interop;
mod ranges;
mod reading;
mod round_trip;
mod slots;
