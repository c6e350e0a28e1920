//! tane_instance_*: checked code with memory, on the thread that made it.
//!
//! ```text
//! imports.rs  what it may call: system calls, functions of the caller's
//! start.rs    made, and given a kernel
//! end.rs      how a call of it ended, and where
//! memory.rs   its memory, read and written
//! ```

mod end;
mod imports;
mod memory;
mod start;

use crate::error::{answer, remember, Failure, Result};
use crate::kernel::TaneKernel;
use crate::module::refused;
use crate::pass::{handle, null, take, text, Sized_};
use end::{kept, told, Where, NAMES};
use imports::RawImport;
use std::cell::{Cell, RefCell, UnsafeCell};
use std::ffi::c_char;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::ThreadId;
use std::time::Duration;
use tane::Kernel;
use tane_checked_run::{Calls, Error, Instance, Memory, Stopper, Trap};

#[repr(C)]
pub struct RawInstanceOptions {
    size: usize,
    kernel: *const TaneKernel,
    directory: *const c_char,
    calls: *const *const c_char,
    imports: *const RawImport,
    import_count: usize,
    memory: u64,
    milliseconds: u64,
}

// SAFETY: integers and pointers.
unsafe impl Sized_ for RawInstanceOptions {}

pub struct TaneInstance {
    thread: ThreadId,
    instance: UnsafeCell<Instance>,
    /// The same as the instance's, for imports, while that is in a call.
    memory: Memory,
    is_inside: Cell<bool>,
    limit: Option<Duration>,
    stopper: OnceLock<Stopper>,
    place: RefCell<Option<Where>>,
    /// What its imports are told they are called by.
    me: Arc<AtomicPtr<TaneInstance>>,
    /// It ends with its last handle.
    kernel: RefCell<Option<Kernel>>,
}

fn failure(error: Error) -> Failure {
    let (errno, text) = match error {
        Error::Refused(refusal) => return refused(&refusal),
        Error::Import(name) => {
            let is_on_files = Calls::default().and_files().find(&name).is_some();
            let text = match Calls::all().find(&name) {
                Some(_) if is_on_files => format!(
                    "it imports {name}, a system call that it is not allowed, or that needs \
                     a kernel and a directory"
                ),
                Some(_) => format!(
                    "it imports {name}, a system call that it is not allowed: calls on sockets \
                     are named one by one, and need a kernel"
                ),
                None => format!("it imports {name}, which was not given"),
            };
            (libc::ENOSYS, text)
        }
        Error::Export(name) => (libc::ENOENT, format!("it exports no {name}")),
        Error::Function => (libc::EINVAL, "the function is another instance's".into()),
        Error::NoKernel => (libc::ENOSYS, "it makes system calls, of no kernel".into()),
        Error::Arguments(n) => (libc::E2BIG, format!("{n} arguments, where 6 are the most")),
        Error::Forked => {
            let text = "the instance is of the process that this one was forked from";
            (libc::ENOTSUP, text.into())
        }
        Error::Host(error) => (
            error.raw_os_error().unwrap_or(match error.kind() {
                std::io::ErrorKind::Other => libc::EOPNOTSUPP,
                kind => tane::errno_or_guess(&kind.into()),
            }),
            error.to_string(),
        ),
    };
    Failure::new(errno, format!("module: {text}"))
}

impl TaneInstance {
    /// For what is done on its own thread.
    fn mine(&self) -> Result<()> {
        if std::thread::current().id() == self.thread {
            return Ok(());
        }
        let text = "module: an instance is used on the thread that made it";
        Err(Failure::new(libc::EPERM, text))
    }

    fn call(&self, name: &str, arguments: &[i64], result: *mut i64) -> Result<i32> {
        self.mine()?;
        if self.is_inside.get() {
            let text = "module: it is in a call, which an import of its is a part of";
            return Err(Failure::new(libc::EBUSY, text));
        }
        let me = std::ptr::from_ref(self).cast_mut();
        self.me.store(me, Ordering::Relaxed);
        let arguments: Vec<u64> = arguments.iter().map(|arg| *arg as u64).collect();
        self.is_inside.set(true);
        // SAFETY: this thread's, and nobody else is in it.
        let instance = unsafe { &mut *self.instance.get() };
        let ended = instance.call(name, &arguments);
        self.is_inside.set(false);
        let ended = ended.map_err(failure)?;
        let (value, trap) = match ended {
            Ok(value) => (value as i64, None),
            Err(Trap::Exit(code)) => (code.into(), Some(Trap::Exit(code))),
            Err(trap) => (0, Some(trap)),
        };
        if !result.is_null() {
            // SAFETY: as tane.h says.
            unsafe { *result = value };
        }
        let Some(trap) = trap else {
            return Ok(0);
        };
        let place = instance.place();
        let (number, why) = told(trap);
        let line = place.as_ref().and_then(|place| place.line.as_ref());
        let line = line.map_or(String::new(), |(file, line)| format!(" at {file}:{line}"));
        let kind = NAMES[number as usize - 1];
        remember(&format!("module: {name}: {kind}{line}: {why}"));
        *self.place.borrow_mut() = place.map(kept);
        Ok(number)
    }
}

#[no_mangle]
pub unsafe extern "C" fn tane_instance_call(
    instance: *mut TaneInstance,
    function: *const c_char,
    args: *const i64,
    count: usize,
    result: *mut i64,
) -> i32 {
    // SAFETY: as tane.h says.
    answer(|| unsafe {
        let instance = handle(instance)?;
        let name = text(function)?.ok_or_else(null)?;
        let args = match (args.is_null(), count) {
            (_, 0) => &[],
            (true, _) => return Err(null()),
            (false, 1..=6) => std::slice::from_raw_parts(args, count),
            (false, _) => return Err(failure(Error::Arguments(count))),
        };
        instance.call(&name, args, result)
    })
}

#[no_mangle]
pub unsafe extern "C" fn tane_instance_exit(instance: *mut TaneInstance, code: i32) -> i32 {
    // SAFETY: as tane.h says.
    answer(|| unsafe {
        let instance = handle(instance)?;
        instance.mine()?;
        if !instance.is_inside.get() {
            return Err(Failure::new(libc::EINVAL, "module: it is in no call"));
        }
        instance.memory.exit(code);
        Ok(0)
    })
}

#[no_mangle]
pub unsafe extern "C" fn tane_instance_stop(instance: *const TaneInstance) -> i32 {
    // SAFETY: as tane.h says; what is used of it is for any thread.
    answer(|| unsafe {
        let stopper = handle(instance)?.stopper.get();
        let text = "module: an instance without a time limit cannot be stopped: give it one";
        let stopper = stopper.ok_or_else(|| Failure::new(libc::EINVAL, text))?;
        stopper.stop();
        Ok(0)
    })
}

#[no_mangle]
pub unsafe extern "C" fn tane_instance_close(instance: *mut TaneInstance) {
    answer(|| {
        // SAFETY: as tane.h says.
        drop(unsafe { take(instance) });
        Ok(0)
    });
}
