//! The mount point: what is mounted there, and how it ends. Whoever does this needs
//! rights that who serves the mount is better without.

use crate::error::{errno, Error, Result};
use crate::link::Link;
use nix::mount::{mount as mount_by_kernel, umount2, MntFlags, MsFlags};
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tane_linux::{Errno, Host, Sys};

/// Mounts and unmounts for who is not root.
const HELPER: &str = "fusermount3";

const DEVICE: &str = "/dev/fuse";

/// What the host's kernel may read ahead, where we may say so.
const READ_AHEAD_KIB: &str = "1024";

/// The directory under its full name, if something can be mounted there by FUSE.
///
/// Errors: ENOTDIR; ENOTCONN if the server of what is mounted there is gone; what opening
/// /dev/fuse says; ENOENT if the helper is missing that who is not root needs.
pub fn usable(dir: &Path) -> Result<PathBuf> {
    let fail = |text: String, errno| Err(Error::new(text, errno));
    let name = dir.display();
    let full = match dir.canonicalize() {
        Ok(full) if full.is_dir() => full,
        Ok(_) => return fail(format!("{name}: not a directory"), libc::ENOTDIR),
        Err(e) if e.raw_os_error() == Some(libc::ENOTCONN) => {
            let text =
                format!("{name}: a mount whose server is gone: tane umount {name} takes it away");
            return fail(text, libc::ENOTCONN);
        }
        Err(e) => return fail(format!("{name}: {}", Errno(errno(&e))), errno(&e)),
    };
    let opened = File::options().read(true).write(true).open(DEVICE);
    if let Err(e) = opened {
        let remedy = match e.kind() {
            io::ErrorKind::NotFound => "load the module (modprobe fuse), or pass the device on",
            _ => "this user, or this container, needs access to it",
        };
        let text = format!("{DEVICE}: {}: {remedy}", Errno(errno(&e)));
        return fail(text, errno(&e));
    }
    if !is_root() && !has_helper() {
        let text = format!(
            "{HELPER}: not found: who is not root needs it to mount (Debian: apt install fuse3)"
        );
        return fail(text, libc::ENOENT);
    }
    Ok(full)
}

/// Whether this process has root's rights, and with them those of all users in a mount.
pub(crate) fn is_root() -> bool {
    // SAFETY: takes and changes nothing.
    unsafe { libc::geteuid() == 0 }
}

fn has_helper() -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut dirs: Vec<_> = std::env::split_paths(&path).collect();
    dirs.extend(["/sbin", "/bin"].map(PathBuf::from));
    dirs.iter().any(|dir| dir.join(HELPER).is_file())
}

/// A mount that is to be made.
pub struct Wish<'w> {
    /// An existing directory, under its full name.
    pub point: &'w Path,
    /// What lists of mounts show as the device.
    pub source: String,
    /// Whether the host's programs may change it.
    pub writable: bool,
    /// The host's kernel checks permissions, by users of the host.
    pub many_users: bool,
    /// Other users may use the mount too.
    pub allow_other: bool,
}

/// Mounts; the other end goes through the link. Nothing there answers before that is
/// served. Without the right to mount, by the helper of who is not root.
///
/// Errors: EACCES if the host's settings forbid it, and what mount(2) says.
pub fn mount(wish: &Wish, to: &Link) -> Result<()> {
    let mounted = by_any(wish, to);
    mounted.map_err(|e| Error::new(why(&e, wish.point), errno(&e)))
}

fn by_any(wish: &Wish, to: &Link) -> io::Result<()> {
    match by_kernel(wish, to) {
        Err(e) if e.raw_os_error() == Some(libc::EPERM) => by_helper(wish, to)?,
        done => done?,
    }
    read_ahead(wish.point);
    Ok(())
}

impl Wish<'_> {
    fn options(&self) -> String {
        let words = [
            (true, "subtype=tane"),
            (self.many_users, "default_permissions"),
            (self.allow_other, "allow_other"),
        ];
        let words = words.into_iter().filter(|(wanted, _)| *wanted);
        words.map(|(_, word)| word).collect::<Vec<_>>().join(",")
    }

    fn source(&self) -> String {
        self.source.replace(',', "?")
    }
}

fn why(e: &io::Error, point: &Path) -> String {
    let name = point.display();
    match e.kind() {
        io::ErrorKind::PermissionDenied => format!("{name}: cannot mount there: {e}"),
        _ => format!("{name}: cannot mount there by FUSE: {e}"),
    }
}

/// By mount(2), as fuse(4) has it.
fn by_kernel(wish: &Wish, to: &Link) -> io::Result<()> {
    let device = File::options().read(true).write(true).open(DEVICE)?;
    // SAFETY: take and change nothing.
    let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
    let data = format!(
        "fd={},rootmode={:o},user_id={user},group_id={group},{}",
        device.as_raw_fd(),
        wish.point.metadata()?.mode(),
        wish.options(),
    );
    let mut flags = MsFlags::MS_NODEV | MsFlags::MS_NOSUID | MsFlags::MS_NOATIME;
    if !wish.writable {
        flags |= MsFlags::MS_RDONLY;
    }
    let source = wish.source();
    let (kind, data) = (Some("fuse"), Some(data.as_str()));
    mount_by_kernel(Some(source.as_str()), wish.point, kind, flags, data)?;
    to.give(&device).inspect_err(|_| {
        let _ = unmount(wish.point, true);
    })
}

