//! What is given on the command line to every verb, and how quantities are written there.

mod global;
mod quantities;

pub use global::Global;
pub use quantities::parse_time;
pub use tane::parse_size;
