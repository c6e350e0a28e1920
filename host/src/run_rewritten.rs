//! Traps in code of programs that was rewritten (`intercept.rs`): what of them is a matter
//! of the rewriting alone, and what the program's kernel is to see instead of it.

use crate::abi;
use crate::inner::Inner;
use crate::intercept::ProgramCode;
use crate::run_block::Trap;

/// x86's exceptions.
const DEBUG: u64 = 1;
const BREAKPOINT: u64 = 3;

/// Whether the program just goes on: it met a trap of who rewrote its code, or the first
/// steps of a trampoline, which are still the instruction at `from` that it is for.
pub fn went_on(
    kernel: &Inner,
    code: &ProgramCode,
    trap: &Trap,
    from: u64,
    regs: &mut abi::PtRegs,
) -> bool {
    let Some(interception) = kernel.interception.get() else {
        return false;
    };
    if trap.signal != libc::SIGTRAP {
        return false;
    }
    match trap.vector {
        BREAKPOINT => match interception.resume(code, regs.rip - 1) {
            Some(on) => {
                regs.rip = on;
                true
            }
            None => false,
        },
        DEBUG => {
            let own = interception.original(code, from).unwrap_or(from);
            interception.original(code, regs.rip) == Some(own)
        }
        _ => false,
    }
}

/// What signals show of the program is where it would be had nobody rewritten it.
pub fn show_own_code(kernel: &Inner, code: &ProgramCode, regs: &mut abi::PtRegs) {
    let from = regs.rip;
    let interception = kernel.interception.get();
    let Some(original) = interception.and_then(|it| it.original(code, from)) else {
        return;
    };
    // To look at the program's memory is a request, at whose end the kernel may have sent
    // the program to a handler.
    // SAFETY: of this thread's guest.
    let now = unsafe { (&raw const regs.rip).read_volatile() };
    if now == from {
        regs.rip = original;
    }
}
