//! An image, mounted by a kernel of our own.

use super::choose::choose;
use super::lower;
use super::machine::Machine;
use super::prepared::Prepared;
use super::unmountable::Attempt;
use super::Access;
use crate::args::Global;
use crate::failure::{Failure, Result, SOME_FAILED};
use crate::sys::{Root, Side, Sys};
use crate::tell;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use tane::{ImagePath, Place};

/// A file system of an image that is mounted.
pub struct Opened {
    kernel: tane::Kernel,
    mount: Option<tane::Mount>,
    machine: Arc<Machine>,
    access: Access,
}

pub fn open_image(at: &ImagePath, access: Access, global: &Global) -> Result<Opened> {
    of_machine(Machine::with_image(at, access, global)?, at, access, global)
}

pub fn open_prepared(
    prepared: Prepared,
    at: &ImagePath,
    access: Access,
    global: &Global,
) -> Result<Opened> {
    let machine = Machine::with_prepared(prepared, at, access, global)?;
    of_machine(machine, at, access, global)
}

fn of_machine(machine: Machine, at: &ImagePath, access: Access, global: &Global) -> Result<Opened> {
    let machine = Arc::new(machine);
    let opened = mount(machine.clone(), at, access, global);
    opened.map_err(|failure| machine.explain(failure))
}

pub(super) fn mount(
    machine: Arc<Machine>,
    at: &ImagePath,
    access: Access,
    global: &Global,
) -> Result<Opened> {
    let device = choose(&machine, at, global)?;
    let mut options = tane::MountOptions::new();
    options.read_only(access == Access::Read);
    if let Some(fs) = &global.fs {
        options.fstype(fs);
    }
    if let Some(subvol) = at.selector.as_ref().and_then(|s| s.subvol.as_ref()) {
        options.option("subvol", subvol);
    }
    options.options(global.options.as_deref().unwrap_or_default());
    let attempt = Attempt {
        machine: &machine,
        at,
        device: &device,
        global,
    };
    attempt.check_type(access)?;
    let log = machine.kernel.dmesg().len();
    let mount = options.mount(&machine.kernel, &device);
    let mount = mount.map_err(|e| attempt.explain(&e))?;
    attempt.check_mount(&mount, access, log)?;
    let mount = lower::merge(mount, &at.image, &machine)?;
    Ok(Opened {
        kernel: machine.kernel.clone(),
        mount: Some(mount),
        machine,
        access,
    })
}

impl Opened {
    /// A file system that was just made on a device of the machine's.
    pub fn new(
        machine: Machine,
        device: &Path,
        options: &tane::MountOptions,
    ) -> std::result::Result<Opened, tane::Error> {
        let mount = options.mount(&machine.kernel, device)?;
        Ok(Opened {
            kernel: machine.kernel.clone(),
            mount: Some(mount),
            machine: Arc::new(machine),
            access: Access::Write,
        })
    }

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

    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    #[cfg(feature = "fuse")]
    pub fn fstype(&self) -> Option<&str> {
        self.mount.as_ref().map(|m| m.fstype())
    }

    #[cfg(feature = "fuse")]
    pub fn last_words(&self) -> String {
        self.kernel.last_words()
    }

    /// An error if nothing can be expected of it any more.
    pub fn check(&self) -> Result<()> {
        self.machine.check()
    }

    /// Everything written so far is in the image when this returns.
    pub fn sync(&self) -> Result<()> {
        self.check()?;
        if self.access == Access::Read {
            return Ok(());
        }
        let dir = Root::host(Sys(self)).open_dir(self.mount_point());
        dir.and_then(|dir| dir.sys().syncfs(&dir))
            .map_err(|e| self.machine.explain(lost(&e)))?;
        self.machine
            .flush()
            .map_err(|e| self.machine.explain(lost(&e)))
    }

    pub fn close(mut self) -> Result<()> {
        self.check()?;
        // Whatever failed for it has been told as an I/O error.
        let causes = |machine: &Machine| {
            let causes = machine.causes();
            causes.iter().for_each(|cause| tell::note(cause));
        };
        if self.access == Access::Read {
            causes(&self.machine);
            if Arc::strong_count(&self.machine) == 1 {
                self.machine.end();
            }
            return Ok(());
        }
        let unmounted = self.mount.take().map_or(Ok(()), tane::Mount::unmount);
        let flushed = self.machine.flush();
        causes(&self.machine);
        unmounted.map_err(|e| lost(&e))?;
        flushed.map_err(|e| lost(&e))?;
        // An image inside another: its file is closed before that is unmounted.
        let Opened { machine, .. } = self;
        let Ok(machine) = Arc::try_unwrap(machine) else {
            return Ok(());
        };
        machine.end();
        machine.into_outer().map_or(Ok(()), Opened::close)
    }

    pub fn mount(&self) -> Option<&tane::Mount> {
        self.mount.as_ref()
    }
}

fn lost(e: &dyn std::fmt::Display) -> Failure {
    Failure::new(SOME_FAILED, format!("not everything was written: {e}"))
}

impl Side for Opened {
    unsafe fn call(&self, nr: libc::c_long, args: [usize; 6]) -> isize {
        // SAFETY: the caller vouches for the arguments.
        unsafe { self.kernel.syscall(nr, args.map(|a| a as u64)) as isize }
    }

    fn is_ours(&self) -> bool {
        true
    }

    fn place(&self) -> Option<&Place> {
        self.mount.as_ref()?.place()
    }
}
