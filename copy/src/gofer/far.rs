//! The gofer's end: it writes, and believes nothing that it is told.

use super::super::batch::{Op, BATCHES};
use super::super::site::Site;
use super::super::writer::Writer;
use super::super::{Owner, Settings, SparseMode};
use super::said::{Relay, KINDS};
use super::wire::{self, Malformed, Put, Take, HEADER};
use super::{files, making, script, FromGofer, Guard, Memory, Terms, ToGofer, FILES, LONGEST};
use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use tane_linux::{has_links, Errno, Fd, Host, Root, Sys};

static HOST: Host = Host;

/// Writes what the reader says until that is gone, or says what it never would.
pub fn serve(socket: &File, memory: Memory, terms: Terms, guard: &dyn Guard) -> io::Result<()> {
    memory.only_read()?;
    let mut ear = Ear {
        socket,
        files: vec![None; FILES],
        buffer: Vec::new(),
    };
    let (mut goal, mut made) = (None, None);
    loop {
        match ear.hear()? {
            Word::Look => goal = look(&ear, &terms, goal)?,
            Word::Open => {
                let goal = goal.as_mut().ok_or(Malformed)?;
                copy(&mut ear, &memory, &terms, goal, guard)?;
                // The reader begins to count again.
                ear.files.fill(None);
            }
            Word::Make if made.is_none() => {
                made = making::make(ear.socket, &ear.buffer, &terms)?;
            }
            Word::Finish => making::finish(ear.socket, &ear.buffer, made.take())?,
            Word::File | Word::Batch | Word::End | Word::Make => return Err(Malformed.into()),
        }
    }
}

impl From<Malformed> for io::Error {
    fn from(_: Malformed) -> Self {
        io::ErrorKind::InvalidData.into()
    }
}

/// What was heard; the rest of it is in the buffer.
enum Word {
    Look,
    Open,
    File,
    Batch,
    End,
    Make,
    Finish,
}

struct Ear<'s> {
    socket: &'s File,
    files: Vec<Option<Arc<File>>>,
    buffer: Vec<u8>,
}

impl Ear<'_> {
    /// The next message. A file is taken at once.
    fn hear(&mut self) -> io::Result<Word> {
        loop {
            match self.message()? {
                Word::File => {}
                word => return Ok(word),
            }
        }
    }

    fn message(&mut self) -> io::Result<Word> {
        let (mut header, mut got, mut handed) = ([0; HEADER], 0, None);
        while got < HEADER {
            let (n, fd) = files::receive(self.socket, &mut header[got..])?;
            if n == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            got += n;
            handed = fd.or(handed);
        }
        let (kind, length) = wire::header(header);
        if length > LONGEST {
            return Err(Malformed.into());
        }
        self.buffer.clear();
        let rest = self.socket.take(length as u64);
        if { rest }.read_to_end(&mut self.buffer)? != length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        const LOOK: u32 = ToGofer::Look as u32;
        const OPEN: u32 = ToGofer::Open as u32;
        const FILE: u32 = ToGofer::File as u32;
        const BATCH: u32 = ToGofer::Batch as u32;
        const END: u32 = ToGofer::End as u32;
        const MAKE: u32 = ToGofer::Make as u32;
        const FINISH: u32 = ToGofer::Finish as u32;
        Ok(match kind {
            LOOK => Word::Look,
            OPEN => Word::Open,
            FILE => {
                let mut take = Take::new(&self.buffer);
                let number = take.number()? as usize;
                take.end()?;
                let place = self.files.get_mut(number).ok_or(Malformed)?;
                let file = handed.and_then(files::check).ok_or(Malformed)?;
                *place = Some(file);
                Word::File
            }
            BATCH => Word::Batch,
            END => Word::End,
            MAKE => Word::Make,
            FINISH => Word::Finish,
            _ => return Err(Malformed.into()),
        })
    }

    fn answer(&self, kind: FromGofer, fill: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        wire::send(self.socket, kind as u32, fill)
    }
}

