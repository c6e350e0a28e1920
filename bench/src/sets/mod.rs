//! What is measured, one file for each set: its rows, and how to measure one.

mod bed;
pub mod boot;
mod build;
mod caches;
mod cat;
mod checked;
mod checked_files;
pub mod create;
mod extract;
mod files;
pub mod instructions;
mod make;
mod mount;
pub mod net;
pub mod net_lab;
mod net_load;
pub mod net_user;
mod pair;
mod peak;
mod probes;
pub mod programs;
mod programs_work;
mod python;
mod ramfs;
mod syscalls;
mod threads;
mod xarray;

use crate::interrupt;
use crate::paths::Paths;
use crate::promise::{Promise, Set};
use crate::report::{Report, TANE};

/// Every row that there is on this machine, in the table's order.
pub fn promises() -> Vec<Promise> {
    let sets = Set::ALL.map(|set| match set {
        Set::Syscalls => syscalls::promises(),
        Set::Ramfs => ramfs::promises(),
        Set::Instructions => instructions::promises(),
        Set::Threads => threads::promises(),
        Set::Net => net::promises(),
        Set::Files => files::promises(),
        Set::Create => create::promises(),
        Set::Caches => caches::promises(),
        Set::Xarray => xarray::promises(),
        Set::Probes => probes::promises(),
        Set::Boot => boot::promises(),
        Set::Programs => programs::promises(),
        Set::Checked => [checked::promises(), checked_files::promises()].concat(),
        Set::Cat => cat::promises(),
        Set::Extract => [extract::promises(), peak::promises()].concat(),
        Set::Mount => mount::promises(),
        Set::Make => make::promises(),
        Set::Python => python::promises(),
        Set::Build => build::promises(),
    });
    sets.into_iter().flatten().collect()
}

/// Measure everyone who can keep this promise. What fails is in the report.
pub fn measure(promise: &Promise, paths: &Paths, report: &mut Report) {
    let done = match promise.set {
        Set::Syscalls => syscalls::measure(promise, paths, report),
        Set::Ramfs => ramfs::measure(promise, paths, report),
        Set::Instructions => instructions::measure(promise, paths, report),
        Set::Threads => threads::measure(promise, paths, report),
        Set::Net => net::measure(promise, paths, report),
        Set::Files => files::measure(promise, paths, report),
        Set::Create => create::measure(promise, report, paths),
        Set::Caches => caches::measure(promise, report),
        Set::Xarray => xarray::measure(promise, paths, report),
        Set::Probes => probes::measure(promise, paths, report),
        Set::Boot => boot::measure(promise, paths, report),
        Set::Programs => programs::measure(promise, paths, report),
        Set::Checked if checked_files::is_of(promise) => {
            checked_files::measure(promise, paths, report)
        }
        Set::Checked => checked::measure(promise, paths, report),
        Set::Cat => cat::measure(promise, paths, report),
        Set::Extract if peak::is_of(promise) => peak::measure(promise, paths, report),
        Set::Extract => extract::measure(promise, paths, report),
        Set::Mount => mount::measure(promise, paths, report),
        Set::Make => make::measure(promise, paths, report),
        Set::Python => python::measure(promise, paths, report),
        Set::Build => {
            build::measure(promise, report);
            Ok(())
        }
    };
    if let Err(error) = done {
        report.miss(promise, TANE, interrupt::or(&error));
    }
}
