//! Disks and what is on them: probed, divided, joined, mounted, shared with others.

#[path = "../common/mod.rs"]
mod common;
#[path = "../inside/mod.rs"]
mod inside;
#[path = "../medium/mod.rs"]
mod medium;
#[path = "../roundtrip/mod.rs"]
mod roundtrip;
#[path = "../scratch/mod.rs"]
mod scratch;

mod bitlocker;
mod btrfs;
mod images;
mod kernels;
mod limits;
mod mounts;
mod overlay;
mod partitions;
mod probe;
mod volumes;
