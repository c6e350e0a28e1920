//! Putting a device into a running kernel, and taking it away.

use super::device::{Device, Interrupt};
use super::memory::GuestMemory;
use super::slot::Slot;
use super::transport::Transport;
use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use tane_host::{abi, Doorbell, Interrupter, Kernel, Saved};

/// Why a device did not get into the kernel.
#[derive(Debug)]
pub enum AttachError {
    /// All slots are taken.
    Full,
    /// The kernel's driver refused it, with this errno.
    Refused(i32),
    /// The kernel is gone.
    Dead,
    /// The kernel is that of a process of which this one is a fork.
    Foreign,
}

impl fmt::Display for AttachError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => write!(f, "all {} device slots are taken", abi::MAX_DEVICES),
            Self::Refused(errno) => write!(
                f,
                "the kernel refused the device: {}",
                std::io::Error::from_raw_os_error(*errno)
            ),
            Self::Dead => f.write_str("the kernel is gone"),
            Self::Foreign => f.write_str("the kernel is that of this process's parent"),
        }
    }
}

impl std::error::Error for AttachError {}

/// A device that the kernel knows. Dropping it removes it from the kernel, which
/// waits until requests under way are answered. Within what a kernel calls, such as a
/// device's backend, nothing can wait for it: a thread of its own removes it then, soon.
///
/// It keeps the kernel alive, and with it the memory its threads work on.
pub struct Attached<D: Device + 'static> {
    kernel: Kernel,
    slot: usize,
    device: Arc<D>,
    bell: Arc<Bell>,
}

/// The slots in use, of all kernels, by their addresses. The kernel empties a
/// slot a moment before its doorbell is free.
static TAKEN: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());

fn taken() -> MutexGuard<'static, BTreeSet<usize>> {
    TAKEN.lock().unwrap_or_else(|e| e.into_inner())
}

/// Take a slot that nobody uses.
fn take(kernel: &Kernel) -> Option<usize> {
    let mut taken = taken();
    let slot = (0..abi::MAX_DEVICES).find(|&slot| {
        state(kernel, slot).load(Ordering::Acquire) == abi::VIRTIO_EMPTY
            && !taken.contains(&(kernel.virtio(slot) as usize))
    })?;
    taken.insert(kernel.virtio(slot) as usize);
    Some(slot)
}

impl<D: Device + 'static> Attached<D> {
    /// Put a device into a free slot and wait until the kernel has probed it. It
    /// is in no other slot. Within what a kernel calls, such as a device's backend, it is
    /// refused with EDEADLK.
    pub fn new(kernel: &Kernel, device: Arc<D>) -> Result<Self, AttachError> {
        if kernel.is_foreign() {
            return Err(AttachError::Foreign);
        }
        // The kernel would have to look at it, by this very thread.
        if kernel.is_inside() {
            return Err(AttachError::Refused(libc::EDEADLK));
        }
        let slot = take(kernel).ok_or(AttachError::Full)?;
        let layout = kernel.layout();
        let line = Arc::new(Line {
            interrupter: kernel.interrupter(),
            slot: slot as u32,
        });
        // SAFETY: the kernel's RAM and slots; `stop` is called before they go.
        let (memory, registers) = unsafe {
            (
                GuestMemory::new(layout.base as *mut u8, layout.ram_size),
                Slot::new(kernel.virtio(slot), line),
            )
        };
        let transport = Transport::new(device.clone(), Arc::new(registers), memory);
        let bell = Arc::new(Bell(transport));
        kernel.set_doorbell(slot, Some(bell.clone()));
        state(kernel, slot).store(abi::VIRTIO_PRESENT, Ordering::Release);
        let attached = Self {
            kernel: kernel.clone(),
            slot,
            device,
            bell,
        };
        kernel.raise_hotplug();
        match kernel.wait_virtio(slot, abi::VIRTIO_PRESENT) {
            abi::VIRTIO_BOUND => Ok(attached),
            abi::VIRTIO_FAILED => {
                // SAFETY: the kernel has written it before the state.
                let errno = unsafe { (&raw const (*kernel.virtio(slot)).error).read_volatile() };
                Err(AttachError::Refused(errno as i32))
            }
            _ => Err(AttachError::Dead),
        }
    }

    /// The slot, which names the device in /sys/devices/platform/tane-virtio.N.
    pub fn slot(&self) -> usize {
        self.slot
    }

    /// The device itself.
    pub fn device(&self) -> &Arc<D> {
        &self.device
    }

    /// Change the device's configuration from byte `at` on, and tell the driver.
    pub fn change_config(&self, at: usize, bytes: &[u8]) {
        self.bell.0.slot().change_config(at, bytes);
    }
}

impl<D: Device> Drop for Attached<D> {
    fn drop(&mut self) {
        if self.kernel.is_foreign() {
            // The slot is shared with the parent, which still has the device. The
            // threads that serve it are not here to be stopped, nor is what its
            // backend holds ours to be written.
            std::mem::forget((self.device.clone(), self.bell.clone()));
            return;
        }
        if self.kernel.is_alive() && self.kernel.is_inside() {
            // If the host has no thread for that, it stays until the kernel goes.
            let later = ManuallyDrop::new(Self {
                kernel: self.kernel.clone(),
                slot: self.slot,
                device: self.device.clone(),
                bell: self.bell.clone(),
            });
            let thread = std::thread::Builder::new().name("tane-remove".into());
            thread
                .spawn(move || drop(ManuallyDrop::into_inner(later)))
                .ok();
            return;
        }
        let state = state(&self.kernel, self.slot);
        if self.kernel.is_alive() {
            let now = state.load(Ordering::Acquire);
            if now == abi::VIRTIO_BOUND {
                state.store(abi::VIRTIO_REMOVE, Ordering::Release);
                self.kernel.raise_hotplug();
                self.kernel.wait_virtio(self.slot, abi::VIRTIO_REMOVE);
            } else if now == abi::VIRTIO_FAILED {
                state.store(abi::VIRTIO_EMPTY, Ordering::Release);
            }
        }
        self.kernel.set_doorbell(self.slot, None);
        self.bell.0.stop();
        taken().remove(&(self.kernel.virtio(self.slot) as usize));
    }
}

fn state(kernel: &Kernel, slot: usize) -> &AtomicU32 {
    // SAFETY: in the kernel's shared area, which lives as long as the kernel.
    unsafe { &(*kernel.virtio(slot)).state }
}

/// What the kernel's doorbell rings. It knows its slot, not its kernel, which
/// owns it.
struct Bell(Transport);

impl Doorbell for Bell {
    fn notify(&self, queue: u32) {
        self.0.notify(queue);
    }

    fn status(&self) {
        self.0.status();
    }

    fn is_busy(&self) -> bool {
        self.0.is_busy()
    }

    fn stop(&self) {
        self.0.stop();
    }

    fn save(&self) -> io::Result<Box<dyn Saved>> {
        self.0.save()
    }
}

/// A slot's interrupt line.
struct Line {
    interrupter: Interrupter,
    slot: u32,
}

impl Interrupt for Line {
    fn raise(&self, inside: bool) {
        self.interrupter.raise(self.slot, inside);
    }
}
