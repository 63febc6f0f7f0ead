//! Tests of whole tables.

mod damage;
mod expired_blocks;
mod external;
mod extras;
mod filters;
mod format;
mod hash_search;
mod interop;
mod large_blocks;
mod ranges;
mod read_ahead;
mod reading;
mod round_trip;
mod separated;
mod slots;
