//! What a kernel was at its checkpoints, and how it becomes that again: its CPUs, the slots
//! of its threads, its devices; and which pages of memory were something else. Nobody is
//! inside the kernel meanwhile.

use crate::abi;
use crate::checkpoint::CheckpointError;
use crate::cpu::Cpu;
use crate::inner::{Doorbells, Inner};
use crate::kernel::{Doorbell, Saved};
use crate::mirror::{Mirror, Pages};
use crate::thread_slot::{ThreadSlot, UNKNOWN};
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};

/// Words of a device.
const REGISTERS: usize = size_of::<abi::Virtio>() / size_of::<AtomicU32>();

/// Those of a kernel.
#[derive(Default)]
pub struct Checkpoints {
    /// The memory at the newest of `levels`.
    pub mirror: Option<Mirror>,
    pub levels: Vec<Level>,
    pub last_id: u64,
}

pub struct Level {
    pub id: u64,
    /// Nobody goes back to it.
    pub released: bool,
    /// Those that were something else at the next level.
    pub pages: Pages,
    pub cpus: Vec<CpuState>,
    pub slots: Vec<SlotState>,
    pub devices: Vec<Option<Device>>,
    pub clock: Option<[u64; 2]>,
    pub code: u64,
}

pub struct Device {
    doorbell: Weak<dyn Doorbell>,
    registers: Vec<u32>,
    pub saved: Box<dyn Saved>,
}

/// What the kernel wrote of `struct tane_vcpu`. No request is linked.
pub struct CpuState {
    pending: u64,
    irq_enabled: u32,
    online: u32,
    relaxed: u32,
    kernel_sp: u64,
    switches: u64,
    current_task: u64,
    percpu_offset: u64,
    deadline: u64,
    in_user: u64,
    window: u64,
}

/// And of `struct tane_thread`, which is idle.
pub struct SlotState {
    address: u64,
    task: u64,
    vcpu: u32,
}

impl Checkpoints {
    /// Nobody goes back to that one any more.
    pub(crate) fn release(&mut self, id: u64) {
        let Some(at) = self.levels.iter().position(|level| level.id == id) else {
            return;
        };
        self.levels[at].released = true;
        self.levels[at].devices.clear();
        if at + 1 < self.levels.len() {
            self.merge(at);
        }
        if self.levels.iter().all(|level| level.released) {
            self.levels.clear();
        }
    }

    /// What the level below needs of a released one becomes its own.
    pub(crate) fn merge(&mut self, at: usize) {
        let level = self.levels.remove(at);
        if let Some(below) = at.checked_sub(1) {
            let below = &mut self.levels[below];
            for (number, page) in level.pages {
                below.pages.entry(number).or_insert(page);
            }
        }
    }
}

impl Checkpoints {
    /// The memory becomes what it was at that level. Nobody is inside.
    pub(crate) fn go_back(&mut self, at: usize, changed: &[Range<u64>]) -> io::Result<()> {
        let mirror = self.mirror.as_mut().expect("with the first level");
        mirror.restore(changed);
        for level in self.levels[at..].iter().rev() {
            mirror.put(&level.pages);
        }
        self.levels.truncate(at + 1);
        self.levels[at].pages = Pages::new();
        mirror.settle()
    }
}

impl CpuState {
    pub(crate) fn of(cpu: Cpu) -> Self {
        let vcpu = cpu.ptr();
        // SAFETY: locked, so that the kernel writes nothing of it.
        unsafe {
            Self {
                pending: cpu.pending().load(Ordering::SeqCst),
                irq_enabled: cpu.irq_enabled().load(Ordering::SeqCst),
                online: cpu.online().load(Ordering::SeqCst),
                relaxed: (&raw const (*vcpu).relaxed).read(),
                kernel_sp: (&raw const (*vcpu).kernel_sp).read(),
                switches: (&raw const (*vcpu).switches).read(),
                current_task: cpu.current_task().load(Ordering::SeqCst),
                percpu_offset: (&raw const (*vcpu).percpu_offset).read(),
                deadline: cpu.deadline().load(Ordering::SeqCst),
                in_user: (&raw const (*vcpu).in_user).read(),
                window: (&raw const (*vcpu).window).read(),
            }
        }
    }

