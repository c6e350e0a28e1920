//! What carries bytes between a socket of the host's and one inside a kernel, whose other end
//! is a client of 9p: it waits for its server without an end, and this does not.

use super::super::link::{gone, is_tick, over, silent, Link, LONGER};
use super::frames::{Frames, Message, TFSYNC};
use crate::sys::Fd;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tane_linux::Errno;
use tane_net::thread::spawn;

/// Bytes that are moved at once.
const PIECE: usize = 256 << 10;

/// A connection to a server.
pub struct Pump {
    /// Whose calls end after a second.
    host: File,
    inside: Fd,
    silence: Duration,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Requests that are not answered, by their tags.
    waiting: HashMap<u16, Waiting>,
    /// Whoever was the client has gone.
    ended: bool,
    lost: Option<String>,
}

struct Waiting {
    until: Instant,
    limit: Duration,
    /// The request that this one is about, if it is a flush.
    flushed: Option<u16>,
}

impl Pump {
    /// Begin, with two threads. They end with the connection, or when nobody has the other end
    /// of `inside` any more.
    pub fn start(host: File, inside: Fd, silence: Duration) -> io::Result<Arc<Pump>> {
        let pump = Arc::new(Pump {
            host,
            inside,
            silence,
            state: Mutex::default(),
        });
        let (up, down) = (pump.clone(), pump.clone());
        spawn("tane-netfs-up", move || up.ends(up.up()))?;
        let started = spawn("tane-netfs-down", move || down.ends(down.down()));
        if let Err(error) = started {
            pump.end(None);
            return Err(error);
        }
        Ok(pump)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ends(&self, done: Result<(), String>) {
        self.end(done.err());
    }

    /// Both directions: who waits for either is told.
    fn end(&self, why: Option<String>) {
        let mut state = self.state();
        if !state.ended {
            state.ended = true;
            state.lost = why;
        }
        drop(state);
        let (fd, how) = (self.inside.raw() as u64, libc::SHUT_RDWR as u64);
        // SAFETY: two numbers. Of a kernel that has ended nobody waits.
        unsafe {
            self.inside
                .kernel
                .syscall(libc::SYS_shutdown, [fd, how, 0, 0, 0, 0])
        };
        // Best effort: in a jail there is no such call, and the other thread looks each second.
        // SAFETY: numbers.
        unsafe { libc::shutdown(self.host.as_raw_fd(), libc::SHUT_RDWR) };
    }

    /// From the client to the server.
    fn up(&self) -> Result<(), String> {
        let (mut room, mut frames) = (vec![0; PIECE], Frames::default());
        loop {
            let read = self.inside.sys().read_again(&self.inside, &mut room);
            let bytes = match read {
                Ok(n @ 1..) => &room[..n],
                // Unmounted, or the kernel has ended.
                Ok(0) | Err(_) => return Ok(()),
            };
            // Before they are sent: an answer may come before this goes on.
            let noted = frames.feed(bytes, |message| self.asked(message));
            noted.map_err(|_| String::from("this kernel's client talks no 9p"))?;
            self.send(bytes)?;
        }
    }

    fn send(&self, mut bytes: &[u8]) -> Result<(), String> {
        let until = Instant::now() + self.silence;
        while !bytes.is_empty() {
            match (&self.host).write(bytes) {
                Ok(n) => bytes = &bytes[n..],
                Err(e) if is_tick(&e) => {
                    if self.state().ended {
                        return Ok(());
                    }
                    if Instant::now() > until {
                        return Err(silent("has taken nothing", self.silence));
                    }
                }
                Err(e) => return Err(gone(&e)),
            }
        }
        Ok(())
    }

    /// From the server to the client.
    fn down(&self) -> Result<(), String> {
        let (mut room, mut frames) = (vec![0; PIECE], Frames::default());
        loop {
            self.check()?;
            let bytes = match (&self.host).read(&mut room) {
                Ok(0) => return Err(over()),
                Ok(n) => &room[..n],
                Err(e) if is_tick(&e) => continue,
                Err(e) => return Err(gone(&e)),
            };
            let mut unasked = false;
            let noted = frames.feed(bytes, |message| unasked |= !self.answered(message));
            if noted.is_err() || unasked {
                return Err(String::from("the server does not keep to the protocol"));
            }
            let mut left = bytes;
            while !left.is_empty() {
                match self.inside.sys().write(&self.inside, left) {
                    Ok(n) => left = &left[n..],
                    Err(Errno(libc::EINTR)) => {}
                    Err(_) => return Ok(()),
                }
            }
        }
    }

    fn asked(&self, message: Message) {
        let limit = match message.kind {
            TFSYNC => self.silence * LONGER,
            _ => self.silence,
        };
        let waiting = Waiting {
            until: Instant::now() + limit,
            limit,
            flushed: message.flushed,
        };
        self.state().waiting.insert(message.tag, waiting);
    }

    /// Whether it answers anything.
    fn answered(&self, message: Message) -> bool {
        let mut state = self.state();
        let Some(asked) = state.waiting.remove(&message.tag) else {
            return false;
        };
        // Nobody answers that one from now on.
        if let Some(tag) = asked.flushed {
            state.waiting.remove(&tag);
        }
        true
    }

    /// An error if something was not answered in time. No error: somebody else has ended it.
    fn check(&self) -> Result<(), String> {
        let state = self.state();
        let now = Instant::now();
        match state.waiting.values().find(|asked| now > asked.until) {
            Some(late) if !state.ended => Err(silent("has not answered", late.limit)),
            _ => Ok(()),
        }
    }
}

impl Link for Pump {
    fn lost(&self) -> Option<String> {
        self.state().lost.clone()
    }

    /// The threads end with the client, which has its socket as long as it is mounted.
    fn let_go(&self) {}
}
