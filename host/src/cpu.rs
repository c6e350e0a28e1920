//! A virtual CPU as the host sees it: a lock, and the gates that its holder may
//! go through.

use crate::abi::{self, Exit};
use crate::address::Virtual;
use crate::futex;
use crate::shared::atomics;
use crate::thread::Tid;
use std::arch::asm;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

type Start = extern "sysv64" fn(*mut abi::Vcpu, *const abi::Boot) -> Exit;
type Enter = extern "sysv64" fn(*mut abi::Vcpu) -> Exit;

/// The image's entry points.
#[derive(Clone, Copy)]
pub struct Gate {
    pub start: Start,
    /// Where the instruction that takes registers as a system call's goes.
    call: u64,
    pub enter: Enter,
}

impl Gate {
    /// # Safety
    /// `base` is where an image with this header is loaded, executable.
    pub unsafe fn new(base: Virtual, h: &abi::ImageHeader) -> Self {
        let at = |offset| (base + offset).0;
        // SAFETY: the header tells where functions of these types are.
        unsafe {
            Self {
                start: std::mem::transmute::<u64, Start>(at(h.start)),
                call: at(h.call),
                enter: std::mem::transmute::<u64, Enter>(at(h.enter)),
            }
        }
    }
}

impl Gate {
    /// What [`Gate::call`] calls.
    pub fn call_address(&self) -> u64 {
        self.call
    }

    /// A system call on the CPU at the GS base, for the task that is current there.
    ///
    /// The arguments are in registers all the way. What the kernel needs again it
    /// keeps, so nothing has to be saved here.
    #[inline]
    pub fn call(&self, nr: i64, args: [u64; 6]) -> Exit {
        let (ret, reason);
        // SAFETY: the gate preserves what clobber_abi does not name. What the call does
        // to memory is up to its caller (`Kernel::syscall`).
        unsafe {
            asm!(
                "call {gate}",
                gate = in(reg) self.call,
                inlateout("rax") nr => ret,
                in("rdi") args[0],
                in("rsi") args[1],
                inlateout("rdx") args[2] => reason,
                in("r10") args[3],
                in("r8") args[4],
                in("r9") args[5],
                clobber_abi("sysv64"),
            );
        }
        Exit { ret, reason }
    }
}

/// A virtual CPU's number, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuNumber(pub u32);

impl CpuNumber {
    /// It boots, takes the interrupts of devices and never goes.
    pub const FIRST: Self = Self(0);

    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A virtual CPU. Cheap to copy; the structure lives in the shared area.
///
/// The kernel writes to it by plain stores: no reference covers more than one
/// atomic field.
#[derive(Clone, Copy)]
pub struct Cpu(*mut abi::Vcpu);

// SAFETY: see `area::Area`.
unsafe impl Send for Cpu {}
// SAFETY: the same.
unsafe impl Sync for Cpu {}

impl Cpu {
    /// # Safety
    /// The structure outlives every copy.
    pub unsafe fn new(vcpu: *mut abi::Vcpu) -> Self {
        Self(vcpu)
    }

    #[inline]
    pub fn ptr(self) -> *mut abi::Vcpu {
        self.0
    }

    /// The CPU with this GS base: its page, or another mapping of it, ends there.
    ///
    /// # Safety
    /// As for [`Self::new`]; the base is one of a thread that is inside, or was.
    #[inline]
    pub unsafe fn at_base(gs: u64) -> Self {
        Self((gs - abi::VCPU_SIZE as u64) as *mut abi::Vcpu)
    }

    /// The structure of the CPU that this thread is inside of. The GS base itself may
    /// be behind another mapping of it.
    ///
    /// # Safety
    /// It is inside of one, of whichever kernel.
    pub unsafe fn here() -> *mut abi::Vcpu {
        // SAFETY: inside, the GS base is behind the page of a CPU.
        unsafe { Self::here_at(gs()) }
    }

