//! A volume of an image that is not mounted: what is on it, and its bytes in an
//! ordinary file for the programs of the distribution, which know nothing of
//! containers, partition tables, LUKS and LVM.

mod import;
mod locks;
mod new;

use locks::is_raw;
pub use locks::{container, lock_replaced, locked};
pub(super) use new::look_at_temporary_files;

use super::choose::{choose, choose_place};
use super::machine::Machine;
use super::{held, jail, redo, scratch, Access};
use crate::failure::{Failure, Result, SOME_FAILED};
use crate::session::Global;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use tane::ImagePath;
use tane::{Volume, VolumeKind};
use tane_linux::{Errno, Fd, Linux, Root, Sys};

/// What is copied at once, and compared at once.
const PIECE: usize = 1 << 20;
const GRAIN: usize = 64 << 10;
const BLKZEROOUT: u32 = 0x127f;
const BLKSSZGET: u32 = 0x1268;

/// What of an image is meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Want {
    /// The volume that holds the file system.
    FileSystem,
    /// The place, whatever is there; with a key what that opens.
    Place,
    /// The same, but the key may be for another image.
    PlaceByAnyKey,
}

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
    /// Its name and its UUID.
    pub label: Option<String>,
    pub uuid: Option<String>,
    /// The image is the disk's bytes as they are, and this volume all of them.
    pub is_file: bool,
    /// Where it begins in the image's file, if that has its bytes as they are.
    place: Option<u64>,
    /// Where the next partition of its disk starts, if one follows.
    pub next_start: Option<u64>,
    /// A logical partition: its entry lies between others, and not at the disk's ends.
    pub is_logical: bool,
    /// Whether its disk has partitions.
    pub in_table: bool,
    /// Bytes of the disk.
    pub disk_size: u64,
    /// Its file system is on other devices too.
    pub is_part: bool,
    /// A key has opened what it is in, or the image.
    pub is_decrypted: bool,
}

impl Target {
    /// The volume that holds the file system which the address means; with `blank`
    /// the place for one, whatever is there.
    pub fn open(at: &ImagePath, access: Access, blank: bool, global: &Global) -> Result<Target> {
        match blank {
            true => Target::open_as(at, access, Want::Place, global),
            false => Target::open_as(at, access, Want::FileSystem, global),
        }
    }

