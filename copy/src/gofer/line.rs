//! The socket to a gofer, at the end of who has an image's Linux in it.

use super::files::{self, Numbers};
use super::wire::{self, HEADER};
use super::{FromGofer, LONGEST};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;

/// How often somebody looks for an interrupt while he waits, in milliseconds.
const LOOK: i32 = 100;
/// What is read of answers at once.
const ANSWERS: usize = 64 << 10;
/// No answer that comes with a file is longer.
const LONG_ENOUGH: usize = 1 << 10;

/// The socket. Nobody waits for the other one to hear while that one waits too: whoever
/// cannot speak listens.
pub struct Line {
    socket: File,
    inbox: Vec<u8>,
    /// To read into.
    buffer: Vec<u8>,
    /// Of the files that are handed over.
    pub numbers: Numbers,
    gone: &'static str,
    /// What is longer than that nobody says.
    longest: usize,
}

impl Line {
    /// `gone`: what is said when the gofer has died.
    pub fn new(socket: UnixStream, gone: &'static str) -> io::Result<Line> {
        socket.set_nonblocking(true)?;
        Ok(Line {
            // Of a socket the jail has read(2) and write(2).
            socket: File::from(OwnedFd::from(socket)),
            inbox: Vec::new(),
            buffer: vec![0; ANSWERS],
            numbers: Numbers::default(),
            gone,
            longest: LONGEST,
        })
    }

    /// Messages are no longer than that.
    pub fn up_to(mut self, longest: usize) -> Line {
        self.longest = longest;
        self
    }

    /// Of a gofer that has died, or says what none does.
    pub fn gone(&self) -> io::Error {
        io::Error::other(self.gone)
    }

    /// Reads what is there. False: nothing is.
    pub fn hear(&mut self) -> io::Result<bool> {
        match (&self.socket).read(&mut self.buffer) {
            Ok(0) => Err(self.gone()),
            Ok(got) => {
                self.inbox.extend_from_slice(&self.buffer[..got]);
                let next = self.inbox.first_chunk().map(|header| wire::header(*header));
                match next.is_some_and(|(_, length)| length > self.longest) {
                    true => Err(self.gone()),
                    false => Ok(true),
                }
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => Ok(false),
            Err(_) => Err(self.gone()),
        }
    }

    /// Waits a moment for something to read, or for room to write.
    pub fn wait(&mut self, to_write: bool) -> io::Result<()> {
        match self.is_heard(to_write)? {
            true => self.hear().map(drop),
            false => Ok(()),
        }
    }

    /// Waits a moment; whether there is something to read.
    fn is_heard(&self, to_write: bool) -> io::Result<bool> {
        let mut waiting = libc::pollfd {
            fd: self.socket.as_raw_fd(),
            events: libc::POLLIN | if to_write { libc::POLLOUT } else { 0 },
            revents: 0,
        };
        // SAFETY: a structure of ours.
        unsafe { libc::poll(&raw mut waiting, 1, LOOK) };
        match waiting.revents & libc::POLLIN {
            0 if waiting.revents & (libc::POLLHUP | libc::POLLERR) != 0 => Err(self.gone()),
            0 => Ok(false),
            _ => Ok(true),
        }
    }

    /// Sends a message that [`wire::begin`] began. `idle` is asked while nobody hears.
    pub fn say(
        &mut self,
        message: &mut [u8],
        file: Option<&File>,
        mut idle: impl FnMut(),
    ) -> io::Result<()> {
        wire::seal(message);
        let mut done = 0;
        while done < message.len() {
            let rest = &message[done..];
            let sent = match file.filter(|_| done == 0) {
                Some(file) => files::send(&self.socket, rest, file),
                None => (&self.socket).write(rest),
            };
            match sent {
                Ok(n) => done += n,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    idle();
                    self.wait(true)?;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Err(self.gone()),
            }
        }
        Ok(())
    }

    /// The next whole message that was read.
    pub fn next(&mut self) -> Option<(u32, Vec<u8>)> {
        let (kind, length) = wire::header(*self.inbox.first_chunk()?);
        let end = HEADER.checked_add(length)?;
        let message = self.inbox.get(HEADER..end)?.to_vec();
        self.inbox.drain(..end);
        Some((kind, message))
    }

    /// Asks something that has this answer.
    pub fn ask(&mut self, mut message: Vec<u8>, wanted: FromGofer) -> io::Result<Vec<u8>> {
        self.say(&mut message, None, || {})?;
        loop {
            match self.next() {
                Some((kind, answer)) if kind == wanted as u32 => return Ok(answer),
                Some(_) => return Err(self.gone()),
                None => self.wait(false)?,
            }
        }
    }

    /// The same, of an answer that a file may come with, when nothing else is on its way.
    pub fn ask_for_file(
        &mut self,
        mut message: Vec<u8>,
        wanted: FromGofer,
    ) -> io::Result<(Vec<u8>, Option<OwnedFd>)> {
        self.say(&mut message, None, || {})?;
        let mut file = None;
        loop {
            match self.next() {
                Some((kind, answer)) if kind == wanted as u32 => return Ok((answer, file)),
                Some(_) => return Err(self.gone()),
                None => {}
            }
            if self.is_heard(false)? {
                let got = files::receive(&self.socket, &mut self.buffer);
                let (got, handed) = got.map_err(|_| self.gone())?;
                if got == 0 || self.inbox.len() > LONG_ENOUGH {
                    return Err(self.gone());
                }
                self.inbox.extend_from_slice(&self.buffer[..got]);
                file = handed.or(file);
            }
        }
    }
}
