//! A kernel of our own, and the image that is its disk.

use super::prepared::Prepared;
use super::{is_host_kernel, memory, nested, netfs, opening, prepared, traced, whole, Access};
use crate::args::installed_kernels;
use crate::failure::{Failure, Result};
use crate::session::Global;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use tane::{BootedImage, Disk, FileServer, Image, ImagePath, Outer, ToBoot, Volume, Volumes};
use tane_linux::Errno;
use tane_make::Wanted;

/// A kernel, and the image that it serves.
pub struct Machine {
    /// None: it has no disk.
    image: Option<Image>,
    /// Whose files it has instead.
    server: Option<FileServer>,
    pub kernel: tane::Kernel,
    /// The kernel serves nobody else.
    own: bool,
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
            Some(kernel) => Ok(Machine::of(kernel, false)),
            None => Machine::alone(global),
        }
    }

    /// The file that [`Machine::bare`] boots.
    pub fn image(global: &Global) -> Result<PathBuf> {
        kernel_image(global)
    }

    /// The file of a kernel that needs no disk: the tiny one, if nobody has named another.
    pub(super) fn smallest(global: &Global) -> Result<PathBuf> {
        tiny_image(global).map_or_else(|| kernel_image(global), Ok)
    }

    /// A kernel that knows everything, and nobody else has.
    pub fn alone(global: &Global) -> Result<Machine> {
        Machine::boot(
            builder(&kernel_image(global)?, global.memory, global),
            global,
        )
    }

    /// One that is booted with more words, whose log somebody hears as it is written.
    pub fn that_tells(
        words: &str,
        log: impl Fn(&str) + Send + Sync + 'static,
        global: &Global,
    ) -> Result<Machine> {
        let builder = builder(&kernel_image(global)?, global.memory, global);
        Machine::boot(builder.cmdline(words).log(log), global)
    }

    /// One that goes back to checkpoints, in a jail that lets nobody ask the host what was
    /// written.
    pub(super) fn that_goes_back(global: &Global) -> Result<Machine> {
        let builder = builder(&kernel_image(global)?, global.memory, global);
        Machine::boot(builder.compare(true), global)
    }

    /// A kernel that does the same each time, whatever the command line says of CPUs.
    pub fn deterministic(wanted: &Wanted, global: &Global) -> Result<Machine> {
        // Memory that is touched for the first time costs the host more than what is
        // used again, and these have no use for much.
        const LITTLE: u64 = 64 << 20;
        let plain = wanted.plain;
        let tiny = plain_image().filter(|_| plain && global.kernel.is_none());
        let image = tiny.map_or_else(|| kernel_image(global), Ok)?;
        let memory = global.memory.or(plain.then_some(LITTLE));
        let builder = builder(&image, memory, global).working_set(wanted.working_set);
        let builder = builder.cpus(1).deterministic(wanted.time, wanted.seed);
        Machine::boot(builder, global)
    }

    fn boot(builder: tane::Builder, global: &Global) -> Result<Machine> {
        let kernel = match traced::is_awaited() {
            true => traced::boot(builder, global)?,
            false => builder.boot().map_err(no_start)?,
        };
        Ok(Machine::of(kernel, true))
    }

    fn of(kernel: tane::Kernel, own: bool) -> Machine {
        Machine {
            image: None,
            server: None,
            kernel,
            own,
        }
    }

    /// A kernel of its own for files of a server.
    pub(super) fn of_files(kernel: tane::Kernel, server: Option<FileServer>) -> Machine {
        Machine {
            server,
            ..Machine::of(kernel, true)
        }
    }

    /// An image and its kernel; `own`: that serves nobody else.
    pub(super) fn of_image(image: Image, own: bool) -> Machine {
        let kernel = image.kernel().clone();
        Machine {
            image: Some(image),
            ..Machine::of(kernel, own)
        }
    }

    /// For reading, what the kernel writes (a journal replay) stays in memory.
    pub fn with_image(at: &ImagePath, access: Access, global: &Global) -> Result<Machine> {
        netfs::check_is_image(at)?;
        global.kept.permits(&at.image, access, global)?;
        // Whole images are for one verb alone.
        let global = &global.kept.release(&at.image, global)?;
        match prepared::get(at, access, global)? {
            Prepared::Image(booted) => Machine::with_prepared(*booted, access, global),
            Prepared::Files(_) => Err(Failure::image("there is no image")),
        }
    }

    /// Its kernels only now see what is in their images.
    pub(super) fn with_prepared(
        prepared: BootedImage,
        access: Access,
        global: &Global,
    ) -> Result<Machine> {
        let outer = nested::of_outer(access, global);
        let image = prepared
            .attach_by(|image, selector| nested::mount_outer(image, selector, outer, global))?;
        Ok(Machine::of_image(image, true))
    }

    /// A machine of a session's kernel, which may have others beside it.
    pub(super) fn attach(
        kernel: &tane::Kernel,
        image: &Path,
        access: Access,
        global: &Global,
        secrets: &[Vec<u8>],
    ) -> Result<Machine> {
        let at = whole(image);
        let options = opening::options(access, secrets, global)?;
        let opened = options.open_files(&at, &opening::hooks(&at, access, global))?;
        let booted = opened.boot(|_| Ok::<_, Failure>(kernel.clone()))?;
        Ok(Machine::of_image(booted.attach()?, false))
    }

    /// All that matters is in the image. A kernel of its own is not asked to give up
    /// mounts and disks one by one, which takes as long as some reads.
    pub(super) fn end(&self) {
        if self.own {
            traced::ends(&self.kernel);
            self.kernel.halt();
        }
    }

    /// The image that this one's disk is a file of.
    pub(super) fn into_outer(self) -> Option<Outer> {
        self.image?.into_outer()
    }

    pub(super) fn opened(&self) -> Result<&Image> {
        let none = || Failure::image("there is no image");
        self.image.as_ref().ok_or_else(none)
    }

    /// The image that was named and those it comes with, under their names.
    fn disks(&self) -> impl Iterator<Item = (&Path, &Disk)> {
        self.image.iter().flat_map(Image::disks)
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
        self.disks().try_for_each(|(_, d)| d.backend().flush())
    }

    /// Bytes that the files of the image, its extents and backing files among
    /// them, take on the host's disk.
    pub fn allocated(&self) -> u64 {
        let layers = self.disks().flat_map(|(_, disk)| disk.layers());
        let blocks = layers.filter_map(|layer| layer.path.metadata().ok());
        blocks.map(|m| m.blocks() * 512).sum()
    }

    /// Whether one of its images is, as a whole.
    pub fn is_encrypted(&self) -> bool {
        let mut layers = self.disks().flat_map(|(_, disk)| disk.layers());
        layers.any(|layer| layer.encryption.is_some())
    }

    /// Whatever opens its images and encrypted volumes.
    pub fn secrets(&self) -> Vec<Vec<u8>> {
        self.image.as_ref().map_or_else(Vec::new, Image::secrets)
    }

    /// The image that was named.
    pub fn disk(&self) -> Option<&Disk> {
        self.image.as_ref().map(Image::disk)
    }

    /// What the images of `--with` are inside the kernel.
    pub fn further_devices(&self) -> Vec<PathBuf> {
        self.disks()
            .skip(1)
            .map(|(_, disk)| disk.device())
            .collect()
    }

    /// Why Linux could not read or write a disk, or files of a server, which it knows as an
    /// I/O error only: a sentence for each that had such.
    pub fn causes(&self) -> Vec<String> {
        let disks = self
            .disks()
            .chain(self.image.iter().flat_map(Image::lower_disks));
        let failed = disks.filter_map(|(name, disk)| Some((name.display(), disk.first_error()?)));
        let cause = |(name, error): (_, Arc<_>)| cause(&format!("{name}"), &error);
        let lost = self.server.as_ref().and_then(FileServer::lost);
        failed.map(cause).chain(lost).collect()
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
        let fail = |e: tane::Error| self.explain(Failure::image(e.to_string()));
        self.opened()?.volumes().map_err(fail)
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

pub(super) fn no_start(e: tane::Error) -> Failure {
    Failure::image(format!("cannot start Linux: {e}"))
}

pub(super) fn kernel_image(global: &Global) -> Result<PathBuf> {
    let path = match &global.kernel {
        Some(path) => path.clone(),
        None => default_image()?,
    };
    let wrong = match path.metadata() {
        _ if is_host_kernel(global) => return Ok(path),
        Ok(found) if found.is_file() => return Ok(path),
        Ok(_) => Errno(libc::EISDIR),
        Err(e) => Errno(e.raw_os_error().unwrap_or(libc::EIO)),
    };
    let names: Vec<_> = installed_kernels()
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    let others = format!(
        "leave the option out for the one installed; by their names there are {}",
        names.join(", ")
    );
    let (whose, remedy) = match (&global.kernel, std::env::var_os("TANE_IMAGE")) {
        (Some(_), _) => ("that --kernel names", others.as_str()),
        (None, Some(_)) => ("that TANE_IMAGE names", "unset it for the one installed"),
        (None, None) => ("of this installation", "install tane's kernel images"),
    };
    let text = format!("{}: the kernel image {whose}: {wrong}", path.display());
    let failure = Failure::image(text).about(path.as_os_str().as_bytes());
    Err(failure.remedy(remedy))
}

/// Where it is when nobody says, which is looked for once.
fn default_image() -> Result<PathBuf> {
    static FOUND: OnceLock<PathBuf> = OnceLock::new();
    if let Some(found) = FOUND.get() {
        return Ok(found.clone());
    }
    let found = tane::default_image().map_err(no_start)?;
    Ok(FOUND.get_or_init(|| found).clone())
}

/// The tiny one beside it, in the same way.
pub(super) fn plain_image() -> Option<PathBuf> {
    static FOUND: OnceLock<Option<PathBuf>> = OnceLock::new();
    let look = || tane::tiny_image_beside(&default_image().ok()?);
    FOUND.get_or_init(look).clone()
}

/// What serves plain images, unless somebody wants something else.
pub(super) fn tiny_image(global: &Global) -> Option<PathBuf> {
    let any = global.kernel.is_none() && global.fs.is_none() && global.verity.is_none();
    // It has no overlayfs.
    let any = any && (global.lower.is_empty() || global.alone);
    match any && global.with.is_empty() && global.cpus.unwrap_or(1) == 1 {
        true => plain_image(),
        false => None,
    }
}

/// The kernel that is to serve these disks.
pub(super) fn boot(what: &ToBoot, global: &Global) -> Result<tane::Kernel> {
    if let Some(kernel) = traced::take()? {
        return Ok(kernel);
    }
    let is_plain = what.is_all && what.disks.iter().all(|disk| disk.is_plain());
    let image = match tiny_image(global).filter(|_| is_plain) {
        Some(tiny) => tiny,
        None => kernel_image(global)?,
    };
    let sizes = what.disks.iter().map(|disk| disk.size());
    let memory = match what.is_all {
        true => memory::of(sizes, global),
        // How large it is nobody has seen.
        false => global.memory,
    };
    let builder = builder(&image, memory, global);
    // One kernel of a process can.
    let runs = global.runs && !what.is_outer;
    builder.programs(runs).boot().map_err(no_start)
}

/// One that is booted before anything is known of disks.
pub(super) fn builder_of_any(global: &Global) -> Result<tane::Builder> {
    Ok(builder(&kernel_image(global)?, global.memory, global))
}

pub(super) fn builder(image: &Path, memory: Option<u64>, global: &Global) -> tane::Builder {
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
    builder.programs(global.runs)
}