/// By the helper, which passes the other end on: libfuse's lib/mount.c.
fn by_helper(wish: &Wish, to: &Link) -> io::Result<()> {
    let access = if wish.writable { "rw" } else { "ro" };
    let options = format!(
        "{access},nosuid,nodev,noatime,fsname={},{}",
        wish.source(),
        wish.options()
    );
    let mut command = Command::new(HELPER);
    command.arg("-o").arg(options).arg("--").arg(wish.point);
    to.lend(&mut command, |fd| ("_FUSE_COMMFD", fd));
    let output = command.stdin(Stdio::null()).output()?;
    match output.status.success() {
        true => Ok(()),
        false => {
            let text = String::from_utf8_lossy(&output.stderr);
            let kind = match text.contains("user_allow_other") {
                true => io::ErrorKind::PermissionDenied,
                false => io::ErrorKind::Other,
            };
            Err(io::Error::new(kind, text.trim().to_owned()))
        }
    }
}

/// Root may have it read ahead more than the 128 KiB that FUSE starts with.
fn read_ahead(point: &Path) {
    // The mount's own number, without asking who serves it.
    let Some(device) = mounted_device(point) else {
        return;
    };
    let file = format!("/sys/class/bdi/{device}-fuse/read_ahead_kb");
    let _ = std::fs::write(file, READ_AHEAD_KIB);
}

/// `major:minor` of what is mounted there.
fn mounted_device(point: &Path) -> Option<String> {
    let words = mounted(point)?;
    String::from_utf8(words.get(2)?.clone()).ok()
}

/// The words of the host's list of mounts about what is mounted there, on top of all that
/// is; proc(5), mountinfo.
fn mounted(point: &Path) -> Option<Vec<Vec<u8>>> {
    let mounts = std::fs::read("/proc/self/mountinfo").ok()?;
    let (place, is_space) = (listed(point), |byte: &u8| *byte == b' ');
    let mut lines = mounts.rsplit(|byte| *byte == b'\n');
    let last = lines.find(|line| line.split(is_space).nth(4) == Some(&*place))?;
    Some(last.split(is_space).map(<[u8]>::to_vec).collect())
}

/// What tells a mount from another one at the same place.
#[derive(PartialEq, Eq)]
pub(crate) struct Identity {
    /// The mount's number and its device's, which the next mount can get again; its type
    /// and source.
    words: Vec<Vec<u8>>,
    /// A number that no other mount gets, where the host has one (Linux 6.8).
    unique: Option<u64>,
}

impl Identity {
    /// Of what is mounted there; None: nothing is, or the host does not say.
    pub fn of(point: &Path) -> Option<Identity> {
        let words = mounted(point)?;
        let end = words.iter().position(|word| word == b"-")?;
        let words = [0, 2, end + 1, end + 2].map(|at| words.get(at).cloned());
        Some(Identity {
            words: words.into_iter().flatten().collect(),
            unique: unique_number(point),
        })
    }
}

/// Without asking who serves it.
fn unique_number(point: &Path) -> Option<u64> {
    // linux/stat.h
    const STATX_MNT_ID_UNIQUE: u32 = 0x4000;
    let point = CString::new(point.as_os_str().as_bytes()).ok()?;
    let flags = libc::AT_SYMLINK_NOFOLLOW | libc::AT_STATX_DONT_SYNC;
    let found = Sys(&Host).statx(libc::AT_FDCWD, &point, flags, STATX_MNT_ID_UNIQUE);
    let found = found.ok()?;
    (found.stx_mask & STATX_MNT_ID_UNIQUE != 0).then_some(found.stx_mnt_id)
}

/// As the host's lists of mounts have a path.
fn listed(path: &Path) -> Vec<u8> {
    let mut listed = Vec::new();
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b' ' | b'\t' | b'\n' | b'\\' => listed.extend(format!("\\{byte:03o}").bytes()),
            _ => listed.push(*byte),
        }
    }
    listed
}

/// Why a mount cannot be ended.
#[derive(Debug)]
pub enum Busy {
    /// Something in it is open, or somebody's working directory.
    Yes,
    /// For this reason.
    No(String),
}

/// Takes the mount away; lazily, from view only, until nobody uses it any more.
pub fn unmount(point: &Path, lazily: bool) -> std::result::Result<(), Busy> {
    let mut flags = MntFlags::UMOUNT_NOFOLLOW;
    if lazily {
        flags |= MntFlags::MNT_DETACH;
    }
    match umount2(point, flags) {
        Ok(()) => return Ok(()),
        Err(nix::Error::EBUSY) => return Err(Busy::Yes),
        Err(nix::Error::EPERM) => {}
        Err(e) => return Err(Busy::No(io::Error::from(e).to_string())),
    }
    let mut command = Command::new(HELPER);
    command.arg("-u").args(lazily.then_some("-z"));
    command.arg("--").arg(point).env("LC_ALL", "C");
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|e| Busy::No(format!("{HELPER}: {e}")))?;
    let text = String::from_utf8_lossy(&output.stderr);
    match output.status.success() {
        true => Ok(()),
        false if text.contains("busy") => Err(Busy::Yes),
        false => Err(Busy::No(text.trim().to_owned())),
    }
}

/// Whether it is a mount whose server is gone.
pub fn is_dead(point: &Path) -> bool {
    let error = point.metadata().err().and_then(|e| e.raw_os_error());
    error == Some(libc::ENOTCONN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_mounted_is_found_whatever_it_is_called() {
        assert!(mounted(Path::new("/proc")).is_some());
        assert!(mounted(Path::new("/proc/self")).is_none());
        assert!(Identity::of(Path::new("/proc")) == Identity::of(Path::new("/proc")));
        let odd = listed(Path::new("/a b/c\\d\te"));
        assert_eq!(odd, b"/a\\040b/c\\134d\\011e");
    }
}
