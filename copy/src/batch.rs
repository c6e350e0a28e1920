//! What the reader tells the writer: a stream of small operations, many to a
//! batch, with their names and attributes in one buffer and their data in another.
//! Batches go back and forth between the two and are never freed in between.

use super::observer::Observer;
use super::room::{Content, Room};
use super::sharing::Shares;
use std::ffi::CStr;
use std::num::NonZeroU64;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::time::{Duration, Instant};
use tane::images::{HostRange, HostReads};
use tane_linux::{Errno, Stat, Xattrs};

/// Data per batch, and so per read and write of a large file.
pub const DATA: usize = 1 << 20;
/// Room beside the data, so that a whole piece fits behind what is there.
const MARGIN: usize = 64 << 10;
/// Data, names and attributes of a batch, unless one file alone has more.
pub const ROOM: usize = DATA + MARGIN;
pub const MAX_OPS: usize = 512;
/// Batches under way; with DATA this bounds the memory of a copy.
pub const BATCHES: usize = 6;

/// A range of the batch's names and attributes.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Span {
    /// Its first byte.
    pub start: usize,
    /// Behind its last byte.
    pub end: usize,
}

/// A range of the batch's data.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Part {
    /// Its first byte.
    pub start: usize,
    /// Behind its last byte.
    pub end: usize,
}

impl Part {
    /// The bytes from `start` on, up to `end`, of those in it.
    pub fn part(self, start: usize, end: usize) -> Part {
        Part {
            start: self.start + start,
            end: self.end.min(self.start + end),
        }
    }

    /// In bytes.
    pub fn size(self) -> usize {
        self.end - self.start
    }
}

/// Identifies a file with several names.
pub type LinkId = u32;

/// What every new file brings along.
#[derive(Clone, Copy)]
pub struct Head {
    /// In the directory at hand.
    pub name: Span,
    /// Names and values.
    pub xattrs: Span,
    /// Mode, owner, times and the like.
    pub stat: Stat,
    /// Further names of the same file may follow.
    pub link: Option<LinkId>,
}

/// What the writer does next.
pub enum Op {
    /// Enter a directory, creating it if need be.
    Enter(Head),
    /// Enter a directory that keeps its attributes, or gets those of a new one.
    Pass(Span),
    /// The directory that is already there gets these attributes in the end.
    Adopt(Head),
    /// The directory at hand is complete.
    Leave,
    /// A file whose data is all here.
    File(Head, Part),
    /// A file whose data turned out not to be there.
    Unreadable(Span, Errno),
    /// Something that came when nothing more was written.
    Omit(Span),
    /// A file whose data follows as pieces, up to `End` or `Abort`.
    Begin(Head),
    /// Before `Begin`, for those who asked: where the pieces will be, pairs of
    /// start and length.
    Map(Span),
    /// All of a file, by a descriptor of it that is the writer's to close: both are
    /// of one kernel.
    Clone(i32),
    /// Before `Begin`: blocks of that file belong to others as well.
    Shares(Box<Shares>),
    /// Data of the file that was begun, at this place of it.
    Piece(u64, Part),
    /// A piece that is in a file of the host.
    Range(u64, HostRange),
    /// How long the file is, which was not known before.
    Length(u64),
    /// The file that was begun is complete.
    End,
    /// The rest of the file cannot be read.
    Abort,
    /// A symlink, and where it leads.
    Symlink(Head, Span),
    /// A device, fifo or socket.
    Node(Head),
    /// A further name.
    Link(Span, LinkId),
    /// A further name of what is at this path below the destination.
    LinkTo(Span, Span),
}

pub struct Batch {
    pub ops: Vec<Op>,
    notes: Vec<u8>,
    room: Room,
    /// Bytes of the room.
    used: usize,
}

impl Batch {
    /// One to be filled.
    pub fn new(room: Room) -> Self {
        Batch {
            ops: Vec::with_capacity(MAX_OPS),
            notes: Vec::new(),
            room,
            used: 0,
        }
    }