    /// The structure of the CPU that is mapped below this GS base.
    ///
    /// # Safety
    /// There is one.
    pub unsafe fn here_at(gs: u64) -> *mut abi::Vcpu {
        // SAFETY: the page's first word is the address that all know it by.
        unsafe { (&raw const (*Self::at_base(gs).0).self_).read() as *mut abi::Vcpu }
    }

    /// The GS base of those who are inside.
    #[inline]
    pub fn base(self) -> u64 {
        self.0 as u64 + abi::VCPU_SIZE as u64
    }

    #[inline]
    pub fn number(self) -> CpuNumber {
        // SAFETY: valid as `new` was promised; written before the kernel ran.
        CpuNumber(unsafe { (&raw const (*self.0).cpu).read() })
    }

    atomics! {
        pending = pending: AtomicU64,
        bias = bias: AtomicU64,
        kicks = kicks: AtomicU32,
        irq_enabled = irq_enabled: AtomicU32,
        current_task = current_task: AtomicU64,
        lock = lock: AtomicU32,
        holder = holder: AtomicU64,
        /// Signals that have reached a thread inside.
        taken = taken: AtomicU32,
        online = online: AtomicU32,
        requests = requests: AtomicU64,
        deadline = deadline: AtomicU64,
        sleep_until = sleep_until: AtomicU64,
        /// What its service thread sleeps on.
        kick_futex = kick: AtomicU32,
        streak = streak: AtomicU32,
        regular = regular: AtomicU64,
        biased_at = biased_at: AtomicU64,
        patience = patience: AtomicU32,
        spinners = spinners: AtomicU32,
        waiters = waiters: AtomicU32,
        /// The `struct tane_caller` of the thread inside, if it has one.
        caller = caller: AtomicU64,
    }

    #[inline]
    pub fn try_lock(self) -> bool {
        match self.lock().load(Ordering::Relaxed) {
            0 => self
                .lock()
                .compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed)
                .is_ok(),
            _ => self.is_biased() && self.take_kept(),
        }
    }

    /// Lock a CPU in order to go in, which must be online while it is locked: who
    /// brings one back writes its state when it is neither.
    #[inline]
    pub fn try_lock_online(self) -> bool {
        if !self.is_online() || !self.try_lock() {
            return false;
        }
        if !self.is_online() {
            self.unlock();
            return false;
        }
        true
    }

    /// Let go, then look whether somebody raised an interrupt in the meantime:
    /// in this order, so that either they saw the lock free or we see the bit.
    #[inline]
    pub fn unlock(self) {
        set_inside(false);
        self.holder().store(0, Ordering::Relaxed);
        self.lock().swap(0, Ordering::SeqCst);
        if self.pending().load(Ordering::Relaxed) != 0 {
            self.report();
        }
    }

    /// An interrupt is pending: see that somebody takes it. A thread that spins
    /// sees it by itself, and reports it when it stops spinning.
    #[cold]
    pub fn report(self) {
        if self.spinners().load(Ordering::SeqCst) as i32 <= 0 {
            self.kick();
        }
    }

    /// Make this thread the one that is inside: the caller holds the lock.
    #[inline]
    pub fn occupy(self, tid: Tid) {
        set_gs(self.base());
        set_inside(true);
        self.caller().store(PROGRAM.get(), Ordering::Relaxed);
        self.holder().store(tid.0, Ordering::Relaxed);
    }

    /// Whether the kernel uses this CPU; one that went comes back.
    #[inline]
    pub fn is_online(self) -> bool {
        self.online().load(Ordering::SeqCst) != 0
    }

    /// Set an interrupt bit.
    #[inline]
    pub fn raise(self, irq: u32) {
        self.pending().fetch_or(1 << irq, Ordering::SeqCst);
    }

    /// Make the service thread look.
    #[cold]
    pub fn kick(self) {
        self.kick_futex().fetch_add(1, Ordering::SeqCst);
        if self.sleep_until().load(Ordering::SeqCst) != 0 {
            futex::wake(self.kick_futex());
        }
    }

