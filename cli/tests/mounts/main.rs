//! Images that are mounted for the host's programs.

#![cfg(feature = "fuse")]

#[path = "../common/mod.rs"]
mod common;

mod ends;
mod fewer;
mod mount;
mod random;
