//! The way of a program's system call that was rewritten to a jump (`run/rewrite`): the
//! registers go to where the task has them, and the kernel is called on the host's stack
//! of this thread, as long as it keeps the CPU (bias.rs) and nothing comes between. What
//! does ends [`Owned::enter`](crate::run_block::Owned::enter), as a signal would.
//!
//! Vector registers stay where they are, which `xfeatures` tells the kernel, and are
//! spared as a module's (`struct tane_caller`). FS is the host's inside, since host
//! operations and handlers use it.
//!
//! A handler that finds the thread here, with the selector still or again at the
//! program's, leaves it alone before the call; after it, where all registers are in their
//! place, it starts once more at `tane_run_gate_out`, which sees that it was called in.

use crate::abi;
use crate::run_block::{Block, CALLER_AT, CALL_AT_GATE, DISTURBED, ENDED, FROM_BASE};
use crate::run_guest::GuestState;
use std::arch::global_asm;
use std::mem::offset_of;

/// Calls that need all of the program's registers in the kernel, leave for good, or ask
/// about the way in: the numbers below 512 that do not go this way.
static SLOW_CALLS: [u8; KNOWN] = {
    let mut table = [0; KNOWN];
    let slow = [
        libc::SYS_rt_sigreturn,
        libc::SYS_clone,
        libc::SYS_fork,
        libc::SYS_vfork,
        libc::SYS_execve,
        libc::SYS_exit,
        libc::SYS_exit_group,
        libc::SYS_execveat,
        libc::SYS_clone3,
        // They tell how long the program has run, which is known where it comes in.
        libc::SYS_times,
        libc::SYS_getrusage,
    ];
    let mut at = 0;
    while at < slow.len() {
        table[slow[at] as usize] = 1;
        at += 1;
    }
    table
};
const KNOWN: usize = 512;

/// SSE, AVX and AVX-512: what the kernel spares.
const VECTORS: u32 = 0xe6;
/// TF, DF, NT and AC: with these in force neither host nor kernel can run.
const SPECIAL_FLAGS: u32 = 0x4_4500;
/// Linux's ERESTARTSYS to ERESTART_RESTARTBLOCK.
const RESTARTS: (i32, i32) = (512, 516);

