//! Promises of File::map. What Linux says of mmap(2) is tried on two Linuxes.

mod common;
mod medium;
mod scratch;

use common::everywhere;
use medium::{Medium, Random};
use scratch::{boot, errno, scratch};
use std::sync::Arc;
use tane::images::{Failure, Fault, Operation};
use tane::{DiskOptions, File, Kernel, MapOptions, MountOptions, OpenOptions, Tree};

const PAGE: usize = 4096;

fn both(tree: &Tree, name: &str) -> File {
    let mut options = OpenOptions::new();
    let options = options.read(true).write(true).create(true);
    options.open(tree, name).expect(name)
}

/// A byte that somebody else may change.
fn byte(map: &tane::Map, at: usize) -> u8 {
    assert!(at < map.len());
    // SAFETY: inside the mapping.
    unsafe { map.as_ptr().add(at).read_volatile() }
}

fn set(map: &tane::Map, at: usize, value: u8) {
    assert!(at < map.len());
    // SAFETY: inside the mapping.
    unsafe {
        map.as_mut_ptr()
            .expect("writable")
            .add(at)
            .write_volatile(value)
    }
}

/// Pages that Linux made for this process, by its own count.
fn faults(kernel: &Kernel) -> i64 {
    // SAFETY: zeroes are a valid rusage, which the call then fills in.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        let args = [0, &raw mut usage as u64, 0, 0, 0, 0];
        kernel
            .try_syscall(libc::SYS_getrusage, args)
            .expect("getrusage");
        usage
    };
    usage.ru_minflt + usage.ru_majflt
}

#[test]
fn a_mapping_has_the_bytes_of_the_file() {
    everywhere(|tree| {
        let content = Random(1).bytes(100 * PAGE + 17);
        tree.write("f", &content).unwrap();
        for populate in [false, true] {
            let mut options = MapOptions::new();
            let map = tree
                .open("f")
                .unwrap()
                .map(options.populate(populate))
                .unwrap();
            assert_eq!(map.len(), content.len());
            // SAFETY: nobody changes the file.
            assert!(unsafe { map.as_slice() } == content);
            map.check().unwrap();
        }
    });
}

#[test]
fn a_shared_mapping_and_the_calls_agree() {
    everywhere(|tree| {
        let file = both(tree, "f");
        file.set_len(4 * PAGE as u64).unwrap();
        let map = file.map(MapOptions::new().write(true)).unwrap();
        let other = file.map(&MapOptions::new()).unwrap();
        for at in [0, PAGE - 1, 2 * PAGE + 7] {
            set(&map, at, 7);
            let mut back = [0];
            file.read_exact_at(&mut back, at as u64).unwrap();
            assert_eq!((back[0], byte(&other, at)), (7, 7));
            file.write_all_at(&[9], at as u64).unwrap();
            assert_eq!((byte(&map, at), byte(&other, at)), (9, 9));
        }
    });
}

#[test]
fn a_private_mapping_keeps_its_changes_to_itself() {
    everywhere(|tree| {
        tree.write("f", vec![1; 2 * PAGE]).unwrap();
        let file = tree.open("f").unwrap();
        let mut options = MapOptions::new();
        let map = file.map(options.private(true).write(true)).unwrap();
        set(&map, 5, 2);
        assert_eq!((byte(&map, 5), byte(&map, 6)), (2, 1));
        map.flush().unwrap();
        assert_eq!(tree.read("f").unwrap(), vec![1; 2 * PAGE]);
    });
}

#[test]
fn a_mapping_starts_at_any_byte() {
    everywhere(|tree| {
        let content = Random(2).bytes(5 * PAGE);
        tree.write("f", &content).unwrap();
        let file = tree.open("f").unwrap();
        for (at, len) in [
            (0, 1),
            (1, PAGE),
            (PAGE, PAGE),
            (3 * PAGE + 5, 2 * PAGE - 5),
        ] {
            let map = file.map(MapOptions::new().range(at as u64, len)).unwrap();
            // SAFETY: nobody changes the file.
            assert!(unsafe { map.as_slice() } == &content[at..at + len]);
        }
    });
}

#[test]
fn a_mapping_outlives_its_file() {
    everywhere(|tree| {
        tree.write("f", "still there").unwrap();
        let map = tree.open("f").unwrap().map(&MapOptions::new()).unwrap();
        tree.remove_file("f").unwrap();
        // SAFETY: nobody changes the file.
        assert_eq!(unsafe { map.as_slice() }, b"still there");
    });
}

