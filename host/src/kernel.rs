//! A kernel, as programs and devices see it.

use crate::abi;
use crate::cpu::{Cpu, CpuNumber};
use crate::fork;
use crate::futex;
use crate::inner::Inner;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

/// What answers a device's doorbell.
pub trait Doorbell: Send + Sync {
    /// A queue has new buffers. Runs inside the kernel's CPU: must not block.
    fn notify(&self, queue: u32);
    /// The driver wrote the status field. After a reset (status 0) returns, the
    /// device touches no queue memory.
    fn status(&self);
    /// Whether the kernel waits for something that the device does by itself: requests
    /// under way, or answers that the driver has not seen. Time that stands still
    /// ([`Deterministic`](crate::Deterministic)) does not jump to a timer meanwhile.
    /// Called with a CPU held: must not block.
    fn is_busy(&self) -> bool {
        false
    }
    /// The kernel is about to go, its memory with it: touch it no more.
    fn stop(&self);
    /// What the device is now, for a [checkpoint](Kernel::checkpoint): it is not busy, and
    /// nobody is inside the kernel. An error says why it cannot go back to that.
    fn save(&self) -> io::Result<Box<dyn Saved>> {
        let text = "cannot go back to what it was";
        Err(io::Error::new(io::ErrorKind::Unsupported, text))
    }
}

/// What a device was. Dropped when nobody wants it to go back to that any more.
pub trait Saved: Send + Sync {
    /// Be that again. As [`Doorbell::save`]; after an error the kernel is ended.
    fn roll_back(&self) -> io::Result<()>;
}

/// Where a kernel's memory is.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// Address of the image and of physical address 0.
    pub base: u64,
    /// Bytes of RAM, the image included.
    pub ram_size: u64,
    /// The address was drawn at random.
    pub randomised: bool,
}

/// A running kernel. Cheap to clone, usable from any thread; the last handle
/// halts it and gives everything back.
#[derive(Clone)]
pub struct Kernel {
    inner: Arc<Inner>,
}

impl Kernel {
    pub(crate) fn new(inner: Arc<Inner>) -> Self {
        Self { inner }
    }

    pub(crate) fn inner(&self) -> &Arc<Inner> {
        &self.inner
    }

    /// A Linux system call, by x86-64 number and with its raw arguments:
    /// pointers are this process's own. Returns what Linux returns, a negative
    /// errno for an error; `-ESHUTDOWN` once the kernel has died or was halted
    /// ([`Self::last_words`] says why); `-ENOTSUP` in a fork of the process that
    /// booted it, unless it is [shared](crate::Builder::shared). Blocks this thread when
    /// Linux blocks.
    ///
    /// exit(2) ends this thread's task, not the thread: it returns 0, and what the thread
    /// calls later is answered with `-ESRCH`.
    ///
    /// # Safety
    /// The call may read and write what its arguments point to, as the man page
    /// says; a pointer to nowhere is answered with `-EFAULT`.
    ///
    /// Not from a signal handler that runs on an alternate signal stack: while a
    /// thread is inside, its stack is the kernel's, so the next signal would take
    /// the signal stack for unused. A handler that interrupted a call of its own
    /// thread is answered with `-EDEADLK`.
    #[inline]
    pub unsafe fn syscall(&self, nr: i64, args: [u64; 6]) -> i64 {
        self.inner.call(nr, args)
    }

    /// As [`Self::syscall`], if nothing is in its way and there was no checkpoint. None:
    /// nothing was done. For who would ask [`Self::moment`] before each call.
    ///
    /// # Safety
    /// As for [`Self::syscall`].
    #[inline]
    pub unsafe fn syscall_timeless(&self, nr: i64, args: [u64; 6]) -> Option<i64> {
        self.inner.call_timeless(nr, args)
    }

    /// The number of this moment of the kernel's: a new one begins with each checkpoint and
    /// with each way back to one. 0 as long as there was none. From any thread.
    #[inline]
    pub fn moment(&self) -> u64 {
        self.inner.moments.now()
    }

    /// As [`Self::syscall`], in this moment: if another has begun, nothing is done, and there
    /// is no answer. What an argument stands for, a descriptor's number for instance, may be
    /// something else by then.
    ///
    /// # Safety
    /// As for [`Self::syscall`].
    pub unsafe fn syscall_within(&self, moment: u64, nr: i64, args: [u64; 6]) -> Option<i64> {
        self.inner.call_within(moment, nr, &args)
    }

