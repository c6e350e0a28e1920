//! tane_open and what follows. Data goes straight between the caller's buffer
//! and the kernel, which answers bad pointers itself.

use crate::error::{answer, answer64, done, Failure, Result};
use crate::kernel::{elsewhere, TaneKernel};
use crate::mount::{Side, TaneMount};
use crate::pass::{self, bytes, give, handle, take};
use crate::stat::RawStat;
use std::ffi::{c_char, c_void};
use tane::File;
use tane_worker::{FileCalls, SharedPart};

pub enum TaneFile {
    Local(File),
    Remote(tane_worker::File),
}

impl TaneFile {
    /// For what takes memory that both have.
    pub fn local(&self) -> Result<&File> {
        match self {
            TaneFile::Local(file) => Ok(file),
            TaneFile::Remote(_) => Err(elsewhere()),
        }
    }

    fn calls(&self) -> &dyn FileCalls {
        match self {
            TaneFile::Local(file) => file,
            TaneFile::Remote(file) => file,
        }
    }
}

#[no_mangle]
pub unsafe extern "C" fn tane_open(
    mount: *mut TaneMount,
    name: *const c_char,
    flags: i32,
    mode: u32,
    file: *mut *mut TaneFile,
) -> i32 {
    // SAFETY: as tane.h says.
    answer(|| unsafe {
        let (mount, name) = (handle(mount)?, bytes(name)?);
        give(file, || match mount.side() {
            Side::Local(tree) => {
                let file = tane_worker::open_file(tree, name, flags, mode)?;
                Ok(TaneFile::Local(file))
            }
            Side::Remote(mount) => Ok(TaneFile::Remote(mount.open_file(name, flags, mode)?)),
        })
    })
}

#[no_mangle]
pub unsafe extern "C" fn tane_fdopen(
    kernel: *mut TaneKernel,
    fd: i32,
    file: *mut *mut TaneFile,
) -> i32 {
    // SAFETY: as tane.h says.
    answer(|| unsafe {
        let kernel = handle(kernel)?.local()?;
        give(file, || {
            let args = [fd as u64, libc::F_GETFD as u64, 0, 0, 0, 0];
            match kernel.syscall(libc::SYS_fcntl, args) {
                0.. => Ok(TaneFile::Local(File::from_kernel_fd(kernel, fd))),
                errno => Err(Failure::of_errno(
                    -errno as i32,
                    &format!("use descriptor {fd}"),
                )),
            }
        })
    })
}

#[no_mangle]
pub unsafe extern "C" fn tane_close(file: *mut TaneFile) {
    answer(|| {
        // SAFETY: as tane.h says.
        drop(unsafe { take(file) });
        Ok(0)
    });
}

#[no_mangle]
pub unsafe extern "C" fn tane_fd(file: *const TaneFile) -> i32 {
    // SAFETY: as tane.h says.
    answer(|| match unsafe { handle(file) }? {
        TaneFile::Local(file) => Ok(file.kernel_fd()),
        TaneFile::Remote(file) => Ok(file.kernel_fd()),
    })
}

/// The caller's memory; nothing may be NULL.
///
/// # Safety
/// As tane.h says.
unsafe fn room<'a>(buf: *mut c_void, len: usize) -> Result<&'a mut [u8]> {
    match (buf.is_null(), len) {
        (_, 0) => Ok(&mut []),
        (true, _) => Err(Failure::new(libc::EFAULT, "the buffer is NULL")),
        // SAFETY: the caller's word.
        (false, _) => Ok(unsafe { std::slice::from_raw_parts_mut(buf.cast(), len) }),
    }
}

/// Move data: by a system call of the kernel here, which answers bad pointers itself,
/// or through a worker.
///
/// # Safety
/// As tane.h says.
unsafe fn transfer(
    (action, nr): (&str, i64),
    file: *mut TaneFile,
    (buf, len, offset): (*mut c_void, usize, u64),
    remote: impl FnOnce(&tane_worker::File, &mut [u8]) -> Result<usize>,
) -> i64 {
    // SAFETY: as tane.h says.
    answer64(|| unsafe {
        match handle(file)? {
            TaneFile::Local(file) => {
                let args = [buf as u64, len as u64, offset];
                tane_worker::raw(file, action, nr, args)
            }
            TaneFile::Remote(file) => Ok(remote(file, room(buf, len)?)? as i64),
        }
    })
}

#[no_mangle]
pub unsafe extern "C" fn tane_read(file: *mut TaneFile, buf: *mut c_void, len: usize) -> i64 {
    let (call, data) = (("read", libc::SYS_read), (buf, len, 0));
    // SAFETY: as tane.h says.
    unsafe { transfer(call, file, data, |file, to| file.read(to)) }
}

