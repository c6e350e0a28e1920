//! Files on ext4 in a disk file: by our kernel, which reads and writes the disk
//! file; by the host's, through a loop device; and by the host's in a directory
//! of the file system that the disk file is on. IOzone's passes over files of
//! several sizes, and dd's over a large one.

use super::bed::Buffer;
use crate::kernel::{c_path, check, Host, Kernel};
use crate::mount::Loop;
use crate::paths::Paths;
use crate::promise::{short_size, size, Promise, Set};
use crate::race::{race, Contestant};
use crate::report::{Report, HOST, TANE};
use crate::target::Target;
use crate::tool;
use std::path::{Path, PathBuf};
use std::time::Instant;

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;
/// IOzone's -r 16k.
const RECORD: usize = 16 * KIB;
const SIZES: [usize; 4] = [64 * KIB, 512 * KIB, 4 * MIB, 32 * MIB];
/// dd's bs=1M count=128.
const BLOCK: usize = MIB;
const LARGE: usize = 128 * MIB;
const DISK: &str = "640M";
const RAM: u64 = 1 << 30;

const PASSES: [(&str, &str); 4] = [
    ("write", "write a new file"),
    ("rewrite", "write it again"),
    ("read", "read it from its beginning"),
    ("reread", "read it again"),
];
const DD: [(&str, &str); 5] = [
    ("dd-write-buffered", "dd: write 128 MiB and sync"),
    (
        "dd-write-direct",
        "dd: write 128 MiB past the caches and sync",
    ),
    ("dd-read-warm", "dd: read 128 MiB from the cache"),
    ("dd-read-cold", "dd: read 128 MiB that no cache of ours has"),
    ("dd-read-direct", "dd: read 128 MiB past the caches"),
];

pub fn promises() -> Vec<Promise> {
    let mut rows = Vec::new();
    for (pass, text) in PASSES {
        for bytes in SIZES {
            let name = format!("files-{pass}-{}", short_size(bytes));
            let what = format!("{text}, {} in records of 16 KiB", size(bytes));
            let row = Promise::new(name, Set::Files, what, "µs", Target::None);
            rows.push(row.at(text, bytes as f64, bytes as u64));
        }
    }
    rows.extend(DD.map(|(name, what)| Promise::new(name, Set::Files, what, "ms", Target::None)));
    rows
}

pub fn measure(promise: &Promise, paths: &Paths, report: &mut Report) -> Result<(), String> {
    let direct = promise.name.ends_with("direct");
    let image = |name: &str| disk(&paths.disk.join(name));
    let inside = Inside::new(&image("inside.ext4")?, direct);
    let looped = image("loop.ext4").and_then(|image| Outside::looped(paths, &image));
    let plain = Outside::directory(paths);
    let job = Job::new(promise)?;
    let mut contestants = Vec::new();
    match &inside {
        Ok(inside) => {
            let point = inside.mount.mount_point();
            let mut stand = Stand::new(&inside.kernel, point, Some(&inside.disk));
            stand.maps_inside = direct;
            let note = match direct {
                true => "a buffer mapped inside: O_DIRECT takes no other",
                false => "",
            };
            contestants.push(Contestant::new(TANE, job.contest(stand)?).noted(note));
        }
        Err(why) => report.miss(promise, TANE, why),
    }
    for (subject, outside) in [(HOST, &looped), ("host, directory", &plain)] {
        match outside {
            Ok(outside) => {
                let stand = Stand::new(&Host, &outside.dir, outside.disk.as_deref());
                let contestant = Contestant::new(subject, job.contest(stand)?);
                contestants.push(contestant.noted(outside.note));
            }
            Err(why) => report.miss(promise, subject, why),
        }
    }
    race(promise, report.runs, contestants, report);
    Ok(())
}

/// A fresh ext4, all of its tables written.
fn disk(path: &Path) -> Result<PathBuf, String> {
    let mke2fs = tool::need("mke2fs", "e2fsprogs")?;
    let _ = std::fs::remove_file(path);
    let options = [
        "-q",
        "-F",
        "-t",
        "ext4",
        "-E",
        "lazy_itable_init=0,lazy_journal_init=0",
    ];
    tool::output(tool::command(&mke2fs, options).arg(path).arg(DISK))?;
    Ok(path.into())
}

