//! The thread that waits for what comes from inside.

use super::ends::End;
use super::flow::{Asked, Beginning, Flow, Queries, Stream, Wanted, Way, FIRST_KEY};
use super::gateway::{Gateway, Scratch};
use super::packet::{self, Pair};
use super::queue::{Verdict, Waiting, SYNS};
use super::sockets::{plain, receive, Both};
use crate::net::socket::{End as Of, Socket};
use crate::poll::{ERROR, FLOW, IN, READ, WRITE};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};
use tane_net::user::{Request, LONGEST_NAME_MESSAGE};

const QUEUE: u64 = 0;
const CONNECTIONS: u64 = 1;
const DATAGRAMS: u64 = 3;
const NAMES: u64 = 5;
const LONG_NAMES: u64 = 7;
/// Messages that are taken of one socket in a row.
const BATCH: usize = 64;
/// Datagrams that wait for a socket of the host's.
const MOST_WANTED: usize = 64;
const MOST_FLOWS: usize = 16_384;

/// Wait for all that may begin.
pub fn watch(gateway: &Gateway) -> io::Result<()> {
    let add = |both: &Both, key: u64| -> io::Result<()> {
        gateway.inside.add(both[0].raw(), IN, key)?;
        gateway.inside.add(both[1].raw(), IN, key + 1)
    };
    gateway
        .inside
        .add(gateway.queue.socket().raw(), IN, QUEUE)?;
    add(&gateway.sockets.connections, CONNECTIONS)?;
    add(&gateway.sockets.datagrams, DATAGRAMS)?;
    add(&gateway.sockets.names, NAMES)?;
    add(&gateway.sockets.long_names, LONG_NAMES)
}

impl Gateway {
    /// Until it is told to stop, or the kernel is gone.
    pub fn serve_inside(&self) {
        let (mut seen, mut scratch) = (Vec::new(), Scratch::new());
        while !self.is_stopping() {
            let timeout = if scratch.again.is_empty() { -1 } else { 0 };
            if self.inside.wait(timeout, &mut seen).is_err() {
                break;
            }
            for &(key, events) in &seen {
                self.event_inside(key, events, &mut scratch);
            }
            self.go_on(&mut scratch);
        }
        self.stop();
    }

    fn event_inside(&self, key: u64, events: u32, scratch: &mut Scratch) {
        match key {
            QUEUE => self.take_packets(scratch),
            CONNECTIONS..DATAGRAMS => {
                let which = (key - CONNECTIONS) as usize;
                self.accept(&self.sockets.connections[which]);
            }
            DATAGRAMS..NAMES => self.take_datagrams((key - DATAGRAMS) as usize, scratch),
            NAMES..LONG_NAMES => self.take_queries((key - NAMES) as usize, scratch),
            LONG_NAMES..FIRST_KEY => self.accept_queries((key - LONG_NAMES) as usize),
            _ => {
                let Some(flow) = self.flow(key) else {
                    return;
                };
                match &*flow {
                    Flow::Stream(stream) => {
                        if events & READ != 0 {
                            self.carry(key, stream, Way::Up, scratch);
                        }
                        if events & WRITE != 0 {
                            self.carry(key, stream, Way::Down, scratch);
                        }
                        if events & ERROR != 0 && stream.is_done(Way::Up) {
                            self.abort(key, stream);
                        }
                    }
                    Flow::Datagrams(datagrams) => {
                        if events & READ != 0 {
                            self.carry_datagrams(key, datagrams, Way::Up, scratch);
                        }
                    }
                    Flow::Queries(queries) => self.read_queries(key, queries, scratch),
                    Flow::Echoes(_) => {}
                }
            }
        }
    }

    fn take_packets(&self, scratch: &mut Scratch) {
        for _ in 0..BATCH {
            let Ok(next) = self.queue.next(&mut scratch.memory) else {
                return;
            };
            let Some(waiting) = next else {
                continue;
            };
            let verdict = match waiting.queue {
                SYNS => self.begin_connection(&waiting),
                _ => self.begin_echo(&waiting),
            };
            if let Some(verdict) = verdict {
                self.decide(waiting.queue, waiting.number, verdict);
            }
        }
    }

    /// `None`: the broker's answer decides.
    fn begin_connection(&self, waiting: &Waiting<'_>) -> Option<Verdict> {
        let Some(pair) = packet::connection(waiting.packet) else {
            return Some(Verdict::Drop);
        };
        let mut state = self.state();
        match state.beginning.get(&pair) {
            // It came again, since nobody has answered yet.
            Some(Beginning::Asked) => return Some(Verdict::Drop),
            Some(Beginning::Ready(..)) => return Some(Verdict::Accept),
            None => {}
        }
        let packet = waiting.number;
        let number = state.ask(Asked::Connection { packet, pair });
        let Some(number) = number.filter(|_| state.flows.len() < MOST_FLOWS) else {
            return Some(Verdict::Drop);
        };
        state.beginning.insert(pair, Beginning::Asked);
        drop(state);
        if let Err(errno) = self.say(number, &Request::Tcp(pair.to)) {
            self.state().beginning.remove(&pair);
            return Some(Verdict::of_error(errno));
        }
        None
    }

    fn begin_echo(&self, waiting: &Waiting<'_>) -> Option<Verdict> {
        let Some(echo) = packet::echo(waiting.packet) else {
            return Some(Verdict::Drop);
        };
        let key = (echo.from, echo.to, echo.id);
        let mut state = self.state();
        if let Some(flow) = state.echoes.get(&key).and_then(|key| state.flows.get(key)) {
            let flow = flow.clone();
            drop(state);
            if let Flow::Echoes(echoes) = &*flow {
                echoes.send(echo.message);
            }
            return Some(Verdict::Drop);
        }
        let asked = Asked::Echoes {
            packet: waiting.number,
            key,
            message: echo.message.to_vec(),
        };
        let Some(number) = state.ask(asked) else {
            return Some(Verdict::Drop);
        };
        drop(state);
        let said = self.say(number, &Request::Echo(echo.to));
        said.err().map(Verdict::of_error)
    }