    /// The same, even where it leaves interrupts to others (lead.rs).
    #[cold]
    pub fn rouse(self) {
        self.kick_futex().fetch_add(1, Ordering::SeqCst);
        futex::wake(self.kick_futex());
    }
}

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
    static PROGRAM: Cell<u64> = const { Cell::new(0) };
}

/// What this thread does inside from now on is for a program, whose `struct
/// tane_caller` this is; 0: for the library.
pub fn set_program(caller: u64) {
    PROGRAM.set(caller);
}

#[inline]
pub fn set_inside(inside: bool) {
    INSIDE.with(|cell| cell.set(inside));
}

/// Whether this thread is in a kernel, as an ordinary holder, and came out of it
/// only to do something for it: in a device's doorbell, or in a signal handler of
/// the program's. A call would wait for itself.
pub fn is_inside() -> bool {
    INSIDE.with(Cell::get)
}

/// What this thread does for a kernel it does outside, and never goes in: whoever asks
/// which CPU it is inside of is told of none. Like one that is inside it must not call: the
/// kernel may wait for it.
pub fn stand_outside() {
    set_inside(true);
    #[repr(align(4096))]
    struct Nowhere(#[allow(dead_code)] [u8; abi::VCPU_SIZE]);
    static NOWHERE: Nowhere = Nowhere([0; abi::VCPU_SIZE]);
    set_gs(&raw const NOWHERE as u64 + abi::VCPU_SIZE as u64);
}

const HWCAP2_FSGSBASE: libc::c_ulong = 1 << 1;

/// Whether user mode may use rdgsbase and wrgsbase (Linux 5.9 and later).
pub fn has_fsgsbase() -> bool {
    // SAFETY: reads the auxiliary vector.
    unsafe { libc::getauxval(libc::AT_HWCAP2) & HWCAP2_FSGSBASE != 0 }
}

static FSGSBASE: AtomicBool = AtomicBool::new(false);

/// To be called before the first `set_gs`.
pub fn detect() {
    FSGSBASE.store(has_fsgsbase(), Ordering::Relaxed);
}

/// The same as [`gs`], on hosts that allow the instruction ([`has_fsgsbase`]).
#[inline]
pub fn rdgsbase() -> u64 {
    let gs;
    // SAFETY: reads a register.
    unsafe { asm!("rdgsbase {}", out(reg) gs, options(nomem, nostack, preserves_flags)) };
    gs
}

/// This thread's GS base, behind the virtual CPU that it last occupied.
#[inline]
pub fn gs() -> u64 {
    if FSGSBASE.load(Ordering::Relaxed) {
        return rdgsbase();
    }
    let mut gs = 0u64;
    const ARCH_GET_GS: i32 = 0x1004;
    // SAFETY: writes one word of ours.
    unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_GET_GS, &raw mut gs) };
    gs
}

/// Writing costs 12 ns, reading 1: most calls find the right value there.
#[inline]
pub fn set_gs(value: u64) {
    if gs() == value {
        return;
    }
    if FSGSBASE.load(Ordering::Relaxed) {
        // SAFETY: nothing else in the process uses GS on x86-64 Linux.
        unsafe { asm!("wrgsbase {}", in(reg) value, options(nomem, nostack, preserves_flags)) };
    } else {
        const ARCH_SET_GS: i32 = 0x1001;
        // SAFETY: as above.
        unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_SET_GS, value) };
    }
}

/// A handler begins with the flags of the code that it interrupted, but for a few. A
/// program may have set AC, with which an unaligned access is one more fault.
pub fn allow_unaligned() {
    const AC: i32 = 1 << 18;
    // SAFETY: changes one flag, with which no code is compiled.
    unsafe {
        asm!(
            "pushfq",
            "and dword ptr [rsp], {keep}",
            "popfq",
            keep = const !AC,
        );
    }
}
