//! A task with a window: whatever it hands in, no call of its reads or writes memory
//! outside of that, by pointers in structures neither.

mod common;

use common::boot;
use tane_host::{abi, Kernel, Program, Virtual, BELOW};
use tane_test_support::skip;

const EFAULT: i64 = -(libc::EFAULT as i64);

/// A window with nothing in it but its first pages.
struct Confined {
    program: Option<Program>,
    window: u64,
    mapping: (u64, usize),
}

const INSIDE: usize = 1 << 20;

impl Confined {
    fn new(k: &Kernel) -> Self {
        let len = BELOW + 2 * abi::WINDOW_SIZE as usize;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: new mappings, and a part of one.
        unsafe {
            let at = libc::mmap(std::ptr::null_mut(), len, libc::PROT_NONE, flags, -1, 0);
            assert_ne!(at, libc::MAP_FAILED);
            let window = (at as u64 + BELOW as u64).next_multiple_of(abi::WINDOW_SIZE);
            let prot = libc::PROT_READ | libc::PROT_WRITE;
            assert_eq!(libc::mprotect(window as *mut _, INSIDE, prot), 0);
            let base = Virtual(window);
            let program = k
                .program(base, Some(base))
                .unwrap_or_else(|e| panic!("{e}"));
            Self {
                program: Some(program),
                window,
                mapping: (at as u64, len),
            }
        }
    }

    fn call(&mut self, nr: i64, args: &[u64]) -> i64 {
        let mut six = [0; 6];
        six[..args.len()].copy_from_slice(args);
        let program = self.program.as_mut().expect("it is there until the end");
        // SAFETY: what the tests pass is theirs, or is to be refused.
        unsafe { program.syscall(nr, six) }
    }

    /// Bytes at this place of the window: their address.
    fn put(&self, at: u64, bytes: &[u8]) -> u64 {
        assert!(at as usize + bytes.len() <= INSIDE);
        // SAFETY: within what can be written.
        unsafe {
            std::ptr::copy_nonoverlapping(
                bytes.as_ptr(),
                (self.window + at) as *mut u8,
                bytes.len(),
            );
        }
        self.window + at
    }

    fn words(&self, at: u64, words: &[u64]) -> u64 {
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        self.put(at, &bytes)
    }
}

impl Drop for Confined {
    fn drop(&mut self) {
        self.program = None;
        // SAFETY: mapped by new(), and the program is gone.
        unsafe { libc::munmap(self.mapping.0 as *mut _, self.mapping.1) };
    }
}

fn can() -> bool {
    // SAFETY: it only reads.
    let can = unsafe { libc::getauxval(libc::AT_HWCAP2) } & 2 != 0;
    if !can {
        skip("no FSGSBASE on this host");
    }
    can
}

/// A file that can be read, of a page of letters, open as this descriptor.
fn file(c: &mut Confined, flags: i32) -> u64 {
    let path = c.put(0, b"/made\0");
    let flags = (flags | libc::O_RDWR | libc::O_CREAT) as u64;
    let fd = c.call(libc::SYS_open, &[path, flags, 0o600]);
    assert!(fd >= 0, "{fd}");
    let text = c.put(8192, &[b'x'; 4096]);
    assert_eq!(
        c.call(libc::SYS_pwrite64, &[fd as u64, text, 4096, 0]),
        4096
    );
    fd as u64
}

