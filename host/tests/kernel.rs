//! Promises of the host layer, on a real kernel (the tiny image).

mod common;

use common::{boot, boot_with, syscall};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

const GETPID: i64 = libc::SYS_getpid;
const EFAULT: i64 = -(libc::EFAULT as i64);
const ESHUTDOWN: i64 = -(libc::ESHUTDOWN as i64);

#[test]
fn the_host_process_is_process_1() {
    let k = boot();
    assert_eq!(syscall(&k, GETPID, &[]), 1);
}

#[test]
fn an_unknown_system_call_is_enosys() {
    let k = boot();
    for nr in [-1, 100_000, i64::MIN, i64::MAX] {
        assert_eq!(syscall(&k, nr, &[]), -(libc::ENOSYS as i64));
    }
}

#[test]
fn every_bad_pointer_is_efault() {
    let k = boot();
    let base = k.layout().base;
    // A mapping of one page with nothing behind it.
    let page = common::lonely_page();
    let bad = [
        0u64,
        1,
        4095,
        page + 4096,
        base,              // kernel code
        base + (64 << 20), // kernel memory
        1 << 47,
        0xffff_8000_0000_0000,
        u64::MAX - 8,
    ];
    for address in bad {
        // uname(2) writes 390 bytes, openat reads a string, writev a vector.
        assert_eq!(
            syscall(&k, libc::SYS_uname, &[address]),
            EFAULT,
            "uname({address:#x})"
        );
        let openat = syscall(
            &k,
            libc::SYS_openat,
            &[libc::AT_FDCWD as u64, address, 0, 0],
        );
        assert_eq!(openat, EFAULT, "openat({address:#x})");
    }
    // Half mapped: a structure that begins on the page and ends behind it.
    assert_eq!(syscall(&k, libc::SYS_uname, &[page + 4096 - 100]), EFAULT);
    // A string that ends exactly at the end of the mapping is fine.
    let name = page + 4096 - 2;
    // SAFETY: our page.
    unsafe { std::ptr::copy_nonoverlapping(c"/".as_ptr().cast::<u8>(), name as *mut u8, 2) };
    let fd = syscall(&k, libc::SYS_openat, &[libc::AT_FDCWD as u64, name, 0, 0]);
    assert!(fd >= 0, "openat: {fd}");
    syscall(&k, libc::SYS_close, &[fd as u64]);
}

/// Of every length up to where all ways to copy have been used, with the bad page
/// before, behind and at every byte of it; as on this processor and as on others.
#[test]
fn a_partly_bad_buffer_transfers_exactly_the_good_part() {
    transfers_exactly_the_good_part("", 300);
    transfers_exactly_the_good_part("tane.string_from=128", 150);
    transfers_exactly_the_good_part("tane.string_from=1000000", 150);
}

fn transfers_exactly_the_good_part(words: &str, most: usize) {
    const MOST: usize = 300;
    const OLD: u8 = 0xa5;
    let k = boot_with(|builder| builder.cmdline = words.to_owned());
    let from = words.strip_prefix("tane.string_from=");
    let from = from.map(|from| format!("string instructions from {from} bytes on"));
    assert!(from.is_none_or(|said| k.dmesg().contains(&said)), "{words}");
    let open = [
        libc::AT_FDCWD as u64,
        c"/f".as_ptr() as u64,
        (libc::O_CREAT | libc::O_RDWR) as u64,
        0o600,
    ];
    let fd = syscall(&k, libc::SYS_openat, &open) as u64;
    let old = [OLD; MOST];
    let new: Vec<u8> = (0..MOST).map(|i| i as u8 % 0x80).collect();
    let transfer = |nr, at: u64, len: usize| syscall(&k, nr, &[fd, at, len as u64, 0]);
    let refill = |content: &[u8]| {
        let written = transfer(libc::SYS_pwrite64, content.as_ptr() as u64, MOST);
        assert_eq!(written, MOST as i64);
    };
    let page = common::lonely_page();
    for len in 0..=most {
        for good in 0..=len {
            let at = page + 4096 - good as u64;
            // SAFETY: the last bytes of our page.
            let bytes = unsafe { std::slice::from_raw_parts_mut(at as *mut u8, good) };
            let expected = match good {
                0 if len != 0 => EFAULT,
                good => good as i64,
            };
            refill(&old);
            bytes.copy_from_slice(&new[..good]);
            let n = transfer(libc::SYS_pwrite64, at, len);
            assert_eq!(n, expected, "pwrite of {len}, {good} of them good");
            let mut is = [0; MOST];
            let read = transfer(libc::SYS_pread64, is.as_mut_ptr() as u64, MOST);
            assert_eq!(read, MOST as i64);
            let good_part = is[..good] == new[..good];
            assert!(good_part, "pwrite of {len}, {good} good: {is:?}");
            let rest = is[good..].iter().all(|&byte| byte == OLD);
            assert!(rest, "pwrite of {len}, {good} good: {is:?}");

            bytes.fill(OLD);
            refill(&new);
            let n = transfer(libc::SYS_pread64, at, len);
            assert_eq!(n, expected, "pread of {len}, {good} of them good");
            assert_eq!(bytes, &new[..good], "pread of {len}, {good} good");
        }
    }
    // And the good part of what is longer than a page.
    // SAFETY: our page.
    unsafe { (page as *mut u8).write_bytes(7, 4096) };
    for len in [4097, 5000, 100_000] {
        assert_eq!(transfer(libc::SYS_pwrite64, page, len), 4096, "{len}");
    }
}

