//! What is given on the command line to every verb, and how quantities are written there.

mod kernel;
mod net;
mod options;
mod quantities;

pub use kernel::{installed_kernels, kernels_in};
pub use net::{Net, NetAddress};
pub use options::Options;
pub use quantities::parse_time;
pub use tane::parse_size;
