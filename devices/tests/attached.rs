//! Disks come to a running kernel, change and go: `TANE_TEST_IMAGE`, or the tiny
//! image that `make kernel` leaves in build/.

mod rig;

use rig::kernel::{boot, Guest};
use std::sync::Arc;
use std::sync::{Mutex, OnceLock};
use tane_devices::{AttachError, Attached, Block, BlockOptions, Device, Queue, Slot};
use tane_host::abi;
use tane_images::{Access, Backend, Overlay, Ram, Raw};
use tane_test_support::eventually;

fn attach(guest: &Guest, backend: Arc<dyn Backend>) -> Attached<Block> {
    rig::kernel::attach(guest, backend, BlockOptions::default())
}

fn ram(size: u64) -> Arc<Ram> {
    Arc::new(Ram::new(size).unwrap())
}

#[test]
fn a_size_that_changes_is_the_kernels_size() {
    let guest = boot();
    let path = std::env::temp_dir().join(format!("tane-resize-{}", std::process::id()));
    std::fs::write(&path, vec![0; 1 << 20]).unwrap();
    let raw = Arc::new(Raw::open(&path, Access::default()).unwrap());
    let attached = attach(&guest, Arc::new(Overlay::new(raw.clone())));
    std::fs::OpenOptions::new()
        .write(true)
        .open(&path)
        .unwrap()
        .set_len(3 << 20)
        .unwrap();
    raw.measure().unwrap();
    attached.resized();
    let fd = guest.open(c"/dev/vda", libc::O_RDONLY).unwrap();
    // The driver works on it in the background.
    eventually("the disk has its new size", || {
        guest.call(libc::SYS_lseek, &[fd, 0, 2]) == Ok(3 << 20)
    });
    guest.close(fd);
    drop(attached);
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn slots_are_all_used_and_come_back() {
    let guest = boot();
    for _ in 0..3 {
        let disks: Vec<_> = (0..abi::MAX_DEVICES)
            .map(|_| attach(&guest, ram(1 << 20)))
            .collect();
        let mut slots: Vec<_> = disks.iter().map(Attached::slot).collect();
        slots.sort_unstable();
        slots.dedup();
        assert_eq!(slots.len(), abi::MAX_DEVICES);
        let one_more = Block::new(ram(1 << 20), BlockOptions::default());
        assert!(matches!(
            Attached::new(&guest.0, one_more),
            Err(AttachError::Full)
        ));
    }
}

#[test]
fn disks_come_and_go_from_several_threads_while_they_are_read() {
    let guest = boot();
    let stays = attach(&guest, ram(1 << 20));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..25 {
                    drop(attach(&guest, ram(1 << 20)));
                }
            });
        }
        let fd = guest.open(c"/dev/vda", libc::O_RDWR).unwrap();
        for turn in 0..200u64 {
            guest
                .write_at(fd, &[turn as u8; 4096], turn * 4096)
                .unwrap();
            guest.fsync(fd).unwrap();
        }
        guest.close(fd);
    });
    assert_eq!(stays.device().last_error(), None);
}

#[test]
fn a_disk_that_is_open_can_be_removed_and_answers_with_errors() {
    let guest = boot();
    let attached = attach(&guest, ram(1 << 20));
    let fd = guest.open(c"/dev/vda", libc::O_RDONLY).unwrap();
    assert_eq!(guest.read_at(fd, 4096, 0), Ok(vec![0; 4096]));
    drop(attached);
    let late = guest.read_at(fd, 4096, 512 << 10);
    assert!(late.is_err() || late == Ok(Vec::new()), "{late:?}");
    guest.close(fd);
    let again = attach(&guest, ram(1 << 20));
    assert_eq!(again.slot(), 0);
}

#[test]
fn a_kernel_that_is_gone_takes_no_disk_and_lets_its_disks_go() {
    let guest = boot();
    let attached = attach(&guest, ram(1 << 20));
    guest.0.halt();
    drop(attached);
    let block = Block::new(ram(1 << 20), BlockOptions::default());
    assert!(matches!(
        Attached::new(&guest.0, block),
        Err(AttachError::Dead | AttachError::Full)
    ));
}

