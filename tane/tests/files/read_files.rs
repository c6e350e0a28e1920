//! Promises about files that are read many at once.

use crate::common::{ext4, kernel, mount, TempDir};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use tane::images::{total, Access, Backend, Buffers, HostRange, Raw};
use tane::{DiskOptions, MountOptions};

/// A file of the host that counts what the kernel reads of it, in bytes.
struct Counted(Raw, AtomicU64);

impl Counted {
    fn count(&self, to: Buffers) {
        self.1.fetch_add(total(to) as u64, Ordering::Relaxed);
    }
}

impl Backend for Counted {
    fn size(&self) -> u64 {
        self.0.size()
    }

    fn read_only(&self) -> bool {
        true
    }

    fn read(&self, to: Buffers, offset: u64) -> io::Result<()> {
        self.count(to);
        self.0.read(to, offset)
    }

    fn write(&self, from: Buffers, offset: u64) -> io::Result<()> {
        self.0.write(from, offset)
    }

    fn flush(&self) -> io::Result<()> {
        self.0.flush()
    }

    fn discard(&self, offset: u64, len: u64) -> io::Result<()> {
        self.0.discard(offset, len)
    }

    fn write_zeroes(&self, offset: u64, len: u64, may_unmap: bool) -> io::Result<()> {
        self.0.write_zeroes(offset, len, may_unmap)
    }

    fn host_range(&self, offset: u64, len: u64) -> Option<HostRange> {
        self.0.host_range(offset, len)
    }
}

const FILES: usize = 60;
const LEN: usize = 50_000;

fn content(file: usize) -> Vec<u8> {
    (0..LEN).map(|at| (file * 7 + at / 11 + at) as u8).collect()
}

fn name(file: usize) -> String {
    format!("{file}")
}

/// An image with those files.
fn image(dir: &TempDir) -> Option<std::path::PathBuf> {
    let image = ext4(dir, 32);
    let kernel = kernel()?;
    let (_disk, mount) = mount(&kernel, &image);
    for file in 0..FILES {
        mount.write(name(file), content(file)).unwrap();
    }
    mount.unmount().unwrap();
    Some(image)
}

fn counted(image: &Path) -> Arc<Counted> {
    let access = Access {
        write: false,
        direct: false,
    };
    let raw = Raw::open(image, access).unwrap();
    Arc::new(Counted(raw, AtomicU64::new(0)))
}

#[test]
fn what_the_host_has_the_kernel_does_not_read() {
    let dir = TempDir::new();
    let Some(image) = image(&dir) else { return };
    let kernel = kernel().expect("as before");
    let disk = counted(&image);
    let options = DiskOptions::new();
    let attached = kernel.add_disk(disk.clone(), &options).unwrap();
    let mut options = MountOptions::new();
    let mount = options.read_only(true).mount(&kernel, attached.device());
    let mount = mount.unwrap();
    let mut room = vec![0; FILES * LEN + 1];
    let lengths = mount.read_files((0..FILES).map(name), &mut room);
    assert!(lengths.iter().all(|n| n.as_ref().is_ok_and(|n| *n == LEN)));
    for (file, read) in room.chunks_exact(LEN).enumerate() {
        assert!(read == content(file), "{file}");
    }
    let read = disk.1.load(Ordering::Relaxed);
    assert!(read < (FILES * LEN / 2) as u64, "{read} bytes were read");
    // One after the other the kernel does.
    assert!(mount.read(name(0)).unwrap() == content(0));
    assert!(disk.1.load(Ordering::Relaxed) >= read + LEN as u64);
}

#[test]
fn a_mount_that_may_be_written_has_no_place_on_the_host() {
    let dir = TempDir::new();
    let Some(image) = image(&dir) else { return };
    let kernel = kernel().expect("as before");
    let (_disk, mount) = mount(&kernel, &image);
    assert!(mount.host_blocks().is_none());
    mount.write(name(3), b"new").unwrap();
    let mut room = vec![0; LEN];
    let lengths = mount.read_files([name(3)], &mut room);
    assert!(matches!(lengths[..], [Ok(3)]) && room.starts_with(b"new"));
}

#[test]
fn files_are_read_as_far_as_there_is_room() {
    let dir = TempDir::new();
    let Some(image) = image(&dir) else { return };
    let image = tane::Image::open(image).unwrap();
    let mount = image.mount(None, &MountOptions::new()).unwrap();
    assert!(mount.host_blocks().is_some());
    let mut room = vec![0; 3 * LEN];
    let read = mount.read_files((0..FILES).map(name), &mut room);
    assert_eq!(read.len(), 2, "the third could be longer");
    let names = ["1", "none", "lost+found", "2"];
    let read = mount.read_files(names, &mut room);
    let errnos: Vec<_> = read
        .iter()
        .map(|r| r.as_ref().map_err(|e| e.errno()))
        .collect();
    let (none, dir) = (Err(libc::ENOENT), Err(libc::EISDIR));
    assert_eq!(errnos, [Ok(&LEN), none, dir, Ok(&LEN)]);
    assert!(room[LEN..2 * LEN] == content(2));
}
