//! What the command says: help, errors, schemas.

#[path = "../common/mod.rs"]
mod common;

mod bench;
mod errors;
mod help;
mod host_errors;
mod schema;
