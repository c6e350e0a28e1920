//! A host thread's request slot as the host sees it (`struct tane_thread`).

use crate::abi;
use crate::shared::atomics;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// In place of a task: the kernel went back to when it did not know this thread, which is
/// attached anew by its next call. No task has this address.
pub const UNKNOWN: u64 = 1;

/// A request slot. Cheap to copy; the structure lives in the shared area.
///
/// The kernel writes to it by plain stores: no reference covers more than one
/// atomic field.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ThreadSlot(NonNull<abi::Thread>);

impl ThreadSlot {
    /// # Safety
    /// It is a slot, and outlives every copy.
    #[inline]
    pub const unsafe fn new(slot: NonNull<abi::Thread>) -> Self {
        Self(slot)
    }

    /// The slot at an address that shared memory holds.
    ///
    /// # Safety
    /// As for [`Self::new`]; the address is not 0.
    #[inline]
    pub const unsafe fn at(address: u64) -> Self {
        // SAFETY: as the caller promises.
        unsafe { Self(NonNull::new_unchecked(address as *mut abi::Thread)) }
    }

    #[inline]
    pub fn ptr(self) -> *mut abi::Thread {
        self.0.as_ptr()
    }

    /// As shared memory names it.
    #[inline]
    pub fn address(self) -> u64 {
        self.0.as_ptr() as u64
    }

    atomics! {
        state = state: AtomicU32,
        vcpu = vcpu: AtomicU32,
        task = task: AtomicU64,
        next = next: AtomicU64,
        sleeping = sleeping: AtomicU32,
        spin = spin: AtomicU32,
        owner = owner: AtomicU64,
        inside = inside: AtomicU32,
        /// Whose it is: a process's number, 0 in a kernel that is not shared.
        process = process: AtomicU32,
        /// 1 + the CPU among whose spinners its thread is.
        spinning = spinning: AtomicU32,
        gone = gone: AtomicU32,
        program = program: AtomicU64,
    }

    /// Make it as if it had never been used.
    ///
    /// # Safety
    /// It is nobody's; but any thread may read its atomics.
    pub unsafe fn reset(self) {
        // SAFETY: nobody else accesses the fields that are not atomic.
        unsafe {
            self.ask(0, &[0; 6]);
            (&raw mut (*self.ptr()).ret).write(0);
        }
        for word in [self.task(), self.next(), self.owner(), self.program()] {
            word.store(0, Ordering::Relaxed);
        }
        for word in [self.state(), self.vcpu(), self.sleeping(), self.spin()] {
            word.store(0, Ordering::Relaxed);
        }
        for word in [self.inside(), self.process(), self.spinning(), self.gone()] {
            word.store(0, Ordering::Relaxed);
        }
    }

    /// Put a request in, which the kernel looks at when `state` says so.
    ///
    /// # Safety
    /// The slot is idle, and the caller's.
    #[inline]
    pub unsafe fn ask(self, nr: i64, args: &[u64; 6]) {
        let slot = self.ptr();
        // SAFETY: nobody else accesses these fields while the slot is idle.
        unsafe {
            (&raw mut (*slot).nr).write(nr);
            (&raw mut (*slot).args).write(*args);
        }
    }

    /// The number of the request.
    ///
    /// # Safety
    /// One is under way.
    pub unsafe fn asked(self) -> i64 {
        // SAFETY: nobody writes it meanwhile.
        unsafe { (&raw const (*self.ptr()).nr).read() }
    }

    /// What the kernel answered.
    ///
    /// # Safety
    /// The slot is the caller's, who has seen in `state`, by an acquiring load,
    /// that the kernel is done with it.
    #[inline]
    pub unsafe fn answer(self) -> i64 {
        // SAFETY: nobody else accesses the field by now.
        unsafe { (&raw const (*self.ptr()).ret).read() }
    }
}
