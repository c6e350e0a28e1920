//! Programs that are built as checked modules.

#[path = "../common/mod.rs"]
mod common;

mod build;
mod check;
mod libc;
mod run_module;
mod tl;
mod wasi;
