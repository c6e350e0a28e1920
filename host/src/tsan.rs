//! What is different under ThreadSanitizer (scripts/sanitize sets `tane_tsan`).

use crate::signals::handler;
use std::arch::global_asm;

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