    /// One that came from elsewhere. The spans of `ops` are within `notes`, and their
    /// parts within the room.
    pub fn of(ops: Vec<Op>, notes: Vec<u8>, room: Room) -> Self {
        Batch {
            ops,
            notes,
            room,
            used: 0,
        }
    }

    /// Of data that nobody writes any more.
    pub fn settled(mut self) -> Self {
        if let Room::Theirs(shared) = self.room {
            self.room = Room::Borrowed(shared);
        }
        self
    }

    /// Its buffers, to be used again.
    pub fn into_buffers(self) -> (Vec<Op>, Vec<u8>) {
        (self.ops, self.notes)
    }

    pub fn clear(&mut self) {
        self.ops.clear();
        self.notes.clear();
        self.used = 0;
    }

    /// Where the data goes that is still to come.
    pub fn set_room(&mut self, room: Room) {
        self.room = room;
    }

    pub fn bytes(&self, span: Span) -> &[u8] {
        &self.notes[span.start..span.end]
    }

    pub fn data(&self, part: Part) -> Content<'_> {
        self.room.content(part)
    }

    pub fn name(&self, span: Span) -> &CStr {
        CStr::from_bytes_with_nul(self.bytes(span)).unwrap_or_default()
    }

    fn put(&mut self, bytes: &[u8]) -> Span {
        let start = self.notes.len();
        self.notes.extend_from_slice(bytes);
        Span {
            start,
            end: self.notes.len(),
        }
    }

    fn is_full(&self, bytes: usize) -> bool {
        self.notes.len() + self.used + bytes > ROOM || self.ops.len() >= MAX_OPS
    }
}

/// How batches reach whoever writes them.
pub trait Carrier {
    /// The first one to be filled.
    fn first(&mut self) -> Batch;

    /// Hands the batch over, and leaves an empty one in its place.
    fn exchange(&mut self, batch: &mut Batch) -> Result<(), Stopped>;
}

/// How often the thread that asked for a copy looks whether somebody wants to end it: where
/// signals are the affair of one thread, as in Python, it is that one.
const LOOK: Duration = Duration::from_millis(50);

/// What comes next; `look` is called while nothing does. None: nothing will.
pub fn next<T>(from: &Receiver<T>, look: impl Fn()) -> Option<T> {
    loop {
        match from.recv_timeout(LOOK) {
            Ok(batch) => return Some(batch),
            Err(RecvTimeoutError::Timeout) => look(),
            Err(RecvTimeoutError::Disconnected) => return None,
        }
    }
}

/// To another thread and back.
struct Channels<'c> {
    full: SyncSender<Batch>,
    empty: Receiver<Batch>,
    made: usize,
    /// Who is to be asked by this thread, and was then.
    asked: Option<(&'c dyn Observer, Instant)>,
}

impl Channels<'_> {
    fn look(&mut self) {
        if let Some((report, last)) = &mut self.asked {
            if last.elapsed() >= LOOK {
                report.update_progress();
                *last = Instant::now();
            }
        }
    }
}

impl Carrier for Channels<'_> {
    fn first(&mut self) -> Batch {
        self.made += 1;
        Batch::new(Room::own(ROOM))
    }

    fn exchange(&mut self, batch: &mut Batch) -> Result<(), Stopped> {
        self.look();
        let asked = self.asked.map(|(report, _)| report);
        let look = || asked.into_iter().for_each(Observer::update_progress);
        let mut empty = match self.empty.try_recv() {
            Ok(batch) => batch,
            Err(_) if self.made < BATCHES => self.first(),
            Err(_) => next(&self.empty, look).ok_or(Stopped)?,
        };
        empty.clear();
        let full = std::mem::replace(batch, empty);
        self.full.send(full).map_err(|_| Stopped)
    }
}

/// The reader's end, by channels.
pub type Sender = SenderBy<'static>;

/// The reader's end.
pub struct SenderBy<'c> {
    batch: Batch,
    later: HostReads,
    carrier: Box<dyn Carrier + 'c>,
    begun: u64,
    /// The pieces of the last one are still coming.
    is_inside: bool,
}

/// The writer has stopped: no use in going on.
pub struct Stopped;

