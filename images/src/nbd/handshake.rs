//! What is agreed on before the first request.

use super::address::Address;
use super::line::Line;
use super::readable;
use super::words::*;
use crate::buffers::{buffer, buffer_mut};
use crate::limit::{expired, Limit};
use std::io;

/// Bytes of an answer to an option: a name and a description, each of 4,096 at most.
const LONGEST: u32 = 64 << 10;
/// Answers to one option.
const MOST: usize = 4096;
/// Exports that are named when the one that was asked for is not there.
const NAMED: usize = 20;
/// All of it may take so many times as long as one answer.
const WHOLE: u32 = 5;
/// What a server takes that does not say it.
const LARGEST: u32 = 32 << 20;

/// What a server says of its export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Told {
    pub size: u64,
    pub flags: u16,
    /// Requests begin and end at multiples of it.
    pub smallest: u32,
    pub preferred: u32,
    /// Most bytes of one request.
    pub largest: u32,
}

/// An answer to an option.
struct Answer {
    kind: u32,
    data: Vec<u8>,
}

/// `line`, until requests are made.
struct Handshake<'a> {
    line: &'a Line,
    address: &'a Address,
    limit: Limit,
}

fn nonsense(what: &str) -> io::Error {
    let text = format!("the server does not speak NBD as it should: {what}");
    io::Error::new(io::ErrorKind::InvalidData, text)
}

/// What a server says beside an error, if it does.
fn in_brackets(said: &[u8]) -> String {
    match said.is_empty() {
        true => String::new(),
        false => format!(" ({})", readable(said)),
    }
}

fn other(text: impl Into<String>) -> io::Error {
    io::Error::other(text.into())
}

/// Agree on the export that the address names.
pub(super) fn negotiate(line: &Line, address: &Address) -> io::Result<Told> {
    let limit = Limit::new(line.patience * WHOLE);
    let handshake = Handshake {
        line,
        address,
        limit,
    };
    let flags = handshake.greet()?;
    let gone = match flags & FIXED_NEWSTYLE {
        0 => Err(Vec::new()),
        _ => handshake.go()?,
    };
    let export = match gone {
        Ok(export) => export,
        Err(said) => handshake.by_name_alone(flags, &said)?,
    };
    export.check()?;
    Ok(export)
}

