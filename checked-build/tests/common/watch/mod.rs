//! Modules in an emulator that sees each instruction and each access.
//!
//! ```text
//! unicorn.rs     the emulator's library
//! emulator.rs    a module in it
//! witness.rs     what an instruction does, and what the checker has said of it
//! mutants.rs     as many changed modules as are asked for
//! ```

pub mod emulator;
mod mutants;
mod unicorn;
mod witness;

pub use mutants::{watch, work, SEED};
