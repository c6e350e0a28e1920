//! The mount point: what is mounted there, and how it ends. Whoever does this needs
//! rights that who serves the mount is better without.

use super::link::Link;
use nix::mount::{mount as mount_by_kernel, umount2, MntFlags, MsFlags};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Mounts and unmounts for who is not root.
pub const HELPER: &str = "fusermount3";

pub const DEVICE: &str = "/dev/fuse";

/// What the host's kernel may read ahead, where we may say so.
const READ_AHEAD_KIB: &str = "1024";

pub struct Wish<'w> {
    pub point: &'w Path,
    /// What lists of mounts show as the device.
    pub source: String,
    pub writable: bool,
    /// The host's kernel checks permissions, by users of the host.
    pub many_users: bool,
    /// Other users may use the mount too.
    pub allow_other: bool,
}

/// Mounts; the other end goes through the link. Nothing there answers before that is
/// served.
pub fn mount(wish: &Wish, to: &Link) -> io::Result<()> {
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

/// `major:minor` of what is mounted there; proc(5), mountinfo.
fn mounted_device(point: &Path) -> Option<String> {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
    let last = mounts.lines().rev().find(|line| {
        let place = line.split(' ').nth(4).unwrap_or_default();
        Some(place) == point.to_str()
    })?;
    last.split(' ').nth(2).map(str::to_owned)
}

/// Why a mount cannot be ended.
pub enum Busy {
    /// Something in it is open, or somebody's working directory.
    Yes,
    No(String),
}

/// Takes the mount away; lazily, from view only, until nobody uses it any more.
pub fn unmount(point: &Path, lazily: bool) -> Result<(), Busy> {
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
