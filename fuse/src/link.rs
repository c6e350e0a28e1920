//! Between the process that mounts and the one that serves: a socket, on which the
//! server says how far it is, and gets the mount's other end.

use nix::cmsg_space;
use nix::sys::socket::{recvmsg, sendmsg, ControlMessage, ControlMessageOwned, MsgFlags};
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Written and read as a file: a jail has no send(2) and recv(2).
pub struct Link(File);

/// What the server says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Word {
    /// The image is open, and a mount of it may be made.
    Open = b'o',
    /// The mount is served.
    Serving = b's',
}

impl Link {
    /// Both ends.
    pub fn pair() -> io::Result<(Link, Link)> {
        let (one, other) = UnixStream::pair()?;
        let file = |end: UnixStream| Link(OwnedFd::from(end).into());
        Ok((file(one), file(other)))
    }

    /// The descriptor that [`Link::lend`] told of.
    pub fn inherited(fd: RawFd) -> Link {
        // SAFETY: inherited for this, and nobody else's.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        // SAFETY: a descriptor of ours. Whoever is started from here has none.
        unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFD, libc::FD_CLOEXEC) };
        Link(fd.into())
    }

    /// A program gets this end; the variable, or the argument, says which it is.
    pub fn lend(&self, command: &mut Command, name: impl FnOnce(String) -> (&'static str, String)) {
        let fd = self.0.as_raw_fd();
        match name(fd.to_string()) {
            ("", argument) => command.arg(argument),
            (variable, value) => command.env(variable, value),
        };
        // SAFETY: fcntl may be called there, on a descriptor that stays open till then.
        unsafe {
            command.pre_exec(move || match libc::fcntl(fd, libc::F_SETFD, 0) {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            });
        }
    }

    /// Tells the other one.
    pub fn say(&self, word: Word) -> io::Result<()> {
        (&self.0).write_all(&[word as u8])
    }

    /// True if the other one says this next; false if it has gone.
    pub fn hear(&self, word: Word) -> bool {
        let mut byte = [0];
        matches!((&self.0).read(&mut byte), Ok(1)) && byte[0] == word as u8
    }

    /// Hands a descriptor over.
    pub(crate) fn give(&self, file: &File) -> io::Result<()> {
        let fds = [file.as_raw_fd()];
        let rights = [ControlMessage::ScmRights(&fds)];
        let data = [IoSlice::new(&[0])];
        sendmsg::<()>(self.0.as_raw_fd(), &data, &rights, MsgFlags::empty(), None)?;
        Ok(())
    }

    /// The descriptor that was handed over; None if the other one has gone.
    pub fn take(&self) -> io::Result<Option<OwnedFd>> {
        let mut byte = [0];
        let mut data = [IoSliceMut::new(&mut byte)];
        let mut room = cmsg_space!(RawFd);
        let flags = MsgFlags::MSG_CMSG_CLOEXEC;
        let message = loop {
            match recvmsg::<()>(self.0.as_raw_fd(), &mut data, Some(&mut room), flags) {
                Err(nix::Error::EINTR) => continue,
                message => break message?,
            }
        };
        for part in message.cmsgs()? {
            if let ControlMessageOwned::ScmRights(fds) = part {
                // SAFETY: just received, and nobody else's.
                let fds = fds
                    .into_iter()
                    .map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
                return Ok(fds.collect::<Vec<_>>().pop());
            }
        }
        Ok(None)
    }
}
