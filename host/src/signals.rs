//! Faults and injected interrupts. A handler never runs kernel code: when it
//! finds the thread in the kernel, it writes `struct pt_regs` on the kernel stack
//! and sends the thread through a trampoline of the image. Everything else goes
//! to whoever handled the signal before us.

use crate::abi::PtRegs;
use crate::address::Virtual;
use crate::cpu::{self, Cpu};
use crate::inner::Inner;
use crate::lend_faults;
use crate::run_handlers;
use crate::thread::{self, Tid};
#[cfg(tane_tsan)]
use crate::tsan::set_action;
#[cfg(not(tane_tsan))]
use libc::sigaction as set_action;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// SIGSYS is a program's system call (run_handlers.rs).
const FAULTS: [i32; 6] = [
    libc::SIGSYS,
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGILL,
    libc::SIGFPE,
    libc::SIGTRAP,
];

/// Most kernels in one process at a time.
pub const MAX_KERNELS: usize = 128;

/// What a handler must know of a kernel, without locks.
struct Entry {
    /// Start of the image and of RAM; 0 when the entry is free.
    base: AtomicU64,
    text_end: AtomicU64,
    ram_end: AtomicU64,
    user_start: AtomicU64,
    user_end: AtomicU64,
    trap_fault: AtomicU64,
    trap_invalid: AtomicU64,
    trap_interrupt: AtomicU64,
    id: AtomicU64,
}

static KERNELS: [Entry; MAX_KERNELS] = [const {
    Entry {
        base: AtomicU64::new(0),
        text_end: AtomicU64::new(0),
        ram_end: AtomicU64::new(0),
        user_start: AtomicU64::new(0),
        user_end: AtomicU64::new(0),
        trap_fault: AtomicU64::new(0),
        trap_invalid: AtomicU64::new(0),
        trap_interrupt: AtomicU64::new(0),
        id: AtomicU64::new(0),
    }
}; MAX_KERNELS];

/// The handlers that were there before ours, by signal number.
static PREVIOUS: [AtomicPtr<libc::sigaction>; 65] = [const { AtomicPtr::new(ptr::null_mut()) }; 65];

/// Who is asked first of each fault, or null ([`look_first`]).
static LOOK: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());

/// How many kernels there are, and one more if somebody is asked; the lock orders
/// registration.
static COUNT: Mutex<usize> = Mutex::new(0);

/// Nobody registers a kernel while it exists.
pub type Registry = MutexGuard<'static, usize>;