#[test]
fn a_forked_child_leaves_its_parents_disks_alone() {
    let guest = boot();
    let attached = attach(&guest, ram(1 << 20));
    let fd = guest.open(c"/dev/vda", libc::O_RDWR).unwrap();
    guest.write_at(fd, &[7; 4096], 0).unwrap();
    // SAFETY: the child allocates, which glibc allows, and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let block = Block::new(ram(1 << 20), BlockOptions::default());
        let second = Attached::new(&guest.0, block);
        let refused = matches!(second, Err(AttachError::Foreign));
        drop(attached);
        drop(guest);
        // SAFETY: ends the child without its parent's exit handlers.
        unsafe { libc::_exit(i32::from(!refused)) };
    }
    let mut status = 0;
    // SAFETY: waits for our child.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(status, 0);
    guest.fsync(fd).unwrap();
    assert_eq!(guest.read_at(fd, 4096, 0), Ok(vec![7; 4096]));
    // This is in no cache of the kernel's.
    assert_eq!(guest.read_at(fd, 4096, 512 << 10), Ok(vec![0; 4096]));
    assert_eq!(attached.device().last_error(), None);
}

/// A disk that does something else when it is notified.
struct Notified {
    disk: Arc<Block>,
    does: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl Notified {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            disk: Block::new(ram(1 << 20), BlockOptions::default()),
            does: OnceLock::new(),
        })
    }
}

impl Device for Notified {
    fn id(&self) -> u32 {
        self.disk.id()
    }
    fn features(&self) -> u64 {
        self.disk.features()
    }
    fn config(&self) -> Vec<u8> {
        self.disk.config()
    }
    fn queue_sizes(&self) -> Vec<u16> {
        self.disk.queue_sizes()
    }
    fn activate(&self, features: u64, queues: Vec<Option<Queue>>, slot: Arc<Slot>) {
        self.disk.activate(features, queues, slot);
    }
    fn notify(&self, index: usize) {
        if let Some(does) = self.does.get() {
            does();
        }
        self.disk.notify(index);
    }
    fn reset(&self) {
        self.disk.reset();
    }
    fn stop(&self) {
        self.disk.stop();
    }
}

#[test]
fn a_device_that_adds_another_within_its_notification_is_told_of_the_deadlock() {
    let guest = boot();
    let device = Notified::new();
    let answers = Arc::<Mutex<Vec<_>>>::default();
    let attached = Attached::new(&guest.0, device.clone()).unwrap_or_else(|e| panic!("{e}"));
    let fd = guest.open_disk(libc::O_RDWR);
    let (kernel, its) = (guest.0.clone(), answers.clone());
    let adds = move || {
        let another = Block::new(ram(1 << 20), BlockOptions::default());
        its.lock()
            .unwrap()
            .push(Attached::new(&kernel, another).map(drop));
    };
    device.does.set(Box::new(adds)).ok().unwrap();
    // By a thread that has just come, and by one that keeps its CPU.
    for round in 0..3 {
        guest.write_at(fd, &[7; 4096], 0).unwrap();
        guest.fsync(fd).unwrap();
        for _ in 0..round * 1000 {
            guest.call(libc::SYS_getppid, &[]).unwrap();
        }
    }
    guest.close(fd);
    drop(attached);
    let answers = answers.lock().unwrap();
    assert!(answers.len() >= 3, "{}", answers.len());
    for answer in answers.iter() {
        let refused = matches!(answer, Err(AttachError::Refused(libc::EDEADLK)));
        assert!(
            refused,
            "{:?}",
            answer.as_ref().map_err(ToString::to_string)
        );
    }
}

#[test]
fn a_device_can_remove_another_within_its_notification() {
    let guest = boot();
    let device = Notified::new();
    let attached = Attached::new(&guest.0, device.clone()).unwrap_or_else(|e| panic!("{e}"));
    let fd = guest.open_disk(libc::O_RDWR);
    // By a thread that has just come, and by one that keeps its CPU.
    let other = Arc::<Mutex<Option<Attached<Block>>>>::default();
    let its = other.clone();
    let removes = move || drop(its.lock().unwrap().take());
    device.does.set(Box::new(removes)).ok().unwrap();
    for round in 0..3 {
        let another = attach(&guest, ram(1 << 20));
        assert_eq!(another.slot(), 1);
        for _ in 0..round * 1000 {
            guest.call(libc::SYS_getppid, &[]).unwrap();
        }
        *other.lock().unwrap() = Some(another);
        guest.write_at(fd, &[7; 4096], 0).unwrap();
        guest.fsync(fd).unwrap();
        assert!(other.lock().unwrap().is_none());
        eventually("the slot is free", || {
            attach(&guest, ram(1 << 20)).slot() == 1
        });
    }
    guest.close(fd);
    drop(attached);
}
