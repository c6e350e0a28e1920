//! The operations of a batch as a message, without their data, which is in shared
//! memory. Of what a reader can say, only what copies by two processes take.

use super::super::batch::{Batch, Head, Op, Part, Span};
use super::super::room::{Room, Shared};
use super::super::sharing::{Shares, Twin};
use super::wire::{Malformed, Put, Result, Take};
use std::ffi::CStr;
use std::fs::File;
use std::sync::Arc;
use tane::images::HostRange;
use tane_linux::{is_safe_name, Errno, Flags, Stat, Time};

/// Operations of one batch, at most; its sender counts to 512 and lets a file's pieces
/// follow.
const MOST: usize = 4096;
/// Offsets and lengths are less than this.
const LONGEST: u64 = i64::MAX as u64;

mod tag {
    pub const ENTER: u8 = 1;
    pub const ADOPT: u8 = 2;
    pub const LEAVE: u8 = 3;
    pub const FILE: u8 = 4;
    pub const UNREADABLE: u8 = 5;
    pub const OMIT: u8 = 6;
    pub const BEGIN: u8 = 7;
    pub const SHARES: u8 = 8;
    pub const PIECE: u8 = 9;
    pub const RANGE: u8 = 10;
    pub const END: u8 = 11;
    pub const ABORT: u8 = 12;
    pub const SYMLINK: u8 = 13;
    pub const NODE: u8 = 14;
    pub const LINK: u8 = 15;
}

/// Writes all of a batch but its data. `number` is what a file of the host is called by.
/// False: there is an operation that is not for a gofer.
pub fn write(batch: &Batch, out: &mut Vec<u8>, mut number: impl FnMut(&Arc<File>) -> u32) -> bool {
    for op in &batch.ops {
        match op {
            Op::Enter(head) => put_head(out, tag::ENTER, batch, head),
            Op::Adopt(head) => put_head(out, tag::ADOPT, batch, head),
            Op::Leave => out.byte(tag::LEAVE),
            Op::File(head, data) => {
                put_head(out, tag::FILE, batch, head);
                put_part(out, *data);
            }
            Op::Unreadable(name, error) => {
                out.byte(tag::UNREADABLE);
                out.string(batch.bytes(*name));
                out.number(error.0 as u32);
            }
            Op::Omit(name) => {
                out.byte(tag::OMIT);
                out.string(batch.bytes(*name));
            }
            Op::Begin(head) => put_head(out, tag::BEGIN, batch, head),
            Op::Shares(shares) => put_shares(out, shares),
            Op::Piece(at, data) => {
                out.byte(tag::PIECE);
                out.long(*at);
                put_part(out, *data);
            }
            Op::Range(at, range) => {
                out.byte(tag::RANGE);
                out.long(*at);
                out.number(number(&range.file));
                out.long(range.offset);
                out.long(range.len);
            }
            Op::End => out.byte(tag::END),
            Op::Abort => out.byte(tag::ABORT),
            Op::Symlink(head, target) => {
                put_head(out, tag::SYMLINK, batch, head);
                out.string(batch.bytes(*target));
            }
            Op::Node(head) => put_head(out, tag::NODE, batch, head),
            Op::Link(name, id) => {
                out.byte(tag::LINK);
                out.string(batch.bytes(*name));
                out.number(*id);
            }
            Op::Pass(_) | Op::Map(_) | Op::Clone(_) | Op::Length(_) | Op::LinkTo(..) => {
                return false;
            }
        }
    }
    true
}

fn put_part(out: &mut Vec<u8>, part: Part) {
    out.number(part.start as u32);
    out.number(part.size() as u32);
}

fn put_shares(out: &mut Vec<u8>, shares: &Shares) {
    out.byte(tag::SHARES);
    out.number(shares.file);
    out.number(shares.twins.len() as u32);
    for twin in &shares.twins {
        out.number(twin.file);
        for place in [twin.at, twin.len, twin.from] {
            out.long(place);
        }
    }
}

fn put_head(out: &mut Vec<u8>, tag: u8, batch: &Batch, head: &Head) {
    let stat = &head.stat;
    out.byte(tag);
    out.string(batch.bytes(head.name));
    out.string(batch.bytes(head.xattrs));
    for number in [stat.mode, stat.uid, stat.gid] {
        out.number(number);
    }
    for number in [stat.rdev, stat.size, stat.blocks] {
        out.long(number);
    }
    for time in [stat.atime, stat.mtime] {
        out.long(time.sec as u64);
        out.number(time.nsec);
    }
    out.number(stat.flags.bits);
    out.number(stat.flags.project);
    out.byte(head.link.is_some().into());
    out.number(head.link.unwrap_or(0));
}

/// What a message says. `ops` is a buffer, `data` where the data is, and `file` has the
/// host's files by their numbers.
pub fn read(
    message: Vec<u8>,
    mut ops: Vec<Op>,
    data: Shared,
    file: impl Fn(u32) -> Option<Arc<File>>,
) -> Result<Batch> {
    ops.clear();
    let mut script = Script {
        take: Take::new(&message),
        message: &message,
        room: data.len,
    };
    while !script.take.is_done() {
        if ops.len() == MOST {
            return Err(Malformed);
        }
        ops.push(script.op(&file)?);
    }
    Ok(Batch::of(ops, message, Room::Theirs(data)))
}

