//! What is different under ThreadSanitizer (scripts/sanitize sets `tane_tsan`).

use std::arch::global_asm;

global_asm!(
    ".globl tane_sigreturn",
    "tane_sigreturn:",
    "mov $15, %eax",
    "syscall",
    options(att_syntax)
);

extern "C" {
    fn tane_sigreturn();
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
    let action = (!new.is_null()).then(|| Action {
        handler: (*new).sa_sigaction,
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
        (*old).sa_sigaction = before.handler;
        (*old).sa_flags = (before.flags & !SA_RESTORER) as i32;
        (&raw mut (*old).sa_mask).cast::<u64>().write(before.mask);
    }
    done as i32
}
