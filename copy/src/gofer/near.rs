//! The reader's end: what has an image's Linux in it, and writes nothing.

use super::super::batch::{Batch, Carrier, Stopped, BATCHES};
use super::super::observer::Observer;
use super::super::room::Room;
use super::super::site::Site;
use super::super::{Owner, Settings, SparseMode};
use super::files::{self, Numbers};
use super::said::{self, KINDS};
use super::wire::{self, Put, Take, HEADER};
use super::{script, FromGofer, Memory, Terms, ToGofer};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, MutexGuard};
use tane_linux::Errno;

/// How often somebody looks for an interrupt while he waits, in milliseconds.
const LOOK: i32 = 100;
/// What is read of answers at once.
const ANSWERS: usize = 64 << 10;

/// A process that writes copies on the host.
pub struct Gofer {
    line: Mutex<Line>,
    memory: Memory,
    in_session: bool,
}

/// What a copy is to be like; of no avail where it is in the terms.
pub struct Wish<'g> {
    /// Who writes.
    pub gofer: &'g Gofer,
    /// How.
    pub settings: Settings,
    /// Files that hold disk images stay.
    pub guarded: bool,
    /// Somebody wants the name of each file.
    pub verbose: bool,
}

/// A copy may begin.
pub struct Opened<'g> {
    line: MutexGuard<'g, Line>,
    memory: &'g Memory,
    /// The destination has hard links.
    pub has_links: bool,
    shown: Vec<u8>,
}

fn gone() -> io::Error {
    io::Error::other("the process that writes on the host has died")
}

impl Gofer {
    /// Of one that serves the other end with the same memory and terms.
    pub fn new(socket: UnixStream, memory: Memory, terms: &Terms) -> io::Result<Gofer> {
        socket.set_nonblocking(true)?;
        // Of a socket the jail has read(2) and write(2).
        let socket = File::from(OwnedFd::from(socket));
        Ok(Gofer {
            line: Mutex::new(Line {
                socket,
                inbox: Vec::new(),
                numbers: Numbers::default(),
            }),
            memory,
            in_session: matches!(terms, Terms::Session),
        })
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(|e| e.into_inner())
    }
}

impl<'g> Wish<'g> {
    /// What is at a path of the host.
    pub fn look(&self, path: &[u8]) -> Result<Site, Errno> {
        let mut line = self.gofer.line();
        let mut message = Vec::new();
        wire::begin(&mut message, ToGofer::Look as u32);
        message.string(&self.absolute(path));
        let answer = line.ask(message, FromGofer::Seen).map_err(errno)?;
        let seen = || {
            let mut take = Take::new(&answer);
            let error = take.number()?;
            let kind = usize::from(take.byte()?);
            Ok::<_, wire::Malformed>((error, kind, take.string()?.to_vec()))
        };
        match seen().map_err(|_| Errno(libc::EPROTO))? {
            (0, kind, target) => Ok(Site {
                target,
                there: kind.checked_sub(1).and_then(|k| KINDS.get(k)).copied(),
            }),
            (error, ..) => Err(Errno(error as i32)),
        }
    }

    /// A session may be elsewhere than it was when the gofer began.
    fn absolute(&self, path: &[u8]) -> Vec<u8> {
        match std::env::current_dir() {
            Ok(here) if self.gofer.in_session && !path.starts_with(b"/") => {
                [here.as_os_str().as_bytes(), b"/", path].concat()
            }
            _ => path.to_vec(),
        }
    }

    /// Opens the directory that copies go into, of what was looked at last.
    pub fn open(self, shown: &[u8]) -> Result<Opened<'g>, Errno> {
        let mut line = self.gofer.line();
        self.gofer.memory.set_stop(false);
        let mut message = Vec::new();
        wire::begin(&mut message, ToGofer::Open as u32);
        message.string(shown);
        put_settings(&mut message, &self.settings);
        message.byte(self.guarded.into());
        message.byte(self.verbose.into());
        let answer = line.ask(message, FromGofer::Opened).map_err(errno)?;
        let opened = || {
            let mut take = Take::new(&answer);
            Ok::<_, wire::Malformed>((take.number()?, take.flag()?))
        };
        match opened().map_err(|_| Errno(libc::EPROTO))? {
            (0, has_links) => Ok(Opened {
                line,
                memory: &self.gofer.memory,
                has_links,
                shown: shown.to_vec(),
            }),
            (error, _) => Err(Errno(error as i32)),
        }
    }
}

fn errno(e: io::Error) -> Errno {
    Errno(e.raw_os_error().unwrap_or(libc::EPIPE))
}

fn put_settings(message: &mut Vec<u8>, settings: &Settings) {
    let (keeps, uid, gid) = match settings.owner {
        Owner::Keep => (true, 0, 0),
        Owner::Fixed { uid, gid } => (false, uid, gid),
    };
    message.byte(keeps.into());
    message.number(uid);
    message.number(gid);
    message.byte(match settings.sparse {
        SparseMode::Auto => 0,
        SparseMode::Always => 1,
        SparseMode::Never => 2,
    });
    message.byte(settings.no_clobber.into());
}

/// The socket. Nobody waits for the other one to hear while that one waits too: whoever
/// cannot speak listens.
struct Line {
    socket: File,
    inbox: Vec<u8>,
    numbers: Numbers,
}

impl Line {
    /// Reads what is there. False: nothing is.
    fn hear(&mut self) -> io::Result<bool> {
        let before = self.inbox.len();
        self.inbox.resize(before + ANSWERS, 0);
        let read = (&self.socket).read(&mut self.inbox[before..]);
        let got = *read.as_ref().unwrap_or(&0);
        self.inbox.truncate(before + got);
        match read {
            Ok(0) => Err(gone()),
            Ok(_) => Ok(true),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => Ok(false),
            Err(_) => Err(gone()),
        }
    }

