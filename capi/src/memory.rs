//! tane_buffer_*, tane_map and what follows.

use crate::error::{answer, done, Failure};
use crate::file::TaneFile;
use crate::kernel::TaneKernel;
use crate::pass::{give, handle, take};
use std::ffi::c_void;
use tane::{Buffer, Map, MapOptions};

pub struct TaneBuffer(Buffer);

pub struct TaneMap(Map);

fn failure(error: &std::io::Error, action: &str) -> Failure {
    let errno = tane::errno_of(error).unwrap_or(libc::EIO);
    Failure::new(errno, format!("{action}: {error}"))
}

#[no_mangle]
pub unsafe extern "C" fn tane_buffer_alloc(
    kernel: *mut TaneKernel,
    len: usize,
    buffer: *mut *mut TaneBuffer,
) -> i32 {
    // SAFETY: as tane.h says.
    answer(|| unsafe {
        let kernel = handle(kernel)?.local()?;
        let new = || kernel.buffer(len).map_err(|e| failure(&e, "buffer"));
        give(buffer, || Ok(TaneBuffer(new()?)))
    })
}

#[no_mangle]
pub unsafe extern "C" fn tane_buffer_data(buffer: *const TaneBuffer) -> *mut c_void {
    // SAFETY: as tane.h says.
    match unsafe { handle(buffer) } {
        Ok(buffer) => buffer.0.as_ptr().cast_mut().cast(),
        Err(_) => std::ptr::null_mut(),
    }
}

#[no_mangle]
pub unsafe extern "C" fn tane_buffer_check(buffer: *const TaneBuffer) -> i32 {
    // SAFETY: as tane.h says.
    done(|| Ok::<_, Failure>(unsafe { handle(buffer) }?.0.check()?))
}

#[no_mangle]
pub unsafe extern "C" fn tane_buffer_free(buffer: *mut TaneBuffer) {
    answer(|| {
        // SAFETY: as tane.h says.
        drop(unsafe { take(buffer) });
        Ok(0)
    });
}

const WRITE: u32 = 1;
const PRIVATE: u32 = 2;
const POPULATE: u32 = 4;

#[no_mangle]
pub unsafe extern "C" fn tane_map(
    file: *mut TaneFile,
    offset: u64,
    len: usize,
    flags: u32,
    map: *mut *mut TaneMap,
) -> i32 {
    // SAFETY: as tane.h says.
    answer(|| unsafe {
        let file = handle(file)?.local()?;
        if flags & !(WRITE | PRIVATE | POPULATE) != 0 {
            let text = "mmap: flags that this library does not know";
            return Err(Failure::new(libc::EINVAL, text));
        }
        let mut options = MapOptions::new();
        options
            .range(offset, len)
            .write(flags & WRITE != 0)
            .private(flags & PRIVATE != 0)
            .populate(flags & POPULATE != 0);
        give(map, || Ok(TaneMap(file.map(&options)?)))
    })
}

#[no_mangle]
pub unsafe extern "C" fn tane_map_data(map: *const TaneMap) -> *mut c_void {
    // SAFETY: as tane.h says.
    match unsafe { handle(map) } {
        Ok(map) => map.0.as_ptr().cast_mut().cast(),
        Err(_) => std::ptr::null_mut(),
    }
}

#[no_mangle]
pub unsafe extern "C" fn tane_map_flush(map: *mut TaneMap, offset: usize, len: usize) -> i32 {
    // SAFETY: as tane.h says.
    done(|| Ok::<_, Failure>(unsafe { handle(map) }?.0.flush_range(offset, len)?))
}

#[no_mangle]
pub unsafe extern "C" fn tane_map_check(map: *const TaneMap) -> i32 {
    // SAFETY: as tane.h says.
    done(|| Ok::<_, Failure>(unsafe { handle(map) }?.0.check()?))
}

#[no_mangle]
pub unsafe extern "C" fn tane_unmap(map: *mut TaneMap) {
    answer(|| {
        // SAFETY: as tane.h says.
        drop(unsafe { take(map) });
        Ok(0)
    });
}
