//! The work of tests/stress.rs: what threads do, what must come of it, and who
//! looks after them.

pub mod data;
pub mod model;
pub mod own;
pub mod shared;
pub mod watch;
