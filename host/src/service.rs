//! One service thread per virtual CPU: it raises the timer interrupt at the
//! CPU's deadline, runs the CPU when an interrupt finds nobody inside, and
//! interrupts a thread that stays inside without looking.

use crate::abi;
use crate::cpu::Cpu;
use crate::futex;
use crate::inner::Inner;
use crate::signals;
use crate::thread;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::Duration;

/// How often to look whether a thread that keeps the CPU takes an interrupt.
const TRIES: u32 = 200;
/// How long an interrupt may stay unseen before its CPU gets a signal. It doubles
/// with each signal without an effect: they queue up while a thread is stopped.
const PATIENCE: Duration = Duration::from_millis(1);
const PATIENCE_MAX: Duration = Duration::from_secs(1);

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
        .name(format!("tane-cpu{}", cpu.shared().cpu))
        .stack_size(256 << 10)
        .spawn(move || {
            thread::block_signals();
            thread::ensure_signal_stack();
            // SAFETY: the kernel outlives its service threads.
            serve(unsafe { &*(kernel as *const Inner) }, cpu);
        })
}

fn serve(kernel: &Inner, cpu: Cpu) {
    let v = cpu.shared();
    let tid = thread::tid();
    let mut patience = PATIENCE;
    loop {
        let seen = v.kick.load(Ordering::SeqCst);
        if kernel.is_dead() {
            return;
        }
        let now = now();
        let deadline = v.deadline.load(Ordering::SeqCst);
        if deadline <= now {
            // The kernel sets the next one when it handles the interrupt.
            v.deadline
                .compare_exchange(deadline, u64::MAX, Ordering::SeqCst, Ordering::SeqCst)
                .ok();
            cpu.raise(abi::IRQ_TIMER);
        }
        if v.pending.load(Ordering::SeqCst) != 0 && cpu.is_online() {
            if cpu.is_biased() && seen_by_its_owner(cpu) {
                continue;
            }
            if cpu.try_lock() {
                run(kernel, cpu, tid);
                patience = PATIENCE;
            } else {
                futex::wait(&v.kick, seen, Some(patience));
                if interrupt(kernel, cpu) {
                    patience = (patience * 2).min(PATIENCE_MAX);
                }
            }
            continue;
        }
        patience = PATIENCE;
        sleep(cpu, seen);
    }
}

/// A thread that keeps the CPU is likely to come by, which costs it less than
/// losing the CPU.
fn seen_by_its_owner(cpu: Cpu) -> bool {
    (0..TRIES).any(|_| {
        std::hint::spin_loop();
        cpu.shared().pending.load(Ordering::Relaxed) == 0
    })
}

/// Run the CPU until nothing wants it any more.
fn run(kernel: &Inner, cpu: Cpu, tid: u32) {
    if kernel.is_dead() {
        return cpu.unlock();
    }
    cpu.occupy(tid);
    loop {
        let reason = (kernel.gate.enter)(cpu.ptr()).reason;
        if reason != abi::EXIT_RUNNABLE {
            kernel.leave(cpu, reason);
            return kernel.do_errands(cpu, tid);
        }
    }
}

/// Sleep until the deadline or a kick. `sleep_until` is public before the
/// deadline is read: whoever sets an earlier one sees it and kicks.
fn sleep(cpu: Cpu, seen: u32) {
    let v = cpu.shared();
    v.sleep_until.store(u64::MAX, Ordering::SeqCst);
    let deadline = v.deadline.load(Ordering::SeqCst);
    let timeout =
        (deadline != u64::MAX).then(|| Duration::from_nanos(deadline.saturating_sub(now())));
    v.sleep_until.store(deadline.max(1), Ordering::SeqCst);
    let wanted = v.pending.load(Ordering::SeqCst) != 0 && cpu.is_online();
    if v.deadline.load(Ordering::SeqCst) == deadline && !wanted {
        futex::wait(&v.kick, seen, timeout);
    }
    v.sleep_until.store(0, Ordering::SeqCst);
}

/// An interrupt is still pending and the CPU still taken: send its thread a
/// signal, whose handler diverts it when it runs kernel code with interrupts on.
/// Whether one was sent.
fn interrupt(kernel: &Inner, cpu: Cpu) -> bool {
    let v = cpu.shared();
    let holder = v.holder.load(Ordering::Relaxed);
    let wanted = v.pending.load(Ordering::SeqCst) != 0
        && v.irq_enabled.load(Ordering::Relaxed) != 0
        && holder != 0
        && cpu.is_busy()
        && !kernel.is_dead();
    if wanted {
        signals::inject(holder);
    }
    wanted
}
