//! A biased virtual CPU: a thread that calls again and again, with nobody else
//! wanting in, keeps the lock between its calls, so that a call needs no atomic
//! instruction. Who wants the CPU takes the bias away first.
//!
//! The owner writes `inside`, in its own slot, and then reads `bias`; who takes it
//! away writes `bias` and then reads `inside`. One of them must see the other, for
//! which the owner would need a full barrier in every call. membarrier(2) lets the
//! other side, which comes seldom, pay for both.
//!
//! `lock` stays held all along: the bias is a way to hold it.

use crate::abi::{Vcpu, VCPU_SIZE};
use crate::barrier::membarrier;
use crate::cpu::{self, Cpu};
use crate::service::now;
use crate::thread_slot::ThreadSlot;
use std::arch::asm;
use std::mem::offset_of;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{compiler_fence, AtomicBool, AtomicU64, Ordering};
use std::sync::Once;

/// What `bias` holds beside 0: the owner's slot. Its lowest bits tell whether it is
/// just being taken away, while the barrier is under way, or taken, to be had by
/// who first finds the owner outside. Then its highest bits are a number that
/// tells this time from others, so that nobody who was held up for long mistakes
/// a later one for his.
const TAKING: u64 = 1;
const TAKEN: u64 = 2;
const KIND: u64 = 3;
const TIME_SHIFT: u32 = 48;
const SLOT: u64 = (1 << TIME_SHIFT) - 1 - KIND;
static TIMES: AtomicU64 = AtomicU64::new(0);

/// The slot in a value of `bias` that is not 0.
#[inline]
fn slot_of(bias: u64) -> ThreadSlot {
    // SAFETY: slots lie in the area, like the CPU that names one.
    unsafe { ThreadSlot::at(bias & SLOT) }
}

/// Calls in a row after which a CPU is biased, at first and at most. It doubles
/// whenever the bias did not last, so that threads that take turns on one CPU
/// lose little: taking the bias away costs some microseconds.
const PATIENCE_MIN: u32 = 8;
const PATIENCE_MAX: u32 = 8192;
/// In a kernel that processes share: two of them have a thread at the same address.
pub const NEVER: u32 = 1 << 30;
const LASTING_NS: u64 = 1_000_000;

static POSSIBLE: AtomicBool = AtomicBool::new(false);

/// Have the host make ready what lets a thread keep a CPU between its calls; once
/// in a process, by the first boot at the latest. A program that calls this while
/// it has one thread has it at once. In others the host first waits for all its
/// CPUs, for 10 ms or more, which a thread does that nobody waits for, unless the
/// process ends before.
pub fn prepare() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // Linked to by itself, its parent, and each thread's directory.
        match std::fs::metadata("/proc/self/task") {
            Ok(tasks) if tasks.nlink() == 3 => register(),
            _ => drop(
                std::thread::Builder::new()
                    .name("tane-barrier".into())
                    .stack_size(64 << 10)
                    .spawn(register),
            ),
        }
    });
}

fn register() {
    let registered = membarrier(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED).is_ok();
    POSSIBLE.store(registered && crate::cpu::has_fsgsbase(), Ordering::Relaxed);
}

/// Whether threads may keep a CPU on this host.
pub fn possible() -> bool {
    POSSIBLE.load(Ordering::Relaxed)
}

/// Who this thread is: the address of its control block, which the x86-64 ABI
/// keeps in the block's first word.
#[inline]
pub fn me() -> u64 {
    let pointer;
    // SAFETY: every thread has one.
    unsafe {
        asm!("mov {}, fs:0", out(reg) pointer, options(nostack, preserves_flags, readonly, pure));
    }
    pointer
}

/// A field of the virtual CPU, from the GS base.
const fn below_gs(field: usize) -> isize {
    field as isize - VCPU_SIZE as isize
}

/// Come out of the CPU at the GS base as its owner. False: somebody wants
/// something, see [`Cpu::leave_disturbed`].
#[inline]
pub fn leave(slot: ThreadSlot) -> bool {
    slot.inside().store(0, Ordering::Release);
    let (bias, pending, kicks): (u64, u64, u32);
    // SAFETY: the GS base is that of the CPU that this thread was just inside of.
    unsafe {
        asm!(
            "mov {0}, gs:[{bias}]",
            "mov {1}, gs:[{pending}]",
            "mov {2:e}, gs:[{kicks}]",
            out(reg) bias,
            out(reg) pending,
            out(reg) kicks,
            kicks = const below_gs(offset_of!(Vcpu, kicks)),
            bias = const below_gs(offset_of!(Vcpu, bias)),
            pending = const below_gs(offset_of!(Vcpu, pending)),
            options(nostack, preserves_flags),
        );
    }
    bias == slot.address() && pending == 0 && kicks == 0
}

