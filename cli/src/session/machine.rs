//! A kernel of our own, and the image that is its disk.

use super::{secrets, Access};
use crate::args::Global;
use crate::failure::{Failure, Result};
use std::path::{Path, PathBuf};
use tane::{Disk, Image, ImageOptions, ImagePath, Volume, Volumes};

/// A kernel and, if there is one, the image it has.
pub struct Machine {
    image: Option<Image>,
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
    /// A kernel without a disk.
    pub fn bare(global: &Global) -> Result<Machine> {
        let kernel = boot(global).map_err(cannot_start)?;
        Ok(Machine {
            image: None,
            kernel,
        })
    }

    /// For reading, what the kernel writes (a journal replay) stays in memory.
    pub fn with_image(path: &Path, access: Access, global: &Global) -> Result<Machine> {
        let mut options = ImageOptions::new();
        options.write(access == Access::Write);
        if let Some(format) = global.format {
            options.format(format);
        }
        if let Some(file) = &global.overlay {
            options.overlay(file);
        }
        for place in &global.trust {
            options.trust(place);
        }
        for image in &global.with {
            options.with(image);
        }
        for secret in secrets::given(global)? {
            options.secret(secret);
        }
        options.ask(|| secrets::ask("the encrypted volume"));
        if !global.quiet {
            options.notice(|text| eprintln!("tane: {text}"));
        }
        let mut trouble = None;
        let image = options.open(path, || {
            boot(global).inspect_err(|e| trouble = Some(cannot_start(e)))
        });
        let image = image.map_err(|e| trouble.unwrap_or_else(|| Failure::of_image(&e)))?;
        Ok(Machine {
            kernel: image.kernel().clone(),
            image: Some(image),
        })
    }

    fn image(&self) -> Result<&Image> {
        let none = || Failure::image("no image was named");
        self.image.as_ref().ok_or_else(none)
    }

    /// Everything written so far is in the image when this returns. Not every
    /// file system asks for that when it is unmounted.
    pub fn flush(&self) -> tane::Result<()> {
        self.image.as_ref().map_or(Ok(()), Image::flush)
    }

    /// The image that was named.
    pub fn disk(&self) -> Option<&Disk> {
        self.image.as_ref().map(Image::disk)
    }

    /// Everything that a file system can be on. LUKS volumes are opened by what
    /// the command line gave, else by what is typed.
    pub fn volumes(&self) -> Result<&Volumes> {
        let volumes = self.image()?.volumes();
        volumes.map_err(|e| Failure::image(e.to_string()))
    }

    /// The device inside the kernel that an address means.
    pub fn choose(&self, at: &ImagePath, global: &Global) -> Result<PathBuf> {
        let image = self.image()?;
        let found = image.choose(at.selector.as_ref(), global.fs.is_some());
        found.map_err(|e| match e.errno() {
            libc::ENOKEY => {
                let mut failure = Failure::of_image(&e);
                failure.message += "\n  --passphrase-file and --key-file give them";
                failure
            }
            _ => Failure::of_image(&e),
        })
    }
}

fn boot(global: &Global) -> tane::Result<tane::Kernel> {
    let mut builder = tane::Kernel::builder();
    if let Some(path) = &global.kernel {
        builder = builder.image(path);
    }
    if let Some(memory) = global.memory {
        builder = builder.memory(memory);
    }
    if let Some(count) = global.cpus {
        builder = builder.cpus(count);
    }
    if let Some(words) = &global.append {
        builder = builder.cmdline(words);
    }
    builder.boot()
}

fn cannot_start(e: impl std::fmt::Display) -> Failure {
    Failure::image(format!("cannot start Linux: {e}"))
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
