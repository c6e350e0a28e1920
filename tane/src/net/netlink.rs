//! netlink(7), as far as it is used here: one request, one answer or a list of them; requests that
//! are done together or not at all.

use super::socket::Socket;
use crate::error::errno_or_guess;
use crate::kernel::Kernel;
use std::io;

const NETLINK_ROUTE: i32 = 0;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
const NLM_F_REPLACE: u16 = 0x100;
const NLM_F_EXCL: u16 = 0x200;
const NLM_F_DUMP: u16 = 0x300;
const NLM_F_CREATE: u16 = 0x400;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLA_F_NESTED: u16 = 0x8000;
/// `struct nlmsghdr`, in bytes.
pub const HEAD: usize = 16;

/// A request: a structure and attributes.
pub struct Message(Vec<u8>);

impl Message {
    /// Make what is not there, and only that.
    pub const CREATE: u16 = NLM_F_CREATE | NLM_F_EXCL;
    /// Make it, or put it in the place of what is there.
    pub const REPLACE: u16 = NLM_F_CREATE | NLM_F_REPLACE;

    pub fn new(kind: u16, flags: u16, body: &[u8]) -> Self {
        let mut bytes = vec![0; HEAD];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes[6..8].copy_from_slice(&(flags | NLM_F_REQUEST).to_ne_bytes());
        bytes.extend_from_slice(body);
        Message(bytes)
    }

    pub fn attribute(&mut self, kind: u16, value: &[u8]) {
        self.0.extend_from_slice(&attribute(kind, value));
    }

    fn sealed(self) -> Vec<u8> {
        let Message(mut bytes) = self;
        let len = bytes.len() as u32;
        bytes[..4].copy_from_slice(&len.to_ne_bytes());
        bytes
    }
}

/// An attribute, for a message or inside another.
pub fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let len = 4 + value.len();
    let mut bytes = Vec::with_capacity(len.next_multiple_of(4));
    bytes.extend_from_slice(&(len as u16).to_ne_bytes());
    bytes.extend_from_slice(&kind.to_ne_bytes());
    bytes.extend_from_slice(value);
    bytes.resize(len.next_multiple_of(4), 0);
    bytes
}

/// One that has others in it.
pub fn nested(kind: u16, attributes: &[Vec<u8>]) -> Vec<u8> {
    attribute(kind | NLA_F_NESTED, &attributes.concat())
}

/// The attributes that these bytes are; what makes no sense ends them.
pub fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let (head, _) = bytes.split_first_chunk::<4>()?;
        let len = usize::from(u16::from_ne_bytes([head[0], head[1]]));
        let kind = u16::from_ne_bytes([head[2], head[3]]) & !NLA_F_NESTED;
        let value = bytes.get(4..len)?;
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

/// A socket for them. Errors are errnos.
pub struct Netlink(Socket);

impl Netlink {
    pub fn open(kernel: &Kernel) -> Result<Self, i32> {
        Self::open_for(kernel, NETLINK_ROUTE)
    }

    /// For another part of the kernel.
    pub fn open_for(kernel: &Kernel, protocol: i32) -> Result<Self, i32> {
        let socket = Socket::new(kernel, libc::AF_NETLINK, libc::SOCK_RAW, protocol);
        socket.map(Self).map_err(errno)
    }

    pub fn socket(&self) -> &Socket {
        &self.0
    }

    /// Send without an answer.
    pub fn say(&self, message: Message) -> Result<(), i32> {
        let sent = self.0.send(&message.sealed(), None, 0);
        sent.map(drop).map_err(errno)
    }

    /// Have these done in one go: of the first and the last, which are around the others,
    /// nothing is answered.
    pub fn tell_together(&self, mut messages: Vec<Message>) -> Result<(), i32> {
        let inner = messages.len().saturating_sub(2);
        for message in messages.iter_mut().skip(1).take(inner) {
            message.0[6] |= NLM_F_ACK as u8;
        }
        let bytes: Vec<u8> = messages.into_iter().flat_map(Message::sealed).collect();
        self.0.send(&bytes, None, 0).map_err(errno)?;
        let (mut answered, mut answer) = (0, vec![0; 32 << 10]);
        while answered < inner {
            let (len, _) = self.0.receive(&mut answer, 0, false).map_err(errno)?;
            let mut rest = &answer[..len];
            while rest.len() >= HEAD + 4 {
                let word = |at: usize| i32::from_ne_bytes([0, 1, 2, 3].map(|i| rest[at + i]));
                let len = (word(0) as usize).next_multiple_of(4);
                if len < HEAD + 4 || rest[4..6] != NLMSG_ERROR.to_ne_bytes() {
                    return Err(libc::EPROTO);
                }
                if word(HEAD) != 0 {
                    return Err(-word(HEAD));
                }
                answered += 1;
                rest = rest.get(len..).unwrap_or_default();
            }
        }
        Ok(())
    }

    /// The structures of all there are.
    pub fn list(&self, mut message: Message) -> Result<Vec<Vec<u8>>, i32> {
        message.0[6..8].copy_from_slice(&(NLM_F_REQUEST | NLM_F_DUMP).to_ne_bytes());
        self.0.send(&message.sealed(), None, 0).map_err(errno)?;
        let (mut all, mut answer) = (Vec::new(), vec![0; 32 << 10]);
        loop {
            let (len, _) = self.0.receive(&mut answer, 0, false).map_err(errno)?;
            let mut rest = &answer[..len];
            while rest.len() >= HEAD {
                let len = u32::from_ne_bytes([rest[0], rest[1], rest[2], rest[3]]) as usize;
                let body = rest.get(HEAD..len).ok_or(libc::EPROTO)?;
                match u16::from_ne_bytes([rest[4], rest[5]]) {
                    NLMSG_DONE => return Ok(all),
                    NLMSG_ERROR => {
                        let error = body.first_chunk().ok_or(libc::EPROTO)?;
                        return Err(-i32::from_ne_bytes(*error));
                    }
                    _ => all.push(body.to_vec()),
                }
                rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
            }
        }
    }

    /// Have something done.
    pub fn tell(&self, mut message: Message) -> Result<(), i32> {
        message.0[6] |= NLM_F_ACK as u8;
        self.ask(message).map(drop)
    }

    /// The structure of the answer.
    pub fn ask(&self, message: Message) -> Result<Vec<u8>, i32> {
        self.0.send(&message.sealed(), None, 0).map_err(errno)?;
        let mut answer = vec![0; 32 << 10];
        let (len, _) = self.0.receive(&mut answer, 0, false).map_err(errno)?;
        answer.truncate(len);
        if len < HEAD + 4 {
            return Err(libc::EPROTO);
        }
        let body = answer.split_off(HEAD);
        if answer[4..6] != NLMSG_ERROR.to_ne_bytes() {
            return Ok(body);
        }
        // 0 says that it was done.
        match i32::from_ne_bytes([body[0], body[1], body[2], body[3]]) {
            0 => Ok(Vec::new()),
            error => Err(-error),
        }
    }
}

fn errno(error: io::Error) -> i32 {
    errno_or_guess(&error)
}
