//! The net's side in the process: what SIGSYS and SIGTRAP say, and what is done about it.
//!
//! Nothing here has a heap, thread-local storage or a lock, or makes a system call but
//! that of [`install`]: while a handler runs, the FS base is the program's.

use std::arch::global_asm;
use std::ops::Range;

// rt_sigreturn has to come from where calls are allowed, and the C library's would not.
global_asm!(
    ".pushsection .text.tane_rewrite_return, \"ax\"",
    ".globl tane_rewrite_return",
    ".hidden tane_rewrite_return",
    "tane_rewrite_return:",
    "mov $15, %eax",
    "syscall",
    "int3",
    ".popsection",
    options(att_syntax)
);

extern "C" {
    static tane_rewrite_return: [u8; 8];
}

/// What handlers return to: rt_sigreturn(2), by code that runs anywhere.
pub fn return_code() -> &'static [u8] {
    // SAFETY: these eight bytes are code of this program.
    unsafe { &tane_rewrite_return }
}

/// What a signal was about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A `syscall` at this address.
    Call(u64),
    /// A call into the vsyscall page, at this address in it. The program goes on behind
    /// its call by itself, once rax has the result.
    Vsyscall(u64),
    /// `int 0x80`, `sysenter`, or a number of x32: rax has to become -ENOSYS.
    Foreign,
    /// A trap one byte before the instruction pointer, which may be a patched site's.
    Breakpoint(u64),
}

/// linux/audit.h
const X86_64: u32 = 0xc000_003e;
const X32: i32 = 0x4000_0000;
const SYS_SECCOMP: i32 = 1;
/// What int3 says on x86-64.
const SI_KERNEL: i32 = 0x80;
const VSYSCALL: Range<u64> = 0xffff_ffff_ff60_0000..0xffff_ffff_ff60_1000;

/// The members of siginfo_t that SIGSYS has.
#[repr(C)]
#[derive(Clone, Copy)]
struct Sigsys {
    _signal: [i32; 4],
    address: u64,
    number: i32,
    architecture: u32,
}

/// Why a handler was called; None: for another reason, the program's own.
///
/// # Safety
///
/// `info` and `context` are those that the kernel gave to the handler.
pub unsafe fn cause(
    signal: i32,
    info: *const libc::siginfo_t,
    context: *const libc::ucontext_t,
) -> Option<Cause> {
    // SAFETY: as the caller promises.
    let (code, rip) = unsafe { ((*info).si_code, get(context, libc::REG_RIP)) };
    match (signal, code) {
        (libc::SIGSYS, SYS_SECCOMP) => {
            // SAFETY: siginfo_t has these members for this code, and is 128 bytes long.
            let it = unsafe { *info.cast::<Sigsys>() };
            Some(match it {
                _ if it.architecture != X86_64 || it.number & X32 != 0 => Cause::Foreign,
                _ if VSYSCALL.contains(&it.address) => Cause::Vsyscall(it.address),
                // The address behind it.
                _ => Cause::Call(it.address.wrapping_sub(2)),
            })
        }
        (libc::SIGTRAP, SI_KERNEL) => Some(Cause::Breakpoint(rip.wrapping_sub(1))),
        _ => None,
    }
}

/// A register, by libc's number of it.
///
/// # Safety
///
/// `context` can be read.
pub unsafe fn get(context: *const libc::ucontext_t, register: libc::c_int) -> u64 {
    // SAFETY: as the caller promises; the array has all registers of libc.
    unsafe { (*context).uc_mcontext.gregs[register as usize] as u64 }
}

/// Sets a register, by libc's number of it.
///
/// # Safety
///
/// `context` can be written.
pub unsafe fn set(context: *mut libc::ucontext_t, register: libc::c_int, value: u64) {
    // SAFETY: as the caller promises; the array has all registers of libc.
    unsafe { (*context).uc_mcontext.gregs[register as usize] = value as i64 };
}

/// Has the program go into the gate with the call that trapped, as a trampoline would,
/// and come back behind its `syscall`: at `back`, which is there or, if the site is
/// patched by now, in the trampoline. All registers are what the gate expects: the
/// processor has left rcx and r11 as it does, and the kernel the number in rax.
///
/// # Safety
///
/// `context` is that of a [`Cause::Call`], and `gate` a gate.
pub unsafe fn enter(context: *mut libc::ucontext_t, gate: u64, back: u64) {
    // SAFETY: as the caller promises.
    unsafe {
        set(context, libc::REG_RCX, back);
        set(context, libc::REG_RIP, gate);
    }
}

/// Has the program go on as after a call with this result.
///
/// # Safety
///
/// `context` is that of a [`Cause::Foreign`] or [`Cause::Vsyscall`].
pub unsafe fn answer(context: *mut libc::ucontext_t, result: i64) {
    // SAFETY: as the caller promises.
    unsafe { set(context, libc::REG_RAX, result as u64) };
}

/// What the kernel calls: signal, siginfo_t, ucontext_t.
pub type Handler = unsafe extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::ucontext_t);

/// The kernel's struct sigaction.
#[repr(C)]
struct Action {
    handler: Handler,
    flags: u64,
    restorer: u64,
    mask: u64,
}

const SA_RESTORER: u64 = 0x0400_0000;

/// Has the kernel call `handler` for this signal, on the alternate signal stack if the
/// thread has one (a goroutine's own is too small), with all signals blocked.
///
/// # Safety
///
/// `handler` does only what this file may do, and returns. [`return_code`] is at
/// `restorer`, in the range that the net allows.
pub unsafe fn install(signal: i32, handler: Handler, restorer: u64) -> std::io::Result<()> {
    let action = Action {
        handler,
        flags: libc::SA_SIGINFO as u64 | libc::SA_ONSTACK as u64 | SA_RESTORER,
        restorer,
        mask: !0,
    };
    let nothing = std::ptr::null_mut::<Action>();
    // SAFETY: the structure is the kernel's, and the handler as the caller promises.
    match unsafe {
        libc::syscall(
            libc::SYS_rt_sigaction,
            signal,
            &raw const action,
            nothing,
            8,
        )
    } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}