#[test]
fn a_blocked_call_wakes_when_another_thread_acts() {
    let k = boot();
    let mut fds = [0i32; 2];
    assert_eq!(syscall(&k, libc::SYS_pipe, &[fds.as_mut_ptr() as u64]), 0);
    let reader = std::thread::spawn({
        let k = k.clone();
        move || {
            let mut byte = 0u8;
            let n = syscall(
                &k,
                libc::SYS_read,
                &[fds[0] as u64, &raw mut byte as u64, 1],
            );
            (n, byte)
        }
    });
    std::thread::sleep(Duration::from_millis(30));
    let byte = 42u8;
    assert_eq!(
        syscall(
            &k,
            libc::SYS_write,
            &[fds[1] as u64, &raw const byte as u64, 1]
        ),
        1
    );
    assert_eq!(reader.join().unwrap(), (1, 42));
}

#[test]
fn a_sleep_takes_its_time_and_ends() {
    let k = boot();
    let time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 30_000_000,
    };
    let start = Instant::now();
    let done = syscall(&k, libc::SYS_nanosleep, &[&raw const time as u64, 0]);
    assert_eq!(done, 0);
    assert!(start.elapsed() >= Duration::from_millis(30));
}

#[test]
fn many_threads_call_at_once_and_get_their_own_results() {
    let k = boot();
    let threads: Vec<_> = (0..8u64)
        .map(|t| {
            let k = k.clone();
            std::thread::spawn(move || {
                let mut fds = [0i32; 2];
                assert_eq!(syscall(&k, libc::SYS_pipe, &[fds.as_mut_ptr() as u64]), 0);
                for i in 0..2000u64 {
                    let value = t << 32 | i;
                    let mut back = 0u64;
                    let out = [fds[1] as u64, &raw const value as u64, 8];
                    assert_eq!(syscall(&k, libc::SYS_write, &out), 8);
                    let into = [fds[0] as u64, &raw mut back as u64, 8];
                    assert_eq!(syscall(&k, libc::SYS_read, &into), 8);
                    assert_eq!(back, value);
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
}

#[test]
fn threads_come_and_go() {
    let k = boot();
    for _ in 0..300 {
        let k = k.clone();
        std::thread::spawn(move || assert_eq!(syscall(&k, GETPID, &[]), 1))
            .join()
            .unwrap();
    }
}

#[test]
fn a_panic_ends_the_kernel_and_not_the_process() {
    let k = boot();
    let blocked = std::thread::spawn({
        let k = k.clone();
        move || syscall(&k, libc::SYS_pause, &[])
    });
    std::thread::sleep(Duration::from_millis(20));
    common::write_file(&k, c"/proc/sysrq-trigger", b"c");
    assert!(!k.is_alive());
    assert_eq!(syscall(&k, GETPID, &[]), ESHUTDOWN);
    assert_eq!(blocked.join().unwrap(), ESHUTDOWN);
    let text = k.last_words();
    assert!(text.contains("sysrq"), "{text}");
    assert!(text.contains("Call Trace"), "{text}");
    // And the next one is not affected.
    assert_eq!(syscall(&boot(), GETPID, &[]), 1);
}

#[test]
fn calls_after_a_halt_are_refused() {
    let k = boot();
    assert_eq!(syscall(&k, GETPID, &[]), 1);
    k.halt();
    assert_eq!(syscall(&k, GETPID, &[]), ESHUTDOWN);
    k.halt();
}

#[test]
fn calls_during_a_halt_end() {
    let k = boot();
    let stop = Arc::new(AtomicBool::new(false));
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let (k, stop) = (k.clone(), stop.clone());
            std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let r = syscall(&k, GETPID, &[]);
                    assert!(r == 1 || r == ESHUTDOWN, "{r}");
                }
            })
        })
        .collect();
    std::thread::sleep(Duration::from_millis(20));
    k.halt();
    stop.store(true, Ordering::Relaxed);
    for thread in threads {
        thread.join().unwrap();
    }
}

