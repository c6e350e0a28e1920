//! tane_jail.

use crate::error::{answer, Failure, Result};
use crate::pass::{path, read_or_zero, Sized_};
use std::ffi::c_char;
use std::path::PathBuf;
use std::time::Duration;
use tane::jail::{Error, Files, Jail};

#[repr(C)]
pub struct JailOptions {
    size: usize,
    read: *const *const c_char,
    write: *const *const c_char,
    write_beneath: *const *const c_char,
    memory: u64,
    milliseconds: u64,
    flags: u32,
}

// SAFETY: integers and pointers.
unsafe impl Sized_ for JailOptions {}

const BOOTS: u32 = 1;
const NETWORK: u32 = 2;

/// A list of paths that ends with NULL; NULL is an empty one.
unsafe fn paths(list: *const *const c_char) -> Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    if list.is_null() {
        return Ok(paths);
    }
    // SAFETY: the caller's list, up to its end.
    unsafe {
        while !(*list.add(paths.len())).is_null() {
            paths.push(path(*list.add(paths.len()))?.into());
        }
    }
    Ok(paths)
}

fn failure(e: Error) -> Failure {
    let errno = match &e {
        Error::Threads(_) => libc::EBUSY,
        Error::Path(_, e) | Error::Seccomp(e) | Error::Limit(_, e) | Error::Capabilities(e) => {
            e.raw_os_error().unwrap_or(libc::EINVAL)
        }
        Error::Landlock(_) => libc::EINVAL,
    };
    Failure::new(errno, format!("jail: {e}"))
}

#[no_mangle]
pub unsafe extern "C" fn tane_jail(options: *const JailOptions) -> i32 {
    // SAFETY: as tane.h says.
    answer(|| unsafe {
        let options = read_or_zero(options)?;
        let mut jail = Jail::new();
        for path in paths(options.read)? {
            jail.read(path);
        }
        for path in paths(options.write)? {
            jail.write(path);
        }
        for path in paths(options.write_beneath)? {
            jail.write_beneath(path);
        }
        if options.memory != 0 {
            jail.memory(options.memory);
        }
        if options.milliseconds != 0 {
            jail.time(Duration::from_millis(options.milliseconds));
        }
        jail.boots(options.flags & BOOTS != 0);
        jail.network(options.flags & NETWORK != 0);
        let held = jail.enter().map_err(failure)?;
        Ok(match held.files {
            Files::Fully => 0,
            Files::Partly => 1,
            Files::No => 2,
        })
    })
}
