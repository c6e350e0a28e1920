//! Promises about disks of memory: they take what is used, and give it back.

mod common;

use common::{blank, kernel, tool, TempDir};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use tane::images::{buffer, Backend, Ram};
use tane::{DiskOptions, Kernel, MountOptions};

const MIB: u64 = 1 << 20;

/// Copy what is in a sparse file, and nothing of its holes.
fn put(disk: &dyn Backend, image: &Path) {
    let file = File::open(image).expect("the image");
    let len = file.metadata().expect("its length").len();
    // SAFETY: only moves the file's position.
    let seek = |at: u64, whence| unsafe { libc::lseek(file.as_raw_fd(), at as i64, whence) };
    let mut at = 0;
    while let Ok(data) = u64::try_from(seek(at, libc::SEEK_DATA)) {
        let hole = u64::try_from(seek(data, libc::SEEK_HOLE)).unwrap_or(len);
        let mut bytes = vec![0; (hole - data) as usize];
        file.read_exact_at(&mut bytes, data).expect("reads");
        disk.write(&[buffer(&bytes)], data).expect("writes");
        at = hole;
    }
}

/// The memory of all such disks of this process, in bytes.
fn resident() -> u64 {
    let fds = std::fs::read_dir("/proc/self/fd").expect("descriptors");
    let mut files: Vec<(u64, u64)> = fds
        .flatten()
        .filter(|fd| {
            let target = std::fs::read_link(fd.path());
            target.is_ok_and(|target| target.to_string_lossy().contains("memfd:tane-disk"))
        })
        .filter_map(|fd| {
            use std::os::unix::fs::MetadataExt;
            let found = std::fs::metadata(fd.path()).ok()?;
            Some((found.ino(), found.blocks() * 512))
        })
        .collect();
    files.sort_unstable();
    files.dedup();
    files.iter().map(|(_, bytes)| bytes).sum()
}

fn mount(kernel: &Kernel, device: &Path) -> tane::Mount {
    let mount = MountOptions::new().mount(kernel, device);
    mount.unwrap_or_else(|e| panic!("{e}\n{}", kernel.dmesg()))
}

/// A terabyte, with the btrfs that the host's mkfs makes; then full, but for
/// memory; then gone. One test, since all of them would share the process.
#[test]
fn it_is_larger_than_memory_full_when_that_is_and_gone_when_removed() {
    let Some(kernel) = kernel() else { return };
    let dir = TempDir::new();
    let image = blank(&dir, "btrfs", 1 << 20);
    tool("mkfs.btrfs", &["-q", "-m", "single"], &image);

    let disk = kernel.add_ram_disk(1 << 40).expect("a disk");
    assert_eq!(disk.size().expect("its size"), 1 << 40);
    put(&**disk.backend(), &image);
    let made = resident();
    assert!(made > 0 && made < 64 * MIB, "{made} bytes");
    let first = mount(&kernel, &disk.device());
    let data: Vec<u8> = (0..64 * MIB).map(|i| ((i * 7) >> 3) as u8).collect();
    first.write("f", &data).expect("writes");
    first.unmount().expect("unmounts");
    assert!(resident() >= made + 64 * MIB, "{} bytes", resident());
    let again = mount(&kernel, &disk.device());
    assert!(again.read("f").expect("reads") == data);
    again.unmount().expect("unmounts");
    assert_eq!(disk.first_error().map(|e| e.to_string()), None);
    disk.remove().expect("goes");
    assert_eq!(resident(), 0);

    // Another with 48 MiB of memory for its 256.
    let image = blank(&dir, "ext4", 256);
    tool(
        "mkfs.ext4",
        &["-q", "-F", "-E", "lazy_itable_init=1"],
        &image,
    );
    let ram = Arc::new(Ram::limited(256 * MIB, 48 * MIB).expect("a disk"));
    put(&*ram, &image);
    let disk = kernel.add_disk(ram.clone(), &DiskOptions::new());
    let disk = disk.expect("is added");
    let full = mount(&kernel, &disk.device());
    let written = full
        .write("f", vec![1; 100 << 20])
        .and_then(|()| full.sync());
    let written = written.and_then(|()| full.unmount());
    let errno = written.expect_err("has no room").errno();
    assert!(
        [libc::EIO, libc::ENOSPC, libc::EROFS].contains(&errno),
        "{errno}"
    );
    let reason = disk.first_error().expect("a reason");
    assert_eq!(reason.kind(), std::io::ErrorKind::StorageFull);
    assert!(reason.to_string().contains("is used up"), "{reason}");
    assert!(ram.resident().expect("its memory") <= 48 * MIB);
    assert!(kernel.is_alive());
}