impl Cpu {
    /// Go in as the owner, whose slot it gives. None: this thread keeps no lock
    /// here, or it is inside already and this is a signal handler.
    #[inline]
    pub fn enter_biased(self) -> Option<ThreadSlot> {
        let bias = self.bias().load(Ordering::Relaxed);
        if bias == 0 || bias & KIND != 0 {
            return None;
        }
        let slot = slot_of(bias);
        // Nobody but its owner writes this word, so that one who comes late, and
        // finds the bias gone, disturbs nobody.
        if slot.owner().load(Ordering::Relaxed) != me()
            || slot.inside().load(Ordering::Relaxed) != 0
        {
            return None;
        }
        slot.inside().store(1, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        if self.bias().load(Ordering::Relaxed) == bias {
            return Some(slot);
        }
        slot.inside().store(0, Ordering::Release);
        None
    }

    /// After leaving: the bias was taken away meanwhile, or an interrupt came.
    #[cold]
    pub fn leave_disturbed(self) {
        if self.claim() {
            return self.unlock();
        }
        if self.pending().load(Ordering::Relaxed) != 0 {
            self.report();
        }
    }

    /// Become the holder of a lock that is kept: by oneself, or by somebody who
    /// is outside and loses it.
    #[cold]
    pub fn take_kept(self) -> bool {
        if let Some(slot) = self.enter_biased() {
            self.unbias(slot);
            return true;
        }
        self.revoke();
        self.claim()
    }

    /// The owner, inside, goes on as an ordinary holder of the lock.
    pub fn unbias(self, slot: ThreadSlot) {
        self.bias().swap(0, Ordering::SeqCst);
        slot.inside().store(0, Ordering::Release);
        cpu::set_inside(true);
    }

    /// The end of an undisturbed call by an ordinary holder: keep the lock if this
    /// thread seems to be alone here, else let go.
    #[inline]
    pub fn release(self, slot: ThreadSlot) {
        let streak = self.streak().load(Ordering::Relaxed) + 1;
        if self.regular().load(Ordering::Relaxed) != slot.address() {
            self.regular().store(slot.address(), Ordering::Relaxed);
            self.streak().store(0, Ordering::Relaxed);
        } else if streak > self.patience().load(Ordering::Relaxed) {
            return self.keep(slot);
        } else {
            self.streak().store(streak, Ordering::Relaxed);
        }
        self.unlock();
    }

    #[cold]
    fn keep(self, slot: ThreadSlot) {
        if !possible() || self.patience().load(Ordering::Relaxed) == NEVER {
            self.streak().store(0, Ordering::Relaxed);
            return self.unlock();
        }
        cpu::set_inside(false);
        self.streak().store(0, Ordering::Relaxed);
        self.biased_at().store(now(), Ordering::Relaxed);
        self.bias().swap(slot.address(), Ordering::SeqCst);
        if self.pending().load(Ordering::Relaxed) != 0 {
            self.report();
        }
    }

    /// Whether some thread keeps the lock.
    pub fn is_biased(self) -> bool {
        self.bias().load(Ordering::Relaxed) != 0
    }

    /// Whether somebody seems to be inside.
    pub fn is_busy(self) -> bool {
        match self.bias().load(Ordering::Relaxed) {
            0 => self.lock().load(Ordering::Relaxed) != 0,
            bias => slot_of(bias).inside().load(Ordering::Relaxed) != 0,
        }
    }

    /// Have no thread go in as the owner any more. Does not wait for one inside.
    #[cold]
    pub fn revoke(self) {
        let owner = self.bias().load(Ordering::Relaxed);
        let time = TIMES.fetch_add(1, Ordering::Relaxed) << TIME_SHIFT;
        let (taking, taken) = (owner | time | TAKING, owner | time | TAKEN);
        if owner == 0
            || owner & KIND != 0
            || self
                .bias()
                .compare_exchange(owner, taking, Ordering::SeqCst, Ordering::Relaxed)
                .is_err()
        {
            return;
        }
        let lasted = now().saturating_sub(self.biased_at().load(Ordering::Relaxed));
        let patience = match self.patience().load(Ordering::Relaxed) {
            before if lasted < LASTING_NS => (before * 2).clamp(PATIENCE_MIN, PATIENCE_MAX),
            _ => PATIENCE_MIN,
        };
        self.patience().store(patience, Ordering::Relaxed);
        // Registered, or no CPU were kept; it fails for no other reason.
        membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED).ok();
        self.bias()
            .compare_exchange(taking, taken, Ordering::SeqCst, Ordering::Relaxed)
            .ok();
    }

    /// Become the holder of a lock whose owner lost it and is outside.
    fn claim(self) -> bool {
        let bias = self.bias().load(Ordering::Acquire);
        bias & KIND == TAKEN
            && slot_of(bias).inside().load(Ordering::Acquire) == 0
            && self
                .bias()
                .compare_exchange(bias, 0, Ordering::SeqCst, Ordering::Relaxed)
                .is_ok()
    }
}
