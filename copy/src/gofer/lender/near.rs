//! The writer's end: what has an image's Linux in it, and opens nothing on the host.

use super::super::super::batch::{Batch, Op, BATCHES};
use super::super::super::observer::Observer;
use super::super::super::writer::Writer;
use super::super::super::{Destination, Settings, SparseMode};
use super::super::line::Line;
use super::super::near::errno;
use super::super::wire::{self, Malformed, Put, Take};
use super::super::{said, script, FromGofer};
use super::{Lent, Terms, ToLender, Wanted};
use std::ffi::CStr;
use std::io;
use std::num::NonZeroU64;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, MutexGuard};
use tane_linux::{has_links, Errno};

const GONE: &str = "the process that reads on the host has died";

/// A process that reads the sources of copies on the host.
pub struct Lender {
    line: Mutex<Line>,
    memory: Lent,
    in_session: bool,
}

/// Sources of a copy.
pub struct Chosen<'l> {
    line: MutexGuard<'l, Line>,
    memory: &'l Lent,
    numbers: std::ops::Range<usize>,
    shown: Vec<u8>,
}

impl Lender {
    /// Of one that serves the other end with the same memory and terms.
    pub fn new(socket: UnixStream, memory: Lent, terms: &Terms) -> io::Result<Lender> {
        Ok(Lender {
            line: Mutex::new(Line::new(socket, GONE)?),
            memory,
            in_session: matches!(terms, Terms::Session(_)),
        })
    }

    /// These, of which the first has this number among those of the terms. In a session
    /// they have no numbers yet.
    pub fn choose(&self, wanted: &Wanted, first: usize) -> Result<Chosen<'_>, Errno> {
        let mut line = self.line.lock().unwrap_or_else(|e| e.into_inner());
        let first = match self.in_session {
            true => {
                line.say(&mut said_of(wanted), None, || {}).map_err(errno)?;
                0
            }
            false => first,
        };
        self.memory.begin();
        Ok(Chosen {
            line,
            memory: &self.memory,
            numbers: first..first + wanted.sources.len(),
            shown: wanted
                .sources
                .first()
                .map_or(Vec::new(), |s| s.shown.clone()),
        })
    }
}

fn said_of(wanted: &Wanted) -> Vec<u8> {
    let mut message = Vec::new();
    wire::begin(&mut message, ToLender::Wanted as u32);
    message.byte(match wanted.sparse {
        SparseMode::Auto => 0,
        SparseMode::Always => 1,
        SparseMode::Never => 2,
    });
    message.number(wanted.excludes.len() as u32);
    for pattern in &wanted.excludes {
        message.string(pattern.as_bytes());
    }
    for named in &wanted.sources {
        message.string(&absolute(&named.path));
        message.string(&named.shown);
        message.byte(named.follow.into());
    }
    message
}

/// A session may be elsewhere than it was when the lender began.
fn absolute(path: &[u8]) -> Vec<u8> {
    match std::env::current_dir() {
        Ok(here) if !path.starts_with(b"/") => [here.as_os_str().as_bytes(), b"/", path].concat(),
        _ => path.to_vec(),
    }
}

fn wrong(_: Malformed) -> Errno {
    Errno(libc::EPROTO)
}

