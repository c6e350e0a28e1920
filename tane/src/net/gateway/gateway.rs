//! The gateway: what its two threads share.

use super::ends::{End, Step};
use super::flow::{Datagrams, Echoes, Flow, Pipes, State, Stream, Way};
use super::packet::{unreachable, Pair};
use super::queue::{Queue, Verdict};
use super::sockets::Sockets;
use super::{inside, outside};
use crate::error::{Error, Result};
use crate::kernel::Kernel;
use crate::net::socket::Socket;
use crate::poll::{Poll, FLOW};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Instant;
use tane_net::user::Request;

/// Room for the longest datagram and for much of a stream.
const SCRATCH: usize = 256 << 10;
/// Datagrams that are carried in a row.
const SHARE: usize = 256;

/// Memory of one thread, and the flows that have had their share and have more.
pub struct Scratch {
    pub memory: Vec<u8>,
    pub again: VecDeque<(u64, Way)>,
}

impl Scratch {
    pub fn new() -> Self {
        Self {
            memory: vec![0; SCRATCH],
            again: VecDeque::new(),
        }
    }
}

/// See the module. A flow's two ends are each waited for by one thread, and either may
/// carry its bytes: whoever sees that an end is ready does.
pub struct Gateway {
    pub kernel: Kernel,
    pub inside: Poll,
    pub outside: Poll,
    pub line: OwnedFd,
    pub queue: Queue,
    pub sockets: Sockets,
    state: Mutex<State>,
    stopping: AtomicBool,
}

impl Gateway {
    /// In the calling thread's namespace, with a broker at the other end of the line.
    pub fn new(kernel: &Kernel, line: OwnedFd) -> Result<Self> {
        let failed = |error: io::Error| {
            Error::from_source(errno(&error), "open the gateway's sockets", error)
        };
        let gateway = Self {
            kernel: kernel.clone(),
            inside: Poll::new(kernel).map_err(failed)?,
            outside: Poll::new(&Kernel::host()).map_err(failed)?,
            line,
            queue: Queue::open(kernel)?,
            sockets: Sockets::open(kernel).map_err(failed)?,
            state: Mutex::default(),
            stopping: AtomicBool::new(false),
        };
        inside::watch(&gateway).map_err(failed)?;
        outside::watch(&gateway).map_err(failed)?;
        Ok(gateway)
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }

    /// Have both threads end.
    pub fn stop(&self) {
        if !self.stopping.swap(true, Ordering::SeqCst) {
            self.inside.wake();
            self.outside.wake();
        }
    }

    /// Ask the broker. Errors are errnos; EAGAIN: it has enough to do.
    pub fn say(&self, number: u32, request: &Request<'_>) -> std::result::Result<(), i32> {
        let message = request.encode(number);
        End::write(&self.line, &message).map(drop).map_err(|error| {
            self.state().asked.remove(&number);
            // Without a broker nothing can be reached.
            match errno(&error) {
                libc::EAGAIN => libc::EAGAIN,
                _ => libc::ENETUNREACH,
            }
        })
    }

    pub fn decide(&self, queue: u16, packet: u32, verdict: Verdict) {
        // A packet without a verdict is one that got lost.
        let _ = self.queue.decide(queue, packet, verdict);
    }

    pub fn wait_for(&self, key: u64, inside: Option<&Socket>, outside: &OwnedFd) -> io::Result<()> {
        if let Some(inside) = inside {
            self.inside.add(inside.raw(), FLOW, key)?;
        }
        self.outside.add(outside.as_raw_fd(), FLOW, key)
    }

    /// Its ends are closed once nobody uses them.
    pub fn forget(&self, key: u64) {
        let mut state = self.state();
        let flow = state.flows.remove(&key);
        match flow.as_deref() {
            Some(Flow::Datagrams(flow)) => drop(state.wanted.remove(&flow.pair)),
            Some(Flow::Echoes(flow)) => drop(state.echoes.remove(&flow.key)),
            Some(Flow::Stream(_) | Flow::Queries(_)) | None => {}
        }
        // Closing is a call into the kernel.
        drop(state);
        drop(flow);
    }

