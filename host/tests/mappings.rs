//! Mappings in the user window whose pages the kernel has without the host
//! showing them: what a TLB miss is to hardware.

mod common;

use common::{boot, syscall};
use std::sync::mpsc;
use std::time::Duration;
use tane_host::{abi, Kernel};

const PAGE: u64 = 4096;
const READ: i32 = libc::PROT_READ;
const BOTH: i32 = libc::PROT_READ | libc::PROT_WRITE;

/// A page that is not shown although it is there faults forever: give up then.
fn in_time(work: impl FnOnce() + Send + 'static) {
    let (done, wait) = mpsc::channel();
    let worker = std::thread::spawn(move || {
        work();
        done.send(()).ok();
    });
    match wait.recv_timeout(Duration::from_secs(10)) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("the access does not end"),
        _ => worker.join().expect("the accesses"),
    }
}

fn map(k: &Kernel, len: u64) -> *mut u8 {
    let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;
    let args = [0, len, BOTH as u64, flags, u64::MAX, 0];
    let address = syscall(k, libc::SYS_mmap, &args);
    assert!(address > 0, "mmap: {address}");
    address as *mut u8
}

fn protect(k: &Kernel, address: *mut u8, len: u64, prot: i32) {
    let args = [address as u64, len, prot as u64];
    assert_eq!(syscall(k, libc::SYS_mprotect, &args), 0);
}

#[test]
fn pages_stay_readable_when_they_become_read_only() {
    in_time(|| {
        let k = boot();
        let address = map(&k, 4 * PAGE);
        // SAFETY: mapped above.
        unsafe {
            address.write_volatile(7);
            protect(&k, address, 4 * PAGE, READ);
            assert_eq!(address.read_volatile(), 7);
            assert_eq!(address.add(PAGE as usize).read_volatile(), 0);
        }
    });
}

#[test]
fn pages_are_writable_again_after_a_while_without() {
    in_time(|| {
        let k = boot();
        let address = map(&k, PAGE);
        // SAFETY: mapped above.
        unsafe {
            address.write_volatile(7);
            protect(&k, address, PAGE, READ);
            protect(&k, address, PAGE, BOTH);
            address.write_volatile(8);
            assert_eq!(address.read_volatile(), 8);
            protect(&k, address, PAGE, libc::PROT_NONE);
            protect(&k, address, PAGE, BOTH);
            assert_eq!(address.read_volatile(), 8);
        }
    });
}

#[test]
fn pages_move_with_mremap() {
    in_time(|| {
        let k = boot();
        let address = map(&k, 2 * PAGE);
        // SAFETY: mapped above, and moved by the kernel.
        unsafe {
            address.write_volatile(7);
            address.add(PAGE as usize).write_volatile(9);
            let target = map(&k, 2 * PAGE);
            let flags = (libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED) as u64;
            let args = [address as u64, 2 * PAGE, 2 * PAGE, flags, target as u64];
            assert_eq!(syscall(&k, libc::SYS_mremap, &args), target as i64);
            assert_eq!(target.read_volatile(), 7);
            assert_eq!(target.add(PAGE as usize).read_volatile(), 9);
        }
    });
}

#[test]
fn the_kernel_reads_and_writes_pages_that_are_not_shown() {
    in_time(|| {
        let k = boot();
        let address = map(&k, 2 * PAGE);
        // SAFETY: mapped above.
        unsafe { address.write_volatile(b'x') };
        protect(&k, address, 2 * PAGE, READ);
        protect(&k, address, 2 * PAGE, BOTH);
        let mut fds = [0i32; 2];
        assert_eq!(syscall(&k, libc::SYS_pipe, &[fds.as_mut_ptr() as u64]), 0);
        let [from, to] = fds.map(|fd| fd as u64);
        let args = [to, address as u64, 1];
        assert_eq!(syscall(&k, libc::SYS_write, &args), 1);
        let args = [from, address as u64 + PAGE, 1];
        assert_eq!(syscall(&k, libc::SYS_read, &args), 1);
        // SAFETY: mapped above.
        assert_eq!(unsafe { address.add(PAGE as usize).read_volatile() }, b'x');
    });
}

#[test]
fn discarded_pages_read_as_zero() {
    in_time(|| {
        let k = boot();
        let address = map(&k, PAGE);
        // SAFETY: mapped above.
        unsafe { address.write_volatile(7) };
        let args = [address as u64, PAGE, libc::MADV_DONTNEED as u64];
        assert_eq!(syscall(&k, libc::SYS_madvise, &args), 0);
        // SAFETY: mapped above.
        assert_eq!(unsafe { address.read_volatile() }, 0);
    });
}

#[test]
fn constants_cannot_be_written_once_the_kernel_is_up() {
    let k = boot();
    let file = std::fs::read(common::image_path()).expect("reads");
    // The header is at the start of the first segment, one page into the file.
    let magic = abi::MAGIC.to_le_bytes();
    let at = file.windows(8).position(|w| w == magic).expect("a header");
    let word = |offset: usize| {
        let at = at + offset;
        u64::from_le_bytes(file[at..at + 8].try_into().expect("8 bytes"))
    };
    let code = word(std::mem::offset_of!(abi::ImageHeader, text_start));
    let constants = word(std::mem::offset_of!(abi::ImageHeader, rodata_end)) - PAGE;
    let data = word(std::mem::offset_of!(abi::ImageHeader, data_end)) - PAGE;
    for (place, expected) in [(code, "r-x"), (constants, "r--"), (data, "rw-")] {
        assert_eq!(protection(k.layout().base + place), expected, "{place:x}");
    }
}

/// What /proc/self/maps says of an address.
fn protection(address: u64) -> String {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("reads");
    let line = maps.lines().find(|line| {
        let (range, _) = line.split_once(' ').expect("a range");
        let (start, end) = range.split_once('-').expect("two ends");
        let number = |text| u64::from_str_radix(text, 16).expect("a number");
        (number(start)..number(end)).contains(&address)
    });
    let line = line.expect("a mapping");
    line.split_whitespace().nth(1).expect("its protection")[..3].to_owned()
}
