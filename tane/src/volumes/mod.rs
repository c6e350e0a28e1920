//! Volumes: everything on some disks that a file system can be on, and what
//! lies on what. Headers are read here; all the rest is the kernel's own code.
//!
//! ```text
//! choose.rs    which of them is meant
//! luks/        LUKS, opened by dm-crypt
//! lvm.rs       LVM2, by dm-linear and dm-stripe
//!   lvm_text.rs  the text it keeps
//! raid.rs      md
//! mapper.rs ioctl.rs   how the kernel is asked
//! ```

mod choose;
mod ioctl;
mod luks;
mod lvm;
mod lvm_text;
mod mapper;
mod raid;

use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::kernel::Kernel;
use crate::probe::{hyphenated, FileSystem};
use mapper::Mapper;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// No disk in the wild has more; a hostile one could.
const MOST: usize = 4096;

/// What a volume is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VolumeKind {
    /// A whole disk.
    Disk,
    /// A partition, with its number in the table.
    Partition(u32),
    /// What is inside a LUKS volume, unlocked.
    Luks,
    /// An LVM2 logical volume.
    Logical { group: String, name: String },
    /// An md RAID set.
    Raid,
}

/// A place where a file system can be.
#[derive(Clone, Debug)]
pub struct Volume {
    pub kind: VolumeKind,
    /// Its node inside the kernel; None if the kernel could not be given it, for
    /// the reason in `note`.
    pub device: Option<PathBuf>,
    /// What it lies on: places in [`Volumes::list`].
    pub on: Vec<usize>,
    /// Of a partition: where it starts, in bytes.
    pub start: Option<u64>,
    /// In bytes.
    pub size: u64,
    /// The name in a GPT, of a logical volume ("group/name"), of a set.
    pub name: Option<String>,
    /// The identity that the table, the group or the set gives it.
    pub uuid: Option<String>,
    /// Of a partition: its type in the table, a GUID in a GPT, like 0x83 in an MBR.
    pub part_type: Option<String>,
    /// What is on it; None if nothing known.
    pub found: Option<FileSystem>,
    /// Why nothing that lies on it is shown, though something may.
    pub note: Option<String>,
    /// It is a LUKS volume that none of the secrets opens.
    pub locked: bool,
}

impl Volume {
    /// Whether a file system is on it, rather than a container or nothing.
    pub fn is_mountable(&self) -> bool {
        let containers = ["swap", "crypto_LUKS", "LVM2_member", "linux_raid_member"];
        let found = self.found.as_ref();
        self.device.is_some() && found.is_some_and(|f| !containers.contains(&f.fstype.as_str()))
    }
}

/// How volumes are looked for.
#[derive(Clone, Default)]
pub struct VolumeOptions {
    read_only: bool,
    secrets: Vec<Vec<u8>>,
}

impl VolumeOptions {
    /// Writable, without secrets.
    pub fn new() -> Self {
        Self::default()
    }

    /// Let nothing be written to what is put together.
    pub fn read_only(&mut self, yes: bool) -> &mut Self {
        self.read_only = yes;
        self
    }

    /// A passphrase or the content of a key file, for any LUKS volume that it
    /// opens. Bytes, without a newline that is not part of it.
    pub fn secret(&mut self, secret: impl Into<Vec<u8>>) -> &mut Self {
        self.secrets.push(secret.into());
        self
    }
}

impl std::fmt::Debug for VolumeOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let secrets = self.secrets.len();
        write!(
            f,
            "VolumeOptions({} secrets, read_only: {})",
            secrets, self.read_only
        )
    }
}

