//! Why a file system cannot be mounted as it has to be, and what to do about it.

use super::machine::Machine;
use super::Access;
use crate::failure::{Failure, Result};
use crate::session::Global;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use tane::{FileSystem, ImagePath, Volume};

/// Types that Linux only reads.
const READ_ONLY: [&str; 10] = [
    "befs", "cramfs", "efs", "erofs", "freevxfs", "iso9660", "qnx4", "qnx6", "romfs", "squashfs",
];

/// What is on a device of the machine's, as an error has to tell of it.
pub struct Attempt<'a> {
    pub machine: &'a Machine,
    pub at: &'a ImagePath,
    pub device: &'a Path,
    pub global: &'a Global,
}

impl Attempt<'_> {
    fn failure(&self, what: &str) -> Failure {
        let name = self.at.image.display();
        Failure::image(format!("{name}: {what}")).about(self.at.image.as_os_str().as_bytes())
    }

    fn volume(&self) -> Option<&Volume> {
        let list = self.machine.volumes().ok()?.list();
        let is_it = |v: &&Volume| v.device.as_deref() == Some(self.device);
        list.iter().find(is_it)
    }

    /// What is on it, as its first bytes tell.
    pub fn found(&self) -> Option<&FileSystem> {
        self.volume()?.found.as_ref()
    }

    fn is_on_ddf(&self) -> bool {
        let list = self
            .machine
            .volumes()
            .map_or(&[][..], |volumes| volumes.list());
        let is = |on: &usize| {
            let found = list.get(*on).and_then(|v| v.found.as_ref());
            found.is_some_and(|found| found.fstype == "ddf_raid_member")
        };
        self.volume().is_some_and(|volume| volume.on.iter().any(is))
    }

    /// An error if it, or what it is on, is none that Linux writes.
    pub fn check_type(&self, access: Access) -> Result<()> {
        if access == Access::Write && self.is_on_ddf() {
            let what = "is on a set of a RAID controller (DDF), which is only read here";
            return Err(self
                .failure(what)
                .remedy("copy what is in it to where it can be changed"));
        }
        let found = self.found().map(|found| found.fstype.as_str());
        let fstype = self.global.fs.as_deref().or(found).unwrap_or_default();
        match access == Access::Write && READ_ONLY.contains(&fstype) {
            true => Err(self.read_only_type(fstype)),
            false => Ok(()),
        }
    }

    fn read_only_type(&self, fstype: &str) -> Failure {
        let what = format!("is of the type {fstype}, which Linux only reads");
        self.failure(&what).remedy(match fstype {
            "erofs" | "squashfs" => {
                "copy what is in it out, and make a new one of that (tane make-image)"
            }
            _ => "copy what is in it to where it can be changed",
        })
    }

    /// An error if it is to be written, and cannot be.
    pub fn check_mount(&self, mount: &tane::Mount, access: Access, log: usize) -> Result<()> {
        let read_only = || mount.statfs().is_ok_and(|found| found.read_only);
        if access == Access::Read || !read_only() {
            return Ok(());
        }
        let asked = self.global.options.as_deref().unwrap_or_default();
        if asked.split(',').any(|option| option == "ro") {
            return Err(self.failure("is mounted read-only, as --options says"));
        }
        let fstype = mount.fstype();
        if READ_ONLY.contains(&fstype) {
            return Err(self.read_only_type(fstype));
        }
        let device = self.device.file_name().unwrap_or_default();
        let device = device.to_string_lossy();
        let all = self.machine.kernel.dmesg();
        let mut new = all.get(log..).unwrap_or_default().lines();
        let said = new.rfind(|line| line.contains(&*device));
        let why = said.map_or(String::new(), |line| format!(": {line}"));
        Err(self.failure(&format!("Linux mounts this {fstype} read-only{why}")))
    }

    /// What the error of a mount means.
    pub fn explain(&self, e: &tane::Error) -> Failure {
        let said = e.text().unwrap_or_default();
        let failure = match e.errno() {
            libc::ENOMEDIUM => {
                return self.failure("no file system that this kernel knows");
            }
            _ => self.failure(&format!("cannot be mounted: {e}")),
        };
        if e.errno() == libc::ENODEV && said.contains("does not know the type") {
            return failure.remedy("another kernel image (--kernel) may know it");
        }
        // What the kernel asks for, and what is on the further device.
        let options = [
            ("use rtdev=", "rtdev", "its realtime volume"),
            ("specify logdev", "logdev", "its log"),
        ];
        let needed = options.iter().find(|(text, ..)| said.contains(text));
        if let Some((_, option, what)) = needed {
            return failure.remedy(self.further_device(option, what));
        }
        let short = self.volume().filter(|v| v.is_short());
        match short.and_then(|v| v.note.as_deref()) {
            Some(note) => self
                .failure(&format!("cannot be mounted: {note}: {e}"))
                .remedy(
                "--with IMAGE adds each of them, and --options degraded reads what the rest has, \
                 if that is enough",
            ),
            None => failure,
        }
    }

    fn further_device(&self, option: &str, what: &str) -> String {
        let further = self.machine.further_devices();
        let places: Vec<_> = further.iter().map(|d| d.display().to_string()).collect();
        match &places[..] {
            [] => format!(
                "name the image that has {what} by --with IMAGE, and add --options {option}=/dev/vdb"
            ),
            places => format!(
                "{what} is on one of the images of --with: say so by --options {option}={}",
                places.join(" or ")
            ),
        }
    }
}
