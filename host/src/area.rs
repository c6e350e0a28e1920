//! What host and kernel share beside RAM: the virtual CPUs, the request slots
//! of the host's threads, the boot parameters, the table of host operations and
//! the device slots. All of it in the memfd, so a forked child has it too.

use crate::abi;
use crate::thread_slot::ThreadSlot;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;
use std::sync::Mutex;

/// Most host threads that can be attached at a time, process 1 included.
const MAX_THREADS: usize = 8192;

const fn page_align(n: usize) -> usize {
    n.next_multiple_of(4096)
}

const VCPUS: usize = 0;
const BOOT: usize = VCPUS + page_align(abi::MAX_VCPUS * size_of::<abi::Vcpu>());
const OPS: usize = BOOT + page_align(size_of::<abi::Boot>());
const VIRTIO: usize = OPS + page_align(size_of::<abi::Ops>());
const THREADS: usize = VIRTIO + page_align(abi::MAX_DEVICES * size_of::<abi::Virtio>());

/// Bytes of the area.
pub const SIZE: u64 = (THREADS + page_align(MAX_THREADS * size_of::<abi::Thread>())) as u64;

pub struct Area {
    start: *mut u8,
    free: Mutex<Slots>,
}

struct Slots {
    /// Slots given back.
    free: Vec<usize>,
    /// Slots from here on were never used. Slot 0 is process 1's.
    next: usize,
}

// SAFETY: the structures are shared with a kernel that runs on any thread; their
// mutable fields are atomics or owned by the holder of a lock or slot.
unsafe impl Send for Area {}
// SAFETY: the same.
unsafe impl Sync for Area {}

impl Area {
    /// # Safety
    /// `start` is [`SIZE`] bytes of zeroed shared memory that outlive this.
    pub unsafe fn new(start: *mut u8) -> Self {
        Self {
            start,
            free: Mutex::new(Slots {
                free: Vec::new(),
                next: 1,
            }),
        }
    }

    fn at<T>(&self, offset: usize) -> *mut T {
        // SAFETY: all offsets lie in the area.
        unsafe { self.start.add(offset).cast() }
    }

    pub fn vcpus(&self) -> *mut abi::Vcpu {
        self.at(VCPUS)
    }

    pub fn boot(&self) -> *mut abi::Boot {
        self.at(BOOT)
    }

    pub fn ops(&self) -> *mut abi::Ops {
        self.at(OPS)
    }

    pub fn virtio(&self) -> *mut abi::Virtio {
        self.at(VIRTIO)
    }

    fn threads(&self) -> *mut abi::Thread {
        self.at(THREADS)
    }

    /// Process 1's.
    pub fn init_thread(&self) -> ThreadSlot {
        self.slot(0)
    }

    fn slot(&self, index: usize) -> ThreadSlot {
        assert!(index < MAX_THREADS);
        // SAFETY: in the area, which outlives what is handed out.
        unsafe { ThreadSlot::new(NonNull::new_unchecked(self.threads().add(index))) }
    }

    /// A fresh slot; `None` when too many threads are attached.
    pub fn take_slot(&self) -> Option<ThreadSlot> {
        let mut slots = self.free.lock().unwrap();
        let index = slots.free.pop().or_else(|| {
            let index = slots.next;
            (index < MAX_THREADS).then(|| {
                slots.next += 1;
                index
            })
        })?;
        let slot = self.slot(index);
        // SAFETY: nobody's but for its atomics, which those may still read who found
        // the slot's last owner in a CPU's bias.
        unsafe { slot.reset() };
        Some(slot)
    }

    pub fn give_slot(&self, slot: ThreadSlot) {
        // SAFETY: both point into the area.
        let index = unsafe { slot.ptr().offset_from(self.threads()) } as usize;
        self.free.lock().unwrap().free.push(index);
    }

    fn used_slots(&self) -> impl Iterator<Item = ThreadSlot> + '_ {
        let next = self.free.lock().unwrap().next;
        (0..next).map(|index| self.slot(index))
    }

    /// Whether a host thread sleeps until its result is there.
    pub fn has_sleepers(&self) -> bool {
        self.used_slots().any(|slot| {
            slot.sleeping().load(Ordering::SeqCst) != 0
                && slot.state().load(Ordering::SeqCst) != abi::THREAD_DONE
        })
    }

    /// Wake every host thread that waits for a result.
    pub fn wake_all(&self) {
        for slot in self.used_slots() {
            if slot.sleeping().load(Ordering::SeqCst) != 0 {
                crate::futex::wake(slot.state());
            }
        }
    }
}
