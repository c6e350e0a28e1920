//! Promises about what is closed around checkpoints: what was closed stays closed, whenever
//! the kernel goes back.

mod inside;

use inside::{builder, call, ok};
use std::sync::atomic::{AtomicBool, Ordering};
use tane::{Kernel, MapOptions, OpenOptions, Tree};

fn boot() -> Option<Kernel> {
    let builder = builder("default")?.memory(128 << 20);
    Some(builder.boot().unwrap_or_else(|e| panic!("{e}")))
}

/// A file system of memory, and its files.
fn mounted(kernel: &Kernel) -> Tree {
    ok(kernel, libc::SYS_mkdir, &[c"/tmpfs".as_ptr() as u64, 0o755]);
    let (what, at) = (c"tmpfs".as_ptr() as u64, c"/tmpfs".as_ptr() as u64);
    ok(kernel, libc::SYS_mount, &[what, at, what, 0, 0]);
    kernel.tree("/tmpfs").expect("the tree")
}

/// EBUSY if anything of it is open or mapped.
fn unmount(kernel: &Kernel, tree: Tree) {
    drop(tree);
    let unmounted = call(kernel, libc::SYS_umount2, &[c"/tmpfs".as_ptr() as u64, 0]);
    assert_eq!(unmounted, Ok(0));
}

fn read_write(tree: &Tree, path: &str) -> tane::Result<tane::File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).open(tree, path)
}

#[test]
fn what_was_unmapped_since_stays_unmapped() {
    let Some(kernel) = boot() else { return };
    let tree = mounted(&kernel);
    let file = read_write(&tree, "mapped").expect("opens");
    file.write_all_at(&[1; 4096], 0).expect("writes");
    let map = file.map(&MapOptions::new()).expect("maps");
    drop(file);
    let checkpoint = kernel.checkpoint().expect("a checkpoint");
    drop(map);
    for _ in 0..3 {
        kernel.rollback(&checkpoint).expect("goes back");
    }
    unmount(&kernel, tree);
}

/// A handle of a time before the checkpoint and one of a time after it, in each round.
#[test]
fn rounds_with_checkpoints_of_their_own_leave_nothing_open() {
    let Some(kernel) = boot() else { return };
    let tree = mounted(&kernel);
    let first = kernel.checkpoint().expect("a checkpoint");
    for _ in 0..50 {
        let before = read_write(&tree, "before").expect("opens");
        let own = kernel.checkpoint().expect("a checkpoint");
        let since = read_write(&tree, "since").expect("opens");
        drop(before);
        kernel.rollback(&own).expect("goes back");
        drop((since, own));
    }
    drop(read_write(&tree, "last").expect("opens"));
    kernel.rollback(&first).expect("goes back");
    assert!(!tree.exists("before").expect("looks"));
    unmount(&kernel, tree);
}

/// How many descriptors there are, with the one that looks.
fn open(kernel: &Kernel) -> usize {
    let fds = kernel.tree("/proc/self/fd").expect("the tree");
    fds.read_dir("/").expect("opens").count()
}

/// Whatever the moment in which a checkpoint is made, gone back to or dropped.
#[test]
fn what_others_open_and_close_meanwhile_is_closed_in_the_end() {
    let Some(kernel) = boot() else { return };
    let tree = mounted(&kernel);
    let kept = || -> Vec<_> {
        let files = (0..200).map(|n| read_write(&tree, &format!("kept{n}")));
        files.collect::<tane::Result<_>>().expect("opens")
    };
    for round in 0..30 {
        let (files, before) = (kept(), open(&kernel));
        let closed = files.len();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for file in files {
                    drop(file);
                    std::hint::spin_loop();
                }
                while !stop.load(Ordering::SeqCst) {
                    drop(read_write(&tree, "opened"));
                }
            });
            // One that the closes race with, and one whose end they do.
            let outer = kernel.checkpoint().expect("a checkpoint");
            let inner = kernel.checkpoint().expect("a checkpoint");
            if round % 2 == 0 {
                kernel.rollback(&inner).expect("goes back");
            }
            drop(inner);
            kernel.rollback(&outer).expect("goes back");
            drop(outer);
            stop.store(true, Ordering::SeqCst);
        });
        assert_eq!(open(&kernel) + closed, before, "in round {round}");
    }
    unmount(&kernel, tree);
}
