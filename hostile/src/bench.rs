//! A kernel that meets one damaged file system after the other, and goes back in between.

use crate::calls::{Call, Names};
use crate::sparse::{Block, Sparse, BLOCK};
use crate::words::{warnings, WARNING};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tane::images::{buffer, Backend, Ram};
use tane::{Checkpoint, Disk, DiskOptions, File, Kernel, Mount, MountOptions, OpenOptions, Result};

/// What is kept of the kernel's log for each; more than any oops has.
const LOG: usize = 1 << 20;
/// Where kernels count their ways (CONFIG_TANE_FUZZ).
const EDGES: &str = "tane-edges";
/// How many there can be.
const MOST: usize = 1 << 16;
/// The same in each run: seconds since 1970, and chance.
const TIME: u64 = 1_700_000_000;
const CHANCE: u64 = 15;
/// linux/fs.h
const BLKFLSBUF: u64 = 0x1261;
/// How many names are told.
const NAMES: usize = 64;

/// How file systems are met.
#[derive(Clone, Debug)]
pub struct How {
    /// The kernel image.
    pub kernel: PathBuf,
    /// The kernel's memory, in bytes.
    pub memory: u64,
    /// The type of the file system.
    pub fstype: String,
    /// Mount options.
    pub options: String,
    /// Not to be written.
    pub read_only: bool,
}

/// What a kernel made of one of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Its last words, if it has died.
    pub died: Option<String>,
    /// Where it warned.
    pub warnings: Vec<String>,
    /// Errors of the mount, of each call, and of the unmount; 0 for none.
    pub results: Vec<i32>,
    /// Which ways it took, and how often.
    pub edges: Vec<(u16, u8)>,
}

/// A kernel, its disk, and the state that it goes back to.
#[derive(Debug)]
pub struct Bench {
    kernel: Kernel,
    disk: Disk,
    ram: Arc<Ram>,
    edges: Option<File>,
    state: Option<Checkpoint>,
    log: Arc<Mutex<String>>,
    how: How,
}

impl Bench {
    /// Boot it, with this disk, which is still empty: what is to come is still to be met.
    /// `goes_back`: it is to be used more than once.
    pub fn boot(how: &How, ram: Ram, goes_back: bool) -> Result<Bench> {
        let log = Arc::new(Mutex::new(String::new()));
        let sink = log.clone();
        let kernel = Kernel::builder()
            .image(&how.kernel)
            .memory(how.memory)
            .deterministic(TIME, CHANCE)
            .log(move |text| {
                let mut log = sink.lock().unwrap_or_else(PoisonError::into_inner);
                // Some file systems complain millions of times.
                if log.len() < LOG || text.contains(WARNING) {
                    log.push_str(text);
                }
            })
            .boot()?;
        let ram = Arc::new(ram);
        let disk = kernel.add_disk(ram.clone(), DiskOptions::new().in_order(true))?;
        let proc = kernel.tree("/proc")?;
        let mut options = OpenOptions::new();
        let edges = options.read(true).write(true).open(&proc, EDGES).ok();
        let mut bench = Bench {
            kernel,
            disk,
            ram,
            edges,
            state: None,
            log,
            how: how.clone(),
        };
        if goes_back {
            bench.state = Some(bench.kernel.checkpoint()?);
        }
        Ok(bench)
    }

    /// Whether this kernel counts its ways.
    pub fn counts(&self) -> bool {
        self.edges.is_some()
    }

    /// Put a sound file system on the disk, from which all others differ a little.
    pub fn load(&mut self, base: &Sparse) -> Result<()> {
        let nothing = Sparse::empty(base.len());
        self.put(&base.differing(&nothing))?;
        self.forget_the_disk()?;
        if let Some(edges) = &self.edges {
            let start = edges.write_at(b"1", 0);
            start.map_err(|e| error("counting ways", &e))?;
        }
        if self.state.is_some() {
            self.state = Some(self.kernel.checkpoint()?);
        }
        Ok(())
    }

