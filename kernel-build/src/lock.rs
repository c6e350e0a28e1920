// SPDX-License-Identifier: GPL-2.0-only
//! One build at a time may write to one part of the build directory.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::time::Duration;

use crate::command::STOPPED;
use crate::layout::{create_dir, Layout};
use crate::{Listener, Result};

/// Held until dropped; the host gives it back if we die.
pub struct Lock {
    _file: File,
}

impl Lock {
    /// Wait for other builds that work on the same part.
    pub fn take(layout: &Layout, part: &str, listener: &dyn Listener) -> Result<Lock> {
        create_dir(&layout.build())?;
        let path = layout.build().join(format!("{part}.lock"));
        let failed = |e: std::io::Error| format!("{}: {e}", path.display());
        let file = File::create(&path).map_err(failed)?;
        let mut told = false;
        while !flock(&file) {
            let error = std::io::Error::last_os_error();
            if error.kind() != std::io::ErrorKind::WouldBlock {
                return Err(failed(error));
            }
            if listener.is_stopped() {
                return Err(STOPPED.into());
            }
            if !told {
                listener.note(&format!("{part}: waiting for another build there"));
                told = true;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(Lock { _file: file })
    }
}

fn flock(file: &File) -> bool {
    // SAFETY: flock() takes a descriptor, which `file` keeps open, and flags.
    unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) == 0 }
}
