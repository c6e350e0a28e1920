//! The lender's end: it reads the sources, and believes nothing that it is told.

use super::super::super::batch::{Batch, Carrier, SenderBy, Stopped, BATCHES};
use super::super::super::counts::Counts;
use super::super::super::loss::Loss;
use super::super::super::observer::Observer;
use super::super::super::room::Room;
use super::super::super::source::{is_directory, source};
use super::super::super::{read, totals, Source, SparseMode, What};
use super::super::said::Relay;
use super::super::wire::{self, Malformed, Put, Take, HEADER};
use super::super::{script, FromGofer, Nobody};
use super::{Lent, Named, Terms, ToLender, Wanted, LONGEST, SOURCES};
use crate::patterns::Excludes;
use std::ffi::{CString, OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::num::NonZeroU64;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use tane_linux::{is_safe_name, Errno, Host, Kind, Root, Sys};

static HOST: Host = Host;

/// Reads what the user named until nobody asks, or somebody says what nobody would.
pub fn serve(socket: &File, memory: &Lent, terms: Terms) -> io::Result<()> {
    let (mut wanted, places) = match terms {
        Terms::Copy(wanted) => (wanted, None),
        Terms::Session(places) => (Wanted::default(), Some(places)),
    };
    let mut ear = Ear {
        socket,
        buffer: Vec::new(),
    };
    let mut opened = None;
    loop {
        match ear.hear()? {
            Word::Wanted => {
                // What a command copies was settled before it met an image.
                let places = places.as_deref().ok_or(Malformed)?;
                wanted = of_session(&ear.buffer, places)?;
                opened = None;
            }
            Word::Look => look(&ear, &wanted)?,
            Word::Open => opened = open(&ear, &wanted)?,
            Word::Count => {
                let sources: &Vec<_> = opened.as_ref().ok_or(Malformed)?;
                let excludes = Excludes::new(&wanted.excludes);
                let (files, bytes) = totals(sources, &excludes, || memory.is_stop());
                ear.answer(FromGofer::Counted, |m| {
                    m.long(files);
                    m.long(bytes);
                })?;
            }
            Word::Read => {
                let sources = opened.take().ok_or(Malformed)?;
                send(&mut ear, memory, sources, &wanted)?;
            }
            Word::Free => return Err(Malformed.into()),
        }
    }
}

/// What was heard; the rest of it is in the buffer.
enum Word {
    Wanted,
    Look,
    Open,
    Count,
    Read,
    Free,
}

struct Ear<'s> {
    socket: &'s File,
    buffer: Vec<u8>,
}

impl Ear<'_> {
    fn hear(&mut self) -> io::Result<Word> {
        const WANTED: u32 = ToLender::Wanted as u32;
        const LOOK: u32 = ToLender::Look as u32;
        const OPEN: u32 = ToLender::Open as u32;
        const COUNT: u32 = ToLender::Count as u32;
        const READ: u32 = ToLender::Read as u32;
        const FREE: u32 = ToLender::Free as u32;
        let mut header = [0; HEADER];
        { self.socket }.read_exact(&mut header)?;
        let (kind, length) = wire::header(header);
        if length > LONGEST {
            return Err(Malformed.into());
        }
        self.buffer.clear();
        let rest = self.socket.take(length as u64);
        if { rest }.read_to_end(&mut self.buffer)? != length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(match kind {
            WANTED => Word::Wanted,
            LOOK => Word::Look,
            OPEN => Word::Open,
            COUNT if length == 0 => Word::Count,
            READ => Word::Read,
            FREE if length == 0 => Word::Free,
            _ => return Err(Malformed.into()),
        })
    }

    fn answer(&self, kind: FromGofer, fill: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        wire::send(self.socket, kind as u32, fill)
    }
}

/// What a command of a session says.
fn of_session(message: &[u8], places: &[PathBuf]) -> wire::Result<Wanted> {
    let mut take = Take::new(message);
    let sparse = match take.byte()? {
        0 => SparseMode::Auto,
        1 => SparseMode::Always,
        2 => SparseMode::Never,
        _ => return Err(Malformed),
    };
    let mut excludes = Vec::new();
    for _ in 0..take.number()? {
        excludes.push(OsString::from_vec(take.string()?.to_vec()));
    }
    let mut sources = Vec::new();
    while !take.is_done() {
        let (path, shown) = (take.string()?.to_vec(), take.string()?.to_vec());
        let follow = take.flag()?;
        let named = Named {
            path,
            shown,
            follow,
        };
        match is_given(&named, places) {
            true => sources.push(named),
            // It keeps its number, and leads nowhere.
            false => sources.push(Named {
                path: Vec::new(),
                ..named
            }),
        }
    }
    Ok(Wanted {
        sources,
        excludes,
        sparse,
    })
}