pub fn lock() -> Registry {
    COUNT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The signal that interrupts a busy virtual CPU: a real-time one near the end,
/// where few programs have theirs.
pub fn interrupt_signal() -> i32 {
    libc::SIGRTMAX() - 5
}

/// Announce a loaded kernel, installing the handlers with the first one.
/// `false` when the process has too many kernels.
pub fn register(kernel: &Inner) -> bool {
    let mut count = lock();
    let Some(entry) = KERNELS.iter().find(|e| e.base.load(Ordering::Relaxed) == 0) else {
        return false;
    };
    let (base, h) = (kernel.memory.base.0, &kernel.header);
    entry.text_end.store(base + h.text_end, Ordering::Relaxed);
    entry
        .ram_end
        .store(base + kernel.memory.ram_size, Ordering::Relaxed);
    entry
        .trap_fault
        .store(base + h.trap_fault, Ordering::Relaxed);
    entry
        .trap_invalid
        .store(base + h.trap_invalid, Ordering::Relaxed);
    entry
        .trap_interrupt
        .store(base + h.trap_interrupt, Ordering::Relaxed);
    let memory = &kernel.memory;
    entry
        .user_start
        .store(memory.user.start.0, Ordering::Relaxed);
    entry.user_end.store(memory.user.end.0, Ordering::Relaxed);
    entry.id.store(kernel.id, Ordering::Relaxed);
    entry.base.store(base, Ordering::Release);
    if *count == 0 {
        install();
    }
    *count += 1;
    true
}

/// Whether a signal was a fault of its own, which it has dealt with. It is given what the
/// host gives to a handler (sigaction(2)), and runs as one.
pub type Look = unsafe fn(i32, *mut libc::siginfo_t, *mut libc::c_void) -> bool;

/// From now on this is asked of each fault first, whatever kernels come and go: two
/// handlers that each pass on to the other, since they came in another order the second
/// time, would not end. There is one who asks.
pub fn look_first(look: Look) {
    let mut count = lock();
    if LOOK.swap(look as *mut (), Ordering::AcqRel).is_null() {
        if *count == 0 {
            install();
        }
        *count += 1;
    }
}

/// # Safety
/// As for [`handler`].
unsafe fn looked_first(
    signal: i32,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) -> bool {
    let look = LOOK.load(Ordering::Acquire);
    // SAFETY: of look_first; the arguments are as it wants them.
    !look.is_null() && unsafe { std::mem::transmute::<*mut (), Look>(look)(signal, info, context) }
}

/// The reverse; the last kernel takes the handlers with it.
pub fn unregister(base: Virtual) {
    let mut count = lock();
    for entry in &KERNELS {
        if entry.base.load(Ordering::Relaxed) == base.0 {
            entry.base.store(0, Ordering::Release);
        }
    }
    *count -= 1;
    if *count == 0 {
        uninstall();
    }
}

fn install() {
    for signal in FAULTS.into_iter().chain([interrupt_signal()]) {
        // SAFETY: the handler is async-signal-safe; the old action is kept.
        unsafe {
            let mut action: libc::sigaction = MaybeUninit::zeroed().assume_init();
            action.sa_sigaction = handler as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
            libc::sigemptyset(&raw mut action.sa_mask);
            // A signal stack as libraries make them has room for one signal, not for
            // one on top of another: with AVX-512 each takes half of it.
            libc::sigaddset(&raw mut action.sa_mask, interrupt_signal());
            let mut old = Box::new(MaybeUninit::<libc::sigaction>::zeroed().assume_init());
            set_action(signal, &raw const action, &raw mut *old);
            let stale = PREVIOUS[signal as usize].swap(Box::into_raw(old), Ordering::AcqRel);
            debug_assert!(stale.is_null());
        }
    }
}

/// Put back what was there, unless somebody has put a handler over ours: then
/// ours stays and goes on passing signals down.
fn uninstall() {
    for signal in FAULTS.into_iter().chain([interrupt_signal()]) {
        // SAFETY: the saved action came from the same call.
        unsafe {
            let mut now: libc::sigaction = MaybeUninit::zeroed().assume_init();
            set_action(signal, ptr::null(), &raw mut now);
            let old = PREVIOUS[signal as usize].load(Ordering::Acquire);
            if now.sa_sigaction == handler as *const () as usize && !old.is_null() {
                set_action(signal, old, ptr::null_mut());
            }
            let old = PREVIOUS[signal as usize].swap(ptr::null_mut(), Ordering::AcqRel);
            if !old.is_null() {
                drop(Box::from_raw(old));
            }
        }
    }
}

/// Whether this process of the host has no such thread.
pub fn is_gone(process: u32, tid: Tid) -> bool {
    // SAFETY: nothing is sent.
    let found = unsafe { libc::syscall(libc::SYS_tgkill, process, tid.thread(), 0) };
    found != 0 && std::io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH)
}

/// Interrupt the thread that is inside a virtual CPU: one of this process of the host.
pub fn inject(process: u32, tid: Tid) {
    if process == 0 {
        return;
    }
    // SAFETY: at worst the thread is gone and the call fails.
    unsafe { libc::syscall(libc::SYS_tgkill, process, tid.thread(), interrupt_signal()) };
}

fn find(rip: u64, rsp: u64) -> Option<&'static Entry> {
    KERNELS.iter().find(|e| {
        let base = e.base.load(Ordering::Acquire);
        base != 0
            && (base..e.text_end.load(Ordering::Relaxed)).contains(&rip)
            && (base..e.ram_end.load(Ordering::Relaxed)).contains(&rsp)
    })
}

/// The kernel whose RAM holds this stack, wherever the code was: a jump to
/// nowhere has no address in the text.
fn find_stack(rsp: u64) -> Option<&'static Entry> {
    KERNELS.iter().find(|e| {
        let base = e.base.load(Ordering::Acquire);
        base != 0 && (base..e.ram_end.load(Ordering::Relaxed)).contains(&rsp)
    })
}

