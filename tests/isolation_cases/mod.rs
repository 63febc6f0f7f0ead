//! Ways to make histories.

mod threads;
