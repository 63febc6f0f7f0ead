//! The B-tree engine as a whole, one module a kind of test. They are one program, for each program is compiled and linked with the engine anew.

mod change_buffer;
mod crash;
mod damage;
mod fixtures;
mod io_errors;
mod meanwhile;
mod model;
mod planted;
mod pool;
mod recovery;
mod support;
mod tables;
mod transactions;
