//! Messages on the socket between a worker and the process that talks to servers: their
//! length in four bytes, and what they say.

use crate::failure::Result as Answered;
use crate::wire::{Reader, Wire, Writer};
use std::io::{self, Read, Write};

/// Data of one message, in bytes, at most.
pub const MOST: usize = 1 << 20;
/// What comes beside it, at most: an address or a text.
const BESIDE: usize = 64 << 10;

/// The other fields of a message, in bytes, at most.
const FIELDS: usize = 128;

/// Open an address, for writing too if the length is 1: its handle; the [`Shape`] of the
/// disk, then a notice or nothing.
pub const OPEN: u32 = 1;
/// Read of a handle.
pub const READ: u32 = 2;
/// Open nothing from now on.
pub const SEAL: u32 = 3;
/// What a disk is told beside that, of a handle.
pub const WRITE: u32 = 4;
pub const FLUSH: u32 = 5;
pub const DISCARD: u32 = 6;
/// Zeroes whose room stays, and such that may be holes.
pub const ZEROES: u32 = 7;
pub const HOLES: u32 = 8;
/// Tell servers that this is the end.
pub const FAREWELL: u32 = 9;

#[derive(Debug)]
pub struct Question {
    pub id: u64,
    pub what: u32,
    pub handle: u64,
    pub offset: u64,
    pub len: u64,
    pub address: String,
    /// What is to be written.
    pub data: Vec<u8>,
}

/// How large a disk is, and its blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    pub size: u64,
    pub block_sizes: (u32, u32),
}

impl Shape {
    pub const LEN: usize = 16;

    pub fn to_bytes(self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[..8].copy_from_slice(&self.size.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.block_sizes.0.to_le_bytes());
        bytes[12..].copy_from_slice(&self.block_sizes.1.to_le_bytes());
        bytes
    }

    /// None: no disk has these blocks.
    pub fn of(bytes: &[u8; Self::LEN]) -> Option<Shape> {
        let word =
            |at| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let (smallest, preferred) = (word(8), word(12));
        let known = |size: u32| size.is_power_of_two() && (512..=4096).contains(&size);
        let fits = known(smallest) && known(preferred) && smallest <= preferred;
        fits.then_some(Shape {
            size: u64::from(word(4)) << 32 | u64::from(word(0)),
            block_sizes: (smallest, preferred),
        })
    }
}

#[derive(Debug)]
pub struct Answer {
    pub id: u64,
    /// 0, or a positive errno whose text the bytes are.
    pub errno: i32,
    pub value: u64,
    pub bytes: Vec<u8>,
}

macro_rules! messages {
    ($($name:ident { $($field:ident),* })*) => { $(
        impl Wire<'_> for $name {
            fn put(&self, to: &mut Writer) -> Answered<()> {
                $( self.$field.put(to)?; )*
                Ok(())
            }

            fn get(from: &mut Reader) -> Answered<Self> {
                Ok($name { $( $field: Wire::get(from)? ),* })
            }
        }
    )* };
}

messages! {
    Question { id, what, handle, offset, len, address, data }
    Answer { id, errno, value, bytes }
}

fn malformed() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "a message is malformed")
}

/// `data`: how long the bytes and the address in it are.
pub fn send<T: for<'a> Wire<'a>>(mut to: impl Write, message: &T, data: usize) -> io::Result<()> {
    let mut room = vec![0; 4 + FIELDS + data];
    let mut writer = Writer::new(&mut room[4..]);
    message.put(&mut writer).map_err(|_| malformed())?;
    let len = writer.len();
    room[..4].copy_from_slice(&(len as u32).to_le_bytes());
    to.write_all(&room[..4 + len])
}

/// None at the end.
pub fn receive<T: for<'a> Wire<'a>>(mut from: impl Read) -> io::Result<Option<T>> {
    let mut len = [0; 4];
    match from.read_exact(&mut len) {
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        result => result?,
    }
    let len = u32::from_le_bytes(len) as usize;
    if len > MOST + BESIDE {
        return Err(malformed());
    }
    let mut bytes = vec![0; len];
    from.read_exact(&mut bytes)?;
    let message = T::get(&mut Reader::new(&bytes));
    message.map(Some).map_err(|_| malformed())
}
