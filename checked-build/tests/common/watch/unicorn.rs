//! The emulator Unicorn, QEMU's translator as a library: Debian has it as libunicorn2, and
//! whoever lacks it skips the tests that need it.

use std::ffi::{c_int, c_void, CStr};

const FILE: &CStr = c"libunicorn.so.2";
const X86: c_int = 4;
const MODE_64: c_int = 1 << 3;

pub const READ: u32 = 1;
pub const WRITE: u32 = 2;
pub const EXECUTE: u32 = 4;

pub const RIP: c_int = 41;
pub const RSP: c_int = 44;
pub const GS_BASE: c_int = 251;
/// In the order of their numbers in instructions.
pub const GENERAL: [c_int; 16] = [
    35, 38, 40, 37, RSP, 36, 43, 39, 106, 107, 108, 109, 110, 111, 112, 113,
];

/// What a hook is called for: each exception, each instruction, each access, each that fails.
pub const EXCEPTION: c_int = 1;
pub const CODE: c_int = 1 << 2;
pub const ACCESS: c_int = 1 << 10 | 1 << 11;
pub const FAILURE: c_int = 0x3f << 4;
/// How an access hook is told of a write.
pub const IS_WRITE: c_int = 17;

/// How a hook of failures is told of what failed; else it was a read.
pub const WRITE_UNMAPPED: c_int = 20;
pub const FETCH_UNMAPPED: c_int = 21;
pub const WRITE_PROTECTED: c_int = 22;
pub const FETCH_PROTECTED: c_int = 24;

/// How a run ends.
pub const INVALID: c_int = 10;
pub const FAILURES: [c_int; 6] = [6, 7, 8, 12, 13, 14];

/// The length of what it cannot decode, to a hook of instructions.
pub const NO_LENGTH: u32 = 0xf1f1_f1f1;

type Handle = *mut c_void;

struct Functions {
    close: unsafe extern "C" fn(Handle) -> c_int,
    map: unsafe extern "C" fn(Handle, u64, usize, u32, *mut c_void) -> c_int,
    write: unsafe extern "C" fn(Handle, u64, *const c_void, usize) -> c_int,
    get: unsafe extern "C" fn(Handle, c_int, *mut c_void) -> c_int,
    set: unsafe extern "C" fn(Handle, c_int, *const c_void) -> c_int,
    hook: unsafe extern "C" fn(
        Handle,
        *mut usize,
        c_int,
        *const c_void,
        *mut c_void,
        u64,
        u64,
        ...
    ) -> c_int,
    start: unsafe extern "C" fn(Handle, u64, u64, u64, usize) -> c_int,
    stop: unsafe extern "C" fn(Handle) -> c_int,
    control: unsafe extern "C" fn(Handle, c_int, ...) -> c_int,
    restore: unsafe extern "C" fn(Handle, *mut c_void) -> c_int,
}

/// To forget what was translated of an address and those behind it, up to another one: what
/// is to be done, two arguments, none of which is read.
const FORGET: c_int = 9 | 2 << 26 | 1 << 30;

/// A processor with memory of its own, for one thread.
pub struct Engine {
    handle: Handle,
    /// What its registers held at first.
    registers: *mut c_void,
    call: Functions,
}

fn done(what: &str, error: c_int) {
    assert_eq!(error, 0, "unicorn: {what}");
}

/// A function of the library.
///
/// # Safety
/// `F` is a pointer to a function of the type that the library's header gives it.
unsafe fn find<F: Copy>(library: Handle, name: &CStr) -> F {
    // SAFETY: the name ends in 0; of what was found the caller knows the type.
    unsafe {
        let found = libc::dlsym(library, name.as_ptr());
        assert!(!found.is_null(), "unicorn has no {name:?}");
        std::mem::transmute_copy::<*mut c_void, F>(&found)
    }
}

