//! Generic netlink: parts of the kernel that have a name, and get a number when they are there.

use super::netlink::{attribute, attributes, Message, Netlink};
use crate::kernel::Kernel;

const NETLINK_GENERIC: i32 = 16;
/// The part that knows the others' numbers.
const GENL_ID_CTRL: u16 = 16;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;
/// `struct genlmsghdr`, in bytes.
const HEAD: usize = 4;

/// A socket for one of these parts. Errors are errnos.
pub struct Generic {
    netlink: Netlink,
    number: u16,
}

impl Generic {
    /// Errors: ENOENT the kernel has no part of this name; EAFNOSUPPORT it has no network.
    pub fn open(kernel: &Kernel, name: &str) -> Result<Self, i32> {
        let netlink = Netlink::open_for(kernel, NETLINK_GENERIC)?;
        let name = [name.as_bytes(), b"\0"].concat();
        let named = [attribute(CTRL_ATTR_FAMILY_NAME, &name)];
        let answer = netlink.ask(message(GENL_ID_CTRL, CTRL_CMD_GETFAMILY, &named))?;
        let number = attributes(answer.get(HEAD..).unwrap_or_default())
            .find(|(kind, _)| *kind == CTRL_ATTR_FAMILY_ID)
            .and_then(|(_, value)| value.try_into().ok());
        let number = number.map(u16::from_ne_bytes).ok_or(libc::EPROTO)?;
        Ok(Self { netlink, number })
    }

    /// Have something done.
    pub fn tell(&self, command: u8, attributes: &[Vec<u8>]) -> Result<(), i32> {
        self.netlink.tell(message(self.number, command, attributes))
    }

    /// The attributes of the answer.
    pub fn ask(&self, command: u8, attributes: &[Vec<u8>]) -> Result<Vec<u8>, i32> {
        let answer = self.netlink.ask(message(self.number, command, attributes));
        answer.map(without_head)
    }

    /// Those of all there are.
    pub fn list(&self, command: u8) -> Result<Vec<Vec<u8>>, i32> {
        let all = self.netlink.list(message(self.number, command, &[]))?;
        Ok(all.into_iter().map(without_head).collect())
    }
}

fn message(number: u16, command: u8, attributes: &[Vec<u8>]) -> Message {
    const VERSION: u8 = 1;
    let mut body = vec![command, VERSION, 0, 0];
    body.extend(attributes.concat());
    Message::new(number, 0, &body)
}

fn without_head(mut body: Vec<u8>) -> Vec<u8> {
    body.drain(..HEAD.min(body.len()));
    body
}
