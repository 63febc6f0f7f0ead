//! Cases of interoperation with RocksDB, one file for each part of the format.

mod tables;
mod timestamps;
