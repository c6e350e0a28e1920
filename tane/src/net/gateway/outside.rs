//! The thread that waits for what comes from the host: bytes, and the broker's answers.

use super::flow::{Asked, Beginning, Datagrams, Echoes, Flow, Wanted, Way};
use super::gateway::{Gateway, Scratch};
use super::packet;
use super::queue::{Verdict, ECHOES, SYNS};
use super::sockets;
use crate::net::socket::Socket;
use crate::poll::{ERROR, IN, READ, WRITE};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Mutex;
use std::time::{Duration, Instant};
use tane_net::user::{addresses, receive, Answer, ROOM};

const LINE: u64 = 0;
const BATCH: usize = 64;
/// How often somebody looks for what nobody uses any more.
const TICK: Duration = Duration::from_secs(10);
/// A handshake inside that takes longer has failed.
const HANDSHAKE: Duration = Duration::from_secs(60);
/// RFC 4787 has two minutes as the least.
const DATAGRAMS_IDLE: Duration = Duration::from_secs(180);
const ECHOES_IDLE: Duration = Duration::from_secs(30);
/// Longer than any host tries.
const ANSWER: Duration = Duration::from_secs(400);

pub fn watch(gateway: &Gateway) -> io::Result<()> {
    gateway.outside.add(gateway.line.as_raw_fd(), IN, LINE)
}

impl Gateway {
    /// Until it is told to stop.
    pub fn serve_outside(&self) {
        let (mut seen, mut scratch) = (Vec::new(), Scratch::new());
        let (mut message, mut looked) = (vec![0; ROOM], Instant::now());
        while !self.is_stopping() {
            let timeout = match scratch.again.is_empty() {
                true => TICK.as_millis() as i32,
                false => 0,
            };
            if self.outside.wait(timeout, &mut seen).is_err() {
                break;
            }
            for &(key, events) in &seen {
                match key {
                    LINE => self.take_answers(&mut message),
                    _ => self.event_outside(key, events, &mut scratch),
                }
            }
            self.go_on(&mut scratch);
            if looked.elapsed() > TICK {
                self.forget_unused();
                looked = Instant::now();
            }
        }
        self.stop();
    }

    fn event_outside(&self, key: u64, events: u32, scratch: &mut Scratch) {
        let Some(flow) = self.flow(key) else {
            return;
        };
        match &*flow {
            Flow::Stream(stream) => {
                if events & READ != 0 {
                    self.carry(key, stream, Way::Down, scratch);
                }
                if events & WRITE != 0 {
                    self.carry(key, stream, Way::Up, scratch);
                }
                if events & ERROR != 0 && stream.is_done(Way::Down) {
                    self.abort(key, stream);
                }
            }
            Flow::Datagrams(datagrams) => {
                if events & READ != 0 {
                    self.carry_datagrams(key, datagrams, Way::Down, scratch);
                }
            }
            Flow::Echoes(echoes) => self.take_replies(echoes, scratch),
            Flow::Queries(_) => {}
        }
    }

