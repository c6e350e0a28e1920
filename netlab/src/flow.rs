//! Who sends what to whom: a connection, and its two programs. No call of theirs waits; they go
//! on whenever one of their kernels has run.

use crate::calls::{ready, receive, send};
use crate::datagrams::Datagrams;
use crate::error::{Error, Result};
use crate::meter::Meter;
use crate::node::NO_MPTCP;
use crate::plan::{FlowPlan, Plan, Work};
use crate::report::{FlowReport, Latency};
use crate::world::{Turn, World};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use tane::net::Socket;
use tane::Kernel;

const SECOND: f64 = 1e9;

/// A connection of the plan's.
pub struct Flow {
    plan: FlowPlan,
    listener: Option<Socket>,
    client: Option<Socket>,
    server: Option<Socket>,
    /// In ns of the world's clock, from when the program begins.
    began: Option<u64>,
    ended: Option<u64>,
    /// Bytes that the client has handed over, and that the server has got.
    sent: u64,
    arrived: u64,
    shut: bool,
    dialogue: Dialogue,
    datagrams: Option<Datagrams>,
    meter: Option<Meter>,
    error: Option<String>,
}

/// Questions and answers.
#[derive(Default)]
struct Dialogue {
    /// When the question began that is under way.
    asked: Option<u64>,
    /// Bytes of it that are still to be sent, and of its answer still to come.
    to_ask: u64,
    to_hear: u64,
    /// Bytes of the question that the server waits for, and of the answer that it owes.
    to_get: u64,
    to_answer: u64,
    /// How long each took, in ns.
    took: Vec<u64>,
}

