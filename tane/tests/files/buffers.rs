//! Promises of Buffer: memory of the kernel's that the program uses.

use crate::medium::{Medium, Random};
use crate::scratch::{boot, scratch};
use tane::{errno_of, Kernel, OpenOptions};

const PAGE: usize = 4096;
const MIB: usize = 1 << 20;

fn direct() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    options.custom_flags(libc::O_DIRECT);
    options
}

fn pipe(kernel: &Kernel) -> [u64; 2] {
    let mut fds = [0i32; 2];
    let args = [&raw mut fds as u64, 0, 0, 0, 0, 0];
    // SAFETY: two numbers of ours.
    unsafe { kernel.try_syscall(libc::SYS_pipe2, args) }.expect("a pipe");
    fds.map(|fd| fd as u64)
}

/// Give pages to a pipe, without a copy.
fn vmsplice(kernel: &Kernel, to: u64, bytes: &[u8]) -> std::io::Result<i64> {
    let part = libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    };
    let args = [to, &raw const part as u64, 1, 0, 0, 0];
    // SAFETY: the call reads only.
    unsafe { kernel.try_syscall(libc::SYS_vmsplice, args) }
}

fn read(kernel: &Kernel, from: u64, bytes: &mut [u8]) -> i64 {
    let args = [from, bytes.as_mut_ptr() as u64, bytes.len() as u64, 0, 0, 0];
    // SAFETY: into a slice of ours.
    unsafe { kernel.syscall(libc::SYS_read, args) }
}

#[test]
fn a_buffer_is_zeroed_aligned_and_as_long_as_asked() {
    let kernel = boot();
    for len in [1, PAGE - 1, PAGE, PAGE + 1, MIB + 5] {
        let mut buffer = kernel.buffer(len).expect("a buffer");
        assert_eq!(buffer.len(), len);
        assert_eq!(buffer.as_ptr() as usize % PAGE, 0);
        assert!(buffer.iter().all(|&byte| byte == 0));
        buffer.fill(0x5a);
        assert!(buffer.iter().all(|&byte| byte == 0x5a));
    }
}

#[test]
fn direct_reads_and_writes_of_a_disk_go_through_a_buffer() {
    let (kernel, medium) = (boot(), Medium::mke2fs(16, "-t ext4"));
    let mount = medium.mount(&kernel).expect("mounts");
    let content = Random(1).bytes(MIB);
    let mut buffer = kernel.buffer(MIB).expect("a buffer");
    buffer.copy_from_slice(&content);
    let file = direct().create(true).open(&mount, "f").expect("opens");
    file.write_all_at(&buffer, 0).expect("writes");
    buffer.fill(0);
    file.read_exact_at(&mut buffer, 0).expect("reads");
    assert!(buffer[..] == content[..]);
    drop(file);
    mount.unmount().expect("unmounts");
    assert!(medium.debugfs_cat("/f") == content);
    assert_eq!(medium.fault(), None);
}

#[test]
fn direct_io_with_ordinary_memory_is_efault() {
    let (kernel, medium) = (boot(), Medium::mke2fs(16, "-t ext4"));
    let mount = medium.mount(&kernel).expect("mounts");
    mount.write("f", [1; PAGE]).expect("writes");
    let mut memory = vec![2u8; 2 * PAGE];
    let start = memory.as_ptr().align_offset(PAGE);
    let file = direct().open(&mount, "f").expect("opens");
    let error = file.read_at(&mut memory[start..start + PAGE], 0);
    let error = error.expect_err("no page of the kernel's");
    assert_eq!(errno_of(&error), Some(libc::EFAULT));
    assert!(memory.iter().all(|&byte| byte == 2));
}

#[test]
fn a_pipe_takes_the_pages_of_a_buffer_and_no_copy() {
    let kernel = boot();
    let [from, to] = pipe(&kernel);
    let mut buffer = kernel.buffer(PAGE).expect("a buffer");
    buffer.fill(1);
    assert_eq!(
        vmsplice(&kernel, to, &buffer).expect("splices"),
        PAGE as i64
    );
    // It is the same memory, so that the pipe's reader sees this.
    buffer.fill(2);
    let mut back = [0; PAGE];
    assert_eq!(read(&kernel, from, &mut back), PAGE as i64);
    assert_eq!(back, [2; PAGE]);
    let ordinary = vec![1; PAGE];
    let error = vmsplice(&kernel, to, &ordinary).expect_err("no page of the kernel's");
    assert_eq!(errno_of(&error), Some(libc::EFAULT));
}

#[test]
fn a_buffer_of_no_length_is_einval() {
    let error = boot().buffer(0).expect_err("nothing");
    assert_eq!(errno_of(&error), Some(libc::EINVAL));
}

#[test]
fn too_large_a_buffer_is_enomem_and_the_kernel_goes_on() {
    let s = scratch();
    for len in [usize::MAX, 1 << 46, 1 << 36, 63 * MIB] {
        let error = s
            .kernel
            .buffer(len)
            .expect_err("64 MiB have no place for it");
        assert_eq!(errno_of(&error), Some(libc::ENOMEM), "{len}");
    }
    s.write("f", "content").expect("writes");
}

