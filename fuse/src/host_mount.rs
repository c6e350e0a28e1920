//! A mount of this process that the host's programs see too.

use crate::ended::Ended;
use crate::error::{Error, Result};
use crate::link::Link;
use crate::point::{self, is_root, Busy, Identity, Wish};
use crate::served::{Manner, Served};
use crate::shown::Shown;
use crate::{Connection, Death};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tane_linux::{Errno, Fd, Linux, Root, Sys};

/// How a mount is shown to the host.
#[derive(Clone, Debug)]
pub struct HostMountOptions {
    directory: PathBuf,
    source: String,
    allow_other: bool,
    xattrs_if_any: bool,
}

impl Default for HostMountOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl HostMountOptions {
    /// All of the mount, for this user; for everybody if that is root.
    pub fn new() -> Self {
        HostMountOptions {
            directory: "/".into(),
            source: "tane".into(),
            allow_other: false,
            xattrs_if_any: false,
        }
    }

    /// Show this directory of the mount in place of its root.
    pub fn directory(&mut self, path: impl Into<PathBuf>) -> &mut Self {
        self.directory = path.into();
        self
    }

    /// What the host's lists of mounts show as the device, in place of `tane`.
    pub fn source(&mut self, name: impl Into<String>) -> &mut Self {
        self.source = name.into();
        self
    }

    /// Let other users in, with the permissions in the image. Without, whoever mounts is
    /// root there, and alone; but if root mounts, others are always let in.
    pub fn allow_other(&mut self, yes: bool) -> &mut Self {
        self.allow_other = yes;
        self
    }

    /// Once all files were found to have no extended attributes, say that these are not
    /// supported, in place of giving empty lists. Copying is faster then; some programs
    /// take it for an error. Without effect on a mount that can be written.
    pub fn xattrs_if_any(&mut self, yes: bool) -> &mut Self {
        self.xattrs_if_any = yes;
        self
    }

    /// Show a mount at an existing directory of the host, by some threads of this process,
    /// which end with it. The host's programs may write if the mount is writable.
    ///
    /// Errors: those of [`usable`](crate::usable) and [`mount`](crate::mount()), and of
    /// opening the directory that is to be shown. The mount is unmounted then.
    pub fn mount<M: Shown>(&self, mount: M, point: impl AsRef<Path>) -> Result<HostMount<M>> {
        self.mount_shared(Arc::new(mount), point)
    }

    /// As [`HostMountOptions::mount`], of what others have too: it goes with the last who
    /// has it.
    pub fn mount_shared<M: Shown>(
        &self,
        mount: Arc<M>,
        point: impl AsRef<Path>,
    ) -> Result<HostMount<M>> {
        let point = point::usable(point.as_ref())?;
        let failed = |e: io::Error| Error::of(&point, &e);
        let shown = |e: Errno| Error::new(format!("{}: {e}", self.directory.display()), e.0);
        let root = root(&mount).map_err(shown)?;
        let how = root.sys().fstatfs(&root).map_err(shown)?;
        let manner = Manner {
            writable: how.flags & libc::ST_RDONLY as i64 == 0,
            many_users: is_root() || self.allow_other,
            xattrs_if_any: self.xattrs_if_any,
            ends_with_process: false,
        };
        let served = serve(&mount, root, &self.directory, manner).map_err(shown)?;
        let wish = Wish {
            point: &point,
            source: self.source.clone(),
            writable: manner.writable,
            many_users: manner.many_users,
            allow_other: manner.many_users,
        };
        let (from, to) = Link::pair().map_err(failed)?;
        point::mount(&wish, &to)?;
        // Nothing answers there before it is served: what is not comes down again.
        let serving = || {
            let gone = || io::Error::from_raw_os_error(libc::ENOTCONN);
            let end = from.take()?.ok_or_else(gone)?;
            let connection = Connection::new(served, end, None)?;
            Ended::of("fuse", || connection.serve())
        };
        let ended = serving().map_err(|e| {
            let _ = point::unmount(&point, true);
            failed(e)
        })?;
        let server = Server {
            identity: Identity::of(&point),
            point,
            ended,
            process: std::process::id(),
        };
        Ok(HostMount { mount, server })
    }
}

/// The root of what is shown, open for listing. It must go before the mount does.
fn root<M: Shown>(mount: &Arc<M>) -> tane_linux::Result<Fd<'static>> {
    let kernel = mount.linux();
    // SAFETY: it is within what `owner` keeps where it is; all descriptors and calls that
    // use it are in the same structure, or below the frames of threads that have it, and
    // go before `owner` does.
    let kernel: &'static dyn Linux = unsafe { &*std::ptr::from_ref(kernel) };
    let sys = Sys(kernel);
    if kernel.is_ours() {
        sys.raise_open_files();
    }
    let flags = libc::O_RDONLY | libc::O_DIRECTORY;
    sys.openat_raw(mount.root_fd(), c".", flags, 0)
}