impl Handshake<'_> {
    fn get<const N: usize>(&self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    /// All of it within a limit, however few bytes come at a time.
    fn fill(&self, bytes: &mut [u8]) -> io::Result<()> {
        self.goes_on()?;
        let silent = Limit::new(self.line.patience);
        self.line.read(&[buffer_mut(bytes)], &mut |_| {
            silent.check(|after| expired("the server has been silent", after))?;
            self.goes_on()
        })
    }

    fn send(&self, bytes: &[u8]) -> io::Result<()> {
        let deaf = Limit::new(self.line.patience);
        self.line.write(&[buffer(bytes)], &mut |_| {
            deaf.check(|after| expired("the server has taken nothing", after))?;
            self.goes_on()
        })
    }

    fn goes_on(&self) -> io::Result<()> {
        let text = "the server has not said what it has";
        self.limit.check(|after| expired(text, after))
    }

    /// The server's flags.
    fn greet(&self) -> io::Result<u16> {
        let first: [u8; 8] = self.get().map_err(|e| match e.kind() {
            // Who has no room for another client lets it wait.
            io::ErrorKind::TimedOut => io::Error::new(
                e.kind(),
                format!(
                    "the server has not greeted for {:?}: given up; it may be serving \
                     somebody else (qemu-nbd serves as many at a time as --shared says)",
                    self.line.patience
                ),
            ),
            io::ErrorKind::UnexpectedEof => io::Error::new(
                e.kind(),
                "the server has ended the connection at once: it may be serving as many as \
                 it wants to, or not this machine",
            ),
            _ => e,
        })?;
        if first != GREETING {
            return Err(nonsense("it does not greet; something else listens there"));
        }
        let style: [u8; 8] = self.get()?;
        if u64::from_be_bytes(style) == OLD_STYLE {
            return Err(other(
                "the server speaks the oldstyle protocol, which is not supported: start it \
                 with newstyle (nbdkit without --oldstyle)",
            ));
        }
        if style != OPTION {
            return Err(nonsense("its greeting is no known one"));
        }
        let flags = u16::from_be_bytes(self.get()?);
        let ours = u32::from(flags & (FIXED_NEWSTYLE | NO_ZEROES));
        self.send(&ours.to_be_bytes())?;
        Ok(flags)
    }

    fn ask(&self, option: u32, data: &[u8]) -> io::Result<()> {
        let mut bytes = OPTION.to_vec();
        bytes.extend(option.to_be_bytes());
        bytes.extend((data.len() as u32).to_be_bytes());
        bytes.extend(data);
        self.send(&bytes)
    }

    fn answer(&self, option: u32) -> io::Result<Answer> {
        let magic = u64::from_be_bytes(self.get()?);
        let to = u32::from_be_bytes(self.get()?);
        if magic != OPTION_REPLY || to != option {
            return Err(nonsense("what it answers is no answer"));
        }
        let kind = u32::from_be_bytes(self.get()?);
        let len = u32::from_be_bytes(self.get()?);
        if len > LONGEST {
            return Err(nonsense("its answer is too long"));
        }
        let mut data = vec![0; len as usize];
        self.fill(&mut data)?;
        Ok(Answer { kind, data })
    }

    /// By NBD_OPT_GO; what the server says instead if it does not know that, or not so.
    fn go(&self) -> io::Result<Result<Told, Vec<u8>>> {
        let name = &self.address.export;
        let mut data = (name.len() as u32).to_be_bytes().to_vec();
        data.extend(name);
        // One thing to be told beside the size.
        data.extend(1u16.to_be_bytes());
        data.extend(INFO_BLOCK_SIZE.to_be_bytes());
        self.ask(GO, &data)?;
        let (mut told, mut blocks) = (None, None);
        for _ in 0..MOST {
            let Answer { kind, data } = self.answer(GO)?;
            match kind {
                INFO => match Info::of(&data)? {
                    Info::Export(size, flags) => told = Some((size, flags)),
                    Info::Blocks(sizes) => blocks = Some(sizes),
                    Info::Other => {}
                },
                ACK => {
                    let told = told.ok_or_else(|| nonsense("it does not say how large it is"));
                    return told.map(|(size, flags)| Ok(Told::new(size, flags, blocks)));
                }
                // Or takes it for something else: what servers had before it was settled.
                UNSUPPORTED | INVALID | TOO_BIG => return Ok(Err(data)),
                error => return Err(self.refused(error, &data)),
            }
        }
        Err(nonsense("it answers without an end"))
    }

    fn refused(&self, kind: u32, said: &[u8]) -> io::Error {
        use io::ErrorKind::{NotFound, PermissionDenied, Unsupported};
        let name = self.address.export_name();
        let said = in_brackets(said);
        let (kind, text) = match kind {
            TLS_REQUIRED => (
                Unsupported,
                format!(
                    "the server takes encrypted connections alone, and NBD by TLS is not \
                     supported: start it without, or use a tunnel{said}"
                ),
            ),
            UNKNOWN => (NotFound, self.unknown(&name)),
            POLICY => (
                PermissionDenied,
                format!("the server refuses the export \"{name}\"{said}"),
            ),
            SHUTDOWN => (io::ErrorKind::Other, format!("the server is ending{said}")),
            BLOCK_SIZE_REQUIRED => return nonsense("it wants what it has been told"),
            kind => {
                let text = format!(
                    "the server answers with error {:#x}{said}",
                    kind & !(1 << 31)
                );
                (io::ErrorKind::Other, text)
            }
        };
        // So that it does not complain.
        let _ = self.ask(ABORT, &[]);
        io::Error::new(kind, text)
    }

    fn unknown(&self, name: &str) -> String {
        let exports = self.exports().unwrap_or_default();
        let quoted: Vec<_> = exports.iter().map(|name| format!("\"{name}\"")).collect();
        match quoted.is_empty() {
            true => format!("the server has no export \"{name}\""),
            false => format!(
                "the server has no export \"{name}\"; it has {}",
                quoted.join(", ")
            ),
        }
    }

    /// What the server has, as far as it tells.
    fn exports(&self) -> io::Result<Vec<String>> {
        self.ask(LIST, &[])?;
        let mut names = Vec::new();
        for _ in 0..MOST {
            let Answer { kind, data } = self.answer(LIST)?;
            let Some((len, rest)) = data.split_first_chunk().filter(|_| kind == SERVER) else {
                break;
            };
            let name = rest.get(..u32::from_be_bytes(*len) as usize);
            let name = name.ok_or_else(|| nonsense("the name of an export is too long"))?;
            if names.len() < NAMED {
                names.push(readable(name));
            }
        }
        Ok(names)
    }

    /// As older servers have it. Who knows no such export ends the connection, and may have
    /// said why before.
    fn by_name_alone(&self, flags: u16, said: &[u8]) -> io::Result<Told> {
        self.ask(EXPORT_NAME, &self.address.export)?;
        let size = self.get().map_err(|e| match e.kind() {
            io::ErrorKind::UnexpectedEof => io::Error::new(
                io::ErrorKind::NotFound,
                format!(
                    "the server has ended the connection: it may have no export \"{}\"{}",
                    self.address.export_name(),
                    in_brackets(said)
                ),
            ),
            _ => e,
        })?;
        let told = u16::from_be_bytes(self.get()?);
        if flags & NO_ZEROES == 0 {
            self.get::<124>()?;
        }
        Ok(Told::new(u64::from_be_bytes(size), told, None))
    }
}

