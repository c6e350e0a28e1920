//! Promises of io_uring from the host process: by the example `uring`, which reads
//! what cksum(1) of coreutils reads, on two Linuxes, and by the ring it is made with.

mod common;
mod inside;
mod medium;
#[path = "../examples/uring/ring.rs"]
#[allow(dead_code)] // the example uses the rest
mod ring;

use common::{tool, TempDir};
use medium::Medium;
use ring::{Ring, Submission};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use tane::{errno_of, File, Kernel, OpenOptions};
use tane_test_support::{skip, sums};

fn example() -> &'static Path {
    static PLACE: OnceLock<PathBuf> = OnceLock::new();
    PLACE.get_or_init(|| inside::example("uring"))
}

fn tree(dir: &TempDir) -> PathBuf {
    let tree = dir.path().join("tree");
    sums::tree(&tree);
    tree
}

fn uring(arguments: &[&str], from: &Path) -> Output {
    // Something that waits forever shall end the test.
    let mut command = Command::new("timeout");
    command.arg("120").arg(example()).args(arguments).arg(from);
    if let Some(image) = inside::image("default") {
        command.env("TANE_IMAGE", image);
    }
    command.output().expect("timeout")
}

fn reads_all(arguments: &[&str], from: &Path, tree: &Path) {
    let output = uring(arguments, from);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {errors}", output.status);
    let lines = sums::sorted(&String::from_utf8_lossy(&output.stdout));
    assert_eq!(lines, sums::cksum(tree), "{errors}");
    // By what the kernel says of the ring, not by what was asked for.
    let polled = errors.contains(" of the kernel looks for requests");
    assert_eq!(polled, arguments.contains(&"--poll"), "{errors}");
}

/// An ext4 image of that tree.
fn image(dir: &TempDir, tree: &Path) -> PathBuf {
    let image = common::blank(dir, "tree.img", 32);
    let from = tree.to_str().expect("our name");
    tool("mkfs.ext4", &["-q", "-F", "-d", from], &image);
    image
}

/// Not every host lets its users have io_uring.
fn host_has_io_uring() -> bool {
    let mut params = [0u32; 30];
    // SAFETY: the parameters are ours, and so is the descriptor.
    unsafe {
        let fd = libc::syscall(libc::SYS_io_uring_setup, 1, params.as_mut_ptr());
        fd >= 0 && libc::close(fd as i32) == 0
    }
}

#[test]
fn io_uring_reads_a_directory_of_the_host() {
    if !host_has_io_uring() {
        return skip("the host has no io_uring for us");
    }
    let dir = TempDir::new();
    let tree = tree(&dir);
    reads_all(&[], &tree, &tree);
    reads_all(&["--poll"], &tree, &tree);
}

#[test]
fn io_uring_reads_an_image() {
    let dir = TempDir::new();
    let tree = tree(&dir);
    if inside::image("default").is_some() {
        reads_all(&[], &image(&dir, &tree), &tree);
    }
}

#[test]
fn a_thread_of_the_kernel_takes_requests_of_io_uring() {
    let dir = TempDir::new();
    let tree = tree(&dir);
    if inside::image("default").is_some() {
        reads_all(&["--poll"], &image(&dir, &tree), &tree);
    }
}

#[test]
fn what_is_no_image_is_an_error_of_the_example() {
    let dir = TempDir::new();
    if inside::image("default").is_none() {
        return;
    }
    let output = uring(&[], &common::blank(&dir, "blank.img", 1));
    assert_eq!(output.status.code(), Some(1));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("mount "), "{errors}");
}

const PIECE: usize = 64 << 10;
const OP_WRITE_FIXED: u8 = 5;

/// A ring with this memory registered.
fn with(kernel: &Kernel, memory: &mut [u8]) -> std::io::Result<Ring> {
    let ring = Ring::new(kernel, 32, 0).expect("a ring");
    let part = libc::iovec {
        iov_base: memory.as_mut_ptr().cast(),
        iov_len: memory.len(),
    };
    ring.register_buffers(&[part]).map(|()| ring)
}

