//! The database as its users see it, on the simulated disk and on one thread.

mod approximate;
mod basics;
mod checked;
mod compressed_blocks;
mod covered;
mod ingest;
mod merge_names;
mod merges;
mod misuse;
mod next_wal;
mod options_files;
mod pins;
mod prefixes;
mod prepared;
mod ranges;
mod read_triggered;
mod set_options;
mod styles;
mod subcompactions;
mod table_files;
mod timestamps;
mod upkeep;
mod waiting;
mod wal_modes;
mod yields;
