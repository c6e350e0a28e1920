//! A kernel's state on the host's side, shared by its handles and threads.

use crate::abi;
use crate::area::Area;
use crate::bias;
use crate::call::Wait;
use crate::clock::Clock;
use crate::cpu::{Cpu, CpuNumber, Gate};
use crate::futex;
use crate::intercept::Interception;
use crate::kernel::Doorbell;
use crate::levels::Checkpoints;
use crate::log::Log;
use crate::memory::Memory;
use crate::moment::Moments;
use crate::processes::Member;
use crate::quiet::Door;
use crate::run_carriers::Carriers;
use crate::run_counts::Counts;
use crate::run_trace::ProgramTracer;
use crate::thread::Tid;
use crate::{fork, service, signals};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{
    Arc, Mutex, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak,
};
use std::thread::JoinHandle;

pub(crate) struct Inner {
    pub id: u64,
    pub memory: Memory,
    pub area: Area,
    pub gate: Gate,
    pub header: abi::ImageHeader,
    pub log: Log,
    pub clock: Clock,
    /// Whether threads look for a result before they sleep.
    pub spin: bool,
    /// The GS base of the first CPU, and the size of all of them: 0 if no thread can
    /// keep one between its calls.
    pub first_base: u64,
    pub kept_bytes: u64,
    /// The same until the first checkpoint, and 0 then: calls may be of a moment.
    pub timeless_bytes: AtomicU64,
    pub counts: Counts,
    pub carriers: Carriers,
    /// Who rewrites the code of programs.
    pub interception: OnceLock<Arc<dyn Interception>>,
    /// Who is shown their system calls.
    pub tracer: OnceLock<Arc<dyn ProgramTracer>>,
    cpus: Vec<Cpu>,
    doorbells: Vec<RwLock<Option<Arc<dyn Doorbell>>>>,
    /// Serialises requests through process 1's slot, in a kernel that is not shared.
    init: Mutex<()>,
    /// What this process is among those that share the kernel, if any may.
    pub member: Option<Member>,
    reason: Mutex<Option<Death>>,
    pub checkpoints: Mutex<Checkpoints>,
    pub door: Door,
    pub moments: Moments,
    /// Calls that began without a request, and have to wait for their answer.
    pub waiting: AtomicU32,
    /// Compare memory, though the host could tell what was written.
    pub compare: bool,
    /// Tasks of modules and the like (program.rs).
    pub modules: AtomicU32,
    service: Mutex<Vec<JoinHandle<()>>>,
    registered: bool,
    /// `fork::count()` of the process that made it, or that has a part in it.
    pub forks: AtomicU64,
}

/// Who answers the doorbells, slot by slot.
pub(crate) type Doorbells<'k> = Vec<RwLockReadGuard<'k, Option<Arc<dyn Doorbell>>>>;

#[derive(Clone)]
struct Death {
    panicked: bool,
    text: String,
}

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// The kernels of this process, for faults in their user windows.
static KERNELS: RwLock<Vec<(u64, Weak<Inner>)>> = RwLock::new(Vec::new());

pub(crate) fn find(id: u64) -> Option<Arc<Inner>> {
    let kernels = KERNELS.read().unwrap_or_else(|e| e.into_inner());
    let (_, kernel) = kernels.iter().find(|(known, _)| *known == id)?;
    kernel.upgrade()
}

/// What boot.rs makes before there is a kernel.
pub(crate) struct Parts {
    pub memory: Memory,
    pub area: Area,
    pub gate: Gate,
    pub header: abi::ImageHeader,
    pub log: Log,
    pub clock: Clock,
    pub spin: bool,
    pub shared: bool,
    pub compare: bool,
}

/// Those that forks of this process are going to share.
pub(crate) fn shared() -> Vec<Arc<Inner>> {
    let alive = || -> Vec<_> {
        let kernels = KERNELS.read().unwrap_or_else(PoisonError::into_inner);
        let alive = kernels.iter().filter_map(|(_, kernel)| kernel.upgrade());
        alive.collect()
    };
    // Not with the lock: one of them may be dropped here.
    let is_shared = |kernel: &Arc<Inner>| {
        let up = kernel.member.as_ref().is_some_and(Member::is_up);
        up && !kernel.is_foreign() && !kernel.is_dead()
    };
    alive().into_iter().filter(is_shared).collect()
}

/// No kernel is made or dropped while it exists, nor looked for.
pub(crate) type Known = RwLockWriteGuard<'static, Vec<(u64, Weak<Inner>)>>;