/// Our kernel with the disk mounted.
struct Inside {
    mount: tane::Mount,
    /// Holds the disk as long as it is mounted.
    _device: tane::Disk,
    kernel: tane::Kernel,
    disk: PathBuf,
}

impl Inside {
    fn new(disk: &Path, direct: bool) -> Result<Self, String> {
        let text = |e: tane::Error| e.to_string();
        let kernel = tane::Kernel::builder().memory(RAM).boot().map_err(text)?;
        let mut options = tane::DiskOptions::new();
        options.direct(direct);
        let device = kernel.open_disk(disk, &options).map_err(text)?;
        let options = tane::MountOptions::new();
        let mount = options.mount(&kernel, device.device()).map_err(text)?;
        let disk = disk.into();
        Ok(Self {
            mount,
            _device: device,
            kernel,
            disk,
        })
    }
}

/// A directory of the host's.
struct Outside {
    dir: PathBuf,
    disk: Option<PathBuf>,
    note: &'static str,
    _mounted: Option<Loop>,
}

impl Outside {
    fn looped(paths: &Paths, disk: &Path) -> Result<Self, String> {
        let mounted = Loop::new(disk, &paths.disk.join("mnt"))?;
        Ok(Self {
            dir: mounted.point.clone(),
            disk: Some(disk.into()),
            note: "loop device",
            _mounted: Some(mounted),
        })
    }

    fn directory(paths: &Paths) -> Result<Self, String> {
        let dir = paths.disk.join("dir");
        std::fs::create_dir_all(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
        Ok(Self {
            dir,
            disk: None,
            note: "no disk file",
            _mounted: None,
        })
    }
}

/// A kernel, a directory in it, and the host's file below it, if there is one.
struct Stand<'a, K> {
    kernel: &'a K,
    path: PathBuf,
    disk: Option<&'a Path>,
    /// Whether reads and writes are from and to memory of that kernel's.
    maps_inside: bool,
}

impl<'a, K: Kernel> Stand<'a, K> {
    fn new(kernel: &'a K, dir: &Path, disk: Option<&'a (impl AsRef<Path> + ?Sized)>) -> Self {
        Self {
            kernel,
            path: dir.join("file"),
            disk: disk.map(AsRef::as_ref),
            maps_inside: false,
        }
    }

    fn open(&self, flags: i32) -> Result<Open<'a, K>, String> {
        let path = c_path(&self.path);
        let args = [path.as_ptr() as u64, flags as u64, 0o600, 0, 0, 0];
        // SAFETY: a C string.
        let fd = unsafe { self.kernel.call(libc::SYS_open, args) };
        let fd = check(&self.path.display().to_string(), fd)?;
        let kernel = self.kernel;
        Ok(Open { kernel, fd })
    }

    fn memory(&self, len: usize) -> Result<Memory, String> {
        if !self.maps_inside {
            return Buffer::new(len).map(Memory::Own);
        }
        let protection = (libc::PROT_READ | libc::PROT_WRITE) as u64;
        let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE) as u64;
        let args = [0, len as u64, protection, flags, u64::MAX, 0];
        // SAFETY: a new mapping, that goes with its kernel.
        let at = unsafe { self.kernel.call(libc::SYS_mmap, args) };
        check("mmap inside", at).map(|at| Memory::Inside(at as u64))
    }

    /// Of the file and of what is below it.
    fn forget(&self) -> Result<(), String> {
        let file = self.open(libc::O_RDWR)?;
        file.sync()?;
        file.forget()?;
        if let Some(disk) = self.disk {
            let path = c_path(disk);
            let args = [path.as_ptr() as u64, libc::O_RDONLY as u64, 0, 0, 0, 0];
            // SAFETY: a C string.
            let fd = check("the disk file", unsafe { Host.call(libc::SYS_open, args) })?;
            let below = Open { kernel: &Host, fd };
            below.sync()?;
            below.forget()?;
        }
        Ok(())
    }
}

/// Where what is read goes.
enum Memory {
    Own(Buffer),
    Inside(u64),
}

impl Memory {
    fn address(&self) -> u64 {
        match self {
            Self::Own(buffer) => buffer.address(),
            Self::Inside(address) => *address,
        }
    }
}