global_asm!(
    // Out of the way of what happens often, but where steps are looked for (`way`).
    ".globl tane_run_gate_special",
    "tane_run_gate_special:",
    "5:",
    "push 2",
    "popfq",
    "jmp 2f",
    ".globl tane_run_gate",
    // rcx: where to go on; r11: behind the program's `syscall`
    "tane_run_gate:",
    "mov gs:[{resume} - {from_base}], rcx",
    "mov rcx, gs:[{guest} - {from_base}]",
    "mov rcx, [rcx + {regs}]",
    "mov [rcx + {rip}], r11",
    "mov [rcx + {rcx}], r11",
    "mov eax, eax",
    "mov [rcx + {orig_rax}], rax",
    "mov [rcx + {rdi}], rdi",
    "mov [rcx + {rsi}], rsi",
    "mov [rcx + {rdx}], rdx",
    "mov [rcx + {r10}], r10",
    "mov [rcx + {r8}], r8",
    "mov [rcx + {r9}], r9",
    "mov [rcx + {rbx}], rbx",
    "mov [rcx + {rbp}], rbp",
    "mov [rcx + {r12}], r12",
    "mov [rcx + {r13}], r13",
    "mov [rcx + {r14}], r14",
    "mov [rcx + {r15}], r15",
    "mov [rcx + {rsp}], rsp",
    "mov rbx, gs:[{self_} - {from_base}]",
    "mov rsp, [rbx + {host_sp}]",
    "pushfq",
    "pop r11",
    "mov [rcx + {eflags}], r11",
    "mov [rcx + {r11}], r11",
    "test r11d, {special}",
    "jnz 5b",
    "2:",
    "mov r13, [rbx + {guest}]",
    "rdfsbase rbp",
    "mov [r13 + {fs_base}], rbp",
    "mov rbp, [rbx + {host_fs}]",
    "wrfsbase rbp",
    "mov byte ptr [r13 + {out}], 0",
    "mov byte ptr [rbx + {selector}], 0",
    "test r11d, {special}",
    "jnz 6f",
    "cmp byte ptr [rbx + {slow}], 0",
    "jne 6f",
    "cmp rax, {known}",
    "jae 6f",
    "lea rbp, [rip + {table}]",
    "cmp byte ptr [rbp + rax], 0",
    "jne 6f",
    // Inside, then whose it is: who takes it away looks in the other order.
    "mov rbp, [rbx + {slot}]",
    "mov qword ptr [r13 + {xfeatures}], 0",
    "mov dword ptr [rbp + {inside}], 1",
    "cmp gs:[{bias} - {page}], rbp",
    "jne 7f",
    "lea r12, [rbx + {caller_at}]",
    "mov gs:[{caller} - {page}], r12",
    "sub rsp, 8",
    "call [rbx + {call}]",
    // rbx and rbp are kept; r12 and r13 too.
    "add rsp, 8",
    "test rdx, rdx",
    "jnz 8f",
    // In the program again as far as others can see, then no longer inside: who finds it
    // outside finds that it is to be called in (run::stop).
    "mov byte ptr [r13 + {out}], 1",
    "mov dword ptr [rbp + {inside}], 0",
    "mov rcx, gs:[{bias} - {page}]",
    "xor rcx, rbp",
    "or rcx, gs:[{pending} - {page}]",
    "mov esi, gs:[{kicks} - {page}]",
    "or rcx, rsi",
    "jnz 8f",
    "lea rcx, [rax + {restart_last}]",
    "cmp rcx, {restarts}",
    "mov rdi, rbx",
    "mov rsi, [r13 + {regs}]",
    "mov [rsi + {rax}], rax",
    "jbe 9f",
    "cmp qword ptr [r12 + {saved}], 0",
    "jne 4f",
    "3:",
    "mov rax, [r13 + {features}]",
    "mov [r13 + {xfeatures}], rax",
    // rdi: block, rsi: the program's registers, rsp: host_sp
    ".globl tane_run_gate_out",
    "tane_run_gate_out:",
    "mov byte ptr [rdi + {selector}], 1",
    "mov rbx, [rdi + {guest}]",
    "cmp byte ptr [rbx + {called}], 0",
    "jne 10f",
    "mov rax, [rbx + {fs_base}]",
    "wrfsbase rax",
    "mov r11, [rsi + {eflags}]",
    "mov eax, r11d",
    "shr eax, 11",
    "and eax, 1",
    // The overflow flag, then the others.
    "add al, 0x7f",
    "mov rcx, r11",
    "mov ah, cl",
    "sahf",
    "mov rcx, [rdi + {resume}]",
    "mov rax, [rsi + {rax}]",
    "mov rdx, [rsi + {rdx}]",
    "mov r10, [rsi + {r10}]",
    "mov r8, [rsi + {r8}]",
    "mov r9, [rsi + {r9}]",
    "mov rbx, [rsi + {rbx}]",
    "mov rbp, [rsi + {rbp}]",
    "mov r12, [rsi + {r12}]",
    "mov r13, [rsi + {r13}]",
    "mov r14, [rsi + {r14}]",
    "mov r15, [rsi + {r15}]",
    "mov rsp, [rsi + {rsp}]",
    "mov rdi, [rsi + {rdi}]",
    "mov rsi, [rsi + {rsi}]",
    "jmp rcx",
    "10:",
    "mov rax, [rdi + {host_fs}]",
    "wrfsbase rax",
    "mov byte ptr [rdi + {selector}], 0",
    ".globl tane_run_gate_end",
    "tane_run_gate_end:",
    "mov rbx, rdi",
    "9:",
    "mov byte ptr [rbx + {reason}], {ended}",
    "jmp 11f",
    "4:",
    "mov eax, {vectors}",
    "xor edx, edx",
    "xrstor64 [r12 + {xsave}]",
    "mov qword ptr [r12 + {saved}], 0",
    "jmp 3b",
    "7:",
    "mov dword ptr [rbp + {inside}], 0",
    "6:",
    "mov byte ptr [rbx + {reason}], {call_at_gate}",
    "jmp 11f",
    "8:",
    "mov [rbx + {exit}], rax",
    "mov [rbx + {exit} + 8], rdx",
    "mov byte ptr [rbx + {reason}], {disturbed}",
    // The vector registers to where the kernel looks for them, then it may.
    "11:",
    "cmp qword ptr [rbx + {caller_at} + {saved}], 0",
    "je 12f",
    "mov eax, {vectors}",
    "xor edx, edx",
    "xrstor64 [rbx + {caller_at} + {xsave}]",
    "mov qword ptr [rbx + {caller_at} + {saved}], 0",
    "12:",
    "mov rsi, [rbx + {guest}]",
    "mov rcx, [rsi + {xstate}]",
    "mov rdi, rbx",
    "mov eax, [rsi + {features}]",
    "xor edx, edx",
    "xsave64 [rcx]",
    "mov rax, [rsi + {features}]",
    "mov [rsi + {xfeatures}], rax",
    "jmp tane_run_back",
    table = sym SLOW_CALLS,
    known = const KNOWN,
    vectors = const VECTORS,
    special = const SPECIAL_FLAGS,
    restart_last = const RESTARTS.1,
    restarts = const RESTARTS.1 - RESTARTS.0,
    ended = const ENDED,
    call_at_gate = const CALL_AT_GATE,
    disturbed = const DISTURBED,
    from_base = const FROM_BASE,
    caller_at = const CALLER_AT,
    page = const abi::VCPU_SIZE,
    self_ = const offset_of!(Block, self_),
    guest = const offset_of!(Block, guest),
    resume = const offset_of!(Block, resume),
    host_sp = const offset_of!(Block, host_sp),
    host_fs = const offset_of!(Block, host_fs),
    called = const offset_of!(GuestState, called),
    out = const offset_of!(GuestState, out),
    selector = const offset_of!(Block, selector),
    reason = const offset_of!(Block, reason),
    slow = const offset_of!(Block, slow),
    slot = const offset_of!(Block, slot),
    call = const offset_of!(Block, call),
    exit = const offset_of!(Block, exit),
    features = const offset_of!(GuestState, features),
    regs = const offset_of!(GuestState, program) + offset_of!(abi::Program, regs),
    fs_base = const offset_of!(GuestState, program) + offset_of!(abi::Program, fs_base),
    xstate = const offset_of!(GuestState, program) + offset_of!(abi::Program, xstate),
    xfeatures = const offset_of!(GuestState, program) + offset_of!(abi::Program, xfeatures),
    saved = const offset_of!(abi::Caller, saved),
    xsave = const offset_of!(abi::Caller, xsave),
    inside = const offset_of!(abi::Thread, inside),
    bias = const offset_of!(abi::Vcpu, bias),
    pending = const offset_of!(abi::Vcpu, pending),
    kicks = const offset_of!(abi::Vcpu, kicks),
    caller = const offset_of!(abi::Vcpu, caller),
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
    orig_rax = const offset_of!(abi::PtRegs, orig_rax),
    rip = const offset_of!(abi::PtRegs, rip),
    eflags = const offset_of!(abi::PtRegs, eflags),
    rsp = const offset_of!(abi::PtRegs, rsp),
);

extern "sysv64" {
    fn tane_run_gate_special();
    fn tane_run_gate();
    /// Where a thread goes out again: rdi is its block, rsi its program's registers, and
    /// rsp the host's.
    pub fn tane_run_gate_out();
    fn tane_run_gate_end();
}

/// Where programs jump to.
pub fn address() -> u64 {
    tane_run_gate as *const () as u64
}

/// Which way through the gate a thread goes that the program's selector still or again stands for.
pub enum Way {
    /// On its way to the call.
    In,
    /// On its way back.
    Out,
}

/// That of a thread with these registers, if it is in the gate at all.
pub fn way(regs: &[i64; 23]) -> Option<Way> {
    let rip = regs[libc::REG_RIP as usize] as u64;
    let at = |label: unsafe extern "sysv64" fn()| label as *const () as u64;
    let (start, out, end) = (
        at(tane_run_gate_special),
        at(tane_run_gate_out),
        at(tane_run_gate_end),
    );
    if (start..out).contains(&rip) {
        return Some(Way::In);
    }
    (out..end).contains(&rip).then_some(Way::Out)
}