impl Chosen<'_> {
    /// Whether the first one is a directory.
    pub fn is_directory(&mut self) -> Result<bool, Errno> {
        let mut message = Vec::new();
        wire::begin(&mut message, ToLender::Look as u32);
        message.number(self.numbers.start as u32);
        let answer = self.line.ask(message, FromGofer::Seen).map_err(errno)?;
        let mut take = Take::new(&answer);
        let seen = take.number().and_then(|error| Ok((error, take.flag()?)));
        match seen.map_err(wrong)? {
            (0, is_dir) => Ok(is_dir),
            (error, _) => Err(Errno(error as i32)),
        }
    }

    /// Opens them all; the copy of one is called `to`. Which of them could not be, counted
    /// from 0, and why.
    pub fn open(&mut self, to: Option<&CStr>) -> Result<(), (usize, Errno)> {
        let mut message = Vec::new();
        wire::begin(&mut message, ToLender::Open as u32);
        message.string(to.map_or(b"", CStr::to_bytes));
        for number in self.numbers.clone() {
            message.number(number as u32);
        }
        let answer = self.line.ask(message, FromGofer::Opened);
        let answer = answer.map_err(|e| (0, errno(e)))?;
        let mut take = Take::new(&answer);
        let opened = take.number().and_then(|error| Ok((error, take.number()?)));
        match opened.map_err(|e| (0, wrong(e)))? {
            (0, _) => Ok(()),
            (error, at) => Err((at as usize, Errno(error as i32))),
        }
    }

    /// Regular files and their bytes: see [`totals`](crate::totals).
    pub fn totals(&mut self, interrupted: impl Fn() -> bool) -> (u64, u64) {
        let mut message = Vec::new();
        wire::begin(&mut message, ToLender::Count as u32);
        wire::seal(&mut message);
        let mut asked = self.line.say(&mut message, None, || {});
        while asked.is_ok() {
            self.memory.set_stop(interrupted());
            match self.line.next() {
                Some((kind, answer)) if kind == FromGofer::Counted as u32 => {
                    let mut take = Take::new(&answer);
                    let counted = take.long().and_then(|files| Ok((files, take.long()?)));
                    return counted.unwrap_or_default();
                }
                Some(_) => break,
                None => asked = self.line.wait(false),
            }
        }
        (0, 0)
    }

    /// Writes all of it.
    pub(crate) fn write(mut self, to: Destination, settings: Settings, report: &dyn Observer) {
        let without_links = !has_links(&to.dir);
        let mut writer = Writer::new(to.dir, &to.shown, report, settings);
        if let Err(e) = self.receive(&mut writer, without_links, report) {
            report.error_text(&self.shown, e.to_string());
        }
        writer.end();
    }

    fn receive(
        &mut self,
        writer: &mut Writer,
        without_links: bool,
        report: &dyn Observer,
    ) -> io::Result<()> {
        const SAID: u32 = FromGofer::Said as u32;
        const BATCH: u32 = FromGofer::Batch as u32;
        const ENDED: u32 = FromGofer::Ended as u32;
        let mut message = Vec::new();
        wire::begin(&mut message, ToLender::Read as u32);
        message.byte(without_links.into());
        self.line.say(&mut message, None, || {})?;
        let (mut ops, mut begun) = (Vec::new(), 0);
        loop {
            self.memory.set_stop(report.interrupted());
            let Some((kind, mut said)) = self.line.next() else {
                report.update_progress();
                self.line.wait(false)?;
                continue;
            };
            match kind {
                SAID => said::tell(&said, report).map_err(|_| self.line.gone())?,
                BATCH => {
                    let batch = self.batch(&mut said, ops).map_err(|_| self.line.gone())?;
                    if !writer.fatal {
                        writer.perform(&batch, || report.interrupted());
                    }
                    begun += begins(&batch);
                    ops = batch.into_buffers().0;
                    self.tell(writer.fatal, begun, report);
                    wire::begin(&mut message, ToLender::Free as u32);
                    self.line.say(&mut message, None, || {})?;
                }
                ENDED => return Ok(()),
                _ => return Err(self.line.gone()),
            }
        }
    }

    fn batch(&self, said: &mut Vec<u8>, ops: Vec<Op>) -> wire::Result<Batch> {
        let slot = Take::new(said).number()? as usize;
        if slot >= BATCHES {
            return Err(Malformed);
        }
        let script = said.split_off(size_of::<u32>());
        let batch = script::read(script, ops, self.memory.slot(slot), |_| None)?;
        Ok(batch.settled())
    }

    /// What is no longer wanted.
    fn tell(&self, fatal: bool, begun: u64, report: &dyn Observer) {
        self.memory.set_stopped(report.has_stopped());
        if fatal {
            self.memory.set_over();
        }
        if let Some(number) = NonZeroU64::new(begun) {
            if report.has_given_up(number) {
                self.memory.give_up(number);
            }
        }
    }
}

/// How many files begin in it whose contents come in pieces.
fn begins(batch: &Batch) -> u64 {
    let begins = batch.ops.iter().filter(|op| matches!(op, Op::Begin(_)));
    begins.count() as u64
}
