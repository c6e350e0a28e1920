//! struct tane_worker_options.

use crate::error::Result;
use crate::pass::{path, read_or_zero, text, Argument, Sized_};
use std::ffi::{c_char, c_int, c_void};
use std::time::Duration;
use tane_worker::Options;

#[repr(C)]
pub struct RawWorkerOptions {
    size: usize,
    program: *const c_char,
    image: *const c_char,
    cmdline: *const c_char,
    memory: u64,
    memory_limit: u64,
    milliseconds: u64,
    cpus: u32,
    reserved: u32,
    interrupted: Option<unsafe extern "C" fn(*mut c_void) -> c_int>,
    interrupted_arg: *mut c_void,
}

// SAFETY: integers, pointers and an optional function.
unsafe impl Sized_ for RawWorkerOptions {}

/// # Safety
/// As tane.h says.
pub unsafe fn options(raw: *const RawWorkerOptions) -> Result<Options> {
    let mut options = Options::new();
    // SAFETY: as tane.h says.
    unsafe {
        let raw = read_or_zero(raw)?;
        if !raw.program.is_null() {
            options.program(path(raw.program)?);
        }
        if !raw.image.is_null() {
            options.kernel(path(raw.image)?);
        }
        if let Some(words) = text(raw.cmdline)? {
            options.cmdline(&words);
        }
        if raw.memory != 0 {
            options.memory(raw.memory);
        }
        if raw.memory_limit != 0 {
            options.memory_limit(raw.memory_limit);
        }
        if raw.milliseconds != 0 {
            options.time_limit(Duration::from_millis(raw.milliseconds));
        }
        if raw.cpus != 0 {
            options.cpus(raw.cpus);
        }
        if let Some(interrupted) = raw.interrupted {
            let argument = Argument(raw.interrupted_arg);
            options.interrupted(move || {
                let argument = &argument;
                // SAFETY: the caller's function, with its argument.
                interrupted(argument.0) != 0
            });
        }
    }
    Ok(options)
}
