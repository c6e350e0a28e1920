//! What is measured, one file for each set.

pub mod boot;
mod build;
mod cat;
mod extract;
mod syscalls;

use crate::paths::Paths;
use crate::promise::{Promise, Set};
use crate::report::{Report, TANE};

/// Measure everyone who can keep this promise. What fails is in the report.
pub fn measure(promise: &Promise, paths: &Paths, report: &mut Report) {
    let done = match promise.set {
        Set::Syscalls => syscalls::measure(promise, paths, report),
        Set::Boot => boot::measure(promise, paths, report),
        Set::Cat => cat::measure(promise, paths, report),
        Set::Extract => extract::measure(promise, paths, report),
        Set::Build => {
            build::measure(promise, report);
            Ok(())
        }
    };
    if let Err(error) = done {
        report.miss(promise, TANE, &error);
    }
}
