//! What carries messages between a socket of the host's and the one that Linux's client of NFS
//! has made to a listener inside its kernel. The client asks a server that is gone for ever, or
//! connects anew: it is told here that what it asks for cannot be done, at once.

use super::super::link::{gone, is_tick, over, silent, Link, LONGER};
use super::record::{self, Class, Head};
use crate::kernel::Kernel;
use crate::net::{TcpListener, TcpStream};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::Ipv4Addr;
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tane_images::Identity;
use tane_net::thread::spawn;

/// Mounting is many calls, and a server may put off each: so many times as long as one.
const MOUNT: u32 = 4;

/// A connection to a server, and to a client that may connect again.
pub struct Relay {
    /// Whose calls end after a second.
    host: File,
    kernel: Kernel,
    listener: TcpListener,
    port: u16,
    identity: Identity,
    silence: Duration,
    state: Mutex<State>,
    /// Held while a message is written to the client.
    telling: Mutex<()>,
}

struct State {
    /// Calls that are not answered, by their numbers.
    waiting: HashMap<u32, Waiting>,
    client: Option<Arc<TcpStream>>,
    /// Until when it has to be mounted.
    mounting: Option<Instant>,
    /// No client comes again.
    last: bool,
    /// Nor is one there.
    ended: bool,
    lost: Option<String>,
}

struct Waiting {
    until: Instant,
    limit: Duration,
    class: Class,
}

impl Relay {
    /// Begin, with two threads. They end when the client has gone after [`Link::let_go`].
    pub fn start(
        kernel: &Kernel,
        host: File,
        identity: Identity,
        silence: Duration,
    ) -> io::Result<Arc<Relay>> {
        let listener = TcpListener::bind(kernel, (Ipv4Addr::LOCALHOST, 0))?;
        let relay = Arc::new(Relay {
            host,
            kernel: kernel.clone(),
            port: listener.local_addr()?.port(),
            listener,
            identity,
            silence,
            state: Mutex::new(State {
                waiting: HashMap::new(),
                client: None,
                mounting: Some(Instant::now() + silence * MOUNT),
                last: false,
                ended: false,
                lost: None,
            }),
            telling: Mutex::default(),
        });
        let (up, down) = (relay.clone(), relay.clone());
        spawn("tane-netfs-up", move || up.up())?;
        let started = spawn("tane-netfs-down", move || {
            let Err(why) = down.down();
            down.lose(why);
        });
        if let Err(error) = started {
            relay.let_go();
            return Err(error);
        }
        Ok(relay)
    }

