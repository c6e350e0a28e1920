//! An image, mounted by a kernel of our own.

use super::machine::Machine;
use super::Access;
use crate::address::{ImagePath, Selector};
use crate::args::Global;
use crate::failure::{Failure, Result, SOME_FAILED};
use crate::sys::Side;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A file system of an image that is mounted.
pub struct Opened {
    kernel: tane::Kernel,
    mount: Option<tane::Mount>,
    machine: Arc<Machine>,
    access: Access,
}

pub fn open_image(at: &ImagePath, access: Access, global: &Global) -> Result<Opened> {
    let machine = Arc::new(Machine::with_image(&at.image, access, global)?);
    mount(machine, at, access, global)
}

fn mount(machine: Arc<Machine>, at: &ImagePath, access: Access, global: &Global) -> Result<Opened> {
    let device = choose(&machine, at, global)?;
    let mut options = tane::MountOptions::new();
    options.read_only(access == Access::Read);
    if let Some(fs) = &global.fs {
        options.fstype(fs);
    }
    options.options(global.options.as_deref().unwrap_or_default());
    let name = at.image.display();
    let mount = options.mount(&machine.kernel, &device).map_err(|e| {
        let what = match e.errno() {
            libc::ENOMEDIUM => "no file system that this kernel knows".into(),
            libc::ENODEV => format!("{e}; another kernel image (--kernel) may know it"),
            _ => format!("cannot be mounted: {e}"),
        };
        Failure::image(format!("{name}: {what}; tane inspect shows what is there"))
    })?;
    Ok(Opened {
        kernel: machine.kernel.clone(),
        mount: Some(mount),
        machine,
        access,
    })
}

/// The device inside the kernel that the address means.
fn choose(machine: &Machine, at: &ImagePath, global: &Global) -> Result<PathBuf> {
    let name = at.image.display();
    let volumes = machine.volumes()?;
    if let Some(selector) = &at.selector {
        let found: Vec<_> = volumes
            .iter()
            .filter(|v| v.is_selected_by(selector))
            .collect();
        return match found[..] {
            [volume] => Ok(volume.device.clone()),
            [] => Err(Failure::image(format!(
                "{name}: no such file system in it{}",
                list(&volumes, at)
            ))),
            _ => Err(Failure::image(format!(
                "{name}: several match{}",
                list(&volumes, at)
            ))),
        };
    }
    let whole = volumes.iter().find(|v| v.number.is_none());
    if let Some(whole) =
        whole.filter(|v| v.is_mountable() || global.fs.is_some() || volumes.len() == 1)
    {
        if volumes.len() == 1 || whole.is_mountable() {
            return refuse_unmountable(whole, at, global);
        }
    }
    let parts: Vec<_> = volumes
        .iter()
        .filter(|v| v.number.is_some() && v.is_mountable())
        .collect();
    match parts[..] {
        [only] => Ok(only.device.clone()),
        [] => Err(Failure::image(format!(
            "{name}: no file system in it{}",
            list(&volumes, at)
        ))),
        _ => {
            let text = format!(
                "{name}: holds several file systems: choose one{}",
                list(&volumes, at)
            );
            Err(Failure::image(text))
        }
    }
}

fn refuse_unmountable(volume: &Volume, at: &ImagePath, global: &Global) -> Result<PathBuf> {
    match &volume.found {
        Some(found) if !volume.is_mountable() && global.fs.is_none() => {
            let name = at.image.display();
            Err(Failure::image(format!(
                "{name}: holds {}, not a file system",
                found.fstype
            )))
        }
        _ => Ok(volume.device.clone()),
    }
}

fn list(volumes: &[Volume], at: &ImagePath) -> String {
    let line = |v: &Volume| {
        let number = v.number?;
        let found = v.found.as_ref().map_or("nothing known".into(), |f| {
            let label = f
                .label
                .as_ref()
                .map_or(String::new(), |l| format!(" label={l}"));
            format!("{}{label}", f.fstype)
        });
        Some(format!("\n  {}@{number}:/  {found}", at.image.display()))
    };
    volumes.iter().filter_map(line).collect()
}

/// A place where a file system can be: the whole disk or a partition.
pub struct Volume {
    pub device: PathBuf,
    /// None: the whole disk.
    pub number: Option<u32>,
    pub start: u64,
    pub size: u64,
    /// What a GPT calls it.
    pub name: Option<String>,
    pub found: Option<tane::FileSystem>,
}

impl Volume {
    pub fn is_mountable(&self) -> bool {
        self.found.as_ref().is_some_and(|f| {
            let containers = ["swap", "crypto_LUKS", "LVM2_member", "linux_raid_member"];
            !containers.contains(&f.fstype.as_str())
        })
    }

    fn is_selected_by(&self, selector: &Selector) -> bool {
        let found = self.found.as_ref();
        match selector {
            Selector::Partition(n) => self.number == Some(*n),
            Selector::Label(label) => found.is_some_and(|f| f.label.as_ref() == Some(label)),
            Selector::Uuid(uuid) => found
                .and_then(|f| f.uuid.as_ref())
                .is_some_and(|u| u.eq_ignore_ascii_case(uuid)),
        }
    }
}

impl Opened {
    /// Another file system of the same image.
    pub fn beside(&self, at: &ImagePath, global: &Global) -> Result<Opened> {
        mount(self.machine.clone(), at, self.access, global)
    }

    pub fn mount_point(&self) -> &[u8] {
        let path = self
            .mount
            .as_ref()
            .map_or(Path::new("/"), |m| m.mount_point());
        path.as_os_str().as_bytes()
    }

    pub fn close(mut self) -> Result<()> {
        if !self.kernel.is_alive() {
            let words = self.kernel.last_words();
            return Err(Failure::image(format!(
                "the image's Linux has died: {words}"
            )));
        }
        if self.access == Access::Read {
            return Ok(());
        }
        let lost = |e: &dyn std::fmt::Display| {
            Failure::new(SOME_FAILED, format!("not everything was written: {e}"))
        };
        if let Some(mount) = self.mount.take() {
            mount.unmount().map_err(|e| lost(&e))?;
        }
        self.machine.flush().map_err(|e| lost(&e))
    }
}

impl Side for Opened {
    unsafe fn call(&self, nr: libc::c_long, args: [usize; 6]) -> isize {
        // SAFETY: the caller vouches for the arguments.
        unsafe { self.kernel.syscall(nr, args.map(|a| a as u64)) as isize }
    }

    fn is_ours(&self) -> bool {
        true
    }
}