/// The kernel's own: brd, by words of its command line.
#[test]
fn the_kernels_own_ram_disks_have_the_number_and_size_that_were_asked_for() {
    let Ok(image) =
        std::env::var("TANE_IMAGE").map_or_else(|_| tane::default_image(), |p| Ok(p.into()))
    else {
        return;
    };
    if !image.ends_with("tane-default.elf") {
        return tane_test_support::skip("only the default image has RAM disks of its own");
    }
    let builder = Kernel::builder().image(image);
    let kernel = builder
        .cmdline("brd.rd_nr=3 brd.rd_size=196608")
        .boot()
        .expect("boots");
    let sys = kernel.tree("/sys/devices/virtual/block").expect("/sys");
    let sectors = sys.read_to_string("ram2/size").expect("its size");
    assert_eq!(sectors.trim().parse(), Ok(2 * 196_608));
    assert!(!sys.exists("ram3").expect("looks"));

    let dir = TempDir::new();
    let image = blank(&dir, "btrfs", 192);
    tool("mkfs.btrfs", &["-q"], &image);
    let dev = kernel.tree("/dev").expect("/dev");
    let bytes = std::fs::read(&image).expect("the image");
    let ram = tane::OpenOptions::new().write(true).open(&dev, "ram0");
    let ram = ram.expect("opens");
    for (i, chunk) in bytes.chunks(MIB as usize).enumerate() {
        if chunk.iter().any(|b| *b != 0) {
            ram.write_all_at(chunk, i as u64 * MIB).expect("writes");
        }
    }
    drop(ram);
    let mounted = mount(&kernel, Path::new("/dev/ram0"));
    mounted.write("f", vec![3; 5_000_000]).expect("writes");
    mounted.unmount().expect("unmounts");
    let mounted = mount(&kernel, Path::new("/dev/ram0"));
    assert!(mounted.read("f").expect("reads") == vec![3; 5_000_000]);
    mounted.unmount().expect("unmounts");
}

/// Memory of a kernel that nothing uses, in bytes.
fn free(kernel: &Kernel) -> u64 {
    let proc = kernel.tree("/proc").expect("/proc");
    let text = proc.read_to_string("meminfo").expect("reads");
    let number = |name: &str| -> u64 {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        let words = line.and_then(|line| line.split_whitespace().nth(1));
        words.and_then(|n| n.parse().ok()).expect(name)
    };
    number("MemFree") * 1024
}

/// brd of 64 GiB in a kernel of 192 MiB: what is written is taken, and given back when
/// it is discarded. (One that is filled takes memory from its own kernel, which then
/// ends: Linux has no program to kill. That of the host, above, is an error.)
#[test]
fn the_kernels_own_ram_disk_is_larger_than_memory_and_gives_back_what_is_discarded() {
    const BLKDISCARD: u64 = 0x1277;
    const GIB: u64 = 1 << 30;
    let image =
        std::env::var("TANE_IMAGE").map_or_else(|_| tane::default_image(), |p| Ok(p.into()));
    let Ok(image) = image else { return };
    if !image.ends_with("tane-default.elf") {
        return tane_test_support::skip("only the default image has RAM disks of its own");
    }
    let builder = Kernel::builder().image(image).memory(192 * MIB);
    let kernel = builder
        .cmdline("brd.rd_nr=1 brd.rd_size=67108864")
        .boot()
        .expect("boots");
    let before = free(&kernel);
    let dev = kernel.tree("/dev").expect("/dev");
    let mut options = tane::OpenOptions::new();
    // Past the page cache, which would hold all of it a second time.
    options.read(true).write(true).custom_flags(libc::O_DIRECT);
    let ram = options.open(&dev, "ram0").expect("opens");
    let mut piece = kernel.buffer(MIB as usize).expect("pages");
    for at in 0..40 {
        piece.fill(at as u8);
        ram.write_all_at(&piece, (at + 17) * GIB).expect("writes");
    }
    ram.read_exact_at(&mut piece, (30 + 17) * GIB)
        .expect("reads");
    assert!(piece.iter().all(|b| *b == 30));
    ram.read_exact_at(&mut piece, 5 * GIB).expect("reads");
    assert!(piece.iter().all(|b| *b == 0), "was never written");
    let taken = before - free(&kernel);
    assert!((40 * MIB..60 * MIB).contains(&taken), "{taken} bytes");

    let range = [0, 64 * GIB];
    let args = [
        ram.kernel_fd() as u64,
        BLKDISCARD,
        range.as_ptr() as u64,
        0,
        0,
        0,
    ];
    // SAFETY: the call reads two numbers.
    let done = unsafe { kernel.syscall(libc::SYS_ioctl, args) };
    assert_eq!(done, 0);
    let left = free(&kernel);
    // Some that were freed just now are kept for the CPU's next requests.
    assert!(left + 24 * MIB > before, "{left} of {before} bytes");
    ram.write_all_at(&piece, 0).expect("has room again");
}
