//! Volumes: everything on some disks that a file system can be on, and what
//! lies on what. Headers are read here; all the rest is the kernel's own code.
//!
//! ```text
//! volume.rs    what a volume is
//! choose.rs    which of them is meant
//! btrfs.rs     btrfs on several devices
//! bitlocker/   BitLocker, opened by dm-crypt
//! ddf/         sets of RAID controllers
//! luks/        LUKS, opened by dm-crypt
//!   open.rs      with its data, which may lie elsewhere
//! lvm/         LVM2, by device mapper
//! raid.rs      md
//! verity.rs    dm-verity
//! mapper.rs ioctl.rs   how the kernel is asked
//! ```

mod bitlocker;
mod btrfs;
mod choose;
mod ddf;
mod hostile;
mod ioctl;
mod luks;
mod lvm;
mod mapper;
mod raid;
mod root_hash;
mod verity;
mod volume;

use crate::disk::Disk;
use crate::error::{Context, Result};
use crate::kernel::Kernel;
use crate::probe::FileSystem;
use crate::progress::Step;
pub use bitlocker::{Protector, ProtectorKind};
#[doc(hidden)]
pub use hostile::fuzz_volumes;
use mapper::Mapper;
pub use root_hash::Verity;
use std::path::{Path, PathBuf};
pub use volume::{Volume, VolumeKind, VolumeOptions};

/// No disk in the wild has more; a hostile one could.
const MOST: usize = 4096;

/// The volumes of some disks. What the kernel put together for it is taken apart
/// again when it is dropped: unmount before.
pub struct Volumes {
    kernel: Kernel,
    list: Vec<Volume>,
    /// Oldest first.
    made: Vec<Made>,
    /// What becomes of what is written.
    writes: Writes,
    /// They stay as long as something lies on them.
    _disks: Vec<Disk>,
}

/// What becomes of what the kernel writes to some disks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Writes {
    /// It reaches an image.
    Last,
    /// It stays in memory.
    Forgotten,
    /// It is an error.
    Refused,
}

impl Writes {
    fn to(disks: &[&Disk]) -> Self {
        if disks.iter().any(|disk| disk.lasts()) {
            return Self::Last;
        }
        let refuses = |disk: &&Disk| disk.read_only().unwrap_or(true);
        match disks.iter().any(refuses) {
            true => Self::Refused,
            false => Self::Forgotten,
        }
    }
}

