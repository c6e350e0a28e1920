//! A volume of an image that is not mounted: what is on it, and its bytes in an
//! ordinary file for the programs of the distribution, which know nothing of
//! containers, partition tables, LUKS and LVM.

use super::choose::{choose, choose_place};
use super::machine::Machine;
use super::scratch;
use super::{redo, Access};
use crate::args::Global;
use crate::failure::{Failure, Result, SOME_FAILED};
use crate::sys::{Errno, Fd, Root, Side, Sys};
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use tane::VolumeKind;
use tane::{is_remote, ImagePath};

/// What is copied at once, and compared at once.
const PIECE: usize = 1 << 20;
const GRAIN: usize = 64 << 10;
const BLKZEROOUT: usize = 0x127f;

pub struct Target {
    machine: Machine,
    device: PathBuf,
    image: PathBuf,
    /// Its place on the image's disk.
    pub kind: VolumeKind,
    /// Of a partition: its first byte.
    pub start: u64,
    /// Bytes.
    pub size: u64,
    /// What is on it.
    pub fstype: Option<String>,
    /// The image is the disk's bytes as they are, and this volume all of them.
    pub is_file: bool,
    /// Where the last partition of its disk starts, if there is one.
    pub last_start: Option<u64>,
}

impl Target {
    /// The volume that holds the file system which the address means; with `blank`
    /// the place for one, whatever is there.
    pub fn open(at: &ImagePath, access: Access, blank: bool, global: &Global) -> Result<Target> {
        if at.within.is_some() && access == Access::Write {
            let text = "is inside another image: copy it out of there first";
            return Err(Failure::usage(format!("{}: {text}", at.image.display())));
        }
        if !global.lower.is_empty() {
            return Err(Failure::usage("--lower is for verbs that read files"));
        }
        let machine = Machine::with_image(at, access, global)?;
        let device = match blank {
            true => choose_place(&machine, at)?,
            false => choose(&machine, at, global)?,
        };
        let list = machine.volumes()?.list();
        let found = list.iter().find(|v| v.device.as_deref() == Some(&device));
        let gone = || Failure::image(format!("{}: is gone", at.image.display()));
        let volume = found.ok_or_else(gone)?;
        let fstype = volume.found.as_ref().map(|f| f.fstype.clone());
        let (kind, start, size) = (volume.kind.clone(), volume.start, volume.size);
        let last_start = list.iter().filter_map(|v| v.start).max();
        let is_file = kind == VolumeKind::Disk && is_raw(at, global);
        Ok(Target {
            image: at.image.clone(),
            start: start.unwrap_or(0),
            fstype: global.fs.clone().or(fstype),
            machine,
            device,
            kind,
            size,
            is_file,
            last_start,
        })
    }

    /// Its file system, mounted for writing.
    pub fn mount(&self, global: &Global) -> std::result::Result<tane::Mount, tane::Error> {
        let mut options = tane::MountOptions::new();
        if let Some(fs) = &self.fstype {
            options.fstype(fs);
        }
        options.options(global.options.as_deref().unwrap_or_default());
        options.mount(&self.machine.kernel, &self.device)
    }

    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    pub fn flush(&self) -> Result<()> {
        self.machine.flush().map_err(|e| self.fail(&e))
    }

    /// Lets a program work on its bytes; what that changed is in the image after.
    /// `blank`: all of it is new, and what was there is no matter.
    pub fn work<T>(
        self,
        access: Access,
        blank: bool,
        work: impl FnOnce(&Path) -> Result<T>,
    ) -> Result<T> {
        if self.is_file {
            let image = self.image.clone();
            // The kernel's caches go, and its lock; ours takes its place.
            drop(self);
            let write = access == Access::Write;
            let file = File::options().read(true).write(write).open(&image);
            let file = file.map_err(|e| failed(&image, &e))?;
            if access == Access::Write {
                lock(&file).map_err(|e| failed(&image, &e))?;
            }
            return work(&image);
        }
        let temporary = Temporary::new(self.size)?;
        if !blank {
            self.copy_out(&temporary.file).map_err(|e| self.fail(&e))?;
        }
        let result = work(&temporary.path)?;
        if access == Access::Write {
            let copied = redo::as_a_whole(|| self.copy_in(&temporary.file, blank));
            copied.map_err(|e| self.fail(&e))?;
            self.flush()?;
        }
        Ok(result)
    }

    fn fail(&self, e: &io::Error) -> Failure {
        failed(&self.image, e)
    }

