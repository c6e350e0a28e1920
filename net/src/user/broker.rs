//! The broker: makes the host's sockets for a gateway, which may be taken over by what
//! runs inside its kernel, and gives it those that the policy permits.

use super::dns;
use super::host;
use super::message::{receive, Answer, Request, ROOM};
use super::options::{loopback_of, UserNetwork};
use super::policy::Policy;
use super::resolve;
use crate::thread::spawn;
use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::Duration;

/// Connections that begin at a time. Who asks for more asks again.
const MOST_BEGINNING: usize = 2048;
/// Queries at a time; a resolver that says nothing keeps one for eight seconds.
const MOST_QUERIES: usize = 64;
/// Messages that are taken in a row.
const BATCH: usize = 64;

/// See the module.
pub struct Broker {
    line: Arc<OwnedFd>,
    policy: Arc<Policy>,
    resolvers: Arc<[SocketAddr]>,
    listeners: Vec<(TcpListener, u16)>,
    beginning: VecDeque<(u32, OwnedFd)>,
    queries: Arc<AtomicUsize>,
}

impl Broker {
    /// A broker at this end of a line ([`line`](super::line)). Listens from now on.
    ///
    /// Errors: those of bind(2), with the address: EADDRINUSE somebody else listens.
    pub fn new(options: &UserNetwork, line: OwnedFd) -> io::Result<Self> {
        let listen = |forward: &super::Forward| {
            let listener = TcpListener::bind(forward.listen).map_err(|error| {
                let text = format!("listen at {}: {error}", forward.listen);
                io::Error::new(error.kind(), text)
            })?;
            listener.set_nonblocking(true)?;
            Ok((listener, forward.to))
        };
        let listeners: io::Result<_> = options.forwards.iter().map(listen).collect();
        let resolvers = options.resolvers.clone().unwrap_or_else(resolve::of_host);
        Ok(Self {
            line: Arc::new(line),
            policy: Arc::new(options.policy()),
            resolvers: resolvers.into(),
            listeners: listeners?,
            beginning: VecDeque::new(),
            queries: Arc::default(),
        })
    }

    /// Where it listens, in the order of the forwards.
    pub fn listening(&self) -> io::Result<Vec<SocketAddr>> {
        let listeners = self.listeners.iter();
        listeners
            .map(|(listener, _)| listener.local_addr())
            .collect()
    }

    /// What it has open: its end of the line, and what listens. Without these in a process
    /// nobody calls there.
    pub fn descriptors(&self) -> Vec<RawFd> {
        let listeners = self.listeners.iter().map(|(at, _)| at.as_raw_fd());
        listeners.chain([self.line.as_raw_fd()]).collect()
    }

    /// Serve until nobody is at the other end of the line any more.
    pub fn run(mut self) -> io::Result<()> {
        let mut buffer = vec![0; ROOM];
        loop {
            let mut polled = vec![host::polled(self.line.as_raw_fd(), libc::POLLIN)];
            let listeners = self.listeners.iter();
            polled.extend(listeners.map(|(at, _)| host::polled(at.as_raw_fd(), libc::POLLIN)));
            let beginning = self.beginning.iter();
            polled.extend(beginning.map(|(_, at)| host::polled(at.as_raw_fd(), libc::POLLOUT)));
            host::poll(&mut polled, -1)?;
            let seen: Vec<bool> = polled.iter().map(|one| one.revents != 0).collect();
            let (first, rest) = (seen[0], &seen[1..]);
            let (of_listeners, of_beginning) = rest.split_at(self.listeners.len());
            self.finish(of_beginning)?;
            for at in (0..of_listeners.len()).filter(|at| of_listeners[*at]) {
                self.accept(at)?;
            }
            if first && !self.take(&mut buffer)? {
                return Ok(());
            }
        }
    }

    fn say(&self, number: u32, answer: &Answer<'_>) -> io::Result<()> {
        answer.send(self.line.as_fd(), number)
    }

    /// Take what was asked for; whether somebody is still there.
    fn take(&mut self, buffer: &mut [u8]) -> io::Result<bool> {
        for turn in 0..BATCH {
            let mut polled = [host::polled(self.line.as_raw_fd(), libc::POLLIN)];
            if turn > 0 && host::poll(&mut polled, 0)? == 0 {
                break;
            }
            // A descriptor that comes along is closed.
            let Some((message, _)) = receive(self.line.as_fd(), buffer)? else {
                return Ok(false);
            };
            // Whoever says something else is taken over: nothing is owed to it.
            let Some((number, request)) = Request::decode(message) else {
                return Ok(false);
            };
            self.serve(number, request)?;
        }
        Ok(true)
    }

