//! Copies as the command makes them: which name a copy gets, and what is told of it on a
//! terminal. The engine is `tane_copy`.

mod plan;
mod progress;
mod report;
mod sparse;

pub use plan::{plan, plan_file, source, Operand};
pub use progress::{Mode as ProgressMode, Progress};
pub use report::Report;
pub use sparse::Sparse;
pub use tane_copy::*;
