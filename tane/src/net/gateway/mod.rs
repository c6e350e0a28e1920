//! User mode: a kernel's network through ordinary sockets of the host's.
//!
//! ```text
//! programs ─ eth0 ═══ inside ─ gateway ─ two threads ─ sockets of the host's
//!   a namespace        another one            └─ line ─ broker, which makes them
//! ```
//!
//! The gateway is a network namespace inside the kernel, in which every address is its
//! own: Linux ends all flows there, whomever they are for. The first packet of each
//! waits until the host has an answer from there, so that errors are those of the host's.
//!
//! ```text
//! place.rs       the namespace and the cable to it
//! rules.rs       nf_tables: what becomes of packets
//! queue.rs       those that wait for a verdict
//! sockets.rs     that take what is for anybody
//! packet.rs      packets that are read and written here
//! ends.rs flow.rs  what goes through
//! gateway.rs     what the threads share
//!   inside.rs      waits for what comes from inside
//!   outside.rs     waits for what comes from the host
//! ```

mod ends;
mod flow;
#[allow(clippy::module_inception)]
mod gateway;
mod inside;
mod outside;
mod packet;
mod place;
mod queue;
mod rules;
mod sockets;

use super::link::Link;
use crate::error::{Error, Result};
use crate::kernel::Kernel;
use crate::machine::Machine;
use gateway::Gateway;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::ops::Deref;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::mpsc::sync_channel;
use std::sync::Arc;
use std::thread::JoinHandle;
use tane_net::thread::spawn;
use tane_net::user::{line, Broker, UserNetwork};

const ACTION: &str = "give the kernel the host's network";

/// A kernel's way to the host's network, and the interface that it has for it. Dropping
/// it takes both away, and ends what goes through.
pub struct UserNic {
    link: Link,
    gateway: Arc<Gateway>,
    threads: Vec<JoinHandle<()>>,
    listening: Vec<SocketAddr>,
}

impl Kernel {
    /// Let the kernel use the host's network, through sockets of this process: TCP, UDP,
    /// names and, where the host lets its user, echo requests. Its interface has an
    /// address and is up when this returns; names are resolved at 10.0.2.3.
    ///
    /// Errors: EADDRINUSE and the like, of ports that lead inside; ENOTSUP, ENOENT: the
    /// kernel's image has no network or not all that this takes (`default` has).
    pub fn user_network(&self, options: &UserNetwork) -> Result<UserNic> {
        let (near, far) = line().map_err(failed)?;
        let broker = Broker::new(options, far).map_err(failed)?;
        let listening = broker.listening().map_err(failed)?;
        let mut nic = self.user_network_by(near)?;
        nic.listening = listening;
        let broker = spawn("tane-broker", move || {
            // It ends with its line.
            let _ = broker.run();
        });
        nic.threads.push(broker.map_err(failed)?);
        Ok(nic)
    }

    /// The same by a [`Broker`](super::Broker) of another process, at the other end of
    /// this line. This process makes no sockets of the host's itself.
    pub fn user_network_by(&self, line: OwnedFd) -> Result<UserNic> {
        if !matches!(self.machine(), Machine::Tane(_)) {
            let error = Error::new(libc::ENOTSUP, ACTION);
            return Err(error.with_text("it is not a kernel of this process"));
        }
        not_waiting(&line).map_err(failed)?;
        let here = place::namespace(self)?;
        let free = (0..).map(|n| format!("eth{n}"));
        let name = { free }.find(|name| self.link(name).is_err());
        let name = name.unwrap_or_default();
        let (say, made) = sync_channel(1);
        let (kernel, wanted) = (self.clone(), name.clone());
        let inside = spawn("tane-gate-in", move || {
            let make = || {
                place::make(&kernel, &here, &wanted)?;
                let gateway = Arc::new(Gateway::new(&kernel, line)?);
                Ok((gateway, place::namespace(&kernel)?))
            };
            match make() {
                Ok((gateway, place)) => {
                    // Whoever waits for it has it before it is taken.
                    let _ = say.send(Ok((gateway.clone(), place)));
                    drop((kernel, here, say));
                    gateway.serve_inside();
                }
                Err(error) => drop(say.send(Err(error))),
            }
        });
        let inside = inside.map_err(failed)?;
        let made = made.recv();
        let (gateway, place) = match made {
            Ok(made) => made?,
            Err(_) => return Err(Error::new(libc::ESHUTDOWN, ACTION)),
        };
        let mut nic = UserNic {
            link: self.link(&name)?,
            gateway: gateway.clone(),
            threads: vec![inside],
            listening: Vec::new(),
        };
        let (say, entered) = sync_channel(1);
        let outside = spawn("tane-gate-out", move || {
            let result = place::enter(&place);
            let is_there = result.is_ok();
            drop(place);
            let _ = say.send(result);
            if is_there {
                gateway.serve_outside();
            }
        });
        nic.threads.push(outside.map_err(failed)?);
        match entered.recv() {
            Ok(entered) => entered?,
            Err(_) => return Err(Error::new(libc::ESHUTDOWN, ACTION)),
        }
        place::furnish(self, &nic.link)?;
        Ok(nic)
    }
}

/// A jail may let nobody change flags, and whoever is in one has set this before.
fn not_waiting(line: &OwnedFd) -> io::Result<()> {
    let fcntl = |command, flags: i32| {
        // SAFETY: numbers.
        match unsafe { libc::fcntl(line.as_raw_fd(), command, flags) } {
            -1 => Err(io::Error::last_os_error()),
            answer => Ok(answer),
        }
    };
    let flags = fcntl(libc::F_GETFL, 0)?;
    match flags & libc::O_NONBLOCK {
        0 => fcntl(libc::F_SETFL, flags | libc::O_NONBLOCK).map(drop),
        _ => Ok(()),
    }
}

fn failed(error: io::Error) -> Error {
    let errno = error.raw_os_error();
    let errno = errno.unwrap_or(match error.kind() {
        io::ErrorKind::AddrInUse => libc::EADDRINUSE,
        io::ErrorKind::PermissionDenied => libc::EACCES,
        io::ErrorKind::AddrNotAvailable => libc::EADDRNOTAVAIL,
        _ => libc::EIO,
    });
    Error::from_source(errno, ACTION, error)
}

impl UserNic {
    /// Where the host listens for what leads inside, in the order of the forwards; none
    /// if a broker of another process does.
    pub fn listening(&self) -> &[SocketAddr] {
        &self.listening
    }
}

impl Deref for UserNic {
    type Target = Link;

    fn deref(&self) -> &Link {
        &self.link
    }
}

impl Drop for UserNic {
    fn drop(&mut self) {
        self.gateway.stop();
        // The broker's thread ends with the line, which the gateway's two hold: its own is
        // shut here, whoever else still has one.
        // SAFETY: numbers.
        unsafe { libc::shutdown(self.gateway.line.as_raw_fd(), libc::SHUT_RDWR) };
        for thread in self.threads.drain(..) {
            // One that panicked has said so.
            let _ = thread.join();
        }
        place::remove(&self.link);
    }
}

impl fmt::Debug for UserNic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "UserNic({} of {:?})",
            self.link.name(),
            self.link.kernel()
        )
    }
}