    /// Waits a moment for something to read, or for room to write.
    fn wait(&mut self, to_write: bool) -> io::Result<()> {
        let mut waiting = libc::pollfd {
            fd: self.socket.as_raw_fd(),
            events: libc::POLLIN | if to_write { libc::POLLOUT } else { 0 },
            revents: 0,
        };
        // SAFETY: a structure of ours.
        unsafe { libc::poll(&raw mut waiting, 1, LOOK) };
        match waiting.revents & libc::POLLIN {
            0 if waiting.revents & (libc::POLLHUP | libc::POLLERR) != 0 => Err(gone()),
            0 => Ok(()),
            _ => self.hear().map(drop),
        }
    }

    /// Sends a message that [`wire::begin`] began. `idle` is asked while nobody hears.
    fn say(
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
                Err(_) => return Err(gone()),
            }
        }
        Ok(())
    }

    /// The next whole message that was read.
    fn next(&mut self) -> Option<(u32, Vec<u8>)> {
        let (kind, length) = wire::header(*self.inbox.first_chunk()?);
        let end = HEADER.checked_add(length)?;
        let message = self.inbox.get(HEADER..end)?.to_vec();
        self.inbox.drain(..end);
        Some((kind, message))
    }

    /// Asks something that has this answer.
    fn ask(&mut self, mut message: Vec<u8>, wanted: FromGofer) -> io::Result<Vec<u8>> {
        self.say(&mut message, None, || {})?;
        loop {
            match self.next() {
                Some((kind, answer)) if kind == wanted as u32 => return Ok(answer),
                Some(_) => return Err(gone()),
                None => self.wait(false)?,
            }
        }
    }
}

impl<'g> Opened<'g> {
    /// Sends batches, until it is dropped.
    pub fn carrier<'c>(self, report: &'c dyn Observer) -> Remote<'c>
    where
        'g: 'c,
    {
        Remote {
            line: self.line,
            memory: self.memory,
            report,
            shown: self.shown,
            message: Vec::new(),
            slot: 0,
            under_way: 0,
            is_over: false,
        }
    }
}

/// Carries batches to the gofer, and tells the report what becomes of them. When it is
/// dropped all has been written that ever will be.
pub struct Remote<'c> {
    line: MutexGuard<'c, Line>,
    memory: &'c Memory,
    report: &'c dyn Observer,
    shown: Vec<u8>,
    message: Vec<u8>,
    /// That of the batch at hand.
    slot: usize,
    /// Batches that were sent and are not done.
    under_way: usize,
    is_over: bool,
}

impl Remote<'_> {
    fn send(&mut self, batch: &Batch) -> io::Result<()> {
        let (memory, report) = (self.memory, self.report);
        let idle = || memory.set_stop(report.interrupted());
        let line = &mut *self.line;
        wire::begin(&mut self.message, ToGofer::Batch as u32);
        self.message.number(self.slot as u32);
        line.numbers.begin();
        let numbers = &mut line.numbers;
        if !script::write(batch, &mut self.message, |file| numbers.of(file)) {
            return Err(io::Error::other("it cannot be told what to copy"));
        }
        let mut introduction = Vec::new();
        for (number, file) in line.numbers.unsent() {
            wire::begin(&mut introduction, ToGofer::File as u32);
            introduction.number(number);
            line.say(&mut introduction, Some(&file), idle)?;
        }
        idle();
        line.say(&mut self.message, None, idle)?;
        self.under_way += 1;
        self.slot = (self.slot + 1) % BATCHES;
        line.hear()?;
        self.answers()?;
        while self.under_way == BATCHES {
            self.rest()?;
        }
        Ok(())
    }

    fn rest(&mut self) -> io::Result<()> {
        self.memory.set_stop(self.report.interrupted());
        self.line.wait(false)?;
        self.answers()
    }

    fn answers(&mut self) -> io::Result<()> {
        const SAID: u32 = FromGofer::Said as u32;
        const DONE: u32 = FromGofer::Done as u32;
        const ENDED: u32 = FromGofer::Ended as u32;
        while let Some((kind, message)) = self.line.next() {
            match kind {
                SAID => said::tell(&message, self.report).map_err(|_| gone())?,
                DONE => self.under_way = self.under_way.saturating_sub(1),
                ENDED => self.is_over = true,
                _ => return Err(gone()),
            }
        }
        Ok(())
    }

    fn end(&mut self) -> io::Result<()> {
        let (memory, report) = (self.memory, self.report);
        let idle = || memory.set_stop(report.interrupted());
        idle();
        wire::begin(&mut self.message, ToGofer::End as u32);
        self.line.say(&mut self.message, None, idle)?;
        while !self.is_over {
            self.rest()?;
        }
        Ok(())
    }

    fn fail(&mut self, e: &io::Error) {
        self.is_over = true;
        self.report.error_text(&self.shown, e.to_string());
    }
}

impl Carrier for Remote<'_> {
    fn first(&mut self) -> Batch {
        Batch::new(Room::Lent(self.memory.slot(self.slot)))
    }

    fn exchange(&mut self, batch: &mut Batch) -> Result<(), Stopped> {
        if self.is_over {
            return Err(Stopped);
        }
        let sent = self.send(batch);
        batch.clear();
        batch.set_room(Room::Lent(self.memory.slot(self.slot)));
        sent.map_err(|e| {
            self.fail(&e);
            Stopped
        })
    }
}

impl Drop for Remote<'_> {
    fn drop(&mut self) {
        // An image that is closed next is not to stay open for its number.
        self.line.numbers = Numbers::default();
        if !self.is_over {
            if let Err(e) = self.end() {
                self.fail(&e);
            }
        }
    }
}
