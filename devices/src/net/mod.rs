//! The network device (virtio 1.2, 5.1).

mod config;
mod control;
mod counters;
mod device;
mod filter;
mod fuzz;
mod receive;
mod transmit;

pub use config::{Mac, NetOptions};
pub use counters::NetCounters;
pub use device::Net;
pub use fuzz::fuzz_net;
