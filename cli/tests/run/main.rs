//! Unchanged programs on the Linux of an image, and its network.

#[path = "../common/mod.rs"]
mod common;
mod suite;

mod calls;
mod containers;
mod file_systems;
mod net;
mod network;
mod processes;
mod programs;
mod python;
mod random;
mod roots;
mod suites;
mod terminal;
mod tracers;
mod wires;
