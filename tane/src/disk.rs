//! Disks: what backs one, and where the kernel shows it.

use crate::companion::Companion;
use crate::error::{errno_or_guess, Error, Result};
use crate::kernel::Kernel;
use crate::machine::Machine;
use crate::partition::{number, number_or_0, Partition, SECTOR};
use crate::probe::{self, FileSystem};
use crate::table::Table;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tane_devices::{AttachError, Attached, Block, BlockOptions};
use tane_images::{
    buffer_mut, Backend, Format, ImageOptions, Layer, LockWait, Login, Overlay, Ram, Redo,
};

/// How an image becomes a disk.
#[derive(Clone, Debug, Default)]
pub struct DiskOptions {
    pub(crate) read_only: bool,
    pub(crate) snapshot: bool,
    sector_size: Option<u32>,
    serial: String,
    in_order: bool,
    pub(crate) image: ImageOptions,
}

impl DiskOptions {
    /// Writable, through the host's page cache, no serial number.
    pub fn new() -> Self {
        Self::default()
    }

    /// Open the image for reading only, and refuse writes.
    pub fn read_only(&mut self, yes: bool) -> &mut Self {
        self.read_only = yes;
        self
    }

    /// Open the image for reading only, and keep what is written in memory
    /// until the disk is removed: for a journal replay, or to try something.
    pub fn snapshot(&mut self, yes: bool) -> &mut Self {
        self.snapshot = yes;
        self
    }

    /// Go past the host's page cache; O_DIRECT in open(2).
    pub fn direct(&mut self, yes: bool) -> &mut Self {
        self.image.direct(yes);
        self
    }

    /// Take the file for this, whatever its content looks like. Give
    /// [`Format::Raw`] for a raw disk that somebody else can write to.
    pub fn format(&mut self, format: Format) -> &mut Self {
        self.image.format(format);
        self
    }

    /// A file or directory that the image may name as its backing file, its extent
    /// or the parent that it is a difference from, beside those in its own directory.
    pub fn trust(&mut self, place: impl Into<PathBuf>) -> &mut Self {
        self.image.trust(place);
        self
    }

    /// Put what is written into this qcow2 file and leave the image as it is; see
    /// [`ImageOptions::overlay`].
    pub fn overlay(&mut self, file: impl Into<PathBuf>) -> &mut Self {
        self.image.overlay(file);
        self
    }

    /// See [`ImageOptions::secret`].
    pub fn secret(&mut self, secret: impl Into<Vec<u8>>) -> &mut Self {
        self.image.secret(secret);
        self
    }

    /// See [`ImageOptions::ask`].
    pub fn ask(&mut self, ask: impl Fn() -> Option<Vec<u8>> + Send + Sync + 'static) -> &mut Self {
        self.image.ask(ask);
        self
    }

    /// The name and password for images on that server.
    pub fn login(&mut self, login: Login) -> &mut Self {
        self.image.login(login);
        self
    }

    /// See [`ImageOptions::servers`].
    pub fn servers(
        &mut self,
        open: impl Fn(&str, bool) -> io::Result<Arc<dyn Backend>> + Send + Sync + 'static,
    ) -> &mut Self {
        self.image.servers(open);
        self
    }

    /// Record what is written, at times, and make it one change; see [`Redo`].
    pub fn redo(&mut self, redo: Arc<Redo>) -> &mut Self {
        self.image.redo(redo);
        self
    }

    /// See [`ImageOptions::wait`].
    pub fn wait(&mut self, lock_wait: LockWait) -> &mut Self {
        self.image.wait(lock_wait);
        self
    }

    /// Called with a sentence for the user about what takes long or room.
    pub fn notice(&mut self, say: impl Fn(&str) + Send + Sync + 'static) -> &mut Self {
        self.image.notice(say);
        self
    }

    /// The disk's sectors, in bytes: 512, 1024, 2048 or 4096. Partition tables count
    /// in them, and an image does not say what they were.
    pub fn sector_size(&mut self, bytes: u32) -> &mut Self {
        self.sector_size = Some(bytes);
        self
    }

    /// Do what the kernel asks of the disk at once and in that order: with
    /// [`Builder::deterministic`](crate::Builder::deterministic), it then sees the
    /// same in every run. While the host's storage is at work, all else waits.
    pub fn in_order(&mut self, yes: bool) -> &mut Self {
        self.in_order = yes;
        self
    }

    /// A serial number of up to 20 bytes, shown in /sys/block/*/serial.
    pub fn serial(&mut self, serial: impl Into<String>) -> &mut Self {
        self.serial = serial.into();
        self
    }
}

/// A disk that a kernel has.
///
/// Cheap to clone. When the last handle is dropped, and the last
/// [`Mount`](crate::Mount) of it, the kernel loses the disk; what its caches
/// held has been written by then, but only
/// [`Mount::unmount`](crate::Mount::unmount) reports errors of that.
#[derive(Clone)]
pub struct Disk {
    inner: Arc<Inner>,
}

