//! Files that a server has, by Linux's own client of them. The connection is the host's; the
//! kernel has a socket that leads to it, and no network.
//!
//! ```text
//! pump.rs      bytes between the two, and an end to waiting
//! frames.rs    where messages begin and end
//! ```

mod frames;
mod pump;

use crate::error::{Context, Error, Result};
use crate::kernel::Kernel;
use crate::mount::{Mount, On};
use crate::mount_options::MountOptions;
use crate::sys::{Fd, SysResult};
use pump::Pump;
use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;
use tane_images::NetFsConnection;
use tane_linux::Errno;

/// Bytes of one message, at most; a server may want less. The client takes each from Linux in one
/// piece, and a longer one than this is not always to be had: a write back was ENOMEM with 256 KiB.
const MSIZE: &str = "32768";

/// The server that a mount's files are of.
#[derive(Clone)]
pub struct FileServer {
    address: PathBuf,
    pump: Arc<Pump>,
}

impl FileServer {
    /// A sentence, if nothing comes from it any more. Files have been told EIO, ECONNRESET or
    /// the like, which says less.
    pub fn lost(&self) -> Option<String> {
        let why = self.pump.lost()?;
        Some(format!("{}: {why}", self.address.display()))
    }

    fn error(&self, action: &'static str) -> Option<Error> {
        let why = self.pump.lost()?;
        Some(Error::plain(libc::ENOTCONN, action, why).with_path(&self.address))
    }
}

impl fmt::Debug for FileServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FileServer({})", self.address.display())
    }
}

impl On for FileServer {
    fn unmounted(&self) -> Result<()> {
        self.end().map_or(Ok(()), Err)
    }

    fn end(&self) -> Option<Error> {
        self.error("unmount")
    }
}

impl Kernel {
    /// Mount the files that a server has, over a connection on which nothing was said yet. It
    /// takes a kernel image that knows 9p ([`remote_image`](crate::remote_image)), in this
    /// process. All calls are made as the user that the address names, else as `user`.
    ///
    /// An answer that takes longer than [`NetFsConnection::silence`] ends the connection, for
    /// good: all further calls fail, and [`Mount::server`] has the reason. After fsync data is
    /// where the server keeps it.
    ///
    /// Errors: ENODEV the kernel knows no 9p; ENOTCONN the server has ended the connection, or
    /// did not answer; else what it said, as EACCES or ENOENT.
    pub fn mount_netfs(
        &self,
        connection: NetFsConnection,
        user: &str,
        options: &MountOptions,
    ) -> Result<Mount> {
        let address = PathBuf::from(connection.address());
        let on = |errno: Errno| errno.on("mount", &address);
        let [ours, clients] = pair(self).map_err(on)?;
        let mut all = options.clone();
        all.fstype("9p").option("trans", "fd");
        for name in ["rfdno", "wfdno"] {
            all.option(name, clients.number().to_string());
        }
        let given = |name| options.has_option(name);
        if !given("version") {
            all.option("version", "9p2000.L");
        }
        if !given("msize") {
            all.option("msize", MSIZE);
        }
        if !given("uname") {
            all.option("uname", connection.user().unwrap_or(user));
        }
        if !given("access") {
            // One user, whoever calls: the server decides what that one may.
            all.option("access", "any");
        }
        if !given("cache") {
            // What is not cached is moved by the pages of the caller's memory, which is none of
            // this kernel's.
            all.option("cache", "mmap").flag("ignoreqv");
        }
        let tree = OsStr::from_bytes(connection.tree()).to_owned();
        if let Some(tree) = tree.to_str().filter(|tree| !tree.is_empty()) {
            all.option("aname", tree);
        }
        let silence = connection.silence();
        let pump = Pump::start(File::from(connection.into_socket()), ours, silence);
        let pump = pump.map_err(|e| Error::from_source(libc::EAGAIN, "mount", e))?;
        let server = FileServer {
            address: address.clone(),
            pump,
        };
        match all.mount(self, &address) {
            Ok(mount) => Ok(mount.on(server)),
            Err(error) => Err(server.error("mount").unwrap_or(error)),
        }
    }
}

impl Mount {
    /// The server whose files these are, if it was mounted by [`Kernel::mount_netfs`].
    pub fn server(&self) -> Option<&FileServer> {
        self.is_on()
    }
}

/// Two sockets inside a kernel that lead to each other.
fn pair(kernel: &Kernel) -> SysResult<[Fd; 2]> {
    let (numbers, age) = kernel.dated(|| {
        let mut numbers = [0i32; 2];
        let kind = (libc::SOCK_STREAM | libc::SOCK_CLOEXEC) as u64;
        let at = numbers.as_mut_ptr() as u64;
        let args = [libc::AF_UNIX as u64, kind, 0, at, 0, 0];
        // SAFETY: writes two numbers where there is room for them.
        match unsafe { kernel.syscall(libc::SYS_socketpair, args) } {
            0 => Ok(numbers),
            error => Err(Errno(-error as i32)),
        }
    })?;
    Ok(numbers.map(|number| Fd::new(kernel, number, age.clone())))
}
