//! A guest for the devices: memory, registers, rings and a block driver of the
//! tests' own; and a real kernel.
#![allow(dead_code)] // every test program uses a part of it

pub mod disks;
pub mod driver;
pub mod hostile;
pub mod kernel;
pub mod memory;
pub mod ring;
