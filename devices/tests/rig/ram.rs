//! Guest memory of a test.

use std::alloc::{alloc_zeroed, dealloc, Layout};
use tane_devices::GuestMemory;

const PAGE: usize = 4096;

/// Whole pages. Accessed byte by byte and volatile: the device's threads use it
/// at the same time.
pub struct Ram {
    base: *mut u8,
    layout: Layout,
}

// SAFETY: access is volatile or by the device's atomics, as in a real guest.
unsafe impl Send for Ram {}
unsafe impl Sync for Ram {}

impl Ram {
    pub fn new(len: usize) -> Self {
        let layout = Layout::from_size_align(len.next_multiple_of(PAGE), PAGE).unwrap();
        // SAFETY: not empty.
        let base = unsafe { alloc_zeroed(layout) };
        assert!(!base.is_null());
        Self { base, layout }
    }

    pub fn memory(&self) -> GuestMemory {
        // SAFETY: tests drop it after the device.
        unsafe { GuestMemory::new(self.base, self.layout.size() as u64) }
    }

    fn at(&self, pa: u64, len: usize) -> *mut u8 {
        assert!(pa as usize + len <= self.layout.size(), "{pa:#x}");
        self.base.wrapping_add(pa as usize)
    }

    pub fn write(&self, pa: u64, bytes: &[u8]) {
        let to = self.at(pa, bytes.len());
        for (i, byte) in bytes.iter().enumerate() {
            // SAFETY: checked to be inside.
            unsafe { to.add(i).write_volatile(*byte) };
        }
    }

    pub fn read(&self, pa: u64, len: usize) -> Vec<u8> {
        let from = self.at(pa, len);
        // SAFETY: checked to be inside.
        (0..len)
            .map(|i| unsafe { from.add(i).read_volatile() })
            .collect()
    }

    pub fn u16(&self, pa: u64) -> &std::sync::atomic::AtomicU16 {
        // SAFETY: checked to be inside; tests use even addresses.
        unsafe { &*self.at(pa, 2).cast() }
    }

    pub fn u32(&self, pa: u64) -> u32 {
        u32::from_le_bytes(self.read(pa, 4).try_into().unwrap())
    }

    /// From now on any access ends the process.
    pub fn protect(&self) {
        self.set(libc::PROT_NONE);
    }

    pub fn unprotect(&self) {
        self.set(libc::PROT_READ | libc::PROT_WRITE);
    }

    fn set(&self, prot: i32) {
        // SAFETY: whole pages of ours.
        let failed = unsafe { libc::mprotect(self.base.cast(), self.layout.size(), prot) };
        assert_eq!(failed, 0);
    }
}

impl Drop for Ram {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout.
        unsafe { dealloc(self.base, self.layout) };
    }
}