    /// Where it is.
    pub fn layout(&self) -> Layout {
        Layout {
            base: self.inner.memory.base.0,
            ram_size: self.inner.memory.ram_size,
            randomised: self.inner.memory.randomised,
        }
    }

    /// The Linux process of the child that this thread's last fork(2) made, for wait4(2).
    /// Errors: `EAGAIN` if the kernel had no room for one: calls in that child answer
    /// `-ENOTSUP`. `ENOTSUP` if the kernel is not shared
    /// ([`Builder::shared`](crate::Builder::shared)) or this thread never forked.
    pub fn forked(&self) -> std::io::Result<i32> {
        match fork::last(self.inner.id) {
            None => Err(std::io::Error::from_raw_os_error(libc::ENOTSUP)),
            Some(0) => Err(std::io::Error::from_raw_os_error(libc::EAGAIN)),
            Some(pid) => Ok(pid),
        }
    }

    /// The kernel's log so far.
    pub fn dmesg(&self) -> String {
        self.inner.log.text()
    }

    /// Whether calls still have an effect.
    pub fn is_alive(&self) -> bool {
        !self.inner.is_dead()
    }

    /// Whether this process is a fork of the one that booted it. It then has
    /// copies of all handles and shares the memory, but nothing that serves it.
    pub fn is_foreign(&self) -> bool {
        self.inner.is_foreign() || !self.inner.is_first()
    }

    /// Why it ended: after a panic or fault the oops text, symbolised.
    pub fn last_words(&self) -> String {
        self.inner.last_words()
    }

    /// End it now, without a sync: calls under way and later ones answer
    /// `-ESHUTDOWN`. Memory stays until the last handle is dropped.
    pub fn halt(&self) {
        if !self.inner.is_foreign() {
            self.inner.stop("halted");
        }
    }

    /// The shared structure of a device slot.
    pub fn virtio(&self, slot: usize) -> *mut abi::Virtio {
        self.inner.virtio(slot)
    }

    /// Who answers a device's doorbell from now on.
    pub fn set_doorbell(&self, slot: usize, doorbell: Option<Arc<dyn Doorbell>>) {
        self.inner.set_doorbell(slot, doorbell);
    }

    /// A handle with which devices raise their interrupts; does not keep the
    /// kernel alive.
    pub fn interrupter(&self) -> Interrupter {
        Interrupter {
            kernel: Arc::downgrade(&self.inner),
        }
    }

    /// Whether this thread is inside a kernel, and was called by it: in a device's
    /// doorbell, or in the log's sink. What waits for the kernel then waits for itself.
    pub fn is_inside(&self) -> bool {
        crate::cpu::is_inside() || crate::thread::is_in_a_call(&self.inner)
    }

    /// Ask the kernel to look at changed device slots, for [`Self::wait_virtio`].
    pub fn raise_hotplug(&self) {
        let cpu = self.inner.cpu(CpuNumber::FIRST);
        cpu.raise(abi::IRQ_HOTPLUG);
        self.inner.see_to(cpu);
    }

    /// Sleep until a slot's state is no longer `state`, or the kernel is dead.
    pub fn wait_virtio(&self, slot: usize, state: u32) -> u32 {
        // SAFETY: in the area.
        let word = unsafe { &(*self.virtio(slot)).state };
        loop {
            let now = word.load(Ordering::Acquire);
            if now != state || self.inner.is_dead() {
                return now;
            }
            futex::wait(word, state, None);
        }
    }
}

/// Raises device interrupts.
#[derive(Clone)]
pub struct Interrupter {
    kernel: Weak<Inner>,
}

impl Interrupter {
    /// `inside`: called from a doorbell, so whoever is inside will look.
    pub fn raise(&self, slot: u32, inside: bool) {
        if let Some(kernel) = self.kernel.upgrade() {
            let cpu = kernel.cpu(CpuNumber::FIRST);
            cpu.raise(abi::IRQ_DEVICE0 + slot);
            // Inside another CPU nobody would look at this one.
            // SAFETY: in a doorbell this thread is inside of a CPU.
            if !inside || unsafe { Cpu::here() } != cpu.ptr() {
                cpu.kick();
            }
        }
    }
}
