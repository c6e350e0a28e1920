//! Two trees, side by side: what is in one of them only, and what differs.

mod content;
mod differences;
mod pairs;
pub mod told;

pub use content::patch;
pub use differences::{Aspect, Aspects, Differences};
pub use pairs::{walk, Entry, Pair, PairVisitor, Top};
