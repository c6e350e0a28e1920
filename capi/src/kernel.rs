//! tane_kernel_*, tane_syscall.

use crate::error::{answer, answer64, done, Failure, Result};
use crate::pass::{copy_text, give, handle, path, read_or_zero, take, text, Argument, Sized_};
use std::ffi::{c_char, c_void};
use tane::Kernel;
use tane_worker::KernelCalls;

pub enum TaneKernel {
    Local(Kernel),
    /// That of an image which a worker serves.
    Remote(tane_worker::Image),
}

impl TaneKernel {
    /// For what takes memory that both have.
    pub fn local(&self) -> Result<&Kernel> {
        match self {
            TaneKernel::Local(kernel) => Ok(kernel),
            TaneKernel::Remote(_) => Err(elsewhere()),
        }
    }

    fn calls(&self) -> &dyn KernelCalls {
        match self {
            TaneKernel::Local(kernel) => kernel,
            TaneKernel::Remote(image) => image,
        }
    }
}

pub fn elsewhere() -> Failure {
    let text = "this kernel runs jailed in a process of its own: for this, open the image with \
                a kernel in this process";
    Failure::new(libc::EOPNOTSUPP, text)
}

#[repr(C)]
pub struct KernelOptions {
    size: usize,
    image: *const c_char,
    memory: u64,
    cpus: u32,
    flags: u32,
    cmdline: *const c_char,
    log: Option<unsafe extern "C" fn(*mut c_void, *const c_char, usize)>,
    log_arg: *mut c_void,
}

// SAFETY: integers, pointers and an optional function.
unsafe impl Sized_ for KernelOptions {}

const NOKASLR: u32 = 1;
const SHARED: u32 = 2;

unsafe fn boot(options: &KernelOptions) -> Result<TaneKernel> {
    let mut builder = Kernel::builder();
    if !options.image.is_null() {
        // SAFETY: the caller's string.
        builder = builder.image(unsafe { path(options.image) }?);
    }
    if options.memory != 0 {
        builder = builder.memory(options.memory);
    }
    if options.cpus != 0 {
        builder = builder.cpus(options.cpus);
    }
    if options.flags & NOKASLR != 0 {
        builder = builder.nokaslr();
    }
    builder = builder.shared(options.flags & SHARED != 0);
    // SAFETY: the caller's string.
    if let Some(words) = unsafe { text(options.cmdline) }? {
        builder = builder.cmdline(&words);
    }
    if let Some(log) = options.log {
        let argument = Argument(options.log_arg);
        builder = builder.log(move |text| {
            let argument = &argument;
            // SAFETY: the caller's function, with its argument.
            unsafe { log(argument.0, text.as_ptr().cast(), text.len()) }
        });
    }
    Ok(TaneKernel::Local(builder.boot()?))
}

#[no_mangle]
pub unsafe extern "C" fn tane_kernel_boot(
    options: *const KernelOptions,
    kernel: *mut *mut TaneKernel,
) -> i32 {
    // SAFETY: as tane.h says.
    answer(|| unsafe {
        let options = read_or_zero(options)?;
        give(kernel, || boot(&options))
    })
}

#[no_mangle]
pub unsafe extern "C" fn tane_kernel_close(kernel: *mut TaneKernel) {
    answer(|| {
        // SAFETY: as tane.h says.
        drop(unsafe { take(kernel) });
        Ok(0)
    });
}

#[no_mangle]
pub unsafe extern "C" fn tane_kernel_halt(kernel: *mut TaneKernel) {
    answer(|| {
        // SAFETY: as tane.h says.
        if let Ok(kernel) = unsafe { handle(kernel) } {
            let _ = kernel.calls().halt();
        }
        Ok(0)
    });
}

#[no_mangle]
pub unsafe extern "C" fn tane_kernel_forked(kernel: *const TaneKernel) -> i32 {
    // SAFETY: as tane.h says.
    answer(|| Ok(unsafe { handle(kernel) }?.local()?.forked()?))
}

#[no_mangle]
pub unsafe extern "C" fn tane_kernel_is_alive(kernel: *const TaneKernel) -> i32 {
    // SAFETY: as tane.h says.
    // A worker that has ended answers nothing.
    answer(|| Ok(matches!(unsafe { handle(kernel) }?.calls().is_alive(), Ok(true)).into()))
}

#[no_mangle]
pub unsafe extern "C" fn tane_kernel_trim(kernel: *mut TaneKernel) -> i32 {
    // SAFETY: as tane.h says.
    done(|| unsafe { handle(kernel)?.calls().trim() })
}

#[no_mangle]
pub unsafe extern "C" fn tane_kernel_dmesg(
    kernel: *const TaneKernel,
    buf: *mut c_char,
    len: usize,
) -> i64 {
    // SAFETY: as tane.h says.
    answer64(|| unsafe { copy_text(handle(kernel)?.calls().dmesg()?.as_bytes(), buf, len) })
}

#[no_mangle]
pub unsafe extern "C" fn tane_kernel_last_words(
    kernel: *const TaneKernel,
    buf: *mut c_char,
    len: usize,
) -> i64 {
    // SAFETY: as tane.h says.
    answer64(|| unsafe { copy_text(handle(kernel)?.calls().last_words()?.as_bytes(), buf, len) })
}

#[no_mangle]
pub unsafe extern "C" fn tane_syscall(
    kernel: *mut TaneKernel,
    nr: i64,
    arg0: u64,
    arg1: u64,
    arg2: u64,
    arg3: u64,
    arg4: u64,
    arg5: u64,
) -> i64 {
    // SAFETY: as tane.h says.
    match unsafe { handle(kernel) }.and_then(TaneKernel::local) {
        // SAFETY: the caller owns what the arguments point to.
        Ok(kernel) => unsafe { kernel.syscall(nr, [arg0, arg1, arg2, arg3, arg4, arg5]) },
        Err(failure) => -i64::from(failure.errno),
    }
}
