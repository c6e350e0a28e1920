//! How a call ended that did not return, and tane_instance_place: where.

use super::TaneInstance;
use crate::error::{answer, Failure};
use crate::pass::{self, handle, Sized_};
use std::ffi::{c_char, CString};
use tane_checked_run::{Place, Trap};

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

pub(super) struct Where {
    at: u32,
    function: Option<CString>,
    file: Option<CString>,
    line: u32,
}

/// What people are told of an end, and its number in tane.h.
pub(super) fn told(trap: Trap) -> (i32, &'static str) {
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
pub(super) const NAMES: [&str; 7] = [
    "memory",
    "stack",
    "divide",
    "unreachable",
    "call",
    "time",
    "exit",
];

pub(super) fn kept(place: Place) -> Where {
    let c = |text: String| CString::new(text).ok();
    let (file, line) = place.line.map_or((None, 0), |(file, line)| (c(file), line));
    Where {
        at: place.at,
        function: place.function.and_then(c),
        file,
        line,
    }
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
