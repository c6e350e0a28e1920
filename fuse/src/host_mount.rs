//! A mount of this process that the host's programs see too.

use crate::error::{Error, Result};
use crate::link::Link;
use crate::point::{self, is_root, Busy, Identity, Wish};
use crate::served::{Manner, Served};
use crate::{Connection, Death};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use tane::Mount;
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
    pub fn mount(&self, mount: Mount, point: impl AsRef<Path>) -> Result<HostMount> {
        let point = point::usable(point.as_ref())?;
        let failed = |e: io::Error| Error::of(&point, &e);
        let mount = Arc::new(mount);
        let read_only = mount
            .statfs()
            .map_err(|e| Error::new(e.to_string(), e.errno()));
        let manner = Manner {
            writable: !read_only?.read_only,
            many_users: is_root() || self.allow_other,
            xattrs_if_any: self.xattrs_if_any,
            ends_with_process: false,
        };
        let served = serve(&mount, &self.directory, manner);
        let shown = |e: Errno| Error::new(format!("{}: {e}", self.directory.display()), e.0);
        let served = served.map_err(shown)?;
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
            let server = std::thread::Builder::new().name("fuse".into());
            server.spawn(move || connection.serve())
        };
        let server = serving().map_err(|e| {
            let _ = point::unmount(&point, true);
            failed(e)
        })?;
        let server = Server {
            identity: Identity::of(&point),
            point,
            thread: Some(server),
        };
        Ok(HostMount { mount, server })
    }
}

/// What is served of a mount, which it keeps.
fn serve(mount: &Arc<Mount>, directory: &Path, manner: Manner) -> tane_linux::Result<Served> {
    use std::os::unix::ffi::OsStrExt;
    let kernel: &dyn Linux = mount.kernel();
    // SAFETY: it is within what `owner` keeps where it is; all descriptors and calls that
    // use it are in the same structure, or below the frames of threads that have it, and
    // go before `owner` does.
    let kernel: &'static dyn Linux = unsafe { &*std::ptr::from_ref(kernel) };
    let sys = Sys(kernel);
    if kernel.is_ours() {
        sys.raise_open_files();
    }
    let flags = libc::O_RDONLY | libc::O_DIRECTORY;
    let root: Fd<'static> = sys.openat_raw(mount.root_fd(), c".", flags, 0)?;
    let root = Root::image(root).open_dir(directory.as_os_str().as_bytes())?;
    // Each program hears of it, and so does whoever unmounts the image.
    let death = Death::new(|| {});
    let mut served = Served::new(root, mount.fstype(), manner, death)?;
    served.owner = Some(mount.clone());
    Ok(served)
}

/// A mount that the host's programs see; made by [`HostMountOptions`].
///
/// It ends by [`HostMount::unmount`], or when anybody unmounts it (umount(8), `tane
/// umount`), which [`HostMount::wait`] waits for. Dropped, it goes from view at once, and
/// from the process when nobody has anything in it open any more.
///
/// This process may use the directory like others. Any thread may use this.
pub struct HostMount {
    mount: Arc<Mount>,
    server: Server,
}

/// The thread that serves, or waits for those that do.
struct Server {
    point: PathBuf,
    identity: Option<Identity>,
    /// None once it is waited for.
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl HostMount {
    /// The directory of the host, under its full name.
    pub fn point(&self) -> &Path {
        &self.server.point
    }

    /// What is shown. What is changed through it may be seen late or not at all by the
    /// host's programs.
    pub fn inner(&self) -> &Mount {
        &self.mount
    }

    /// End it: all that the host's programs wrote has come here then. It is no error if
    /// somebody was faster.
    ///
    /// Errors: EBUSY if something in it is open, or somebody's working directory; it is
    /// served as before then.
    pub fn unmount(&self) -> Result<()> {
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

    /// Wait until it has been unmounted, by whomever, and give back what was shown. What
    /// was written is in the image when that is unmounted too.
    ///
    /// Errors: why it could not be served to the end. Nobody can see it any more then,
    /// and what was shown goes with the last thread that has it.
    pub fn wait(self) -> Result<Mount> {
        let HostMount { mount, mut server } = self;
        let panicked = || Err(io::Error::other("a thread that served it has panicked"));
        let thread = server.thread.take().map(JoinHandle::join);
        let served = thread.map_or(Ok(()), |ended| ended.unwrap_or_else(|_| panicked()));
        let failed = |e: io::Error| {
            server.remove();
            Error::of(&server.point, &e)
        };
        served.map_err(failed)?;
        let busy = || failed(io::Error::other("a thread that served it goes on"));
        Arc::into_inner(mount).ok_or_else(busy)
    }
}

impl Server {
    /// Whether what is mounted there is this one: once somebody else has unmounted it,
    /// something else may be.
    fn is_there(&self) -> bool {
        let is_served = self.thread.as_ref().is_some_and(|t| !t.is_finished());
        let now = Identity::of(&self.point);
        // Whoever serves it has ended because it is gone, or has failed and left it.
        now.is_some() && now == self.identity && (is_served || point::is_dead(&self.point))
    }

    /// From view, if it is there.
    fn remove(&self) {
        if self.is_there() {
            let _ = point::unmount(&self.point, true);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.remove();
    }
}

impl fmt::Debug for HostMount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostMount({})", self.server.point.display())
    }
}