/// What is served of a mount, which it keeps.
fn serve<M: Shown>(
    mount: &Arc<M>,
    root: Fd<'static>,
    directory: &Path,
    manner: Manner,
) -> tane_linux::Result<Served> {
    use std::os::unix::ffi::OsStrExt;
    let root = Root::image(root).open_dir(directory.as_os_str().as_bytes())?;
    // Each program hears of it, and so does whoever unmounts the image.
    let death = Death::new(|| {});
    let mut served = Served::new(root, manner, death)?;
    served.owner = Some(mount.clone());
    Ok(served)
}

/// A mount that the host's programs see; made by [`HostMountOptions`].
///
/// It ends by [`HostMount::unmount`], or when anybody unmounts it (umount(8), `tane
/// umount`), which [`HostMount::wait`] waits for. Dropped, it goes from view at once, and
/// from the process when nobody has anything in it open any more; dropped by a fork of the
/// process that serves it, it stays.
///
/// This process may use the directory like others. Any thread may use this.
pub struct HostMount<M: Shown = tane::Mount> {
    mount: Arc<M>,
    server: Server,
}

/// The thread that serves, or waits for those that do.
struct Server {
    point: PathBuf,
    identity: Option<Identity>,
    ended: Ended,
    /// Whose threads serve it: a fork of that has none of them.
    process: u32,
}

impl<M: Shown> HostMount<M> {
    /// The directory of the host, under its full name.
    pub fn point(&self) -> &Path {
        &self.server.point
    }

    /// What is shown. What is changed through it may be seen late or not at all by the
    /// host's programs.
    pub fn inner(&self) -> &M {
        &self.mount
    }

    /// End it: all that the host's programs wrote has come here then. It is no error if
    /// somebody was faster.
    ///
    /// Errors: EBUSY if something in it is open, or somebody's working directory; it is
    /// served as before then. ENOTSUP in a fork of the process that serves it.
    pub fn unmount(&self) -> Result<()> {
        self.server.check_process()?;
        let point = &self.server.point;
        if !self.server.is_there() {
            return Ok(());
        }
        let fail = |why: &str, errno| {
            let text = format!("{}: {why}: still mounted", point.display());
            Err(Error::new(text, errno))
        };
        match point::unmount(point, false) {
            Ok(()) => Ok(()),
            Err(Busy::Yes) => fail("something in it is in use", libc::EBUSY),
            Err(Busy::No(_)) if !self.server.is_there() => Ok(()),
            Err(Busy::No(why)) => fail(&why, libc::EIO),
        }
    }

    /// Wait until it has been unmounted, by whomever, for so long; whether it has. What
    /// was shown is not used by it any more then.
    ///
    /// Errors: why it could not be served to the end, each time. Nobody can see it any
    /// more then. ENOTSUP in a fork of the process that serves it.
    pub fn wait_for(&self, limit: Duration) -> Result<bool> {
        self.server.check_process()?;
        let over = self.server.ended.within(limit);
        over.map_err(|e| {
            self.server.remove();
            Error::of(&self.server.point, &e)
        })
    }

    /// Wait until it has been unmounted, by whomever, and give back what was shown. What
    /// was written is in the image when that is unmounted too.
    ///
    /// Errors: why it could not be served to the end. Nobody can see it any more then,
    /// and what was shown goes with the last thread that has it.
    pub fn wait(self) -> Result<M> {
        self.wait_for(Duration::MAX)?;
        let HostMount { mount, server } = self;
        let busy = || io::Error::other("somebody else has what was shown, and goes on");
        Arc::into_inner(mount).ok_or_else(|| Error::of(&server.point, &busy()))
    }
}

impl Server {
    fn is_here(&self) -> bool {
        self.process == std::process::id()
    }

    fn check_process(&self) -> Result<()> {
        match self.is_here() {
            true => Ok(()),
            false => {
                let point = self.point.display();
                let text = format!("{point}: is served by the parent of this process");
                Err(Error::new(text, libc::ENOTSUP))
            }
        }
    }

    /// Whether what is mounted there is this one: once somebody else has unmounted it,
    /// something else may be.
    fn is_there(&self) -> bool {
        let is_served = !self.ended.is_over();
        let now = Identity::of(&self.point);
        // Whoever serves it has ended because it is gone, or has failed and left it.
        now.is_some() && now == self.identity && (is_served || point::is_dead(&self.point))
    }

    /// From view, if it is there.
    fn remove(&self) {
        if self.is_here() && self.is_there() {
            let _ = point::unmount(&self.point, true);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.remove();
    }
}

impl<M: Shown> fmt::Debug for HostMount<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostMount({})", self.server.point.display())
    }
}