    fn take_answers(&self, message: &mut [u8]) {
        for _ in 0..BATCH {
            match receive(self.line.as_fd(), message) {
                Ok(Some((message, fd))) => {
                    if let Some((number, answer)) = Answer::decode(message, fd) {
                        self.take_answer(number, answer);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Ok(None) | Err(_) => return self.go_on_alone(),
            }
        }
    }

    /// The broker has gone, and nothing new begins: who waits for it is told.
    fn go_on_alone(&self) {
        self.outside.remove(self.line.as_raw_fd());
        let asked: Vec<u32> = self.state().asked.keys().copied().collect();
        for number in asked {
            self.take_answer(number, Answer::Refused(libc::ENETUNREACH));
        }
    }

    fn take_answer(&self, number: u32, answer: Answer<'_>) {
        if let Answer::Incoming(outside, port) = answer {
            return self.begin_incoming(outside, port);
        }
        let Some((asked, _)) = self.state().asked.remove(&number) else {
            return;
        };
        match (asked, answer) {
            (Asked::Connection { packet, pair }, Answer::Open(outside)) => {
                let ready = Beginning::Ready(outside, Instant::now());
                self.state().beginning.insert(pair, ready);
                self.decide(SYNS, packet, Verdict::Accept);
            }
            (Asked::Connection { packet, pair }, Answer::Refused(errno)) => {
                self.state().beginning.remove(&pair);
                self.decide(SYNS, packet, Verdict::of_error(errno));
            }
            (Asked::Datagrams(pair), Answer::Open(outside)) => {
                let begun = self.begin_datagrams(pair, outside);
                if begun.is_err() {
                    self.state().wanted.remove(&pair);
                }
            }
            (Asked::Datagrams(pair), Answer::Refused(errno)) => {
                self.state().wanted.remove(&pair);
                self.tell_unreachable(&pair, errno);
            }
            (
                Asked::Echoes {
                    packet,
                    key,
                    message,
                },
                Answer::Open(outside),
            ) => {
                self.decide(ECHOES, packet, Verdict::Drop);
                let used = Mutex::new(Instant::now());
                let mut state = self.state();
                let echoes = Flow::Echoes(Echoes { outside, key, used });
                let (number, flow) = state.keep(echoes);
                state.echoes.insert(key, number);
                drop(state);
                if let Flow::Echoes(echoes) = &*flow {
                    if self.wait_for(number, None, &echoes.outside).is_ok() {
                        echoes.send(&message);
                    } else {
                        self.forget(number);
                    }
                }
            }
            (Asked::Echoes { packet, .. }, Answer::Refused(errno)) => {
                self.decide(ECHOES, packet, Verdict::of_error(errno));
            }
            (Asked::Name { is_6, from }, Answer::Name(answer)) => {
                let socket = &self.sockets.names[usize::from(is_6)];
                let _ = socket.send(answer, Some(&from), libc::MSG_DONTWAIT);
            }
            (Asked::LongName(key), Answer::Name(answer)) => {
                if let Some(Flow::Queries(queries)) = self.flow(key).as_deref() {
                    let length = (answer.len() as u16).to_be_bytes();
                    let message = [&length, answer].concat();
                    let sent = queries.inside.send(&message, None, libc::MSG_DONTWAIT);
                    // Who does not read what he asked for is not waited for.
                    if sent.ok() != Some(message.len()) {
                        self.forget(key);
                    }
                }
            }
            // Whatever else somebody says who is no broker.
            _ => {}
        }
    }

    /// The gateway connects to the kernel itself.
    fn begin_incoming(&self, outside: OwnedFd, port: u16) {
        let to = SocketAddr::new(addresses::HERE4.into(), port);
        let connect = || -> io::Result<Socket> {
            let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK;
            let socket = Socket::for_address(&self.kernel, &to, kind)?;
            match socket.connect(&to) {
                Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => Err(error),
                _ => Ok(socket),
            }
        };
        match connect() {
            Ok(inside) => self.join(inside, outside),
            Err(_) => super::ends::End::abort(&outside),
        }
    }

    fn begin_datagrams(&self, pair: packet::Pair, outside: OwnedFd) -> io::Result<()> {
        let inside = sockets::datagrams(&self.kernel, pair.from, pair.to)?;
        let mut state = self.state();
        let waiting = match state.wanted.remove(&pair) {
            Some(Wanted::Asked(waiting)) => waiting,
            _ => Vec::new(),
        };
        let (key, flow) = state.keep(Flow::Datagrams(Datagrams {
            inside,
            outside,
            pair,
            used: Mutex::new(Instant::now()),
        }));
        state.wanted.insert(pair, Wanted::Flow(key));
        drop(state);
        let Flow::Datagrams(flow) = &*flow else {
            return Ok(());
        };
        for datagram in waiting {
            self.send_datagram(flow, &datagram);
        }
        let waited = self.wait_for(key, Some(&flow.inside), &flow.outside);
        waited.inspect_err(|_| self.forget(key))
    }

    fn take_replies(&self, echoes: &Echoes, scratch: &mut Scratch) {
        let (from, to, id) = echoes.key;
        loop {
            // An error is of a request, whose answer is then missing.
            let length = match super::ends::End::read(&echoes.outside, &mut scratch.memory) {
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => continue,
            };
            if let Some(packet) = packet::reply(to, from, id, &scratch.memory[..length]) {
                self.sockets.send_packet(&packet, from);
            }
        }
    }

    fn forget_unused(&self) {
        let mut gone = Vec::new();
        let mut state = self.state();
        let is_older = |used: &Mutex<Instant>, than: Duration| {
            used.lock().unwrap_or_else(|e| e.into_inner()).elapsed() > than
        };
        for (key, flow) in &state.flows {
            let is_old = match &**flow {
                Flow::Datagrams(flow) => is_older(&flow.used, DATAGRAMS_IDLE),
                Flow::Echoes(flow) => is_older(&flow.used, ECHOES_IDLE),
                Flow::Stream(_) | Flow::Queries(_) => false,
            };
            if is_old {
                gone.push(*key);
            }
        }
        let late: Vec<_> = state
            .beginning
            .iter()
            .filter(|(_, one)| matches!(one, Beginning::Ready(_, at) if at.elapsed() > HANDSHAKE))
            .map(|(pair, _)| *pair)
            .collect();
        for pair in late {
            state.beginning.remove(&pair);
        }
        state.asked.retain(|_, (_, at)| at.elapsed() < ANSWER);
        drop(state);
        for key in gone {
            self.forget(key);
        }
    }
}
