//! An image, mounted by a kernel of our own.

use super::choose::choose;
use super::machine::Machine;
use super::unmountable::Attempt;
use super::{netfs, traced, Access};
use crate::failure::{Failure, Result, SOME_FAILED};
use crate::session::Global;
use crate::tell;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use tane::{ImagePath, Outer};
use tane_linux::{Linux, Root, Sys};

/// A file system of an image that is mounted.
pub struct Opened {
    kernel: tane::Kernel,
    mount: Option<Arc<tane::Mount>>,
    machine: Arc<Machine>,
    access: Access,
}

pub fn open_image(at: &ImagePath, access: Access, global: &Global) -> Result<Opened> {
    if at.is_netfs() {
        return netfs::open(at, access, global);
    }
    of_machine(Machine::with_image(at, access, global)?, at, access, global)
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
    let mount = mount_volume(&machine, at, access, global)?;
    traced::mounted()?;
    Ok(Opened {
        kernel: machine.kernel.clone(),
        mount: Some(Arc::new(mount)),
        machine,
        access,
    })
}

/// The file system that the address means, with those of layers below it.
pub(super) fn mount_volume(
    machine: &Machine,
    at: &ImagePath,
    access: Access,
    global: &Global,
) -> Result<tane::Mount> {
    let device = choose(machine, at, global)?;
    let mut options = tane::MountOptions::new();
    if let Some(fs) = &global.fs {
        options.fstype(fs);
    }
    options.options(global.options.as_deref().unwrap_or_default());
    if global.runs {
        options.exec(true).devices(true).atime(true);
    }
    let attempt = Attempt {
        machine,
        at,
        device: &device,
        global,
    };
    attempt.check_type(access)?;
    if let Some(found) = attempt.found() {
        options.recognised(found);
    }
    let log = machine.kernel.dmesg().len();
    let image = machine.opened()?;
    let mount = image.mount_device(&device, at.selector.as_ref(), &options);
    let mount = mount.map_err(|e| attempt.explain(&e))?;
    attempt.check_mount(&mount, access, log)?;
    Ok(image.above_layers(mount)?)
}

impl Opened {
    /// A file system whose content is forgotten at the end, whoever writes to it.
    pub(super) fn passing(machine: Arc<Machine>, mount: tane::Mount) -> Opened {
        Opened {
            kernel: machine.kernel.clone(),
            mount: Some(Arc::new(mount)),
            machine,
            access: Access::Read,
        }
    }

    /// Files of a server.
    pub(super) fn of_files(machine: Arc<Machine>, mount: tane::Mount, access: Access) -> Opened {
        Opened {
            access,
            ..Opened::passing(machine, mount)
        }
    }

    /// The image that another one lies in, when nothing of that is open any more.
    fn outer(outer: Outer) -> Opened {
        let machine = Machine::of_image(outer.image, true);
        Opened {
            kernel: machine.kernel.clone(),
            mount: Some(Arc::new(outer.mounted)),
            machine: Arc::new(machine),
            access: Access::Write,
        }
    }

    /// Another file system of the same image.
    pub fn beside(&self, at: &ImagePath, global: &Global) -> Result<Opened> {
        if at.is_netfs() {
            // A server has one tree for an address.
            return Ok(Opened {
                kernel: self.kernel.clone(),
                mount: self.mount.clone(),
                machine: self.machine.clone(),
                access: self.access,
            });
        }
        mount(self.machine.clone(), at, self.access, global)
    }

    pub fn mount_point(&self) -> &[u8] {
        let path = self
            .mount
            .as_ref()
            .map_or(Path::new("/"), |mount| mount.mount_point());
        path.as_os_str().as_bytes()
    }

    pub(super) fn shared_machine(&self) -> Arc<Machine> {
        self.machine.clone()
    }

    pub fn machine(&self) -> &Machine {
        &self.machine
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
        // Who has it too unmounts it.
        let mount = self.mount.take().and_then(Arc::into_inner);
        let unmounted = mount.map_or(Ok(()), tane::Mount::unmount);
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
        let outer = machine.into_outer().map(Opened::outer);
        outer.map_or(Ok(()), Opened::close)
    }

    pub fn mount(&self) -> Option<&tane::Mount> {
        self.mount.as_deref()
    }
}

fn lost(e: &dyn std::fmt::Display) -> Failure {
    Failure::new(SOME_FAILED, format!("not everything was written: {e}"))
}

impl Linux for Opened {
    unsafe fn call(&self, nr: i64, args: [u64; 6]) -> i64 {
        // SAFETY: the caller vouches for the arguments.
        unsafe { self.kernel.syscall(nr, args) }
    }

    fn is_ours(&self) -> bool {
        true
    }
}
