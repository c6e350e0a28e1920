//! The reader's end: what has an image's Linux in it, and writes nothing.

use super::super::batch::{Batch, Carrier, Stopped, BATCHES};
use super::super::observer::Observer;
use super::super::room::Room;
use super::super::site::Site;
use super::super::{Owner, Settings, SparseMode};
use super::files::Numbers;
use super::line::Line;
use super::making::Finish;
use super::said::{self, KINDS};
use super::wire::{self, Put, Take};
use super::{script, FromGofer, Memory, Terms, ToGofer};
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, MutexGuard};
use tane_linux::Errno;

const GONE: &str = "the process that writes on the host has died";

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

impl Gofer {
    /// Of one that serves the other end with the same memory and terms.
    pub fn new(socket: UnixStream, memory: Memory, terms: &Terms) -> io::Result<Gofer> {
        Ok(Gofer {
            line: Mutex::new(Line::new(socket, GONE)?),
            memory,
            in_session: matches!(terms, Terms::Session { .. }),
        })
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Of a session: a file that this process fills by itself. A new one, beside where it will
    /// be, has that name when it is finished; else what is there already is to be written.
    pub fn make(&self, path: &[u8], is_new: bool) -> Result<File, Errno> {
        let mut message = Vec::new();
        wire::begin(&mut message, ToGofer::Make as u32);
        message.string(path);
        message.byte(is_new.into());
        let asked = self.line().ask_for_file(message, FromGofer::Made);
        let (answer, file) = asked.map_err(errno)?;
        match (error_of(&answer)?, file) {
            (0, Some(file)) => Ok(file.into()),
            (0, None) => Err(Errno(libc::EPROTO)),
            (error, _) => Err(Errno(error as i32)),
        }
    }

    /// What becomes of the file that was made last.
    pub fn finish(&self, how: Finish) -> Result<(), Errno> {
        let mut message = Vec::new();
        wire::begin(&mut message, ToGofer::Finish as u32);
        message.byte(how as u8);
        let answer = self.line().ask(message, FromGofer::Finished);
        match error_of(&answer.map_err(errno)?)? {
            0 => Ok(()),
            error => Err(Errno(error as i32)),
        }
    }
}

/// Of an answer that is nothing else.
fn error_of(answer: &[u8]) -> Result<u32, Errno> {
    let mut take = Take::new(answer);
    let error = take.number();
    let whole = error.and_then(|error| take.end().map(|()| error));
    whole.map_err(|_| Errno(libc::EPROTO))
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

pub(super) fn errno(e: io::Error) -> Errno {
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
                SAID => said::tell(&message, self.report).map_err(|_| self.line.gone())?,
                DONE => self.under_way = self.under_way.saturating_sub(1),
                ENDED => self.is_over = true,
                _ => return Err(self.line.gone()),
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
