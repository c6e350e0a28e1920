//! Threads that come in by `tane_image.program`: code of a program's or of a checked
//! module's, which jumps to the gate as if that were the instruction `syscall`.
//!
//! Such a thread has three things below the GS base that it runs with: nothing of
//! anybody else's in the page right below, which is a second mapping of the virtual
//! CPU it was last inside of; below that its `struct tane_caller`; and elsewhere a
//! stack for the host, since its own stack is the program's.

use crate::abi::{self, EXIT_OUTSIDE, EXIT_RETURNED};
use crate::address::Virtual;
use crate::call::{Caller, Wait};
use crate::cpu::{self, Cpu, CpuNumber};
use crate::inner::Inner;
use crate::kernel::Kernel;
use crate::lend::Loan;
use crate::thread;
use std::io;
use std::mem::offset_of;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;
use std::sync::Arc;

/// Bytes below the GS base that are the gate's.
pub const BELOW: usize = 2 * abi::VCPU_SIZE;

const STACK: usize = 256 << 10;

/// `struct tane_caller`, and behind it what only the host knows.
#[repr(C)]
struct Page {
    caller: abi::Caller,
    thread: *const Thread,
}

const _: () = assert!(size_of::<Page>() <= abi::VCPU_SIZE);

struct Thread {
    kernel: Arc<Inner>,
    caller: Caller,
    /// What it runs with.
    base: Virtual,
    /// The host's, in serve().
    stack: *mut libc::c_void,
    /// Asked, with the number, after a call that waited.
    diversion: Option<(Diversion, usize)>,
}

/// Where code goes on, instead of behind its call, and with the number that this was
/// given in rdi; None: behind it.
pub type Diversion = fn(usize) -> Option<usize>;

/// A task of a kernel's that a program or module calls as, on the host thread that
/// made this.
pub struct Program {
    thread: Box<Thread>,
}

impl Kernel {
    /// A task for code that runs with this GS base. If there is a window, the task has
    /// files of its own, at first copies of the process's, and its calls touch memory of
    /// those 4 GiB only. Errors are the host's, or errno values of the kernel's.
    ///
    /// # Safety
    /// The [`BELOW`] bytes below `base` are the caller's, reserved and unused, until what
    /// this gives was dropped. The base is a multiple of the page size.
    pub unsafe fn program(&self, base: Virtual, window: Option<Virtual>) -> io::Result<Program> {
        if !cpu::has_fsgsbase() {
            let text = "the host lets no program set the GS base (FSGSBASE, Linux 5.9)";
            return Err(io::Error::new(io::ErrorKind::Unsupported, text));
        }
        // Also gives this thread a signal stack and a task of its own.
        thread::caller(self.inner(), Wait::Inside).map_err(io::Error::from_raw_os_error)?;
        let kernel = self.inner().clone();
        let stack = map(std::ptr::null_mut(), STACK, libc::MAP_STACK)?;
        let give_up = |error| {
            // SAFETY: mapped above.
            unsafe { libc::munmap(stack, STACK) };
            error
        };
        let at = Virtual(base.0 - BELOW as u64);
        map(at.pointer(), abi::VCPU_SIZE, libc::MAP_FIXED).map_err(give_up)?;
        let caller = kernel
            .attach(Wait::Inside, window)
            .map_err(|errno| give_up(io::Error::from_raw_os_error(errno)))?;
        let thread = Box::new(Thread {
            kernel,
            caller,
            base,
            stack,
            diversion: None,
        });
        let program = Program { thread };
        program.thread.kernel.modules.fetch_add(1, Ordering::SeqCst);
        program.prepare()?;
        Ok(program)
    }
}

fn map(at: *mut libc::c_void, len: usize, flags: i32) -> io::Result<*mut libc::c_void> {
    let flags = flags | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    let prot = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping, or in what is the caller's.
    match unsafe { libc::mmap(at, len, prot, flags, -1, 0) } {
        libc::MAP_FAILED => Err(io::Error::last_os_error()),
        at => Ok(at),
    }
}

