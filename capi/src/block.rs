//! Disks that the caller implements.

use crate::error::{Failure, Result};
use crate::pass::Sized_;
use std::ffi::c_void;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use tane::images::{Callback, Callbacks};

#[repr(C)]
#[derive(Clone, Copy)]
pub struct BlockOps {
    size: usize,
    capacity: u64,
    read: Option<unsafe extern "C" fn(*mut c_void, *mut c_void, usize, u64) -> i32>,
    write: Option<unsafe extern "C" fn(*mut c_void, *const c_void, usize, u64) -> i32>,
    flush: Option<unsafe extern "C" fn(*mut c_void) -> i32>,
    discard: Option<unsafe extern "C" fn(*mut c_void, u64, u64) -> i32>,
    release: Option<unsafe extern "C" fn(*mut c_void)>,
    arg: *mut c_void,
}

// SAFETY: integers, pointers and optional functions.
unsafe impl Sized_ for BlockOps {}

/// The caller's functions. Releases their argument when the disk is gone, if
/// there was one: until then it is the caller's.
pub struct Owner(BlockOps, AtomicBool);

impl Owner {
    pub fn take_over(&self) {
        self.1.store(true, Ordering::Release);
    }
}

// SAFETY: the caller promises functions for any thread.
unsafe impl Send for Owner {}
// SAFETY: the same.
unsafe impl Sync for Owner {}

impl Drop for Owner {
    fn drop(&mut self) {
        match self.0.release {
            // SAFETY: the caller's function, with its argument, for the last time.
            Some(release) if *self.1.get_mut() => unsafe { release(self.0.arg) },
            _ => {}
        }
    }
}

fn result(ret: i32) -> io::Result<()> {
    match ret {
        0 => Ok(()),
        errno @ -4095..=-1 => Err(io::Error::from_raw_os_error(-errno)),
        _ => Err(io::Error::from_raw_os_error(libc::EIO)),
    }
}

/// A backend of the caller's functions, and who releases their argument.
pub fn backend(ops: BlockOps) -> Result<(Arc<Callback>, Arc<Owner>)> {
    let Some(read) = ops.read else {
        return Err(Failure::new(libc::EFAULT, "a disk needs a read function"));
    };
    if !ops.capacity.is_multiple_of(512) {
        let text = "a disk's capacity must be a multiple of 512";
        return Err(Failure::new(libc::EINVAL, text));
    }
    let owner = Arc::new(Owner(ops, AtomicBool::new(false)));
    let o = owner.clone();
    let read = move |to: &mut [u8], offset: u64| {
        // SAFETY: the caller's function, with room for that many bytes.
        result(unsafe { read(o.0.arg, to.as_mut_ptr().cast(), to.len(), offset) })
    };
    let o = owner.clone();
    let write = ops.write.map(|write| {
        Box::new(move |from: &[u8], offset: u64| {
            // SAFETY: the caller's function, with that many bytes.
            result(unsafe { write(o.0.arg, from.as_ptr().cast(), from.len(), offset) })
        }) as Box<_>
    });
    let o = owner.clone();
    let flush = ops.flush.map(|flush| {
        // SAFETY: the caller's function.
        Box::new(move || result(unsafe { flush(o.0.arg) })) as Box<_>
    });
    let o = owner.clone();
    let discard = ops.discard.map(|discard| {
        Box::new(move |offset: u64, len: u64| {
            // SAFETY: the caller's function.
            result(unsafe { discard(o.0.arg, offset, len) })
        }) as Box<_>
    });
    let callback = Callback::new(Callbacks {
        size: ops.capacity,
        read: Box::new(read),
        write,
        flush,
        discard,
    });
    Ok((Arc::new(callback), owner))
}