#[test]
fn buffers_until_there_is_no_memory_leave_a_kernel_that_works() {
    let s = scratch();
    for len in [4 * MIB, PAGE] {
        let mut buffers = Vec::new();
        let error = loop {
            match s.kernel.buffer(len) {
                Ok(buffer) => buffers.push(buffer),
                Err(error) => break error,
            }
        };
        assert_eq!(errno_of(&error), Some(libc::ENOMEM));
        assert!(buffers.len() > 4, "{}", buffers.len());
        for (i, buffer) in buffers.iter_mut().enumerate() {
            buffer.fill(i as u8);
        }
        s.write("f", [1; PAGE]).expect("writes");
        let whole = |(i, buffer): (usize, &tane::Buffer)| buffer.iter().all(|&b| b == i as u8);
        assert!(buffers.iter().enumerate().all(whole));
    }
    assert!(s.kernel.is_alive(), "{}", s.kernel.last_words());
}

#[test]
fn a_dropped_buffer_gives_its_memory_back() {
    let kernel = boot();
    // Twenty times what the kernel has.
    for i in 0..80 {
        let mut buffer = kernel.buffer(16 * MIB).expect("memory that was given back");
        assert!(buffer.iter().step_by(PAGE).all(|&byte| byte == 0));
        buffer.fill(i);
    }
}

#[test]
fn any_thread_uses_a_buffer() {
    let kernel = boot();
    let mut buffer = kernel.buffer(8 * PAGE).expect("a buffer");
    std::thread::scope(|scope| {
        for (i, part) in buffer.chunks_mut(PAGE).enumerate() {
            scope.spawn(move || part.fill(i as u8));
        }
    });
    let buffer = std::thread::spawn(move || buffer).join().expect("moves");
    let whole = |(i, part): (usize, &[u8])| part.iter().all(|&b| b == i as u8);
    assert!(buffer.chunks(PAGE).enumerate().all(whole));
}

#[test]
fn a_buffer_keeps_its_kernel() {
    let mut buffer = boot().buffer(PAGE).expect("a buffer");
    buffer.fill(1);
    assert!(buffer.kernel().is_alive());
    let [from, to] = pipe(buffer.kernel());
    vmsplice(buffer.kernel(), to, &buffer).expect("splices");
    let mut back = [0; PAGE];
    assert_eq!(read(&buffer.kernel().clone(), from, &mut back), PAGE as i64);
    assert_eq!(back, [1; PAGE]);
}

#[test]
fn the_bytes_stay_when_the_kernel_is_halted_or_panics() {
    for panics in [false, true] {
        let kernel = boot();
        let mut buffer = kernel.buffer(MIB).expect("a buffer");
        let content = Random(2).bytes(MIB);
        buffer.copy_from_slice(&content);
        if panics {
            let proc = kernel.tree("/proc").expect("/proc");
            let file = OpenOptions::new().write(true).open(&proc, "sysrq-trigger");
            let file = file.expect("opens");
            file.write_at(b"c", 0).expect_err("it dies of that");
        } else {
            kernel.halt();
        }
        assert!(!kernel.is_alive());
        assert!(buffer[..] == content[..]);
        buffer.fill(7);
        assert!(buffer.iter().all(|&byte| byte == 7));
        let error = kernel.buffer(PAGE).expect_err("no kernel");
        assert_eq!(errno_of(&error), Some(libc::ESHUTDOWN));
    }
}

#[test]
fn pages_that_were_given_up_are_safe_after_a_halt() {
    let kernel = boot();
    let mut buffer = kernel.buffer(4 * PAGE).expect("a buffer");
    buffer.fill(1);
    let second = buffer.as_ptr() as u64 + PAGE as u64;
    let args = [second, PAGE as u64, libc::MADV_DONTNEED as u64, 0, 0, 0];
    // SAFETY: a page of ours, whose content we give up.
    unsafe { kernel.try_syscall(libc::SYS_madvise, args) }.expect("discards");
    assert_eq!(buffer[0], 1);
    kernel.halt();
    assert!(buffer[..PAGE].iter().all(|&byte| byte == 1));
    buffer.check().expect("nothing is lost so far");
    assert!(buffer[PAGE..2 * PAGE].iter().all(|&byte| byte == 0));
    let error = buffer.check().expect_err("a page is lost");
    assert_eq!(error.errno(), libc::ESHUTDOWN);
    buffer.fill(2);
    assert!(buffer.iter().all(|&byte| byte == 2));
}

#[test]
fn a_buffer_keeps_its_bytes_when_others_are_dropped() {
    let kernel = boot();
    let mut buffer = kernel.buffer(MIB).expect("a buffer");
    let content = Random(3).bytes(MIB);
    buffer.copy_from_slice(&content);
    drop(kernel.buffer(MIB).expect("another"));
    assert!(buffer[..] == content[..]);
    buffer.check().expect("nothing is lost");
}
