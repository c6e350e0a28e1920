//! tane_host_mount and what follows: mounts that the host's programs see.

use crate::error::{answer, done, Failure, Result};
use crate::mount::{Kind, TaneMount};
use crate::pass::{c_path, give, handle, path, read_or_zero, take, text, Sized_};
use std::ffi::{c_char, CString};
use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::Duration;
use tane_fuse::{HostMount, HostMountOptions, Shown};
use tane_linux::Linux;

const ALLOW_OTHER: u32 = 1;
const XATTRS_IF_ANY: u32 = 2;

#[repr(C)]
pub struct RawHostMountOptions {
    size: usize,
    flags: u32,
    reserved: u32,
    directory: *const c_char,
    source: *const c_char,
}

// SAFETY: integers and pointers.
unsafe impl Sized_ for RawHostMountOptions {}

pub struct TaneHostMount {
    shown: HostMount<Files>,
    point: CString,
}

/// What is shown: of a kernel here, or in a worker.
enum Files {
    Local(Arc<tane::Mount>),
    Remote(Remote),
}

/// Answers for others: nobody here gives their calls up.
struct Remote(Arc<tane_worker::Mount>);

impl Linux for Remote {
    unsafe fn call(&self, nr: i64, args: [u64; 6]) -> i64 {
        // SAFETY: the caller's word.
        unsafe { self.0.call_for_others(nr, args) }
    }

    fn is_ours(&self) -> bool {
        true
    }
}

impl Shown for Files {
    fn linux(&self) -> &(dyn Linux + 'static) {
        match self {
            Files::Local(mount) => mount.kernel(),
            Files::Remote(remote) => remote,
        }
    }

    fn root_fd(&self) -> RawFd {
        match self {
            Files::Local(mount) => mount.root_fd(),
            Files::Remote(remote) => remote.0.root_fd(),
        }
    }
}

impl From<Kind> for Files {
    fn from(kind: Kind) -> Files {
        match kind {
            Kind::Local(mount) => Files::Local(mount),
            Kind::Remote(mount) => Files::Remote(Remote(mount)),
        }
    }
}

fn failed(e: tane_fuse::Error) -> Failure {
    Failure::new(e.errno(), e.to_string())
}

/// # Safety
/// As tane.h says.
unsafe fn options(raw: *const RawHostMountOptions) -> Result<HostMountOptions> {
    let mut options = HostMountOptions::new();
    // SAFETY: as tane.h says.
    unsafe {
        let raw = read_or_zero(raw)?;
        if raw.flags & !(ALLOW_OTHER | XATTRS_IF_ANY) != 0 {
            return Err(Failure::new(libc::EINVAL, "unknown TANE_HOST_MOUNT_ flags"));
        }
        options.allow_other(raw.flags & ALLOW_OTHER != 0);
        options.xattrs_if_any(raw.flags & XATTRS_IF_ANY != 0);
        if !raw.directory.is_null() {
            options.directory(path(raw.directory)?);
        }
        if let Some(source) = text(raw.source)? {
            options.source(source);
        }
    }
    Ok(options)
}

#[no_mangle]
pub unsafe extern "C" fn tane_host_mount(
    mount: *mut TaneMount,
    point: *const c_char,
    raw: *const RawHostMountOptions,
    shown: *mut *mut TaneHostMount,
) -> i32 {
    // SAFETY: as tane.h says.
    answer(|| unsafe {
        let (mount, point, options) = (handle(mount)?, path(point)?, options(raw)?);
        give(shown, || {
            let files = Files::from(mount.kind());
            let shown = options.mount(files, point).map_err(failed)?;
            let point = c_path(shown.point());
            Ok(TaneHostMount { shown, point })
        })
    })
}

#[no_mangle]
pub unsafe extern "C" fn tane_host_mount_point(shown: *const TaneHostMount) -> *const c_char {
    // SAFETY: as tane.h says.
    match unsafe { handle(shown) } {
        Ok(shown) => shown.point.as_ptr(),
        Err(_) => std::ptr::null(),
    }
}

#[no_mangle]
pub unsafe extern "C" fn tane_host_unmount(shown: *mut TaneHostMount) -> i32 {
    done(|| {
        // SAFETY: as tane.h says.
        let shown = &unsafe { handle(shown) }?.shown;
        shown.unmount().map_err(failed)?;
        shown.wait_for(Duration::MAX).map(drop).map_err(failed)
    })
}

#[no_mangle]
pub unsafe extern "C" fn tane_host_wait(shown: *mut TaneHostMount, milliseconds: i64) -> i32 {
    done(|| {
        let limit = match u64::try_from(milliseconds) {
            Ok(limit) => Duration::from_millis(limit),
            Err(_) => Duration::MAX,
        };
        // SAFETY: as tane.h says.
        let shown = &unsafe { handle(shown) }?.shown;
        match shown.wait_for(limit).map_err(failed)? {
            true => Ok(()),
            false => {
                let text = format!("{}: still mounted", shown.point().display());
                Err(Failure::new(libc::ETIMEDOUT, text))
            }
        }
    })
}

#[no_mangle]
pub unsafe extern "C" fn tane_host_mount_close(shown: *mut TaneHostMount) {
    answer(|| {
        // SAFETY: as tane.h says.
        drop(unsafe { take(shown) });
        Ok(0)
    });
}