/// # Safety
/// The host calls it with what it gives to handlers (sigaction(2)).
pub(crate) unsafe extern "C" fn handler(
    signal: i32,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    cpu::allow_unaligned();
    // SAFETY: the context of the thread that was interrupted, which is this one.
    let regs = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    let rip = regs[libc::REG_RIP as usize] as u64;
    let rsp = regs[libc::REG_RSP as usize] as u64;

    if signal == interrupt_signal() {
        match find(rip, rsp) {
            Some(kernel) => interrupted(kernel, regs),
            // SAFETY: what the host gave us.
            None => unsafe { run_handlers::called(context) },
        }
        return;
    }
    if signal == libc::SIGSYS {
        // SAFETY: what the host gave us.
        if !unsafe { run_handlers::call(info, context) } {
            // SAFETY: what the host gave us.
            unsafe { chain(signal, info, context) };
        }
        return;
    }

    // SAFETY: what the host gave us.
    if unsafe { looked_first(signal, info, context) } {
        return;
    }

    let error = regs[libc::REG_ERR as usize] as u64;
    let fetch = error & 16 != 0;
    let kernel = match find(rip, rsp) {
        None if signal == libc::SIGSEGV && fetch => find_stack(rsp),
        found => found,
    };
    // SAFETY: a fault has an address; of other signals it is not used.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr() as u64) };
    // Signals that somebody sent are not faults.
    if let Some(kernel) = kernel.filter(|_| code > 0) {
        let (trampoline, arg1, arg2) = match signal {
            // What is lent to the code that called has another address there.
            libc::SIGSEGV | libc::SIGBUS => (
                &kernel.trap_fault,
                lend_faults::known(Virtual(address)).0,
                error,
            ),
            _ => (&kernel.trap_invalid, signal as u64, 0),
        };
        // SAFETY: the thread was on a stack of that kernel.
        unsafe { divert(regs, trampoline.load(Ordering::Relaxed), arg1, arg2) };
        return;
    }
    // SAFETY: what the host gave us.
    if unsafe { run_handlers::trap(signal, info, context) } {
        return;
    }
    let address = Virtual(address);
    if signal == libc::SIGSEGV
        && code > 0
        && (user_fault(address, error) || lend_faults::show_to_host(address, error))
    {
        return;
    }
    // SAFETY: what the host gave us.
    unsafe { chain(signal, info, context) };
}

/// A thread that runs this kernel's code has got the signal of [`inject`].
fn interrupted(kernel: &Entry, regs: &mut [i64; 23]) {
    // SAFETY: inside, the GS base is behind the CPU.
    let cpu = unsafe { Cpu::at_base(cpu::gs()) };
    cpu.taken().fetch_add(1, Ordering::Relaxed);
    crate::service::raise_due_timer(cpu);
    let enabled = cpu.irq_enabled().load(Ordering::Relaxed) != 0;
    if enabled && cpu.pending().load(Ordering::Relaxed) != 0 {
        // As a processor does: one more signal, due before the trampoline
        // has run its first instruction, would be diverted on top of it,
        // and so would all that queue up while this thread waits to run.
        cpu.irq_enabled().store(0, Ordering::Relaxed);
        let trampoline = kernel.trap_interrupt.load(Ordering::Relaxed);
        // SAFETY: the thread was on a stack of that kernel.
        unsafe { divert(regs, trampoline, 0, 0) };
    }
}

/// The program touched a page of a kernel's user window that is not shown yet:
/// the kernel answers, as it would on hardware. The thread stays outside and the
/// service thread does the work (`Wait::Outside`).
fn user_fault(address: Virtual, error: u64) -> bool {
    let kernel = KERNELS.iter().find(|e| {
        e.base.load(Ordering::Acquire) != 0
            && (e.user_start.load(Ordering::Relaxed)..e.user_end.load(Ordering::Relaxed))
                .contains(&address.0)
    });
    let Some(kernel) = kernel.filter(|_| !lend_faults::is_elsewhere(address)) else {
        return false;
    };
    // SAFETY: errno belongs to the code that faulted.
    let errno = unsafe { *libc::__errno_location() };
    let answer = thread::fault(kernel.id.load(Ordering::Relaxed), address, error);
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
    answer
}