impl Program {
    /// Have this asked after each call of the program's that waited: it may end the code
    /// that called. It runs on a stack of the thread's own.
    pub fn divert(&mut self, diversion: Diversion, arg: usize) {
        self.thread.diversion = Some((diversion, arg));
    }

    fn page(&self) -> NonNull<Page> {
        let at = Virtual(self.thread.base.0 - BELOW as u64);
        // SAFETY: it was mapped.
        unsafe { NonNull::new_unchecked(at.pointer()) }
    }

    fn prepare(&self) -> io::Result<()> {
        let thread = &*self.thread;
        let (kernel, slot) = (&thread.kernel, thread.caller.slot);
        let page = self.page().as_ptr();
        // What the kernel takes off when it leaves: seven registers and an address.
        let frame = thread.stack as u64 + STACK as u64 - 64;
        // SAFETY: memory of ours, all zeros.
        unsafe {
            (frame as *mut u64)
                .add(7)
                .write(kernel.memory.base.0 + kernel.header.program_left);
            let caller = &raw mut (*page).caller;
            (&raw mut (*caller).self_).write(page as u64);
            (&raw mut (*caller).slot).write(slot.address());
            (&raw mut (*caller).stack).write(frame);
            (&raw mut (*caller).serve).write(serve as *const () as u64);
            (&raw mut (*page).thread).write(thread);
        }
        // Not a thread's: calls of the library on this thread are another's.
        slot.owner().store(page as u64, Ordering::Relaxed);
        thread.show_cpu()
    }

    /// Where the way in is.
    pub fn gate(&self) -> Virtual {
        let kernel = &self.thread.kernel;
        kernel.memory.base + kernel.header.program
    }

    /// Where a program finds that address, from the GS base.
    pub const GATE: i32 = offset_of!(abi::Vcpu, program) as i32 - abi::VCPU_SIZE as i32;

    /// Run code that may go through the gate: the GS base is its, meanwhile.
    ///
    /// # Safety
    /// On the thread that made this. Nothing in there calls this kernel but through the
    /// gate.
    pub unsafe fn run<R>(&mut self, code: impl FnOnce() -> R) -> R {
        let before = cpu::gs();
        cpu::set_gs(self.thread.base.0);
        let result = code();
        cpu::set_gs(before);
        result
    }

    /// A call as the program's task, by the host.
    ///
    /// # Safety
    /// As for [`Kernel::syscall`], and on the thread that made this.
    pub unsafe fn syscall(&mut self, nr: i64, args: [u64; 6]) -> i64 {
        let before = cpu::gs();
        let thread = &*self.thread;
        let page = self.page().as_ptr();
        // The task may keep the CPU by this call, and the program go in by it next: the
        // kernel is to know then whose vector registers it must spare.
        cpu::set_program(page as u64);
        let ret = thread.kernel.call_as(thread.caller, nr, &args);
        thread.kernel.settle(thread.caller);
        cpu::set_program(0);
        // SAFETY: the page is this thread's. What the kernel spared now are registers of
        // the host's code, and nothing that a program wants back.
        unsafe { (&raw mut (*page).caller.saved).write(0) };
        cpu::set_gs(before);
        ret
    }
}

/// Pages of files, lent.
impl Program {
    /// Show `len` bytes of an open file of the program's task, from this offset on, at `to`:
    /// what the kernel has of them in its cache, which it reads first. They can only be read
    /// there, and what the file has no more, or the disk does not give, is a fault
    /// ([`show_lent`](crate::show_lent)). Errors are errno values; EIO if not all can be read.
    ///
    /// # Safety
    /// On the thread that made this. The bytes at `to`, whole pages, are the caller's, reserved
    /// and unused, until it has given the loan back.
    pub unsafe fn lend(&mut self, fd: i32, at: u64, len: u64, to: Virtual) -> Result<Loan, i32> {
        const MADV_POPULATE_READ: u64 = 22;
        let (prot, flags) = (libc::PROT_READ as u64, libc::MAP_PRIVATE as u64);
        // SAFETY: a new mapping, which nobody else knows of.
        let from = unsafe { self.syscall(libc::SYS_mmap, [0, len, prot, flags, fd as u64, at]) };
        let from = u64::try_from(from).map_err(|_| -from as i32)?;
        let kernel = self.thread.kernel.clone();
        let loan = Loan::begin(kernel.id, &kernel.memory.lent, from, to, len);
        let args = [from, len, MADV_POPULATE_READ, 0, 0, 0];
        // SAFETY: of the same mapping.
        let error = match unsafe { self.syscall(libc::SYS_madvise, args) } {
            0 => loan.show(&kernel.memory.lent, &kernel.memory).err(),
            errno if errno == -i64::from(libc::EFAULT) => {
                Some(io::Error::from_raw_os_error(libc::EIO))
            }
            errno => Some(io::Error::from_raw_os_error(-errno as i32)),
        };
        match error {
            None => Ok(loan),
            Some(error) => {
                self.give_back(loan);
                Err(error.raw_os_error().unwrap_or(libc::EIO))
            }
        }
    }

