//! What the reader tells the writer: a stream of small operations, many to a
//! batch, with their names, attributes and data in one buffer. Batches go back
//! and forth between the two threads and are never freed in between.

use super::sharing::Shares;
use crate::sys::{Errno, Stat, Xattrs};
use std::ffi::CStr;
use std::sync::mpsc::{Receiver, SyncSender};
use tane::images::{HostRange, HostReads};

/// Data per batch, and so per read and write of a large file.
pub const DATA: usize = 1 << 20;
/// Room beside the data, so that a whole piece fits behind what is there.
const MARGIN: usize = 64 << 10;
const MAX_OPS: usize = 512;
/// Batches under way; with DATA this bounds the memory of a copy.
pub const BATCHES: usize = 6;

/// A range of the batch's buffer.
#[derive(Clone, Copy, Default)]
pub struct Span {
    start: usize,
    end: usize,
}

impl Span {
    /// The bytes from `start` on, up to `end`, of those in it.
    pub fn part(self, start: usize, end: usize) -> Span {
        Span {
            start: self.start + start,
            end: self.end.min(self.start + end),
        }
    }
}

/// Identifies a file with several names.
pub type LinkId = u32;

/// What every new file brings along.
#[derive(Clone, Copy)]
pub struct Head {
    pub name: Span,
    pub xattrs: Span,
    pub stat: Stat,
    /// Further names of the same file may follow.
    pub link: Option<LinkId>,
}

pub enum Op {
    /// Enter a directory, creating it if need be.
    Enter(Head),
    /// Enter a directory that keeps its attributes, or gets those of a new one.
    Pass(Span),
    /// The directory that is already there gets these attributes in the end.
    Adopt(Head),
    Leave,
    /// A file whose data is all here.
    File(Head, Span),
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
    Piece(u64, Span),
    /// A piece that is in a file of the host.
    Range(u64, HostRange),
    /// How long the file is, which was not known before.
    Length(u64),
    End,
    /// The rest of the file cannot be read.
    Abort,
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
    buffer: Vec<u8>,
    used: usize,
}

impl Batch {
    fn new() -> Self {
        Batch {
            ops: Vec::with_capacity(MAX_OPS),
            buffer: vec![0; DATA + MARGIN],
            used: 0,
        }
    }

    fn clear(&mut self) {
        self.ops.clear();
        self.used = 0;
    }

    pub fn bytes(&self, span: Span) -> &[u8] {
        &self.buffer[span.start..span.end]
    }

    pub fn name(&self, span: Span) -> &CStr {
        CStr::from_bytes_with_nul(self.bytes(span)).unwrap_or_default()
    }

    fn put(&mut self, bytes: &[u8]) -> Span {
        let start = self.used;
        self.used += bytes.len();
        self.buffer[start..self.used].copy_from_slice(bytes);
        Span {
            start,
            end: self.used,
        }
    }
}

/// The reader's end.
pub struct Sender {
    batch: Batch,
    later: HostReads,
    full: SyncSender<Batch>,
    empty: Receiver<Batch>,
    made: usize,
    begun: u64,
}

/// The writer has stopped: no use in going on.
pub struct Stopped;

impl Sender {
    pub fn new(full: SyncSender<Batch>, empty: Receiver<Batch>) -> Self {
        Sender {
            batch: Batch::new(),
            later: HostReads::default(),
            full,
            empty,
            made: 1,
            begun: 0,
        }
    }

    /// Makes sure `bytes` fit into the current batch.
    pub fn reserve(&mut self, bytes: usize) -> Result<(), Stopped> {
        let full = self.batch.used + bytes > self.batch.buffer.len();
        if full || self.batch.ops.len() >= MAX_OPS {
            self.flush()?;
        }
        if bytes > self.batch.buffer.len() {
            self.batch.buffer.resize(bytes, 0);
        }
        Ok(())
    }

    pub fn flush(&mut self) -> Result<(), Stopped> {
        if self.batch.ops.is_empty() {
            return Ok(());
        }
        self.fill();
        let mut next = match self.empty.try_recv() {
            Ok(batch) => batch,
            Err(_) if self.made < BATCHES => {
                self.made += 1;
                Batch::new()
            }
            Err(_) => self.empty.recv().map_err(|_| Stopped)?,
        };
        next.clear();
        let batch = std::mem::replace(&mut self.batch, next);
        self.full.send(batch).map_err(|_| Stopped)
    }

    /// Reads what `file_later` put off.
    fn fill(&mut self) {
        for (op, errno) in self.later.read(&mut self.batch.buffer) {
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

    pub fn put(&mut self, bytes: &[u8]) -> Span {
        self.batch.put(bytes)
    }

    /// Free space to read into; `take` then says how much of it was used.
    pub fn space(&mut self, size: usize) -> &mut [u8] {
        let at = self.batch.used;
        &mut self.batch.buffer[at..at + size]
    }

    pub fn take(&mut self, size: usize) -> Span {
        let start = self.batch.used;
        self.batch.used += size;
        Span {
            start,
            end: self.batch.used,
        }
    }

    pub fn push(&mut self, op: Op) {
        self.begun += u64::from(matches!(op, Op::Begin(_)));
        self.batch.ops.push(op);
    }

    /// The number of the file whose pieces are being sent.
    pub fn begun(&self) -> u64 {
        self.begun
    }
}
