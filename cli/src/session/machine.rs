//! A kernel of our own, and the image that is its disk.

use super::image::Volume;
use super::Access;
use crate::args::Global;
use crate::failure::{Failure, Result};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

pub struct Machine {
    pub kernel: tane::Kernel,
    disk: Option<tane::Disk>,
}

impl Machine {
    /// A kernel without a disk.
    pub fn bare(global: &Global) -> Result<Machine> {
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
        let kernel = builder
            .boot()
            .map_err(|e| Failure::image(format!("cannot start Linux: {e}")))?;
        Ok(Machine { kernel, disk: None })
    }

    /// For reading, what the kernel writes (a journal replay) stays in memory.
    pub fn with_image(image: &Path, access: Access, global: &Global) -> Result<Machine> {
        check(image)?;
        let mut machine = Machine::bare(global)?;
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
        let disk = machine
            .kernel
            .open_disk(image, &options)
            .map_err(|e| refused(image, access, &e))?;
        machine.disk = Some(disk);
        Ok(machine)
    }

    /// Everything written so far is in the image when this returns. Not every
    /// file system asks for that when it is unmounted.
    pub fn flush(&self) -> std::io::Result<()> {
        self.disk.as_ref().map_or(Ok(()), |d| d.backend().flush())
    }

    /// The whole disk and its partitions, with what is on them.
    pub fn volumes(&self) -> Result<Vec<Volume>> {
        let Some(disk) = &self.disk else {
            return Ok(Vec::new());
        };
        let fail = |e: tane::Error| Failure::image(e.to_string());
        let mut volumes = vec![Volume {
            device: disk.device(),
            number: None,
            start: 0,
            size: disk.size().map_err(fail)?,
            name: None,
            found: disk.probe().map_err(fail)?,
        }];
        for part in disk.partitions().map_err(fail)? {
            let found = self.kernel.probe(part.device()).map_err(fail)?;
            volumes.push(Volume {
                device: part.device(),
                number: Some(part.number),
                start: part.start,
                size: part.size,
                name: part.name,
                found,
            });
        }
        Ok(volumes)
    }
}

impl Machine {
    /// Mounts a volume, read-only.
    fn mount(&self, volume: &Volume) -> std::result::Result<tane::Mount, tane::Error> {
        let mut options = tane::MountOptions::new();
        options.read_only(true).mount(&self.kernel, &volume.device)
    }

    /// Bytes used and in all, of what can be mounted.
    pub fn usage(&self, volume: &Volume) -> Option<(u64, u64)> {
        if !volume.is_mountable() {
            return None;
        }
        let mount = self.mount(volume).ok()?;
        let fs = mount.statfs().ok()?;
        Some((fs.total.saturating_sub(fs.free), fs.total))
    }

    /// Mounts what can be, for the log's sake.
    pub fn try_mounts(&self, image: &Path) -> Result<()> {
        for volume in self.volumes()?.iter().filter(|v| v.is_mountable()) {
            let fail = |e| Failure::image(format!("{}: {e}", image.display()));
            self.mount(volume).map_err(fail)?;
        }
        Ok(())
    }
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