impl Sender {
    /// To another thread, which sends emptied batches back.
    pub fn new(full: SyncSender<Batch>, empty: Receiver<Batch>) -> Self {
        SenderBy::carrier(Channels {
            full,
            empty,
            made: 0,
            asked: None,
        })
    }
}

impl<'c> SenderBy<'c> {
    /// From the thread that asked for the copy to another one.
    pub fn of_caller(
        full: SyncSender<Batch>,
        empty: Receiver<Batch>,
        report: &'c dyn Observer,
    ) -> Self {
        SenderBy::carrier(Channels {
            full,
            empty,
            made: 0,
            asked: Some((report, Instant::now())),
        })
    }
}

impl<'c> SenderBy<'c> {
    /// To whom this carries them.
    pub fn carrier(mut carrier: impl Carrier + 'c) -> Self {
        SenderBy {
            batch: carrier.first(),
            later: HostReads::default(),
            carrier: Box::new(carrier),
            begun: 0,
            is_inside: false,
        }
    }

    /// Makes sure `bytes` fit into the current batch, of which DATA at most are data.
    pub fn reserve(&mut self, bytes: usize) -> Result<(), Stopped> {
        match self.batch.is_full(bytes) {
            true => self.flush(),
            false => Ok(()),
        }
    }

    /// Hands over what there is.
    pub fn flush(&mut self) -> Result<(), Stopped> {
        if self.batch.ops.is_empty() {
            // What was put for something that failed then.
            self.batch.clear();
            return Ok(());
        }
        self.fill();
        self.carrier.exchange(&mut self.batch)
    }

    /// Reads what `file_later` put off.
    fn fill(&mut self) {
        for (op, errno) in self.later.read(self.batch.room.bytes()) {
            if let Op::File(head, _) = &self.batch.ops[op] {
                self.batch.ops[op] = Op::Unreadable(head.name, Errno(errno));
            }
        }
    }

    /// A small file whose data the host has; it is read with others, before the
    /// batch is sent. Room must be reserved.
    pub fn file_later(&mut self, head: Head, range: HostRange) {
        let data = self.take(range.len as usize);
        self.later.add(range, data.start, self.batch.ops.len());
        self.push(Op::File(head, data));
    }

    /// Puts a head's name and attributes; room must be reserved.
    pub fn head(&mut self, name: &CStr, stat: Stat, xattrs: &Xattrs, link: Option<LinkId>) -> Head {
        let name = self.batch.put(name.to_bytes_with_nul());
        let xattrs = self.batch.put(&xattrs.portable());
        Head {
            name,
            xattrs,
            stat,
            link,
        }
    }

    /// How much `head` will need.
    pub fn head_size(name: &CStr, xattrs: &Xattrs) -> usize {
        name.to_bytes_with_nul().len() + xattrs.packed.len()
    }

    /// Puts a name, or what belongs to one; room must be reserved.
    pub fn put(&mut self, bytes: &[u8]) -> Span {
        self.batch.put(bytes)
    }

    /// Free space to read into; `take` then says how much of it was used.
    pub fn space(&mut self, size: usize) -> &mut [u8] {
        let at = self.batch.used;
        &mut self.batch.room.bytes()[at..at + size]
    }

    /// So many bytes of that space are data.
    pub fn take(&mut self, size: usize) -> Part {
        let start = self.batch.used;
        self.batch.used += size;
        Part {
            start,
            end: self.batch.used,
        }
    }

    /// What is to be done next.
    pub fn push(&mut self, op: Op) {
        match op {
            Op::Begin(_) => (self.begun, self.is_inside) = (self.begun + 1, true),
            Op::End | Op::Abort => self.is_inside = false,
            _ => {}
        }
        self.batch.ops.push(op);
    }

    /// Whether whoever writes has given up the file whose pieces are being sent, if any
    /// is: of what comes before its beginning nothing was given up.
    pub fn is_given_up(&self, report: &dyn Observer) -> bool {
        let number = NonZeroU64::new(self.begun).filter(|_| self.is_inside);
        number.is_some_and(|number| report.has_given_up(number))
    }
}