#[no_mangle]
pub unsafe extern "C" fn tane_write(file: *mut TaneFile, buf: *const c_void, len: usize) -> i64 {
    let (call, data) = (("write", libc::SYS_write), (buf.cast_mut(), len, 0));
    // SAFETY: as tane.h says.
    unsafe { transfer(call, file, data, |file, from| file.write(from)) }
}

#[no_mangle]
pub unsafe extern "C" fn tane_pread(
    file: *mut TaneFile,
    buf: *mut c_void,
    len: usize,
    offset: u64,
) -> i64 {
    let (call, data) = (("read", libc::SYS_pread64), (buf, len, offset));
    // SAFETY: as tane.h says.
    unsafe { transfer(call, file, data, |file, to| file.pread(to, offset)) }
}

#[no_mangle]
pub unsafe extern "C" fn tane_pwrite(
    file: *mut TaneFile,
    buf: *const c_void,
    len: usize,
    offset: u64,
) -> i64 {
    let (call, data) = (("write", libc::SYS_pwrite64), (buf.cast_mut(), len, offset));
    // SAFETY: as tane.h says.
    unsafe { transfer(call, file, data, |file, from| file.pwrite(from, offset)) }
}

#[no_mangle]
pub unsafe extern "C" fn tane_lseek(file: *mut TaneFile, offset: i64, whence: i32) -> i64 {
    // SAFETY: as tane.h says.
    answer64(|| match unsafe { handle(file) }? {
        TaneFile::Local(file) => {
            let args = [offset as u64, whence as u64, 0];
            // SAFETY: no pointers.
            unsafe { tane_worker::raw(file, "seek", libc::SYS_lseek, args) }
        }
        TaneFile::Remote(file) => file.lseek(offset, whence),
    })
}

#[no_mangle]
pub unsafe extern "C" fn tane_fsync(file: *mut TaneFile) -> i32 {
    // SAFETY: as tane.h says.
    done(|| unsafe { handle(file) }?.calls().fsync())
}

#[no_mangle]
pub unsafe extern "C" fn tane_fdatasync(file: *mut TaneFile) -> i32 {
    // SAFETY: as tane.h says.
    done(|| unsafe { handle(file) }?.calls().fdatasync())
}

#[no_mangle]
pub unsafe extern "C" fn tane_fstat(file: *mut TaneFile, stat: *mut RawStat) -> i32 {
    // SAFETY: as tane.h says.
    done(|| unsafe { pass::write(stat, &handle(file)?.calls().fstat()?) })
}

#[no_mangle]
pub unsafe extern "C" fn tane_ftruncate(file: *mut TaneFile, length: u64) -> i32 {
    // SAFETY: as tane.h says.
    done(|| unsafe { handle(file) }?.calls().ftruncate(length))
}

#[no_mangle]
pub unsafe extern "C" fn tane_fallocate(
    file: *mut TaneFile,
    mode: i32,
    offset: u64,
    len: u64,
) -> i32 {
    done(|| {
        // SAFETY: as tane.h says.
        let handle = unsafe { handle(file) }?;
        handle.calls().fallocate(mode, offset, len)
    })
}

#[no_mangle]
pub unsafe extern "C" fn tane_get_flags(
    file: *mut TaneFile,
    flags: *mut u32,
    project: *mut u32,
) -> i32 {
    done(|| {
        // SAFETY: as tane.h says.
        let both = unsafe { handle(file) }?.calls().flags()?;
        // SAFETY: the caller's word: NULL, or to be written.
        let (flags, project) = unsafe { (flags.as_mut(), project.as_mut()) };
        if let Some(flags) = flags {
            *flags = both as u32;
        }
        if let Some(project) = project {
            *project = (both >> 32) as u32;
        }
        Ok::<(), Failure>(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn tane_set_flags(file: *mut TaneFile, flags: u32) -> i32 {
    // SAFETY: as tane.h says.
    done(|| unsafe { handle(file) }?.calls().set_flags(flags))
}

#[no_mangle]
pub unsafe extern "C" fn tane_set_project(file: *mut TaneFile, project: u32) -> i32 {
    // SAFETY: as tane.h says.
    done(|| unsafe { handle(file) }?.calls().set_project(project))
}

#[no_mangle]
pub unsafe extern "C" fn tane_shared_parts(
    file: *mut TaneFile,
    from: u64,
    parts: *mut SharedPart,
    count: usize,
) -> i64 {
    answer64(|| {
        // SAFETY: as tane.h says.
        let found = unsafe { handle(file) }?.calls().shared_parts(from)?.0;
        if parts.is_null() && count > 0 {
            return Err(pass::null());
        }
        let count = count.min(found.len());
        // SAFETY: the caller's word: there is room for so many.
        unsafe { std::ptr::copy_nonoverlapping(found.as_ptr(), parts, count) };
        Ok(count as i64)
    })
}