impl Flow {
    /// Its server listens. Errors are of the image: it lacks what the file says.
    pub fn prepare(plan: &Plan, index: usize, world: &World) -> Result<Flow> {
        let own = plan.flows[index].clone();
        let failed = |e: io::Error| {
            let name = plan.nodes[own.to].name.clone();
            Error::Node(name, of_io(&e))
        };
        let kernel = world.kernel(own.to);
        let listener = socket(&own, kernel).map_err(|e| match (own.mptcp, e.raw_os_error()) {
            (Some(at), Some(libc::EPROTONOSUPPORT | libc::EINVAL)) => {
                plan.source.wrong(at, NO_MPTCP)
            }
            (Some(at), Some(libc::ENOPROTOOPT)) => {
                let node = &plan.nodes[own.to].name;
                let text = format!("{node} has MPTCP switched off (sysctl net.mptcp.enabled)");
                plan.source.wrong(at, text)
            }
            _ => failed(e),
        })?;
        let any: IpAddr = match own.address {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        listener
            .bind(&SocketAddr::new(any, own.address.port()))
            .map_err(failed)?;
        // Behind bind(2): before it MPTCP has no path, and takes any name.
        if let Some((name, at)) = &own.congestion {
            listener
                .set_congestion_control(name)
                .map_err(|e| match e.raw_os_error() {
                    Some(libc::ENOENT) => plan.source.wrong(*at, no_control(name, kernel)),
                    _ => failed(e),
                })?;
        }
        let datagrams = match own.work {
            Work::Datagrams { size, rate, most } => {
                Some(Datagrams::new(size, rate, most, own.begins))
            }
            _ => None,
        };
        if datagrams.is_none() {
            listener.listen(1).map_err(failed)?;
        }
        Ok(Flow {
            plan: own,
            listener: Some(listener),
            client: None,
            server: None,
            began: None,
            ended: None,
            sent: 0,
            arrived: 0,
            shut: false,
            dialogue: Dialogue::default(),
            datagrams,
            meter: None,
            error: None,
        })
    }

    pub fn is_over(&self) -> bool {
        self.listener.is_none()
    }

    /// Its members.
    pub fn members(&self) -> [usize; 2] {
        [self.plan.from, self.plan.to]
    }

    /// When it next goes on by itself.
    pub fn appointment(&self) -> Option<u64> {
        match (self.is_over(), self.began) {
            (true, _) => None,
            (_, None) => Some(self.plan.begins),
            (_, Some(_)) => match &self.datagrams {
                Some(datagrams) => datagrams.appointment(),
                None => self.deadline(),
            },
        }
    }

    fn deadline(&self) -> Option<u64> {
        if let Some(datagrams) = &self.datagrams {
            return datagrams.gives_up();
        }
        self.plan
            .length
            .map(|length| self.plan.begins.saturating_add(length))
    }

    /// Do what can be done now. Whether anything could.
    pub fn step(&mut self, now: u64, world: &mut World) -> Turn<bool> {
        if self.is_over() || now < self.plan.begins {
            return Ok(false);
        }
        for member in self.members() {
            world.catch_up(member)?;
        }
        let done = match self.deadline() {
            Some(deadline) if now >= deadline => {
                self.end(deadline);
                Ok(true)
            }
            _ => self.work(now, world),
        };
        let done = done.unwrap_or_else(|error| {
            self.error = Some(error.to_string());
            self.end(now);
            true
        });
        for member in self.members() {
            world.run(member)?;
        }
        Ok(done)
    }

    fn work(&mut self, now: u64, world: &World) -> io::Result<bool> {
        let mut done = false;
        if self.client.is_none() {
            let client = socket(&self.plan, world.kernel(self.plan.from))?;
            if let Some((name, _)) = &self.plan.congestion {
                client.set_congestion_control(name)?;
            }
            self.began = Some(now);
            self.meter = Some(Meter::new(now));
            match client.connect(&self.plan.address) {
                Err(e) if e.raw_os_error() != Some(libc::EINPROGRESS) => return Err(e),
                _ => self.client = Some(client),
            }
            done = true;
        }
        if self.datagrams.is_some() {
            return self.count(now).map(|counted| done || counted);
        }
        if self.server.is_none() {
            let listener = self.listener.as_ref().expect("it is not over");
            self.server = ready(listener.accept())?.map(|(socket, _)| socket);
            done |= self.server.is_some();
        }
        done |= match self.plan.work {
            Work::Stream { bytes } => self.stream(bytes, now)?,
            Work::Requests {
                request,
                response,
                times,
            } => self.ask([request, response], times, now)?,
            Work::Datagrams { .. } => false,
        };
        Ok(done)
    }

    fn count(&mut self, now: u64) -> io::Result<bool> {
        let (Some(datagrams), Some(client), Some(server)) =
            (&mut self.datagrams, &self.client, &self.listener)
        else {
            return Ok(false);
        };
        let done = datagrams.step(now, client, server)?;
        self.arrived = datagrams.bytes();
        if datagrams.is_whole() {
            self.end(now);
        }
        Ok(done)
    }

    fn stream(&mut self, bytes: Option<u64>, now: u64) -> io::Result<bool> {
        let before = (self.sent, self.arrived, self.shut);
        let client = self.client.as_ref().expect("it has begun");
        let whole = bytes.unwrap_or(u64::MAX);
        self.sent += send(client, whole - self.sent)?;
        if self.sent == whole && !self.shut {
            client.shutdown(std::net::Shutdown::Write)?;
            self.shut = true;
        }
        if self.shut {
            // Nothing comes; but who has nothing to send would not hear that the connection has ended.
            receive(client, 1)?;
        }
        if let Some(server) = &self.server {
            let (got, end) = receive(server, u64::MAX)?;
            self.arrived += got;
            if end {
                self.end(now);
            }
        }
        Ok(before != (self.sent, self.arrived, self.shut) || self.is_over())
    }

    fn ask(
        &mut self,
        [request, response]: [u64; 2],
        times: Option<u64>,
        now: u64,
    ) -> io::Result<bool> {
        let client = self.client.as_ref().expect("it has begun");
        let talk = &mut self.dialogue;
        let mut done = false;
        if talk.asked.is_none() {
            talk.asked = Some(now);
            (talk.to_ask, talk.to_hear, talk.to_get) = (request, response, request);
            done = true;
        }
        let asked = send(client, talk.to_ask)?;
        talk.to_ask -= asked;
        let mut moved = asked;
        if let Some(server) = &self.server {
            if talk.to_get > 0 {
                let (got, end) = receive(server, talk.to_get)?;
                talk.to_get -= got;
                self.arrived += got;
                moved += got;
                if talk.to_get == 0 {
                    talk.to_answer = response;
                }
                if end {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
            if talk.to_get == 0 && talk.to_answer == 0 {
                // As above, until the answer has arrived.
                receive(server, 1)?;
            }
            let answered = send(server, talk.to_answer)?;
            talk.to_answer -= answered;
            moved += answered;
        }
        let (heard, end) = receive(client, talk.to_hear)?;
        talk.to_hear -= heard;
        moved += heard;
        if end && talk.to_hear > 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if talk.to_hear == 0 {
            let asked = talk.asked.take().unwrap_or(now);
            talk.took.push(now - asked);
            if times.is_some_and(|times| talk.took.len() as u64 >= times) {
                self.end(now);
            }
        }
        Ok(done || moved > 0)
    }

    /// Look at the connection.
    pub fn sample(&mut self, now: u64) {
        if let (Some(meter), Some(client)) = (&mut self.meter, &self.client) {
            meter.look(client, self.arrived, now);
        }
    }

    /// It is over; what is still under way is forgotten, at both ends.
    fn end(&mut self, now: u64) {
        self.sample(now);
        // What is waited for in vain is no part of it.
        let last = self.datagrams.as_ref().map(Datagrams::last);
        self.ended = Some(last.unwrap_or(now));
        for socket in [&self.client, &self.server].into_iter().flatten() {
            // A reset: else the rest would go on being sent, beside other connections. It
            // cannot be refused.
            let linger = [1i32, 0];
            socket.set(libc::SOL_SOCKET, libc::SO_LINGER, &linger).ok();
        }
        self.client = None;
        self.server = None;
        self.listener = None;
    }

    pub fn report(self, now: u64, plan: &Plan) -> FlowReport {
        let began = self.began.unwrap_or(self.plan.begins);
        let passed = self.ended.unwrap_or(now).saturating_sub(began) as f64 / SECOND;
        let name = |node: usize| plan.nodes[node].name.clone();
        let meter = self.meter.unwrap_or_else(|| Meter::new(began));
        let (last, is_mptcp) = (*meter.last(), meter.is_mptcp());
        let (samples, paths) = meter.report(self.plan.from, passed, plan);
        FlowReport {
            from: name(self.plan.from),
            to: name(self.plan.to),
            name: self.plan.name,
            protocol: match (&self.datagrams, is_mptcp) {
                (Some(_), _) => "udp",
                (_, true) => "mptcp",
                (_, false) => "tcp",
            },
            congestion: self.plan.congestion.map(|(name, _)| name),
            began: began as f64 / SECOND,
            ended: self.ended.map(|ended| ended as f64 / SECOND),
            bytes: self.arrived,
            bits_per_second: match passed > 0.0 {
                true => self.arrived as f64 * 8.0 / passed,
                false => 0.0,
            },
            retransmits: last.retransmits,
            min_rtt_ms: last.min_rtt.as_secs_f64() * 1e3,
            latency: latency(self.dialogue.took),
            datagrams: self.datagrams.map(Datagrams::report),
            error: self.error,
            samples,
            paths,
        }
    }
}

fn latency(mut took: Vec<u64>) -> Option<Latency> {
    took.sort_unstable();
    let ms = |time: &u64| *time as f64 / 1e6;
    Some(Latency {
        count: took.len(),
        min_ms: took.first().map(ms)?,
        median_ms: took.get(took.len() / 2).map(ms)?,
        max_ms: took.last().map(ms)?,
    })
}

fn socket(plan: &FlowPlan, kernel: &Kernel) -> io::Result<Socket> {
    let family = match plan.address {
        SocketAddr::V4(_) => libc::AF_INET,
        SocketAddr::V6(_) => libc::AF_INET6,
    };
    let protocol = if plan.mptcp.is_some() {
        libc::IPPROTO_MPTCP
    } else {
        0
    };
    let kind = match plan.work {
        Work::Datagrams { .. } => libc::SOCK_DGRAM,
        _ => libc::SOCK_STREAM,
    };
    Socket::new(kernel, family, kind | libc::SOCK_NONBLOCK, protocol)
}

/// Which there are instead.
fn no_control(name: &str, kernel: &Kernel) -> String {
    let file = "net/ipv4/tcp_available_congestion_control";
    let known = kernel
        .tree("/proc/sys")
        .and_then(|files| files.read_to_string(file));
    let known = known.unwrap_or_default();
    let known: Vec<_> = known.split_whitespace().collect();
    format!(
        "this kernel image has no congestion control {name:?}; it has {}",
        known.join(", ")
    )
}

fn of_io(error: &io::Error) -> tane::Error {
    let errno = error.raw_os_error().unwrap_or(libc::EIO);
    tane::Error::plain(errno, "prepare a connection", error.to_string())
}
