//! The engine, the model, and the options that are drawn for them.

pub mod options;
pub mod world;