    /// Where the client finds it.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// From now on each call has its own time, and all together have no end.
    pub fn mounted(&self) {
        self.state().mounting = None;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The server is there no more: who waits for it is told, and who asks from now on.
    fn lose(&self, why: String) {
        let mut state = self.state();
        if state.ended || state.lost.is_some() {
            return;
        }
        state.lost = Some(why);
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        for (number, call) in waiting {
            self.tell(&record::failure(number, call.class));
        }
        self.hang_up();
    }

    /// Best effort: in a jail there is no such call, and the thread looks each second.
    fn hang_up(&self) {
        // SAFETY: numbers.
        unsafe { libc::shutdown(self.host.as_raw_fd(), libc::SHUT_RDWR) };
    }

    /// From the client, and whoever follows it, to the server.
    fn up(&self) {
        // An error: let go of, or the kernel has ended.
        while let Ok((client, _)) = self.listener.accept() {
            // Best effort: it would be slower.
            let _ = client.set_nodelay(true);
            let client = Arc::new(client);
            self.state().client = Some(client.clone());
            self.serve(&client);
            let mut state = self.state();
            state.client = None;
            if state.last {
                break;
            }
        }
        self.state().ended = true;
        self.hang_up();
    }

    /// To the end of its connection, whatever that is.
    fn serve(&self, client: &TcpStream) {
        let mut record = Vec::new();
        let from_client = |room: &mut [u8]| {
            let mut client = client;
            client.read_exact(room).map_err(|e| e.to_string())
        };
        while record::take(&mut record, from_client).is_ok() {
            let sent = match record::head(&record) {
                Ok(Head::Call(number)) => {
                    let class = record::class(&record);
                    if !self.asked(number, class) {
                        self.tell(&record::failure(number, class));
                        continue;
                    }
                    let ours = record::from_identity(&record, &self.identity);
                    self.send(&record::marked(ours.as_ref().unwrap_or(&record)))
                }
                // To a call of the server's.
                Ok(Head::Reply(_)) if self.lost().is_none() => self.send(&record::marked(&record)),
                Ok(Head::Reply(_)) => continue,
                Err(_) => return,
            };
            if let Err(why) = sent {
                self.lose(why);
            }
        }
    }

    fn send(&self, mut bytes: &[u8]) -> Result<(), String> {
        let mut until = Instant::now() + self.silence;
        while !bytes.is_empty() {
            match (&self.host).write(bytes) {
                Ok(n) => {
                    bytes = &bytes[n..];
                    until = Instant::now() + self.silence;
                }
                Err(e) if is_tick(&e) => {
                    if self.lost().is_some() {
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
    fn down(&self) -> Result<std::convert::Infallible, String> {
        let mut record = Vec::new();
        loop {
            record::take(&mut record, |room| self.receive(room))?;
            match record::head(&record)? {
                // Nobody has asked, or has the answer: the client does not want it either.
                Head::Reply(number) if !self.answered(number) => {}
                _ => self.tell(&record),
            }
        }
    }

    fn receive(&self, mut room: &mut [u8]) -> Result<(), String> {
        while !room.is_empty() {
            self.check()?;
            match (&self.host).read(room) {
                Ok(0) => return Err(over()),
                Ok(n) => room = &mut room[n..],
                Err(e) if is_tick(&e) => {}
                Err(e) => return Err(gone(&e)),
            }
        }
        Ok(())
    }

    /// A client that is not there any more asks again when it is.
    fn tell(&self, record: &[u8]) {
        let client = self.state().client.clone();
        let _telling = self.telling.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = client {
            let _ = (&*client).write_all(&record::marked(record));
        }
    }

    /// Note a call. Whether there is a server to be asked.
    fn asked(&self, number: u32, class: Class) -> bool {
        let limit = match class {
            Class::Slow => self.silence * LONGER,
            _ => self.silence,
        };
        let mut state = self.state();
        if state.lost.is_some() {
            return false;
        }
        let until = Instant::now() + limit;
        let call = Waiting {
            until,
            limit,
            class,
        };
        state.waiting.insert(number, call);
        true
    }

    /// Whether it answers anything.
    fn answered(&self, number: u32) -> bool {
        self.state().waiting.remove(&number).is_some()
    }

    /// An error if something was not answered in time, or nobody is there to be answered.
    fn check(&self) -> Result<(), String> {
        let state = self.state();
        if state.ended || state.lost.is_some() {
            return Err(over());
        }
        let now = Instant::now();
        if let Some(late) = state.waiting.values().find(|call| now > call.until) {
            return Err(silent("has not answered", late.limit));
        }
        match state.mounting.is_some_and(|until| now > until) {
            true => Err(silent(
                "has put off what it was asked",
                self.silence * MOUNT,
            )),
            false => Ok(()),
        }
    }
}

impl Link for Relay {
    fn lost(&self) -> Option<String> {
        self.state().lost.clone()
    }

    fn let_go(&self) {
        let mut state = self.state();
        state.last = true;
        let is_served = state.client.is_some();
        drop(state);
        if !is_served {
            let (fd, how) = (self.listener.kernel_fd() as u64, libc::SHUT_RDWR as u64);
            // SAFETY: two numbers. Of a kernel that has ended nobody waits.
            unsafe {
                self.kernel
                    .syscall(libc::SYS_shutdown, [fd, how, 0, 0, 0, 0])
            };
        }
    }
}
