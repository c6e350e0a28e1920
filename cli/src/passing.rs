//! Descriptors that go through sockets from one process of a command to another.

use nix::sys::socket::{recvmsg, sendmsg, ControlMessage, ControlMessageOwned, MsgFlags};
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// Most that go with one message.
pub const MOST: usize = 64;

/// Sends as much of the bytes as there is room for, and with the first of them these.
pub fn send(socket: &File, bytes: &[u8], fds: &[RawFd]) -> io::Result<usize> {
    let rights = [ControlMessage::ScmRights(fds)];
    let rights = if fds.is_empty() { &[][..] } else { &rights };
    let data = [IoSlice::new(bytes)];
    loop {
        let flags = MsgFlags::MSG_NOSIGNAL;
        match sendmsg::<()>(socket.as_raw_fd(), &data, rights, flags, None) {
            Err(nix::Error::EINTR) => {}
            sent => return Ok(sent?),
        }
    }
}

/// Receives into the bytes, and what comes along. 0: it is the end.
pub fn receive(socket: &File, bytes: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut data = [IoSliceMut::new(bytes)];
    let mut room = nix::cmsg_space!([RawFd; MOST]);
    let message = loop {
        let flags = MsgFlags::MSG_CMSG_CLOEXEC;
        match recvmsg::<()>(socket.as_raw_fd(), &mut data, Some(&mut room), flags) {
            Err(nix::Error::EINTR) => {}
            message => break message?,
        }
    };
    let mut found = Vec::new();
    // What was cut off the host has closed.
    for part in message.cmsgs().into_iter().flatten() {
        if let ControlMessageOwned::ScmRights(fds) = part {
            // SAFETY: just received, and nobody else's.
            found.extend(
                fds.into_iter()
                    .map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }),
            );
        }
    }
    Ok((message.bytes, found))
}
