//! Where a call that came by the gate goes on.
//!
//! A rewritten place may be longer than `syscall`: what its jump lies over was moved into the
//! trampoline, and behind the place's first bytes lies a trap, for who comes there by another
//! way (`run/rewrite`). The kernel knows the place only as the program's own code has it. So
//! whoever goes out with that address goes on in the trampoline, where the call came from: by
//! the trap it would be a signal for each call, and a look at the program's memory, which
//! takes the CPU from the thread.

use crate::abi;

/// The two addresses of one call.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Back {
    /// As the program's own code has it.
    behind: u64,
    /// In the trampoline.
    resume: u64,
}

impl Back {
    /// No address of a program's.
    const NONE: Self = Self {
        behind: u64::MAX,
        resume: u64::MAX,
    };

    /// That of the call with these registers, which came by the gate and said where it goes on.
    pub fn of(regs: &abi::PtRegs, resume: u64) -> Self {
        // They go on elsewhere, and the second in other memory.
        let leaves = [libc::SYS_rt_sigreturn, libc::SYS_execve, libc::SYS_execveat];
        if leaves.contains(&(regs.orig_rax as i64)) {
            return Self::NONE;
        }
        let behind = regs.rip;
        Self { behind, resume }
    }

    /// The program is about to go on: no handler of its, and no debugger, has sent it
    /// elsewhere.
    pub fn take(self, regs: &mut abi::PtRegs) {
        if regs.rip == self.behind {
            regs.rip = self.resume;
        }
    }

    /// It did not go on.
    pub fn give_back(self, regs: &mut abi::PtRegs) {
        if regs.rip == self.resume {
            regs.rip = self.behind;
        }
    }
}

impl Default for Back {
    fn default() -> Self {
        Self::NONE
    }
}
