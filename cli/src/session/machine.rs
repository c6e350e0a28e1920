//! A kernel of our own, and the image that is its disk.

use super::{secrets, Access};
use crate::args::Global;
use crate::failure::{Failure, Result};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, OnceLock};
use tane::{Disk, Volume, VolumeOptions, Volumes};

/// A kernel and its disks.
pub struct Machine {
    /// Found when first asked for; before the disks, which they lie on.
    volumes: OnceLock<Volumes>,
    /// The image that was named, then those it comes with.
    disks: Vec<Disk>,
    /// Given, or typed.
    secrets: Mutex<Vec<Vec<u8>>>,
    pub kernel: tane::Kernel,
}

/// What is found in a file system by mounting it.
pub struct Content {
    /// Bytes used, and in all.
    pub used: u64,
    pub capacity: u64,
    /// What the system that is installed there calls itself.
    pub os: Option<String>,
}

impl Machine {
    /// A kernel without a disk; in a session, the one that serves its images.
    pub fn bare(global: &Global) -> Result<Machine> {
        let kernel = match global.kept.kernel(global)? {
            Some(kernel) => kernel,
            None => Machine::boot(global)?,
        };
        Ok(Machine::of(kernel))
    }

    pub(super) fn boot(global: &Global) -> Result<tane::Kernel> {
        let mut builder = tane::Kernel::builder();
        if let Some(path) = &global.kernel {
            builder = builder.image(path);
        }
        if let Some(memory) = global.memory {
            builder = builder.memory(memory);
        }
        if let Some(words) = &global.append {
            builder = builder.cmdline(words);
        }
        let kernel = builder.boot();
        kernel.map_err(|e| Failure::image(format!("cannot start Linux: {e}")))
    }

    fn of(kernel: tane::Kernel) -> Machine {
        Machine {
            volumes: OnceLock::new(),
            disks: Vec::new(),
            secrets: Mutex::default(),
            kernel,
        }
    }

    /// For reading, what the kernel writes (a journal replay) stays in memory.
    pub fn with_image(image: &Path, access: Access, global: &Global) -> Result<Machine> {
        check(image)?;
        // Whole images are for one verb alone.
        let global = &global.kept.release(image, global)?;
        let secrets = global.kept.secrets(global)?;
        Machine::attach(Machine::boot(global)?, image, access, global, secrets)
    }

    /// A machine of a kernel that may have others beside it.
    pub(super) fn attach(
        kernel: tane::Kernel,
        image: &Path,
        access: Access,
        global: &Global,
        secrets: Vec<Vec<u8>>,
    ) -> Result<Machine> {
        check(image)?;
        let mut machine = Machine::of(kernel);
        machine.secrets = Mutex::new(secrets);
        for image in std::iter::once(image).chain(global.with.iter().map(|p| p.as_path())) {
            check(image)?;
            let disk = machine.open(image, access, global)?;
            machine.disks.push(disk);
        }
        Ok(machine)
    }

    fn open(&self, image: &Path, access: Access, global: &Global) -> Result<Disk> {
        let mut options = tane::DiskOptions::new();
        options.snapshot(access == Access::Read);
        if let Some(format) = global.format {
            options.format(format);
        }
        if let Some(file) = &global.overlay {
            options.overlay(file);
        }
        for place in &global.trust {
            options.trust(place);
        }
        if !global.quiet {
            options.notice(|text| eprintln!("tane: {text}"));
        }
        let disk = self.kernel.open_disk(image, &options);
        disk.map_err(|e| refused(image, access, &e))
    }

    /// Everything written so far is in the image when this returns. Not every
    /// file system asks for that when it is unmounted.
    pub fn flush(&self) -> std::io::Result<()> {
        self.disks.iter().try_for_each(|d| d.backend().flush())
    }

    /// Bytes that the files of the image, its extents and backing files among
    /// them, take on the host's disk.
    pub fn allocated(&self) -> u64 {
        let layers = self.disks.iter().flat_map(|disk| disk.layers());
        let blocks = layers.filter_map(|layer| layer.path.metadata().ok());
        blocks.map(|m| m.blocks() * 512).sum()
    }

    /// Whatever opens its LUKS volumes.
    pub(super) fn secrets(&self) -> Vec<Vec<u8>> {
        self.lock_secrets().clone()
    }

    fn lock_secrets(&self) -> MutexGuard<'_, Vec<Vec<u8>>> {
        self.secrets.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// The image that was named.
    pub fn disk(&self) -> Option<&Disk> {
        self.disks.first()
    }

