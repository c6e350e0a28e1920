//! The transport: what a driver does to a slot's registers becomes calls of the
//! device behind it.

use super::device::Device;
use super::memory::GuestMemory;
use super::queue::Queue;
use super::slot::{Slot, RING_EVENT_IDX, RING_INDIRECT, VERSION_1};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use tane_host::Saved;

const STATUS_DRIVER_OK: u32 = 4;

/// A device and the slot it is in.
pub struct Transport {
    device: Arc<dyn Device>,
    slot: Arc<Slot>,
    memory: GuestMemory,
    /// Whether the device is active; orders changes of that.
    active: Arc<Mutex<bool>>,
}

/// What was behind the registers.
struct SavedTransport {
    device: Box<dyn Saved>,
    active: Arc<Mutex<bool>>,
    was_active: bool,
}

impl Saved for SavedTransport {
    fn roll_back(&self) -> io::Result<()> {
        let mut active = self.active.lock().unwrap_or_else(PoisonError::into_inner);
        *active = self.was_active;
        self.device.roll_back()
    }
}

impl Transport {
    /// Describe `device` in the registers of a slot that is still empty. The
    /// caller then says that it is there ([`tane_host::abi::VIRTIO_PRESENT`]).
    pub fn new(device: Arc<dyn Device>, slot: Arc<Slot>, memory: GuestMemory) -> Self {
        let features = device.features() | RING_INDIRECT | RING_EVENT_IDX | VERSION_1;
        slot.describe(
            device.id(),
            features,
            &device.config(),
            &device.queue_sizes(),
        );
        Self {
            device,
            slot,
            memory,
            active: Arc::default(),
        }
    }

    /// Where its registers are.
    pub fn slot(&self) -> &Arc<Slot> {
        &self.slot
    }

    /// The driver has notified queue `index`. Never blocks.
    pub fn notify(&self, index: u32) {
        self.device.notify(index as usize);
    }

    /// See [`Device::is_busy`].
    pub fn is_busy(&self) -> bool {
        self.device.is_busy()
    }

    /// See [`Device::save`].
    pub fn save(&self) -> io::Result<Box<dyn Saved>> {
        let was_active = *self.active.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(Box::new(SavedTransport {
            device: self.device.save()?,
            active: self.active.clone(),
            was_active,
        }))
    }

    /// The driver has written the status. A reset (0) may block.
    pub fn status(&self) {
        let mut active = self.active.lock().unwrap_or_else(|e| e.into_inner());
        let status = self.slot.status();
        if status & STATUS_DRIVER_OK != 0 && !*active {
            *active = true;
            self.activate();
        } else if status == 0 && *active {
            self.device.reset();
            *active = false;
        }
    }

    fn activate(&self) {
        let sizes = self.device.queue_sizes();
        let mut broken = false;
        let queues = sizes.iter().enumerate().map(|(index, &most)| {
            let layout = self.slot.queue(index)?;
            let queue = Queue::new(self.memory, layout);
            broken |= layout.size > most || queue.is_err();
            queue.ok().filter(|_| layout.size <= most)
        });
        let queues: Vec<_> = queues.collect();
        let features = self.slot.driver_features();
        self.device.activate(features, queues, self.slot.clone());
        if broken {
            self.slot.needs_reset(true);
        }
        // The driver may have put buffers there before it was ready.
        for index in 0..sizes.len() {
            self.device.notify(index);
        }
    }

    /// The memory of queues and registers is about to go: when this returns
    /// nothing touches it any more. May block.
    pub fn stop(&self) {
        let mut active = self.active.lock().unwrap_or_else(|e| e.into_inner());
        self.device.stop();
        *active = false;
    }
}