/// Have the pieces of a buffer read or written, all at once, as much of each as the
/// results say.
fn pieces(ring: &mut Ring, opcode: u8, file: &File, memory: &mut [u8]) -> Vec<i32> {
    let count = memory.chunks(PIECE).len();
    for (i, piece) in memory.chunks_mut(PIECE).enumerate() {
        let request = Submission {
            opcode,
            fd: file.kernel_fd(),
            off: (i * PIECE) as u64,
            addr: piece.as_mut_ptr() as u64,
            len: piece.len() as u32,
            user_data: i as u64,
            ..Submission::default()
        };
        // SAFETY: all are waited for below.
        unsafe { ring.push(request) };
    }
    ring.submit(count as u32).expect("submits");
    let mut results = vec![0; count];
    while let Some(completion) = ring.next() {
        results[completion.user_data as usize] = completion.result;
    }
    results
}

/// Through the page cache, and past it.
fn ways() -> [(&'static str, OpenOptions); 2] {
    [("f", 0), ("direct", libc::O_DIRECT)].map(|(name, flags)| {
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags(flags);
        (name, options)
    })
}

#[test]
fn io_uring_reads_into_a_registered_buffer() {
    let Some(kernel) = inside::default_kernel() else {
        return;
    };
    let medium = Medium::mke2fs(16, "-t ext4");
    let mount = medium.mount(&kernel).expect("mounts");
    let content = sums::bytes(16 * PIECE, 1);
    for (name, options) in ways() {
        mount.write(name, &content).expect("writes");
        let file = options.open(&mount, name).expect("opens");
        file.sync_all().expect("reaches the disk");
        // What is not asked for stays as it is.
        let mut buffer = kernel.buffer(18 * PIECE).expect("a buffer");
        buffer.fill(0x5e);
        let mut ring = with(&kernel, &mut buffer).expect("registers");
        let middle = PIECE..17 * PIECE;
        let results = pieces(&mut ring, ring::OP_READ_FIXED, &file, &mut buffer[middle]);
        assert_eq!(results, [PIECE as i32; 16]);
        assert!(buffer[PIECE..17 * PIECE] == content[..], "{name}");
        let mut around = buffer[..PIECE].iter().chain(&buffer[17 * PIECE..]);
        assert!(around.all(|&byte| byte == 0x5e), "{name}");
    }
}

#[test]
fn io_uring_writes_from_a_registered_buffer() {
    let Some(kernel) = inside::default_kernel() else {
        return;
    };
    let medium = Medium::mke2fs(16, "-t ext4");
    let mount = medium.mount(&kernel).expect("mounts");
    let content = sums::bytes(16 * PIECE, 2);
    for (name, mut options) in ways() {
        let file = options.create(true).open(&mount, name).expect("opens");
        let mut buffer = kernel.buffer(16 * PIECE).expect("a buffer");
        buffer.copy_from_slice(&content);
        let mut ring = with(&kernel, &mut buffer).expect("registers");
        let results = pieces(&mut ring, OP_WRITE_FIXED, &file, &mut buffer);
        assert_eq!(results, [PIECE as i32; 16]);
    }
    mount.unmount().expect("unmounts");
    for (name, _) in ways() {
        assert!(medium.debugfs_cat(&format!("/{name}")) == content, "{name}");
    }
    assert_eq!(medium.fault(), None);
}

#[test]
fn ordinary_memory_cannot_be_registered() {
    let Some(kernel) = inside::default_kernel() else {
        return;
    };
    let error = with(&kernel, &mut vec![0; PIECE])
        .err()
        .expect("no page of the kernel's");
    assert_eq!(errno_of(&error), Some(libc::EFAULT));
}

#[test]
fn a_request_outside_of_its_registered_buffer_is_efault() {
    let Some(kernel) = inside::default_kernel() else {
        return;
    };
    let medium = Medium::mke2fs(16, "-t ext4");
    let mount = medium.mount(&kernel).expect("mounts");
    mount.write("f", [1; PIECE]).expect("writes");
    let file = OpenOptions::new()
        .read(true)
        .open(&mount, "f")
        .expect("opens");
    let mut buffer = kernel.buffer(2 * PIECE).expect("a buffer");
    let mut ring = with(&kernel, &mut buffer[..PIECE]).expect("registers");
    let beside = &mut buffer[1..=PIECE];
    let results = pieces(&mut ring, ring::OP_READ_FIXED, &file, beside);
    assert_eq!(results, [-libc::EFAULT]);
    assert!(buffer.iter().all(|&byte| byte == 0));
}