impl Engine {
    /// None where the library is not there.
    pub fn new() -> Option<Engine> {
        type Open = unsafe extern "C" fn(c_int, c_int, *mut Handle) -> c_int;
        type Allocate = unsafe extern "C" fn(Handle, *mut *mut c_void) -> c_int;
        type Save = unsafe extern "C" fn(Handle, *mut c_void) -> c_int;
        // SAFETY: the library's own functions, with the types of its header.
        unsafe {
            let library = libc::dlopen(FILE.as_ptr(), libc::RTLD_NOW);
            if library.is_null() {
                return None;
            }
            let (mut handle, mut registers) = (std::ptr::null_mut(), std::ptr::null_mut());
            let open: Open = find(library, c"uc_open");
            done("open", open(X86, MODE_64, &raw mut handle));
            let allocate: Allocate = find(library, c"uc_context_alloc");
            done("allocate", allocate(handle, &raw mut registers));
            let save: Save = find(library, c"uc_context_save");
            done("save", save(handle, registers));
            let call = Functions {
                close: find(library, c"uc_close"),
                map: find(library, c"uc_mem_map_ptr"),
                write: find(library, c"uc_mem_write"),
                get: find(library, c"uc_reg_read"),
                set: find(library, c"uc_reg_write"),
                hook: find(library, c"uc_hook_add"),
                start: find(library, c"uc_emu_start"),
                stop: find(library, c"uc_emu_stop"),
                control: find(library, c"uc_ctl"),
                restore: find(library, c"uc_context_restore"),
            };
            Some(Engine {
                handle,
                registers,
                call,
            })
        }
    }

    /// Puts this memory, whole pages, at an address.
    ///
    /// # Safety
    /// It has to stay where it is as long as the engine runs.
    pub unsafe fn map(&self, at: u64, memory: &mut [u8], how: u32) {
        // SAFETY: by the caller.
        let error = unsafe {
            (self.call.map)(
                self.handle,
                at,
                memory.len(),
                how,
                memory.as_mut_ptr().cast(),
            )
        };
        done("map", error);
    }

    /// Changes code, which is translated anew.
    pub fn write_code(&self, at: u64, bytes: &[u8]) {
        // SAFETY: it reads these bytes alone.
        let error =
            unsafe { (self.call.write)(self.handle, at, bytes.as_ptr().cast(), bytes.len()) };
        done("write", error);
        // SAFETY: of a control with these two arguments.
        let error =
            unsafe { (self.call.control)(self.handle, FORGET, at, at + bytes.len() as u64) };
        done("forget", error);
    }

    /// All registers are as they were at first; an exception is forgotten.
    pub fn reset(&self) {
        // SAFETY: what was saved of it.
        done("restore", unsafe {
            (self.call.restore)(self.handle, self.registers)
        });
    }

    pub fn get(&self, register: c_int) -> u64 {
        let mut value = 0_u64;
        // SAFETY: general registers and bases have 8 bytes.
        let error =
            unsafe { (self.call.get)(self.handle, register, (&raw mut value).cast::<c_void>()) };
        done("get", error);
        value
    }

    pub fn set(&self, register: c_int, value: u64) {
        // SAFETY: as above.
        let error =
            unsafe { (self.call.set)(self.handle, register, (&raw const value).cast::<c_void>()) };
        done("set", error);
    }

    /// Has a function called, with `data` as its last argument.
    ///
    /// # Safety
    /// The function has the type that the library's header gives this kind of hook.
    pub unsafe fn hook(&self, kind: c_int, function: *const c_void, data: *mut c_void) {
        let mut hook = 0;
        // SAFETY: by the caller; from 1 to 0 is everywhere.
        let error =
            unsafe { (self.call.hook)(self.handle, &raw mut hook, kind, function, data, 1, 0) };
        done("hook", error);
    }

    /// Runs; how that ended.
    pub fn run(&self, from: u64, until: u64) -> c_int {
        // SAFETY: hooks see to what they use.
        unsafe { (self.call.start)(self.handle, from, until, 0, 0) }
    }

    /// Ends the run that called a hook.
    pub fn stop(&self) {
        // SAFETY: ours.
        done("stop", unsafe { (self.call.stop)(self.handle) });
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // SAFETY: nobody else has it.
        unsafe { (self.call.close)(self.handle) };
    }
}
