//! tane_mount, tane_unmount, what concerns a whole file system.

use crate::error::{answer, done, Failure, Result};
use crate::kernel::TaneKernel;
use crate::pass::{self, bytes, c_path, give, handle, read_or_zero, take, text, Sized_};
use std::ffi::{c_char, CString};
use std::sync::Arc;
use tane::Mount;
use tane_worker::{Calls, MountHow, StatFs};

pub struct TaneMount {
    kind: Kind,
    place: CString,
}

#[derive(Clone)]
pub enum Kind {
    Local(Arc<Mount>),
    Remote(Arc<tane_worker::Mount>),
}

impl TaneMount {
    pub fn local(mount: Mount) -> Self {
        let place = c_path(mount.mount_point());
        TaneMount {
            kind: Kind::Local(Arc::new(mount)),
            place,
        }
    }

    pub fn remote(mount: tane_worker::Mount) -> Self {
        let place = c_path(mount.mount_point());
        TaneMount {
            kind: Kind::Remote(Arc::new(mount)),
            place,
        }
    }

    /// Whichever it is.
    pub fn calls(&self) -> &dyn Calls {
        match &self.kind {
            Kind::Local(mount) => &***mount,
            Kind::Remote(mount) => &**mount,
        }
    }

    /// It, for who keeps it.
    pub fn kind(&self) -> Kind {
        self.kind.clone()
    }

    pub fn side(&self) -> Side<'_> {
        match &self.kind {
            Kind::Local(mount) => Side::Local(mount),
            Kind::Remote(mount) => Side::Remote(mount),
        }
    }
}

/// For what is done in two ways.
pub enum Side<'a> {
    Local(&'a Mount),
    Remote(&'a tane_worker::Mount),
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
        let (kernel, source, how) = (handle(kernel)?.local()?, bytes(source)?, options(raw)?);
        give(mount, || {
            Ok(TaneMount::local(how.options().mount(kernel, source)?))
        })
    })
}

#[no_mangle]
pub unsafe extern "C" fn tane_unmount(mount: *mut TaneMount) -> i32 {
    // SAFETY: as tane.h says.
    done(|| match unsafe { take(mount) }.map(|taken| taken.kind) {
        Some(Kind::Local(mount)) => match Arc::try_unwrap(mount) {
            Ok(mount) => mount.unmount().map_err(Failure::from),
            Err(mount) => shown(&**mount),
        },
        Some(Kind::Remote(mount)) => match Arc::try_unwrap(mount) {
            Ok(mount) => mount.unmount(),
            Err(mount) => shown(&*mount),
        },
        None => Ok(()),
    })
}

/// What the host's programs are shown goes when they are not any more.
fn shown(mount: &dyn Calls) -> Result<()> {
    if mount.statfs()?.read_only == 0 {
        mount.sync()?;
    }
    let text = "unmount: it is shown to the host: tane_host_unmount() comes first";
    Err(Failure::new(libc::EBUSY, text))
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
        Side::Local(tree) => Ok(tree.root_fd()),
        Side::Remote(mount) => Ok(mount.root_fd()),
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