pub(crate) fn lock() -> Known {
    KERNELS.write().unwrap_or_else(PoisonError::into_inner)
}

impl Inner {
    /// A kernel that the process knows of but that has not run yet. `None`: the
    /// process has too many.
    pub fn new(parts: Parts, cpus: u32) -> Option<Arc<Self>> {
        let member = parts.shared.then(|| Member::first(&parts.area));
        let kept_bytes = if bias::possible() && !parts.shared {
            cpus as u64 * size_of::<abi::Vcpu>() as u64
        } else {
            0
        };
        let mut inner = Self {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            // SAFETY: the CPUs live in the area, which lives as long as this.
            cpus: (0..cpus as usize)
                .map(|i| unsafe { Cpu::new(parts.area.vcpus().add(i)) })
                .collect(),
            // SAFETY: as above.
            first_base: unsafe { Cpu::new(parts.area.vcpus()) }.base(),
            kept_bytes,
            timeless_bytes: AtomicU64::new(kept_bytes),
            memory: parts.memory,
            area: parts.area,
            gate: parts.gate,
            header: parts.header,
            log: parts.log,
            clock: parts.clock,
            spin: parts.spin,
            counts: Counts::new(),
            carriers: Carriers::default(),
            interception: OnceLock::new(),
            tracer: OnceLock::new(),
            doorbells: (0..abi::MAX_DEVICES).map(|_| RwLock::new(None)).collect(),
            init: Mutex::new(()),
            member,
            reason: Mutex::new(None),
            checkpoints: Mutex::default(),
            door: Door::default(),
            moments: Moments::default(),
            waiting: AtomicU32::new(0),
            compare: parts.compare,
            modules: AtomicU32::new(0),
            service: Mutex::new(Vec::new()),
            registered: false,
            forks: AtomicU64::new(fork::count()),
        };
        inner.registered = signals::register(&inner);
        if !inner.registered {
            return None;
        }
        let inner = Arc::new(inner);
        lock().push((inner.id, Arc::downgrade(&inner)));
        Some(inner)
    }

    pub fn cpus(&self) -> &[Cpu] {
        &self.cpus
    }

    pub fn add_service(&self, thread: JoinHandle<()>) {
        self.service.lock().unwrap().push(thread);
    }

    /// Who answers a device's doorbell from now on.
    pub fn set_doorbell(&self, slot: usize, doorbell: Option<Arc<dyn Doorbell>>) {
        *self.doorbells[slot]
            .write()
            .unwrap_or_else(|e| e.into_inner()) = doorbell;
    }

    /// Why it ended: after a panic or fault the oops text, symbolised.
    pub fn last_words(&self) -> String {
        let death = match &self.member {
            None => self
                .reason
                .lock()
                .unwrap_or_else(|e| e.into_inner())
                .clone(),
            Some(_) => {
                let said = self.area.common().shared.last_words();
                said.map(|(panicked, text)| Death { panicked, text })
            }
        };
        match death {
            None => String::from("the kernel is alive"),
            Some(death) if !death.panicked => death.text,
            Some(death) => match self.log.oops() {
                Some(oops) => format!("{}\n{oops}", death.text),
                None => death.text,
            },
        }
    }

    #[inline]
    pub fn cpu(&self, number: CpuNumber) -> Cpu {
        self.cpus[number.index()]
    }

    /// This process is a fork of the one that made the kernel.
    pub fn is_foreign(&self) -> bool {
        self.forks.load(Ordering::Relaxed) != fork::count()
    }

    #[inline]
    pub fn is_dead(&self) -> bool {
        self.area.common().dead.load(Ordering::Relaxed) != 0
    }

    /// The kernel says that it ends. It leaves right after.
    pub fn kernel_died(&self, code: u32, text: &str) {
        if self.member.is_some() {
            self.area.common().shared.say_last(code != 0, text);
        } else {
            let mut reason = self.reason.lock().unwrap_or_else(|e| e.into_inner());
            reason.get_or_insert(Death {
                panicked: code != 0,
                text: text.to_owned(),
            });
        }
        self.area.common().dead.store(1, Ordering::SeqCst);
    }

