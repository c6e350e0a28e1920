//! The two ends that bytes go between, and how they get there.

use crate::net::socket::Socket;
use std::io;
use std::net::Shutdown;
use std::os::fd::{AsRawFd, OwnedFd};

/// Bytes that one flow carries in a row: then it is another's turn.
const SHARE: usize = 1 << 20;

/// One end. Nothing waits.
pub trait End {
    fn read(&self, to: &mut [u8]) -> io::Result<usize>;
    fn write(&self, from: &[u8]) -> io::Result<usize>;
    /// Nothing more is written.
    fn finish(&self) -> io::Result<()>;
    /// When it is closed, the peer is told that the connection has failed.
    fn abort(&self);
}

impl End for Socket {
    fn read(&self, to: &mut [u8]) -> io::Result<usize> {
        Ok(self.receive(to, libc::MSG_DONTWAIT, false)?.0)
    }

    fn write(&self, from: &[u8]) -> io::Result<usize> {
        self.send(from, None, libc::MSG_DONTWAIT)
    }

    fn finish(&self) -> io::Result<()> {
        self.shutdown(Shutdown::Write)
    }

    fn abort(&self) {
        // A connection that is gone needs none.
        let _ = self.set(libc::SOL_SOCKET, libc::SO_LINGER, &[1i32, 0]);
    }
}

/// A socket of the host's. By calls that the jail leaves: none takes an address.
impl End for OwnedFd {
    fn read(&self, to: &mut [u8]) -> io::Result<usize> {
        // SAFETY: writes into these bytes.
        length(|| unsafe { libc::read(self.as_raw_fd(), to.as_mut_ptr().cast(), to.len()) })
    }

    fn write(&self, from: &[u8]) -> io::Result<usize> {
        // SAFETY: reads these bytes. The signal of a connection that is gone is blocked in
        // the gateway's threads.
        length(|| unsafe { libc::write(self.as_raw_fd(), from.as_ptr().cast(), from.len()) })
    }

    fn finish(&self) -> io::Result<()> {
        // SAFETY: numbers.
        length(|| unsafe { libc::shutdown(self.as_raw_fd(), libc::SHUT_WR) as isize }).map(drop)
    }

    fn abort(&self) {
        let linger = libc::linger {
            l_onoff: 1,
            l_linger: 0,
        };
        let length = size_of_val(&linger) as u32;
        let at = (&raw const linger).cast();
        // SAFETY: reads a structure of this length.
        unsafe {
            libc::setsockopt(
                self.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_LINGER,
                at,
                length,
            );
        }
    }
}

fn length(mut call: impl FnMut() -> isize) -> io::Result<usize> {
    loop {
        match call() {
            n @ 0.. => return Ok(n as usize),
            _ => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => {}
                error => return Err(error),
            },
        }
    }
}

/// How far a direction has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Until an end is ready again.
    Wait,
    /// It has had its share.
    More,
    /// The end of the bytes is where it belongs.
    Done,
    /// One of the ends has failed.
    Broken,
}

/// One direction of a flow: what was read and not yet written.
#[derive(Debug, Default)]
pub struct Pipe {
    kept: Vec<u8>,
    at: usize,
    is_over: bool,
    is_done: bool,
}

impl Pipe {
    pub fn is_done(&self) -> bool {
        self.is_done
    }

    /// Carry what there is and fits, through memory that many flows share. `failed`: an
    /// end has, so that an end of the bytes is none that anybody meant.
    pub fn carry(
        &mut self,
        from: &dyn End,
        to: &dyn End,
        scratch: &mut [u8],
        failed: bool,
    ) -> Step {
        let mut carried = 0;
        while !self.is_done {
            if self.at < self.kept.len() {
                match to.write(&self.kept[self.at..]) {
                    Ok(n) => self.at += n,
                    Err(error) => return of(&error),
                }
                if self.at == self.kept.len() {
                    (self.kept, self.at) = (Vec::new(), 0);
                }
                continue;
            }
            if self.is_over {
                if failed {
                    return Step::Broken;
                }
                self.is_done = true;
                return match to.finish() {
                    Ok(()) => Step::Done,
                    Err(_) => Step::Broken,
                };
            }
            if carried >= SHARE {
                return Step::More;
            }
            let n = match from.read(scratch) {
                Ok(0) => {
                    self.is_over = true;
                    continue;
                }
                Ok(n) => n,
                Err(error) => return of(&error),
            };
            carried += n;
            match to.write(&scratch[..n]) {
                Ok(written) if written == n => {}
                Ok(written) => self.kept = scratch[written..n].to_vec(),
                Err(error) => match of(&error) {
                    Step::Wait => {
                        self.kept = scratch[..n].to_vec();
                        return Step::Wait;
                    }
                    step => return step,
                },
            }
        }
        Step::Done
    }
}

fn of(error: &io::Error) -> Step {
    match error.kind() {
        io::ErrorKind::WouldBlock => Step::Wait,
        _ => Step::Broken,
    }
}