    /// Join what has been accepted with the host's connection, which was there before.
    fn accept(&self, listener: &Socket) {
        for _ in 0..BATCH {
            let Ok((socket, peer)) = listener.accept() else {
                return;
            };
            let local = socket.address(Of::Local);
            let ready = local.ok().and_then(|local| {
                let pair = Pair {
                    from: plain(peer),
                    to: plain(local),
                };
                let mut state = self.state();
                match state.beginning.remove(&pair) {
                    Some(Beginning::Ready(outside, _)) => Some(outside),
                    Some(asked) => {
                        state.beginning.insert(pair, asked);
                        None
                    }
                    None => None,
                }
            });
            match ready {
                Some(outside) => self.join(socket, outside),
                // It has waited too long.
                None => socket.abort(),
            }
        }
    }

    /// A flow from now on.
    pub fn join(&self, inside: Socket, outside: OwnedFd) {
        // The sender has collected what is to be collected.
        let _ = inside.set(libc::IPPROTO_TCP, libc::TCP_NODELAY, &1i32);
        let stream = Flow::Stream(Stream {
            inside,
            outside,
            pipes: Mutex::default(),
        });
        let (key, flow) = self.state().keep(stream);
        if let Flow::Stream(stream) = &*flow {
            if self
                .wait_for(key, Some(&stream.inside), &stream.outside)
                .is_err()
            {
                self.abort(key, stream);
            }
        }
    }

    fn take_datagrams(&self, which: usize, scratch: &mut Scratch) {
        for _ in 0..BATCH {
            let Ok(next) = receive(&self.sockets.datagrams[which], &mut scratch.memory) else {
                return;
            };
            if let Some((length, from, to)) = next {
                self.take_datagram(Pair { from, to }, &scratch.memory[..length]);
            }
        }
    }

    fn take_datagram(&self, pair: Pair, datagram: &[u8]) {
        let mut state = self.state();
        match state.wanted.get_mut(&pair) {
            Some(Wanted::Asked(waiting)) => {
                if waiting.len() < MOST_WANTED {
                    waiting.push(datagram.to_vec());
                }
                return;
            }
            Some(Wanted::Flow(key)) => {
                let key = *key;
                let flow = state.flows.get(&key).cloned();
                drop(state);
                if let Some(Flow::Datagrams(flow)) = flow.as_deref() {
                    self.send_datagram(flow, datagram);
                }
                return;
            }
            None => {}
        }
        if state.wanted.len() >= MOST_FLOWS {
            return;
        }
        let Some(number) = state.ask(Asked::Datagrams(pair)) else {
            return;
        };
        let first = Wanted::Asked(vec![datagram.to_vec()]);
        state.wanted.insert(pair, first);
        drop(state);
        if let Err(errno) = self.say(number, &Request::Udp(pair.to)) {
            self.state().wanted.remove(&pair);
            self.tell_unreachable(&pair, errno);
        }
    }

    fn take_queries(&self, which: usize, scratch: &mut Scratch) {
        for _ in 0..BATCH {
            let socket = &self.sockets.names[which];
            let received = socket.receive(&mut scratch.memory, libc::MSG_DONTWAIT, true);
            let Ok((length, from)) = received else {
                return;
            };
            let Some(from) = from else {
                continue;
            };
            let is_6 = which == 1;
            let Some(number) = self.state().ask(Asked::Name { is_6, from }) else {
                continue;
            };
            let query = &scratch.memory[..length];
            // Who gets no answer asks again.
            let _ = self.say(number, &Request::Name { query, long: false });
        }
    }

    fn accept_queries(&self, which: usize) {
        for _ in 0..BATCH {
            let Ok((inside, _)) = self.sockets.long_names[which].accept() else {
                return;
            };
            let begun = Mutex::default();
            let (key, flow) = self.state().keep(Flow::Queries(Queries { inside, begun }));
            if let Flow::Queries(queries) = &*flow {
                let added = self.inside.add(queries.inside.raw(), FLOW, key);
                if added.is_err() {
                    self.forget(key);
                }
            }
        }
    }

    fn read_queries(&self, key: u64, queries: &Queries, scratch: &mut Scratch) {
        let mut begun = queries.begun.lock().unwrap_or_else(|e| e.into_inner());
        loop {
            match End::read(&queries.inside, &mut scratch.memory) {
                Ok(0) => return self.forget(key),
                Ok(n) => begun.extend_from_slice(&scratch.memory[..n]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => return self.forget(key),
            }
            while let Some((&[high, low], rest)) = begun.split_first_chunk() {
                let length = usize::from(u16::from_be_bytes([high, low]));
                let Some(query) = rest.get(..length) else {
                    break;
                };
                let number = self.state().ask(Asked::LongName(key));
                let said =
                    number.map(|number| self.say(number, &Request::Name { query, long: true }));
                if !matches!(said, Some(Ok(()))) {
                    return self.forget(key);
                }
                begun.drain(..2 + length);
            }
            debug_assert!(begun.len() <= LONGEST_NAME_MESSAGE + 2);
        }
    }

    pub fn flow(&self, key: u64) -> Option<Arc<Flow>> {
        self.state().flows.get(&key).cloned()
    }
}
