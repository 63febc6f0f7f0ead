//! Cases of interoperation with RocksDB, one file for each part of the format.

mod copies;
mod expiry;
mod levels;
mod ranges;
mod secondary;
mod tables;
mod timestamps;
mod transactions;
