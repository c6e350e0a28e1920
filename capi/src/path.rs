//! Calls by path.

use crate::error::{answer64, done, Failure};
use crate::mount::TaneMount;
use crate::pass::{self, bytes, copy_text, handle, path};
use crate::stat::{RawStat, RawTimestamp};
use std::ffi::c_char;
use std::os::unix::ffi::OsStrExt;
use tane::{Result, SetTime, SetTimes, Tree};

pub const NOFOLLOW: i32 = 1;

/// A call about one path.
///
/// # Safety
/// As tane.h says.
unsafe fn at(
    mount: *mut TaneMount,
    name: *const c_char,
    call: impl FnOnce(&Tree, &std::path::Path) -> Result<()>,
) -> i32 {
    // SAFETY: as tane.h says.
    done(|| unsafe { call(&handle(mount)?.mount, path(name)?).map_err(Failure::from) })
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
        let (mount, name) = (&handle(mount)?.mount, path(name)?);
        let metadata = match flags & NOFOLLOW {
            0 => mount.metadata(name),
            _ => mount.symlink_metadata(name),
        };
        pass::write(stat, &metadata?.into())
    })
}

/// (uid_t)-1 leaves one alone, as in chown(2).
fn id(id: u32) -> Option<u32> {
    (id != u32::MAX).then_some(id)
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
    unsafe {
        at(mount, name, |tree, path| match flags & NOFOLLOW {
            0 => tree.chown(path, id(uid), id(gid)),
            _ => tree.lchown(path, id(uid), id(gid)),
        })
    }
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
        let times = SetTimes {
            accessed: SetTime::from(*handle(atime)?),
            modified: SetTime::from(*handle(mtime)?),
        };
        let (mount, name) = (&handle(mount)?.mount, path(name)?);
        match flags & NOFOLLOW {
            0 => mount.set_times(name, times)?,
            _ => mount.set_symlink_times(name, times)?,
        }
        Ok::<_, Failure>(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn tane_chmod(mount: *mut TaneMount, name: *const c_char, mode: u32) -> i32 {
    // SAFETY: as tane.h says.
    unsafe { at(mount, name, |tree, path| tree.set_permissions(path, mode)) }
}

#[no_mangle]
pub unsafe extern "C" fn tane_mkdir(mount: *mut TaneMount, name: *const c_char, mode: u32) -> i32 {
    // SAFETY: as tane.h says.
    unsafe { at(mount, name, |tree, path| tree.create_dir_with(path, mode)) }
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
        let tree = &handle(mount)?.mount;
        Ok::<_, Failure>(tree.hard_link(path(name)?, path(new)?)?)
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
        let tree = &handle(mount)?.mount;
        Ok::<_, Failure>(tree.symlink(path(target)?, path(name)?)?)
    })
}

#[no_mangle]
pub unsafe extern "C" fn tane_unlink(mount: *mut TaneMount, name: *const c_char) -> i32 {
    // SAFETY: as tane.h says.
    unsafe { at(mount, name, |tree, path| tree.remove_file(path)) }
}

#[no_mangle]
pub unsafe extern "C" fn tane_rmdir(mount: *mut TaneMount, name: *const c_char) -> i32 {
    // SAFETY: as tane.h says.
    unsafe { at(mount, name, |tree, path| tree.remove_dir(path)) }
}

#[no_mangle]
pub unsafe extern "C" fn tane_remove_all(mount: *mut TaneMount, name: *const c_char) -> i32 {
    // SAFETY: as tane.h says.
    unsafe { at(mount, name, |tree, path| tree.remove_dir_all(path)) }
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
        let tree = &handle(mount)?.mount;
        Ok::<_, Failure>(tree.rename_with(path(name)?, path(new)?, flags)?)
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
        let target = handle(mount)?.mount.read_link(bytes(name)?)?;
        copy_text(target.as_os_str().as_bytes(), buf, len)
    })
}
