//! A device's registers: its slot in the memory that kernel and host share
//! (`struct tane_virtio` in asm/host.h).

use super::device::Interrupt;
use super::queue::QueueLayout;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicU8, Ordering};
use std::sync::Arc;
use tane_host::{abi, Physical};

pub const RING_INDIRECT: u64 = 1 << 28;
pub const RING_EVENT_IDX: u64 = 1 << 29;
pub const VERSION_1: u64 = 1 << 32;

const STATUS_NEEDS_RESET: u32 = 64;
const ISR_USED: u32 = 1;
const ISR_CONFIG: u32 = 2;
const CONFIG_SIZE: usize = 256;

/// The registers, and the interrupt line that belongs to them.
///
/// The kernel writes to them at any time: no reference ever covers more than
/// one atomic field.
pub struct Slot {
    registers: *mut abi::Virtio,
    line: Arc<dyn Interrupt>,
}

// SAFETY: shared memory, accessed by atomics and by volatile reads of fields
// that the kernel writes before it says so.
unsafe impl Send for Slot {}
// SAFETY: the same.
unsafe impl Sync for Slot {}

impl Slot {
    /// # Safety
    /// `registers` stays mapped until the last user of the slot has let go of
    /// it: until [`Transport::stop`](crate::Transport::stop) has returned.
    pub unsafe fn new(registers: *mut abi::Virtio, line: Arc<dyn Interrupt>) -> Self {
        Self { registers, line }
    }

    /// There are used buffers that the driver wants to know of.
    pub fn used(&self, inside: bool) {
        self.interrupt(ISR_USED, inside);
    }

    /// Change the configuration from byte `at` on, and tell the driver.
    pub fn change_config(&self, at: usize, bytes: &[u8]) {
        assert!(at + bytes.len() <= CONFIG_SIZE, "beyond the configuration");
        // On both sides: who reads in between sees a change either way.
        self.generation().fetch_add(1, Ordering::SeqCst);
        for (at, byte) in (at..).zip(bytes) {
            self.config(at).store(*byte, Ordering::Relaxed);
        }
        self.generation().fetch_add(1, Ordering::SeqCst);
        self.interrupt(ISR_CONFIG, false);
    }

    /// A byte of the configuration, which a driver may have written.
    pub fn config_byte(&self, at: usize) -> u8 {
        self.config(at).load(Ordering::Relaxed)
    }

    /// The driver broke the rules: it must reset the device (virtio 1.2, 2.1.2).
    pub fn needs_reset(&self, inside: bool) {
        self.status_register()
            .fetch_or(STATUS_NEEDS_RESET, Ordering::SeqCst);
        self.interrupt(ISR_CONFIG, inside);
    }

    /// What the driver wrote.
    pub fn status(&self) -> u32 {
        self.status_register().load(Ordering::Acquire)
    }

    /// The features that the driver accepted.
    pub fn driver_features(&self) -> u64 {
        // SAFETY: mapped; the kernel wrote it before the status.
        unsafe { (&raw const (*self.registers).driver_features).read_volatile() }
    }

    /// Where the driver put queue `index`; `None` if it did not.
    pub fn queue(&self, index: usize) -> Option<QueueLayout> {
        assert!(index < abi::MAX_QUEUES);
        let features = self.driver_features();
        // SAFETY: mapped; the kernel wrote the fields before the status.
        unsafe {
            let queue = (&raw const (*self.registers).queues)
                .cast::<abi::VirtioQueue>()
                .add(index);
            let address = |field: *const AtomicU64| Physical((*field).load(Ordering::Relaxed));
            let ready = (&raw const (*queue).ready).read_volatile();
            (ready != 0).then(|| QueueLayout {
                desc: address(&raw const (*queue).desc),
                driver: address(&raw const (*queue).driver),
                device: address(&raw const (*queue).device),
                size: (&raw const (*queue).size).read_volatile(),
                event_idx: features & RING_EVENT_IDX != 0,
                indirect: features & RING_INDIRECT != 0,
            })
        }
    }

    /// Fill the registers of an empty slot.
    pub fn describe(&self, id: u32, features: u64, config: &[u8], queue_sizes: &[u16]) {
        assert!(config.len() <= CONFIG_SIZE && queue_sizes.len() <= abi::MAX_QUEUES);
        let r = self.registers;
        // SAFETY: mapped; the kernel does not look at an empty slot.
        unsafe {
            (&raw mut (*r).device_id).write_volatile(id);
            (&raw mut (*r).device_features).write_volatile(features);
            (&raw mut (*r).driver_features).write_volatile(0);
            (&raw mut (*r).error).write_volatile(0);
            (*r).status.store(0, Ordering::Relaxed);
            (*r).isr.store(0, Ordering::Relaxed);
            (&raw mut (*r).config_size).write_volatile(config.len() as u32);
            (&raw mut (*r).nr_queues).write_volatile(queue_sizes.len() as u32);
            for at in 0..CONFIG_SIZE {
                let byte = config.get(at).copied().unwrap_or(0);
                self.config(at).store(byte, Ordering::Relaxed);
            }
            for index in 0..abi::MAX_QUEUES {
                let queue = (&raw mut (*r).queues).cast::<abi::VirtioQueue>().add(index);
                let most = queue_sizes.get(index).copied().unwrap_or(0);
                (&raw mut (*queue).ready).write_volatile(0);
                (&raw mut (*queue).size).write_volatile(0);
                (&raw mut (*queue).size_max).write_volatile(most);
            }
        }
    }

    fn interrupt(&self, why: u32, inside: bool) {
        // SAFETY: mapped.
        unsafe { (*self.registers).isr.fetch_or(why, Ordering::SeqCst) };
        self.line.raise(inside);
    }

    fn status_register(&self) -> &AtomicU32 {
        // SAFETY: mapped.
        unsafe { &(*self.registers).status }
    }

    fn generation(&self) -> &AtomicU32 {
        // SAFETY: mapped.
        unsafe { &(*self.registers).config_generation }
    }

    fn config(&self, at: usize) -> &AtomicU8 {
        assert!(at < CONFIG_SIZE);
        // SAFETY: mapped and inside the array.
        unsafe { AtomicU8::from_ptr((&raw mut (*self.registers).config).cast::<u8>().add(at)) }
    }
}