/// The volumes of some disks. What the kernel put together for it is taken apart
/// again when it is dropped: unmount before.
pub struct Volumes {
    kernel: Kernel,
    list: Vec<Volume>,
    /// Oldest first.
    made: Vec<Made>,
    /// They stay as long as something lies on them.
    _disks: Vec<Disk>,
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
        let mut volumes = Volumes {
            kernel: self.clone(),
            list: Vec::new(),
            made: Vec::new(),
            _disks: disks.iter().map(|disk| (*disk).clone()).collect(),
        };
        for disk in disks {
            volumes.add_disk(disk)?;
        }
        volumes.register_btrfs();
        let mut done = 0;
        let (mut physical, mut members) = (Vec::new(), Vec::new());
        loop {
            while done < volumes.list.len() {
                volumes.look_into(done, options, &mut physical, &mut members)?;
                done += 1;
            }
            volumes.add_sets(&std::mem::take(&mut members), options)?;
            if done == volumes.list.len() {
                volumes.add_logical(&std::mem::take(&mut physical), options)?;
            }
            if done == volumes.list.len() || done > MOST {
                break;
            }
        }
        volumes.register_btrfs();
        Ok(volumes)
    }
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
        let mut volume = Volume {
            kind: VolumeKind::Disk,
            found: self.kernel.probe(&device)?,
            device: Some(device),
            on: Vec::new(),
            start: None,
            size: disk.size()?,
            name: None,
            uuid: None,
            part_type: None,
            note: None,
            locked: false,
        };
        self.list.push(volume.clone());
        volume.on = vec![on];
        for part in disk.partitions()? {
            let device = part.device();
            self.list.push(Volume {
                kind: VolumeKind::Partition(part.number),
                found: self.kernel.probe(&device)?,
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

    fn look_into(
        &mut self,
        index: usize,
        options: &VolumeOptions,
        physical: &mut Vec<lvm::Physical>,
        members: &mut Vec<raid::Member>,
    ) -> Result<()> {
        let volume = &self.list[index];
        let (Some(device), Some(found)) = (volume.device.clone(), &volume.found) else {
            return Ok(());
        };
        let note = match found.fstype.as_str() {
            "crypto_LUKS" => self.unlock(index, &device, options)?,
            "LVM2_member" => match lvm::Physical::read(&self.kernel, &device) {
                Ok(Some(read)) => {
                    physical.push(read);
                    None
                }
                Ok(None) => Some("its LVM2 label is damaged".into()),
                Err(errno) => Some(errno.on("read", &device).to_string()),
            },
            "linux_raid_member" => match raid::Member::read(&self.kernel, &device) {
                Ok(Some(member)) => {
                    members.push(member);
                    None
                }
                Ok(None) => Some("its RAID superblock is damaged".into()),
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
        let unique = self.kernel.new_mount_point();
        let number = unique.file_name().unwrap_or_default();
        format!("tane-{}", number.to_string_lossy())
    }

    /// None if it is open now; else why not.
    fn unlock(
        &mut self,
        index: usize,
        device: &Path,
        options: &VolumeOptions,
    ) -> Result<Option<String>> {
        let secrets = &options.secrets;
        if secrets.is_empty() {
            self.list[index].locked = true;
            return Ok(Some("is locked; no passphrase was given".into()));
        }
        let mapper = self.mapper()?;
        let name = self.new_name();
        let unlocked = luks::unlock(&self.kernel, &mapper, device, &name, secrets);
        let target = match unlocked {
            Ok(luks::Unlocked::Yes(target)) => target,
            Ok(luks::Unlocked::WrongSecret) => {
                self.list[index].locked = true;
                return Ok(Some("is locked; no passphrase fits".into()));
            }
            Ok(luks::Unlocked::Never(why)) => return Ok(Some(why)),
            Err(errno) => return Ok(Some(errno.on("unlock", device).to_string())),
        };
        let size = target.len.saturating_mul(512);
        match mapper.create(&name, &[target], options.read_only) {
            Ok(node) => {
                self.made.push(Made::Mapped(name));
                self.push(VolumeKind::Luks, node, vec![index], size, None, None)?;
                Ok(None)
            }
            Err(errno) => Ok(Some(errno.on("unlock", device).to_string())),
        }
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
        let found = self.kernel.probe(&device)?;
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
        });
        Ok(())
    }

    fn index_of(&self, device: &Path) -> Option<usize> {
        self.list
            .iter()
            .position(|v| v.device.as_deref() == Some(device))
    }

    fn add_logical(&mut self, physical: &[lvm::Physical], options: &VolumeOptions) -> Result<()> {
        if physical.is_empty() {
            return Ok(());
        }
        let mapper = self.mapper()?;
        for volume in lvm::logical(physical) {
            let on: Vec<_> = volume.on.iter().filter_map(|d| self.index_of(d)).collect();
            let full = format!("{}/{}", volume.group, volume.name);
            let name = self.new_name();
            let made = volume.targets.and_then(|targets| {
                let made = mapper.create(&name, &targets, options.read_only);
                made.map_err(|errno| errno.on("make", Path::new(&full)).to_string())
            });
            let kind = VolumeKind::Logical {
                group: volume.group,
                name: volume.name,
            };
            match made {
                Ok(node) => {
                    self.made.push(Made::Mapped(name));
                    self.push(kind, node, on, volume.size, Some(full), volume.uuid)?;
                }
                Err(why) => self.list.push(Volume {
                    kind,
                    device: None,
                    on,
                    start: None,
                    size: volume.size,
                    name: Some(full),
                    uuid: volume.uuid,
                    part_type: None,
                    found: None,
                    note: Some(why),
                    locked: false,
                }),
            }
        }
        Ok(())
    }

    fn add_sets(&mut self, members: &[raid::Member], _: &VolumeOptions) -> Result<()> {
        let mut sets: BTreeMap<[u8; 16], Vec<&raid::Member>> = BTreeMap::new();
        for member in members {
            sets.entry(member.set).or_default().push(member);
        }
        for (set, members) in sets {
            let on: Vec<_> = members
                .iter()
                .filter_map(|m| self.index_of(&m.device))
                .collect();
            let name = members.first().and_then(|m| m.name.clone());
            let free = |n: &u32| self.index_of(Path::new(&format!("/dev/md{n}"))).is_none();
            let number = (0..128).find(free).unwrap_or(0);
            match raid::assemble(&self.kernel, &members, number) {
                Ok(node) => {
                    let size = self.kernel.device_size(&node);
                    let size = size.map_err(|errno| errno.on("measure", &node))?;
                    self.made.push(Made::Raid(node.clone()));
                    let uuid = Some(hyphenated(&set));
                    self.push(VolumeKind::Raid, node, on, size, name, uuid)?;
                }
                Err(errno) => {
                    let what = name.as_deref().unwrap_or("a set without a name");
                    let error: Error = errno.on("assemble", Path::new(what));
                    let why = format!("{error}; are members missing (--with)?");
                    for index in on {
                        self.list[index].note = Some(why.clone());
                    }
                }
            }
        }
        Ok(())
    }

    /// Tell btrfs of all its devices: a mount of one finds the others then.
    fn register_btrfs(&self) {
        const SCAN_DEV: u64 = 0x5000_9404;
        let control = Path::new("/dev/btrfs-control");
        let is_btrfs = |v: &&Volume| v.found.as_ref().is_some_and(|f| f.fstype == "btrfs");
        let mut devices = self
            .list
            .iter()
            .filter(is_btrfs)
            .filter_map(|v| v.device.as_ref());
        let Some(first) = devices.next() else { return };
        let Ok(control) = self.kernel.open_device(control, libc::O_RDWR) else {
            return;
        };
        for device in std::iter::once(first).chain(devices) {
            let mut argument = [0; 4096];
            let name = device.as_os_str().as_encoded_bytes();
            argument[8..8 + name.len()].copy_from_slice(name);
            // If it fails, so does the mount, which says more.
            let _ = self.kernel.ioctl(&control, SCAN_DEV, &mut argument);
        }
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
