//! One service thread per virtual CPU: it raises the timer interrupt at the
//! CPU's deadline, runs the CPU when an interrupt finds nobody inside, and
//! interrupts a thread that stays inside without looking.

use crate::abi;
use crate::backoff::Backoff;
use crate::cpu::Cpu;
use crate::errands;
use crate::futex;
use crate::inner::Inner;
use crate::signals;
use crate::thread::{self, Tid};
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often to look whether a thread that keeps the CPU takes an interrupt.
const TRIES: u32 = 200;
/// How often a service thread that is inside looks whether something is due.
const OFTEN: Duration = Duration::from_millis(1);
/// How often to look whether time that stands still has to pass.
const STILL: Duration = Duration::from_millis(2);

pub fn now() -> u64 {
    let mut t = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: writes a structure of ours.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut t) };
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

pub fn spawn(kernel: &Arc<Inner>, cpu: Cpu) -> std::io::Result<std::thread::JoinHandle<()>> {
    // Not an owner: the last handle's drop joins this thread.
    let kernel = Arc::as_ptr(kernel) as usize;
    std::thread::Builder::new()
        .name(format!("tane-cpu{}", cpu.number().0))
        .stack_size(256 << 10)
        .spawn(move || {
            thread::block_signals();
            thread::ensure_signal_stack();
            // SAFETY: the kernel outlives its service threads.
            serve(unsafe { &*(kernel as *const Inner) }, cpu);
        })
}

fn serve(kernel: &Inner, cpu: Cpu) {
    let tid = kernel.tid();
    let mut backoff = Backoff::new();
    let alarm = Alarm::new(tid);
    errands::none_for_this_thread();
    loop {
        let seen = cpu.kick_futex().load(Ordering::SeqCst);
        if kernel.is_dead() {
            return;
        }
        if kernel
            .clock
            .lead()
            .is_some_and(|lead| lead.stand_aside(cpu, seen))
        {
            continue;
        }
        // Of those that came while who was inside went on there.
        kernel.see_to_guests();
        let deadline = cpu.deadline().load(Ordering::SeqCst);
        if deadline <= kernel.clock.time() {
            raise_timer(cpu, deadline);
        }
        if cpu.pending().load(Ordering::SeqCst) != 0 && cpu.is_online() {
            if cpu.is_biased() && seen_by_its_owner(cpu) {
                continue;
            }
            if cpu.try_lock_online() {
                alarm.set(OFTEN);
                run(kernel, cpu, tid);
                alarm.set(Duration::ZERO);
                backoff.renew();
            } else {
                // Who leaves and sees the interrupt wakes this thread.
                cpu.sleep_until().store(1, Ordering::SeqCst);
                futex::wait(cpu.kick_futex(), seen, Some(backoff.time()));
                cpu.sleep_until().store(0, Ordering::SeqCst);
                let arrived = cpu.taken().load(Ordering::Relaxed);
                if interrupt(kernel, cpu) {
                    backoff.sent(arrived);
                }
            }
            continue;
        }
        backoff.renew();
        sleep(kernel, cpu, seen);
    }
}

/// The kernel sets the next deadline when it handles the interrupt.
pub fn raise_timer(cpu: Cpu, deadline: u64) {
    cpu.deadline()
        .compare_exchange(deadline, u64::MAX, Ordering::SeqCst, Ordering::SeqCst)
        .ok();
    cpu.raise(abi::IRQ_TIMER);
}

/// In a signal handler of a thread that is inside: while that is the service
/// thread nobody else looks at the clock.
pub fn raise_due_timer(cpu: Cpu) {
    let deadline = cpu.deadline().load(Ordering::SeqCst);
    if deadline <= now() {
        raise_timer(cpu, deadline);
    }
}

/// Sends the service thread the interrupt signal at intervals while it is inside:
/// it cannot do for itself what it does for others. None if the host refuses.
struct Alarm(Option<libc::timer_t>);

