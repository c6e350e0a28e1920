//! A thread that calls alone keeps its CPU between its calls; others get it when
//! they want it.

mod common;

use common::{boot, nap, syscall};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};
use tane_host::{abi, Kernel};
use tane_test_support::{eventually, skip};

/// Enough calls in a row for any kernel to think that nobody else is there.
const MANY: u32 = 20_000;

fn getppid(k: &Kernel) {
    assert_eq!(syscall(k, libc::SYS_getppid, &[]), 0);
}

/// Whether the host has what it takes: to make others pass a barrier, and
/// instructions for the GS base.
#[track_caller]
fn can_keep() -> bool {
    // SAFETY: no memory involved.
    let can = unsafe {
        let commands = libc::syscall(libc::SYS_membarrier, libc::MEMBARRIER_CMD_QUERY, 0, 0);
        let barrier = i64::from(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED);
        let fsgsbase = libc::getauxval(libc::AT_HWCAP2) & 2;
        commands > 0 && commands & barrier != 0 && fsgsbase != 0
    };
    if !can {
        skip("no membarrier(2) or no FSGSBASE on this host: threads keep no CPU");
    }
    can
}

/// The slot of the thread that keeps the CPU which this thread was last inside of;
/// odd while it is being taken away.
fn keeper() -> u64 {
    const ARCH_GET_GS: i32 = 0x1004;
    let mut gs = 0u64;
    // SAFETY: the kernel that this thread last called is alive, and the GS base is
    // where one of its CPUs ends.
    unsafe {
        libc::syscall(libc::SYS_arch_prctl, ARCH_GET_GS, &raw mut gs);
        let cpu = (gs as *const abi::Vcpu).sub(1);
        (*cpu).bias.load(Ordering::SeqCst)
    }
}

/// Whether this thread keeps its CPU.
fn keeps() -> bool {
    let me: u64;
    // SAFETY: the address of the thread's control block, by the ABI.
    unsafe { std::arch::asm!("mov {}, fs:0", out(reg) me) };
    let slot = keeper();
    // SAFETY: without marks it is the address of a slot in the kernel's area.
    slot != 0
        && slot & 3 == 0
        && unsafe { (*(slot as *const abi::Thread)).owner.load(Ordering::SeqCst) } == me
}

/// Call until this thread keeps its CPU, which may take as long as the host's
/// registration for membarrier(2) does.
fn keep(k: &Kernel) {
    eventually("the thread keeps its CPU", || {
        (0..MANY).for_each(|_| getppid(k));
        keeps()
    });
}

#[test]
fn a_thread_keeps_its_cpu_until_another_wants_it() {
    if !can_keep() {
        return;
    }
    let k = boot();
    getppid(&k);
    assert!(!keeps(), "after one call");
    keep(&k);
    std::thread::scope(|scope| {
        scope.spawn(|| getppid(&k));
    });
    assert!(!keeps(), "after another thread's call");
    keep(&k);
}

#[test]
fn another_threads_call_is_done_while_the_keeper_is_away() {
    if !can_keep() {
        return;
    }
    let k = boot();
    for _ in 0..20 {
        keep(&k);
        std::thread::scope(|scope| {
            scope.spawn(|| getppid(&k)).join().expect("done");
        });
    }
}

#[test]
fn a_sleeper_wakes_while_the_keeper_computes_outside() {
    if !can_keep() {
        return;
    }
    let k = boot();
    let awake = AtomicBool::new(false);
    let asleep = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            getppid(&k);
            asleep.store(true, Ordering::SeqCst);
            nap(&k, 50);
            awake.store(true, Ordering::SeqCst);
        });
        while !asleep.load(Ordering::SeqCst) {
            std::hint::spin_loop();
        }
        keep(&k);
        let patience = Instant::now() + Duration::from_secs(60);
        while !awake.load(Ordering::SeqCst) {
            assert!(Instant::now() < patience, "it never woke");
            std::hint::spin_loop();
        }
    });
}

/// The sum that two bytes of a pipe make tells whether any call was done twice,
/// lost or with another's arguments.
#[test]
fn threads_that_take_turns_in_bursts_get_their_own_results() {
    let k = boot();
    let fds = [0i32; 2];
    let args = [fds.as_ptr() as u64, 0];
    assert_eq!(syscall(&k, libc::SYS_pipe2, &args), 0);
    let (read, write) = (fds[0] as u64, fds[1] as u64);
    let (sent, received) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for seed in 1..=3u64 {
            let (k, sent) = (&k, &sent);
            scope.spawn(move || {
                for burst in 0..200u64 {
                    for _ in 0..(burst * seed * 7) % 97 {
                        let byte = seed as u8;
                        let args = [write, &raw const byte as u64, 1];
                        assert_eq!(syscall(k, libc::SYS_write, &args), 1);
                        sent.fetch_add(seed, Ordering::Relaxed);
                    }
                    std::thread::sleep(Duration::from_micros(burst % 50));
                }
            });
        }
        let expected: u64 = (1..=3u64)
            .map(|seed| (0..200u64).map(|b| (b * seed * 7) % 97).sum::<u64>())
            .sum();
        for _ in 0..expected {
            let byte = 0u8;
            let args = [read, &raw const byte as u64, 1];
            assert_eq!(syscall(&k, libc::SYS_read, &args), 1);
            received.fetch_add(byte.into(), Ordering::Relaxed);
        }
    });
    assert_eq!(sent.into_inner(), received.into_inner());
}

