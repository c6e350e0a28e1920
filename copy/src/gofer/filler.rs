//! A new file system that another process fills: that one has Linux and the new disk, and
//! opens nothing; this one reads what goes in and has no Linux.
//!
//! ```text
//! reader ── socket: the order, operations ──▶ Linux, the writer
//!   │    ◀── what became of them, how it ended ──  │
//!   └── memory: data, which the writer only reads ─┘
//! ```
//!
//! The writer is told everything and asks nothing. Whoever has taken it over can say that
//! files failed, or that it ended: no name, number or length that it says is used.

use super::super::batch::{Batch, Carrier, SenderBy, Stopped, BATCHES};
use super::super::observer::Observer;
use super::super::room::Room;
use super::super::writer::Writer;
use super::super::{Destination, Settings};
use super::lender::Lent;
use super::line::Line;
use super::said::{self, Relay};
use super::wire::{self, Malformed, Put, Take, HEADER};
use super::{script, FromGofer, Nobody, ToGofer, LONGEST};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::net::UnixStream;

#[cfg(test)]
mod tests;

const GONE: &str = "the process in which Linux writes the image has died";
/// Longest text of a failure, in bytes.
const TEXT: usize = 64 << 10;
/// Longest answer: many losses, with their paths.
const ANSWER: usize = 16 << 20;

/// Why nothing, or not all, was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// As the writer counts: of what kind it is. 0: it is gone.
    pub code: u8,
    /// In words.
    pub text: String,
}

impl From<io::Error> for Refusal {
    fn from(e: io::Error) -> Self {
        Refusal {
            code: 0,
            text: e.to_string(),
        }
    }
}

/// A process that fills one file system.
pub struct Filler {
    line: Line,
    memory: Lent,
}

impl Filler {
    /// Of one that has the other end, and borrows this memory.
    pub fn new(socket: UnixStream, memory: Lent) -> io::Result<Filler> {
        Ok(Filler {
            line: Line::new(socket, GONE)?.up_to(ANSWER),
            memory,
        })
    }

    /// Has it write, as the order says, what `read` sends. All is written, and it is gone,
    /// when this returns.
    pub fn fill(
        mut self,
        order: &[u8],
        report: &dyn Observer,
        read: impl FnOnce(SenderBy<'_>),
    ) -> Result<(), Refusal> {
        let mut sending = Sending {
            line: &mut self.line,
            memory: &self.memory,
            report,
            ended: None,
            slot: 0,
            under_way: 0,
        };
        let begun = sending.begin(order);
        if begun.is_ok() && sending.ended.is_none() {
            read(SenderBy::carrier(&mut sending));
            sending.end();
        }
        let ended = sending.ended.take();
        report.finish();
        begun?;
        ended.unwrap_or_else(|| Err(self.line.gone().into()))
    }
}

/// Sends batches, and tells the report what becomes of them.
struct Sending<'f> {
    line: &'f mut Line,
    memory: &'f Lent,
    report: &'f dyn Observer,
    /// What it came to.
    ended: Option<Result<(), Refusal>>,
    /// That of the batch at hand.
    slot: usize,
    /// Batches that were sent and are not written.
    under_way: usize,
}

impl Sending<'_> {
    fn say(&mut self, kind: ToGofer, fill: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        let (memory, report) = (self.memory, self.report);
        let idle = || memory.set_stop(report.interrupted());
        let mut message = Vec::new();
        wire::begin(&mut message, kind as u32);
        fill(&mut message);
        idle();
        self.line.say(&mut message, None, idle)
    }

    /// Until it is ready, or has ended.
    fn begin(&mut self, order: &[u8]) -> io::Result<()> {
        const OPENED: u32 = FromGofer::Opened as u32;
        self.memory.begin();
        self.say(ToGofer::Open, |m| m.extend_from_slice(order))?;
        loop {
            match self.line.next() {
                Some((OPENED, _)) => return Ok(()),
                Some((kind, message)) => self.answer(kind, &message)?,
                None => self.rest()?,
            }
            if self.ended.is_some() {
                return Ok(());
            }
        }
    }

    fn send(&mut self, batch: &Batch) -> io::Result<()> {
        let slot = self.slot;
        let mut is_all = true;
        self.say(ToGofer::Batch, |m| {
            m.number(slot as u32);
            is_all = script::write(batch, m, |_| 0);
        })?;
        debug_assert!(is_all, "of the host's files there are no others");
        self.under_way += 1;
        self.slot = (self.slot + 1) % BATCHES;
        self.line.hear()?;
        self.answers()?;
        // Its data is still read.
        while self.under_way == BATCHES && self.ended.is_none() {
            self.rest()?;
            self.answers()?;
        }
        Ok(())
    }

    /// Waits a moment for an answer.
    fn rest(&mut self) -> io::Result<()> {
        self.memory.set_stop(self.report.interrupted());
        self.report.update_progress();
        self.line.wait(false)
    }

    fn answers(&mut self) -> io::Result<()> {
        while let Some((kind, message)) = self.line.next() {
            self.answer(kind, &message)?;
        }
        Ok(())
    }

    fn answer(&mut self, kind: u32, message: &[u8]) -> io::Result<()> {
        const SAID: u32 = FromGofer::Said as u32;
        const DONE: u32 = FromGofer::Done as u32;
        const ENDED: u32 = FromGofer::Ended as u32;
        let understood = match kind {
            SAID => said::tell(message, self.report),
            DONE => {
                self.under_way = self.under_way.saturating_sub(1);
                Ok(())
            }
            ENDED => refusal(message).map(|ended| self.ended = Some(ended)),
            _ => Err(Malformed),
        };
        understood.map_err(|_| self.line.gone())
    }

    /// There is no more: until all is written.
    fn end(&mut self) {
        let mut over = match self.ended {
            None => self.say(ToGofer::End, |_| {}),
            Some(_) => Ok(()),
        };
        while self.ended.is_none() && over.is_ok() {
            over = self.answers();
            if self.ended.is_none() && over.is_ok() {
                over = self.rest();
            }
        }
        if let Err(e) = over {
            self.ended = Some(Err(e.into()));
        }
    }
}