#[test]
fn several_kernels_live_side_by_side() {
    let kernels: Vec<_> = (0..4).map(|_| boot()).collect();
    for (i, k) in kernels.iter().enumerate() {
        common::write_file(k, c"/mark", &[i as u8]);
    }
    for (i, k) in kernels.iter().enumerate() {
        assert_eq!(common::read_file(k, c"/mark"), [i as u8]);
    }
}

#[test]
fn nokaslr_is_heeded_and_said() {
    let k = boot_with(|b| b.cmdline = "nokaslr".into());
    assert!(!k.layout().randomised);
    assert!(k.dmesg().contains("not randomised"));
    let bases: std::collections::HashSet<_> = (0..3).map(|_| boot().layout().base).collect();
    assert_eq!(bases.len(), 3);
}

#[test]
fn a_wait_for_an_interrupt_in_a_loop_ends() {
    // sched_yield in one thread, many busy readers: timers must fire although
    // nobody ever leaves the CPU idle.
    let k = boot();
    let fired = Arc::new(AtomicUsize::new(0));
    let sleeper = std::thread::spawn({
        let (k, fired) = (k.clone(), fired.clone());
        move || {
            for _ in 0..10 {
                let time = libc::timespec {
                    tv_sec: 0,
                    tv_nsec: 2_000_000,
                };
                syscall(&k, libc::SYS_nanosleep, &[&raw const time as u64, 0]);
                fired.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
    let limit = Instant::now() + Duration::from_secs(20);
    while fired.load(Ordering::Relaxed) < 10 {
        assert!(Instant::now() < limit, "timers do not fire on a busy CPU");
        syscall(&k, GETPID, &[]);
    }
    sleeper.join().unwrap();
}

#[test]
fn a_forked_child_leaves_its_parents_kernel_alone() {
    let k = boot();
    assert_eq!(syscall(&k, GETPID, &[]), 1);
    // SAFETY: the child only makes calls that are safe after a fork.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let refused = syscall(&k, GETPID, &[]) == -i64::from(libc::ENOTSUP);
        k.halt();
        drop(k);
        // SAFETY: ends the child without its parent's exit handlers.
        unsafe { libc::_exit(if refused { 0 } else { 1 }) };
    }
    let mut status = 0;
    // SAFETY: waits for our child.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(status, 0);
    assert_eq!(syscall(&k, GETPID, &[]), 1);
}

#[test]
fn memory_from_mmap_is_the_programs_to_use() {
    let k = boot();
    let prot = (libc::PROT_READ | libc::PROT_WRITE) as u64;
    let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;
    let len = 1 << 20;
    let address = syscall(&k, libc::SYS_mmap, &[0, len, prot, flags, u64::MAX, 0]);
    assert!(address > 0, "mmap: {address}");
    // SAFETY: the kernel has just given it to us.
    let bytes = unsafe { std::slice::from_raw_parts_mut(address as *mut u8, len as usize) };
    assert!(bytes.iter().all(|&b| b == 0));
    bytes.fill(0x5a);
    assert!(bytes.iter().all(|&b| b == 0x5a));
    assert_eq!(syscall(&k, libc::SYS_munmap, &[address as u64, len]), 0);
}

#[test]
fn a_shared_mapping_of_a_file_agrees_with_read_and_write() {
    let k = boot();
    let flags = (libc::O_CREAT | libc::O_RDWR) as u64;
    let open = [
        libc::AT_FDCWD as u64,
        c"/shared".as_ptr() as u64,
        flags,
        0o600,
    ];
    let fd = syscall(&k, libc::SYS_openat, &open) as u64;
    assert_eq!(syscall(&k, libc::SYS_ftruncate, &[fd, 8192]), 0);
    let prot = (libc::PROT_READ | libc::PROT_WRITE) as u64;
    let map = [0, 8192, prot, libc::MAP_SHARED as u64, fd, 0];
    let address = syscall(&k, libc::SYS_mmap, &map) as *mut u8;
    // SAFETY: the kernel has just given it to us.
    unsafe { address.add(5000).write_volatile(7) };
    let mut byte = 0u8;
    assert_eq!(
        syscall(&k, libc::SYS_pread64, &[fd, &raw mut byte as u64, 1, 5000]),
        1
    );
    assert_eq!(byte, 7);
    let byte = 9u8;
    assert_eq!(
        syscall(
            &k,
            libc::SYS_pwrite64,
            &[fd, &raw const byte as u64, 1, 5001]
        ),
        1
    );
    // SAFETY: as above.
    assert_eq!(unsafe { address.add(5001).read_volatile() }, 9);
}
