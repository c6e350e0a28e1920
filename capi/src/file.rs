//! tane_open and what follows. Data goes straight between the caller's buffer
//! and the kernel, which answers bad pointers itself.

use crate::error::{answer, done, raw, Failure};
use crate::mount::TaneMount;
use crate::pass::{self, give, handle, path, take};
use crate::stat::RawStat;
use std::ffi::{c_char, c_void};
use tane::{File, OpenOptions};

pub struct TaneFile(pub File);

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
        let (tree, name) = (&handle(mount)?.mount, path(name)?);
        let access = flags & libc::O_ACCMODE;
        let mut options = OpenOptions::new();
        options
            .read(access != libc::O_WRONLY)
            .write(access != libc::O_RDONLY)
            .mode(mode)
            .custom_flags(flags & !libc::O_ACCMODE);
        give(file, || Ok(TaneFile(options.open(tree, name)?)))
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
    answer(|| Ok(unsafe { handle(file) }?.0.kernel_fd()))
}

/// A system call whose first argument is the file.
///
/// # Safety
/// As tane.h says.
unsafe fn call(action: &str, file: *mut TaneFile, nr: i64, args: [u64; 3]) -> i64 {
    // SAFETY: as tane.h says.
    let file = match unsafe { handle(file) } {
        Ok(file) => &file.0,
        Err(failure) => return raw(action, -i64::from(failure.errno)),
    };
    let [a, b, c] = args;
    let args = [file.kernel_fd() as u64, a, b, c, 0, 0];
    // SAFETY: the caller owns the buffers.
    raw(action, unsafe { file.kernel().syscall(nr, args) })
}

#[no_mangle]
pub unsafe extern "C" fn tane_read(file: *mut TaneFile, buf: *mut c_void, len: usize) -> i64 {
    let args = [buf as u64, len as u64, 0];
    // SAFETY: as tane.h says.
    unsafe { call("read", file, libc::SYS_read, args) }
}

#[no_mangle]
pub unsafe extern "C" fn tane_write(file: *mut TaneFile, buf: *const c_void, len: usize) -> i64 {
    let args = [buf as u64, len as u64, 0];
    // SAFETY: as tane.h says.
    unsafe { call("write", file, libc::SYS_write, args) }
}

#[no_mangle]
pub unsafe extern "C" fn tane_pread(
    file: *mut TaneFile,
    buf: *mut c_void,
    len: usize,
    offset: u64,
) -> i64 {
    let args = [buf as u64, len as u64, offset];
    // SAFETY: as tane.h says.
    unsafe { call("read", file, libc::SYS_pread64, args) }
}

#[no_mangle]
pub unsafe extern "C" fn tane_pwrite(
    file: *mut TaneFile,
    buf: *const c_void,
    len: usize,
    offset: u64,
) -> i64 {
    let args = [buf as u64, len as u64, offset];
    // SAFETY: as tane.h says.
    unsafe { call("write", file, libc::SYS_pwrite64, args) }
}

#[no_mangle]
pub unsafe extern "C" fn tane_lseek(file: *mut TaneFile, offset: i64, whence: i32) -> i64 {
    let args = [offset as u64, whence as u64, 0];
    // SAFETY: as tane.h says.
    unsafe { call("seek", file, libc::SYS_lseek, args) }
}

#[no_mangle]
pub unsafe extern "C" fn tane_fsync(file: *mut TaneFile) -> i32 {
    // SAFETY: as tane.h says.
    done(|| Ok::<_, Failure>(unsafe { handle(file) }?.0.sync_all()?))
}

#[no_mangle]
pub unsafe extern "C" fn tane_fdatasync(file: *mut TaneFile) -> i32 {
    // SAFETY: as tane.h says.
    done(|| Ok::<_, Failure>(unsafe { handle(file) }?.0.sync_data()?))
}

#[no_mangle]
pub unsafe extern "C" fn tane_fstat(file: *mut TaneFile, stat: *mut RawStat) -> i32 {
    // SAFETY: as tane.h says.
    done(|| unsafe { pass::write(stat, &handle(file)?.0.metadata()?.into()) })
}

#[no_mangle]
pub unsafe extern "C" fn tane_ftruncate(file: *mut TaneFile, length: u64) -> i32 {
    // SAFETY: as tane.h says.
    done(|| Ok::<_, Failure>(unsafe { handle(file) }?.0.set_len(length)?))
}

#[no_mangle]
pub unsafe extern "C" fn tane_fallocate(
    file: *mut TaneFile,
    mode: i32,
    offset: u64,
    len: u64,
) -> i32 {
    // SAFETY: as tane.h says.
    done(|| Ok::<_, Failure>(unsafe { handle(file) }?.0.allocate(mode, offset, len)?))
}