/// Whether it is in one of the places that a session was given. The jail says so too.
fn is_given(named: &Named, places: &[PathBuf]) -> bool {
    let path = Path::new(OsStr::from_bytes(&named.path));
    let whole = named.follow || named.path.ends_with(b"/") || named.path.ends_with(b"/.");
    let full = match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) if !whole => {
            parent.canonicalize().map(|parent| parent.join(name))
        }
        _ => path.canonicalize(),
    };
    let is_in = |place: &PathBuf| {
        let (full, place) = (full.as_ref().ok(), place.canonicalize().ok());
        full.zip(place)
            .is_some_and(|(full, place)| full.starts_with(place))
    };
    path.is_absolute() && places.iter().any(is_in)
}

/// The source that a number means.
fn by_number<'w>(take: &mut Take, wanted: &'w Wanted) -> wire::Result<&'w Named> {
    let number = take.number()? as usize;
    wanted.sources.get(number).ok_or(Malformed)
}

fn root() -> Root<'static> {
    Root::host(Sys(&HOST))
}

/// The path of a source; none if it is of no place that was given.
fn path(named: &Named) -> Result<&[u8], Errno> {
    match &named.path[..] {
        b"" => Err(Errno(libc::EACCES)),
        path => Ok(path),
    }
}

fn look(ear: &Ear, wanted: &Wanted) -> io::Result<()> {
    let mut take = Take::new(&ear.buffer);
    let named = by_number(&mut take, wanted)?;
    take.end()?;
    let seen = path(named).and_then(|path| is_directory(&root(), path, named.follow));
    ear.answer(FromGofer::Seen, |m| {
        m.number(seen.map_or_else(|e| e.0 as u32, |_| 0));
        m.byte(seen.unwrap_or(false).into());
    })
}

/// Opens sources, and says which could not be, the first of them.
fn open(ear: &Ear, wanted: &Wanted) -> io::Result<Option<Vec<Source<'static>>>> {
    let mut take = Take::new(&ear.buffer);
    let to = match take.string()? {
        b"" => None,
        name if is_safe_name(name) => Some(CString::new(name).map_err(|_| Malformed)?),
        _ => return Err(Malformed.into()),
    };
    let mut sources = Vec::new();
    let mut wrong = None;
    while !take.is_done() {
        let named = by_number(&mut take, wanted)?;
        if sources.len() == SOURCES {
            return Err(Malformed.into());
        }
        let shown = named.shown.clone();
        let opened =
            path(named).and_then(|path| source(&root(), path, shown, to.as_deref(), named.follow));
        match opened {
            Ok(opened) => sources.push(opened),
            Err(e) => {
                wrong = Some((sources.len(), e));
                break;
            }
        }
    }
    ear.answer(FromGofer::Opened, |m| {
        let (at, error) = wrong.unwrap_or((0, Errno(0)));
        m.number(error.0 as u32);
        m.number(at as u32);
    })?;
    Ok(wrong.is_none().then_some(sources))
}

/// Sends all of the sources.
fn send(
    ear: &mut Ear,
    memory: &Lent,
    sources: Vec<Source<'static>>,
    wanted: &Wanted,
) -> io::Result<()> {
    let mut take = Take::new(&ear.buffer);
    let without_links = take.flag()?;
    take.end()?;
    let report = Report {
        relay: Relay::new(ear.socket, false, &Nobody),
        memory,
    };
    let excludes = Excludes::new(&wanted.excludes);
    let what = What {
        sources,
        excludes: &excludes,
        host_blocks: None,
    };
    let mut trouble = Ok(());
    let carrier = Slots {
        ear,
        memory,
        relay: &report.relay,
        message: Vec::new(),
        slot: 0,
        under_way: 0,
        trouble: &mut trouble,
    };
    let sender = SenderBy::carrier(carrier);
    read(what, sender, None, without_links, wanted.sparse, &report);
    report.relay.flush();
    trouble?;
    ear.answer(FromGofer::Ended, |_| {})
}

