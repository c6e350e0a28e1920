//! A thread that calls alone keeps its CPU between its calls; others get it when
//! they want it.

mod common;

use common::{boot, nap, syscall};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tane_host::Kernel;

/// Enough calls in a row for any kernel to think that nobody else is there.
const MANY: u32 = 20_000;

fn getppid(k: &Kernel) {
    assert_eq!(syscall(k, libc::SYS_getppid, &[]), 0);
}

fn keep(k: &Kernel) {
    (0..MANY).for_each(|_| getppid(k));
}

#[test]
fn another_threads_call_is_done_while_the_keeper_is_away() {
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
    let k = boot();
    keep(&k);
    std::thread::scope(|scope| {
        scope.spawn(|| k.halt());
    });
    let refused = -i64::from(libc::ESHUTDOWN);
    assert_eq!(syscall(&k, libc::SYS_getppid, &[]), refused);
}

/// A handler of the program's that calls while its thread is inside would wait
/// for itself.
#[test]
fn a_call_from_inside_is_refused_as_a_deadlock() {
    // Devices' callbacks run on the thread that is inside.
    struct Reenters(std::sync::OnceLock<std::sync::Weak<Kernel>>, AtomicU64);
    impl tane_host::Doorbell for Reenters {
        fn notify(&self, _queue: u32) {}
        fn status(&self) {
            if let Some(kernel) = self.0.get().and_then(std::sync::Weak::upgrade) {
                let answer = syscall(&kernel, libc::SYS_getppid, &[]);
                self.1.store(answer as u64, Ordering::SeqCst);
            }
        }
        fn stop(&self) {}
    }
    let k = std::sync::Arc::new(boot());
    let device = std::sync::Arc::new(Reenters(Default::default(), AtomicU64::new(0)));
    device.0.set(std::sync::Arc::downgrade(&k)).expect("once");
    k.set_doorbell(0, Some(device.clone()));
    // SAFETY: the slot is ours; an empty one becomes an entropy source.
    unsafe {
        let slot = &mut *k.virtio(0);
        slot.device_id = 4;
        slot.device_features = 1 << 32;
        slot.nr_queues = 1;
        slot.queues[0].size_max = 8;
        slot.state
            .store(tane_host::abi::VIRTIO_PRESENT, Ordering::SeqCst);
    }
    k.raise_hotplug();
    k.wait_virtio(0, tane_host::abi::VIRTIO_PRESENT);
    let answer = device.1.load(Ordering::SeqCst) as i64;
    assert_eq!(answer, -i64::from(libc::EDEADLK));
}
