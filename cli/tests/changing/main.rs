//! What changes a file system as a whole, and what is left where that is cut short.

#[path = "../common/mod.rs"]
mod common;

mod identity;
mod killed;
mod mkfs;
mod resize;
