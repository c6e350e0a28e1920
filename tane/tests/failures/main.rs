//! Power that fails and hosts that fail: what was promised is there.

#[path = "../common/mod.rs"]
mod common;
#[path = "../crash/mod.rs"]
mod crash;
#[path = "../inside/mod.rs"]
mod inside;
#[path = "../medium/mod.rs"]
mod medium;
#[path = "../scratch/mod.rs"]
mod scratch;

mod host_errors;
mod host_errors_filesystems;
mod power;
mod power_filesystems;
