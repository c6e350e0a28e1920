//! What is different under ThreadSanitizer (scripts/sanitize sets `tane_tsan`).

use crate::signals::handler;
use crate::{abi, ops};
use std::arch::{asm, global_asm};
use std::ffi::{c_char, c_void, CStr};
use std::sync::Once;

// The interrupt signal concerns kernel code only, which lies below 512 GiB here
// (memory.rs). Elsewhere it may have come in the middle of the sanitizer, whose
// locks the handler's own code would then wait for: it is not run at all.
global_asm!(
    ".globl tane_sigreturn",
    "tane_sigreturn:",
    "mov $15, %eax",
    "syscall",
    ".globl tane_tsan_handler",
    "tane_tsan_handler:",
    "cmp $32, %edi",    // a real-time signal, and not a fault
    "jb {handler}",
    "mov 168(%rdx), %rax", // uc_mcontext.gregs[REG_RIP]
    "shr $39, %rax",
    "jz {handler}",
    "ret",
    handler = sym handler,
    options(att_syntax)
);

extern "C" {
    fn tane_sigreturn();
    fn tane_tsan_handler();
}

/// The host kernel's own structure.
#[repr(C)]
struct Action {
    handler: usize,
    flags: u64,
    restorer: usize,
    mask: u64,
}

const SA_RESTORER: u64 = 0x0400_0000;

/// sigaction(2) past the sanitizer's, which keeps signals until their thread
/// makes a call that it knows: a thread that is to be diverted would never be,
/// or at a place where it no longer is.
///
/// # Safety
/// As sigaction(2).
pub unsafe fn set_action(
    signal: i32,
    new: *const libc::sigaction,
    old: *mut libc::sigaction,
) -> i32 {
    let word = |set: *const libc::sigset_t| set.cast::<u64>().read();
    let (ours, stub) = (
        handler as *const () as usize,
        tane_tsan_handler as *const () as usize,
    );
    let instead = |address, this, that| if address == this { that } else { address };
    let action = (!new.is_null()).then(|| Action {
        handler: instead((*new).sa_sigaction, ours, stub),
        flags: (*new).sa_flags as u64 | SA_RESTORER,
        restorer: tane_sigreturn as *const () as usize,
        mask: word(&raw const (*new).sa_mask),
    });
    let action = action.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    let mut before = Action {
        handler: 0,
        flags: 0,
        restorer: 0,
        mask: 0,
    };
    let done = libc::syscall(libc::SYS_rt_sigaction, signal, action, &raw mut before, 8);
    if done == 0 && !old.is_null() {
        old.write_bytes(0, 1);
        (*old).sa_sigaction = instead(before.handler, stub, ours);
        (*old).sa_flags = (before.flags & !SA_RESTORER) as i32;
        (&raw mut (*old).sa_mask).cast::<u64>().write(before.mask);
    }
    done as i32
}

extern "C" {
    fn __tsan_acquire(address: *mut c_void);
    fn __tsan_release(address: *mut c_void);
    fn __sanitizer_symbolize_pc(pc: usize, format: *const c_char, to: *mut c_char, len: usize);
}

/// Have the sanitizer start the program that knows names. It does so with fork(), when
/// it wants to report or suppress something: on a kernel stack, which parent and child
/// would share, both went astray.
pub fn prepare() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        const FORMAT: &CStr = c"%f";
        let mut name = [0; 128];
        // SAFETY: writes at most that many bytes.
        unsafe {
            let pc = prepare as *const () as usize;
            __sanitizer_symbolize_pc(pc, FORMAT.as_ptr(), name.as_mut_ptr(), name.len());
        }
    });
}

/// A kernel stack passes from one host thread to the next as its task does, by locks of
/// the kernel that the sanitizer does not see. It is told of them for what we keep on
/// such a stack, and for nothing else: between this and [`Stack::release`] the stack is
/// this thread's.
#[derive(Clone, Copy)]
pub struct Stack(usize);

impl Stack {
    /// Stacks have this size, or are of several such parts.
    const SIZE: usize = 16 << 10;

    /// # Safety
    /// `rsp` points into a stack of a kernel.
    pub unsafe fn acquire(rsp: usize) -> Stack {
        let stack = Stack(rsp & !(Self::SIZE - 1));
        __tsan_acquire(stack.0 as *mut c_void);
        stack
    }

    #[inline(always)]
    fn here() -> Stack {
        let rsp: usize;
        // SAFETY: reads a register; called by what the kernel calls.
        unsafe {
            asm!("mov {}, rsp", out(reg) rsp, options(nomem, nostack, preserves_flags));
            Self::acquire(rsp)
        }
    }

    pub fn release(self) {
        // SAFETY: as in acquire().
        unsafe { __tsan_release(self.0 as *mut c_void) };
    }
}

macro_rules! on_kernel_stacks {
    ($($name:ident($($argument:ident: $kind:ty),*) $(-> $result:ty)?;)*) => {
        $(extern "sysv64" fn $name($($argument: $kind),*) $(-> $result)? {
            let stack = Stack::here();
            let result = ops::$name($($argument),*);
            stack.release();
            result
        })*

        /// The operations that run on kernel stacks are told to the sanitizer.
        pub fn table(host: *const crate::inner::Inner) -> abi::Ops {
            abi::Ops { $($name,)* ..ops::table(host) }
        }
    };
}

on_kernel_stacks! {
    monotonic(host: ops::Host) -> u64;
    realtime(host: ops::Host) -> u64;
    kick(host: ops::Host, cpu: u32);
    yield_(host: ops::Host);
    wake(host: ops::Host, thread: *const abi::Thread);
}
