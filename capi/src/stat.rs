//! struct tane_stat.

use crate::pass::Sized_;

pub use tane_worker::{Stat as RawStat, Time as RawTimestamp};

// SAFETY: integers.
unsafe impl Sized_ for RawStat {}