    fn put_back(&self, cpu: Cpu) {
        let vcpu = cpu.ptr();
        // SAFETY: as above.
        unsafe {
            (&raw mut (*vcpu).relaxed).write(self.relaxed);
            (&raw mut (*vcpu).kernel_sp).write(self.kernel_sp);
            (&raw mut (*vcpu).switches).write(self.switches);
            (&raw mut (*vcpu).percpu_offset).write(self.percpu_offset);
            (&raw mut (*vcpu).in_user).write(self.in_user);
            (&raw mut (*vcpu).window).write(self.window);
        }
        cpu.irq_enabled().store(self.irq_enabled, Ordering::SeqCst);
        cpu.online().store(self.online, Ordering::SeqCst);
        cpu.current_task()
            .store(self.current_task, Ordering::SeqCst);
        cpu.deadline().store(self.deadline, Ordering::SeqCst);
        // What came up meanwhile is looked at once too often, which does no harm.
        cpu.pending().fetch_or(self.pending, Ordering::SeqCst);
    }
}

impl SlotState {
    fn slot(&self) -> ThreadSlot {
        // SAFETY: it was a slot's, and slots lie in the area.
        unsafe { ThreadSlot::at(self.address) }
    }

    /// None: the kernel has no task for it, or not yet.
    pub(crate) fn of(slot: ThreadSlot) -> Option<Self> {
        let task = slot.task().load(Ordering::SeqCst);
        (![0, UNKNOWN].contains(&task)).then(|| Self {
            address: slot.address(),
            task,
            vcpu: slot.vcpu().load(Ordering::SeqCst),
        })
    }
}

pub(crate) fn has_same_devices(devices: &Doorbells, level: &Level) -> Result<(), CheckpointError> {
    for (slot, (now, then)) in devices.iter().zip(&level.devices).enumerate() {
        let then = then.as_ref().map(|device| device.doorbell.upgrade());
        let what = match (now.as_ref(), then) {
            (None, None) => continue,
            (Some(now), Some(Some(then))) if Arc::ptr_eq(now, &then) => continue,
            (Some(_), None) => "was added since: remove it first",
            _ => "was removed since, and cannot come back",
        };
        let text = format!("the device in slot {slot} {what}");
        return Err(CheckpointError::new(libc::EBUSY, text));
    }
    Ok(())
}

impl Inner {
    pub(crate) fn save_devices(&self) -> Result<Vec<Option<Device>>, CheckpointError> {
        let save = |(slot, doorbell): (usize, Option<Arc<dyn Doorbell>>)| {
            let Some(doorbell) = doorbell else {
                return Ok(None);
            };
            let cannot = |e| CheckpointError::host(&format!("the device in slot {slot}"), &e);
            Ok(Some(Device {
                saved: doorbell.save().map_err(cannot)?,
                registers: self
                    .registers(slot)
                    .map(|word| word.load(Ordering::SeqCst))
                    .collect(),
                doorbell: Arc::downgrade(&doorbell),
            }))
        };
        self.all_doorbells().enumerate().map(save).collect()
    }

    /// The registers of a device, word by word, of which the first is its state.
    fn registers(&self, slot: usize) -> impl Iterator<Item = &AtomicU32> {
        let start = self.virtio(slot).cast::<AtomicU32>();
        // SAFETY: in the area; made of integers, which host and kernel write at any time.
        (0..REGISTERS).map(move |at| unsafe { &*start.add(at) })
    }

    /// All that is not memory, and the slots that have a task again but no thread. Nobody
    /// is inside.
    pub(crate) fn put_back(&self, level: &Level) -> Vec<ThreadSlot> {
        for (cpu, state) in self.cpus().iter().zip(&level.cpus) {
            state.put_back(*cpu);
        }
        for (slot, device) in level.devices.iter().enumerate() {
            let then = device.iter().flat_map(|device| &device.registers);
            for (at, (word, then)) in self.registers(slot).zip(then).enumerate() {
                let now = word.load(Ordering::SeqCst);
                // It is just being taken away: the kernel looks at that again.
                let goes = at == 0 && now == abi::VIRTIO_REMOVE;
                if now != *then && !goes {
                    let (order, failed) = (Ordering::SeqCst, Ordering::SeqCst);
                    word.compare_exchange(now, *then, order, failed).ok();
                }
            }
        }
        self.clock.set(level.clock);
        // Who has come since is not known inside, and comes again.
        for slot in self.area.used_slots() {
            if slot.task().load(Ordering::SeqCst) != 0 {
                slot.task().store(UNKNOWN, Ordering::SeqCst);
            }
        }
        let mut ended = Vec::new();
        for state in &level.slots {
            let slot = state.slot();
            slot.task().store(state.task, Ordering::SeqCst);
            slot.vcpu().store(state.vcpu, Ordering::SeqCst);
            if !self.area.is_used(slot) {
                ended.push(slot);
            }
        }
        ended
    }

    pub(crate) fn keep_slots(&self, all: &Checkpoints) {
        let kept = all.levels.iter().flat_map(|level| &level.slots);
        self.area.keep_slots(kept.map(SlotState::slot));
    }
}
