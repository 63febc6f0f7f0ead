//! The database as its users see it, on the simulated disk and on one thread.

mod approximate;
mod basics;
mod merges;
mod misuse;
mod options_files;
mod pins;
mod prefixes;
mod prepared;
mod ranges;
mod styles;
mod table_files;
mod timestamps;
mod upkeep;
mod wal_modes;
