//! tane umount: the end of what tane mount began.

use crate::failure::Result;
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
    Err(crate::failure::Failure::usage(
        "this tane was built without FUSE: build it with --features fuse",
    ))
}

#[cfg(feature = "fuse")]
pub fn run(args: Args) -> Result<u8> {
    let mut code = 0;
    for dir in &args.dirs {
        if let Err(why) = with_fuse::one(dir, args.lazy) {
            eprintln!("tane: {}: {why}", dir.display());
            code = crate::failure::SOME_FAILED;
        }
    }
    Ok(code)
}

#[cfg(feature = "fuse")]
mod with_fuse {
    use crate::fuse::{unmount, Busy, SYNC};
    use crate::sys::Errno;
    use std::ffi::CString;
    use std::io;
    use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
    use std::os::unix::ffi::OsStrExt;
    use std::path::Path;

    pub fn one(dir: &Path, lazy: bool) -> Result<(), String> {
        let server = server(dir);
        let gone = |e: &Errno| e.0 == libc::ENOTCONN;
        let (process, lost) = match server {
            Ok(pid) => (open_process(pid), None),
            Err(Errno(libc::ENODATA | libc::EOPNOTSUPP)) => {
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

    /// Has everything written, and says who serves it.
    fn server(dir: &Path) -> Result<i32, Errno> {
        let path = CString::new(dir.as_os_str().as_bytes()).map_err(|_| Errno(libc::EINVAL))?;
        let name = CString::new(SYNC).unwrap_or_default();
        let mut value = [0u8; 32];
        let (to, room) = (value.as_mut_ptr().cast(), value.len());
        // SAFETY: C strings and a buffer of that size.
        let n = unsafe { libc::getxattr(path.as_ptr(), name.as_ptr(), to, room) };
        if n < 0 {
            let error = io::Error::last_os_error().raw_os_error();
            return Err(Errno(error.unwrap_or(libc::EIO)));
        }
        let text = String::from_utf8_lossy(&value[..n as usize]);
        text.parse().map_err(|_| Errno(libc::ENODATA))
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