/// Where a disk of `size` bytes has marks of the sets that it is a part of, the marks, and
/// what they make it.
pub(crate) fn marks_at_end(size: u64) -> [(u64, [u8; 4], &'static str); 3] {
    let [one, zero] = raid::places_at_end(size).map(|at| (at, raid::MARK, "linux_raid_member"));
    [one, zero, (ddf::last(size), ddf::MARK, "ddf_raid_member")]
}

/// A name that no device of the mapper has.
fn new_name(kernel: &Kernel) -> String {
    let unique = kernel.new_mount_point();
    let number = unique.file_name().unwrap_or_default();
    format!("tane-{}", number.to_string_lossy())
}

enum Made {
    Mapped(String),
    Raid(PathBuf),
}

impl Kernel {
    /// Find all volumes of these disks, and have the kernel put together those
    /// that consist of others. What cannot be is in the list, with a note.
    ///
    /// The disks must not be in use by another [`Volumes`].
    pub fn volumes(&self, disks: &[&Disk], options: &VolumeOptions) -> Result<Volumes> {
        let _step = Step::begin();
        let mut volumes = Volumes {
            kernel: self.clone(),
            list: Vec::new(),
            made: Vec::new(),
            writes: Writes::to(disks),
            _disks: disks.iter().map(|disk| (*disk).clone()).collect(),
        };
        for disk in disks {
            volumes.add_disk(disk)?;
        }
        volumes.register_btrfs();
        let mut done = 0;
        let mut parts = Parts::default();
        loop {
            while done < volumes.list.len() {
                volumes.look_into(done, options, &mut parts)?;
                done += 1;
            }
            volumes.add_sets(&std::mem::take(&mut parts.members), options)?;
            volumes.add_ddf(&std::mem::take(&mut parts.ddf))?;
            if done == volumes.list.len() {
                volumes.add_logical(&std::mem::take(&mut parts.physical), options)?;
            }
            if done == volumes.list.len() {
                volumes.add_verity(options)?;
            }
            if done == volumes.list.len() || done > MOST {
                break;
            }
        }
        volumes.register_btrfs();
        volumes.note_short_btrfs();
        Ok(volumes)
    }
}

/// What others consist of, until all of its kind is found.
#[derive(Default)]
struct Parts {
    physical: Vec<lvm::Physical>,
    members: Vec<raid::Member>,
    ddf: Vec<ddf::Member>,
}

impl Volumes {
    /// All of them; what lies on another comes after it.
    pub fn list(&self) -> &[Volume] {
        &self.list
    }

    /// Whether the volume at `index` is the one at `other` or lies on it.
    pub fn lies_on(&self, index: usize, other: usize) -> bool {
        let below = |volume: &Volume| volume.on.iter().any(|on| self.lies_on(*on, other));
        index == other || self.list.get(index).is_some_and(below)
    }

    fn add_disk(&mut self, disk: &Disk) -> Result<()> {
        let on = self.list.len();
        let device = disk.device();
        let partitions = disk.partitions()?;
        let found = self.probe(&device, !partitions.is_empty())?;
        let mut volume = Volume {
            kind: VolumeKind::Disk,
            found,
            device: Some(device),
            on: Vec::new(),
            start: None,
            size: disk.size()?,
            name: None,
            uuid: None,
            part_type: None,
            note: None,
            locked: false,
            protectors: Vec::new(),
        };
        self.list.push(volume.clone());
        if volume
            .found
            .as_ref()
            .is_some_and(|f| matches!(&*f.fstype, "linux_raid_member" | "ddf_raid_member"))
        {
            // The table is that of the set.
            return Ok(());
        }
        volume.on = vec![on];
        for part in partitions {
            let device = part.device();
            let found = self.probe(&device, false)?;
            self.list.push(Volume {
                kind: VolumeKind::Partition(part.number),
                found,
                device: Some(device),
                start: Some(part.start),
                size: part.size,
                name: part.name,
                uuid: part.uuid,
                part_type: part.kind,
                ..volume.clone()
            });
        }
        Ok(())
    }

    /// What is on a device. The mark of a RAID member may be at its end, behind
    /// what looks like its content.
    fn probe(&self, device: &Path, has_partitions: bool) -> Result<Option<FileSystem>> {
        let member = raid::at_end(&self.kernel, device, has_partitions);
        if let Some(member) = member.map_err(|errno| errno.on("read", device))? {
            return Ok(Some(member));
        }
        let member = ddf::at_end(&self.kernel, device, has_partitions);
        match member.map_err(|errno| errno.on("read", device))? {
            Some(member) => Ok(Some(member)),
            None => self.kernel.probe(device),
        }
    }

    fn look_into(
        &mut self,
        index: usize,
        options: &VolumeOptions,
        parts: &mut Parts,
    ) -> Result<()> {
        let volume = &self.list[index];
        let (Some(device), Some(found)) = (volume.device.clone(), &volume.found) else {
            return Ok(());
        };
        let note = match found.fstype.as_str() {
            "crypto_LUKS" => self.unlock(index, &device, options)?,
            "BitLocker" => self.open_bitlocker(index, &device, options)?,
            "DM_verity_hash" if options.verity.is_none() => {
                Some("has the hashes of another volume: give its root hash (--verity)".into())
            }
            "LVM2_member" => match lvm::Physical::read(&self.kernel, &device) {
                Ok(Some(read)) => {
                    parts.physical.push(read);
                    None
                }
                Ok(None) => Some("its LVM2 label is damaged".into()),
                Err(errno) => Some(errno.on("read", &device).to_string()),
            },
            "linux_raid_member" => match raid::Member::read(&self.kernel, &device) {
                Ok(Some(member)) => {
                    parts.members.push(member);
                    None
                }
                Ok(None) => Some("its RAID superblock is damaged".into()),
                Err(errno) => Some(errno.on("read", &device).to_string()),
            },
            "ddf_raid_member" => match ddf::Member::read(&self.kernel, &device) {
                Ok(Some(member)) if member.is_spare() => {
                    Some("is a disk of a DDF group, and has no part of a volume".into())
                }
                Ok(Some(member)) => {
                    parts.ddf.push(member);
                    None
                }
                Ok(None) => Some("its DDF metadata is damaged".into()),
                Err(errno) => Some(errno.on("read", &device).to_string()),
            },
            _ => None,
        };
        if note.is_some() {
            self.list[index].note = note;
        }
        Ok(())
    }

    fn mapper(&self) -> Result<Mapper> {
        Mapper::new(&self.kernel)
            .map_err(|errno| errno.on("open", Path::new("/dev/mapper/control")))
            .map_err(|e| e.with_text("this kernel image has no device mapper; use the default one"))
    }

    /// A name that no device of the mapper has.
    fn new_name(&self) -> String {
        new_name(&self.kernel)
    }

    fn push(
        &mut self,
        kind: VolumeKind,
        device: PathBuf,
        on: Vec<usize>,
        size: u64,
        name: Option<String>,
        uuid: Option<String>,
    ) -> Result<()> {
        let found = self.probe(&device, false)?;
        self.list.push(Volume {
            kind,
            device: Some(device),
            on,
            start: None,
            size,
            name,
            uuid,
            part_type: None,
            found,
            note: None,
            locked: false,
            protectors: Vec::new(),
        });
        Ok(())
    }

    fn index_of(&self, device: &Path) -> Option<usize> {
        self.list
            .iter()
            .position(|v| v.device.as_deref() == Some(device))
    }
}

impl Drop for Volumes {
    fn drop(&mut self) {
        let mapper = Mapper::new(&self.kernel);
        for made in self.made.drain(..).rev() {
            // What is still mounted stays until the kernel ends.
            let _ = match (made, &mapper) {
                (Made::Mapped(name), Ok(mapper)) => mapper.remove(&name),
                (Made::Raid(node), _) => raid::stop(&self.kernel, &node),
                (_, Err(errno)) => Err(*errno),
            };
        }
    }
}
