//! btrfs on several devices: the kernel is told of all of them, and it is noted where some
//! are missing.

use super::{Volume, Volumes};
use crate::kernel::Kernel;
use std::path::Path;

/// Where each device has its superblock, and fields of that.
const SUPERBLOCK: u64 = 64 << 10;
const FLAGS: usize = 56;
const DEVICES: usize = 136;
/// The file system is there for others to be built on; they count it as a device.
const SEEDING: u64 = 1 << 32;

impl Volumes {
    fn btrfs(&self) -> impl Iterator<Item = usize> + '_ {
        let is_one = |v: &Volume| v.found.as_ref().is_some_and(|f| f.fstype == "btrfs");
        let list = self.list.iter().enumerate();
        list.filter_map(move |(i, v)| is_one(v).then_some(i))
    }

    /// Tell btrfs of all its devices: a mount of one finds the others then.
    pub(super) fn register_btrfs(&self) {
        const SCAN_DEV: u64 = 0x5000_9404;
        let control = Path::new("/dev/btrfs-control");
        let mut devices = self.btrfs().filter_map(|i| self.list[i].device.as_ref());
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

    /// Note where devices are missing.
    pub(super) fn note_short_btrfs(&mut self) {
        let read = |i: usize| {
            let device = self.list[i].device.as_deref()?;
            Some((i, Super::read(&self.kernel, device)?))
        };
        let supers: Vec<_> = self.btrfs().filter_map(read).collect();
        let uuid = |i: usize| self.list[i].found.as_ref().and_then(|f| f.uuid.as_deref());
        let note = |(i, own): &(usize, Super)| {
            let counts = |(j, other): &&(usize, Super)| other.seeding || uuid(*j) == uuid(*i);
            let here = supers.iter().filter(counts).count() as u64;
            let missing = own.devices.checked_sub(here).filter(|n| *n > 0)?;
            let verb = if missing == 1 { "is" } else { "are" };
            let all = own.devices;
            let text = format!("{missing} of the {all} devices of this btrfs {verb} missing");
            Some((*i, text))
        };
        let notes: Vec<_> = supers.iter().filter_map(note).collect();
        for (i, note) in notes {
            self.list[i].note = Some(note);
        }
    }
}

/// What of a superblock tells whether devices are missing.
struct Super {
    devices: u64,
    seeding: bool,
}

impl Super {
    fn read(kernel: &Kernel, device: &Path) -> Option<Super> {
        let bytes = kernel.read_device(device, SUPERBLOCK, DEVICES + 8).ok()?;
        let number = |at: usize| {
            let field = bytes.get(at..at + 8)?;
            Some(u64::from_le_bytes(field.try_into().ok()?))
        };
        Some(Super {
            devices: number(DEVICES)?,
            seeding: number(FLAGS)? & SEEDING != 0,
        })
    }
}
