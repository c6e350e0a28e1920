//! A kernel of our own, and the image that is its disk.

use super::lower::{self, Lower};
use super::prepared::{self, Prepared};
use super::{is_host_kernel, nested, secrets, servers, Access, Opened};
use crate::args::{Global, Verity};
use crate::failure::{Failure, Result};
use crate::sys::Errno;
use crate::tell;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use tane::images::Backend;
use tane::{Disk, ImagePath, Volume, VolumeOptions, Volumes};

/// A kernel and its disks.
pub struct Machine {
    /// Found when first asked for; before the disks, which they lie on.
    volumes: OnceLock<Volumes>,
    /// The layers below it, the topmost first.
    pub(super) lower: Vec<Lower>,
    /// The image that was named, then those it comes with.
    disks: Vec<Disk>,
    /// What they are called.
    names: Vec<String>,
    /// Given, or typed.
    secrets: Mutex<Vec<Vec<u8>>>,
    verity: Option<Verity>,
    pub kernel: tane::Kernel,
    /// The kernel serves nobody else.
    own: bool,
    /// Last: the disk is one of its files.
    outer: Option<Box<Opened>>,
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
        match global.kept.kernel(global)? {
            Some(kernel) => Ok(Machine::of(kernel, global)),
            None => Machine::alone(global),
        }
    }

    /// The file that [`Machine::bare`] boots.
    pub fn image(global: &Global) -> Result<PathBuf> {
        kernel_image(global)
    }

    /// A kernel that knows everything, and nobody else has.
    pub(super) fn alone(global: &Global) -> Result<Machine> {
        Machine::booted(&kernel_image(global)?, global.memory, Vec::new(), global)
    }

    /// A kernel that does the same each time: see [`tane::Builder::deterministic`].
    /// It has one CPU, whatever the command line says. `plain`: it is for an ext2,
    /// ext3, ext4 or FAT. `working_set`: bytes of memory that it will use.
    pub fn deterministic(
        time: u64,
        seed: u64,
        plain: bool,
        working_set: u64,
        global: &Global,
    ) -> Result<Machine> {
        // Memory that is touched for the first time costs the host more than what is
        // used again, and these have no use for much.
        const LITTLE: u64 = 64 << 20;
        let tiny = tane::tiny_image().filter(|_| plain && global.kernel.is_none());
        let image = tiny.map_or_else(|| kernel_image(global), Ok)?;
        let memory = global.memory.or(plain.then_some(LITTLE));
        let builder = builder(&image, memory, global).working_set(working_set);
        Machine::boot(builder.cpus(1).deterministic(time, seed), global)
    }

    /// Adds a disk that is to be written, and that does what it is asked in order.
    pub fn add_new(
        &mut self,
        disk: Arc<dyn Backend>,
        name: &Path,
        global: &Global,
    ) -> Result<&Disk> {
        let mut options = tane::DiskOptions::new();
        options.in_order(true);
        if let Some(bytes) = global.sector_size {
            options.sector_size(bytes);
        }
        let disk = self.kernel.add_disk(disk, &options);
        self.push(name, disk)?;
        Ok(&self.disks[self.disks.len() - 1])
    }

    pub(super) fn booted(
        image: &Path,
        memory: Option<u64>,
        secrets: Vec<Vec<u8>>,
        global: &Global,
    ) -> Result<Machine> {
        let mut machine = Machine::boot(builder(image, memory, global), global)?;
        machine.secrets = Mutex::new(secrets);
        Ok(machine)
    }

    fn boot(builder: tane::Builder, global: &Global) -> Result<Machine> {
        let kernel = builder.boot().map_err(no_start)?;
        let mut machine = Machine::of(kernel, global);
        machine.own = true;
        Ok(machine)
    }

    fn of(kernel: tane::Kernel, global: &Global) -> Machine {
        Machine {
            volumes: OnceLock::new(),
            lower: Vec::new(),
            disks: Vec::new(),
            names: Vec::new(),
            secrets: Mutex::default(),
            verity: global.verity.clone(),
            kernel,
            own: false,
            outer: None,
        }
    }

    /// For reading, what the kernel writes (a journal replay) stays in memory.
    pub fn with_image(at: &ImagePath, access: Access, global: &Global) -> Result<Machine> {
        // Whole images are for one verb alone.
        let global = &global.kept.release(&at.image, global)?;
        let prepared = prepared::get(at, access, global)?;
        Machine::with_prepared(prepared, at, access, global)
    }

    pub(super) fn with_prepared(
        prepared: Prepared,
        at: &ImagePath,
        access: Access,
        global: &Global,
    ) -> Result<Machine> {
        let Prepared {
            mut machine,
            opened,
            below,
            outer,
        } = prepared;
        let options = Machine::options(access, &[], global);
        if let (Some(outer), Some(prepared)) = (&at.within, outer) {
            let (outer, backend) = nested::open(outer, *prepared, access, global)?;
            machine.outer = Some(Box::new(outer));
            let mut inner = tane::DiskOptions::new();
            inner.snapshot(access == Access::Read || global.forgets());
            if let Some(bytes) = global.sector_size {
                inner.sector_size(bytes);
            }
            let disk = machine.kernel.add_disk(backend, &inner);
            machine.push(&at.image, disk)?;
        }
        for (image, opened) in opened {
            machine.add(&image, opened, &options)?;
        }
        machine.lower = lower::add(&machine.kernel, below, &machine.secrets(), global)?;
        Ok(machine)
    }

    /// A machine of a session's kernel, which may have others beside it.
    pub(super) fn attach(
        kernel: tane::Kernel,
        image: &Path,
        access: Access,
        global: &Global,
        secrets: Vec<Vec<u8>>,
    ) -> Result<Machine> {
        let options = Machine::options(access, &secrets, global);
        let mut machine = Machine::of(kernel, global);
        machine.secrets = Mutex::new(secrets);
        for image in std::iter::once(image).chain(global.with.iter().map(|p| p.as_path())) {
            machine.open_disk(image, &options)?;
        }
        machine.add_lower(access, global)?;
        Ok(machine)
    }

    fn add_lower(&mut self, access: Access, global: &Global) -> Result<()> {
        let below = lower::below(access, global)?;
        let below = lower::open(below, &self.secrets(), global)?;
        self.lower = lower::add(&self.kernel, below, &self.secrets(), global)?;
        Ok(())
    }

    fn open_disk(&mut self, image: &Path, options: &tane::DiskOptions) -> Result<()> {
        let opened = options.open_image(image);
        self.add(image, opened.map_err(|e| Failure::of_image(&e))?, options)
    }

    fn add(
        &mut self,
        image: &Path,
        opened: tane::DiskImage,
        options: &tane::DiskOptions,
    ) -> Result<()> {
        let disk = self.kernel.add_disk_image(opened, options);
        self.push(image, disk)
    }

    fn push(&mut self, name: &Path, disk: tane::Result<Disk>) -> Result<()> {
        let fail = |e: tane::Error| Failure::of_image(&e.with_path(name));
        self.disks.push(disk.map_err(fail)?);
        self.names.push(name.display().to_string());
        Ok(())
    }

    /// All that matters is in the image. A kernel of its own is not asked to give up
    /// mounts and disks one by one, which takes as long as some reads.
    pub(super) fn end(&self) {
        if self.own {
            self.kernel.halt();
        }
    }

    /// The image that this one's disk is a file of.
    pub fn into_outer(self) -> Option<Opened> {
        self.outer.map(|outer| *outer)
    }

    /// `secrets`: for containers that are encrypted; without, they are asked for.
    pub(super) fn options(
        access: Access,
        secrets: &[Vec<u8>],
        global: &Global,
    ) -> tane::DiskOptions {
        let mut options = tane::DiskOptions::new();
        for secret in secrets {
            options.secret(secret.as_slice());
        }
        options.ask(|| secrets::ask("the encrypted image"));
        options.snapshot(access == Access::Read || global.forgets());
        if let Some(format) = global.format {
            options.format(format);
        }
        if let Some(file) = global.overlay.as_ref().filter(|_| !global.forgets()) {
            options.overlay(file);
        }
        if let Some(bytes) = global.sector_size {
            options.sector_size(bytes);
        }
        for login in &global.logins {
            options.login(login.clone());
        }
        servers::allow(&mut options, global);
        for place in &global.trust {
            options.trust(place);
        }
        if let Some(patience) = global.patience() {
            options.wait(patience);
        }
        if !global.quiet {
            options.notice(tell::note);
        }
        options
    }

    /// An error if its Linux has died, with its last words.
    pub fn check(&self) -> Result<()> {
        match self.kernel.is_alive() {
            true => Ok(()),
            false => Err(Failure::image(format!(
                "the image's Linux has died: {}",
                self.kernel.last_words()
            ))),
        }
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

    /// Whether one of its images is, as a whole.
    pub fn is_encrypted(&self) -> bool {
        let mut layers = self.disks.iter().flat_map(|disk| disk.layers());
        layers.any(|layer| layer.encryption.is_some())
    }

    /// Whatever opens its images and encrypted volumes.
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

    /// What the images of `--with` are inside the kernel.
    pub fn further_devices(&self) -> Vec<PathBuf> {
        self.disks.iter().skip(1).map(Disk::device).collect()
    }

    /// Why Linux could not read or write a disk, which it knows as an I/O error
    /// only: a sentence for each disk that had such.
    pub fn causes(&self) -> Vec<String> {
        let disks = self.names.iter().cloned().zip(&self.disks);
        let disks = disks.chain(self.lower.iter().map(|lower| (lower.name(), &lower.disk)));
        let failed = disks.filter_map(|(name, disk)| Some((name, disk.first_error()?)));
        failed.map(|(name, error)| cause(&name, &error)).collect()
    }

    /// The failure, or what caused it.
    pub fn explain(&self, failure: Failure) -> Failure {
        match self.causes().first() {
            Some(cause) => Failure::new(failure.code, cause),
            None => failure,
        }
    }

    /// Everything that a file system can be on. Encrypted volumes are opened by what
    /// the command line gave, else by what is typed.
    pub fn volumes(&self) -> Result<&Volumes> {
        if let Some(volumes) = self.volumes.get() {
            return Ok(volumes);
        }
        let fail = |e: tane::Error| self.explain(Failure::image(e.to_string()));
        let disks: Vec<_> = self.disks.iter().collect();
        let mut options = VolumeOptions::new();
        for secret in self.secrets() {
            options.secret(secret);
        }
        if let Some(verity) = &self.verity {
            options.verity(verity.root.clone(), verity.offset);
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

fn cause(name: &str, error: &std::io::Error) -> String {
    let text = error.to_string();
    let own = format!("{name}: ");
    if text.starts_with(&own) {
        return text;
    }
    let what = match error.kind() {
        std::io::ErrorKind::StorageFull => "the host's disk is full",
        std::io::ErrorKind::QuotaExceeded => "your quota on the host's disk is used up",
        std::io::ErrorKind::FileTooLarge => "the host allows no file that large (ulimit -f)",
        _ => "the host could not read or write it",
    };
    format!("{own}{what}: {text}")
}

fn no_start(e: tane::Error) -> Failure {
    Failure::image(format!("cannot start Linux: {e}"))
}

pub(super) fn kernel_image(global: &Global) -> Result<PathBuf> {
    let path = match &global.kernel {
        Some(path) => path.clone(),
        None => tane::default_image().map_err(no_start)?,
    };
    let wrong = match path.metadata() {
        _ if is_host_kernel(global) => return Ok(path),
        Ok(found) if found.is_file() => return Ok(path),
        Ok(_) => Errno(libc::EISDIR),
        Err(e) => Errno(e.raw_os_error().unwrap_or(libc::EIO)),
    };
    let (whose, remedy) = match (&global.kernel, std::env::var_os("TANE_IMAGE")) {
        (Some(_), _) => (
            "that --kernel names",
            "leave the option out for the one installed",
        ),
        (None, Some(_)) => ("that TANE_IMAGE names", "unset it for the one installed"),
        (None, None) => ("of this installation", "install tane's kernel images"),
    };
    let text = format!("{}: the kernel image {whose}: {wrong}", path.display());
    let failure = Failure::image(text).about(path.as_os_str().as_bytes());
    Err(failure.remedy(remedy))
}

/// What serves plain images, unless somebody wants something else.
pub(super) fn tiny_image(global: &Global) -> Option<PathBuf> {
    let any = global.kernel.is_none() && global.fs.is_none() && global.verity.is_none();
    // It has no overlayfs.
    let any = any && (global.lower.is_empty() || global.alone);
    match any && global.with.is_empty() && global.cpus.unwrap_or(1) == 1 {
        true => tane::tiny_image(),
        false => None,
    }
}

fn builder(image: &Path, memory: Option<u64>, global: &Global) -> tane::Builder {
    let mut builder = tane::Kernel::builder().image(image);
    if let Some(memory) = memory {
        builder = builder.memory(memory);
    }
    if let Some(count) = global.cpus {
        builder = builder.cpus(count);
    }
    if let Some(words) = &global.append {
        builder = builder.cmdline(words);
    }
    builder
}
