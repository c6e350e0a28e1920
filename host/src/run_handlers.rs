//! What signal handlers do to a thread that runs a program: they write the program's
//! registers to where its task has them, say why it comes in, and send it to the end of
//! [`Owned::enter`](crate::run_block::Owned::enter).

use crate::abi;
use crate::host_vdso;
use crate::run_block::{
    Block, Trap, ALLOW, BLOCK, BLOCK_AT, CALL, CALLED, MAGIC, STACK_SIZE, TRAP,
};
use crate::run_enter::{is_entering, tane_run_back, tane_run_left};
use crate::run_gate::{self, tane_run_gate_out, Way};
use std::sync::atomic::Ordering;

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
        let block = (stack.ss_sp as usize + BLOCK_AT) as *mut Block;
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

/// In a handler: what the gate has loaded since `tane_run_gate_out` it loads once more.
fn go_out_again(block: *mut Block, regs: &mut [i64; 23]) {
    // SAFETY: of this thread.
    let (sp, theirs) = unsafe { ((*block).host_sp, (*(*block).guest).program.regs) };
    regs[libc::REG_RSP as usize] = sp as i64;
    regs[libc::REG_RDI as usize] = block as i64;
    regs[libc::REG_RSI as usize] = theirs as i64;
    regs[libc::REG_RIP as usize] = tane_run_gate_out as *const () as i64;
    regs[libc::REG_EFL as usize] = 0x202;
}

/// Write the program's registers to where its task has them.
fn save(block: *mut Block, regs: &[i64; 23], call: u64) {
    let get = |reg: i32| regs[reg as usize] as u64;
    // SAFETY: the task is not inside the kernel: its thread is in the program.
    let to = unsafe { &mut *((*(*block).guest).program.regs as *mut abi::PtRegs) };
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
        // Who jumps there with another number makes a call of its own.
        if host_vdso::has(regs[libc::REG_RIP as usize] as u64)
            && regs[libc::REG_RAX as usize] == libc::SYS_clock_gettime
        {
            call_host(block, regs);
            return true;
        }
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

/// In a handler: the call of the host's vDSO, which tells a program the time, is the
/// host's. It goes on with the answer.
fn call_host(block: *mut Block, regs: &mut [i64; 23]) {
    let [first, second] = [libc::REG_RDI, libc::REG_RSI].map(|reg| regs[reg as usize]);
    // SAFETY: of this thread; that code's own call, which asks for the time.
    unsafe {
        let answer: i64;
        (*block).selector.store(ALLOW, Ordering::Relaxed);
        std::arch::asm!(
            "syscall",
            inlateout("rax") libc::SYS_clock_gettime => answer,
            in("rdi") first,
            in("rsi") second,
            lateout("rcx") _,
            lateout("r11") _,
        );
        (*block).selector.store(BLOCK, Ordering::Relaxed);
        regs[libc::REG_RAX as usize] = answer;
    }
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
        // Somebody sent it: to this process, not to the program. Or the program has set
        // TF, and the gate's instructions are not for it to step through.
        if code <= 0 || (signal == libc::SIGTRAP && run_gate::way(regs).is_some()) {
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
            (*((*(*block).guest).program.regs as *mut abi::PtRegs)).orig_rax = u64::MAX;
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
            return;
        }
        let way = run_gate::way(regs);
        if is_in_program(block) && way.is_none() {
            save(block, regs, u64::MAX);
            divert(block, regs, tane_run_left, CALLED);
            return;
        }
        // Who sent it has said so before: this one may have gone on with another.
        if is_in_program(block) && matches!(way, Some(Way::Out)) {
            go_out_again(block, regs);
        }
    }
}