/// Where copies go. For a command that is found out once: what a copy has made there must
/// not say where the next one goes.
struct Goal {
    site: Site,
    /// The directory, and the only name in it that is the copy's.
    opened: Option<(Fd<'static>, Option<CString>)>,
}

impl Goal {
    fn open(&mut self) -> Result<(Fd<'static>, Option<CString>), Errno> {
        if self.opened.is_none() {
            let (dir, name) = self.site.aim()?;
            self.opened = Some((Root::host(Sys(&HOST)).open_dir(dir)?, name));
        }
        let (dir, name) = self.opened.as_ref().ok_or(Errno(libc::EBADF))?;
        Ok((dir.sys().duplicate(dir)?, name.clone()))
    }
}

/// Says what is at a path.
fn look(ear: &Ear, terms: &Terms, known: Option<Goal>) -> io::Result<Option<Goal>> {
    let mut take = Take::new(&ear.buffer);
    let path = take.string()?;
    take.end()?;
    if matches!(terms, Terms::Copy { place, .. } if place != path) {
        return Err(Malformed.into());
    }
    let found = || Site::of(&Root::host(Sys(&HOST)), path).map(|site| Goal { site, opened: None });
    let goal = match known.filter(|_| matches!(terms, Terms::Copy { .. })) {
        Some(goal) => Ok(goal),
        None => found(),
    };
    ear.answer(FromGofer::Seen, |m| match &goal {
        Ok(Goal { site, .. }) => {
            let kind = KINDS.iter().position(|kind| Some(*kind) == site.there);
            m.number(0);
            m.byte(kind.map_or(0, |at| at as u8 + 1));
            m.string(&site.target);
        }
        Err(e) => {
            m.number(e.0 as u32);
            m.byte(0);
            m.string(b"");
        }
    })?;
    Ok(goal.ok())
}

fn settings(take: &mut Take) -> wire::Result<Settings> {
    let (keeps, uid, gid) = (take.flag()?, take.number()?, take.number()?);
    Ok(Settings {
        owner: match keeps {
            true => Owner::Keep,
            false => Owner::Fixed { uid, gid },
        },
        sparse: match take.byte()? {
            0 => SparseMode::Auto,
            1 => SparseMode::Always,
            2 => SparseMode::Never,
            _ => return Err(Malformed),
        },
        no_clobber: take.flag()?,
        devices: false,
        duplicates: false,
        empty: false,
        no_umask: true,
    })
}

/// Begins a copy, and writes until its end.
fn copy(
    ear: &mut Ear,
    memory: &Memory,
    terms: &Terms,
    goal: &mut Goal,
    guard: &dyn Guard,
) -> io::Result<()> {
    let mut take = Take::new(&ear.buffer);
    let shown = take.string()?.to_vec();
    let wished = settings(&mut take)?;
    let (guarded, verbose) = (take.flag()?, take.flag()?);
    take.end()?;
    let (settings, names, adopts) = match terms {
        // The guard is that of the command.
        Terms::Copy {
            settings,
            names,
            adopts,
            ..
        } => (*settings, names.clone(), *adopts),
        Terms::Session { .. } => {
            let place = goal.site.aim().ok().filter(|_| guarded);
            let place = place.map(|(dir, _)| Path::new(OsStr::from_bytes(dir)));
            guard.begin(place);
            (wished, None, true)
        }
    };
    let (dir, name) = match goal.open() {
        Ok(opened) => opened,
        Err(e) => {
            return ear.answer(FromGofer::Opened, |m| {
                m.number(e.0 as u32);
                m.byte(0);
            });
        }
    };
    let links = has_links(&dir);
    ear.answer(FromGofer::Opened, |m| {
        m.number(0);
        m.byte(links.into());
    })?;
    let relay = Relay::new(ear.socket, verbose, guard);
    let adopts = adopts && name.is_none();
    let names = name.map(|name| vec![name]).or(names);
    let writer = Writer::new(dir, &shown, &relay, settings).only(names, adopts);
    write(ear, memory, &relay, writer)?;
    ear.answer(FromGofer::Ended, |_| {})
}

fn write(
    ear: &mut Ear,
    memory: &Memory,
    relay: &Relay,
    mut writer: Writer<'static, '_>,
) -> io::Result<()> {
    let mut ops: Vec<Op> = Vec::new();
    let mut order = script::Order::default();
    loop {
        match ear.hear()? {
            Word::Batch => {}
            Word::End => break,
            _ => return Err(Malformed.into()),
        }
        let (slot, script) = ear.buffer.split_first_chunk().ok_or(Malformed)?;
        let slot = u32::from_le_bytes(*slot) as usize;
        if slot >= BATCHES {
            return Err(Malformed.into());
        }
        let script = script.to_vec();
        let file = |number: u32| ear.files.get(number as usize)?.clone();
        let batch = script::read(script, ops, memory.slot(slot), file)?;
        order.check(&batch)?;
        writer.perform(&batch, || memory.is_stopped());
        ops = batch.into_buffers().0;
        relay.flush();
        ear.answer(FromGofer::Done, |_| {})?;
    }
    writer.end();
    relay.flush();
    Ok(())
}
