//! Programs: host threads that run Linux processes' own code, and come in with its
//! system calls, faults and signals. Each thread of a program is one of the host's. The
//! addresses show one process at a time, and the kernel says whose threads may run.

use crate::abi::{self, EXIT_RETURNED};
use crate::call::{Caller, Wait};
use crate::cpu::Cpu;
use crate::inner::Inner;
use crate::intercept::ProgramCode;
use crate::kernel::Kernel;
use crate::run_block::{self, Owned, Reason, Trap};
use crate::run_counts::ProgramCounts;
use crate::thread;
use crate::thread_slot::ThreadSlot;
use std::fmt;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{sync_channel, SyncSender};
use std::sync::Arc;
use std::time::Duration;

/// Why there is no process for a program.
#[derive(Debug)]
pub enum SpawnError {
    /// The kernel was booted without room for programs (`Builder::programs`).
    NoRoom,
    /// The processor or the host's kernel lacks something; what.
    Host(&'static str),
    /// The kernel image runs no programs.
    Image,
    /// Another program is running, and on several CPUs there is one at a time.
    Busy,
    /// The kernel refused, with an errno.
    Refused(i32),
    /// The host has no thread or memory.
    Io(io::Error),
}

impl fmt::Display for SpawnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRoom => f.write_str("the kernel was started without room for programs"),
            Self::Host(what) => write!(f, "this host cannot run programs: {what}"),
            Self::Image => f.write_str("this kernel image runs no programs: it takes `run`"),
            Self::Busy => f.write_str(
                "another program is running in this kernel, and on several CPUs there is one at a time",
            ),
            Self::Refused(errno) => io::Error::from_raw_os_error(*errno).fmt(f),
            Self::Io(error) => write!(f, "the host: {error}"),
        }
    }
}

impl std::error::Error for SpawnError {}

/// The stack of a program's host thread: host operations run on it.
const STACK: usize = 512 << 10;

impl Kernel {
    /// Make a process for a program, on a host thread of its own. `prepare` runs on
    /// that thread, whose calls are the new process's: it has a copy of process 1's
    /// descriptors and directories, and shares its memory. It ends with an execve(2),
    /// whose result it returns; after 0 the thread runs the program until it ends.
    ///
    /// Returns the process's id and what `prepare` returned. The process is a child of
    /// process 1 in either case: wait4(2) for it.
    pub fn spawn(
        &self,
        prepare: impl FnOnce(&Kernel) -> i64 + Send + 'static,
    ) -> Result<(i32, i64), SpawnError> {
        let inner = self.inner();
        if inner.memory.program.is_empty() {
            return Err(SpawnError::NoRoom);
        }
        if !run_block::possible() {
            return Err(SpawnError::Host(
                "it lacks XSAVE, or rdfsbase (Linux 5.9 and processors of 2013)",
            ));
        }
        let (tell, told) = sync_channel(1);
        let kernel = self.clone();
        start(move || {
            let answer = first(&kernel, prepare, &tell);
            if let Err(error) = answer {
                tell.send(Err(error)).ok();
            }
        })
        .map_err(SpawnError::Io)?;
        told.recv().unwrap_or(Err(SpawnError::Refused(libc::EIO)))
    }
}

impl Kernel {
    /// From now on count the system calls of programs, and their time.
    pub fn count_programs(&self) {
        self.inner().counts.begin();
    }

    /// What programs have asked for; calls since [`Self::count_programs`].
    pub fn program_counts(&self) -> ProgramCounts {
        self.inner().counts.all()
    }
}

fn start(run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    std::thread::Builder::new()
        .name(String::from("tane-program"))
        .stack_size(STACK)
        .spawn(run)
        .map(drop)
}

type Told = SyncSender<Result<(i32, i64), SpawnError>>;