    pub fn open_as(at: &ImagePath, access: Access, want: Want, global: &Global) -> Result<Target> {
        if at.within.is_some() && access == Access::Write {
            let text = "is inside another image: copy it out of there first";
            return Err(Failure::usage(format!("{}: {text}", at.image.display())));
        }
        if !global.lower.is_empty() {
            return Err(Failure::usage("--lower is for verbs that read files"));
        }
        let machine = Machine::with_image(at, access, global)?;
        let device = match want {
            Want::FileSystem => choose(&machine, at, global)?,
            Want::Place => choose_place(&machine, at, false)?,
            Want::PlaceByAnyKey => choose_place(&machine, at, true)?,
        };
        let volumes = machine.volumes()?;
        let list = volumes.list();
        let found = list
            .iter()
            .position(|v| v.device.as_deref() == Some(&device));
        let gone = || Failure::image(format!("{}: is gone", at.image.display()));
        let index = found.ok_or_else(gone)?;
        let volume = &list[index];
        if volume.kind == VolumeKind::BitLocker && access == Access::Write {
            let text = "is in a BitLocker volume: its files can be changed, the file system \
                        itself only by Windows";
            return Err(Failure::image(format!("{}: {text}", at.image.display())));
        }
        let fstype = volume.found.as_ref().map(|f| f.fstype.clone());
        let label = volume.found.as_ref().and_then(|f| f.label.clone());
        let uuid = volume.found.as_ref().and_then(|f| f.uuid.clone());
        let (kind, start, size) = (volume.kind.clone(), volume.start, volume.size);
        let starts = || list.iter().filter_map(|v| v.start);
        let next_start = starts().filter(|&at| at > start.unwrap_or(0)).min();
        let in_table = starts().next().is_some();
        let disks = list.iter().filter(|v| v.kind == VolumeKind::Disk);
        let disk_size = disks.map(|v| v.size).max().unwrap_or(size);
        let is_raw = is_raw(at, global);
        let is_file = kind == VolumeKind::Disk && is_raw;
        let of_disk = matches!(kind, VolumeKind::Partition(_))
            && matches!(volume.on[..], [on] if list[on].kind == VolumeKind::Disk);
        let place = start.filter(|_| of_disk && is_raw && global.with.is_empty());
        let is_part = volume.is_short() || list.iter().filter(|v| is_same(v, volume)).count() > 1;
        let is_unlocked = |i: usize| list[i].kind.is_unlocked() && volumes.lies_on(index, i);
        let is_decrypted = machine.is_encrypted() || (0..list.len()).any(is_unlocked);
        // The types of logical ones are not known: the others' tell.
        let types = list.iter().filter(|v| v.on == volume.on);
        let mut types = types.filter_map(|v| v.part_type.as_ref());
        let of_mbr = types.any(|t| t.starts_with("0x"));
        Ok(Target {
            is_decrypted,
            is_logical: of_mbr && matches!(kind, VolumeKind::Partition(5..)),
            image: at.image.clone(),
            start: start.unwrap_or(0),
            fstype: global.fs.clone().or(fstype),
            label,
            uuid,
            machine,
            device,
            kind,
            size,
            is_file,
            place: place.or(is_file.then_some(0)),
            next_start,
            in_table,
            disk_size,
            is_part,
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

    /// Bytes of a sector of it: Linux mounts nothing there that has smaller blocks.
    pub fn sector(&self) -> u32 {
        let mut bytes: i32 = 0;
        let done = self.device(libc::O_RDONLY).map(|device| {
            let asked = device.sys().ioctl(&device, BLKSSZGET, &mut bytes);
            asked.is_ok()
        });
        match done {
            Ok(true) => u32::try_from(bytes).unwrap_or(512),
            _ => 512,
        }
    }

    /// What would be lost if all of it became new; None if nothing is there.
    pub fn holds(&self) -> Option<String> {
        if self.kind == VolumeKind::Disk && self.in_table {
            return Some("a partition table".into());
        }
        let held = || {
            let file = held::open(&self.image, Access::Read);
            let file = file.ok().filter(|_| self.is_file)?;
            let unknown = || "data of an unknown kind".to_owned();
            let is_blank = ends_are_blank(&file).unwrap_or(true);
            tane::held_by(&file).or_else(|| (!is_blank).then(unknown))
        };
        self.fstype.clone().or_else(held)
    }

    /// Why not, and what can be done about it.
    pub fn taken(&self, what: &str) -> Failure {
        let name = self.image.display();
        let by_key = !self.machine.secrets().is_empty();
        let text = match what {
            "crypto_LUKS" => format!(
                "{name}: holds {what}: --key-file or --passphrase-file means what is inside; \
                 --force replaces the LUKS volume itself and all that is in it"
            ),
            "LVM2_member" | "linux_raid_member" if by_key => {
                format!("{name}: holds {what}: name a volume of it; tane inspect shows them")
            }
            _ => format!("{name}: holds {what}: --force replaces it"),
        };
        Failure::new(SOME_FAILED, text)
    }

    pub fn flush(&self) -> Result<()> {
        self.machine.flush().map_err(|e| self.fail(&e))
    }

    /// Lets a program for file systems of this kind work on its bytes; what that changed
    /// is in the image after. `blank`: all of it is new, and what was there is no matter.
    pub fn work<T>(
        self,
        kind: &str,
        access: Access,
        blank: bool,
        work: impl FnOnce(&Path) -> Result<T>,
    ) -> Result<T> {
        if self.is_file {
            let image = self.image.clone();
            // The kernel's caches go, and its locks; ours take their place.
            drop(self);
            let (_file, lock) = locked(&image, access)?;
            if kind.starts_with("ntfs") {
                lock.leave_bytes();
            }
            return work(&image);
        }
        let all = 0..self.size;
        self.work_apart(access, blank, &[all], work)
    }

    /// Lets a program that knows partition tables work on a disk: on its first and its
    /// last MiB, between which it sees zeroes.
    pub fn work_on_table<T>(self, work: impl FnOnce(&Path) -> Result<T>) -> Result<T> {
        const TABLE: u64 = 1 << 20;
        let ends = [
            0..TABLE.min(self.size),
            self.size.saturating_sub(TABLE)..self.size,
        ];
        self.work_apart(Access::Write, false, &ends, work)
    }

    fn work_apart<T>(
        self,
        access: Access,
        blank: bool,
        ranges: &[Range<u64>],
        work: impl FnOnce(&Path) -> Result<T>,
    ) -> Result<T> {
        let temporary = Temporary::new(self.size)?;
        let fail = |e| self.fail(&e);
        if !blank {
            let copied = ranges
                .iter()
                .try_for_each(|range| self.copy_out(&temporary.file, range));
            copied.map_err(fail)?;
        }
        let result = work(&temporary.path)?;
        if access == Access::Write {
            // Who made the file system smaller may have cut the file.
            temporary.file.set_len(self.size).map_err(fail)?;
            let copy = || {
                let mut ranges = ranges.iter();
                ranges.try_for_each(|range| self.copy_in(&temporary.file, range, blank))
            };
            redo::as_a_whole(copy).map_err(fail)?;
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

    /// All of it that is not zero, in pieces of 64 KiB (the last one may be shorter), by
    /// their places. EINTR of `to` ends it as an interruption.
    pub fn read_data(&self, to: impl FnMut(u64, &[u8]) -> io::Result<()>) -> Result<()> {
        self.read_range(&(0..self.size), to)
            .map_err(|e| match e.kind() {
                io::ErrorKind::Interrupted => Failure::interrupted(),
                _ => self.fail(&e),
            })
    }

    fn copy_out(&self, to: &File, range: &Range<u64>) -> io::Result<()> {
        self.read_range(range, |at, grain| to.write_all_at(grain, at))
    }

    fn read_range(
        &self,
        range: &Range<u64>,
        mut to: impl FnMut(u64, &[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        let device = self.device(libc::O_RDONLY)?;
        let mut buffer = vec![0; PIECE];
        for at in range.clone().step_by(PIECE) {
            let len = (range.end - at).min(PIECE as u64) as usize;
            let got = device.sys().pread_all(&device, &mut buffer[..len], at);
            let got = got.map_err(wrong)?;
            for (i, grain) in buffer[..got].chunks(GRAIN).enumerate() {
                if grain.iter().any(|b| *b != 0) {
                    to(at + (i * GRAIN) as u64, grain)?;
                }
            }
            device.sys().forget(&device, at, len as u64);
        }
        Ok(())
    }

    /// Only what differs is written.
    fn copy_in(&self, from: &File, range: &Range<u64>, blank: bool) -> io::Result<()> {
        let device = self.device(libc::O_RDWR)?;
        let sys = device.sys();
        if blank && !self.blank(&device, range)? {
            if new::is_written_known() {
                self.copy_written(from, &device, range)?;
                return self.sync(&device);
            }
            self.zero(&device, range.start, range.end - range.start)?;
        }
        let (mut new, mut old) = (vec![0; PIECE], vec![0; PIECE]);
        for at in range.clone().step_by(PIECE) {
            let len = (range.end - at).min(PIECE as u64) as usize;
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
        self.sync(&device)
    }
}

impl Linux for Target {
    unsafe fn call(&self, nr: i64, args: [u64; 6]) -> i64 {
        // SAFETY: the caller vouches for the arguments.
        unsafe { self.machine.kernel.syscall(nr, args) }
    }

    fn is_ours(&self) -> bool {
        true
    }
}

/// Whether two volumes are devices of one btrfs.
fn is_same(a: &Volume, b: &Volume) -> bool {
    let id = |v: &Volume| {
        let found = v.found.as_ref().filter(|f| f.fstype == "btrfs");
        found.and_then(|f| f.uuid.clone())
    };
    id(a).is_some() && id(a) == id(b)
}

/// Whether a file of the host begins and ends with zeroes.
fn ends_are_blank(file: &File) -> io::Result<bool> {
    let size = file.metadata()?.len();
    let piece = size.min(PIECE as u64);
    let mut bytes = vec![0; piece as usize];
    for at in [0, size - piece] {
        file.read_exact_at(&mut bytes, at)?;
        if bytes.iter().any(|b| *b != 0) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn wrong(e: Errno) -> io::Error {
    io::Error::from_raw_os_error(e.0)
}

fn failed(image: &Path, e: &io::Error) -> Failure {
    Failure::new(SOME_FAILED, format!("{}: {e}", image.display()))
}

/// A file with a name, for as long as programs need it.
struct Temporary {
    path: PathBuf,
    file: File,
}

impl Temporary {
    fn new(size: u64) -> Result<Temporary> {
        let (path, file) = held::temporary()?;
        file.set_len(size).map_err(|e| failed(&path, &e))?;
        Ok(Temporary { path, file })
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // A jail has no names: who sweeps removes it later, and its room is free now.
        let _ = self.file.set_len(0);
        let _ = std::fs::remove_file(&self.path);
    }
}
