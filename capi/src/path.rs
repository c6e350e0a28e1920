//! Calls by path.

use crate::error::{answer64, done, Result};
use crate::mount::TaneMount;
use crate::pass::{self, bytes, copy_text, handle};
use crate::stat::{RawStat, RawTimestamp};
use std::ffi::{c_char, OsStr};
use tane_worker::Calls;

/// A call about one path.
///
/// # Safety
/// As tane.h says.
unsafe fn at(
    mount: *mut TaneMount,
    name: *const c_char,
    call: impl FnOnce(&dyn Calls, &OsStr) -> Result<()>,
) -> i32 {
    // SAFETY: as tane.h says.
    done(|| unsafe { call(handle(mount)?.calls(), bytes(name)?) })
}

#[no_mangle]
pub unsafe extern "C" fn tane_stat(
    mount: *mut TaneMount,
    name: *const c_char,
    flags: i32,
    stat: *mut RawStat,
) -> i32 {
    // SAFETY: as tane.h says.
    done(|| unsafe {
        let found = handle(mount)?.calls().stat(bytes(name)?, flags)?;
        pass::write(stat, &found)
    })
}

#[no_mangle]
pub unsafe extern "C" fn tane_chown(
    mount: *mut TaneMount,
    name: *const c_char,
    uid: u32,
    gid: u32,
    flags: i32,
) -> i32 {
    // SAFETY: as tane.h says.
    unsafe { at(mount, name, |tree, path| tree.chown(path, uid, gid, flags)) }
}

#[no_mangle]
pub unsafe extern "C" fn tane_utimens(
    mount: *mut TaneMount,
    name: *const c_char,
    atime: *const RawTimestamp,
    mtime: *const RawTimestamp,
    flags: i32,
) -> i32 {
    // SAFETY: as tane.h says.
    done(|| unsafe {
        let (atime, mtime) = (*handle(atime)?, *handle(mtime)?);
        let calls = handle(mount)?.calls();
        calls.utimens(bytes(name)?, atime, mtime, flags)
    })
}

#[no_mangle]
pub unsafe extern "C" fn tane_chmod(mount: *mut TaneMount, name: *const c_char, mode: u32) -> i32 {
    // SAFETY: as tane.h says.
    unsafe { at(mount, name, |tree, path| tree.chmod(path, mode)) }
}

#[no_mangle]
pub unsafe extern "C" fn tane_mkdir(mount: *mut TaneMount, name: *const c_char, mode: u32) -> i32 {
    // SAFETY: as tane.h says.
    unsafe { at(mount, name, |tree, path| tree.mkdir(path, mode)) }
}

#[no_mangle]
pub unsafe extern "C" fn tane_mknod(
    mount: *mut TaneMount,
    name: *const c_char,
    mode: u32,
    rdev: u64,
) -> i32 {
    // SAFETY: as tane.h says.
    unsafe { at(mount, name, |tree, path| tree.mknod(path, mode, rdev)) }
}

#[no_mangle]
pub unsafe extern "C" fn tane_truncate(
    mount: *mut TaneMount,
    name: *const c_char,
    length: u64,
) -> i32 {
    // SAFETY: as tane.h says.
    unsafe { at(mount, name, |tree, path| tree.truncate(path, length)) }
}

#[no_mangle]
pub unsafe extern "C" fn tane_link(
    mount: *mut TaneMount,
    name: *const c_char,
    new: *const c_char,
) -> i32 {
    // SAFETY: as tane.h says.
    done(|| unsafe {
        let tree = handle(mount)?.calls();
        tree.link(bytes(name)?, bytes(new)?)
    })
}

#[no_mangle]
pub unsafe extern "C" fn tane_symlink(
    mount: *mut TaneMount,
    target: *const c_char,
    name: *const c_char,
) -> i32 {
    // SAFETY: as tane.h says.
    done(|| unsafe {
        let tree = handle(mount)?.calls();
        tree.symlink(bytes(target)?, bytes(name)?)
    })
}

#[no_mangle]
pub unsafe extern "C" fn tane_unlink(mount: *mut TaneMount, name: *const c_char) -> i32 {
    // SAFETY: as tane.h says.
    unsafe { at(mount, name, |tree, path| tree.unlink(path)) }
}

#[no_mangle]
pub unsafe extern "C" fn tane_rmdir(mount: *mut TaneMount, name: *const c_char) -> i32 {
    // SAFETY: as tane.h says.
    unsafe { at(mount, name, |tree, path| tree.rmdir(path)) }
}

#[no_mangle]
pub unsafe extern "C" fn tane_remove_all(mount: *mut TaneMount, name: *const c_char) -> i32 {
    // SAFETY: as tane.h says.
    unsafe { at(mount, name, |tree, path| tree.remove_all(path)) }
}

#[no_mangle]
pub unsafe extern "C" fn tane_rename(
    mount: *mut TaneMount,
    name: *const c_char,
    new: *const c_char,
    flags: u32,
) -> i32 {
    // SAFETY: as tane.h says.
    done(|| unsafe {
        let tree = handle(mount)?.calls();
        tree.rename(bytes(name)?, bytes(new)?, flags)
    })
}

#[no_mangle]
pub unsafe extern "C" fn tane_readlink(
    mount: *mut TaneMount,
    name: *const c_char,
    buf: *mut c_char,
    len: usize,
) -> i64 {
    // SAFETY: as tane.h says.
    answer64(|| unsafe {
        let target = handle(mount)?.calls().readlink(bytes(name)?)?;
        copy_text(&target, buf, len)
    })
}