    /// The loan's place is reserved memory again, and the kernel's mapping is gone.
    pub fn give_back(&mut self, loan: Loan) {
        let kernel = self.thread.kernel.clone();
        loan.hide(&kernel.memory.lent, &kernel.memory);
        let [from, len] = loan.mapped();
        // SAFETY: the mapping is the loan's. A kernel that is gone refuses.
        unsafe { self.syscall(libc::SYS_munmap, [from, len, 0, 0, 0, 0]) };
        loan.end(&kernel.memory.lent);
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let thread = &*self.thread;
        if !thread.kernel.is_foreign() {
            thread.kernel.detach(thread.caller);
        }
        thread.kernel.modules.fetch_sub(1, Ordering::SeqCst);
        // SAFETY: ours; nobody runs on it or with it any more.
        unsafe { libc::munmap(thread.stack, STACK) };
    }
}

impl Thread {
    /// Have the CPU that the task was last inside of where the gate looks for it.
    fn show_cpu(&self) -> io::Result<()> {
        let number = self.caller.slot.vcpu().load(Ordering::Relaxed);
        let cpu = self.kernel.cpu(CpuNumber(number));
        let at = Virtual(self.base.0 - abi::VCPU_SIZE as u64);
        self.kernel.memory.show_area(at, cpu.ptr().cast())
    }

    /// The CPU there.
    fn shown(&self) -> Cpu {
        // SAFETY: this thread has been inside of it, by that mapping.
        unsafe { Cpu::new(Cpu::here_at(self.base.0)) }
    }
}

/// What the gate calls when a call is not over with the kernel's return.
extern "sysv64" fn serve(page: *mut Page, ret: i64, reason: u64) -> i64 {
    // SAFETY: the gate gives the page that `prepare` filled in; it lives as long as the
    // code that came through the gate.
    let thread = unsafe { &*(*page).thread };
    let (kernel, caller) = (&thread.kernel, thread.caller);
    cpu::set_program(page as u64);
    let ret = match reason {
        EXIT_OUTSIDE => {
            // SAFETY: the gate has just written it.
            let regs = unsafe { &(*page).caller.regs };
            let args = [regs.rdi, regs.rsi, regs.rdx, regs.r10, regs.r8, regs.r9];
            kernel.call_as(caller, regs.orig_rax as i64, &args)
        }
        EXIT_RETURNED => {
            let cpu = thread.shown();
            cpu.leave_disturbed();
            kernel.do_errands(cpu, caller.tid);
            ret
        }
        reason => {
            let cpu = thread.shown();
            cpu.unbias(caller.slot);
            kernel.finish(caller, cpu, reason)
        }
    };
    kernel.settle(caller);
    cpu::set_program(0);
    let shown = thread.shown().number().0;
    if shown != caller.slot.vcpu().load(Ordering::Relaxed) {
        // Without it every call comes here: slower, and no less right.
        thread.show_cpu().ok();
    }
    if let Some((diversion, arg)) = thread.diversion {
        if let Some(to) = diversion(arg) {
            // SAFETY: the page is this thread's, and the gate takes all registers from it.
            let regs = unsafe { &mut (*page).caller.regs };
            (regs.rcx, regs.rdi) = (to as u64, arg as u64);
        }
    }
    cpu::set_gs(thread.base.0);
    ret
}