/// The first thread of a process.
fn first(
    kernel: &Kernel,
    prepare: impl FnOnce(&Kernel) -> i64,
    tell: &Told,
) -> Result<(), SpawnError> {
    thread::block_signals();
    let inner = kernel.inner();
    let block = Owned::new(inner).map_err(SpawnError::Io)?;
    block
        .install()
        .map_err(|_| SpawnError::Host("its kernel has no syscall user dispatch (Linux 5.11)"))?;
    let (pid, caller) = thread::attach_process(inner, block.address()).map_err(|e| match e {
        libc::ENOSYS => SpawnError::Image,
        libc::EBUSY => SpawnError::Busy,
        errno => SpawnError::Refused(errno),
    })?;
    let answer = prepare(kernel);
    tell.send(Ok((pid, answer))).ok();
    if answer == 0 {
        run(inner, caller, &block);
    }
    thread::forget(inner);
    Ok(())
}

/// Run the program until its task has ended.
fn run(kernel: &Arc<Inner>, caller: Caller, block: &Owned) {
    let slot = caller.slot;
    let gone = || slot.task().load(Ordering::Acquire) == 0 || kernel.is_dead();
    let ask = |nr, args: [u64; 6]| kernel.request(caller, nr, &args, Wait::Inside);
    let code = ProgramCode::new(kernel, caller);
    while !gone() {
        block.follow(kernel, slot);
        // Time that stands still goes on at the end of calls.
        let slow = kernel.counts.are_kept() || kernel.clock.is_still();
        // SAFETY: the task is there, waiting for this thread.
        let (reason, regs) = unsafe { (block.enter(slot, slow), block.regs()) };
        if kernel.is_dead() {
            return;
        }
        let answer = match reason {
            Reason::Call => {
                kernel.counts.by_signal();
                let behind = regs.rip;
                let answer = call(kernel, regs);
                if let Some(interception) = kernel.interception.get().filter(|_| !gone()) {
                    interception.trapped(&code, behind);
                }
                answer
            }
            Reason::CallAtGate => call(kernel, regs),
            Reason::Disturbed(exit) => {
                match kernel.after_gate(caller, block.shown(), exit) {
                    // As it looked before the vector registers were there.
                    answer if !gone() && is_interrupted(answer) => {
                        regs.rax = answer as u64;
                        ask(abi::NR_SIGNALS, [0; 6])
                    }
                    answer => answer,
                }
            }
            Reason::Ended => {
                kernel.counts.signal();
                ask(abi::NR_SIGNALS, [0; 6])
            }
            Reason::Trap(trap) => {
                if let Some(on) = resume(kernel, &code, &trap, regs.rip) {
                    regs.rip = on;
                    continue;
                }
                kernel.counts.fault();
                in_its_own_code(kernel, &code, regs);
                ask(
                    abi::NR_TRAP,
                    [
                        trap.address,
                        trap.error,
                        trap.vector,
                        trap.signal as u64,
                        i64::from(trap.code) as u64,
                        0,
                    ],
                )
            }
            Reason::Called => {
                kernel.counts.signal();
                in_its_own_code(kernel, &code, regs);
                regs.orig_rax = u64::MAX;
                ask(abi::NR_SIGNALS, [0; 6])
            }
        };
        if gone() {
            return;
        }
        // SAFETY: as above; the answer may be to other registers than before.
        unsafe { block.regs() }.rax = answer as u64;
    }
}

fn call(kernel: &Arc<Inner>, regs: &abi::PtRegs) -> i64 {
    let args = [regs.rdi, regs.rsi, regs.rdx, regs.r10, regs.r8, regs.r9];
    let number = call_number(regs.orig_rax);
    kernel.counts.call(number, || kernel.call(number, args))
}

/// Linux's ERESTARTSYS and the like: no result, but what is done when signals are.
fn is_interrupted(answer: i64) -> bool {
    (-516..=-512).contains(&answer)
}

/// Where a program goes on that met a trap of who rewrites its code.
fn resume(kernel: &Inner, code: &ProgramCode, trap: &Trap, rip: u64) -> Option<u64> {
    const BREAKPOINT: u64 = 3;
    let interception = kernel.interception.get()?;
    let is_one = trap.signal == libc::SIGTRAP && trap.vector == BREAKPOINT;
    is_one.then(|| interception.resume(code, rip - 1)).flatten()
}

