//! struct tane_worker_options.

use crate::error::Result;
use crate::pass::{path, read_or_zero, text, Sized_};
use std::ffi::c_char;
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
}

// SAFETY: integers and pointers.
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
    }
    Ok(options)
}
