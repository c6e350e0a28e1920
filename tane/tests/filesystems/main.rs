//! Every type of file system that the default kernel knows.

#[path = "../common/mod.rs"]
mod common;
#[path = "../hostile/hfsplus.rs"]
mod hfsplus;
#[path = "../inside/mod.rs"]
mod inside;
#[path = "../medium/mod.rs"]
mod medium;
#[path = "../roundtrip/mod.rs"]
mod roundtrip;

mod read_only;
mod writable;
