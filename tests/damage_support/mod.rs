//! What the tests of damage work with: databases, wounds, and an allocator that counts.

pub mod complete;
pub mod corpus;
pub mod counting;
pub mod wounds;