struct Open<'a, K: Kernel> {
    kernel: &'a K,
    fd: i64,
}

impl<K: Kernel> Open<'_, K> {
    fn number(&self, what: &str, nr: i64, a: u64, b: u64, c: u64) -> Result<i64, String> {
        // SAFETY: these calls take a descriptor and numbers.
        check(what, unsafe {
            self.kernel.call(nr, [self.fd as u64, a, b, c, 0, 0])
        })
    }

    fn sync(&self) -> Result<(), String> {
        self.number("fsync", libc::SYS_fsync, 0, 0, 0).map(drop)
    }

    fn forget(&self) -> Result<(), String> {
        let advice = libc::POSIX_FADV_DONTNEED as u64;
        self.number("fadvise", libc::SYS_fadvise64, 0, 0, advice)
            .map(drop)
    }

    /// All of a file of this size, piece by piece, from its beginning.
    fn pass(&self, nr: i64, buffer: &Memory, piece: usize, bytes: usize) -> Result<(), String> {
        self.number("lseek", libc::SYS_lseek, 0, 0, 0)?;
        for _ in 0..bytes / piece {
            let args = [self.fd as u64, buffer.address(), piece as u64, 0, 0, 0];
            // SAFETY: as large as the buffer.
            let done = unsafe { self.kernel.call(nr, args) };
            if check("a read or write", done)? != piece as i64 {
                return Err(format!("{done} of {piece} bytes were read or written"));
            }
        }
        Ok(())
    }
}

impl<K: Kernel> Drop for Open<'_, K> {
    fn drop(&mut self) {
        let _ = self.number("close", libc::SYS_close, 0, 0, 0);
    }
}

/// What a row does.
struct Job {
    name: String,
    bytes: usize,
    piece: usize,
}

const NEW: i32 = libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC;

impl Job {
    fn new(promise: &Promise) -> Result<Self, String> {
        let (bytes, piece) = match &promise.point {
            Some(point) => (point.bytes as usize, RECORD),
            None => (LARGE, BLOCK),
        };
        let name = promise.name.trim_start_matches("files-");
        let name = match promise.point {
            Some(_) => name.rsplit_once('-').ok_or("no pass")?.0,
            None => name,
        };
        let name = name.to_string();
        Ok(Self { name, bytes, piece })
    }

    /// Only the passes are timed, and the sync of those that have one.
    fn contest<'a, K: Kernel>(
        &'a self,
        stand: Stand<'a, K>,
    ) -> Result<impl FnMut() -> Result<f64, String> + 'a, String> {
        let buffer = stand.memory(self.piece)?;
        Ok(move || {
            let seconds = self.once(&stand, &buffer)?;
            let unit = if self.piece == RECORD { 1e6 } else { 1e3 };
            Ok(seconds * unit)
        })
    }

    fn once<K: Kernel>(&self, stand: &Stand<K>, buffer: &Memory) -> Result<f64, String> {
        let write = |file: &Open<K>| file.pass(libc::SYS_write, buffer, self.piece, self.bytes);
        let read = |file: &Open<K>| file.pass(libc::SYS_read, buffer, self.piece, self.bytes);
        let timed = |work: &dyn Fn() -> Result<(), String>| {
            let start = Instant::now();
            work()?;
            Ok(start.elapsed().as_secs_f64())
        };
        let direct = match self.name.ends_with("direct") {
            true => libc::O_DIRECT,
            false => 0,
        };
        if self.name.contains("dd-write") {
            let file = stand.open(NEW | direct)?;
            return timed(&|| write(&file).and_then(|()| file.sync()));
        }
        if self.name == "write" {
            // What an earlier run wrote is gone before the clock runs.
            let file = stand.open(NEW)?;
            return timed(&|| write(&file));
        }
        write(&stand.open(NEW)?)?;
        if self.name == "rewrite" {
            let file = stand.open(libc::O_RDWR)?;
            return timed(&|| write(&file));
        }
        if self.name != "read" && self.name != "reread" {
            stand.forget()?;
        }
        let file = stand.open(libc::O_RDWR | direct)?;
        if self.name == "reread" || self.name == "dd-read-warm" {
            read(&file)?;
        }
        timed(&|| read(&file))
    }
}
