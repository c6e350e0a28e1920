//! tane_mount, tane_unmount, what concerns a whole file system.

use crate::error::{answer, done, Failure, Result};
use crate::kernel::TaneKernel;
use crate::pass::{self, bytes, c_path, give, handle, read_or_zero, take, text, Sized_};
use std::ffi::{c_char, CString};
use tane::Mount;
use tane_worker::{Calls, MountHow, StatFs};

pub struct TaneMount {
    kind: Kind,
    place: CString,
}

enum Kind {
    Here(Mount),
    There(tane_worker::Mount),
}

impl TaneMount {
    pub fn here(mount: Mount) -> Self {
        let place = c_path(mount.mount_point());
        TaneMount {
            kind: Kind::Here(mount),
            place,
        }
    }

    pub fn there(mount: tane_worker::Mount) -> Self {
        let place = c_path(mount.mount_point());
        TaneMount {
            kind: Kind::There(mount),
            place,
        }
    }

    /// Whichever it is.
    pub fn calls(&self) -> &dyn Calls {
        match &self.kind {
            Kind::Here(mount) => &**mount,
            Kind::There(mount) => mount,
        }
    }

    pub fn side(&self) -> Side<'_> {
        match &self.kind {
            Kind::Here(mount) => Side::Here(mount),
            Kind::There(mount) => Side::There(mount),
        }
    }
}

/// For what is done in two ways.
pub enum Side<'a> {
    Here(&'a Mount),
    There(&'a tane_worker::Mount),
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

/// # Safety
/// As tane.h says.
pub unsafe fn options(raw: *const RawMountOptions) -> Result<MountHow> {
    // SAFETY: as tane.h says.
    unsafe {
        let raw = read_or_zero(raw)?;
        Ok(MountHow {
            flags: raw.flags,
            fstype: text(raw.fstype)?,
            options: text(raw.options)?.unwrap_or_default(),
        })
    }
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
        let (kernel, source, how) = (handle(kernel)?.here()?, bytes(source)?, options(raw)?);
        give(mount, || {
            Ok(TaneMount::here(how.options().mount(kernel, source)?))
        })
    })
}

#[no_mangle]
pub unsafe extern "C" fn tane_unmount(mount: *mut TaneMount) -> i32 {
    // SAFETY: as tane.h says.
    done(|| match unsafe { take(mount) }.map(|taken| taken.kind) {
        Some(Kind::Here(mount)) => mount.unmount().map_err(Failure::from),
        Some(Kind::There(mount)) => mount.unmount(),
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
    answer(|| match unsafe { handle(mount) }?.side() {
        Side::Here(tree) => Ok(tree.root_fd()),
        Side::There(mount) => Ok(mount.root_fd()),
    })
}

#[no_mangle]
pub unsafe extern "C" fn tane_sync(mount: *mut TaneMount) -> i32 {
    // SAFETY: as tane.h says.
    done(|| unsafe { handle(mount) }?.calls().sync())
}

// SAFETY: integers.
unsafe impl Sized_ for StatFs {}

#[no_mangle]
pub unsafe extern "C" fn tane_statfs(mount: *mut TaneMount, statfs: *mut StatFs) -> i32 {
    // SAFETY: as tane.h says.
    done(|| unsafe { pass::write(statfs, &handle(mount)?.calls().statfs()?) })
}
