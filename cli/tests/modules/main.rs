//! Programs that are built as checked modules.

#[path = "../common/mod.rs"]
mod common;

mod build;
mod check;
mod constructors;
mod jq;
mod lent;
mod libc;
mod run_module;
mod sockets;
mod sqlite;
mod tl;
mod wasi;
