//! What host and kernel share beside RAM: the virtual CPUs, the request slots
//! of the host's threads, the boot parameters, the table of host operations,
//! the device slots, and what the host keeps for itself. All of it in the memfd, so a
//! forked child has it too.

use crate::abi;
use crate::processes::Shared;
use crate::thread_slot::ThreadSlot;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
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
const COMMON: usize = THREADS + page_align(MAX_THREADS * size_of::<abi::Thread>());

/// Bytes of the area.
pub const SIZE: u64 = (COMMON + page_align(size_of::<Common>())) as u64;

pub struct Area {
    start: *mut u8,
    /// While it is held no slot of a program's thread is given back.
    programs: Mutex<()>,
    /// Bit by bit, the slots that a checkpoint has a task for: nobody else gets them.
    kept: Vec<AtomicU64>,
}

/// What the host's own side keeps there, for all processes that share the kernel. No
/// lock is in it: whoever held one might be killed.
#[repr(C)]
pub struct Common {
    /// 0 alive; 1 dying: the reason is set; 2 dead: everyone knows.
    pub dead: AtomicU32,
    /// Bit by bit, the slots that are somebody's.
    slots: [AtomicU64; MAX_THREADS / 64],
    /// All zeros in a kernel that is not shared.
    pub shared: Shared,
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
            programs: Mutex::new(()),
            kept: (0..MAX_THREADS / 64).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    pub fn common(&self) -> &Common {
        // SAFETY: in the area; all zeros are one, and every field is atomic.
        unsafe { &*self.at::<Common>(COMMON) }
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

    /// A fresh slot for a thread of that process; `None` when too many threads are
    /// attached. Slot 0 is process 1's.
    pub fn take_slot(&self, process: u32) -> Option<ThreadSlot> {
        let words = self.common().slots.iter().enumerate();
        for (number, word) in words {
            let kept = self.kept[number].load(Ordering::SeqCst);
            let reserved = u64::from(number == 0) | kept;
            let mut taken = word.load(Ordering::Relaxed);
            while taken | reserved != u64::MAX {
                let bit = (taken | reserved).trailing_ones();
                let more = taken | 1 << bit;
                match word.compare_exchange(taken, more, Ordering::Acquire, Ordering::Relaxed) {
                    Ok(_) => {
                        let slot = self.slot(number * 64 + bit as usize);
                        // SAFETY: nobody's but for its atomics, which those may still
                        // read who found the slot's last owner in a CPU's bias.
                        unsafe { slot.reset() };
                        slot.process().store(process, Ordering::Release);
                        return Some(slot);
                    }
                    Err(now) => taken = now,
                }
            }
        }
        None
    }

    pub fn give_slot(&self, slot: ThreadSlot) {
        let index = self.index(slot);
        let word = &self.common().slots[index / 64];
        let free = || word.fetch_and(!(1 << (index % 64)), Ordering::Release);
        if slot.program().load(Ordering::Relaxed) == 0 {
            free();
            return;
        }
        let _none = self.programs.lock().unwrap_or_else(|e| e.into_inner());
        // What it was the slot of may be unmapped from now on.
        slot.program().store(0, Ordering::Relaxed);
        free();
    }

    /// Each slot of a thread that runs a program. None is given back meanwhile.
    pub fn with_programs(&self, each: impl FnMut(ThreadSlot)) {
        let _none = self.programs.lock().unwrap_or_else(|e| e.into_inner());
        self.used_slots()
            .filter(|slot| slot.program().load(Ordering::Relaxed) != 0)
            .for_each(each);
    }

    /// Those that are somebody's.
    pub fn used_slots(&self) -> impl Iterator<Item = ThreadSlot> + '_ {
        let words = self.common().slots.iter().enumerate();
        words.flat_map(move |(number, word)| {
            let mut left = word.load(Ordering::Acquire) | u64::from(number == 0);
            std::iter::from_fn(move || {
                let bit = left.trailing_zeros();
                left &= left.wrapping_sub(1);
                (bit < u64::BITS).then(|| self.slot(number * 64 + bit as usize))
            })
        })
    }

    /// Whether a slot is somebody's.
    pub fn is_used(&self, slot: ThreadSlot) -> bool {
        self.used_slots().any(|used| used == slot)
    }

    /// Give none of these slots to anybody who has none yet, and no others: checkpoints
    /// have tasks for them.
    pub fn keep_slots(&self, slots: impl Iterator<Item = ThreadSlot>) {
        let mut bits = vec![0; self.kept.len()];
        for slot in slots {
            let index = self.index(slot);
            bits[index / 64] |= 1 << (index % 64);
        }
        for (word, bits) in self.kept.iter().zip(bits) {
            word.store(bits, Ordering::SeqCst);
        }
    }

    fn index(&self, slot: ThreadSlot) -> usize {
        // SAFETY: both point into the area.
        unsafe { slot.ptr().offset_from(self.threads()) as usize }
    }

    /// No thread finds its task current any more, so none goes in by the fast way. For a
    /// kernel that has ended.
    pub fn forget_tasks(&self) {
        for slot in self.used_slots() {
            slot.task().store(0, Ordering::SeqCst);
        }
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
