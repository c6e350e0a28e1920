//! A look into the kernel: tracing, probes, symbols, damage.

#[path = "../common/mod.rs"]
mod common;

mod fuzz;
mod kaslr;
mod kernel_images;
mod kernel_tests;
mod modules;
mod own_images;
mod topologies;
mod trace;
