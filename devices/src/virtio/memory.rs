//! Guest memory: the RAM of the kernel, at the same address for both sides.

use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64};

/// RAM from physical address 0 on. Copies are views of the same memory.
#[derive(Clone, Copy, Debug)]
pub struct GuestMemory {
    base: *mut u8,
    len: u64,
}

// SAFETY: an address and a length; access is by raw pointers and atomics.
unsafe impl Send for GuestMemory {}
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
    pub fn pointer(&self, pa: u64, len: u64) -> Option<*mut u8> {
        let end = pa.checked_add(len)?;
        // SAFETY: checked to lie inside.
        (end <= self.len).then(|| unsafe { self.base.add(pa as usize) })
    }

    /// An aligned word that both sides use.
    #[inline]
    fn atomic<T>(&self, pa: u64) -> Option<&T> {
        let pointer = self.pointer(pa, size_of::<T>() as u64)?;
        // SAFETY: in RAM and aligned; atomics allow changes by the other side.
        (pointer as usize)
            .is_multiple_of(align_of::<T>())
            .then(|| unsafe { &*pointer.cast() })
    }

    #[inline]
    pub fn u16(&self, pa: u64) -> Option<&AtomicU16> {
        self.atomic(pa)
    }

    #[inline]
    pub fn u32(&self, pa: u64) -> Option<&AtomicU32> {
        self.atomic(pa)
    }

    #[inline]
    pub fn u64(&self, pa: u64) -> Option<&AtomicU64> {
        self.atomic(pa)
    }
}