    pub fn abort(&self, key: u64, stream: &Stream) {
        stream.inside.abort();
        stream.outside.abort();
        self.forget(key);
    }

    pub fn carry(&self, key: u64, stream: &Stream, way: Way, scratch: &mut Scratch) {
        match stream.carry(way, &mut scratch.memory) {
            Step::Wait => {}
            Step::More => scratch.again.push_back((key, way)),
            Step::Done if stream.is_done(Way::Up) && stream.is_done(Way::Down) => self.forget(key),
            Step::Done => {}
            Step::Broken => self.abort(key, stream),
        }
    }

    /// Those that have more, once more each.
    pub fn go_on(&self, scratch: &mut Scratch) {
        for _ in 0..scratch.again.len() {
            let Some((key, way)) = scratch.again.pop_front() else {
                return;
            };
            match self.flow(key).as_deref() {
                Some(Flow::Stream(stream)) => self.carry(key, stream, way, scratch),
                Some(Flow::Datagrams(flow)) => self.carry_datagrams(key, flow, way, scratch),
                _ => {}
            }
        }
    }

    pub fn carry_datagrams(&self, key: u64, flow: &Datagrams, way: Way, scratch: &mut Scratch) {
        for _ in 0..SHARE {
            let from: &dyn End = match way {
                Way::Up => &flow.inside,
                Way::Down => &flow.outside,
            };
            let length = match from.read(&mut scratch.memory) {
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => {
                    if way == Way::Down {
                        self.tell_unreachable(&flow.pair, errno(&error));
                    }
                    continue;
                }
            };
            match way {
                Way::Up => self.send_datagram(flow, &scratch.memory[..length]),
                Way::Down => {
                    flow.touch();
                    // A datagram that does not go is lost, as on any network.
                    let _ = End::write(&flow.inside, &scratch.memory[..length]);
                }
            }
        }
        scratch.again.push_back((key, way));
    }

    pub fn send_datagram(&self, flow: &Datagrams, datagram: &[u8]) {
        flow.touch();
        // The error may be an earlier datagram's, and this one not sent.
        for _ in 0..2 {
            match End::write(&flow.outside, datagram) {
                Err(error) if error.raw_os_error() == Some(libc::ECONNREFUSED) => {
                    self.tell_unreachable(&flow.pair, libc::ECONNREFUSED);
                }
                Err(error) => return self.tell_unreachable(&flow.pair, errno(&error)),
                Ok(_) => return,
            }
        }
    }

    pub fn tell_unreachable(&self, pair: &Pair, errno: i32) {
        if let Some(packet) = unreachable(pair, errno) {
            self.sockets.send_packet(&packet, pair.from.ip());
        }
    }
}

fn errno(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(libc::EIO)
}

impl Stream {
    fn pipes(&self) -> MutexGuard<'_, Pipes> {
        self.pipes.lock().unwrap_or_else(|e| e.into_inner())
    }

    pub fn is_done(&self, way: Way) -> bool {
        let pipes = self.pipes();
        match way {
            Way::Up => pipes.up.is_done(),
            Way::Down => pipes.down.is_done(),
        }
    }

    fn carry(&self, way: Way, memory: &mut [u8]) -> Step {
        let mut pipes = self.pipes();
        if pipes.is_broken {
            return Step::Wait;
        }
        let mut carry = |way, failed| match way {
            Way::Up => pipes.up.carry(&self.inside, &self.outside, memory, failed),
            Way::Down => pipes
                .down
                .carry(&self.outside, &self.inside, memory, failed),
        };
        let step = carry(way, false);
        if step == Step::Broken {
            // What an end sent before it failed was sent.
            carry(way.other(), true);
            self.inside.abort();
            self.outside.abort();
            pipes.is_broken = true;
        }
        step
    }
}

impl Datagrams {
    fn touch(&self) {
        *self.used.lock().unwrap_or_else(|e| e.into_inner()) = Instant::now();
    }
}

impl Echoes {
    /// One that does not go is lost.
    pub fn send(&self, message: &[u8]) {
        *self.used.lock().unwrap_or_else(|e| e.into_inner()) = Instant::now();
        let _ = End::write(&self.outside, message);
    }
}
