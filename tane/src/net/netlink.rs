//! rtnetlink(7), as far as it is used here: one request, one answer.

use super::socket::Socket;
use crate::error::errno_or_guess;
use crate::kernel::Kernel;
use std::io;

const NETLINK_ROUTE: i32 = 0;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
const NLM_F_EXCL: u16 = 0x200;
const NLM_F_CREATE: u16 = 0x400;
const NLMSG_ERROR: u16 = 2;
/// `struct nlmsghdr`, in bytes.
const HEAD: usize = 16;

/// A request: a structure and attributes.
pub struct Message(Vec<u8>);

impl Message {
    /// Make what is not there, and only that.
    pub const CREATE: u16 = NLM_F_CREATE | NLM_F_EXCL;

    pub fn new(kind: u16, flags: u16, body: &[u8]) -> Self {
        let mut bytes = vec![0; HEAD];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes[6..8].copy_from_slice(&(flags | NLM_F_REQUEST).to_ne_bytes());
        bytes.extend_from_slice(body);
        Message(bytes)
    }

    pub fn attribute(&mut self, kind: u16, value: &[u8]) {
        let len = (4 + value.len()) as u16;
        self.0.extend_from_slice(&len.to_ne_bytes());
        self.0.extend_from_slice(&kind.to_ne_bytes());
        self.0.extend_from_slice(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
    }
}

/// A socket for them. Errors are errnos.
pub struct Netlink(Socket);

impl Netlink {
    pub fn open(kernel: &Kernel) -> Result<Self, i32> {
        let socket = Socket::new(kernel, libc::AF_NETLINK, libc::SOCK_RAW, NETLINK_ROUTE);
        socket.map(Self).map_err(errno)
    }

    /// Have something done.
    pub fn tell(&self, mut message: Message) -> Result<(), i32> {
        message.0[6] |= NLM_F_ACK as u8;
        self.ask(message).map(drop)
    }

    /// The structure of the answer.
    pub fn ask(&self, Message(mut bytes): Message) -> Result<Vec<u8>, i32> {
        let len = bytes.len() as u32;
        bytes[..4].copy_from_slice(&len.to_ne_bytes());
        self.0.send(&bytes, None, 0).map_err(errno)?;
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
