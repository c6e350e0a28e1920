//! Programs: host threads that run Linux processes' own code, and come in with its
//! system calls, faults and signals. Each thread of a program is one of the host's. The
//! addresses show one process at a time, and the kernel says whose threads may run.

use crate::abi::{self, EXIT_RETURNED};
use crate::call::Wait;
use crate::cpu::Cpu;
use crate::inner::Inner;
use crate::intercept::ProgramCode;
use crate::kernel::Kernel;
use crate::run_back::Back;
use crate::run_block::{self, Owned, Reason};
use crate::run_carriers::{self, Asking, Turn};
use crate::run_counts::ProgramCounts;
use crate::run_guest::{After, Guest};
use crate::run_rewritten;
use crate::run_trace::traced;
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
            Self::Image => f.write_str("this kernel image runs no programs: `default` does"),
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
    let no_memory = || SpawnError::Io(io::ErrorKind::OutOfMemory.into());
    let guest = Guest::new().ok_or_else(no_memory)?;
    inner.carriers.add_guest();
    let attached = thread::attach_process(inner, guest.address());
    let (pid, caller) = attached.map_err(|errno| {
        // SAFETY: the slot that knew it is nobody's.
        unsafe { guest.free() };
        inner.carriers.drop_guest();
        match errno {
            libc::ENOSYS => SpawnError::Image,
            errno => SpawnError::Refused(errno),
        }
    })?;
    guest.carrier().store(thread::tid(), Ordering::SeqCst);
    let answer = prepare(kernel);
    tell.send(Ok((pid, answer))).ok();
    if answer == 0 {
        let turn = Turn {
            caller,
            guest,
            answer: None,
        };
        run_carriers::carry(inner, &block, Some(turn));
    } else {
        thread::forget(inner);
        // SAFETY: as above.
        unsafe { guest.free() };
        inner.carriers.drop_guest();
    }
    Ok(())
}

/// Another host thread that runs programs.
pub fn start_carrier(kernel: Arc<Inner>) -> io::Result<()> {
    start(move || {
        thread::block_signals();
        let block = Owned::new(&kernel).and_then(|block| block.install().map(|()| block));
        run_carriers::has_come(&kernel);
        if let Ok(block) = block {
            run_carriers::carry(&kernel, &block, None);
        }
    })
}

/// Run a guest until it is parked or its task has ended.
pub fn go_on(kernel: &Arc<Inner>, block: &Owned, turn: Turn) {
    let Turn {
        caller,
        guest,
        mut answer,
    } = turn;
    let slot = caller.slot;
    let code = ProgramCode::new(kernel, caller);
    let asking = |after| Asking {
        kernel,
        caller,
        guest,
        after,
    };
    // Of the call that has just ended, until the program goes on.
    let mut back = Back::default();
    loop {
        if slot.task().load(Ordering::Acquire) == 0 || kernel.is_dead() {
            thread::part(kernel);
            run_carriers::end(kernel, slot);
            return;
        }
        // SAFETY: the task is there, waiting for this thread.
        let regs = unsafe { guest.regs() };
        if let Some((after, value)) = answer.take() {
            regs.rax = value as u64;
            match after {
                // As it looked before the vector registers were there.
                After::AtGate(back) if is_interrupted(value) => {
                    let after = After::ByGate(back);
                    let signals = asking(after).request(abi::NR_SIGNALS, &[0; 6]);
                    let Some(value) = signals else { return };
                    answer = Some((after, value));
                    continue;
                }
                After::ByGate(to) | After::AtGate(to) => back = to,
                After::Trapped(behind) => {
                    let interception = kernel.interception.get();
                    // A debugger inside reads code and writes it back.
                    if let Some(interception) = interception.filter(|_| !guest.is_traced()) {
                        // What it asks for is no call of the program's, and what signals
                        // that come meanwhile show is the end of this one.
                        regs.orig_rax = u64::MAX;
                        interception.trapped(&code, behind);
                    }
                }
                After::Rax => {}
            }
            continue;
        }
        if kernel.carriers.has_ready() {
            kernel.provide_carriers();
        }
        block.follow(kernel, slot);
        // Time that stands still goes on at the end of calls.
        let slow =
            kernel.counts.are_kept() || kernel.clock.is_still() || kernel.tracer.get().is_some();
        back.take(regs);
        let (begun, from) = (processor_time(), regs.rip);
        // SAFETY: as above.
        let reason = unsafe { block.enter(guest, slot, slow || guest.is_traced()) };
        guest.has_run(processor_time() - begun);
        if kernel.is_dead() {
            continue;
        }
        let came_from = std::mem::take(&mut back);
        let (after, value) = match reason {
            Reason::Call => {
                kernel.counts.by_signal();
                let after = After::Trapped(regs.rip);
                (after, call(&asking(after), regs, slow))
            }
            Reason::CallAtGate => {
                let after = After::ByGate(Back::of(regs, block.resume()));
                (after, call(&asking(after), regs, slow))
            }
            Reason::Disturbed(exit) => {
                let after = After::AtGate(Back::of(regs, block.resume()));
                (after, after_gate(&asking(after), block.shown(), exit))
            }
            Reason::Ended => {
                kernel.counts.signal();
                let after = After::ByGate(Back::of(regs, block.resume()));
                (after, asking(after).request(abi::NR_SIGNALS, &[0; 6]))
            }
            Reason::Trap(trap) => {
                if run_rewritten::went_on(kernel, &code, &trap, from, regs) {
                    kernel.counts.rewriting_trap();
                    continue;
                }
                kernel.counts.fault();
                run_rewritten::show_own_code(kernel, &code, regs);
                let args = [
                    trap.address,
                    trap.error,
                    trap.vector,
                    trap.signal as u64,
                    i64::from(trap.code) as u64,
                    0,
                ];
                (After::Rax, asking(After::Rax).request(abi::NR_TRAP, &args))
            }
            Reason::Called => {
                kernel.counts.signal();
                came_from.give_back(regs);
                run_rewritten::show_own_code(kernel, &code, regs);
                regs.orig_rax = u64::MAX;
                let signals = asking(After::Rax).request(abi::NR_SIGNALS, &[0; 6]);
                (After::Rax, signals)
            }
        };
        // Parked: somebody else's, if not gone.
        let Some(value) = value else { return };
        answer = Some((after, value));
    }
}

