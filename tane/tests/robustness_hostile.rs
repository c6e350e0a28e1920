//! Images that are damaged, or made to do harm: whatever they hold, each call on
//! them ends, with success or with an error, and the process goes on.
//!
//! TANE_HOSTILE_SEED and TANE_HOSTILE_COUNT choose the variants.

mod exercise;
mod medium;
mod scratch;

use exercise::exercise;
use medium::layout::Layout;
use medium::{Medium, Random};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::mpsc::{channel, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};
use tane::{DiskOptions, Kernel, Mount, MountOptions};
use tane_test_support::{eventually, PATIENCE};

const COUNT: u64 = 400;

/// mke2fs arguments. Without checksums damage gets deeper into the kernel.
const KINDS: [&str; 5] = [
    "-t ext4 -b 4096 -J size=4",
    "-t ext4 -b 1024 -J size=1 -O ^metadata_csum,^64bit",
    "-t ext4 -b 4096 -J size=4 -O ^metadata_csum,inline_data",
    "-t ext3 -b 1024 -J size=1",
    "-t ext2 -b 1024",
];

/// An image that is sound, or waits for its journal to be replayed.
struct Base {
    name: String,
    image: Vec<u8>,
    layout: Layout,
}

fn bases(kernel: &Kernel) -> Vec<Base> {
    let mut bases = Vec::new();
    for kind in KINDS {
        let medium = Medium::mke2fs(16, kind);
        let mount = medium.mount(kernel).expect("mounts");
        populate(&mount);
        mount.sync().expect("syncs");
        mount.write("late", [7; 5000]).expect("write");
        mount.open("late").expect("opens").sync_all().expect("sync");
        let dirty = medium.bytes();
        mount.unmount().expect("unmounts");
        for (state, image) in [("dirty", dirty), ("clean", medium.bytes())] {
            bases.push(Base {
                name: format!("{kind}, {state}"),
                layout: Layout::of(&image),
                image,
            });
        }
    }
    bases
}

/// Something of everything: deep extent trees, hashed directories, attributes,
/// links, special files.
fn populate(mount: &Mount) {
    let mut random = Random(7);
    mount.create_dir_all("dir/sub/deep").expect("mkdir");
    for i in 0..400 {
        let name = format!("dir/a name of some length, so that blocks fill {i}");
        mount.write(name, []).expect("write");
    }
    for i in 0..20 {
        let len = random.below(30_000) as usize;
        let data = random.bytes(len);
        mount.write(format!("dir/sub/{i}"), data).expect("write");
    }
    let holes = mount.create("holes").expect("create");
    for i in 0..400 {
        let written = holes.write_all_at(&[i as u8; 1024], i * 8192);
        written.expect("write");
    }
    mount.symlink("dir/sub", "short").expect("symlink");
    let target = "x/".repeat(200) + "y";
    mount.symlink(target, "long").expect("symlink");
    mount.hard_link("holes", "dir/hard").expect("link");
    mount.mknod("fifo", libc::S_IFIFO | 0o644, 0).expect("fifo");
    for (key, len) in [("user.small", 20), ("user.large", 700)] {
        let value = random.bytes(len);
        mount.set_xattr("dir", key, &value, 0).expect("xattr");
    }
}

