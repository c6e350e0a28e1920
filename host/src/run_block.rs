//! What a host thread that runs a program keeps beside its stack: the way out of
//! Rust into the program, the way back, and what signal handlers need on it. While
//! the program runs, the FS base is the program's: no thread-local storage, no libc.
//!
//! The thread runs the program as a hypervisor runs a guest: [`Block::enter`] returns
//! when the program wants something. A system call is a signal of the host's kernel
//! (syscall user dispatch: prctl(2)), a fault is one anyway. Their handler writes the
//! registers to where the kernel keeps them, and returns to the end of `enter`.

use crate::abi;
use crate::cpu;
use std::arch::global_asm;
use std::io;
use std::mem::{offset_of, MaybeUninit};
use std::ptr;
use std::sync::atomic::{AtomicU8, Ordering};

const MAGIC: u64 = 0x6d61_7267_6f72_7074;
/// Room for the block, whole pages.
const BLOCK_SIZE: usize = 8192;
/// The signal stack behind it, of a size that nobody else's has.
const STACK_SIZE: usize = (128 << 10) - 0x140;
const MAPPED: usize = BLOCK_SIZE + (128 << 10);

/// x87, SSE, AVX and AVX-512: what is saved. Protection keys stay as they are.
const FEATURES: u64 = 0xe7;
const XSTATE_SIZE: usize = 2816;

/// Selector values of syscall user dispatch.
const ALLOW: u8 = 0;
const BLOCK: u8 = 1;

/// The attack in cli/tests/prisoner/escape.c finds the selector in it.
#[repr(C, align(64))]
pub struct Block {
    xstate: [u8; XSTATE_SIZE],
    magic: u64,
    pub program: abi::Program,
    host_sp: u64,
    host_fs: u64,
    /// 1: system calls of this thread are the program's.
    selector: AtomicU8,
    /// 1: do not go out, ask for signals.
    pub called: AtomicU8,
    reason: AtomicU8,
    trap: Trap,
}

const _: () = assert!(size_of::<Block>() <= BLOCK_SIZE);

/// An exception, as the host's kernel told it.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Trap {
    pub address: u64,
    /// x86's.
    pub error: u64,
    pub vector: u64,
    pub signal: i32,
    pub code: i32,
}

/// Why a program's thread came in.
pub enum Reason {
    /// Its registers say for which.
    Call,
    Trap(Trap),
    /// Signals wait for it.
    Called,
}

const CALL: u8 = 0;
const TRAP: u8 = 1;
const CALLED: u8 = 2;

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
    // From here on a signal that calls the thread in sends it to tane_run_back.
    ".globl tane_run_entering",
    "tane_run_entering:",
    "cmp byte ptr [rdi + {called}], 0",
    "jne tane_run_back",
    "mov rcx, [rdi + {xstate}]",
    "mov eax, [rdi + {xfeatures}]",
    "xor edx, edx",
    "xrstor64 [rcx]",
    "mov rax, [rdi + {fs_base}]",
    "wrfsbase rax",
    "mov rsi, [rdi + {regs}]",
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
    "mov rcx, [rdi + {xstate}]",
    "mov eax, [rdi + {xfeatures}]",
    "xor edx, edx",
    "xsave64 [rcx]",
    "rdfsbase rax",
    "mov [rdi + {fs_base}], rax",
    ".globl tane_run_back",
    "tane_run_back:",
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
    called = const offset_of!(Block, called),
    selector = const offset_of!(Block, selector),
    xstate = const offset_of!(Block, program) + offset_of!(abi::Program, xstate),
    xfeatures = const offset_of!(Block, program) + offset_of!(abi::Program, xfeatures),
    fs_base = const offset_of!(Block, program) + offset_of!(abi::Program, fs_base),
    regs = const offset_of!(Block, program) + offset_of!(abi::Program, regs),
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
    fn tane_run_enter(block: *mut Block);
    fn tane_run_entering();
    fn tane_run_left();
    fn tane_run_back();
}

/// A block that is this thread's, or will be another's. Unmapped when dropped.
pub struct Owned(*mut Block);

