//! Who is shown the system calls of programs, one by one.

use crate::intercept::ProgramCode;
use crate::kernel::Kernel;
use crate::run;
use crate::run_carriers::Asking;
use std::sync::atomic::Ordering;
use std::sync::Arc;

/// A system call of a program that is about to be made.
pub struct ProgramCall<'a> {
    /// The thread's id inside.
    pub thread: u32,
    /// x86-64's; -1 for what is none.
    pub number: i64,
    /// Its arguments.
    pub args: [u64; 6],
    pub(crate) program: &'a ProgramCode<'a>,
}

impl ProgramCall<'_> {
    /// Read the program's memory; how many bytes there were.
    pub fn read(&self, address: u64, bytes: &mut [u8]) -> usize {
        self.program.read(address, bytes).unwrap_or(0)
    }
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallEnd {
    /// With this result, or a negated errno.
    Returned(i64),
    /// The program goes on elsewhere: it executes another one, a signal's handler is over,
    /// or came in between and the call is made again. Or it goes on no more.
    Elsewhere,
}

/// Is shown system calls. Called on host threads of programs, on several at a time.
pub trait ProgramTracer: Send + Sync {
    /// Has `make` make this call, once, and is told how it ended.
    fn call(&self, call: &ProgramCall, make: &mut dyn FnMut() -> CallEnd);
}

impl Kernel {
    /// Show this the system calls of programs, from now on. Once: the first one stays. Each
    /// call then takes the long way.
    pub fn trace_programs(&self, tracer: Arc<dyn ProgramTracer>) {
        self.inner().tracer.set(tracer).ok();
    }
}

/// A call that this tracer has made; the thread stays with it. `rip`: where the program was.
pub(crate) fn traced(
    asking: &Asking,
    tracer: &dyn ProgramTracer,
    number: i64,
    args: [u64; 6],
    rip: u64,
) -> i64 {
    let program = &ProgramCode::new(asking.kernel, asking.caller);
    let thread = asking.guest.thread();
    let call = ProgramCall {
        thread,
        number,
        args,
        program,
    };
    let mut answer = None;
    let mut make = || {
        let value = *answer.get_or_insert_with(|| run::counted(asking, number, args));
        if asking.caller.slot.task().load(Ordering::Acquire) == 0 {
            return CallEnd::Elsewhere;
        }
        // SAFETY: the task is there, waiting for this thread.
        let regs = unsafe { asking.guest.regs() };
        match regs.rip == rip {
            true => CallEnd::Returned(value),
            false => behind_handler(program, regs.rsp, rip),
        }
    };
    tracer.call(&call, &mut make);
    answer.unwrap_or(-i64::from(libc::ENOSYS))
}

/// The program is at the beginning of a signal's handler: what it finds when that returns
/// is in the frame at its stack pointer (x86-64's `struct rt_sigframe`), if the call is
/// over and is not going to be made again.
fn behind_handler(program: &ProgramCode, rsp: u64, rip: u64) -> CallEnd {
    const RAX: usize = 152;
    const RIP: usize = 176;
    let mut frame = [0; RIP + 8];
    if program.read(rsp, &mut frame).ok() != Some(frame.len()) {
        return CallEnd::Elsewhere;
    }
    let word = |at: usize| frame[at..at + 8].try_into().map(u64::from_le_bytes);
    match (word(RIP), word(RAX)) {
        (Ok(saved), Ok(result)) if saved == rip => CallEnd::Returned(result as i64),
        _ => CallEnd::Elsewhere,
    }
}
