//! An instance's memory: what the caller reads of it, writes to it and gives into it.

use super::TaneInstance;
use crate::error::{answer, Failure};
use crate::pass::{handle, null};
use std::ffi::c_void;

fn outside(offset: u64, len: usize) -> Failure {
    let text = format!("module: {len} bytes at {offset:#x} are not in its memory");
    Failure::new(libc::EFAULT, text)
}

#[no_mangle]
pub unsafe extern "C" fn tane_instance_read(
    instance: *const TaneInstance,
    offset: u64,
    to: *mut c_void,
    len: usize,
) -> i32 {
    // SAFETY: as tane.h says.
    answer(|| unsafe {
        let instance = handle(instance)?;
        instance.mine()?;
        if to.is_null() && len > 0 {
            return Err(null());
        }
        let bytes = instance.memory.read(offset, len);
        let bytes = bytes.ok_or_else(|| outside(offset, len))?;
        if len > 0 {
            to.cast::<u8>()
                .copy_from_nonoverlapping(bytes.as_ptr(), len);
        }
        Ok(0)
    })
}

#[no_mangle]
pub unsafe extern "C" fn tane_instance_write(
    instance: *mut TaneInstance,
    offset: u64,
    from: *const c_void,
    len: usize,
) -> i32 {
    // SAFETY: as tane.h says.
    answer(|| unsafe {
        let instance = handle(instance)?;
        instance.mine()?;
        let bytes = match (from.is_null(), len) {
            (_, 0) => &[],
            (true, _) => return Err(null()),
            (false, _) => std::slice::from_raw_parts(from.cast::<u8>(), len),
        };
        match instance.memory.write(offset, bytes) {
            true => Ok(0),
            false => Err(outside(offset, len)),
        }
    })
}

#[no_mangle]
pub unsafe extern "C" fn tane_instance_give(
    instance: *mut TaneInstance,
    from: *const c_void,
    len: usize,
    offset: *mut u64,
) -> i32 {
    // SAFETY: as tane.h says.
    answer(|| unsafe {
        let instance = handle(instance)?;
        instance.mine()?;
        if instance.is_inside.get() {
            let text = "module: its stack is in use, by the call that this import is a part of";
            return Err(Failure::new(libc::EBUSY, text));
        }
        if offset.is_null() || from.is_null() && len > 0 {
            return Err(null());
        }
        let bytes = match len {
            0 => &[],
            _ => std::slice::from_raw_parts(from.cast::<u8>(), len),
        };
        let at = (*instance.instance.get()).give(bytes);
        let text = "module: its stack has no room for that: more memory gives it more";
        *offset = at.ok_or_else(|| Failure::new(libc::ENOSPC, text))?;
        Ok(0)
    })
}

#[no_mangle]
pub unsafe extern "C" fn tane_instance_heap(
    instance: *const TaneInstance,
    start: *mut u64,
    end: *mut u64,
) -> i32 {
    // SAFETY: as tane.h says.
    answer(|| unsafe {
        let instance = handle(instance)?;
        instance.mine()?;
        if start.is_null() || end.is_null() {
            return Err(null());
        }
        *start = instance.memory.heap();
        *end = instance.memory.heap_end();
        Ok(0)
    })
}
