//! tane_module_*: checked code, before it has memory.

use crate::error::{answer, Failure, Result};
use crate::pass::{give, handle, null, take};
use std::ffi::{c_char, c_void, CString};
use tane_checked::Refusal;
use tane_checked_run::Checked;

pub struct TaneModule {
    pub checked: Checked,
    exports: Vec<CString>,
    imports: Vec<CString>,
}

pub fn refused(refusal: &Refusal) -> Failure {
    let text = format!("module: {refusal}: {}", refusal.rule.remedy());
    Failure::new(libc::ENOEXEC, text)
}

fn open(file: &[u8]) -> Result<TaneModule> {
    let checked = Checked::new(file.to_vec()).map_err(|refusal| refused(&refusal))?;
    // Names have no NUL in them.
    let name = |name: &str| CString::new(name).unwrap_or_default();
    let module = checked.module();
    let exports = module.exports.iter().map(|export| name(export.name));
    let (exports, imports) = (exports.collect(), module.imports.iter().map(|n| name(n)));
    let imports = imports.collect();
    Ok(TaneModule {
        checked,
        exports,
        imports,
    })
}

fn name(names: &[CString], number: u32) -> *const c_char {
    let found = names.get(number as usize);
    found.map_or(std::ptr::null(), |name| name.as_ptr())
}

#[no_mangle]
pub unsafe extern "C" fn tane_module_open(
    data: *const c_void,
    len: usize,
    module: *mut *mut TaneModule,
) -> i32 {
    // SAFETY: as tane.h says.
    answer(|| unsafe {
        if data.is_null() {
            return Err(null());
        }
        let file = std::slice::from_raw_parts(data.cast::<u8>(), len);
        give(module, || open(file))
    })
}

#[no_mangle]
pub unsafe extern "C" fn tane_module_export(
    module: *const TaneModule,
    number: u32,
) -> *const c_char {
    // SAFETY: as tane.h says.
    unsafe { handle(module) }.map_or(std::ptr::null(), |it| name(&it.exports, number))
}

#[no_mangle]
pub unsafe extern "C" fn tane_module_import(
    module: *const TaneModule,
    number: u32,
) -> *const c_char {
    // SAFETY: as tane.h says.
    unsafe { handle(module) }.map_or(std::ptr::null(), |it| name(&it.imports, number))
}

#[no_mangle]
pub unsafe extern "C" fn tane_module_close(module: *mut TaneModule) {
    answer(|| {
        // SAFETY: as tane.h says.
        drop(unsafe { take(module) });
        Ok(0)
    });
}
