//! A flow of datagrams: numbered, of one size, one after the other at a rate; and who counts them.

use crate::calls::ready;
use crate::report::DatagramReport;
use std::cell::RefCell;
use std::io;
use tane::net::Socket;

/// The number that each begins with, in bytes.
const NUMBER: usize = 8;
/// After the last one, in ns: what has not come by then is lost.
const LINGER: u64 = 5_000_000_000;
/// Of RFC 3550: how much of it a new difference is.
const SMOOTH: f64 = 16.0;

thread_local! {
    static ROOM: RefCell<Vec<u8>> = RefCell::new(vec![0; 64 << 10]);
}

/// Times are in ns of the program's clock.
pub struct Datagrams {
    size: usize,
    /// Bits of them a second.
    rate: u64,
    most: u64,
    begins: u64,
    /// When each was sent.
    sent: Vec<u64>,
    /// Whether each has come.
    seen: Vec<bool>,
    arrived: u64,
    doubled: u64,
    reordered: u64,
    /// The number behind the highest that has come.
    next: u64,
    /// How long each was under way that has come.
    took: Vec<u64>,
    jitter: f64,
    last: u64,
    /// The socket has no room.
    waits: bool,
}

impl Datagrams {
    /// So many, from that time on.
    pub fn new(size: u64, rate: u64, most: u64, begins: u64) -> Self {
        Self {
            size: size as usize,
            rate,
            most,
            begins,
            sent: Vec::new(),
            seen: Vec::new(),
            arrived: 0,
            doubled: 0,
            reordered: 0,
            next: 0,
            took: Vec::new(),
            jitter: 0.0,
            last: begins,
            waits: false,
        }
    }

    /// When the next one is to be sent, or none is waited for any more.
    pub fn appointment(&self) -> Option<u64> {
        match self.gives_up() {
            None if self.waits => None,
            None => Some(self.due()),
            end => end,
        }
    }

    /// When what has not come is lost, if all are sent.
    pub fn gives_up(&self) -> Option<u64> {
        let last = self
            .sent
            .last()
            .filter(|_| self.sent.len() as u64 == self.most);
        last.map(|last| last.saturating_add(LINGER))
    }

    fn due(&self) -> u64 {
        let bits = self.sent.len() as u128 * self.size as u128 * 8;
        let after = bits * 1_000_000_000 / u128::from(self.rate);
        self.begins
            .saturating_add(after.try_into().unwrap_or(u64::MAX))
    }

    /// Bytes that have come, each counted once.
    pub fn bytes(&self) -> u64 {
        self.arrived * self.size as u64
    }

    /// Whether all have come.
    pub fn is_whole(&self) -> bool {
        self.arrived == self.most
    }

    /// When the last one came, or was sent.
    pub fn last(&self) -> u64 {
        self.last.max(self.sent.last().copied().unwrap_or(0))
    }

    /// Send what is due and take what has come. Whether there was any.
    pub fn step(&mut self, now: u64, client: &Socket, server: &Socket) -> io::Result<bool> {
        let before = (self.sent.len(), self.arrived + self.doubled);
        self.waits = false;
        while (self.sent.len() as u64) < self.most && self.due() <= now {
            if !self.send(client)? {
                self.waits = true;
                break;
            }
            self.sent.push(now);
            self.seen.push(false);
        }
        while let Some(number) = self.receive(server)? {
            self.count(number, now);
        }
        Ok(before != (self.sent.len(), self.arrived + self.doubled))
    }

    /// Whether there was room.
    fn send(&self, client: &Socket) -> io::Result<bool> {
        ROOM.with_borrow_mut(|room| {
            let datagram = &mut room[..self.size];
            let number = self.sent.len() as u64;
            datagram[..NUMBER].copy_from_slice(&number.to_be_bytes());
            datagram[NUMBER..].fill(0);
            match ready(client.send(datagram, None, libc::MSG_DONTWAIT)) {
                Ok(sent) => Ok(sent.is_some()),
                // One of these is lost, or one before was, and this is its answer.
                Err(e) if is_loss(&e) => Ok(true),
                Err(e) => Err(e),
            }
        })
    }

    fn receive(&self, server: &Socket) -> io::Result<Option<u64>> {
        ROOM.with_borrow_mut(|room| {
            let got = ready(server.receive(room, libc::MSG_DONTWAIT, false))?;
            let number = got.and_then(|(_, _)| room.first_chunk::<NUMBER>());
            Ok(number.map(|number| u64::from_be_bytes(*number)))
        })
    }

    fn count(&mut self, number: u64, now: u64) {
        let index = number as usize;
        let Some(seen) = self.seen.get_mut(index) else {
            return;
        };
        if std::mem::replace(seen, true) {
            self.doubled += 1;
            return;
        }
        self.arrived += 1;
        self.last = now;
        self.reordered += u64::from(number < self.next);
        self.next = self.next.max(number + 1);
        let took = now - self.sent[index];
        if let Some(before) = self.took.last() {
            self.jitter += (took.abs_diff(*before) as f64 - self.jitter) / SMOOTH;
        }
        self.took.push(took);
    }

    pub fn report(mut self) -> DatagramReport {
        self.took.sort_unstable();
        let ms = |time: Option<&u64>| time.map_or(0.0, |time| *time as f64 / 1e6);
        DatagramReport {
            sent: self.sent.len() as u64,
            arrived: self.arrived,
            lost: self.sent.len() as u64 - self.arrived,
            reordered: self.reordered,
            doubled: self.doubled,
            min_ms: ms(self.took.first()),
            median_ms: ms(self.took.get(self.took.len() / 2)),
            max_ms: ms(self.took.last()),
            jitter_ms: self.jitter / 1e6,
        }
    }
}

fn is_loss(error: &io::Error) -> bool {
    let errno = error.raw_os_error().unwrap_or(0);
    let losses = [
        libc::ECONNREFUSED,
        libc::EHOSTUNREACH,
        libc::ENETUNREACH,
        libc::ENETDOWN,
        libc::ENOBUFS,
    ];
    losses.contains(&errno)
}