#[test]
fn what_cannot_be_mapped_is_refused() {
    everywhere(|tree| {
        tree.write("empty", "").unwrap();
        tree.write("f", "content").unwrap();
        let shared = MapOptions::new();
        let mut writable = MapOptions::new();
        writable.write(true);
        let empty = tree.open("empty").unwrap();
        assert_eq!(errno(empty.map(&shared)), libc::EINVAL);
        let file = tree.open("f").unwrap();
        assert_eq!(errno(file.map(&writable)), libc::EACCES);
        let far = *MapOptions::new().range(1 << 63, 1);
        assert_eq!(errno(file.map(&far)), libc::EOVERFLOW);
        let long = *MapOptions::new().range(1, usize::MAX);
        assert_eq!(errno(file.map(&long)), libc::ENOMEM);
        let mut write_only = OpenOptions::new();
        let file = write_only.write(true).open(tree, "f").unwrap();
        assert_eq!(errno(file.map(&shared)), libc::EACCES);

        let mut map = tree.open("f").unwrap().map(&shared).unwrap();
        assert_eq!(errno(map.as_mut_ptr()), libc::EACCES);
        // SAFETY: it is refused.
        assert_eq!(errno(unsafe { map.as_mut_slice() }.map(drop)), libc::EACCES);
        assert_eq!(errno(map.flush_range(0, 8)), libc::EINVAL);
        assert_eq!(errno(map.flush_range(usize::MAX, 2)), libc::EINVAL);
        map.flush_range(6, 1).unwrap();
    });
}

#[test]
fn a_tmpfs_is_mapped_too() {
    let s = scratch();
    let file = both(&s, "f");
    file.set_len(16 * PAGE as u64).unwrap();
    let map = file.map(MapOptions::new().write(true)).unwrap();
    for page in 0..16 {
        set(&map, page * PAGE, page as u8 + 1);
    }
    let content = s.read("f").unwrap();
    let marks: Vec<_> = content.iter().step_by(PAGE).copied().collect();
    assert_eq!(marks, (1..=16).collect::<Vec<u8>>());
}

#[test]
fn what_was_flushed_is_on_the_disk() {
    let (kernel, medium) = (boot(), Medium::mke2fs(16, "-t ext4"));
    let mut content = Random(3).bytes(20 * PAGE);
    let mount = medium.mount(&kernel).unwrap();
    mount.write("f", &content).unwrap();
    mount.unmount().unwrap();

    let mount = medium.mount(&kernel).unwrap();
    let file = both(&mount, "f");
    let map = file.map(MapOptions::new().write(true)).unwrap();
    for at in [0, 7 * PAGE + 3, 20 * PAGE - 1] {
        content[at] ^= 0xff;
        set(&map, at, content[at]);
    }
    map.flush().unwrap();
    assert!(medium.debugfs_cat("/f") == content);
    // After a flush the next write must be noticed again.
    content[0] ^= 0x55;
    set(&map, 0, content[0]);
    map.flush_range(0, 1).unwrap();
    kernel.halt();
    assert!(medium.debugfs_cat("/f") == content);
}

#[test]
fn a_fault_shows_the_pages_around_it() {
    let (kernel, medium) = (boot(), Medium::mke2fs(16, "-t ext4"));
    let mount = medium.mount(&kernel).unwrap();
    const PAGES: usize = 1024;
    let content = Random(4).bytes(PAGES * PAGE);
    mount.write("f", &content).unwrap();
    let file = mount.open("f").unwrap();
    let map = file.map(&MapOptions::new()).unwrap();
    let before = faults(&kernel);
    // SAFETY: nobody changes the file.
    assert!(unsafe { map.as_slice() } == content);
    let each = faults(&kernel) - before;
    // Sixteen pages each, but for those where the two do not begin together.
    assert!(each <= (PAGES / 16 + 2) as i64, "{each} faults");

    let before = faults(&kernel);
    let map = file.map(MapOptions::new().populate(true)).unwrap();
    let populated = faults(&kernel);
    assert!(populated > before);
    // SAFETY: as above.
    assert!(unsafe { map.as_slice() } == content);
    assert_eq!(faults(&kernel), populated, "all pages were there");
}

#[test]
fn a_page_behind_the_end_is_zeroes_and_an_error() {
    let s = scratch();
    let file = both(&s, "f");
    file.write_all_at(&[1; 2 * PAGE], 0).unwrap();
    let map = file.map(MapOptions::new().write(true)).unwrap();
    assert_eq!(byte(&map, PAGE), 1);
    map.check().unwrap();
    file.set_len(PAGE as u64).unwrap();
    assert_eq!(byte(&map, 0), 1);
    map.check().unwrap();
    assert_eq!(byte(&map, PAGE), 0);
    set(&map, PAGE + 1, 5);
    assert_eq!(byte(&map, PAGE + 1), 5);
    assert_eq!(errno(map.check()), libc::EIO);
    assert_eq!(errno(map.flush()), libc::EIO);
    assert_eq!(s.read("f").unwrap(), [1; PAGE]);
    drop(map);
    // The same place, for another file: nothing of the old page is left.
    file.write_all_at(&[3; 2 * PAGE], 0).unwrap();
    let map = file.map(&MapOptions::new()).unwrap();
    assert_eq!((byte(&map, 0), byte(&map, PAGE + 1)), (3, 3));
    map.check().unwrap();
}

