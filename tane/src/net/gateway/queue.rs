//! Packets that wait for a verdict: nfnetlink_queue.

use crate::error::{Error, Result};
use crate::kernel::Kernel;
use crate::net::netlink::{attribute, attributes, Message, Netlink, HEAD};
use crate::net::socket::Socket;
use std::io;

const NETLINK_NETFILTER: i32 = 12;
const SUBSYSTEM: u16 = 3;
const PACKET: u16 = 0;
const VERDICT: u16 = 1;
const CONFIG: u16 = 2;
const CONFIG_COMMAND: u16 = 1;
const CONFIG_PARAMETERS: u16 = 2;
const CONFIG_LENGTH: u16 = 3;
const COMMAND_BIND: u8 = 1;
const COPY_PACKET: u8 = 2;
const PACKET_HEADER: u16 = 1;
const VERDICT_HEADER: u16 = 2;
const MARK: u16 = 3;
const PAYLOAD: u16 = 10;
const NF_DROP: u32 = 0;
const NF_ACCEPT: u32 = 1;
const SOL_NETLINK: i32 = 270;
const NETLINK_NO_ENOBUFS: i32 = 5;

/// The queue of packets that begin connections.
pub const SYNS: u16 = 0;
/// The queue of echo requests.
pub const ECHOES: u16 = 1;
/// What comes back for a packet with this mark: "nobody listens",
pub const MARK_RESET: u32 = 1;
/// "no way to that network",
pub const MARK_NO_NETWORK: u32 = 2;
/// "no such host",
pub const MARK_NO_HOST: u32 = 3;
/// "that is forbidden".
pub const MARK_CLOSED: u32 = 4;

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Accept,
    Drop,
    /// Back, with one of the marks.
    Reject(u32),
}

impl Verdict {
    /// What tells a program about this error of the host's.
    pub fn of_error(errno: i32) -> Self {
        match errno {
            libc::ECONNREFUSED | libc::ECONNRESET => Verdict::Reject(MARK_RESET),
            libc::ENETUNREACH | libc::EAFNOSUPPORT | libc::EADDRNOTAVAIL | libc::ENETDOWN => {
                Verdict::Reject(MARK_NO_NETWORK)
            }
            libc::EACCES | libc::EPERM => Verdict::Reject(MARK_CLOSED),
            // They pass, and who asks asks again: a packet is lost.
            libc::EAGAIN | libc::EMFILE | libc::ENFILE | libc::ENOMEM | libc::ENOBUFS => {
                Verdict::Drop
            }
            // It has waited as long as the host does.
            libc::ETIMEDOUT => Verdict::Drop,
            _ => Verdict::Reject(MARK_NO_HOST),
        }
    }
}

/// A packet that waits.
#[derive(Debug)]
pub struct Waiting<'m> {
    pub queue: u16,
    pub number: u32,
    /// From its IP header on, as far as the queue copies.
    pub packet: &'m [u8],
}

pub struct Queue(Netlink);

impl Queue {
    /// Both queues of the calling thread's namespace.
    pub fn open(kernel: &Kernel) -> Result<Self> {
        let failed = |errno| Error::new(errno, "open the gateway's queues");
        let netlink = Netlink::open_for(kernel, NETLINK_NETFILTER).map_err(failed)?;
        let queue = Self(netlink);
        for (which, copied, length) in [(SYNS, 128u32, 4096u32), (ECHOES, 0xffff, 64)] {
            let parameters = [&copied.to_be_bytes()[..], &[COPY_PACKET]].concat();
            for (kind, value) in [
                (CONFIG_COMMAND, vec![COMMAND_BIND, 0, 0, 0]),
                (CONFIG_PARAMETERS, parameters),
                (CONFIG_LENGTH, length.to_be_bytes().to_vec()),
            ] {
                let message = message(CONFIG, which, &[attribute(kind, &value)]);
                queue.0.tell(message).map_err(failed)?;
            }
        }
        let no = 1i32;
        let set = queue.socket().set(SOL_NETLINK, NETLINK_NO_ENOBUFS, &no);
        set.map_err(|_| failed(libc::EPROTO))?;
        Ok(queue)
    }

    pub fn socket(&self) -> &Socket {
        self.0.socket()
    }

    /// The next packet, if one waits.
    pub fn next<'b>(&self, buffer: &'b mut [u8]) -> io::Result<Option<Waiting<'b>>> {
        let (len, _) = self.socket().receive(buffer, libc::MSG_DONTWAIT, false)?;
        Ok(parse(&buffer[..len]))
    }

    pub fn decide(
        &self,
        queue: u16,
        number: u32,
        verdict: Verdict,
    ) -> std::result::Result<(), i32> {
        let code = if verdict == Verdict::Drop {
            NF_DROP
        } else {
            NF_ACCEPT
        };
        let head = [code.to_be_bytes(), number.to_be_bytes()].concat();
        let mut all = vec![attribute(VERDICT_HEADER, &head)];
        if let Verdict::Reject(mark) = verdict {
            all.push(attribute(MARK, &mark.to_be_bytes()));
        }
        self.0.say(message(VERDICT, queue, &all))
    }
}

fn message(kind: u16, queue: u16, attributes: &[Vec<u8>]) -> Message {
    let [high, low] = queue.to_be_bytes();
    let mut body = vec![0, 0, high, low];
    body.extend(attributes.concat());
    Message::new(SUBSYSTEM << 8 | kind, 0, &body)
}

fn parse(message: &[u8]) -> Option<Waiting<'_>> {
    if message.get(4..6)? != (SUBSYSTEM << 8 | PACKET).to_ne_bytes() {
        return None;
    }
    let head = message.get(HEAD..HEAD + 4)?;
    let mut waiting = Waiting {
        queue: u16::from_be_bytes([head[2], head[3]]),
        number: 0,
        packet: &[],
    };
    for (kind, value) in attributes(&message[HEAD + 4..]) {
        match kind {
            PACKET_HEADER => waiting.number = u32::from_be_bytes(*value.first_chunk()?),
            PAYLOAD => waiting.packet = value,
            _ => {}
        }
    }
    Some(waiting)
}
