//! The control queue (virtio 1.2, 5.1.6.5): each chain a command and a byte for the
//! answer. All is done at once.

use super::config::Mac;
use crate::virtio::{Broken, Chain, Queue};
use tane_buffers::{gather, total};

const OK: u8 = 0;
const ERR: u8 = 1;
/// Class and command.
const HEAD: usize = 2;
/// Longest command: two tables of addresses, more than Linux puts there.
const LONGEST: usize = 64 << 10;

/// What a driver asks for.
#[derive(Debug, PartialEq, Eq)]
pub enum Command<'a> {
    Promiscuous(bool),
    AllGroups(bool),
    Tables(&'a [u8]),
    Mac(Mac),
    /// It has told the network where it is.
    Announced,
    /// Offloads of receiving, as feature bits.
    Offloads(u64),
}

impl<'a> Command<'a> {
    fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (head, data) = bytes.split_first_chunk::<HEAD>()?;
        let flag = || match data {
            [byte] => Some(*byte != 0),
            _ => None,
        };
        match head {
            [0, 0] => flag().map(Command::Promiscuous),
            [0, 1] => flag().map(Command::AllGroups),
            [1, 0] => Some(Command::Tables(data)),
            [1, 1] => Some(Command::Mac(Mac(data.try_into().ok()?))),
            [3, 0] => Some(Command::Announced),
            [5, 0] => Some(Command::Offloads(u64::from_le_bytes(data.try_into().ok()?))),
            _ => None,
        }
    }
}

/// Do what is in the queue: `done` says whether a command was done. Ends, however fast
/// the driver adds more: `true` says that there may be some left that nobody will notify
/// of.
pub fn serve(
    queue: &mut Queue,
    chain: &mut Chain,
    mut done: impl FnMut(Command) -> bool,
) -> Result<bool, Broken> {
    for _ in 0..2 * u32::from(queue.size()) {
        if !queue.pop(chain)? {
            if queue.enable_notification() {
                continue;
            }
            return Ok(false);
        }
        let mut bytes = vec![0; total(&chain.readable).min(LONGEST)];
        // SAFETY: guest memory. Copied once: what is looked at is what is done.
        unsafe { gather(&chain.readable, &mut bytes) };
        let fits = total(&chain.readable) <= LONGEST;
        let command = Command::parse(&bytes).filter(|_| fits);
        let answer = match command.is_some_and(&mut done) {
            true => OK,
            false => ERR,
        };
        let place = chain.writable.iter().find(|buffer| buffer.iov_len > 0);
        if let Some(place) = place {
            // SAFETY: guest memory, checked when the chain was collected.
            unsafe { place.iov_base.cast::<u8>().write_volatile(answer) };
        }
        queue.push(chain.head, place.is_some().into());
    }
    Ok(true)
}
