//! tane_instance_*: checked code with memory, on the thread that made it.

use crate::error::{answer, remember, Failure, Result};
use crate::kernel::{elsewhere, TaneKernel};
use crate::module::{refused, TaneModule};
use crate::pass::{
    self, c_path, give, handle, null, path, read_or_zero, take, text, Argument, Sized_,
};
use std::cell::{Cell, RefCell, UnsafeCell};
use std::ffi::{c_char, c_void, CStr, CString};
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::ThreadId;
use std::time::Duration;
use tane::Kernel;
use tane_checked_run::{Calls, Error, Import, Instance, Linux, Memory, Place, Stopper, Trap};

const MEMORY: u64 = 64 << 20;

type Function = unsafe extern "C" fn(*mut c_void, *mut TaneInstance, *const i64) -> i64;

#[repr(C)]
pub struct RawImport {
    name: *const c_char,
    function: Option<Function>,
    arg: *mut c_void,
}

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

#[repr(C)]
pub struct RawPlace {
    size: usize,
    function: *const c_char,
    file: *const c_char,
    line: u32,
    at: u32,
}

// SAFETY: integers and pointers.
unsafe impl Sized_ for RawPlace {}

struct Where {
    at: u32,
    function: Option<CString>,
    file: Option<CString>,
    line: u32,
}

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
            let text = match Calls::all().find(&name) {
                Some(_) => format!(
                    "it imports {name}, a system call that it is not allowed, or that needs \
                     a kernel and a directory"
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

/// The calls of the kernel that it may import.
unsafe fn calls(raw: &RawInstanceOptions) -> Result<Calls> {
    let all = match (raw.kernel.is_null(), raw.directory.is_null()) {
        // Of one that comes later.
        (true, _) if !raw.calls.is_null() => Calls::all(),
        (true, _) => Calls::default(),
        (false, true) => Calls::without_files(),
        (false, false) => Calls::all(),
    };
    if raw.calls.is_null() {
        return Ok(all);
    }
    let mut calls = Calls::default();
    for number in 0.. {
        // SAFETY: the caller's list, up to its end.
        let Some(name) = (unsafe { text(*raw.calls.add(number)) })? else {
            break;
        };
        let none = || {
            let text = format!("module: {name}: no call that it can have here");
            Failure::new(libc::EINVAL, text)
        };
        all.find(&name).ok_or_else(none)?;
        calls = calls.and_named(&name).ok_or_else(none)?;
    }
    Ok(calls)
}

/// What the caller gives.
unsafe fn imports(
    raw: &RawInstanceOptions,
    me: &Arc<AtomicPtr<TaneInstance>>,
) -> Result<Vec<(String, Import)>> {
    let mut imports: Vec<(String, Import)> = Vec::new();
    if raw.import_count > 0 && raw.imports.is_null() {
        return Err(null());
    }
    for number in 0..raw.import_count {
        // SAFETY: the caller's list, as long as it says.
        let import = unsafe { &*raw.imports.add(number) };
        // SAFETY: the caller's string.
        let name = unsafe { text(import.name) }?.ok_or_else(null)?;
        let function = import.function.ok_or_else(null)?;
        let (argument, me) = (Argument(import.arg), me.clone());
        let run = move |args: [u64; 6], _: &Memory| {
            let argument = &argument;
            let args = args.map(|arg| arg as i64);
            let me = me.load(Ordering::Relaxed);
            // SAFETY: the caller's function, with its argument.
            unsafe { function(argument.0, me, args.as_ptr()) as u64 }
        };
        imports.push((name, Box::new(run)));
    }
    Ok(imports)
}

/// A path of the kernel's, or none.
unsafe fn name_of(directory: *const c_char) -> Result<Option<CString>> {
    if directory.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller's string.
    unsafe { path(directory) }.map(|path| Some(c_path(path)))
}

fn connect(instance: &mut Instance, kernel: &Kernel, directory: Option<&CStr>) -> Result<()> {
    let kernel = kernel.in_process().ok_or_else(elsewhere)?;
    let linux = Linux {
        kernel,
        directory,
        descriptors: 1,
    };
    instance.connect(linux).map_err(failure)
}

fn watch(
    instance: &mut Instance,
    limit: Option<Duration>,
    stopper: &OnceLock<Stopper>,
) -> Result<()> {
    let Some(limit) = limit else {
        return Ok(());
    };
    instance.limit(limit).map_err(|e| failure(e.into()))?;
    instance.stopper().map(|new| stopper.set(new));
    Ok(())
}

unsafe fn start(module: &TaneModule, raw: &RawInstanceOptions) -> Result<TaneInstance> {
    // SAFETY: the caller's handle and string.
    let (kernel, directory) = unsafe {
        let kernel = match raw.kernel.is_null() {
            true => None,
            false => Some(handle(raw.kernel)?.local()?.clone()),
        };
        (kernel, name_of(raw.directory)?)
    };
    if directory.is_some() && kernel.is_none() {
        let text = "module: a directory is a kernel's, and there is no kernel";
        return Err(Failure::new(libc::EINVAL, text));
    }
    let me = Arc::new(AtomicPtr::default());
    // SAFETY: the caller's lists.
    let (calls, imports) = unsafe { (calls(raw)?, imports(raw, &me)?) };
    let mut imports = imports;
    let named = imports.iter_mut().map(|(name, import)| {
        let nothing: Import = Box::new(|_, _| 0);
        (name.as_str(), std::mem::replace(import, nothing))
    });
    let memory = if raw.memory == 0 { MEMORY } else { raw.memory };
    let instance = Instance::of(&module.checked, memory, calls, named.collect());
    let mut instance = instance.map_err(failure)?;
    if let Some(kernel) = &kernel {
        connect(&mut instance, kernel, directory.as_deref())?;
    }
    let limit = (raw.milliseconds != 0).then(|| Duration::from_millis(raw.milliseconds));
    let stopper = OnceLock::new();
    // Who watches is a thread, of which a jail that is still to be entered allows none.
    if kernel.is_some() || raw.calls.is_null() {
        watch(&mut instance, limit, &stopper)?;
    }
    Ok(TaneInstance {
        thread: std::thread::current().id(),
        memory: instance.memory().clone(),
        limit,
        stopper,
        instance: UnsafeCell::new(instance),
        is_inside: Cell::new(false),
        place: RefCell::new(None),
        me,
        kernel: RefCell::new(kernel),
    })
}

/// What people are told of an end, and its number in tane.h.
fn told(trap: Trap) -> (i32, &'static str) {
    match trap {
        Trap::Memory => (1, "it accessed memory that is not there for it"),
        Trap::Stack => (2, "its stack is full: it calls itself too deep"),
        Trap::Divide => (3, "it divided by zero, or the result does not fit"),
        Trap::Unreachable => (4, "it has given up (ud2)"),
        Trap::Call => (5, "it called a function that there is not"),
        Trap::Time => (6, "its time is over"),
        Trap::Exit(_) => (7, "it has ended itself"),
    }
}

/// What traps are called in messages, by their numbers.
const NAMES: [&str; 7] = [
    "memory",
    "stack",
    "divide",
    "unreachable",
    "call",
    "time",
    "exit",
];

fn kept(place: Place) -> Where {
    let c = |text: String| CString::new(text).ok();
    let (file, line) = place.line.map_or((None, 0), |(file, line)| (c(file), line));
    Where {
        at: place.at,
        function: place.function.and_then(c),
        file,
        line,
    }
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
pub unsafe extern "C" fn tane_instance_new(
    module: *const TaneModule,
    options: *const RawInstanceOptions,
    instance: *mut *mut TaneInstance,
) -> i32 {
    // SAFETY: as tane.h says.
    answer(|| unsafe {
        let (module, options) = (handle(module)?, read_or_zero(options)?);
        give(instance, || start(module, &options))
    })
}

#[no_mangle]
pub unsafe extern "C" fn tane_instance_connect(
    instance: *mut TaneInstance,
    kernel: *const TaneKernel,
    directory: *const c_char,
) -> i32 {
    // SAFETY: as tane.h says.
    answer(|| unsafe {
        let (instance, kernel) = (handle(instance)?, handle(kernel)?.local()?);
        instance.mine()?;
        if instance.kernel.borrow().is_some() || instance.is_inside.get() {
            let text = "module: it has a kernel already, or is in a call";
            return Err(Failure::new(libc::EBUSY, text));
        }
        let directory = name_of(directory)?;
        let own = &mut *instance.instance.get();
        connect(own, kernel, directory.as_deref())?;
        watch(own, instance.limit, &instance.stopper)?;
        *instance.kernel.borrow_mut() = Some(kernel.clone());
        Ok(0)
    })
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
pub unsafe extern "C" fn tane_instance_place(
    instance: *const TaneInstance,
    place: *mut RawPlace,
) -> i32 {
    // SAFETY: as tane.h says.
    answer(|| unsafe {
        let instance = handle(instance)?;
        instance.mine()?;
        let known = instance.place.borrow();
        let none = || Failure::new(libc::ENODATA, "module: where it ended is not known");
        let known = known.as_ref().ok_or_else(none)?;
        let c = |text: &Option<CString>| text.as_ref().map_or(std::ptr::null(), |t| t.as_ptr());
        let raw = RawPlace {
            size: 0,
            function: c(&known.function),
            file: c(&known.file),
            line: known.line,
            at: known.at,
        };
        pass::write(place, &raw)?;
        Ok(0)
    })
}

fn outside(offset: u64, len: usize) -> Failure {
    let text = format!("module: {len} bytes at {offset:#x} are not in its memory");
    Failure::new(libc::EFAULT, text)
}

#[no_mangle]
pub unsafe extern "C" fn tane_instance_read(
    instance: *const TaneInstance,
    offset: u64,
    to: *mut c_void,
    len: usize,
) -> i32 {
    // SAFETY: as tane.h says.
    answer(|| unsafe {
        let instance = handle(instance)?;
        instance.mine()?;
        if to.is_null() && len > 0 {
            return Err(null());
        }
        let bytes = instance.memory.read(offset, len);
        let bytes = bytes.ok_or_else(|| outside(offset, len))?;
        if len > 0 {
            to.cast::<u8>()
                .copy_from_nonoverlapping(bytes.as_ptr(), len);
        }
        Ok(0)
    })
}

#[no_mangle]
pub unsafe extern "C" fn tane_instance_write(
    instance: *mut TaneInstance,
    offset: u64,
    from: *const c_void,
    len: usize,
) -> i32 {
    // SAFETY: as tane.h says.
    answer(|| unsafe {
        let instance = handle(instance)?;
        instance.mine()?;
        let bytes = match (from.is_null(), len) {
            (_, 0) => &[],
            (true, _) => return Err(null()),
            (false, _) => std::slice::from_raw_parts(from.cast::<u8>(), len),
        };
        match instance.memory.write(offset, bytes) {
            true => Ok(0),
            false => Err(outside(offset, len)),
        }
    })
}

#[no_mangle]
pub unsafe extern "C" fn tane_instance_give(
    instance: *mut TaneInstance,
    from: *const c_void,
    len: usize,
    offset: *mut u64,
) -> i32 {
    // SAFETY: as tane.h says.
    answer(|| unsafe {
        let instance = handle(instance)?;
        instance.mine()?;
        if instance.is_inside.get() {
            let text = "module: its stack is in use, by the call that this import is a part of";
            return Err(Failure::new(libc::EBUSY, text));
        }
        if offset.is_null() || from.is_null() && len > 0 {
            return Err(null());
        }
        let bytes = match len {
            0 => &[],
            _ => std::slice::from_raw_parts(from.cast::<u8>(), len),
        };
        let at = (*instance.instance.get()).give(bytes);
        let text = "module: its stack has no room for that: more memory gives it more";
        *offset = at.ok_or_else(|| Failure::new(libc::ENOSPC, text))?;
        Ok(0)
    })
}

#[no_mangle]
pub unsafe extern "C" fn tane_instance_heap(
    instance: *const TaneInstance,
    start: *mut u64,
    end: *mut u64,
) -> i32 {
    // SAFETY: as tane.h says.
    answer(|| unsafe {
        let instance = handle(instance)?;
        instance.mine()?;
        if start.is_null() || end.is_null() {
            return Err(null());
        }
        *start = instance.memory.heap();
        *end = instance.memory.heap_end();
        Ok(0)
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