    /// Everything that a file system can be on. LUKS volumes are opened by what
    /// the command line gave, else by what is typed.
    pub fn volumes(&self) -> Result<&Volumes> {
        if let Some(volumes) = self.volumes.get() {
            return Ok(volumes);
        }
        let fail = |e: tane::Error| Failure::image(e.to_string());
        let disks: Vec<_> = self.disks.iter().collect();
        let mut options = VolumeOptions::new();
        for secret in self.secrets() {
            options.secret(secret);
        }
        let mut volumes = self.kernel.volumes(&disks, &options).map_err(fail)?;
        if self.secrets().is_empty() && volumes.list().iter().any(|v| v.locked) {
            while let Some(secret) = secrets::ask("the encrypted volume") {
                drop(volumes);
                self.lock_secrets().push(secret.clone());
                options.secret(secret);
                volumes = self.kernel.volumes(&disks, &options).map_err(fail)?;
                if !volumes.list().iter().any(|v| v.locked) {
                    break;
                }
            }
        }
        Ok(self.volumes.get_or_init(|| volumes))
    }
}

impl Machine {
    /// Mounts a volume, read-only.
    fn mount(&self, volume: &Volume) -> std::result::Result<tane::Mount, tane::Error> {
        let device = volume.device.as_deref().unwrap_or(Path::new("/dev/null"));
        let mut options = tane::MountOptions::new();
        options.read_only(true).mount(&self.kernel, device)
    }

    /// What mounting it tells; None if it cannot be mounted.
    pub fn content(&self, volume: &Volume) -> Option<Content> {
        if !volume.is_mountable() {
            return None;
        }
        let mount = self.mount(volume).ok()?;
        let fs = mount.statfs().ok()?;
        Some(Content {
            used: fs.total.saturating_sub(fs.free),
            capacity: fs.total,
            os: os_release(&mount),
        })
    }

    /// Mounts what can be, for the log's sake.
    pub fn try_mounts(&self, image: &Path) -> Result<()> {
        for volume in self.volumes()?.list().iter().filter(|v| v.is_mountable()) {
            let fail = |e| Failure::image(format!("{}: {e}", image.display()));
            self.mount(volume).map_err(fail)?;
        }
        Ok(())
    }
}

/// PRETTY_NAME of os-release(5); also in the subvolumes that distributions use.
fn os_release(mount: &tane::Mount) -> Option<String> {
    const LONGEST: u64 = 64 << 10;
    let places = ["etc/os-release", "usr/lib/os-release"];
    let roots = ["", "@/", "root/", "@rootfs/"];
    let mut paths = roots.iter().flat_map(|r| places.map(|p| format!("{r}{p}")));
    let text = paths.find_map(|path| {
        let found = mount.metadata(&path).ok()?;
        (found.is_file() && found.len() <= LONGEST).then(|| mount.read_to_string(&path).ok())?
    })?;
    let name = text.lines().find_map(|l| l.strip_prefix("PRETTY_NAME="))?;
    let name = name.trim().trim_matches(['"', '\'']);
    (!name.is_empty()).then(|| name.to_owned())
}

/// Says what is wrong before a kernel is booted for it.
fn check(image: &Path) -> Result<()> {
    let name = image.display();
    let fail = |text: &str| Err(Failure::image(format!("{name}: {text}")));
    match image.metadata() {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => fail("no such file"),
        Err(e) => Err(Failure::image(format!("{name}: {e}"))),
        Ok(m) if m.is_dir() => fail("is a directory, not an image"),
        Ok(m) if m.is_file() && m.len() == 0 => fail("is empty: make a file system in it first"),
        Ok(_) => Ok(()),
    }
}

fn refused(image: &Path, access: Access, e: &tane::Error) -> Failure {
    let name = image.display();
    let verb = match access {
        Access::Read => "read",
        Access::Write => "write to",
    };
    let by_host = e.to_string().contains("(os error ");
    match e.errno() {
        libc::EBUSY | libc::EAGAIN => {
            let who = locker(image).map_or(String::new(), |pid| format!(" (pid {pid})"));
            Failure::image(format!(
                "{name}: is in use by another program{who}: wait until it ends"
            ))
        }
        // What the host's kernel refused; else the container's own reason.
        libc::EACCES | libc::EPERM if by_host => Failure::image(format!(
            "{name}: permission denied: you may not {verb} this file"
        )),
        libc::EROFS if by_host => Failure::image(format!(
            "{name}: is on a read-only file system: copy it elsewhere first"
        )),
        _ => Failure::image(format!("{name}: {e}")),
    }
}

/// Who holds the lock: `1: FLOCK ADVISORY WRITE pid major:minor:inode …`.
fn locker(image: &Path) -> Option<u32> {
    let inode = format!(":{}", image.metadata().ok()?.ino());
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    locks.lines().find_map(|line| {
        let mut fields = line.split_whitespace().filter(|f| *f != "->").skip(1);
        let kind = fields.next()?;
        let pid = fields.nth(2)?;
        let is_it = kind == "FLOCK" && fields.next()?.ends_with(&inode);
        is_it.then(|| pid.parse().ok())?
    })
}
