//! The block device (virtio 1.2, 5.2).

mod config;
mod counters;
mod device;
mod fuzz;
mod request;
mod saved;

pub use counters::{requests, Counters};
pub use device::{Block, BlockOptions};
pub use fuzz::fuzz_queue;