    fn serve(&mut self, number: u32, request: Request<'_>) -> io::Result<()> {
        let opened = match request {
            Request::Tcp(_) if self.beginning.len() >= MOST_BEGINNING => {
                Err(io::Error::from_raw_os_error(libc::EAGAIN))
            }
            Request::Tcp(to) => match self.destination(to).and_then(host::tcp) {
                Ok(socket) => {
                    self.beginning.push_back((number, socket));
                    return Ok(());
                }
                Err(error) => Err(error),
            },
            Request::Udp(to) => self.destination(to).and_then(host::udp),
            Request::Echo(to) => self.destination_of_echo(to).and_then(host::echo),
            Request::Name { query, long } => return self.resolve(number, query, long),
        };
        match opened {
            Ok(socket) => self.say(number, &Answer::Open(socket)),
            Err(error) => self.say(number, &refused(&error)),
        }
    }

    /// Where that is, seen from the host. EACCES: the policy does not permit it, whatever
    /// is there.
    fn destination(&self, to: SocketAddr) -> io::Result<SocketAddr> {
        let (ip, permitted) = match loopback_of(to.ip()) {
            Some(loopback) => (loopback, self.policy.permits_host(to.port())),
            None => (to.ip(), self.policy.permits(to.ip(), Some(to.port()))),
        };
        match permitted {
            true => Ok(SocketAddr::new(ip, to.port())),
            false => Err(io::Error::from_raw_os_error(libc::EACCES)),
        }
    }

    fn destination_of_echo(&self, to: IpAddr) -> io::Result<IpAddr> {
        match self.policy.permits(to, None) {
            true => Ok(to),
            false => Err(io::Error::from_raw_os_error(libc::EACCES)),
        }
    }

    /// Hand over what has been connected, or say why it has not.
    fn finish(&mut self, seen: &[bool]) -> io::Result<()> {
        for seen in seen {
            let Some((number, socket)) = self.beginning.pop_front() else {
                break;
            };
            if !seen {
                self.beginning.push_back((number, socket));
                continue;
            }
            match host::error(&socket) {
                0 => self.say(number, &Answer::Open(socket))?,
                errno => self.say(number, &Answer::Refused(errno))?,
            }
        }
        Ok(())
    }

    fn accept(&self, at: usize) -> io::Result<()> {
        let (listener, to) = &self.listeners[at];
        let Ok((stream, _)) = listener.accept() else {
            // Errors are of connections, or pass: too many descriptors.
            std::thread::sleep(Duration::from_millis(1));
            return Ok(());
        };
        if stream.set_nonblocking(true).is_err() || stream.set_nodelay(true).is_err() {
            return Ok(());
        }
        self.say(0, &Answer::Incoming(stream.into(), *to))
    }

    /// By a thread, which waits for resolvers.
    fn resolve(&self, number: u32, query: &[u8], long: bool) -> io::Result<()> {
        let one = One::of(&self.queries);
        if self.queries.load(Ordering::Relaxed) > MOST_QUERIES {
            let Some(question) = dns::question(query) else {
                return Ok(());
            };
            let refusal = dns::refusal(query, &question, dns::FAILED);
            return self.say(number, &Answer::Name(&refusal));
        }
        let query = query.to_vec();
        let (line, policy) = (self.line.clone(), self.policy.clone());
        let resolvers = self.resolvers.clone();
        // Without a thread nothing is said, as by a network that loses a query.
        let _ = spawn("tane-names", move || {
            if let Some(answer) = resolve::answer(&query, long, &resolvers, &policy) {
                // Who has gone needs no answer.
                let _ = Answer::Name(&answer).send(line.as_fd(), number);
            }
            drop(one);
        });
        Ok(())
    }
}

fn refused(error: &io::Error) -> Answer<'static> {
    Answer::Refused(error.raw_os_error().unwrap_or(libc::EIO))
}

/// One of those that are counted.
struct One(Arc<AtomicUsize>);

impl One {
    fn of(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count.clone())
    }
}

impl Drop for One {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