#[test]
fn an_unreadable_sector_is_zeroes_and_an_error() {
    let (kernel, medium) = (boot(), Medium::mke2fs(16, "-t ext4"));
    let mount = medium.mount(&kernel).unwrap();
    mount.write("f", vec![1; 4 * PAGE]).unwrap();
    mount.unmount().unwrap();

    let fault = Arc::new(Fault::logging(medium.disk()));
    let disk = kernel.add_disk(fault.clone(), &DiskOptions::new()).unwrap();
    let mount = MountOptions::new().mount(&kernel, disk.device()).unwrap();
    let file = mount.open("f").unwrap();
    let map = file.map(&MapOptions::new()).unwrap();
    fault.plan(|operation| match operation {
        Operation::Read { .. } => Some(Failure::errno(libc::EIO)),
        _ => None,
    });
    assert_eq!(byte(&map, 0), 0);
    assert_eq!(errno(map.check()), libc::EIO);
    drop(map);
    fault.plan(|_| None);
    let map = file.map(&MapOptions::new()).unwrap();
    assert_eq!(byte(&map, 0), 1);
    map.check().unwrap();
    drop((map, file));
    mount.unmount().unwrap();
    assert_eq!(medium.fault(), None);
}

#[test]
fn a_write_for_which_the_disk_has_no_space_is_an_error() {
    let (kernel, medium) = (boot(), Medium::mke2fs(8, "-t ext4 -m 0"));
    let mount = medium.mount(&kernel).unwrap();
    let file = both(&mount, "hole");
    file.set_len(4 * PAGE as u64).unwrap();
    let map = file.map(MapOptions::new().write(true)).unwrap();
    assert_eq!(byte(&map, PAGE), 0);
    let rest = both(&mount, "rest");
    let mut at = 0;
    for len in [64 * PAGE, PAGE] {
        while rest.write_all_at(&vec![1; len], at).is_ok() {
            at += len as u64;
        }
    }
    set(&map, PAGE, 7);
    assert_eq!(byte(&map, PAGE), 7, "it is kept in this process");
    assert_eq!(errno(map.check()), libc::EIO);
    assert_eq!(errno(map.flush()), libc::EIO);
    drop((map, file, rest));
    mount.unmount().unwrap();
    assert_eq!(medium.fault(), None);
}

#[test]
fn a_mapping_is_safe_after_the_kernel_has_ended() {
    for panics in [false, true] {
        let s = scratch();
        let file = both(&s, "f");
        file.write_all_at(&[1; 64 * PAGE], 0).unwrap();
        let map = file.map(MapOptions::new().write(true)).unwrap();
        set(&map, 0, 2);
        map.check().unwrap();
        if panics {
            let proc = s.kernel.tree("/proc").unwrap();
            let trigger = OpenOptions::new().write(true).open(&proc, "sysrq-trigger");
            trigger
                .unwrap()
                .write_at(b"c", 0)
                .expect_err("it dies of that");
        } else {
            s.kernel.halt();
        }
        assert_eq!(byte(&map, 0), 2, "what was shown stays");
        map.check().unwrap();
        // One of these was never touched.
        for page in 0..64 {
            set(&map, page * PAGE + 1, 9);
            assert_eq!(byte(&map, page * PAGE + 1), 9);
        }
        assert_eq!(errno(map.check()), libc::ESHUTDOWN);
        assert_eq!(errno(map.flush()), libc::ESHUTDOWN);
        assert_eq!(errno(file.map(&MapOptions::new())), libc::ESHUTDOWN);
    }
}

#[test]
fn threads_touch_a_mapping_while_the_kernel_ends() {
    for _ in 0..10 {
        let s = scratch();
        let file = both(&s, "f");
        file.write_all_at(&[1; 256 * PAGE], 0).unwrap();
        let map = file.map(&MapOptions::new()).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..3 {
                let map = &map;
                scope.spawn(move || {
                    for page in 0..256 {
                        let at = (page * 37 + thread * 11) % 256 * PAGE;
                        assert!([0, 1].contains(&byte(map, at)));
                    }
                });
            }
            s.kernel.halt();
        });
    }
}

#[test]
fn an_access_that_a_mapping_does_not_allow_still_ends_the_process() {
    let s = scratch();
    s.write("f", "content").unwrap();
    let map = s.open("f").unwrap().map(&MapOptions::new()).unwrap();
    assert_eq!(byte(&map, 0), b'c');
    // SAFETY: the child only writes where it may not, and ends of it.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: as above.
        unsafe {
            libc::setrlimit(
                libc::RLIMIT_CORE,
                &libc::rlimit {
                    rlim_cur: 0,
                    rlim_max: 0,
                },
            );
            map.as_ptr().cast_mut().write_volatile(1);
            libc::_exit(0);
        }
    }
    let mut status = 0;
    // SAFETY: waits for our child.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert!(libc::WIFSIGNALED(status), "{status:#x}");
    assert_eq!(libc::WTERMSIG(status), libc::SIGSEGV);
}
