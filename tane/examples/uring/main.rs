//! Reads every file of an ext4 image, or of a directory of the host's, by
//! io_uring and prints what cksum(1) prints of each; how it went goes to standard
//! error.
//!
//!     uring [--poll] IMAGE|DIRECTORY
//!
//! With --poll a thread of the kernel looks for requests, so that they take no
//! call.

mod cksum;
mod ring;
mod walk;

use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;
use tane::{DiskOptions, Kernel, MountOptions};

fn run(from: &Path, poll: bool) -> std::io::Result<bool> {
    let flags = if poll { ring::SETUP_SQPOLL } else { 0 };
    let (kernel, mount, root);
    if from.is_dir() {
        kernel = Kernel::host();
        root = kernel.tree(from)?.open_dir("/")?;
    } else {
        kernel = Kernel::boot()?;
        let disk = kernel.open_disk(from, DiskOptions::new().snapshot(true))?;
        mount = MountOptions::new().mount(&kernel, disk.device())?;
        root = mount.open_dir("/")?;
    }
    let start = Instant::now();
    let mut walk = walk::Walk::new(&kernel, flags)?;
    if let Some(thread) = walk.poller()? {
        eprintln!("thread {thread} of the kernel looks for requests");
    }
    walk.tree(root)?;
    let (time, totals) = (start.elapsed(), walk.totals());
    eprintln!(
        "{} files, {} bytes, {} requests, {} calls of io_uring_enter, {time:.1?}",
        totals.files, totals.bytes, totals.requests, totals.calls
    );
    // A ring lets go of its files in its own time, so that an unmount now could
    // be EBUSY; nothing was written that it would have to report.
    Ok(totals.failed == 0)
}

fn main() -> ExitCode {
    let mut arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let poll = arguments.first().is_some_and(|first| first == "--poll");
    if poll {
        arguments.remove(0);
    }
    let [from] = &arguments[..] else {
        eprintln!("usage: uring [--poll] IMAGE|DIRECTORY");
        return ExitCode::from(2);
    };
    match run(Path::new(from), poll) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("uring: {}: {error}", Path::new(from).display());
            ExitCode::FAILURE
        }
    }
}
