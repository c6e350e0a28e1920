//! tane umount: the end of what tane mount began.

use crate::failure::{Failure, Result};
use std::path::PathBuf;

/// Unmount what tane mount has mounted, and wait until the image is complete
#[derive(clap::Args)]
#[command(after_help = "\
fusermount3 -u and umount(8) do the same, but do not wait for the process that
serves the mount: the image is complete when that has ended.

Examples:
  tane umount /mnt
  tane umount --lazy /mnt")]
pub struct Args {
    /// Directories on which images are mounted
    #[arg(required = true, value_name = "DIR")]
    pub dirs: Vec<PathBuf>,
    /// Take it from view now, and end it when nothing in it is in use any more
    #[arg(short, long)]
    pub lazy: bool,
}

#[cfg(not(feature = "fuse"))]
pub fn run(_: Args) -> Result<u8> {
    Err(Failure::usage(
        "this tane was built without FUSE: build it with --features fuse",
    ))
}

#[cfg(feature = "fuse")]
pub fn run(args: Args) -> Result<u8> {
    use crate::{failure::SOME_FAILED, tell};
    let mut code = 0;
    for dir in &args.dirs {
        if let Err(why) = with_fuse::one(dir, args.lazy) {
            code = SOME_FAILED;
            tell::failure(&Failure::new(code, why).of(&dir.display().to_string()));
        }
    }
    Ok(code)
}

#[cfg(feature = "fuse")]
mod with_fuse {
    use std::fs::File;
    use std::io;
    use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
    use std::os::unix::fs::OpenOptionsExt;
    use std::path::Path;
    use tane_fuse::{unmount, Busy, SYNC};
    use tane_linux::Errno;

    pub fn one(dir: &Path, lazy: bool) -> Result<(), String> {
        let server = server(dir);
        let gone = |e: &Errno| e.0 == libc::ENOTCONN;
        let (process, lost) = match server {
            // A process that goes on has nothing to wait for.
            Ok(pid) => (open_process(pid), None),
            Err(Errno(libc::ENOTTY | libc::ENOTDIR | libc::ENOSYS | libc::EOPNOTSUPP)) => {
                return Err("no image is mounted there by tane".into())
            }
            // Nobody serves it any more, but there it is.
            Err(e) if gone(&e) => (None, None),
            Err(Errno(libc::ENOENT)) => return Err(Errno(libc::ENOENT).to_string()),
            Err(Errno(libc::EACCES)) => return Err("another user's mount".into()),
            Err(e) => (None, Some(format!("not everything was written: {e}"))),
        };
        let full = match dir.canonicalize() {
            Ok(full) => full,
            Err(_) => dir.to_path_buf(),
        };
        unmount(&full, lazy).map_err(|busy| match busy {
            Busy::Yes => "something in it is in use: still mounted".into(),
            Busy::No(why) => why,
        })?;
        if let Some(process) = process.filter(|_| !lazy) {
            wait(&process);
        }
        lost.map_or(Ok(()), Err)
    }

    /// Has everything written, and says who serves it; 0: who does not end with it.
    fn server(dir: &Path) -> Result<i32, Errno> {
        let errno = |e: io::Error| Errno(e.raw_os_error().unwrap_or(libc::EIO));
        let mut options = File::options();
        let root = options.read(true).custom_flags(libc::O_DIRECTORY);
        let root = root.open(dir).map_err(errno)?;
        let mut pid = 0i32;
        // SAFETY: room for what the request answers.
        match unsafe { libc::ioctl(root.as_raw_fd(), SYNC.into(), &raw mut pid) } {
            0 => Ok(pid),
            _ => Err(errno(io::Error::last_os_error())),
        }
    }

    fn open_process(pid: i32) -> Option<OwnedFd> {
        // SAFETY: takes numbers and gives a descriptor.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
        // SAFETY: just opened, and nobody else's.
        (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd as i32) })
    }

    /// Until the process has ended.
    fn wait(process: &OwnedFd) {
        let mut poll = libc::pollfd {
            fd: process.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one structure.
        while unsafe { libc::poll(&mut poll, 1, -1) } < 0 {}
    }
}