/// Carries batches to the writer.
struct Slots<'c, 's, 'e> {
    ear: &'e mut Ear<'s>,
    memory: &'c Lent,
    relay: &'c Relay<'c>,
    message: Vec<u8>,
    /// That of the batch at hand.
    slot: usize,
    /// Batches that were sent and are not written.
    under_way: usize,
    /// Why nobody hears.
    trouble: &'e mut io::Result<()>,
}

impl Slots<'_, '_, '_> {
    fn send(&mut self, batch: &Batch) -> io::Result<()> {
        self.relay.flush();
        wire::begin(&mut self.message, FromGofer::Batch as u32);
        self.message.number(self.slot as u32);
        let is_all = script::write(batch, &mut self.message, |_| 0);
        debug_assert!(is_all, "of the host's files there are no others");
        wire::seal(&mut self.message);
        { self.ear.socket }.write_all(&self.message)?;
        self.under_way += 1;
        self.slot = (self.slot + 1) % BATCHES;
        // Its data is still read.
        while self.under_way == BATCHES {
            self.written()?;
        }
        Ok(())
    }

    /// Waits until a batch is.
    fn written(&mut self) -> io::Result<()> {
        match self.ear.hear()? {
            Word::Free => self.under_way -= 1,
            _ => return Err(Malformed.into()),
        }
        Ok(())
    }
}

impl Carrier for Slots<'_, '_, '_> {
    fn first(&mut self) -> Batch {
        Batch::new(Room::Lent(self.memory.slot(self.slot)))
    }

    fn exchange(&mut self, batch: &mut Batch) -> Result<(), Stopped> {
        let sent = match &self.trouble {
            Ok(()) if !self.memory.is_over() => self.send(batch),
            _ => return Err(Stopped),
        };
        batch.clear();
        batch.set_room(Room::Lent(self.memory.slot(self.slot)));
        sent.map_err(|e| {
            *self.trouble = Err(e);
            Stopped
        })
    }
}

impl Drop for Slots<'_, '_, '_> {
    /// What the writer says of this copy is heard in this copy.
    fn drop(&mut self) {
        while self.under_way > 0 && self.trouble.is_ok() {
            if let Err(e) = self.written() {
                *self.trouble = Err(e);
            }
        }
    }
}

/// Who is told what cannot be read, and says what is no longer wanted.
struct Report<'s> {
    relay: Relay<'s>,
    memory: &'s Lent,
}

impl Observer for Report<'_> {
    fn interrupted(&self) -> bool {
        self.memory.is_stop()
    }

    fn has_stopped(&self) -> bool {
        self.memory.has_stopped()
    }

    fn has_given_up(&self, number: NonZeroU64) -> bool {
        self.memory.has_given_up(number)
    }

    fn lose(&self, loss: Loss, path: &[u8], detail: &[u8], error: Errno) {
        self.relay.lose(loss, path, detail, error);
    }

    fn error(&self, path: &[u8], error: Errno) {
        self.relay.error(path, error);
    }

    fn unreadable(&self, path: &[u8], error: Errno) {
        self.relay.unreadable(path, error);
    }

    fn failed(&self, path: &[u8], text: String, error: Option<Errno>) {
        self.relay.failed(path, text, error);
    }

    fn done(&self, kind: Kind, path: &[u8]) {
        self.relay.done(kind, path);
    }

    fn linked(&self, path: &[u8]) {
        self.relay.linked(path);
    }

    fn skip(&self) {
        self.relay.skip();
    }

    fn wrote(&self, bytes: u64) {
        self.relay.wrote(bytes);
    }

    fn read_by_host(&self, bytes: u64) {
        self.relay.read_by_host(bytes);
    }

    fn stop(&self, why: Errno) {
        self.relay.stop(why);
    }

    fn untried(&self, path: &[u8]) {
        self.relay.untried(path);
    }

    fn give_up(&self, number: NonZeroU64) {
        self.relay.give_up(number);
    }

    fn update_progress(&self) {}

    fn count(&self, counts: &Counts) {
        self.relay.count(counts);
    }
}