    /// What was read when the disk was still empty.
    fn forget_the_disk(&self) -> Result<()> {
        let name = self.disk.device();
        let name = name.strip_prefix("/dev").unwrap_or(&name);
        let device = self.kernel.tree("/dev")?.open(name)?;
        let args = [device.kernel_fd() as u64, BLKFLSBUF, 0, 0, 0, 0];
        // SAFETY: it has no argument.
        match unsafe { self.kernel.syscall(libc::SYS_ioctl, args) } {
            0 => Ok(()),
            n => Err(tane::Error::plain(
                -n as i32,
                "fuzz",
                "BLKFLSBUF is refused",
            )),
        }
    }

    fn put(&self, blocks: &[(u64, &Block)]) -> Result<()> {
        for (number, block) in blocks {
            let at = number * BLOCK;
            let len = self.ram.size().saturating_sub(at).min(BLOCK) as usize;
            let written = self.ram.write(&[buffer(&block[..len])], at);
            written.map_err(|e| error("a disk in memory", &e))?;
        }
        Ok(())
    }

    /// Meet one that differs in these blocks. `at` is told which call it is at.
    pub fn meet(&self, blocks: &[(u64, &Block)], calls: &[Call], at: &AtomicU32) -> Outcome {
        self.take_log();
        let mut outcome = Outcome::default();
        if let Err(error) = self.put(blocks) {
            outcome.results.push(error.errno());
            return outcome;
        }
        at.store(0, Ordering::Relaxed);
        let results = &mut outcome.results;
        match self.mount() {
            Ok(mount) => {
                results.push(0);
                for (n, call) in calls.iter().enumerate() {
                    at.store(n as u32 + 1, Ordering::Relaxed);
                    results.push(call.make(&mount).err().map_or(0, |e| e.errno()));
                }
                at.store(calls.len() as u32 + 1, Ordering::Relaxed);
                results.push(mount.unmount().err().map_or(0, |e| e.errno()));
            }
            Err(error) => results.push(error.errno()),
        }
        if self.kernel.is_alive() {
            outcome.edges = self.read_edges();
        } else {
            outcome.died = Some(self.kernel.last_words());
        }
        outcome.warnings = warnings(&self.take_log());
        outcome
    }

    fn mount(&self) -> Result<Mount> {
        let mut options = MountOptions::new();
        options.fstype(&self.how.fstype).options(&self.how.options);
        options
            .read_only(self.how.read_only)
            .mount(&self.kernel, self.disk.device())
    }

    /// Some paths that there are.
    pub fn names(&self) -> Result<Names> {
        let mount = self.mount()?;
        let mut found = Vec::new();
        let mut dirs = vec![PathBuf::from("/")];
        while let Some(dir) = dirs.pop() {
            for entry in mount.read_dir(&dir)?.flatten() {
                let path = dir.join(entry.file_name());
                if found.len() == NAMES {
                    break;
                }
                found.push(path.as_os_str().as_bytes().to_vec());
                let is_dir = |path: &Path| {
                    let found = mount.symlink_metadata(path);
                    found.is_ok_and(|metadata| metadata.is_dir())
                };
                if is_dir(&path) {
                    dirs.push(path);
                }
            }
        }
        mount.unmount()?;
        Ok(Names(found))
    }

    /// Be what it was after [`Self::load`], also of the disk.
    pub fn go_back(&self) -> Result<()> {
        match &self.state {
            Some(state) => self.kernel.rollback(state),
            None => Ok(()),
        }
    }

    fn read_edges(&self) -> Vec<(u16, u8)> {
        let mut counts = vec![0; MOST];
        let Some(Ok(n)) = self.edges.as_ref().map(|file| file.read_at(&mut counts, 0)) else {
            return Vec::new();
        };
        let counts = counts[..n].iter().enumerate();
        let taken = counts.filter(|(_, count)| **count > 0);
        taken.map(|(edge, count)| (edge as u16, *count)).collect()
    }

    fn take_log(&self) -> String {
        std::mem::take(&mut *self.log.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn error(what: &str, error: &std::io::Error) -> tane::Error {
    tane::Error::plain(
        tane::errno_or_guess(error),
        "fuzz",
        format!("{what}: {error}"),
    )
}
