//! Plain memory that plays the guest's RAM and registers.

use std::alloc::{alloc_zeroed, dealloc, Layout};
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, AtomicU8, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex};
use tane_devices::{GuestMemory, Interrupt, Slot};
use tane_host::abi;
use tane_test_support::PATIENCE;

/// RAM from physical address 0 on, with a simple allocator.
pub struct Ram {
    base: *mut u8,
    layout: Layout,
    next: Mutex<u64>,
}

// SAFETY: accessed by atomics only.
unsafe impl Send for Ram {}
// SAFETY: the same.
unsafe impl Sync for Ram {}

impl Ram {
    pub fn new(size: usize) -> Self {
        let layout = Layout::from_size_align(size, 4096).unwrap();
        // SAFETY: the size is not zero.
        let base = unsafe { alloc_zeroed(layout) };
        Self {
            base,
            layout,
            // So that address 0 is nothing of ours.
            next: Mutex::new(64),
        }
    }

    pub fn len(&self) -> u64 {
        self.layout.size() as u64
    }

    pub fn guest(&self) -> GuestMemory {
        // SAFETY: the tests keep the memory longer than the device.
        unsafe { GuestMemory::new(self.base, self.len()) }
    }

    /// The physical address of `len` bytes that nobody has yet.
    pub fn allocate(&self, len: usize, align: u64) -> u64 {
        let mut next = self.next.lock().unwrap();
        let at = next.next_multiple_of(align);
        *next = at + len as u64;
        assert!(*next <= self.len(), "the guest is out of memory");
        at
    }

    /// From now on any access ends the process.
    pub fn protect(&self) {
        self.set(libc::PROT_NONE);
    }

    pub fn unprotect(&self) {
        self.set(libc::PROT_READ | libc::PROT_WRITE);
    }

    fn set(&self, protection: i32) {
        // SAFETY: whole pages of ours.
        let failed = unsafe { libc::mprotect(self.base.cast(), self.layout.size(), protection) };
        assert_eq!(failed, 0);
    }

    /// Start again: everything is free, and zero as it was. A ring that is made of it
    /// must not seem to have requests.
    pub fn forget(&self) {
        let mut next = self.next.lock().unwrap();
        (0..*next).for_each(|at| self.byte(at).store(0, Relaxed));
        *next = 64;
    }

    pub fn byte(&self, pa: u64) -> &AtomicU8 {
        assert!(pa < self.len());
        // SAFETY: inside, and only accessed by atomics.
        unsafe { AtomicU8::from_ptr(self.base.add(pa as usize)) }
    }

    pub fn write(&self, pa: u64, bytes: &[u8]) {
        for (at, byte) in (pa..).zip(bytes) {
            self.byte(at).store(*byte, Relaxed);
        }
    }

    pub fn read(&self, pa: u64, len: usize) -> Vec<u8> {
        let bytes = pa..pa + len as u64;
        bytes.map(|at| self.byte(at).load(Relaxed)).collect()
    }

    pub fn u16(&self, pa: impl Into<u64>) -> &AtomicU16 {
        let pa = pa.into();
        assert!(pa.is_multiple_of(2) && pa + 2 <= self.len());
        // SAFETY: inside, aligned, and only accessed by atomics.
        unsafe { AtomicU16::from_ptr(self.base.add(pa as usize).cast()) }
    }

    pub fn u32(&self, pa: impl Into<u64>) -> &AtomicU32 {
        let pa = pa.into();
        assert!(pa.is_multiple_of(4) && pa + 4 <= self.len());
        // SAFETY: as above.
        unsafe { AtomicU32::from_ptr(self.base.add(pa as usize).cast()) }
    }

    pub fn u64(&self, pa: impl Into<u64>) -> &AtomicU64 {
        let pa = pa.into();
        assert!(pa.is_multiple_of(8) && pa + 8 <= self.len());
        // SAFETY: as above.
        unsafe { AtomicU64::from_ptr(self.base.add(pa as usize).cast()) }
    }
}

impl Drop for Ram {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout.
        unsafe { dealloc(self.base, self.layout) };
    }
}

/// An interrupt line that counts.
#[derive(Default)]
pub struct Line {
    /// All of them, and those from within a notification.
    counts: Mutex<(u64, u64)>,
    raised: Condvar,
}

impl Line {
    pub fn counts(&self) -> (u64, u64) {
        *self.counts.lock().unwrap()
    }

    /// Wait for more than `before`; `false` if none comes for long.
    pub fn wait(&self, before: u64) -> bool {
        let counts = self.counts.lock().unwrap();
        let wait = self
            .raised
            .wait_timeout_while(counts, PATIENCE, |c| c.0 <= before);
        !wait.unwrap().1.timed_out()
    }
}

impl Interrupt for Line {
    fn raise(&self, inside: bool) {
        let mut counts = self.counts.lock().unwrap();
        counts.0 += 1;
        counts.1 += u64::from(inside);
        self.raised.notify_all();
    }
}

/// The registers of one slot.
pub struct Registers(*mut abi::Virtio);

// SAFETY: accessed by atomics, or while the device does not look.
unsafe impl Send for Registers {}
// SAFETY: the same.
unsafe impl Sync for Registers {}

impl Default for Registers {
    fn default() -> Self {
        // SAFETY: a structure of integers.
        Self(unsafe { alloc_zeroed(Layout::new::<abi::Virtio>()).cast() })
    }
}

impl Registers {
    pub fn slot(&self, line: Arc<Line>) -> Arc<Slot> {
        // SAFETY: the tests keep the registers longer than the device.
        Arc::new(unsafe { Slot::new(self.0, line) })
    }

    pub fn pointer(&self) -> *mut abi::Virtio {
        self.0
    }

    pub fn set_status(&self, status: u32) {
        // SAFETY: ours.
        unsafe { (*self.0).status.store(status, Relaxed) };
    }

    pub fn status(&self) -> u32 {
        // SAFETY: ours.
        unsafe { (*self.0).status.load(Relaxed) }
    }

    /// As the kernel's handler does: read and clear.
    pub fn take_isr(&self) -> u32 {
        // SAFETY: ours.
        unsafe { (*self.0).isr.swap(0, Relaxed) }
    }

    pub fn generation(&self) -> u32 {
        // SAFETY: ours.
        unsafe { (*self.0).config_generation.load(Relaxed) }
    }

    fn config_at(&self, at: usize) -> &AtomicU8 {
        assert!(at < 256);
        // SAFETY: inside the array, and only accessed by atomics.
        unsafe { AtomicU8::from_ptr((&raw mut (*self.0).config).cast::<u8>().add(at)) }
    }

    pub fn config(&self, at: usize, len: usize) -> Vec<u8> {
        let bytes = at..at + len;
        bytes.map(|at| self.config_at(at).load(Relaxed)).collect()
    }

    pub fn set_config(&self, at: usize, byte: u8) {
        self.config_at(at).store(byte, Relaxed);
    }
}

impl Drop for Registers {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout.
        unsafe { dealloc(self.0.cast(), Layout::new::<abi::Virtio>()) };
    }
}
