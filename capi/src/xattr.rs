//! Extended attributes.

use crate::error::{answer64, done, Failure, Result};
use crate::mount::TaneMount;
use crate::pass::{bytes, handle};
use std::ffi::{c_char, c_void};

/// All or ERANGE; a length of 0 only asks.
///
/// # Safety
/// `len` bytes may be written at `to`.
unsafe fn copy_whole(from: &[u8], to: *mut u8, len: usize) -> Result<i64> {
    if len > 0 {
        if to.is_null() {
            return Err(Failure::new(libc::EFAULT, "the buffer is NULL"));
        }
        if from.len() > len {
            return Err(Failure::new(libc::ERANGE, "the buffer is too small"));
        }
        // SAFETY: the caller's word.
        unsafe { to.copy_from_nonoverlapping(from.as_ptr(), from.len()) };
    }
    Ok(from.len() as i64)
}

#[no_mangle]
pub unsafe extern "C" fn tane_getxattr(
    mount: *mut TaneMount,
    file: *const c_char,
    name: *const c_char,
    buf: *mut c_void,
    len: usize,
    flags: i32,
) -> i64 {
    // SAFETY: as tane.h says.
    answer64(|| unsafe {
        let value = handle(mount)?
            .calls()
            .getxattr(bytes(file)?, bytes(name)?, flags)?;
        copy_whole(&value, buf.cast(), len)
    })
}

#[no_mangle]
pub unsafe extern "C" fn tane_listxattr(
    mount: *mut TaneMount,
    file: *const c_char,
    buf: *mut c_char,
    len: usize,
    flags: i32,
) -> i64 {
    // SAFETY: as tane.h says.
    answer64(|| unsafe {
        let list = handle(mount)?.calls().listxattr(bytes(file)?, flags)?;
        copy_whole(&list, buf.cast(), len)
    })
}

#[no_mangle]
pub unsafe extern "C" fn tane_setxattr(
    mount: *mut TaneMount,
    file: *const c_char,
    name: *const c_char,
    value: *const c_void,
    len: usize,
    how: i32,
    flags: i32,
) -> i32 {
    // SAFETY: as tane.h says.
    done(|| unsafe {
        let (tree, file, name) = (handle(mount)?.calls(), bytes(file)?, bytes(name)?);
        let value = match len {
            0 => &[],
            _ => std::slice::from_raw_parts(std::ptr::from_ref(handle(value)?).cast(), len),
        };
        tree.setxattr(file, name, value, how, flags)
    })
}

#[no_mangle]
pub unsafe extern "C" fn tane_removexattr(
    mount: *mut TaneMount,
    file: *const c_char,
    name: *const c_char,
    flags: i32,
) -> i32 {
    // SAFETY: as tane.h says.
    done(|| unsafe {
        let (tree, file, name) = (handle(mount)?.calls(), bytes(file)?, bytes(name)?);
        tree.removexattr(file, name, flags)
    })
}