// SAFETY: a mapping like any other; one thread at a time uses it.
unsafe impl Send for Owned {}

impl Owned {
    pub fn new() -> io::Result<Self> {
        // SAFETY: a fresh mapping, all zeros.
        unsafe {
            let at = libc::mmap(
                ptr::null_mut(),
                MAPPED,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            );
            if at == libc::MAP_FAILED {
                return Err(io::Error::last_os_error());
            }
            let block = at.cast::<Block>();
            (*block).magic = MAGIC;
            (*block).program.xstate = &raw const (*block).xstate as u64;
            let (features, size) = vector_state();
            (*block).program.xfeatures = features;
            (*block).program.xstate_size = size;
            Ok(Self(block))
        }
    }

    /// What `tane_thread.program` says.
    pub fn address(&self) -> u64 {
        // SAFETY: ours.
        unsafe { &raw const (*self.0).program as u64 }
    }

    /// Make it this thread's: its signal stack, and whose system calls are the
    /// program's.
    pub fn install(&self) -> io::Result<()> {
        const PR_SET_SYSCALL_USER_DISPATCH: i32 = 59;
        const PR_SYS_DISPATCH_ON: u64 = 1;
        let stack = libc::stack_t {
            ss_sp: (self.0 as usize + BLOCK_SIZE) as *mut libc::c_void,
            ss_flags: 0,
            ss_size: STACK_SIZE,
        };
        // SAFETY: the block lives as long as the thread; the selector is in it.
        unsafe {
            (*self.0).program.tid = crate::thread::tid();
            (*self.0).host_fs = rdfsbase();
            if libc::sigaltstack(&raw const stack, ptr::null_mut()) != 0 {
                return Err(io::Error::last_os_error());
            }
            // The way back from handlers is never the program's.
            let restorer = restorer();
            let selector = &raw const (*self.0).selector;
            if libc::prctl(
                PR_SET_SYSCALL_USER_DISPATCH,
                PR_SYS_DISPATCH_ON,
                restorer,
                16u64,
                selector,
            ) != 0
            {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(())
    }

    fn block(&self) -> &Block {
        // SAFETY: ours; the kernel and handlers write to it only while this thread is
        // in `enter` or inside.
        unsafe { &*self.0 }
    }

    /// The program's registers.
    ///
    /// # Safety
    /// The task exists, and is not inside the kernel.
    #[allow(clippy::mut_from_ref)]
    pub unsafe fn regs(&self) -> &mut abi::PtRegs {
        // SAFETY: the kernel has written it; as the caller promises.
        unsafe { &mut *(self.block().program.regs as *mut abi::PtRegs) }
    }

    /// Go out with the registers that are there, until the program comes in.
    ///
    /// # Safety
    /// As for [`Self::regs`]; the block is this thread's.
    pub unsafe fn enter(&self) -> Reason {
        self.block().reason.store(CALLED, Ordering::Relaxed);
        // SAFETY: comes back as from any function, with all registers it must keep.
        unsafe { tane_run_enter(self.0) };
        match self.block().reason.load(Ordering::Relaxed) {
            CALL => Reason::Call,
            // SAFETY: written by a handler of this thread.
            TRAP => Reason::Trap(unsafe { (*self.0).trap }),
            _ => {
                self.block().called.store(0, Ordering::Relaxed);
                Reason::Called
            }
        }
    }

    /// Have the next [`Self::enter`] ask for signals at once.
    pub fn call_in(&self) {
        self.block().called.store(1, Ordering::Relaxed);
    }
}

/// The same from any thread, for the block that this is part of.
///
/// # Safety
/// The block exists.
pub unsafe fn call_in(program: *const abi::Program) {
    // SAFETY: as the caller promises; the flag is an atomic, and nobody writes to what
    // else the reference would cover.
    unsafe {
        let block = program.byte_sub(offset_of!(Block, program)).cast::<Block>();
        (*block).called.store(1, Ordering::SeqCst);
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        const PR_SET_SYSCALL_USER_DISPATCH: i32 = 59;
        // SAFETY: the thread's own state, if it is this one's; nobody uses the block
        // any more.
        unsafe {
            if (*self.0).program.tid == crate::thread::tid() {
                libc::prctl(PR_SET_SYSCALL_USER_DISPATCH, 0, 0, 0, 0);
                let mut none: libc::stack_t = MaybeUninit::zeroed().assume_init();
                none.ss_flags = libc::SS_DISABLE;
                libc::sigaltstack(&raw const none, ptr::null_mut());
            }
            libc::munmap(self.0.cast(), MAPPED);
        }
    }
}

/// The features that are saved, and where XSAVE's standard format ends with them.
fn vector_state() -> (u64, u32) {
    use std::arch::x86_64::{__cpuid_count, _xgetbv};
    #[target_feature(enable = "xsave")]
    unsafe fn xcr0() -> u64 {
        // SAFETY: the caller has seen that the instruction is there.
        unsafe { _xgetbv(0) }
    }
    // SAFETY: `possible` has looked for XSAVE.
    let features = unsafe { xcr0() } & FEATURES;
    let mut size = 576;
    for component in 2..8 {
        if features >> component & 1 != 0 {
            let leaf = __cpuid_count(0xd, component);
            size = size.max(leaf.ebx + leaf.eax);
        }
    }
    assert!(size as usize <= XSTATE_SIZE, "XSAVE's area is larger");
    (features, size)
}

/// Whether the processor and the host's kernel can do it at all.
pub fn possible() -> bool {
    cpu::has_fsgsbase() && std::is_x86_feature_detected!("xsave")
}

fn rdfsbase() -> u64 {
    let fs;
    // SAFETY: reads a register; `possible` has looked for the instruction.
    unsafe {
        std::arch::asm!("rdfsbase {}", out(reg) fs, options(nomem, nostack, preserves_flags));
    }
    fs
}

/// Where the host's kernel returns to from a handler: libc's.
fn restorer() -> u64 {
    /// The host kernel's own structure.
    #[repr(C)]
    struct Action {
        handler: u64,
        flags: u64,
        restorer: u64,
        mask: u64,
    }
    let mut now = Action {
        handler: 0,
        flags: 0,
        restorer: 0,
        mask: 0,
    };
    // SAFETY: fills a structure of ours.
    unsafe { libc::syscall(libc::SYS_rt_sigaction, libc::SIGSYS, 0, &raw mut now, 8) };
    now.restorer
}

/// The block of the thread that a handler interrupted, if it runs a program.
///
/// # Safety
/// What the host gave to the handler.
unsafe fn of(context: *const libc::c_void) -> Option<*mut Block> {
    // SAFETY: the signal stack of a thread is mapped while it is in use.
    unsafe {
        let stack = &(*context.cast::<libc::ucontext_t>()).uc_stack;
        if stack.ss_size != STACK_SIZE {
            return None;
        }
        let block = (stack.ss_sp as usize - BLOCK_SIZE) as *mut Block;
        ((*block).magic == MAGIC).then_some(block)
    }
}

/// In a handler: send the thread to the end of `enter`.
fn divert(block: *mut Block, regs: &mut [i64; 23], to: unsafe extern "sysv64" fn(), why: u8) {
    // SAFETY: of this thread.
    unsafe {
        (*block).selector.store(ALLOW, Ordering::Relaxed);
        (*block).reason.store(why, Ordering::Relaxed);
        regs[libc::REG_RSP as usize] = (*block).host_sp as i64;
    }
    regs[libc::REG_RDI as usize] = block as i64;
    regs[libc::REG_RIP as usize] = to as usize as i64;
    // As at the start of any function.
    regs[libc::REG_EFL as usize] = 0x202;
}

fn is_entering(regs: &[i64; 23]) -> bool {
    let (start, end) = (
        tane_run_entering as *const () as i64,
        tane_run_left as *const () as i64,
    );
    (start..end).contains(&regs[libc::REG_RIP as usize])
}

/// Write the program's registers to where its task has them.
fn save(block: *mut Block, regs: &[i64; 23], call: u64) {
    let get = |reg: i32| regs[reg as usize] as u64;
    // SAFETY: the task is not inside the kernel: its thread is in the program.
    let to = unsafe { &mut *((*block).program.regs as *mut abi::PtRegs) };
    to.r15 = get(libc::REG_R15);
    to.r14 = get(libc::REG_R14);
    to.r13 = get(libc::REG_R13);
    to.r12 = get(libc::REG_R12);
    to.rbp = get(libc::REG_RBP);
    to.rbx = get(libc::REG_RBX);
    to.r11 = get(libc::REG_R11);
    to.r10 = get(libc::REG_R10);
    to.r9 = get(libc::REG_R9);
    to.r8 = get(libc::REG_R8);
    to.rax = get(libc::REG_RAX);
    to.rcx = get(libc::REG_RCX);
    to.rdx = get(libc::REG_RDX);
    to.rsi = get(libc::REG_RSI);
    to.rdi = get(libc::REG_RDI);
    to.orig_rax = call;
    to.rip = get(libc::REG_RIP);
    to.eflags = get(libc::REG_EFL);
    to.rsp = get(libc::REG_RSP);
}

fn is_in_program(block: *mut Block) -> bool {
    // SAFETY: of this thread.
    unsafe { (*block).selector.load(Ordering::Relaxed) == BLOCK }
}

/// SIGSYS: the program asked for a system call. `false`: it was somebody else's.
///
/// # Safety
/// In a handler, with what the host gave it.
pub unsafe fn call(info: *const libc::siginfo_t, context: *mut libc::c_void) -> bool {
    const SYS_USER_DISPATCH: i32 = 2;
    const X86_64: u32 = 0xc000_003e;
    // SAFETY: as the caller promises; siginfo's words for SIGSYS.
    unsafe {
        let Some(block) = of(context) else {
            return false;
        };
        if (*info).si_code != SYS_USER_DISPATCH {
            return false;
        }
        let regs = &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs;
        let arch = info.cast::<u32>().add(7).read();
        // No such call: 32-bit ones.
        let nr = match arch {
            X86_64 => u64::from(regs[libc::REG_RAX as usize] as u32),
            _ => u64::from(u32::MAX),
        };
        save(block, regs, nr);
        divert(block, regs, tane_run_left, CALL);
    }
    true
}

/// A fault: the program's, or of loading its registers.
///
/// # Safety
/// In a handler, with what the host gave it.
pub unsafe fn trap(signal: i32, info: *const libc::siginfo_t, context: *mut libc::c_void) -> bool {
    // SAFETY: as the caller promises.
    unsafe {
        let Some(block) = of(context) else {
            return false;
        };
        let regs = &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs;
        let entering = is_entering(regs);
        if !entering && !is_in_program(block) {
            return false;
        }
        let code = (*info).si_code;
        if code <= 0 {
            // Somebody sent it: to this process, not to the program.
            return true;
        }
        (*block).trap = Trap {
            address: (*info).si_addr() as u64,
            error: regs[libc::REG_ERR as usize] as u64,
            vector: regs[libc::REG_TRAPNO as usize] as u64,
            signal,
            code,
        };
        if entering {
            (*((*block).program.regs as *mut abi::PtRegs)).orig_rax = u64::MAX;
            divert(block, regs, tane_run_back, TRAP);
        } else {
            save(block, regs, u64::MAX);
            divert(block, regs, tane_run_left, TRAP);
        }
    }
    true
}

/// The kernel has something for the program.
///
/// # Safety
/// In a handler, with what the host gave it.
pub unsafe fn called(context: *mut libc::c_void) {
    // SAFETY: as the caller promises.
    unsafe {
        let Some(block) = of(context) else { return };
        let regs = &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs;
        if is_entering(regs) {
            divert(block, regs, tane_run_back, CALLED);
        } else if is_in_program(block) {
            save(block, regs, u64::MAX);
            divert(block, regs, tane_run_left, CALLED);
        } else {
            (*block).called.store(1, Ordering::Relaxed);
        }
    }
}