fn refusal(message: &[u8]) -> wire::Result<Result<(), Refusal>> {
    let mut take = Take::new(message);
    let is_well = take.flag()?;
    let code = take.byte()?;
    let text = take.string()?;
    take.end()?;
    if text.len() > TEXT {
        return Err(Malformed);
    }
    let text = String::from_utf8_lossy(text).into_owned();
    Ok(match is_well {
        true => Ok(()),
        false => Err(Refusal { code, text }),
    })
}

impl Carrier for &mut Sending<'_> {
    fn first(&mut self) -> Batch {
        Batch::new(Room::Lent(self.memory.slot(self.slot)))
    }

    fn exchange(&mut self, batch: &mut Batch) -> Result<(), Stopped> {
        if self.ended.is_some() {
            return Err(Stopped);
        }
        let sent = self.send(batch);
        batch.clear();
        batch.set_room(Room::Lent(self.memory.slot(self.slot)));
        sent.map_err(|e| {
            self.ended = Some(Err(e.into()));
            Stopped
        })
    }
}

/// The end of the process that has Linux.
pub struct Filling<'s> {
    socket: &'s File,
    memory: &'s Lent,
    buffer: Vec<u8>,
}

impl<'s> Filling<'s> {
    /// Of a socket, and memory that was borrowed.
    pub fn new(socket: &'s File, memory: &'s Lent) -> Self {
        Filling {
            socket,
            memory,
            buffer: Vec::new(),
        }
    }

    fn hear(&mut self) -> io::Result<u32> {
        let mut header = [0; HEADER];
        { self.socket }.read_exact(&mut header)?;
        let (kind, length) = wire::header(header);
        if length > LONGEST {
            return Err(Malformed.into());
        }
        self.buffer.clear();
        let rest = self.socket.take(length as u64);
        match { rest }.read_to_end(&mut self.buffer)? == length {
            true => Ok(kind),
            false => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    /// What is to be done. An error: nobody asks any more.
    pub fn order(&mut self) -> io::Result<Vec<u8>> {
        match self.hear()? == ToGofer::Open as u32 {
            true => Ok(std::mem::take(&mut self.buffer)),
            false => Err(Malformed.into()),
        }
    }

    /// All is ready: writes what comes. `verbose`: somebody wants the name of each file.
    pub fn write(&mut self, to: Destination, settings: Settings, verbose: bool) -> io::Result<()> {
        const BATCH: u32 = ToGofer::Batch as u32;
        const END: u32 = ToGofer::End as u32;
        wire::send(self.socket, FromGofer::Opened as u32, |_| {})?;
        let relay = Relay::new(self.socket, verbose, &Nobody);
        let mut writer = Writer::new(to.dir, &to.shown, &relay, settings);
        let mut ops = Vec::new();
        let mut order = script::Order::default();
        loop {
            match self.hear()? {
                BATCH => {}
                END => break,
                _ => return Err(Malformed.into()),
            }
            let (slot, script) = self.buffer.split_first_chunk().ok_or(Malformed)?;
            let slot = u32::from_le_bytes(*slot) as usize;
            if slot >= BATCHES {
                return Err(Malformed.into());
            }
            let room = self.memory.slot(slot);
            let batch = script::read(script.to_vec(), ops, room, |_| None)?.settled();
            order.check(&batch)?;
            if !writer.fatal {
                writer.perform(&batch, || self.memory.is_stop());
            }
            ops = batch.into_buffers().0;
            relay.flush();
            wire::send(self.socket, FromGofer::Done as u32, |_| {})?;
        }
        writer.end();
        relay.flush();
        Ok(())
    }

    /// How it ended.
    pub fn end(&self, done: Result<(), Refusal>) -> io::Result<()> {
        let (is_well, refusal) = match done {
            Ok(()) => (true, None),
            Err(refusal) => (false, Some(refusal)),
        };
        let (code, text) = refusal.map_or((0, String::new()), |r| (r.code, r.text));
        wire::send(self.socket, FromGofer::Ended as u32, |m| {
            m.byte(is_well.into());
            m.byte(code);
            m.string(&text.as_bytes()[..text.len().min(TEXT)]);
        })
    }
}
