//! The cases.

mod views;