/// Write what the thread was doing below its stack pointer and make it run the
/// trampoline. The kernel has no red zone, but the word right below rsp is left
/// for the trampoline's way back.
///
/// # Safety
/// They are the registers of a thread that is on a kernel stack with room.
unsafe fn divert(regs: &mut [i64; 23], trampoline: u64, arg1: u64, arg2: u64) {
    let get = |reg: i32| regs[reg as usize] as u64;
    let rsp = get(libc::REG_RSP);
    let frame = (rsp - 16 - size_of::<PtRegs>() as u64) & !15;
    #[cfg(tane_tsan)]
    // SAFETY: a kernel stack, as the caller promises.
    let stack = unsafe { crate::tsan::Stack::acquire(frame as usize) };
    let saved = PtRegs {
        r15: get(libc::REG_R15),
        r14: get(libc::REG_R14),
        r13: get(libc::REG_R13),
        r12: get(libc::REG_R12),
        rbp: get(libc::REG_RBP),
        rbx: get(libc::REG_RBX),
        r11: get(libc::REG_R11),
        r10: get(libc::REG_R10),
        r9: get(libc::REG_R9),
        r8: get(libc::REG_R8),
        rax: get(libc::REG_RAX),
        rcx: get(libc::REG_RCX),
        rdx: get(libc::REG_RDX),
        rsi: get(libc::REG_RSI),
        rdi: get(libc::REG_RDI),
        orig_rax: u64::MAX,
        rip: get(libc::REG_RIP),
        cs: 0,
        eflags: get(libc::REG_EFL),
        rsp,
        ss: 0,
    };
    // SAFETY: below the stack pointer of kernel code, which has no red zone.
    unsafe { (frame as *mut PtRegs).write(saved) };
    #[cfg(tane_tsan)]
    stack.release();
    for (reg, value) in [
        (libc::REG_RSP, frame),
        (libc::REG_RDI, frame),
        (libc::REG_RSI, arg1),
        (libc::REG_RDX, arg2),
        (libc::REG_RIP, trampoline),
    ] {
        regs[reg as usize] = value as i64;
    }
}

/// Not ours: the handler that was there before, which may never return.
///
/// # Safety
/// As for [`handler`].
unsafe fn chain(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: what the host gave us; the set is ours.
    let sent = unsafe {
        let before = &raw const (*context.cast::<libc::ucontext_t>()).uc_sigmask;
        if libc::sigismember(before, interrupt_signal()) == 0 {
            let mut ours: libc::sigset_t = MaybeUninit::zeroed().assume_init();
            libc::sigaddset(&raw mut ours, interrupt_signal());
            libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const ours, ptr::null_mut());
        }
        (*info).si_code <= 0
    };
    let old = PREVIOUS[signal as usize].load(Ordering::Acquire);
    let (action, flags) = match old.is_null() {
        true => (libc::SIG_DFL, 0),
        // SAFETY: stays until the last kernel has gone.
        false => unsafe { ((*old).sa_sigaction, (*old).sa_flags) },
    };
    match action {
        libc::SIG_IGN if sent => {}
        libc::SIG_DFL | libc::SIG_IGN => {
            // A fault comes again when the instruction does, and then ends the
            // process as it would have without us; a sent signal must be resent.
            // SAFETY: all zeros are the default action.
            unsafe {
                let default: libc::sigaction = MaybeUninit::zeroed().assume_init();
                set_action(signal, &raw const default, ptr::null_mut());
                if sent {
                    libc::raise(signal);
                }
            }
        }
        // SAFETY: it was installed as a handler of this kind.
        action => unsafe {
            if flags & libc::SA_SIGINFO != 0 {
                let action: extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void) =
                    std::mem::transmute(action);
                action(signal, info, context);
            } else {
                let action: extern "C" fn(i32) = std::mem::transmute(action);
                action(signal);
            }
        },
    }
}