/// What signals show of the program is where it would be had nobody rewritten it.
fn in_its_own_code(kernel: &Inner, code: &ProgramCode, regs: &mut abi::PtRegs) {
    let interception = kernel.interception.get();
    if let Some(original) = interception.and_then(|it| it.original(code, regs.rip)) {
        regs.rip = original;
    }
}

impl Inner {
    /// The end of a call by the gate that was not over when the kernel came back.
    fn after_gate(&self, caller: Caller, cpu: Cpu, exit: abi::Exit) -> i64 {
        if exit.reason == EXIT_RETURNED {
            cpu.leave_disturbed();
            self.do_errands(cpu, caller.tid);
            return exit.ret;
        }
        cpu.unbias(caller.slot);
        self.finish(caller, cpu, exit.reason)
    }
}

/// A number that the kernel takes for a system call, or for none: not one of its
/// host's requests.
fn call_number(nr: u64) -> i64 {
    const MOST: u64 = 0xffff;
    match nr {
        0..=MOST => nr as i64,
        _ => -1,
    }
}

/// The host operation `new_thread`: another thread of a program, or of its child.
pub fn new_thread(kernel: &Inner) -> Option<ThreadSlot> {
    let kernel = crate::inner::find(kernel.id)?;
    let block = Owned::new(&kernel).ok()?;
    let slot = kernel.area.take_slot(kernel.process())?;
    slot.program().store(block.address(), Ordering::Relaxed);
    // SAFETY: the slot is nobody's yet.
    unsafe { slot.ask(abi::NR_BOOT, &[0; 6]) };
    slot.state().store(abi::THREAD_POSTED, Ordering::Release);
    let (theirs, address) = (Arc::clone(&kernel), slot.address());
    let started = start(move || {
        thread::block_signals();
        block
            .install()
            .expect("syscall user dispatch, which another thread has");
        // SAFETY: the slot taken above, of a kernel that this thread keeps.
        let caller = thread::adopt(&theirs, unsafe { ThreadSlot::at(address) });
        // Signals that came before this thread had a name.
        block.call_in();
        theirs.await_answer(caller);
        run(&theirs, caller, &block);
        thread::forget(&theirs);
    });
    if started.is_err() {
        kernel.area.give_slot(slot);
        return None;
    }
    Some(slot)
}

/// The host operation `call_in`.
pub fn call_in(slot: ThreadSlot) {
    let program = slot.program().load(Ordering::Relaxed) as *const abi::Program;
    if program.is_null() {
        return;
    }
    // SAFETY: a program's thread has the block as long as its task.
    let tid = unsafe {
        // First: a signal that finds the thread in the kernel, for others' tasks, is one
        // to the CPU there, and tells the thread nothing.
        run_block::call_in(program);
        (&raw const (*program).tid).read_volatile()
    };
    if tid != 0 {
        crate::signals::inject(std::process::id(), thread::Tid(tid.into()));
    }
}

/// No thread is in a program's code after this, until the kernel has told it anew that it
/// may. Waits for the host to run those that are.
pub fn stop_all(kernel: &Inner) {
    let program = |slot: ThreadSlot| slot.program().load(Ordering::Relaxed) as *const _;
    kernel.area.with_programs(|slot| {
        // SAFETY: no slot of a program's thread is given back meanwhile.
        unsafe { run_block::call_in(program(slot)) };
        // SAFETY: as above.
        if unsafe { run_block::is_out(program(slot)) } {
            call_in(slot);
        }
    });
    kernel.area.with_programs(|slot| {
        for tries in 0u32.. {
            // SAFETY: as above.
            if !unsafe { run_block::is_out(program(slot)) } {
                return;
            }
            wait_a_little(tries);
        }
    });
}

/// For a thread that has a signal to take: soon on another processor, on this one when it
/// has it.
fn wait_a_little(tries: u32) {
    match tries {
        0..500 => std::hint::spin_loop(),
        500..600 => std::thread::yield_now(),
        _ => std::thread::sleep(Duration::from_micros(50)),
    }
}

/// The kernel has ended: so do the threads that only compute, and would not learn of it.
pub fn end_all(kernel: &Inner) {
    kernel.area.with_programs(call_in);
}
