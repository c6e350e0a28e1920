//! The last error of each thread; panics stop here.

use std::cell::RefCell;
use std::ffi::{c_char, CString};
use std::panic::{catch_unwind, AssertUnwindSafe};

pub use tane_worker::{Failure, Result};

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// What [`tane_error_message`] says from now on.
pub fn remember(text: &str) {
    let mut bytes: Vec<u8> = text.bytes().filter(|&b| b != 0).collect();
    for byte in &mut bytes {
        if *byte == b'\n' {
            *byte = b' ';
        }
    }
    let text = CString::new(bytes).unwrap_or_default();
    // A thread that ends has nobody left to read it.
    let _ = LAST.try_with(|last| *last.borrow_mut() = text);
}

/// Run the body of a C function: its value, or the negative errno after keeping
/// the message. A panic must not unwind into C; it is -EIO.
pub fn answer64(body: impl FnOnce() -> Result<i64>) -> i64 {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(value)) => value,
        Ok(Err(failure)) => {
            remember(&failure.text);
            -i64::from(failure.errno)
        }
        Err(_) => {
            remember("internal error: the library panicked");
            -i64::from(libc::EIO)
        }
    }
}

/// [`answer64`] for functions that return an int.
pub fn answer(body: impl FnOnce() -> Result<i32>) -> i32 {
    answer64(|| body().map(i64::from)) as i32
}

/// [`answer`] for functions that return 0.
pub fn done<E: Into<Failure>>(body: impl FnOnce() -> std::result::Result<(), E>) -> i32 {
    answer(|| body().map(|()| 0).map_err(Into::into))
}

#[no_mangle]
pub extern "C" fn tane_error_message() -> *const c_char {
    let text = LAST.try_with(|last| last.borrow().as_ptr());
    text.unwrap_or(c"".as_ptr())
}

#[no_mangle]
pub extern "C" fn tane_version() -> u32 {
    const MAJOR: u32 = 0;
    const MINOR: u32 = 1;
    MAJOR << 16 | MINOR
}
