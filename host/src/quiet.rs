//! A kernel in which nothing happens: nobody is inside any CPU, no call is under way, no
//! interrupt waits and every device has answered. Its state is then all in memory.

use crate::abi;
use crate::checkpoint::CheckpointError;
use crate::cpu::Cpu;
use crate::futex;
use crate::inner::Inner;
use crate::thread::Tid;
use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// How long calls that wait for something are waited for, when nothing else is under way.
const BLOCKED: Duration = Duration::from_millis(300);
/// And all else.
const BUSY: Duration = Duration::from_secs(5);
/// How often to try for a CPU before the others are let go of: who is inside may wait for
/// one of them.
const TRIES: u32 = 200;
/// And all of it, before this thread sleeps between two tries.
const EAGER: u32 = 50;
const NAP: Duration = Duration::from_micros(50);

/// Keeps new calls from being asked for, while somebody wants it quiet. Who asks says so in
/// its slot and then looks at the door; who wants it quiet closes it, and then looks at the
/// slots: one of them sees the other.
#[derive(Default)]
pub struct Door(AtomicU32);

impl Door {
    /// Wait until nobody wants it quiet. Calls pass here before they are asked for.
    #[inline]
    pub fn pass(&self) {
        while self.0.load(Ordering::SeqCst) != 0 {
            futex::wait(&self.0, 1, None);
        }
    }

    pub fn is_closed(&self) -> bool {
        self.0.load(Ordering::SeqCst) != 0
    }

    fn close(&self) {
        self.0.store(1, Ordering::SeqCst);
    }

    fn open(&self) {
        self.0.store(0, Ordering::SeqCst);
        futex::wake(&self.0);
    }
}

/// What keeps a kernel from being quiet.
enum Obstacle {
    Inside,
    Interrupt,
    Device,
    /// A call that is about to be done, or to be seen to be done.
    Passing,
    /// One that waits inside, by its number.
    Call(i64),
    /// The same, and nobody knows which.
    Waiting,
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inside => f.write_str("another thread stays inside the kernel"),
            Self::Interrupt => f.write_str("the kernel does not come to rest"),
            Self::Device => f.write_str("requests to a disk are under way"),
            Self::Passing => f.write_str("calls of other threads are under way"),
            Self::Call(abi::NR_FAULT) => {
                f.write_str("a page of a mapping is being fetched for another thread")
            }
            Self::Call(nr) => write!(
                f,
                "a call of another thread waits inside the kernel (system call {nr}): have it \
                 end first"
            ),
            Self::Waiting => {
                f.write_str("a call of another thread waits inside the kernel: have it end first")
            }
        }
    }
}

/// All CPUs are this thread's, and stay so until this is dropped.
pub struct Quiet<'k> {
    kernel: &'k Inner,
}

impl Drop for Quiet<'_> {
    fn drop(&mut self) {
        for cpu in self.kernel.cpus() {
            cpu.unlock();
        }
        self.kernel.door.open();
    }
}

impl Inner {
    /// Wait until it is quiet, and keep it so. This thread is attached, and in no call.
    pub fn quieten(&self, tid: Tid) -> Result<Quiet<'_>, CheckpointError> {
        self.door.close();
        let began = Instant::now();
        let mut blocked: Option<Instant> = None;
        for round in 0.. {
            if self.is_dead() {
                self.door.open();
                return Err(CheckpointError::ended());
            }
            self.run_what_is_pending(tid);
            let Some(obstacle) = self.try_quiet() else {
                return Ok(Quiet { kernel: self });
            };
            let blocked_for = match obstacle {
                Obstacle::Call(_) | Obstacle::Waiting => {
                    blocked.get_or_insert_with(Instant::now).elapsed()
                }
                _ => {
                    blocked = None;
                    Duration::ZERO
                }
            };
            if blocked_for > BLOCKED || began.elapsed() > BUSY {
                self.door.open();
                return Err(CheckpointError::new(libc::EBUSY, obstacle.to_string()));
            }
            match round {
                0..EAGER => std::thread::yield_now(),
                _ => std::thread::sleep(NAP),
            }
        }
        unreachable!("rounds have no end")
    }

    fn run_what_is_pending(&self, tid: Tid) {
        for cpu in self.cpus() {
            if cpu.pending().load(Ordering::SeqCst) != 0 && cpu.try_lock_online() {
                match self.is_dead() {
                    true => cpu.unlock(),
                    false => self.exhaust(*cpu, tid),
                }
            }
        }
    }

    /// Lock all CPUs and look. None: it is quiet, and all are locked; else none is.
    fn try_quiet(&self) -> Option<Obstacle> {
        let cpus = self.cpus();
        for (locked, cpu) in cpus.iter().enumerate() {
            let got = (0..TRIES).any(|_| {
                std::hint::spin_loop();
                cpu.try_lock()
            });
            if !got {
                cpus[..locked].iter().for_each(|cpu| cpu.unlock());
                return Some(Obstacle::Inside);
            }
        }
        let obstacle = self.obstacle();
        if obstacle.is_some() {
            cpus.iter().for_each(|cpu| cpu.unlock());
        }
        obstacle
    }

    /// All CPUs are locked.
    fn obstacle(&self) -> Option<Obstacle> {
        let is_asked = |cpu: &Cpu| {
            cpu.pending().load(Ordering::SeqCst) != 0 || cpu.requests().load(Ordering::SeqCst) != 0
        };
        if self.cpus().iter().any(is_asked) {
            return Some(Obstacle::Interrupt);
        }
        if self.devices_are_busy() {
            return Some(Obstacle::Device);
        }
        let asked = self.area.used_slots().find_map(|slot| {
            match slot.state().load(Ordering::SeqCst) {
                abi::THREAD_IDLE => None,
                // SAFETY: who asked wrote it before the state, and writes it again only
                // when it is idle.
                abi::THREAD_POSTED => Some(Obstacle::Call(unsafe { slot.asked() })),
                _ => Some(Obstacle::Passing),
            }
        });
        let waits = || (self.waiting.load(Ordering::SeqCst) != 0).then_some(Obstacle::Waiting);
        let bound = || self.moments.has_bound().then_some(Obstacle::Passing);
        asked.or_else(waits).or_else(bound)
    }
}
