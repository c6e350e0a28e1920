//! Disks in a running kernel: the whole way from a guest's system call to the
//! backend.

mod rig;

use rig::kernel::{attach, boot};
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use tane_devices::BlockOptions;
use tane_images::{Backend, Event, Failure, Fault, Operation, Ram};
use tane_test_support::eventually;

const SIZE: u64 = 8 << 20;

fn ram() -> Arc<Ram> {
    Arc::new(Ram::new(SIZE).unwrap())
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 13) as u8 ^ (i >> 9) as u8).collect()
}

fn contents(disk: &dyn Backend, offset: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    let to = tane_images::buffer_mut(&mut bytes);
    disk.read(&[to], offset).unwrap();
    bytes
}

#[test]
fn a_disk_holds_what_the_guest_wrote_to_the_byte() {
    for queues in [1, 4] {
        let guest = boot();
        let backend = ram();
        let options = BlockOptions {
            queues,
            ..Default::default()
        };
        let disk = attach(&guest, backend.clone(), options);
        let data = pattern(3 << 20);
        let fd = guest.open_disk(libc::O_RDWR);
        guest.write_at(fd, &data, 4096).unwrap();
        guest.fsync(fd).unwrap();
        guest.close(fd);
        assert!(contents(&*backend, 4096, data.len()) == data);
        assert_eq!(contents(&*backend, 0, 4096), [0; 4096]);
        // Past the guest's page cache, from the backend again.
        drop(disk);
        let _disk = attach(&guest, backend, BlockOptions::default());
        let fd = guest.open_disk(libc::O_RDONLY);
        assert!(guest.read_at(fd, data.len(), 4096).unwrap() == data);
        guest.close(fd);
    }
}

#[test]
fn an_fsync_of_the_guest_flushes_the_backend_last() {
    let guest = boot();
    let backend = Arc::new(Fault::logging(ram()));
    let _disk = attach(&guest, backend.clone(), BlockOptions::default());
    let fd = guest.open_disk(libc::O_RDWR);
    for round in 0..5 {
        guest.write_at(fd, &pattern(64 << 10), round << 20).unwrap();
        guest.fsync(fd).unwrap();
        let log = backend.log();
        assert_eq!(log.last(), Some(&Event::Flush));
        assert!(matches!(log[log.len() - 2], Event::Write { .. }));
    }
    guest.close(fd);
}

#[test]
fn an_error_of_the_backend_is_an_error_of_the_guests_read() {
    let guest = boot();
    let backend = Arc::new(Fault::new(ram(), |o| match o {
        Operation::Read { offset, len } if offset + len > 4 << 20 => {
            Some(Failure::errno(libc::EIO))
        }
        _ => None,
    }));
    let _disk = attach(&guest, backend.clone(), BlockOptions::default());
    let fd = guest.open_disk(libc::O_RDONLY);
    assert_eq!(guest.read_at(fd, 4096, 5 << 20), Err(libc::EIO));
    assert_eq!(guest.read_at(fd, 4096, 0), Ok(vec![0; 4096]));
    backend.plan(|_| None);
    assert_eq!(guest.read_at(fd, 4096, 5 << 20), Ok(vec![0; 4096]));
    guest.close(fd);
}

#[test]
fn a_full_host_is_an_error_of_the_guests_fsync() {
    let guest = boot();
    let backend = Arc::new(Fault::new(ram(), |o| match o {
        Operation::Write { .. } => Some(Failure::errno(libc::ENOSPC)),
        _ => None,
    }));
    let _disk = attach(&guest, backend.clone(), BlockOptions::default());
    let fd = guest.open_disk(libc::O_RDWR);
    guest.write_at(fd, &pattern(4096), 0).unwrap();
    assert!(guest.fsync(fd).is_err());
    assert_eq!(backend.log(), []);
    guest.close(fd);
}

#[test]
fn a_failed_flush_is_an_error_of_the_guests_fsync() {
    let guest = boot();
    let backend = Arc::new(Fault::new(ram(), |o| {
        (o == Operation::Flush).then(|| Failure::errno(libc::EIO))
    }));
    let _disk = attach(&guest, backend, BlockOptions::default());
    let fd = guest.open_disk(libc::O_RDWR);
    guest.write_at(fd, &pattern(4096), 0).unwrap();
    assert_eq!(guest.fsync(fd), Err(libc::EIO));
    guest.close(fd);
}

#[test]
fn an_idle_disk_is_removed_and_its_name_with_it() {
    let guest = boot();
    let disk = attach(&guest, ram(), BlockOptions::default());
    guest.close(guest.open_disk(libc::O_RDONLY));
    drop(disk);
    assert_eq!(guest.open(c"/dev/vda", libc::O_RDONLY), Err(libc::ENOENT));
}

#[test]
fn a_disk_is_removed_while_the_guest_writes_to_it() {
    let guest = boot();
    for _ in 0..10 {
        let disk = attach(&guest, ram(), BlockOptions::default());
        let writing = Arc::new(AtomicBool::new(false));
        let writer = std::thread::spawn({
            let (guest, writing) = (guest.clone(), writing.clone());
            move || {
                let fd = guest.open_disk(libc::O_RDWR);
                let data = pattern(256 << 10);
                let mut end = None;
                for round in 0..2000 {
                    let done = guest.write_at(fd, &data, (round % 16) << 18);
                    if let Err(errno) = done.and_then(|()| guest.fsync(fd)) {
                        end = Some(errno);
                        break;
                    }
                    writing.store(true, Ordering::Relaxed);
                }
                guest.close(fd);
                end
            }
        });
        while !writing.load(Ordering::Relaxed) && !writer.is_finished() {
            std::thread::yield_now();
        }
        drop(disk);
        let end = writer.join().unwrap();
        assert!(end.is_some(), "the disk is gone, its writer goes on");
        assert!(guest.0.is_alive(), "{}", guest.0.last_words());
    }
}

#[test]
fn a_kernel_halts_with_a_disk_in_use() {
    let guest = boot();
    let disk = attach(&guest, ram(), BlockOptions::default());
    let fd = guest.open_disk(libc::O_RDWR);
    guest.write_at(fd, &pattern(1 << 20), 0).unwrap();
    guest.0.halt();
    drop(disk);
    assert_eq!(guest.fsync(fd), Err(libc::ESHUTDOWN));
}

fn threads_and_descriptors() -> (usize, usize) {
    let count = |path| fs::read_dir(path).unwrap().count();
    (count("/proc/self/task"), count("/proc/self/fd"))
}

/// Alone in its process when it counts: run by itself below.
#[test]
#[ignore = "counts the threads of the process; the next test runs it alone"]
fn a_hundred_disks_leave_nothing_behind() {
    let guest = boot();
    let life = || {
        let disk = attach(
            &guest,
            ram(),
            BlockOptions {
                inline: false,
                ..Default::default()
            },
        );
        let fd = guest.open_disk(libc::O_RDWR);
        guest.write_at(fd, &pattern(8192), 0).unwrap();
        guest.fsync(fd).unwrap();
        guest.close(fd);
        drop(disk);
    };
    life();
    let before = threads_and_descriptors();
    (0..100).for_each(|_| life());
    // A thread that was joined may still be listed for a moment; and one that asks
    // the host for barriers at first may have been among those before.
    eventually("threads and descriptors are given back", || {
        let now = threads_and_descriptors();
        now.0 <= before.0 && now.1 <= before.1
    });
}

#[test]
fn a_hundred_disks_leave_nothing_behind_in_a_process_of_their_own() {
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "--ignored",
            "a_hundred_disks_leave_nothing_behind",
        ])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{text}"
    );
}
