//! What is under way through the gateway.

use super::ends::Pipe;
use super::packet::Pair;
use crate::net::socket::Socket;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// Ways through a stream's two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From inside to the host.
    Up,
    /// From the host to inside.
    Down,
}

impl Way {
    pub fn other(self) -> Self {
        match self {
            Way::Up => Way::Down,
            Way::Down => Way::Up,
        }
    }
}

/// A connection in two parts.
pub struct Stream {
    pub inside: Socket,
    pub outside: OwnedFd,
    pub pipes: Mutex<Pipes>,
}

/// Both directions of a stream. One lock: an error is told once, to who reads or writes
/// next, and whoever comes after that is told that the bytes have come to their end.
#[derive(Debug, Default)]
pub struct Pipes {
    pub up: Pipe,
    pub down: Pipe,
    /// It has failed, and neither end is asked again.
    pub is_broken: bool,
}

/// Datagrams between two addresses.
pub struct Datagrams {
    pub inside: Socket,
    pub outside: OwnedFd,
    pub pair: Pair,
    pub used: Mutex<Instant>,
}

/// Echo requests of one program.
pub struct Echoes {
    pub outside: OwnedFd,
    pub key: EchoKey,
    pub used: Mutex<Instant>,
}

/// Queries by a connection.
pub struct Queries {
    pub inside: Socket,
    /// What has come of the next query.
    pub begun: Mutex<Vec<u8>>,
}

pub enum Flow {
    Stream(Stream),
    Datagrams(Datagrams),
    Echoes(Echoes),
    Queries(Queries),
}

/// Who asks for echoes, whom, by which number.
pub type EchoKey = (IpAddr, IpAddr, u16);

/// A connection that the host makes before it begins inside.
pub enum Beginning {
    Asked,
    /// It is there, and the client's handshake is not over.
    Ready(OwnedFd, Instant),
}

/// Datagrams between two addresses: these, until there is a socket.
pub enum Wanted {
    Asked(Vec<Vec<u8>>),
    Flow(u64),
}

/// What an answer of the broker's is for.
pub enum Asked {
    Connection {
        packet: u32,
        pair: Pair,
    },
    Datagrams(Pair),
    Echoes {
        packet: u32,
        key: EchoKey,
        message: Vec<u8>,
    },
    Name {
        is_6: bool,
        from: SocketAddr,
    },
    LongName(u64),
}

#[derive(Default)]
pub struct State {
    next_key: u64,
    next_number: u32,
    pub asked: HashMap<u32, (Asked, Instant)>,
    pub beginning: HashMap<Pair, Beginning>,
    pub wanted: HashMap<Pair, Wanted>,
    pub echoes: HashMap<EchoKey, u64>,
    pub flows: HashMap<u64, Arc<Flow>>,
}

/// Keys below it are of sockets that take what is for anybody.
pub const FIRST_KEY: u64 = 16;
/// Answers that are waited for at a time.
const MOST_ASKED: usize = 8192;

impl State {
    pub fn keep(&mut self, flow: Flow) -> (u64, Arc<Flow>) {
        let key = FIRST_KEY + self.next_key;
        self.next_key += 1;
        let flow = Arc::new(flow);
        self.flows.insert(key, flow.clone());
        (key, flow)
    }

    /// The number of a question about this. `None`: there are too many.
    pub fn ask(&mut self, what: Asked) -> Option<u32> {
        if self.asked.len() >= MOST_ASKED {
            return None;
        }
        while self.asked.contains_key(&self.next_number) {
            self.next_number = self.next_number.wrapping_add(1);
        }
        let number = self.next_number;
        self.next_number = number.wrapping_add(1);
        self.asked.insert(number, (what, Instant::now()));
        Some(number)
    }
}