    fn device(&self, flags: i32) -> io::Result<Fd<'_>> {
        let root = Root::host(Sys(self));
        root.open(self.device.as_os_str().as_bytes(), flags)
            .map_err(wrong)
    }

    fn copy_out(&self, to: &File) -> io::Result<()> {
        let device = self.device(libc::O_RDONLY)?;
        let mut buffer = vec![0; PIECE];
        for at in (0..self.size).step_by(PIECE) {
            let len = (self.size - at).min(PIECE as u64) as usize;
            let got = device.sys().pread_all(&device, &mut buffer[..len], at);
            let got = got.map_err(wrong)?;
            for (i, grain) in buffer[..got].chunks(GRAIN).enumerate() {
                if grain.iter().any(|b| *b != 0) {
                    to.write_all_at(grain, at + (i * GRAIN) as u64)?;
                }
            }
            device.sys().forget(&device, at, len as u64);
        }
        Ok(())
    }

    /// Only what differs is written.
    fn copy_in(&self, from: &File, blank: bool) -> io::Result<()> {
        let device = self.device(libc::O_RDWR)?;
        // Who made the file system smaller may have cut the file.
        from.set_len(self.size)?;
        let sys = device.sys();
        if blank {
            let range = [0, self.size];
            let args = [
                device.raw() as usize,
                BLKZEROOUT,
                range.as_ptr() as usize,
                0,
                0,
                0,
            ];
            // SAFETY: the call reads two numbers of ours.
            let done = unsafe { self.call(libc::SYS_ioctl, args) };
            if done < 0 {
                return Err(io::Error::from_raw_os_error(-done as i32));
            }
        }
        let (mut new, mut old) = (vec![0; PIECE], vec![0; PIECE]);
        for at in (0..self.size).step_by(PIECE) {
            let len = (self.size - at).min(PIECE as u64) as usize;
            from.read_exact_at(&mut new[..len], at)?;
            match blank {
                true => old[..len].fill(0),
                false => {
                    sys.pread_all(&device, &mut old[..len], at).map_err(wrong)?;
                }
            }
            let grains = new[..len].chunks(GRAIN).zip(old[..len].chunks(GRAIN));
            for (i, (new, old)) in grains.enumerate() {
                if new != old {
                    let at = at + (i * GRAIN) as u64;
                    sys.pwrite_all(&device, new, at).map_err(wrong)?;
                }
            }
        }
        let args = [device.raw() as usize, 0, 0, 0, 0, 0];
        // SAFETY: no pointers.
        match unsafe { self.call(libc::SYS_fsync, args) } {
            0 => Ok(()),
            e => Err(io::Error::from_raw_os_error(-e as i32)),
        }
    }
}

impl Side for Target {
    unsafe fn call(&self, nr: libc::c_long, args: [usize; 6]) -> isize {
        let args = args.map(|a| a as u64);
        // SAFETY: the caller vouches for the arguments.
        unsafe { self.machine.kernel.syscall(nr, args) as isize }
    }

    fn is_ours(&self) -> bool {
        true
    }
}

fn wrong(e: Errno) -> io::Error {
    io::Error::from_raw_os_error(e.0)
}

fn failed(image: &Path, e: &io::Error) -> Failure {
    Failure::new(SOME_FAILED, format!("{}: {e}", image.display()))
}

/// Whether the file has the disk's bytes as they are, and is what is written to.
pub fn is_raw(at: &ImagePath, global: &Global) -> bool {
    let raw = tane::images::Format::Raw;
    let found = || {
        let file = File::open(&at.image)?;
        tane::images::detect(&tane::images::Raw::from_file(
            file,
            tane::images::Access::default(),
        )?)
    };
    let is = match global.format {
        Some(format) => format == raw,
        None => found().is_ok_and(|format| format == raw),
    };
    is && global.overlay.is_none() && at.within.is_none() && !is_remote(&at.image)
}

/// flock(2), as every verb that writes does it.
fn lock(file: &File) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    // SAFETY: a descriptor of ours.
    match unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// A file with a name, for as long as programs need it.
struct Temporary {
    path: PathBuf,
    file: File,
}

impl Temporary {
    fn new(size: u64) -> Result<Temporary> {
        let path = scratch::directory()?.join("volume");
        let mut options = File::options();
        options.read(true).write(true).mode(0o600).create_new(true);
        let file = options.open(&path).map_err(|e| failed(&path, &e))?;
        file.set_len(size).map_err(|e| failed(&path, &e))?;
        Ok(Temporary { path, file })
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}