struct Inner {
    kernel: Kernel,
    name: String,
    sysfs: PathBuf,
    layers: Vec<Layer>,
    /// What is written stays when the disk is gone.
    lasts: bool,
    /// Last: the disk goes after everything above.
    attached: Attached<Block>,
}

impl Kernel {
    /// Give the kernel a disk with any [`Backend`]. The disk and its partitions
    /// are there when this returns.
    pub fn add_disk(&self, backend: Arc<dyn Backend>, options: &DiskOptions) -> Result<Disk> {
        self.add_image(backend, Vec::new(), options)
    }

    /// Give the kernel a disk of memory: `size` bytes, all zero. It takes memory
    /// when it is written first, gives it back when it is discarded or the disk is
    /// removed, and may be larger than memory: what has no room is an I/O error
    /// for the kernel, of which [`Disk::first_error`] has the reason. For a limit
    /// of its own, add a [`Ram::limited`].
    pub fn add_ram_disk(&self, size: u64) -> Result<Disk> {
        self.add_ram_disk_with(size, &DiskOptions::new())
    }

    /// [`Self::add_ram_disk`] with a serial number and the like.
    pub fn add_ram_disk_with(&self, size: u64, options: &DiskOptions) -> Result<Disk> {
        let ram = Ram::new(size);
        let ram = ram.map_err(|e| Error::from_source(errno_or_guess(&e), "make a RAM disk", e))?;
        self.add_disk(Arc::new(ram), options)
    }

    pub(crate) fn add_image(
        &self,
        backend: Arc<dyn Backend>,
        layers: Vec<Layer>,
        options: &DiskOptions,
    ) -> Result<Disk> {
        let Machine::Tane(machine) = self.machine() else {
            return Err(Error::new(libc::ENOTSUP, "add a disk")
                .with_text("the host's kernel has disks of its own"));
        };
        let backend: Arc<dyn Backend> = match options.snapshot {
            true => Arc::new(Overlay::new(backend)),
            false => backend,
        };
        let block = BlockOptions {
            serial: options.serial.clone(),
            read_only: options.read_only && !options.snapshot,
            sector_size: options.sector_size,
            unit: unit(&*backend),
            in_order: options.in_order,
            ..Default::default()
        };
        let attached = Attached::new(machine, Block::new(backend, block));
        let attached = attached.map_err(|error| attach_error("add a disk", error))?;
        let (sysfs, name) = self.find_disk(attached.slot())?;
        let inner = Arc::new(Inner {
            kernel: self.clone(),
            name,
            sysfs,
            layers,
            lasts: !options.snapshot && !options.read_only,
            attached,
        });
        self.remember(&inner);
        Ok(Disk { inner })
    }

    /// The disk that a device node inside the kernel belongs to: so that a mount can hold on
    /// to the disk it is on.
    pub(crate) fn disk_of(&self, device: &Path) -> Option<Disk> {
        let disks = self.disks().lock().unwrap_or_else(|e| e.into_inner());
        let mut alive = disks.iter().filter_map(Companion::get);
        let inner = alive.find(|disk: &Arc<Inner>| disk.has_device(device))?;
        Some(Disk { inner })
    }

    fn remember(&self, disk: &Arc<Inner>) {
        let mut disks = self.disks().lock().unwrap_or_else(|e| e.into_inner());
        disks.retain(|disk| !disk.is_gone());
        disks.push(Companion::of(disk));
    }

    /// Which file system is on a device inside the kernel, such as
    /// "/dev/vda1"; None if nothing known.
    pub fn probe(&self, device: impl AsRef<Path>) -> Result<Option<FileSystem>> {
        probe::probe(self, device.as_ref())
    }

    /// tane-virtio.SLOT/virtioN/block/vdX: its directory and last name.
    fn find_disk(&self, slot: usize) -> Result<(PathBuf, String)> {
        let base = PathBuf::from(format!("/devices/platform/tane-virtio.{slot}"));
        let lost = |text: &str| Error::new(libc::ENODEV, "find the new disk").with_text(text);
        let sysfs = self.tree("/sys")?;
        let virtio = sysfs
            .read_dir(&base)?
            .flatten()
            .find(|entry| entry.file_name().as_encoded_bytes().starts_with(b"virtio"))
            .ok_or_else(|| lost("its slot has no device"))?;
        let block = base.join(virtio.file_name()).join("block");
        let disk = sysfs
            .read_dir(&block)?
            .next()
            .ok_or_else(|| lost("its device has no disk"))??;
        let name = disk.into_file_name().to_string_lossy().into_owned();
        Ok((block.join(&name), name))
    }
}

/// A device that did not get into the kernel.
pub(crate) fn attach_error(action: &'static str, error: AttachError) -> Error {
    let errno = match error {
        AttachError::Full => libc::ENOSPC,
        AttachError::Refused(errno) => errno,
        AttachError::Dead => libc::ESHUTDOWN,
        AttachError::Foreign => libc::ENOTSUP,
    };
    Error::from_source(errno, action, error)
}