/// Damage an image; what was done, for who reads of it.
fn damage(base: &Base, random: &mut Random) -> (Vec<u8>, &'static str) {
    let mut image = base.image.clone();
    let layout = &base.layout;
    let parts: [(&'static str, &[Range<usize>]); 7] = [
        ("superblock", &layout.superblock),
        ("group descriptors", &layout.descriptors),
        ("bitmaps", &layout.bitmaps),
        ("inodes", &layout.inodes),
        ("directories", &layout.directories),
        ("trees", &layout.trees),
        ("journal", &layout.journal),
    ];
    match random.below(8) {
        0 => {
            let len = match random.below(3) {
                0 => random.below(8192),
                1 => random.below(image.len() as u64),
                _ => random.below(image.len() as u64) & !4095,
            };
            image.truncate(len as usize);
            return (image, "truncated");
        }
        1 => {
            for _ in 0..1 + random.below(20) {
                let at = random.below(image.len() as u64 / 1024) as usize * 1024;
                image[at..at + 1024].fill(0);
            }
            return (image, "zeroed blocks");
        }
        _ => {}
    }
    let (name, mut ranges) = parts[random.below(7) as usize];
    if ranges.is_empty() {
        ranges = &layout.inodes;
    }
    if name == "journal" && random.below(2) == 0 {
        // Its beginning is what is in use.
        ranges = &ranges[..ranges.len().min(40)];
    }
    for _ in 0..1 + random.below(12) {
        let range = ranges[random.below(ranges.len() as u64) as usize].clone();
        let at = range.start + random.below(range.len() as u64) as usize;
        match random.below(6) {
            0 | 1 => image[at] ^= 1 << random.below(8),
            2 => image[at] = random.next() as u8,
            3 => {
                let wide = at & !3;
                let values = [0, 1, 0x7fff_ffff, 0x8000_0000, u32::MAX, 4096];
                let value = values[random.below(6) as usize];
                image[wide..wide + 4].copy_from_slice(&value.to_le_bytes());
            }
            4 => {
                // One thing in the place of another of its kind.
                let other = &ranges[random.below(ranges.len() as u64) as usize];
                let len = range.len().min(other.len());
                image.copy_within(other.start..other.start + len, range.start);
            }
            _ => {
                let end = range.end.min(at + random.below(64) as usize);
                image[at..end].fill(random.next() as u8);
            }
        }
    }
    (image, name)
}

/// Errors are all right.
fn use_it(kernel: &Kernel, medium: &Medium, read_only: bool) -> tane::Result<u32> {
    let disk = kernel.add_disk(medium.disk(), &DiskOptions::new())?;
    // The superblock may ask for a panic on errors.
    let mut options = MountOptions::new();
    options.option("errors", "continue");
    exercise(kernel, &disk, &options, !read_only)
}

/// Ends the process if a variant does not end: no thread can be made to.
fn watchdog() -> Sender<String> {
    let (sender, receiver) = channel::<String>();
    std::thread::spawn(move || {
        let mut name = String::from("the start");
        loop {
            match receiver.recv_timeout(PATIENCE) {
                Ok(next) => name = next,
                Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {
                    eprintln!("hangs: {name}");
                    std::process::abort();
                }
            }
        }
    });
    sender
}

/// What this process holds of the host: threads, descriptors, mappings.
fn held() -> [usize; 3] {
    ["/proc/self/task", "/proc/self/fd", "/proc/self/maps"].map(|path| {
        let maps = std::fs::read_to_string(path);
        let lines = maps.map(|text| text.lines().count());
        lines.unwrap_or_else(|_| std::fs::read_dir(path).map_or(0, Iterator::count))
    })
}

fn setting(name: &str, default: u64) -> u64 {
    let value = std::env::var(name).ok();
    value.map_or(default, |value| value.parse().expect("a number"))
}

#[test]
fn no_image_crashes_or_hangs_the_process_or_leaks() {
    let bases = bases(&scratch::boot());
    let first = setting("TANE_HOSTILE_SEED", 0);
    let count = setting("TANE_HOSTILE_COUNT", COUNT);
    let dog = watchdog();
    let sound = Medium::of(&bases[0].image);
    use_it(&scratch::boot(), &sound, false).expect("a sound image");
    let before = held();
    let mut kernel = scratch::boot();
    let at_start = held()[2];
    let (mut refused, mut flawed, mut fine, mut warnings) = (0, 0, 0, 0);
    let mut panics = Vec::new();
    let mut slowest = Duration::ZERO;
    for seed in first..first + count {
        let mut random = Random(seed);
        let base = &bases[random.below(bases.len() as u64) as usize];
        let (image, what) = damage(base, &mut random);
        let name = format!("TANE_HOSTILE_SEED={seed}: {what} of {}", base.name);
        dog.send(name.clone()).expect("the watchdog");
        let medium = Medium::of(&image);
        let start = Instant::now();
        match use_it(&kernel, &medium, seed % 2 == 1) {
            Err(_) => refused += 1,
            Ok(0) => fine += 1,
            Ok(_) => flawed += 1,
        }
        slowest = slowest.max(start.elapsed());
        if !kernel.is_alive() {
            panics.push(format!("{name}\n{}", kernel.last_words()));
            warnings += kernel.dmesg().matches("WARNING: ").count();
            kernel = scratch::boot();
        }
    }
    dog.send(String::from("the end")).expect("the watchdog");
    warnings += kernel.dmesg().matches("WARNING: ").count();
    println!("{refused} refused, {flawed} with errors, {fine} without; slowest {slowest:?}");
    println!("{} kernels panicked, {warnings} warnings", panics.len());
    for panic in &panics {
        println!("{panic}");
    }
    let disks = kernel.tree("/sys/block").and_then(|t| t.read_dir("/"));
    let disks: Vec<PathBuf> = disks
        .expect("/sys/block")
        .flatten()
        .map(|entry| PathBuf::from(entry.file_name()))
        .filter(|name| name.to_string_lossy().starts_with("vd"))
        .collect();
    assert!(disks.is_empty(), "still there: {disks:?}");
    let mappings = held()[2];
    println!("{mappings} mappings, {at_start} at the start");
    // A page of the kernel's vmalloc is a mapping; freed ones stay until there
    // are 32 MiB of them.
    assert!(mappings < at_start + (32 << 20 >> 12) + 1000);
    drop(kernel);
    // Idle threads of the disk pool end after a while.
    drop(dog);
    eventually("the process holds no more than before", || {
        held().iter().zip(before).all(|(now, then)| *now <= then)
    });
}
