//! Promises of a kernel that several processes share (`Builder::shared`): forks of the
//! one that booted it, each a Linux process of its own.

mod common;
#[path = "common/forks.rs"]
mod forks;

use common::{boot_with, nap, read_file, syscall, write_file};
use forks::{
    alone, assert_ended, assert_exited, boot, boot_cpus, fork, get, host_wait, ping_pong, pipe,
    put, wait,
};
use tane_host::Kernel;

#[test]
fn what_one_process_writes_the_other_reads() {
    let _alone = alone();
    ping_pong(&boot(), 1000);
}

#[test]
fn and_on_several_cpus() {
    let _alone = alone();
    ping_pong(&boot_cpus(2), 3000);
}

#[test]
fn a_read_is_woken_by_the_other_process_and_reaches_its_own_memory() {
    let _alone = alone();
    let k = &boot();
    let [to_child, to_parent] = [pipe(k), pipe(k)];
    // At the same address in both, with other contents in each.
    let mut buffer = [0x11u8; 8192];
    let at = buffer.as_mut_ptr() as u64;
    let child = fork(k, || {
        // SAFETY: the child's copy.
        let buffer = unsafe { std::slice::from_raw_parts_mut(at as *mut u8, 8192) };
        buffer.fill(0x22);
        assert_eq!(syscall(k, libc::SYS_read, &[to_child[0], at, 4]), 4);
        assert_eq!(buffer[..5], [1, 2, 3, 4, 0x22]);
        nap(k, 50);
        let bytes = [5u8, 6, 7];
        let from = bytes.as_ptr() as u64;
        assert_eq!(syscall(k, libc::SYS_write, &[to_parent[1], from, 3]), 3);
        assert_eq!(buffer[..5], [1, 2, 3, 4, 0x22]);
    });
    nap(k, 50);
    let bytes = [1u8, 2, 3, 4];
    let from = bytes.as_ptr() as u64;
    assert_eq!(syscall(k, libc::SYS_write, &[to_child[1], from, 4]), 4);
    assert_eq!(syscall(k, libc::SYS_read, &[to_parent[0], at, 8192]), 3);
    assert_eq!(buffer[..4], [5, 6, 7, 0x11]);
    assert_exited(k, child);
}

#[test]
fn a_child_is_a_process_of_its_own() {
    let _alone = alone();
    let k = &boot();
    let child = fork(k, || {
        let pid = syscall(k, libc::SYS_getpid, &[]);
        assert_ne!(pid, 1);
        assert_eq!(syscall(k, libc::SYS_getppid, &[]), 1);
        // Its current directory is its own.
        assert_eq!(
            syscall(k, libc::SYS_mkdir, &[c"/d".as_ptr() as u64, 0o755]),
            0
        );
        assert_eq!(syscall(k, libc::SYS_chdir, &[c"/d".as_ptr() as u64]), 0);
        forks::exit(i32::from(pid != i64::from(k.inner_pid())));
    });
    assert_exited(k, child);
    let mut path = [0u8; 16];
    let len = syscall(k, libc::SYS_getcwd, &[path.as_mut_ptr() as u64, 16]);
    assert_eq!(path[..len as usize], *b"/\0");
}

/// What a child finds about itself.
trait Own {
    fn inner_pid(&self) -> i32;
}

impl Own for Kernel {
    fn inner_pid(&self) -> i32 {
        self.forked().unwrap()
    }
}

#[test]
fn files_are_the_same_for_all() {
    let _alone = alone();
    let k = &boot();
    assert_eq!(write_file(k, c"/before", b"parent"), 6);
    let child = fork(k, || {
        assert_eq!(read_file(k, c"/before"), b"parent");
        assert_eq!(write_file(k, c"/after", b"child"), 5);
    });
    assert_exited(k, child);
    assert_eq!(read_file(k, c"/after"), b"child");
}

#[test]
fn children_have_children() {
    let _alone = alone();
    let k = &boot();
    let [rx, tx] = pipe(k);
    let child = fork(k, || {
        let grandchild = fork(k, || {
            let parent = syscall(k, libc::SYS_getppid, &[]);
            assert_eq!(put(k, tx, parent as u64), 8);
            forks::exit(5);
        });
        assert_ended(k, grandchild, 5 << 8);
    });
    let pid = child.linux as u64;
    assert_eq!(get(k, rx), Some(pid));
    assert_exited(k, child);
}