/// What the disk's size is rounded up to. Of a file system that is packed and has its
/// length in front, the last block may be there in part only: cut out of firmware, or
/// made by `mksquashfs -nopad`. All else may have something at its very end.
fn unit(backend: &dyn Backend) -> u64 {
    const SECTOR: u64 = 512;
    const BLOCK: u64 = 4096;
    if backend.size().is_multiple_of(BLOCK) {
        return SECTOR;
    }
    let mut head = vec![0; backend.size().min(BLOCK) as usize];
    let read = backend.read(&[buffer_mut(&mut head)], 0);
    match read.is_ok() && probe::is_packed(&head) {
        true => BLOCK,
        false => SECTOR,
    }
}

impl Inner {
    /// Whether a device node inside the kernel is this disk or a part of it.
    fn has_device(&self, device: &Path) -> bool {
        let name = device.strip_prefix("/dev").ok().and_then(Path::to_str);
        name.and_then(|name| name.strip_prefix(&self.name))
            .is_some_and(|rest| rest.bytes().all(|b| b.is_ascii_digit()))
    }
}

impl Disk {
    /// The kernel's name for it, such as "vda".
    pub fn device_name(&self) -> &str {
        &self.inner.name
    }

    /// Its device node inside the kernel, such as /dev/vda.
    pub fn device(&self) -> PathBuf {
        Path::new("/dev").join(&self.inner.name)
    }

    /// Its slot, as in /sys/devices/platform/tane-virtio.SLOT.
    pub fn slot(&self) -> usize {
        self.inner.attached.slot()
    }

    /// The directory below /sys that describes it.
    pub fn sysfs_path(&self) -> PathBuf {
        Path::new("/sys").join(
            self.inner
                .sysfs
                .strip_prefix("/")
                .unwrap_or(&self.inner.sysfs),
        )
    }

    /// In bytes, as the kernel has it.
    pub fn size(&self) -> Result<u64> {
        let sysfs = self.inner.kernel.tree("/sys")?;
        let sectors = number_or_0(&sysfs, &self.inner.sysfs.join("size"))?;
        Ok(sectors.saturating_mul(SECTOR))
    }

    /// Whether what is written to it stays when it is gone.
    pub(crate) fn lasts(&self) -> bool {
        self.inner.lasts
    }

    /// Whether the kernel may not write to it.
    pub fn read_only(&self) -> Result<bool> {
        let sysfs = self.inner.kernel.tree("/sys")?;
        Ok(number_or_0(&sysfs, &self.inner.sysfs.join("ro"))? != 0)
    }

    /// The partitions the kernel found, by number; none if there is no table.
    pub fn partitions(&self) -> Result<Vec<Partition>> {
        let sysfs = self.inner.kernel.tree("/sys")?;
        let block_size = self.inner.sysfs.join("queue/logical_block_size");
        let block_size = number(&sysfs, &block_size)?.unwrap_or(SECTOR);
        // The kernel found the partitions; a table we cannot read names none.
        let table = Table::read(&self.inner.kernel, &self.device(), block_size);
        let table = table.unwrap_or_default();
        let mut partitions = Vec::new();
        for entry in sysfs.read_dir(&self.inner.sysfs)? {
            let name = entry?.into_file_name();
            let Some(name) = name.to_str() else { continue };
            if !name.starts_with(&self.inner.name) {
                continue;
            }
            let dir = self.inner.sysfs.join(name);
            partitions.extend(Partition::from_sysfs(&sysfs, &dir, name, &table)?);
        }
        partitions.sort_by_key(|partition| partition.number);
        Ok(partitions)
    }

    /// Which file system is on the whole disk; None if nothing known, as for a
    /// disk with partitions.
    pub fn probe(&self) -> Result<Option<FileSystem>> {
        self.inner.kernel.probe(self.device())
    }

    /// The files it consists of; none if it was added as a [`Backend`].
    pub fn layers(&self) -> &[Layer] {
        &self.inner.layers
    }

    /// What holds its bytes.
    pub fn backend(&self) -> &Arc<dyn Backend> {
        self.inner.attached.device().backend()
    }

    /// The first error of what holds its bytes: why the kernel, which learns of an
    /// I/O error and nothing else, says EIO. Host's disk full, a server gone, …
    pub fn first_error(&self) -> Option<Arc<io::Error>> {
        self.inner.attached.device().first_error()
    }

    /// The backend's size has changed: tell the kernel.
    pub fn resized(&self) {
        self.inner.attached.resized();
    }

    /// Take the disk away from the kernel now. EBUSY if a mount or another
    /// handle still uses it; it then goes with the last of those.
    pub fn remove(self) -> Result<()> {
        let device = self.device();
        match Arc::try_unwrap(self.inner) {
            Ok(inner) => {
                drop(inner);
                Ok(())
            }
            Err(_) => Err(Error::new(libc::EBUSY, "remove").with_path(&device)),
        }
    }
}

impl std::fmt::Debug for Disk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Disk({} of {:?})", self.inner.name, self.inner.kernel)
    }
}
