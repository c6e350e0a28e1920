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
const FIELDS: usize = 64;

/// Open an address: its handle; its size in eight bytes, then a notice or nothing.
pub const OPEN: u32 = 1;
/// Read of a handle.
pub const READ: u32 = 2;
/// Open nothing from now on.
pub const SEAL: u32 = 3;

#[derive(Debug)]
pub struct Question {
    pub id: u64,
    pub what: u32,
    pub handle: u64,
    pub offset: u64,
    pub len: u64,
    pub address: String,
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
    Question { id, what, handle, offset, len, address }
    Answer { id, errno, value, bytes }
}

fn malformed() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "a message is malformed")
}

/// `data`: how long the bytes or the address in it are.
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
