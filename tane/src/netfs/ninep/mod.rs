//! 9P2000.L. Linux's client takes a socket that is connected: one end of a pair inside the kernel.
//!
//! ```text
//! pump.rs      bytes between the other end and the server, and an end to waiting
//! frames.rs    where messages begin and end
//! ```

mod frames;
mod pump;

use super::link::{Link, Outcome};
use crate::error::{Context, Error, Result};
use crate::kernel::Kernel;
use crate::mount_options::MountOptions;
use crate::sys::{Fd, SysResult};
use pump::Pump;
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;
use tane_images::NetFsConnection;
use tane_linux::Errno;

/// Bytes of one message, at most; a server may want less. The client takes each from Linux in one
/// piece, and a longer one than this is not always to be had: a write back was ENOMEM with 256 KiB.
const MSIZE: &str = "32768";

pub(super) fn mount(
    kernel: &Kernel,
    connection: NetFsConnection,
    user: &str,
    options: &MountOptions,
) -> Result<Outcome> {
    let address = PathBuf::from(connection.address());
    let on = |errno: Errno| errno.on("mount", &address);
    let [ours, clients] = pair(kernel).map_err(on)?;
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
    let link: Arc<dyn Link> = pump.map_err(|e| Error::from_source(libc::EAGAIN, "mount", e))?;
    Ok((link, all.mount(kernel, &address)))
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
