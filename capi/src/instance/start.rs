//! tane_instance_new, tane_instance_connect: what it is made of, and its kernel.

use super::imports::{calls, imports};
use super::{failure, RawInstanceOptions, TaneInstance};
use crate::error::{answer, Failure, Result};
use crate::kernel::{elsewhere, TaneKernel};
use crate::module::TaneModule;
use crate::pass::{c_path, give, handle, path, read_or_zero};
use std::cell::{Cell, RefCell, UnsafeCell};
use std::ffi::{c_char, CStr, CString};
use std::sync::atomic::AtomicPtr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tane::Kernel;
use tane_checked_run::{Import, Instance, Linux, Stopper};

const MEMORY: u64 = 64 << 20;

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
