//! Promises about memory that a kernel has no use for: it goes back to the host.

mod common;

use common::{blank, kernel, tool, TempDir};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Mutex;
use std::time::{Duration, Instant};
use tane::{Disk, DiskOptions, Kernel, Mount, MountOptions, Tree};

const MIB: u64 = 1 << 20;
const BIG: u64 = 96 * MIB;

/// Tests share the process, and what is measured is all of its kernels'.
static ALONE: Mutex<()> = Mutex::new(());

/// Memory behind the kernels of this process, in bytes.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("reads");
    let kib = |name: &str| -> u64 {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let number = line.and_then(|line| line.split_whitespace().next());
        number.and_then(|n| n.parse().ok()).expect("a number")
    };
    (kib("RssShmem:") + kib("RssAnon:")) << 10
}

/// An ext4 that holds one large file, "big".
fn image(dir: &TempDir) -> PathBuf {
    let tree = dir.path().join("tree");
    std::fs::create_dir(&tree).expect("a directory");
    let mut word = 1u64;
    let next = || {
        word = word.wrapping_mul(6364136223846793005).wrapping_add(1);
        (word >> 33) as u8
    };
    let bytes: Vec<u8> = std::iter::repeat_with(next).take(BIG as usize).collect();
    std::fs::write(tree.join("big"), bytes).expect("writes");
    let path = blank(dir, "big.img", 160);
    let from = tree.to_str().expect("text");
    tool("mkfs.ext4", &["-q", "-F", "-d", from], &path);
    path
}

fn mount(kernel: &Kernel, image: &Path) -> (Disk, Mount) {
    let mut options = DiskOptions::new();
    options.snapshot(true);
    let disk = kernel.open_disk(image, &options).expect("the disk");
    let mount = MountOptions::new().mount(kernel, disk.device());
    (disk, mount.unwrap_or_else(|e| panic!("{e}")))
}

/// All of it, through a buffer that is there before.
fn read(tree: &Tree, buffer: &mut [u8]) -> u64 {
    let file = tree.open("big").expect("opens");
    let (mut at, mut sum) = (0, 0u64);
    loop {
        match file.read_at(buffer, at).expect("reads") {
            0 => return sum,
            len => {
                let bytes = buffer[..len].iter();
                sum = bytes.fold(sum, |sum, b| {
                    sum.wrapping_mul(31).wrapping_add(u64::from(*b))
                });
                at += len as u64;
            }
        }
    }
}

#[test]
fn what_a_large_image_was_read_with_goes_back() {
    let _alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
    let Some(kernel) = kernel() else { return };
    let dir = TempDir::new();
    let image = image(&dir);
    let mut buffer = vec![1; MIB as usize];
    let (_disk, mount) = mount(&kernel, &image);
    let start = resident();
    let sum = read(&mount, &mut buffer);
    assert!(resident() > start + BIG / 2, "it is cached");
    for _ in 0..2 {
        let begun = Instant::now();
        kernel.trim().expect("trims");
        println!("trim of {BIG} bytes: {:?}", begun.elapsed());
        let end = resident();
        let more = end.saturating_sub(start);
        assert!(more <= 2 * MIB, "{more} bytes more than at the start");
        // What went can be had again.
        assert_eq!(read(&mount, &mut buffer), sum);
    }
    let log = kernel.dmesg();
    assert!(log.matches("drop_caches").count() <= 1, "{log}");
    assert!(kernel.is_alive());
}

#[test]
fn what_an_unmounted_image_took_goes_back_by_itself() {
    let _alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
    let Some(kernel) = kernel() else { return };
    let dir = TempDir::new();
    let image = image(&dir);
    let mut buffer = vec![1; MIB as usize];
    let (disk, mount) = mount(&kernel, &image);
    read(&mount, &mut buffer);
    let most = resident();
    mount.unmount().expect("unmounts");
    disk.remove().expect("goes");
    let deadline = Instant::now() + Duration::from_secs(300);
    while resident() + BIG * 9 / 10 > most {
        assert!(Instant::now() < deadline, "{} of {most}", resident());
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(kernel.is_alive());
}

#[test]
fn calls_go_on_while_memory_goes_back() {
    let _alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
    if kernel().is_none() {
        return;
    }
    let kernel = Kernel::builder().cpus(2).boot().expect("boots");
    let dir = TempDir::new();
    let image = image(&dir);
    let (_disk, mount) = mount(&kernel, &image);
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (mount, ended) = (&mount, &ended);
        let work = move |name: char| {
            for round in 0..30u8 {
                let content = vec![round ^ name as u8; 700_000 + usize::from(round) * 1000];
                let file = format!("{name}{round}");
                mount.write(&file, &content).expect("writes");
                assert!(mount.read(&file).expect("reads") == content, "{file}");
                mount.remove_file(&file).expect("removes");
            }
        };
        scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                kernel.trim().expect("trims");
            }
        });
        let workers = ['a', 'b'].map(|name| scope.spawn(move || work(name)));
        let done: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
        ended.store(true, Ordering::Relaxed);
        assert!(done.iter().all(Result::is_ok));
    });
    mount.unmount().expect("unmounts");
    assert!(kernel.is_alive());
}

#[test]
fn a_checkpoint_has_what_went_back_since() {
    let _alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
    let Some(kernel) = kernel() else { return };
    let dir = TempDir::new();
    let image = image(&dir);
    let (_disk, mount) = mount(&kernel, &image);
    let content: Vec<u8> = (0..8 * MIB).map(|i| ((i * 13) >> 4) as u8).collect();
    let memory = MountOptions::new().fstype("tmpfs").mount(&kernel, "tmpfs");
    let memory = memory.expect("a tmpfs");
    memory.write("kept", &content).expect("writes");
    let checkpoint = kernel.checkpoint().expect("a checkpoint");
    for _ in 0..2 {
        memory.remove_file("kept").expect("removes");
        let before = resident();
        kernel.trim().expect("trims");
        let gone = before.saturating_sub(resident());
        assert!(gone >= 7 * MIB, "{gone} bytes went");
        // Others use the same frames, and are undone.
        memory.write("other", vec![7; 12 << 20]).expect("writes");
        let sum = read(&mount, &mut vec![0; MIB as usize]);
        kernel.rollback(&checkpoint).expect("goes back");
        assert!(memory.read("kept").expect("reads") == content);
        assert!(!memory.exists("other").expect("looks"));
        assert_eq!(read(&mount, &mut vec![0; MIB as usize]), sum);
    }
    assert!(kernel.is_alive());
}

#[test]
fn a_kernel_that_cannot_says_so() {
    let error = Kernel::host().trim().expect_err("it is the host's");
    assert_eq!(error.errno(), libc::ENOTSUP);
    let Some(kernel) = kernel() else { return };
    kernel.halt();
    let error = kernel.trim().expect_err("it has ended");
    assert_eq!(error.errno(), libc::ESHUTDOWN);
}
