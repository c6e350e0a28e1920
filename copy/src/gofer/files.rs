//! Descriptors of the image's files on their way to the gofer, and what they are called
//! there: a number each, which is given to another one when there are many.

use super::FILES;
use nix::sys::socket::{recvmsg, sendmsg, ControlMessage, ControlMessageOwned, MsgFlags};
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::FileTypeExt;
use std::sync::Arc;

/// The reader's list.
#[derive(Default)]
pub struct Numbers {
    known: Vec<(Arc<File>, u64)>,
    batch: u64,
    new: Vec<u32>,
}

impl Numbers {
    /// The files of another batch follow.
    pub fn begin(&mut self) {
        self.batch += 1;
        self.new.clear();
    }

    /// What this one is called. A batch has no more files than there are numbers.
    pub fn of(&mut self, file: &Arc<File>) -> u32 {
        let batch = self.batch;
        let found = self.known.iter().rposition(|(f, _)| Arc::ptr_eq(f, file));
        if let Some(at) = found {
            self.known[at].1 = batch;
            return at as u32;
        }
        let entry = (file.clone(), batch);
        let unused = |(_, last): &(Arc<File>, u64)| *last < batch;
        let at = match self.known.len() < FILES {
            true => {
                self.known.push(entry);
                self.known.len() - 1
            }
            false => {
                let at = self.known.iter().position(unused).unwrap_or(0);
                self.known[at] = entry;
                at
            }
        };
        self.new.push(at as u32);
        at as u32
    }

    /// Those that the gofer does not have yet.
    pub fn unsent(&self) -> Vec<(u32, Arc<File>)> {
        let file = |number: &u32| (*number, self.known[*number as usize].0.clone());
        self.new.iter().map(file).collect()
    }
}

/// Sends the beginning of a message with a descriptor; how much of it went.
pub fn send(socket: &impl AsRawFd, bytes: &[u8], file: &File) -> io::Result<usize> {
    let fds = [file.as_raw_fd()];
    let rights = [ControlMessage::ScmRights(&fds)];
    let flags = MsgFlags::MSG_NOSIGNAL;
    let data = [IoSlice::new(bytes)];
    Ok(sendmsg::<()>(
        socket.as_raw_fd(),
        &data,
        &rights,
        flags,
        None,
    )?)
}

/// Receives into the bytes, and a descriptor if one comes along; of several one.
pub fn receive(socket: &impl AsRawFd, bytes: &mut [u8]) -> io::Result<(usize, Option<OwnedFd>)> {
    let mut data = [IoSliceMut::new(bytes)];
    let mut room = nix::cmsg_space!(RawFd);
    let flags = MsgFlags::MSG_CMSG_CLOEXEC;
    let message = loop {
        match recvmsg::<()>(socket.as_raw_fd(), &mut data, Some(&mut room), flags) {
            Err(nix::Error::EINTR) => continue,
            message => break message?,
        }
    };
    let mut found = None;
    // What was cut off the host has closed.
    for part in message.cmsgs().into_iter().flatten() {
        if let ControlMessageOwned::ScmRights(fds) = part {
            for fd in fds {
                // SAFETY: just received, and nobody else's.
                found = Some(unsafe { OwnedFd::from_raw_fd(fd) });
            }
        }
    }
    Ok((message.bytes, found))
}

/// A descriptor that bytes can be copied from: of a file or a disk, and nothing that
/// could keep its reader waiting.
pub fn check(fd: OwnedFd) -> Option<Arc<File>> {
    let file = File::from(fd);
    let kind = file.metadata().ok()?.file_type();
    (kind.is_file() || kind.is_block_device()).then(|| Arc::new(file))
}
