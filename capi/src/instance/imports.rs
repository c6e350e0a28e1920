//! What an instance may call: system calls of a kernel's, and functions of the caller's.

use super::{RawInstanceOptions, TaneInstance};
use crate::error::{Failure, Result};
use crate::pass::{null, text, Argument};
use std::ffi::{c_char, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::Arc;
use tane_checked_run::{Calls, Import, Memory};

type Function = unsafe extern "C" fn(*mut c_void, *mut TaneInstance, *const i64) -> i64;

#[repr(C)]
pub struct RawImport {
    name: *const c_char,
    function: Option<Function>,
    arg: *mut c_void,
}

/// The calls of the kernel that it may import.
pub(super) unsafe fn calls(raw: &RawInstanceOptions) -> Result<Calls> {
    if raw.calls.is_null() {
        return Ok(match (raw.kernel.is_null(), raw.directory.is_null()) {
            (true, _) => Calls::default(),
            (false, true) => Calls::without_files(),
            (false, false) => Calls::files(),
        });
    }
    let all = match (raw.kernel.is_null(), raw.directory.is_null()) {
        (false, true) => Calls::without_files().and_sockets(),
        // Perhaps of one that comes later.
        _ => Calls::all(),
    };
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
pub(super) unsafe fn imports(
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