enum Info {
    Export(u64, u16),
    /// Smallest, preferred, largest.
    Blocks([u32; 3]),
    Other,
}

impl Info {
    fn of(data: &[u8]) -> io::Result<Info> {
        let (kind, rest) = data
            .split_first_chunk()
            .ok_or_else(|| nonsense("it says nothing"))?;
        let short = || nonsense("what it says is too short");
        match u16::from_be_bytes(*kind) {
            INFO_EXPORT => {
                let (size, rest) = rest.split_first_chunk().ok_or_else(short)?;
                let (flags, _) = rest.split_first_chunk().ok_or_else(short)?;
                Ok(Info::Export(
                    u64::from_be_bytes(*size),
                    u16::from_be_bytes(*flags),
                ))
            }
            INFO_BLOCK_SIZE => {
                let mut words = rest
                    .chunks_exact(4)
                    .map(|word| u32::from_be_bytes(word.try_into().expect("four bytes")));
                let mut next = || words.next().ok_or_else(short);
                Ok(Info::Blocks([next()?, next()?, next()?]))
            }
            _ => Ok(Info::Other),
        }
    }
}

impl Told {
    fn new(size: u64, flags: u16, blocks: Option<[u32; 3]>) -> Told {
        let [smallest, preferred, largest] = blocks.unwrap_or([1, 4096, LARGEST]);
        Told {
            size,
            flags,
            smallest,
            preferred,
            largest,
        }
    }

    fn check(&self) -> io::Result<()> {
        let Told {
            size,
            smallest,
            preferred,
            largest,
            ..
        } = *self;
        if self.flags & HAS_FLAGS == 0 {
            return Err(nonsense("its export has no flags"));
        }
        let has_sizes = smallest.is_power_of_two()
            && smallest <= 64 << 10
            && preferred.is_power_of_two()
            && preferred >= smallest
            && largest >= smallest
            && (largest == u32::MAX || largest.is_multiple_of(smallest));
        if !has_sizes {
            return Err(nonsense(&format!(
                "it wants blocks of {smallest}, {preferred} and {largest} bytes"
            )));
        }
        if i64::try_from(size).is_err() || !size.is_multiple_of(smallest.into()) {
            return Err(nonsense(&format!(
                "its export has {size} bytes, in blocks of {smallest}"
            )));
        }
        if size == 0 {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the export is empty",
            ));
        }
        Ok(())
    }
}