/// `stays`: this thread waits for the answer, however long.
fn call(asking: &Asking, regs: &abi::PtRegs, stays: bool) -> Option<i64> {
    let args = [regs.rdi, regs.rsi, regs.rdx, regs.r10, regs.r8, regs.r9];
    let number = call_number(regs.orig_rax);
    let kernel = asking.kernel;
    if let Some(tracer) = kernel.tracer.get() {
        return Some(traced(asking, &**tracer, number, args, regs.rip));
    }
    if kernel.counts.are_kept() {
        return Some(counted(asking, number, args));
    }
    if asking.guest.is_traced() {
        return asking.request(number, &args);
    }
    match stays {
        true => Some(kernel.call(number, args)),
        false => asking.call(number, &args),
    }
}

/// This thread stays with it.
pub fn counted(asking: &Asking, number: i64, args: [u64; 6]) -> i64 {
    let kernel = asking.kernel;
    let make = || match asking.guest.is_traced() {
        true => kernel.request(asking.caller, number, &args, Wait::Inside),
        false => kernel.call(number, args),
    };
    match kernel.counts.are_kept() {
        true => kernel.counts.call(number, make),
        false => make(),
    }
}

/// That of this thread, in nanoseconds.
fn processor_time() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: writes a structure of ours.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The end of a call by the gate that was not over when the kernel came back.
fn after_gate(asking: &Asking, cpu: Cpu, exit: abi::Exit) -> Option<i64> {
    let (kernel, caller) = (asking.kernel, asking.caller);
    if exit.reason == EXIT_RETURNED {
        cpu.leave_disturbed();
        kernel.do_errands(cpu, caller.tid);
        return Some(exit.ret);
    }
    cpu.unbias(caller.slot);
    asking.finish(cpu, exit.reason)
}

/// Linux's ERESTARTSYS and the like: no result, but what is done when signals are.
fn is_interrupted(answer: i64) -> bool {
    (-516..=-512).contains(&answer)
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
    let slot = kernel.area.take_slot(kernel.process())?;
    let Some(guest) = Guest::new() else {
        kernel.area.give_slot(slot);
        return None;
    };
    slot.program().store(guest.address(), Ordering::Relaxed);
    // SAFETY: the slot is nobody's yet.
    unsafe { slot.ask(abi::NR_BOOT, &[0; 6]) };
    run_carriers::park_new(kernel, slot);
    slot.state().store(abi::THREAD_POSTED, Ordering::Release);
    Some(slot)
}

/// The host operation `call_in`.
pub fn call_in(slot: ThreadSlot) {
    let Some(guest) = Guest::of(slot) else { return };
    // First: a signal that finds the thread in the kernel, for others' tasks, is one to
    // the CPU there, and tells the thread nothing.
    guest.call_in();
    let tid = guest.carrier().load(Ordering::SeqCst);
    if tid != 0 {
        crate::signals::inject(std::process::id(), thread::Tid(tid.into()));
    }
}

/// The host operation `stop`: this thread is not in its program's code any more, until the
/// kernel has told it anew that it may. `wait`: the host has run it until it was out.
pub fn stop(slot: ThreadSlot, wait: bool) {
    let Some(guest) = Guest::of(slot) else { return };
    if !wait {
        guest.call_in();
        if guest.is_out() {
            call_in(slot);
        }
        return;
    }
    for tries in 0u32.. {
        if !guest.is_out() {
            return;
        }
        wait_a_little(tries);
    }
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
