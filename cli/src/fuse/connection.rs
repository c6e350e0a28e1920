//! The mount itself: made, served by several threads, ended.

use super::served::Served;
use fuser::{Config, MountOption, Session, SessionACL};
use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::JoinHandle;

/// Threads that serve, of which one does unless it is held up: see `turns`.
const THREADS: usize = 4;

/// What the host's kernel may read ahead, where we may say so.
const READ_AHEAD_KIB: &str = "1024";

pub struct Wish<'w> {
    pub point: &'w Path,
    /// What lists of mounts show as the device.
    pub source: String,
    /// Other users may use the mount too.
    pub allow_other: bool,
    /// For measurements.
    pub threads: Option<usize>,
}

/// A mount that is being served.
pub struct Connection {
    thread: JoinHandle<io::Result<()>>,
}

pub fn mount(served: Served, wish: &Wish) -> io::Result<Connection> {
    let manner = served.manner;
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName(wish.source.replace(',', "?")),
        MountOption::CUSTOM("subtype=tane".into()),
        MountOption::NoAtime,
        match manner.writable {
            true => MountOption::RW,
            false => MountOption::RO,
        },
    ];
    if manner.many_users {
        config.mount_options.push(MountOption::DefaultPermissions);
    }
    if wish.allow_other {
        config.acl = SessionACL::All;
    }
    config.n_threads = Some(wish.threads.unwrap_or(THREADS));
    config.clone_fd = true;
    let session = Session::new(served, wish.point, &config)?;
    let thread = std::thread::Builder::new()
        .name("serve".into())
        .spawn(move || session.run())?;
    read_ahead(wish.point);
    Ok(Connection { thread })
}

impl Connection {
    /// Until it is unmounted, by whomever.
    pub fn wait(self) -> io::Result<()> {
        let panicked = |_| io::Error::other("the thread that serves has panicked");
        self.thread.join().map_err(panicked)?
    }
}

/// Root may have it read ahead more than the 128 KiB that FUSE starts with.
fn read_ahead(point: &Path) {
    if let Ok(device) = point.symlink_metadata().map(|m| m.dev()) {
        let (major, minor) = (libc::major(device), libc::minor(device));
        let file = format!("/sys/class/bdi/{major}:{minor}-fuse/read_ahead_kb");
        let _ = std::fs::write(file, READ_AHEAD_KIB);
    }
}

/// Why a mount cannot be ended.
pub enum Busy {
    /// Something in it is open, or somebody's working directory.
    Yes,
    No(String),
}

/// Takes the mount away; lazily, from view only, until nobody uses it any more.
pub fn unmount(point: &Path, lazily: bool) -> Result<(), Busy> {
    let other = |e: &dyn std::fmt::Display| Busy::No(e.to_string());
    let path = CString::new(point.as_os_str().as_bytes()).map_err(|e| other(&e))?;
    let detach = match lazily {
        true => libc::MNT_DETACH,
        false => 0,
    };
    // SAFETY: a live C string.
    if unsafe { libc::umount2(path.as_ptr(), libc::UMOUNT_NOFOLLOW | detach) } == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::EBUSY) => return Err(Busy::Yes),
        Some(libc::EPERM) => {}
        _ => return Err(other(&error)),
    }
    let mut command = Command::new(super::HELPER);
    command.arg("-u").args(lazily.then_some("-z"));
    command.arg("--").arg(point).env("LC_ALL", "C");
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|e| Busy::No(format!("{}: {e}", super::HELPER)))?;
    let text = String::from_utf8_lossy(&output.stderr);
    match output.status.success() {
        true => Ok(()),
        false if text.contains("busy") => Err(Busy::Yes),
        false => Err(other(&text.trim())),
    }
}
