// SPDX-License-Identifier: GPL-2.0-only
//! One chore at a time may write to one part of the build directory.

use std::fs::File;
use std::os::fd::AsRawFd;

use crate::layout::{create_dir, Layout};
use crate::Result;

/// Held until dropped; the host gives it back if we die.
pub struct Lock {
    _file: File,
}

/// Wait for other chores in this checkout that work on the same part.
pub fn take(layout: &Layout, part: &str) -> Result<Lock> {
    create_dir(&layout.build())?;
    let path = layout.build().join(format!("{part}.lock"));
    let file = File::create(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    if !flock(&file, libc::LOCK_EX | libc::LOCK_NB) {
        eprintln!("{part}: waiting for another xtask in this checkout");
        if !flock(&file, libc::LOCK_EX) {
            return Err(format!(
                "{}: {}",
                path.display(),
                std::io::Error::last_os_error()
            ));
        }
    }
    Ok(Lock { _file: file })
}

fn flock(file: &File, operation: i32) -> bool {
    // SAFETY: flock() takes a descriptor, which `file` keeps open, and flags.
    unsafe { libc::flock(file.as_raw_fd(), operation) == 0 }
}
