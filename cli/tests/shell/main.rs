//! Many commands on one kernel, typed or not.

#[path = "../common/mod.rs"]
mod common;

mod reach;
mod sh;
mod terminal;
mod undo;