#[test]
fn a_keeper_that_ends_leaves_the_cpu_to_others() {
    if !can_keep() {
        return;
    }
    let k = boot();
    for _ in 0..20 {
        std::thread::scope(|scope| {
            scope.spawn(|| keep(&k));
        });
        getppid(&k);
    }
}

#[test]
fn a_keeper_of_one_kernel_may_call_another() {
    if !can_keep() {
        return;
    }
    let (one, two) = (boot(), boot());
    for _ in 0..20 {
        keep(&one);
        keep(&two);
    }
    std::thread::scope(|scope| {
        scope.spawn(|| (getppid(&one), getppid(&two)));
    });
}

#[test]
fn a_keepers_forked_child_is_refused() {
    if !can_keep() {
        return;
    }
    let k = boot();
    keep(&k);
    // SAFETY: the child only makes calls that are safe after a fork.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        let refused = syscall(&k, libc::SYS_getppid, &[]) == -i64::from(libc::ENOTSUP);
        // SAFETY: ends the child without running anything of its parent's.
        unsafe { libc::_exit(i32::from(!refused)) };
    }
    let mut status = 0;
    // SAFETY: our child.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0);
    getppid(&k);
}

#[test]
fn a_halt_takes_the_cpu_from_its_keeper() {
    if !can_keep() {
        return;
    }
    let k = boot();
    keep(&k);
    std::thread::scope(|scope| {
        scope.spawn(|| k.halt());
    });
    let refused = -i64::from(libc::ESHUTDOWN);
    assert_eq!(syscall(&k, libc::SYS_getppid, &[]), refused);
}

/// A device whose callback calls the kernel, and what it is answered. Callbacks run on
/// the thread that is inside.
#[derive(Default)]
struct Reenters(OnceLock<Weak<Kernel>>, AtomicU64);

impl tane_host::Doorbell for Reenters {
    fn notify(&self, _queue: u32) {}
    fn status(&self) {
        if let Some(kernel) = self.0.get().and_then(Weak::upgrade) {
            let answer = syscall(&kernel, libc::SYS_getppid, &[]);
            self.1.store(answer as u64, Ordering::SeqCst);
        }
    }
    fn stop(&self) {}
}

/// Put one into a slot; nobody has told the kernel yet.
fn reentering(k: &Arc<Kernel>, slot: usize) -> Arc<Reenters> {
    let device = Arc::new(Reenters::default());
    device.0.set(Arc::downgrade(k)).expect("once");
    k.set_doorbell(slot, Some(device.clone()));
    // SAFETY: the slot is ours; an empty one becomes an entropy source.
    unsafe {
        let slot = &mut *k.virtio(slot);
        slot.device_id = 4;
        slot.device_features = 1 << 32;
        slot.nr_queues = 1;
        slot.queues[0].size_max = 8;
        slot.state.store(abi::VIRTIO_PRESENT, Ordering::SeqCst);
    }
    device
}

/// A handler of the program's that calls while its thread is inside would wait
/// for itself.
#[test]
fn a_call_from_inside_is_refused_as_a_deadlock() {
    let k = Arc::new(boot());
    let device = reentering(&k, 0);
    k.raise_hotplug();
    k.wait_virtio(0, abi::VIRTIO_PRESENT);
    let answer = device.1.load(Ordering::SeqCst) as i64;
    assert_eq!(answer, -i64::from(libc::EDEADLK));
}

/// A thread's first call makes it known to the kernel, which does other things, too,
/// while it is at it.
#[test]
fn a_call_from_inside_of_a_threads_first_call_is_refused_too() {
    // Now and then a thread comes at the right moment.
    for _ in 0..10 {
        devices_come_while_threads_do();
    }
}

fn devices_come_while_threads_do() {
    let k = Arc::new(boot());
    let devices: Vec<_> = (0..20).map(|slot| reentering(&k, slot)).collect();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                std::thread::scope(|inner| {
                    inner.spawn(|| getppid(&k));
                });
            }
        });
        k.raise_hotplug();
        for slot in 0..devices.len() {
            k.wait_virtio(slot, abi::VIRTIO_PRESENT);
        }
        done.store(true, Ordering::Relaxed);
    });
    for device in devices {
        let errno = -(device.1.load(Ordering::SeqCst) as i64) as i32;
        // The latter in a thread that is ending.
        assert!([libc::EDEADLK, libc::ESRCH].contains(&errno), "{errno}");
    }
}
