//! Promises of a kernel that processes share, about disks: they are the first process's,
//! and every process's.

mod medium;
mod scratch;

use medium::{Medium, Random};
use std::sync::{Mutex, MutexGuard};
use tane::{Kernel, Mount};

/// A fork copies the processes of all shared kernels: one test at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(|e| e.into_inner())
}

fn boot() -> Kernel {
    let builder = Kernel::builder().image(scratch::image_path());
    builder.memory(96 << 20).shared(true).boot().expect("boots")
}

/// fork(2) of the host: its id. The child does this and ends, with 0 if that was well.
fn fork(then: impl FnOnce()) -> i32 {
    // SAFETY: a plain fork(2), with glibc's locks as they are to be.
    let host = unsafe { libc::fork() };
    assert!(host >= 0);
    if host == 0 {
        // SAFETY: no memory involved. Who waits for ever fails as well.
        unsafe { libc::alarm(60) };
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(then));
        // SAFETY: ends the child, and runs nothing of its parent's.
        unsafe { libc::_exit(if done.is_ok() { 0 } else { 101 }) };
    }
    host
}

fn wait(host: i32) -> i32 {
    let mut status = -1;
    // SAFETY: writes a number of ours.
    assert_eq!(unsafe { libc::waitpid(host, &raw mut status, 0) }, host);
    status
}

/// What is read next comes from the disk.
fn forget(kernel: &Kernel, mount: &Mount) {
    mount.sync().expect("syncs");
    let proc = kernel.tree("/proc").expect("/proc");
    proc.write("sys/vm/drop_caches", "3").expect("forgets");
}

#[test]
fn every_process_reads_and_writes_the_disks_of_the_first() {
    let _alone = alone();
    let medium = Medium::mke2fs(32, "-O ^resize_inode");
    let content = [1, 2].map(|seed| Random(seed).bytes(3_000_017));
    let kernel = boot();
    let mount = medium.mount(&kernel).expect("mounts");
    mount.write("first", &content[0]).expect("writes");
    forget(&kernel, &mount);
    let child = fork(|| {
        assert!(mount.read("first").expect("reads") == content[0]);
        mount.write("second", &content[1]).expect("writes");
        forget(&kernel, &mount);
        assert!(mount.read("second").expect("reads") == content[1]);
        // Another's disks and mounts: what goes here stays there.
        // SAFETY: the child's copy, which nothing uses any more.
        drop(unsafe { std::ptr::read(&raw const mount) });
        // One of its own it cannot have: nobody would serve it.
        let none = Medium::blank(1 << 20).mount(&kernel);
        assert_eq!(scratch::errno(none), libc::ENOTSUP);
    });
    assert_eq!(wait(child), 0, "{}", kernel.dmesg());
    assert!(mount.read("second").expect("reads") == content[1]);
    mount.unmount().expect("unmounts");
    assert_eq!(medium.fault(), None);
    assert!(medium.debugfs_cat("second") == content[1]);
}

/// Whether the kernel has gone with it.
fn kill_one_that_writes(medium: &Medium, random: &mut Random) -> bool {
    let kernel = boot();
    let mount = medium.mount(&kernel).expect("mounts");
    mount.write("kept", "kept").expect("writes");
    mount.sync().expect("syncs");
    let child = fork(|| {
        for n in 0u32.. {
            let name = format!("file{}", n % 20);
            let content = vec![n as u8; 1 + (n as usize * 7919) % 200_000];
            mount.write(name.as_str(), content).expect("writes");
            if n.is_multiple_of(16) {
                mount.sync().expect("syncs");
            }
        }
    });
    std::thread::sleep(std::time::Duration::from_micros(random.below(60_000)));
    // SAFETY: a child that nobody has waited for.
    assert_eq!(unsafe { libc::kill(child, libc::SIGKILL) }, 0);
    assert_eq!(wait(child), libc::SIGKILL);
    let pid = kernel.forked().expect("a process") as u64;
    // SAFETY: writes nothing.
    let ended = unsafe { kernel.try_syscall(libc::SYS_wait4, [pid, 0, 0, 0, 0, 0]) };
    let lives = match ended {
        Ok(ended) => ended as u64 == pid,
        Err(error) => {
            assert_eq!(error.raw_os_error(), Some(libc::ESHUTDOWN));
            false
        }
    };
    if lives {
        assert_eq!(mount.read("kept").expect("reads"), b"kept");
        mount.unmount().expect("unmounts");
        assert_eq!(medium.fault(), None);
    }
    !lives
}

#[test]
fn whenever_a_writer_is_killed_the_disk_is_one_to_go_on_with() {
    let _alone = alone();
    let random = &mut Random(7);
    let ends = (0..16).filter(|_| {
        let medium = Medium::mke2fs(32, "-O ^resize_inode");
        let gone = kill_one_that_writes(&medium, random);
        // The journal is replayed, and that is all that is to be done.
        let kernel = scratch::boot();
        let mount = medium.mount(&kernel).expect("mounts");
        assert_eq!(mount.read("kept").expect("reads"), b"kept");
        mount.unmount().expect("unmounts");
        assert_eq!(medium.fault(), None);
        gone
    });
    println!("{} of 16 ended their kernel", ends.count());
}