impl Alarm {
    fn new(tid: Tid) -> Self {
        // SAFETY: plain structures of ours.
        unsafe {
            let mut event: libc::sigevent = std::mem::zeroed();
            event.sigev_notify = libc::SIGEV_THREAD_ID;
            event.sigev_signo = signals::interrupt_signal();
            event.sigev_notify_thread_id = tid.thread();
            let mut id: libc::timer_t = std::mem::zeroed();
            let made = libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut id);
            Alarm((made == 0).then_some(id))
        }
    }

    /// Every so often; zero for never.
    fn set(&self, interval: Duration) {
        let Some(id) = self.0 else { return };
        let time = libc::timespec {
            tv_sec: interval.as_secs() as i64,
            tv_nsec: interval.subsec_nanos().into(),
        };
        let every = libc::itimerspec {
            it_interval: time,
            it_value: time,
        };
        // SAFETY: our timer.
        unsafe { libc::timer_settime(id, 0, &raw const every, std::ptr::null_mut()) };
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        if let Some(id) = self.0 {
            // SAFETY: ours, and nobody uses it after.
            unsafe { libc::timer_delete(id) };
        }
    }
}

/// A thread that keeps the CPU is likely to come by, which costs it less than
/// losing the CPU.
fn seen_by_its_owner(cpu: Cpu) -> bool {
    (0..TRIES).any(|_| {
        std::hint::spin_loop();
        cpu.pending().load(Ordering::Relaxed) == 0
    })
}

/// Run the CPU until nothing wants it any more.
fn run(kernel: &Inner, cpu: Cpu, tid: Tid) {
    if kernel.is_dead() {
        return cpu.unlock();
    }
    kernel.exhaust(cpu, tid);
}

/// Sleep until the deadline or a kick. `sleep_until` is public before the
/// deadline is read: whoever sets an earlier one sees it and kicks. A deadline
/// that time alone does not bring is looked at now and then.
fn sleep(kernel: &Inner, cpu: Cpu, seen: u32) {
    if kernel.clock.is_led() {
        return;
    }
    cpu.sleep_until().store(u64::MAX, Ordering::SeqCst);
    let deadline = cpu.deadline().load(Ordering::SeqCst);
    let still = kernel.clock.is_still();
    let timeout = (deadline != u64::MAX).then(|| match still {
        true => STILL,
        false => Duration::from_nanos(deadline.saturating_sub(now())),
    });
    cpu.sleep_until().store(deadline.max(1), Ordering::SeqCst);
    let wanted = cpu.pending().load(Ordering::SeqCst) != 0 && cpu.is_online();
    if cpu.deadline().load(Ordering::SeqCst) == deadline && !wanted {
        futex::wait(cpu.kick_futex(), seen, timeout);
    }
    cpu.sleep_until().store(0, Ordering::SeqCst);
    if still && cpu.kick_futex().load(Ordering::SeqCst) == seen {
        kernel.pass_time();
    }
}

/// An interrupt is still pending and the CPU still taken: send its thread a
/// signal, whose handler diverts it when it runs kernel code with interrupts on.
/// Whether one was sent.
fn interrupt(kernel: &Inner, cpu: Cpu) -> bool {
    !kernel.is_dead() && inject(kernel, cpu)
}

/// The same, whether the kernel has ended or not.
fn inject(kernel: &Inner, cpu: Cpu) -> bool {
    let holder = cpu.holder().load(Ordering::Relaxed);
    let wanted = cpu.pending().load(Ordering::SeqCst) != 0
        && cpu.irq_enabled().load(Ordering::Relaxed) != 0
        && holder != 0
        && cpu.is_busy();
    if wanted {
        let holder = Tid(holder);
        signals::inject(kernel.host_process(holder), holder);
    }
    wanted
}

/// Lock a CPU of a kernel that ends, for good. Who is inside comes out by itself
/// or heeds the interrupt, which tells it that nothing will come any more; it
/// must be told before any CPU is locked, or it may wait for that one.
pub fn seize(kernel: &Inner, cpu: Cpu) {
    let mut backoff = Backoff::new();
    let mut until = Instant::now() + backoff.time();
    while !cpu.try_lock() {
        std::thread::sleep(OFTEN / 10);
        if Instant::now() >= until {
            if inject(kernel, cpu) {
                backoff.sent(0);
            }
            if kernel.is_ended(Tid(cpu.holder().load(Ordering::SeqCst))) {
                // It never comes out: the lock is this thread's.
                return;
            }
            until = Instant::now() + backoff.time();
        }
    }
}

/// Let go of a CPU of a kernel that has ended, whoever holds it: one who is alive is told
/// to leave first.
pub fn release(kernel: &Inner, cpu: Cpu) {
    let until = Instant::now() + Duration::from_secs(1);
    while !cpu.try_lock() && Instant::now() < until {
        std::thread::sleep(OFTEN);
        inject(kernel, cpu);
    }
    cpu.pending().store(0, Ordering::SeqCst);
    cpu.unlock();
}
