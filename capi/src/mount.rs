//! tane_mount, tane_unmount, what concerns a whole file system.

use crate::error::{answer, done, Failure, Result};
use crate::kernel::TaneKernel;
use crate::pass::{self, bytes, c_path, give, handle, read_or_zero, take, text, Sized_};
use std::ffi::{c_char, CString};
use tane::{Mount, MountOptions};

pub struct TaneMount {
    pub mount: Mount,
    place: CString,
}

impl TaneMount {
    pub fn new(mount: Mount) -> Self {
        let place = c_path(mount.mount_point());
        TaneMount { mount, place }
    }
}

#[repr(C)]
pub struct RawMountOptions {
    size: usize,
    flags: u32,
    reserved: u32,
    fstype: *const c_char,
    options: *const c_char,
}

// SAFETY: integers and pointers.
unsafe impl Sized_ for RawMountOptions {}

const READ_ONLY: u32 = 1;
const DEVICES: u32 = 2;
const EXEC: u32 = 4;
const ATIME: u32 = 8;

/// # Safety
/// As tane.h says.
pub unsafe fn options(raw: *const RawMountOptions) -> Result<MountOptions> {
    let mut options = MountOptions::new();
    // SAFETY: as tane.h says.
    unsafe {
        let raw = read_or_zero(raw)?;
        options
            .options(&text(raw.options)?.unwrap_or_default())
            .devices(raw.flags & DEVICES != 0)
            .exec(raw.flags & EXEC != 0)
            .atime(raw.flags & ATIME != 0);
        if raw.flags & READ_ONLY != 0 {
            options.read_only(true);
        }
        if let Some(fstype) = text(raw.fstype)? {
            options.fstype(fstype);
        }
    }
    Ok(options)
}

#[no_mangle]
pub unsafe extern "C" fn tane_mount(
    kernel: *mut TaneKernel,
    source: *const c_char,
    raw: *const RawMountOptions,
    mount: *mut *mut TaneMount,
) -> i32 {
    // SAFETY: as tane.h says.
    answer(|| unsafe {
        let (kernel, source, options) = (handle(kernel)?, bytes(source)?, options(raw)?);
        give(mount, || {
            Ok(TaneMount::new(options.mount(&kernel.0, source)?))
        })
    })
}

#[no_mangle]
pub unsafe extern "C" fn tane_unmount(mount: *mut TaneMount) -> i32 {
    // SAFETY: as tane.h says.
    done(|| match unsafe { take(mount) } {
        Some(taken) => taken.mount.unmount(),
        None => Ok(()),
    })
}

#[no_mangle]
pub unsafe extern "C" fn tane_mount_point(mount: *const TaneMount) -> *const c_char {
    // SAFETY: as tane.h says.
    match unsafe { handle(mount) } {
        Ok(mount) => mount.place.as_ptr(),
        Err(_) => std::ptr::null(),
    }
}

#[no_mangle]
pub unsafe extern "C" fn tane_mount_fd(mount: *const TaneMount) -> i32 {
    // SAFETY: as tane.h says.
    answer(|| Ok(unsafe { handle(mount) }?.mount.root_fd()))
}

#[no_mangle]
pub unsafe extern "C" fn tane_sync(mount: *mut TaneMount) -> i32 {
    // SAFETY: as tane.h says.
    done(|| {
        unsafe { handle(mount) }?
            .mount
            .sync()
            .map_err(Failure::from)
    })
}

#[repr(C)]
pub struct RawStatfs {
    size: usize,
    magic: u64,
    block_size: u64,
    total: u64,
    free: u64,
    available: u64,
    files: u64,
    files_free: u64,
    name_max: u32,
    read_only: u32,
}

// SAFETY: integers.
unsafe impl Sized_ for RawStatfs {}

#[no_mangle]
pub unsafe extern "C" fn tane_statfs(mount: *mut TaneMount, statfs: *mut RawStatfs) -> i32 {
    // SAFETY: as tane.h says.
    done(|| unsafe {
        let found = handle(mount)?.mount.statfs()?;
        let raw = RawStatfs {
            size: 0,
            magic: found.magic,
            block_size: found.block_size,
            total: found.total,
            free: found.free,
            available: found.available,
            files: found.files,
            files_free: found.files_free,
            name_max: found.name_max as u32,
            read_only: found.read_only.into(),
        };
        pass::write(statfs, &raw)
    })
}
