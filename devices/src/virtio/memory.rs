//! Guest memory: the RAM of the kernel, at the same address for both sides.

use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64};
use tane_host::Physical;

/// RAM from physical address 0 on. Copies are views of the same memory.
#[derive(Clone, Copy, Debug)]
pub struct GuestMemory {
    base: *mut u8,
    len: u64,
}

// SAFETY: an address and a length; access is by raw pointers and atomics.
unsafe impl Send for GuestMemory {}
// SAFETY: the same.
unsafe impl Sync for GuestMemory {}

impl GuestMemory {
    /// # Safety
    /// `len` bytes at `base` stay mapped, readable and writable, for as long as
    /// any copy is used, and no Rust reference covers them.
    pub unsafe fn new(base: *mut u8, len: u64) -> Self {
        Self { base, len }
    }

    /// The pointer for `len` bytes at physical address `pa`, if they are RAM.
    #[inline]
    pub fn pointer(&self, pa: Physical, len: u64) -> Option<*mut u8> {
        let end = pa.checked_add(len)?;
        // SAFETY: checked to lie inside.
        (end.0 <= self.len).then(|| unsafe { self.base.add(pa.0 as usize) })
    }

    /// An aligned word that both sides use.
    #[inline]
    fn atomic<T>(&self, pa: Physical) -> Option<&T> {
        let pointer = self.pointer(pa, size_of::<T>() as u64)?;
        // SAFETY: in RAM and aligned; atomics allow changes by the other side.
        (pointer as usize)
            .is_multiple_of(align_of::<T>())
            .then(|| unsafe { &*pointer.cast() })
    }

    /// Two aligned bytes; `None` if they are not aligned or not RAM.
    #[inline]
    pub fn u16(&self, pa: Physical) -> Option<&AtomicU16> {
        self.atomic(pa)
    }

    /// Four aligned bytes; `None` as above.
    #[inline]
    pub fn u32(&self, pa: Physical) -> Option<&AtomicU32> {
        self.atomic(pa)
    }

    /// Eight aligned bytes; `None` as above.
    #[inline]
    pub fn u64(&self, pa: Physical) -> Option<&AtomicU64> {
        self.atomic(pa)
    }
}
