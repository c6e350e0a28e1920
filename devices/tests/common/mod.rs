//! A guest with a disk, for tests: memory, registers, and a driver.
#![allow(dead_code)]

pub mod disk;
pub mod hostile;
pub mod memory;
pub mod ring;
