//! Files of a mount: the calls that work on them, and what these promise.

#[path = "../common/mod.rs"]
mod common;
#[path = "../inside/mod.rs"]
mod inside;
#[path = "../medium/mod.rs"]
mod medium;
#[path = "../scratch/mod.rs"]
mod scratch;

mod attributes;
mod buffers;
mod entries;
mod files;
mod limits;
mod paths;
mod read_files;
mod tmpfs;
mod trees;
mod walk;