/// Each of these would write to, or read from, an address of the process.
#[test]
fn no_call_takes_an_address_outside_its_window() {
    if !can() {
        return;
    }
    let k = boot();
    let mut c = Confined::new(&k);
    let fd = file(&mut c, 0);
    let canary = vec![0xa5u8; 16384];
    let page = (canary.as_ptr() as u64).next_multiple_of(4096);
    let end = c.window + abi::WINDOW_SIZE;
    let places = [
        page,
        k.layout().base + 4096,
        c.window - 4096,
        c.window - BELOW as u64,
        end,
    ];
    for at in places {
        let iov = c.words(16384, &[at, 64]);
        let pair = c.words(16640, &[c.window + 8192, 16, at, 64]);
        let header = c.words(16896, &[at, 16, iov, 1, 0, 0, 0]);
        let file = [fd, at, 64, 0];
        for (nr, args) in [
            (libc::SYS_read, &file[..]),
            (libc::SYS_write, &file),
            (libc::SYS_pread64, &file),
            (libc::SYS_pwrite64, &file),
            (libc::SYS_readv, &[fd, iov, 1]),
            (libc::SYS_writev, &[fd, iov, 1]),
            (libc::SYS_preadv, &[fd, iov, 1, 0]),
            (libc::SYS_readv, &[fd, at, 1]),
            (libc::SYS_getrandom, &[at, 64, 0]),
            (libc::SYS_uname, &[at]),
            (libc::SYS_fstat, &[fd, at]),
            (libc::SYS_stat, &[c.window, at]),
            (libc::SYS_stat, &[at, c.window + 32768]),
            (libc::SYS_open, &[at, 0]),
            (libc::SYS_getcwd, &[at, 64]),
            (libc::SYS_clock_gettime, &[1, at]),
            (libc::SYS_nanosleep, &[at, 0]),
            (libc::SYS_pipe2, &[at, 0]),
            (libc::SYS_poll, &[at, 1, 0]),
            (libc::SYS_sysinfo, &[at]),
            (libc::SYS_getrlimit, &[7, at]),
            (libc::SYS_times, &[at]),
            (libc::SYS_sched_getaffinity, &[0, 64, at]),
            (libc::SYS_rt_sigprocmask, &[0, 0, at, 8]),
            (libc::SYS_prctl, &[16, at]),
            (libc::SYS_futex, &[at, 1, 1]),
            (libc::SYS_futex, &[at, 0, 0, 0]),
            (libc::SYS_lseek, &[fd, 0, 0]),
        ] {
            let ret = c.call(nr, args);
            let none = nr == libc::SYS_lseek;
            assert_eq!(ret, if none { 0 } else { EFAULT }, "call {nr} at {at:x}");
        }
        // A good part first, then the bad one: the good one only, or nothing.
        let ret = c.call(libc::SYS_preadv, &[fd, pair, 2, 0]);
        assert!(ret == EFAULT || ret == 16, "{ret}");
        let ret = c.call(libc::SYS_recvmsg, &[fd, header, 0]);
        assert!(ret < 0, "{ret}");
    }
    // Lengths that go over the end, and around it: what can be written, or nothing.
    for (at, len) in [
        (end - 16, 32),
        (end - 1, 1 << 63),
        (c.window, u64::MAX),
        (c.window, 1 << 33),
    ] {
        let ret = c.call(libc::SYS_getrandom, &[at, len, 0]);
        assert!(
            ret == EFAULT || ret == INSIDE as i64,
            "{at:x} {len:x}: {ret}"
        );
    }
    assert!(canary.iter().all(|byte| *byte == 0xa5));
    assert!(k.is_alive());
}

/// Pages are pinned, not copied: by the tables of Linux, which have nothing of the
/// process's memory.
#[test]
fn nor_does_one_that_pins_pages() {
    if !can() {
        return;
    }
    let k = boot();
    let mut c = Confined::new(&k);
    let canary = vec![0xa5u8; 16384];
    let page = (canary.as_ptr() as u64).next_multiple_of(4096);
    // What Linux does have: a mapping of the process's, in the kernel's own window.
    let shared = (libc::MAP_SHARED | libc::MAP_ANONYMOUS) as u64;
    // SAFETY: a new mapping inside.
    let mapped = unsafe { k.syscall(libc::SYS_mmap, [0, 4096, 3, shared, u64::MAX, 0]) };
    assert!(mapped > 0, "{mapped}");
    // SAFETY: just mapped, for this process.
    unsafe { std::ptr::write_bytes(mapped as *mut u8, 0xa5, 4096) };
    let direct = file(&mut c, libc::O_DIRECT);
    let mut ends = [0u8; 8];
    let at = c.put(20480, &ends);
    assert_eq!(c.call(libc::SYS_pipe2, &[at, 0]), 0);
    // SAFETY: what the call wrote, in the window.
    unsafe { std::ptr::copy_nonoverlapping(at as *const u8, ends.as_mut_ptr(), 8) };
    let to = u64::from(u32::from_le_bytes([ends[4], ends[5], ends[6], ends[7]]));
    for at in [page, mapped as u64, k.layout().base + 4096] {
        let iov = c.words(16384, &[at, 4096]);
        let mine = c.words(16640, &[c.window + 8192, 4096]);
        for (nr, args) in [
            (libc::SYS_pread64, &[direct, at, 4096, 0][..]),
            (libc::SYS_pwrite64, &[direct, at, 4096, 0]),
            (libc::SYS_vmsplice, &[to, iov, 1, 0]),
            (libc::SYS_process_vm_readv, &[1, mine, 1, iov, 1, 0]),
            (libc::SYS_process_vm_writev, &[1, mine, 1, iov, 1, 0]),
        ] {
            let ret = c.call(nr, args);
            assert!(ret < 0, "call {nr} at {at:x}: {ret}");
        }
    }
    assert!(canary.iter().all(|byte| *byte == 0xa5));
    // SAFETY: still mapped.
    let mapped = unsafe { std::slice::from_raw_parts(mapped as *const u8, 4096) };
    assert!(mapped.iter().all(|byte| *byte == 0xa5));
    assert!(k.is_alive());
}
