//! Programs of the distribution that make, check and resize file systems: what no
//! system call does. They work on an ordinary file.

pub mod check;
pub mod identity;
pub mod online;
pub mod partition;
pub mod place;