/// What comes when, over all batches of a copy: a file's contents follow its beginning,
/// and nothing else does before its end.
#[derive(Default)]
pub struct Order {
    is_in_file: bool,
}

impl Order {
    pub fn check(&mut self, batch: &Batch) -> Result<()> {
        for op in &batch.ops {
            let ends = matches!(op, Op::End | Op::Abort);
            let continues = ends || matches!(op, Op::Piece(..) | Op::Range(..));
            if continues != self.is_in_file {
                return Err(Malformed);
            }
            self.is_in_file = matches!(op, Op::Begin(_)) || continues && !ends;
        }
        Ok(())
    }
}

struct Script<'m> {
    take: Take<'m>,
    message: &'m [u8],
    room: usize,
}

impl Script<'_> {
    fn op(&mut self, file: &impl Fn(u32) -> Option<Arc<File>>) -> Result<Op> {
        Ok(match self.take.byte()? {
            tag::ENTER => Op::Enter(self.head()?),
            tag::ADOPT => {
                // The directory has its name; this is the source's.
                self.text()?;
                let name = Span::default();
                Op::Adopt(self.attributes(name)?)
            }
            tag::LEAVE => Op::Leave,
            tag::FILE => Op::File(self.head()?, self.part()?),
            tag::UNREADABLE => Op::Unreadable(self.name()?, self.errno()?),
            tag::OMIT => Op::Omit(self.name()?),
            tag::BEGIN => Op::Begin(self.head()?),
            tag::SHARES => Op::Shares(Box::new(self.shares()?)),
            tag::PIECE => {
                let (at, data) = (self.offset()?, self.part()?);
                within(at, data.size() as u64)?;
                Op::Piece(at, data)
            }
            tag::RANGE => {
                let at = self.offset()?;
                let file = file(self.take.number()?).ok_or(Malformed)?;
                let (offset, len) = (self.offset()?, self.offset()?);
                within(at, len)?;
                within(offset, len)?;
                Op::Range(at, HostRange { file, offset, len })
            }
            tag::END => Op::End,
            tag::ABORT => Op::Abort,
            tag::SYMLINK => Op::Symlink(self.head()?, self.text()?),
            tag::NODE => Op::Node(self.head()?),
            tag::LINK => Op::Link(self.name()?, self.take.number()?),
            _ => return Err(Malformed),
        })
    }

    /// With its NUL, and no other.
    fn text(&mut self) -> Result<Span> {
        let span = self.take.span()?;
        let bytes = &self.message[span.start..span.end];
        CStr::from_bytes_with_nul(bytes).map_err(|_| Malformed)?;
        Ok(span)
    }

    /// Of an entry of a directory: one component, and none that leads elsewhere.
    fn name(&mut self) -> Result<Span> {
        let span = self.text()?;
        match is_safe_name(&self.message[span.start..span.end - 1]) {
            true => Ok(span),
            false => Err(Malformed),
        }
    }

    fn offset(&mut self) -> Result<u64> {
        let number = self.take.long()?;
        within(number, 0)?;
        Ok(number)
    }

    fn errno(&mut self) -> Result<Errno> {
        match self.take.number()? {
            n @ 1..4096 => Ok(Errno(n as i32)),
            _ => Err(Malformed),
        }
    }

    fn part(&mut self) -> Result<Part> {
        let (start, size) = (self.take.number()? as usize, self.take.number()? as usize);
        match start.checked_add(size) {
            Some(end) if end <= self.room => Ok(Part { start, end }),
            _ => Err(Malformed),
        }
    }

    fn shares(&mut self) -> Result<Shares> {
        let (file, count) = (self.take.number()?, self.take.number()?);
        let mut twins = Vec::new();
        for _ in 0..count {
            let file = self.take.number()?;
            let (at, len, from) = (self.offset()?, self.offset()?, self.offset()?);
            within(at, len)?;
            within(from, len)?;
            twins.push(Twin {
                at,
                len,
                file,
                from,
            });
        }
        Ok(Shares { file, twins })
    }

    fn head(&mut self) -> Result<Head> {
        let name = self.name()?;
        self.attributes(name)
    }

    fn attributes(&mut self, name: Span) -> Result<Head> {
        let xattrs = self.take.span()?;
        let take = &mut self.take;
        let [mode, uid, gid] = [take.number()?, take.number()?, take.number()?];
        let [rdev, size, blocks] = [take.long()?, take.long()?, take.long()?];
        within(size, 0)?;
        if blocks > LONGEST / 512 {
            return Err(Malformed);
        }
        let mut time = || {
            Ok(Time {
                sec: take.long()? as i64,
                nsec: take.number()?,
            })
        };
        let (atime, mtime) = (time()?, time()?);
        let flags = Flags {
            bits: take.number()?,
            project: take.number()?,
        };
        let (has_link, link) = (take.flag()?, take.number()?);
        let stat = Stat {
            mode,
            uid,
            gid,
            rdev,
            size,
            blocks,
            atime,
            mtime,
            flags,
            ..Stat::default()
        };
        Ok(Head {
            name,
            xattrs,
            stat,
            link: has_link.then_some(link),
        })
    }
}

fn within(at: u64, len: u64) -> Result<()> {
    match at.checked_add(len) {
        Some(end) if end <= LONGEST => Ok(()),
        _ => Err(Malformed),
    }
}
