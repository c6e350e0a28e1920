//! Numbers and byte strings in messages. Whoever takes one apart believes nothing of it.

use super::super::batch::Span;
use std::fs::File;
use std::io::{self, Write};

/// What a message begins with: its kind and the length of the rest, four bytes each.
pub const HEADER: usize = 8;

/// A message that nobody sends who keeps to what is agreed.
#[derive(Debug, PartialEq, Eq)]
pub struct Malformed;

pub type Result<T> = std::result::Result<T, Malformed>;

/// A message that is being written.
pub trait Put {
    fn byte(&mut self, byte: u8);
    fn number(&mut self, number: u32);
    fn long(&mut self, number: u64);
    /// A string: its length, and it.
    fn string(&mut self, bytes: &[u8]);
}

impl Put for Vec<u8> {
    fn byte(&mut self, byte: u8) {
        self.push(byte);
    }

    fn number(&mut self, number: u32) {
        self.extend_from_slice(&number.to_le_bytes());
    }

    fn long(&mut self, number: u64) {
        self.extend_from_slice(&number.to_le_bytes());
    }

    fn string(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u32);
        self.extend_from_slice(bytes);
    }
}

/// Begins a message over; [`seal`] says how long it is.
pub fn begin(message: &mut Vec<u8>, kind: u32) {
    message.clear();
    message.number(kind);
    message.number(0);
}

pub fn seal(message: &mut [u8]) {
    let length = (message.len() - HEADER) as u32;
    message[4..HEADER].copy_from_slice(&length.to_le_bytes());
}

/// Sends a whole message.
pub fn send(mut socket: &File, kind: u32, fill: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
    let mut message = Vec::new();
    begin(&mut message, kind);
    fill(&mut message);
    seal(&mut message);
    socket.write_all(&message)
}

/// The kind and the length that a header tells.
pub fn header(bytes: [u8; HEADER]) -> (u32, usize) {
    let [a, b, c, d, e, f, g, h] = bytes;
    let length = u32::from_le_bytes([e, f, g, h]);
    (u32::from_le_bytes([a, b, c, d]), length as usize)
}

/// A message that is being read.
pub struct Take<'m> {
    message: &'m [u8],
    at: usize,
}

impl<'m> Take<'m> {
    pub fn new(message: &'m [u8]) -> Self {
        Take { message, at: 0 }
    }

    pub fn is_done(&self) -> bool {
        self.at == self.message.len()
    }

    /// An error if there is more.
    pub fn end(self) -> Result<()> {
        match self.is_done() {
            true => Ok(()),
            false => Err(Malformed),
        }
    }

    fn exactly<const N: usize>(&mut self) -> Result<[u8; N]> {
        let rest = &self.message[self.at..];
        let bytes = rest.first_chunk().ok_or(Malformed)?;
        self.at += N;
        Ok(*bytes)
    }

    pub fn byte(&mut self) -> Result<u8> {
        self.exactly().map(|[byte]| byte)
    }

    pub fn flag(&mut self) -> Result<bool> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed),
        }
    }

    pub fn number(&mut self) -> Result<u32> {
        self.exactly().map(u32::from_le_bytes)
    }

    pub fn long(&mut self) -> Result<u64> {
        self.exactly().map(u64::from_le_bytes)
    }

    /// A string, by where it is in the message.
    pub fn span(&mut self) -> Result<Span> {
        let length = self.number()? as usize;
        let start = self.at;
        let end = start.checked_add(length).ok_or(Malformed)?;
        if end > self.message.len() {
            return Err(Malformed);
        }
        self.at = end;
        Ok(Span { start, end })
    }

    pub fn string(&mut self) -> Result<&'m [u8]> {
        self.span().map(|span| &self.message[span.start..span.end])
    }
}