#[test]
fn threads_of_a_child_are_threads_there() {
    let _alone = alone();
    let k = &boot();
    let child = fork(k, || {
        let pid = syscall(k, libc::SYS_getpid, &[]);
        std::thread::scope(|scope| {
            let threads = (0..4).map(|_| {
                scope.spawn(|| {
                    for _ in 0..100 {
                        assert_eq!(syscall(k, libc::SYS_getpid, &[]), pid);
                    }
                    syscall(k, libc::SYS_gettid, &[])
                })
            });
            let threads: Vec<_> = threads.collect();
            let mut tids: Vec<_> = threads.into_iter().map(|t| t.join().unwrap()).collect();
            tids.sort_unstable();
            tids.dedup();
            assert_eq!(tids.len(), 4);
        });
        // One that waits does not keep the process's end.
        std::thread::scope(|scope| {
            let [never, _kept] = pipe(k);
            scope.spawn(move || get(k, never));
            nap(k, 10);
            forks::exit(0);
        });
    });
    assert_exited(k, child);
}

#[test]
fn a_child_has_all_the_kernels_of_its_parent() {
    let _alone = alone();
    let kernels = [boot(), boot()];
    let child = fork(&kernels[0], || {
        for (k, path) in kernels.iter().zip([c"/one", c"/two"]) {
            assert!(syscall(k, libc::SYS_getpid, &[]) > 1);
            assert_eq!(write_file(k, path, b"child"), 5);
        }
        // And may have one of its own.
        assert_eq!(syscall(&boot_with(|_| ()), libc::SYS_getpid, &[]), 1);
    });
    assert_ne!(kernels[1].forked().unwrap(), 0);
    assert_exited(&kernels[0], child);
    assert_eq!(wait(&kernels[1], kernels[1].forked().unwrap()).1, 0);
    assert_eq!(read_file(&kernels[0], c"/one"), b"child");
    assert_eq!(read_file(&kernels[1], c"/two"), b"child");
}

#[test]
fn a_kernel_that_is_not_shared_stays_with_its_process() {
    let _alone = alone();
    let k = &boot_with(|_| ());
    assert!(k.forked().is_err());
    // SAFETY: a plain fork(2).
    let host = unsafe { libc::fork() };
    if host == 0 {
        forks::guarded(|| {
            let answer = syscall(k, libc::SYS_getpid, &[]);
            assert_eq!(answer, -i64::from(libc::ENOTSUP));
        });
    }
    assert_eq!(host_wait(host), 0);
    assert_eq!(syscall(k, libc::SYS_getpid, &[]), 1);
}

#[test]
fn memory_is_not_mapped_from_a_shared_kernel() {
    let _alone = alone();
    let k = &boot();
    let prot = (libc::PROT_READ | libc::PROT_WRITE) as u64;
    let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;
    let answer = syscall(k, libc::SYS_mmap, &[0, 4096, prot, flags, u64::MAX, 0]);
    assert_eq!(answer, -i64::from(libc::ENOTSUP));
}

/// Mounts come with memory that the kernel maps for itself, and goes with them.
fn mount_often(k: &Kernel, at: &std::ffi::CStr, times: u32) {
    let path = at.as_ptr() as u64;
    let kind = c"tmpfs".as_ptr() as u64;
    assert_eq!(syscall(k, libc::SYS_mkdir, &[path, 0o755]), 0);
    for _ in 0..times {
        for _ in 0..20 {
            assert_eq!(syscall(k, libc::SYS_mount, &[kind, path, kind, 0, 0]), 0);
        }
        for _ in 0..20 {
            assert_eq!(syscall(k, libc::SYS_umount2, &[path, 0]), 0);
        }
    }
}

#[test]
fn two_children_and_their_parent_work_at_once() {
    let _alone = alone();
    for cpus in [1, 2] {
        let k = &boot_cpus(cpus);
        let children = [c"/a", c"/b"].map(|at| {
            fork(k, || {
                for n in 0..300u32 {
                    let text = n.to_string();
                    write_file(k, at_file(at), text.as_bytes());
                    assert_eq!(read_file(k, at_file(at)), text.as_bytes());
                    syscall(k, libc::SYS_unlink, &[at_file(at).as_ptr() as u64]);
                }
                mount_often(k, at, 5);
            })
        });
        mount_often(k, c"/c", 5);
        ping_pong(k, 300);
        for child in children {
            assert_exited(k, child);
        }
    }
}

fn at_file(at: &std::ffi::CStr) -> &'static std::ffi::CStr {
    match at.to_bytes() {
        b"/a" => c"/file-a",
        _ => c"/file-b",
    }
}
