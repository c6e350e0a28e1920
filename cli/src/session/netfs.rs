//! Files of servers. The connections are made before the jail is entered, in which there is no
//! network: all that Linux gets of the host is a socket that is connected.

use super::image::Opened;
use super::machine::{builder, no_start, Machine};
use super::prepared::{self, Prepared};
use super::{jail, traced, Access};
use crate::failure::{Failure, Result};
use crate::session::Global;
use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use tane::images::{NetFsConnection, SILENCE};
use tane::ImagePath;

/// What was connected, each for one mount, and as whom.
static MADE: Mutex<Vec<(PathBuf, Result<Connected>)>> = Mutex::new(Vec::new());

struct Connected {
    connection: NetFsConnection,
    user: String,
}

/// A connection, and the kernel that will have it.
pub struct Ready {
    connected: Connected,
    kernel: tane::Kernel,
}

/// The kernel image that knows file systems of servers, unless somebody has named another.
pub fn kernel_image(global: &Global) -> Result<PathBuf> {
    match &global.kernel {
        Some(named) => Ok(named.clone()),
        None => tane::remote_image().map_err(|e| {
            let failure = Failure::image(format!("files of a server: {e}"));
            failure.remedy(
                "tane kernel build --base remote -o my-remote.elf builds it, and \
                 --kernel ./my-remote.elf names it",
            )
        }),
    }
}

/// Connect to the servers of these. Before the jail is entered.
pub fn connect(addresses: impl Iterator<Item = PathBuf>) {
    for address in addresses {
        let made = connected(&address);
        let mut all = MADE.lock().unwrap_or_else(|e| e.into_inner());
        all.push((address, made));
    }
}

fn connected(address: &Path) -> Result<Connected> {
    let fail = |text: String| Failure::image(text).about(address.as_os_str().as_bytes());
    let text = address.to_str();
    let text = text.ok_or_else(|| {
        let name = address.display();
        fail(format!(
            "{name}: is an address that is not UTF-8: write %XX in it"
        ))
    })?;
    let connection = NetFsConnection::new(text, SILENCE).map_err(|e| fail(e.to_string()))?;
    let user = user();
    Ok(Connected { connection, user })
}

/// What this user is called on the host.
fn user() -> String {
    let mut room = [0; 4096];
    let mut entry = MaybeUninit::<libc::passwd>::uninit();
    let mut found = std::ptr::null_mut();
    // SAFETY: room for the entry and for what it points to, and its true length.
    let name = unsafe {
        let (uid, len) = (libc::geteuid(), room.len());
        let rc = libc::getpwuid_r(uid, entry.as_mut_ptr(), room.as_mut_ptr(), len, &mut found);
        match rc == 0 && !found.is_null() {
            true => CStr::from_ptr((*found).pw_name).to_str().map(str::to_owned),
            false => Ok(String::new()),
        }
    };
    let is_plain = |name: &String| !name.is_empty() && !name.contains([',', '\\']);
    name.ok()
        .filter(is_plain)
        .unwrap_or_else(|| "nobody".into())
}

/// That of a mount which is about to be made. Without a jail it may be made now.
fn take(at: &ImagePath, global: &Global) -> Result<Connected> {
    let mut all = MADE.lock().unwrap_or_else(|e| e.into_inner());
    if let Some(i) = all.iter().position(|(address, _)| *address == at.image) {
        return all.swap_remove(i).1;
    }
    drop(all);
    match jail::is_off(global) {
        true => connected(&at.image),
        false => Err(refused(
            at,
            "was not connected to before the jail was entered",
        )),
    }
}

/// An error about files of a server.
pub fn refused(at: &ImagePath, why: &str) -> Failure {
    let text = format!("{}: {why}", at.image.display());
    Failure::image(text).about(at.image.as_os_str().as_bytes())
}

/// An error, if what is wanted is a disk.
pub fn check_is_image(at: &ImagePath) -> Result<()> {
    match at.outermost().is_netfs() {
        true => Err(refused(
            at,
            "these are files of a server, and this takes an image: there is no disk",
        )),
        false => Ok(()),
    }
}

/// Connected, and its kernel booted, which has not seen it yet.
pub(super) fn prepare(at: &ImagePath, global: &Global) -> Result<Ready> {
    let given = [
        (!global.with.is_empty(), "--with"),
        (!global.lower.is_empty(), "--lower"),
        (global.overlay.is_some(), "--overlay"),
        (global.verity.is_some(), "--verity"),
        (global.sector_size.is_some(), "--sector-size"),
        (global.fs.is_some(), "--fs"),
        (traced::is_awaited(), "trace"),
    ];
    if let Some((_, option)) = given.iter().find(|(given, _)| *given) {
        let why = format!("these are files of a server: {option} is for images");
        return Err(refused(at, &why));
    }
    let connected = take(at, global)?;
    let builder = builder(&kernel_image(global)?, global.memory, global);
    let kernel = builder.boot().map_err(no_start)?;
    Ok(Ready { connected, kernel })
}

pub fn open(at: &ImagePath, access: Access, global: &Global) -> Result<Opened> {
    match prepared::get(at, access, global)? {
        Prepared::Files(ready) => mount(ready, at, access, global),
        Prepared::Image(_) => Err(refused(at, "is no tree of files")),
    }
}

/// Only now the kernel hears of the server.
pub(super) fn mount(
    ready: Ready,
    at: &ImagePath,
    access: Access,
    global: &Global,
) -> Result<Opened> {
    let Ready { connected, kernel } = ready;
    let mut options = tane::MountOptions::new();
    options.options(global.options.as_deref().unwrap_or_default());
    if access == Access::Read {
        options.read_only(true);
    }
    let mounted = kernel.mount_netfs(connected.connection, &connected.user, &options);
    let mount = mounted.map_err(|e| explain(at, &e))?;
    let server = mount.server().cloned();
    let machine = Arc::new(Machine::of_files(kernel, server));
    Ok(Opened::of_files(machine, mount, access))
}

fn is_nfs(at: &ImagePath) -> bool {
    at.image.as_os_str().as_bytes().starts_with(b"nfs://")
}

fn explain(at: &ImagePath, e: &tane::Error) -> Failure {
    let text = e.to_string();
    let own = format!("mount {}: ", at.image.display());
    let why = text.strip_prefix(&own).unwrap_or(&text);
    let failure = refused(at, &format!("cannot be mounted: {why}"));
    match e.errno() {
        libc::ENODEV | libc::ENOSYS | libc::EAFNOSUPPORT => {
            failure.remedy("the kernel image remote knows it: leave --kernel out")
        }
        libc::EACCES | libc::EPERM if is_nfs(at) => failure.remedy(
            "another user may be meant: nfs://USER@HOST/…; or the server wants Kerberos, which is \
             not there, or a port below 1024, which is root's: its option insecure wants none",
        ),
        libc::EACCES | libc::EPERM => {
            failure.remedy("another user may be meant: 9p://USER@HOST/…; or another tree")
        }
        libc::EPROTONOSUPPORT => failure.remedy(
            "the server knows none of NFS 4.2, 4.1 and 4.0, or no NFS: version 3 is not there",
        ),
        libc::ENOENT if is_nfs(at) => failure.remedy(
            "the server shows no such export: nfs://HOST/ has all that it shows; some show none to \
             what does not come from a port below 1024 (its option insecure, PrivilegedPort=false)",
        ),
        libc::ENOENT => failure.remedy(
            "the server calls the tree otherwise: as it was told to export it, and not from its \
             root if it has one of its own",
        ),
        _ => failure,
    }
}
