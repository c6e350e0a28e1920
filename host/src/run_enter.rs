//! The way of a host thread into a program and back, in assembly: it loads the program's
//! registers and saves its vector registers. What else a program left in them, signal
//! handlers save (`run_handlers.rs`), which send the thread to one of the two ways back.

use crate::abi;
use crate::run_block::Block;
use crate::run_guest::GuestState;
use std::arch::global_asm;
use std::mem::offset_of;

global_asm!(
    ".globl tane_run_enter",
    "tane_run_enter:", // (block)
    "push rbp",
    "push rbx",
    "push r12",
    "push r13",
    "push r14",
    "push r15",
    "mov [rdi + {host_sp}], rsp",
    // Said before it looks, as who calls in does it the other way round.
    "mov rsi, [rdi + {guest}]",
    "mov byte ptr [rsi + {out}], 1",
    "mfence",
    // From here on a signal that calls the thread in sends it to tane_run_back.
    ".globl tane_run_entering",
    "tane_run_entering:",
    "cmp byte ptr [rsi + {called}], 0",
    "jne tane_run_back",
    "mov rcx, [rsi + {xstate}]",
    "mov eax, [rsi + {xfeatures}]",
    "xor edx, edx",
    "xrstor64 [rcx]",
    "mov rax, [rsi + {fs_base}]",
    "wrfsbase rax",
    "mov rsi, [rsi + {regs}]",
    "push [rsi + {ss}]",
    "push [rsi + {rsp}]",
    "push [rsi + {eflags}]",
    "push [rsi + {cs}]",
    "push [rsi + {rip}]",
    "push [rsi + {rdi}]",
    "mov r15, [rsi + {r15}]",
    "mov r14, [rsi + {r14}]",
    "mov r13, [rsi + {r13}]",
    "mov r12, [rsi + {r12}]",
    "mov rbp, [rsi + {rbp}]",
    "mov rbx, [rsi + {rbx}]",
    "mov r11, [rsi + {r11}]",
    "mov r10, [rsi + {r10}]",
    "mov r9, [rsi + {r9}]",
    "mov r8, [rsi + {r8}]",
    "mov rax, [rsi + {rax}]",
    "mov rcx, [rsi + {rcx}]",
    "mov rdx, [rsi + {rdx}]",
    "mov byte ptr [rdi + {selector}], 1",
    "mov rsi, [rsi + {rsi}]",
    "pop rdi",
    "iretq",
    ".globl tane_run_left",
    "tane_run_left:", // rdi: block, rsp: host_sp
    "mov rsi, [rdi + {guest}]",
    "mov rcx, [rsi + {xstate}]",
    "mov eax, [rsi + {xfeatures}]",
    "xor edx, edx",
    "xsave64 [rcx]",
    "rdfsbase rax",
    "mov [rsi + {fs_base}], rax",
    ".globl tane_run_back",
    "tane_run_back:",
    "mov rsi, [rdi + {guest}]",
    "mov byte ptr [rsi + {out}], 0",
    "mov rsp, [rdi + {host_sp}]",
    "mov rax, [rdi + {host_fs}]",
    "wrfsbase rax",
    // Flags that a program may set and a handler's return leaves: with NT the iretq above
    // would fault the next time.
    "push 2",
    "popfq",
    "fninit",
    "push 0x1f80",
    "ldmxcsr [rsp]",
    "pop rax",
    "pop r15",
    "pop r14",
    "pop r13",
    "pop r12",
    "pop rbx",
    "pop rbp",
    "ret",
    host_sp = const offset_of!(Block, host_sp),
    host_fs = const offset_of!(Block, host_fs),
    guest = const offset_of!(Block, guest),
    called = const offset_of!(GuestState, called),
    out = const offset_of!(GuestState, out),
    selector = const offset_of!(Block, selector),
    xstate = const offset_of!(GuestState, program) + offset_of!(abi::Program, xstate),
    xfeatures = const offset_of!(GuestState, program) + offset_of!(abi::Program, xfeatures),
    fs_base = const offset_of!(GuestState, program) + offset_of!(abi::Program, fs_base),
    regs = const offset_of!(GuestState, program) + offset_of!(abi::Program, regs),
    r15 = const offset_of!(abi::PtRegs, r15),
    r14 = const offset_of!(abi::PtRegs, r14),
    r13 = const offset_of!(abi::PtRegs, r13),
    r12 = const offset_of!(abi::PtRegs, r12),
    rbp = const offset_of!(abi::PtRegs, rbp),
    rbx = const offset_of!(abi::PtRegs, rbx),
    r11 = const offset_of!(abi::PtRegs, r11),
    r10 = const offset_of!(abi::PtRegs, r10),
    r9 = const offset_of!(abi::PtRegs, r9),
    r8 = const offset_of!(abi::PtRegs, r8),
    rax = const offset_of!(abi::PtRegs, rax),
    rcx = const offset_of!(abi::PtRegs, rcx),
    rdx = const offset_of!(abi::PtRegs, rdx),
    rsi = const offset_of!(abi::PtRegs, rsi),
    rdi = const offset_of!(abi::PtRegs, rdi),
    rip = const offset_of!(abi::PtRegs, rip),
    cs = const offset_of!(abi::PtRegs, cs),
    eflags = const offset_of!(abi::PtRegs, eflags),
    rsp = const offset_of!(abi::PtRegs, rsp),
    ss = const offset_of!(abi::PtRegs, ss),
);

extern "sysv64" {
    /// Goes out, and comes back as from any function.
    ///
    /// # Safety
    /// The block is this thread's, and its task not inside the kernel.
    pub fn tane_run_enter(block: *mut Block);
    fn tane_run_entering();
    /// Where a thread comes back that was in the program; rdi is its block.
    pub fn tane_run_left();
    /// Where one comes back that was on its way there.
    pub fn tane_run_back();
}

/// Whether the thread that a handler interrupted was on its way into a program.
pub fn is_entering(regs: &[i64; 23]) -> bool {
    let (start, end) = (
        tane_run_entering as *const () as i64,
        tane_run_left as *const () as i64,
    );
    (start..end).contains(&regs[libc::REG_RIP as usize])
}