    /// Tell everyone who waits, and make the fast way fail for good.
    pub fn bury(&self) {
        self.area.common().dead.store(2, Ordering::SeqCst);
        // Not `current_task`: threads that are inside, and about to leave, read it.
        self.area.forget_tasks();
        for cpu in &self.cpus {
            cpu.revoke();
            cpu.kick_futex().fetch_add(1, Ordering::SeqCst);
            futex::wake(cpu.kick_futex());
        }
        self.area.wake_all();
        self.carriers.wake_all();
        crate::run::end_all(self);
        for slot in 0..abi::MAX_DEVICES {
            // SAFETY: in the area.
            let state = unsafe { &(*self.virtio(slot)).state };
            // Nobody waits at a slot that is empty.
            if state.load(Ordering::SeqCst) != abi::VIRTIO_EMPTY {
                futex::wake(state);
            }
        }
        if self.member.is_some() {
            self.area.common().shared.ring();
        }
    }

    /// Have all who are inside leave for the last time.
    pub fn stop_all(&self) {
        for cpu in &self.cpus {
            cpu.raise(abi::IRQ_STOP);
        }
    }

    pub fn virtio(&self, slot: usize) -> *mut abi::Virtio {
        assert!(slot < abi::MAX_DEVICES);
        // SAFETY: in the area.
        unsafe { self.area.virtio().add(slot) }
    }

    pub fn notify(&self, slot: u32, queue: u32) {
        let slot = slot as usize;
        if queue == abi::NOTIFY_STATE {
            // SAFETY: in the area.
            futex::wake(unsafe { &(*self.virtio(slot)).state });
            return;
        }
        let Some(doorbell) = self.doorbells.get(slot) else {
            return;
        };
        if !self.is_first() {
            return self.ring_first(slot, queue);
        }
        let doorbell = doorbell.read().unwrap_or_else(|e| e.into_inner()).clone();
        if let Some(doorbell) = doorbell {
            match queue {
                abi::NOTIFY_STATUS => doorbell.status(),
                queue => doorbell.notify(queue),
            }
        }
    }

    /// The same as long as they are held.
    pub fn hold_doorbells(&self) -> Doorbells<'_> {
        let doorbells = self.doorbells.iter();
        doorbells
            .map(|doorbell| doorbell.read().unwrap_or_else(PoisonError::into_inner))
            .collect()
    }

    /// Slot by slot.
    pub fn all_doorbells(&self) -> impl Iterator<Item = Option<Arc<dyn Doorbell>>> + '_ {
        let doorbells = self.doorbells.iter();
        doorbells.map(|doorbell| doorbell.read().unwrap_or_else(|e| e.into_inner()).clone())
    }

    /// Whether the kernel waits for a device.
    pub fn devices_are_busy(&self) -> bool {
        let mut attached = self.all_doorbells().flatten();
        attached.any(|doorbell| doorbell.is_busy())
    }

    /// A request through process 1's slot, for what only it can do.
    pub fn init_request(&self, tid: Tid, nr: i64, [a, b]: [u64; 2], how: Wait) -> i64 {
        let args = [a, b, 0, 0, 0, 0];
        if let Some(member) = &self.member {
            let _one = member.ask();
            return self.request(self.leader(tid), nr, &args, how);
        }
        let _one = self.init.lock().unwrap_or_else(|e| e.into_inner());
        self.request(self.leader(tid), nr, &args, how)
    }

    fn stop_devices(&self) {
        for doorbell in &self.doorbells {
            let taken = doorbell.write().unwrap_or_else(|e| e.into_inner()).take();
            if let Some(doorbell) = taken {
                doorbell.stop();
            }
        }
    }

    pub fn stop(&self, text: &str) {
        self.kernel_died(0, text);
        // Nobody goes in after, not even to answer those who are inside.
        self.stop_all();
        for cpu in &self.cpus {
            service::seize(self, *cpu);
        }
        self.bury();
        for cpu in &self.cpus {
            cpu.pending().store(0, Ordering::SeqCst);
            cpu.unlock();
        }
        if !self.is_first() {
            return;
        }
        for thread in self.service.lock().unwrap().drain(..) {
            thread.join().ok();
        }
        self.stop_devices();
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if self.is_foreign() || !self.is_first() {
            // Only the mapping is ours; the kernel is the parent's. A thread of the parent's
            // may have had the lock.
            let service = self.service.get_mut();
            std::mem::take(service.unwrap_or_else(PoisonError::into_inner))
                .into_iter()
                .for_each(std::mem::forget);
            return;
        }
        self.stop("dropped");
        if self.registered {
            signals::unregister(self.memory.base);
        }
        lock().retain(|(id, _)| *id != self.id);
    }
}
