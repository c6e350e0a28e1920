//! User mode of the network: a process that meets no image, and runs no Linux, makes the
//! host's sockets for the gateway inside the kernel, by the rules that the user gave. This
//! process gets them connected, and can make none. A wire of the host's is opened before
//! the jail is entered.

use super::child::{self, keep_only, End};
use super::jail;
use crate::args::{Net, NetAddress};
use crate::failure::{Failure, Result, SOME_FAILED};
use crate::session::Global;
use crate::tell;
use std::fs::File;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use tane::jail::Jail;
use tane::net::{
    line, Broker, Capture, Datagram, Impairment, Link, Nic, NicOptions, Stream, Tap, UserNetwork,
    UserNic, Wire,
};
use tane::Kernel;
use tane_linux::{Host, Sys};

/// Private memory of the broker, in bytes: mostly the stacks of threads that wait for
/// resolvers.
const MEMORY: u64 = 256 << 20;

static LINE: Mutex<Option<OwnedFd>> = Mutex::new(None);
static BEGUN: AtomicBool = AtomicBool::new(false);
static WIRE: Mutex<Option<Opened>> = Mutex::new(None);

static IMPAIRMENT: Mutex<Option<Impairment>> = Mutex::new(None);

/// How the network is worse than it is, which there will be.
pub fn impair(how: Option<Impairment>) {
    *IMPAIRMENT.lock().unwrap_or_else(|e| e.into_inner()) = how;
}

/// A wire that is to be opened, and what is at this end of it.
pub struct Plug {
    /// A tap interface, or a socket.
    pub net: Net,
    /// Those of the interface.
    pub addresses: Vec<NetAddress>,
    /// By way of whom everything else is reached.
    pub gateways: Vec<IpAddr>,
    /// Where packets are written down.
    pub capture: Option<PathBuf>,
}

struct Opened {
    wire: Arc<dyn Wire>,
    capture: Option<Arc<Capture>>,
    plug: Plug,
}

/// A kernel's way out, as long as it is kept.
pub enum WayOut {
    /// By sockets of the host's.
    User(UserNic),
    /// By a wire.
    Wire(Nic, Option<Arc<Capture>>),
}

impl WayOut {
    fn link(&self) -> &Link {
        match self {
            WayOut::User(nic) => nic,
            WayOut::Wire(nic, _) => nic,
        }
    }

    /// The end: what was written down is all in its file.
    pub fn end(self) -> Result<()> {
        let WayOut::Wire(nic, Some(capture)) = self else {
            return Ok(());
        };
        drop(nic);
        let flushed = capture.flush();
        flushed.map_err(|e| Failure::new(SOME_FAILED, format!("--capture: {e}")))
    }
}

/// Open the wire. Before the jail is entered.
pub fn begin_wire(plug: Plug) -> Result<()> {
    let mut wire: Arc<dyn Wire> = match &plug.net {
        Net::Tap(name) => Tap::open(Some(name)).map_err(|e| no_tap(name, &e))?,
        Net::Switch(path) => switch(path).map_err(|e| {
            let failure = Failure::image(format!("--net switch={}: {e}", path.display()));
            failure.remedy("who is at the other end listens there, and is to be started first")
        })?,
        Net::None | Net::User => return Ok(()),
    };
    let mut capture = None;
    if let Some(path) = &plug.capture {
        let to = File::create(path).map_err(|e| Failure::of_host(path, &e))?;
        let around = Capture::new(wire, to, "tane").map_err(|e| Failure::of_host(path, &e))?;
        wire = around.clone();
        capture = Some(around);
    }
    *WIRE.lock().unwrap_or_else(|e| e.into_inner()) = Some(Opened {
        wire,
        capture,
        plug,
    });
    Ok(())
}

fn no_tap(name: &str, error: &io::Error) -> Failure {
    let failure = Failure::image(format!("--net tap={name}: {error}"));
    match error.raw_os_error() {
        Some(libc::EPERM) => failure.remedy(format!(
            "as root: ip tuntap add {name} mode tap user $USER; or --net user, which takes nothing"
        )),
        _ => failure,
    }
}

/// Frames behind their lengths, or each a datagram, as the socket there has it.
fn switch(path: &Path) -> io::Result<Arc<dyn Wire>> {
    match UnixStream::connect(path) {
        Ok(stream) => Ok(Stream::new(stream)?),
        Err(error) if error.raw_os_error() == Some(libc::EPROTOTYPE) => {
            // What answers needs a name to answer to.
            let name = format!("tane-{}", std::process::id());
            let own = SocketAddr::from_abstract_name(name)?;
            let socket = UnixDatagram::bind_addr(&own)?;
            socket.connect(path)?;
            Ok(Datagram::new(socket)?)
        }
        Err(error) => Err(error),
    }
}

/// Start the broker; the ports that lead inside are open when this returns. Before the jail
/// is entered.
pub fn begin(options: &UserNetwork, global: &Global) -> Result<()> {
    let fail = |e: io::Error| Failure::image(format!("the network: {e}"));
    let (near, far) = line().map_err(fail)?;
    // The jail lets nobody change it later.
    not_waiting(&near).map_err(fail)?;
    let broker = Broker::new(options, far).map_err(|e| match e.kind() {
        io::ErrorKind::AddrInUse => fail(e).remedy("another port, or 0 for any that is free"),
        _ => fail(e),
    })?;
    tell_ports(options, &broker, global).map_err(fail)?;
    let off = jail::is_off(global);
    child::start(End::Killed, || serve(broker, off)).map_err(fail)?;
    // Each connection takes a descriptor here.
    Sys(&Host).raise_open_files();
    *LINE.lock().unwrap_or_else(|e| e.into_inner()) = Some(near);
    BEGUN.store(true, Relaxed);
    Ok(())
}

/// Which ports the host has chosen.
fn tell_ports(options: &UserNetwork, broker: &Broker, global: &Global) -> io::Result<()> {
    let forwards = options.forwards.iter().zip(broker.listening()?);
    for (forward, at) in forwards.filter(|(forward, _)| forward.listen.port() == 0) {
        if !global.quiet {
            tell::note(&format!("{at} leads to port {} inside", forward.to));
        }
    }
    Ok(())
}

/// In the broker, to the end of who asks. The terminal's signals are not for it.
fn serve(broker: Broker, without_jail: bool) -> io::Result<()> {
    // SAFETY: no memory involved.
    unsafe { libc::setsid() };
    keep_only(broker.descriptors())?;
    Sys(&Host).raise_open_files();
    if !without_jail {
        let mut jail = Jail::new();
        jail.network(true).accepts(true).memory(MEMORY);
        jail.enter().map_err(io::Error::other)?;
    }
    broker.run()
}

fn not_waiting(line: &OwnedFd) -> io::Result<()> {
    // SAFETY: numbers; nobody else has this end.
    match unsafe { libc::fcntl(line.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Whether sockets are handed to this process.
pub(super) fn is_begun() -> bool {
    BEGUN.load(Relaxed)
}

/// Give the kernel its way out, if there is one. It has it as long as what is returned
/// is kept.
pub fn attach(kernel: &Kernel) -> Result<Option<WayOut>> {
    let way = plug(kernel)?;
    let how = IMPAIRMENT.lock().unwrap_or_else(|e| e.into_inner()).take();
    if let (Some(way), Some(how)) = (&way, how) {
        let impaired = way.link().impair(&how);
        impaired.map_err(|e| Failure::image(format!("--impair: {e}")))?;
    }
    Ok(way)
}

/// The same, or its loopback interface alone.
pub fn attach_or_loop(kernel: &Kernel) -> Result<Option<WayOut>> {
    let way = attach(kernel)?;
    if way.is_none() {
        let up = kernel.link("lo").and_then(|lo| lo.set_up());
        up.map_err(|e| Failure::image(format!("the network: {e}")))?;
    }
    Ok(way)
}

/// With the kernel image that has a network, also where the tiny one would do.
pub fn with_network(global: &Global) -> Result<Global> {
    let kernel = match &global.kernel {
        Some(named) => named.clone(),
        None => tane::default_image().map_err(|e| Failure::image(e.to_string()))?,
    };
    Ok(global.changed(|options| options.kernel = Some(kernel)))
}

fn plug(kernel: &Kernel) -> Result<Option<WayOut>> {
    let wire = WIRE.lock().unwrap_or_else(|e| e.into_inner()).take();
    if let Some(opened) = wire {
        let fail = |e: tane::Error| Failure::image(format!("the network: {e}"));
        return plug_in(kernel, opened).map(Some).map_err(fail);
    }
    let line = LINE.lock().unwrap_or_else(|e| e.into_inner()).take();
    let Some(line) = line else { return Ok(None) };
    let way = kernel.user_network_by(line).map(WayOut::User);
    way.map(Some).map_err(|e| {
        let failure = Failure::image(format!("the network: {e}"));
        match e.errno() {
            libc::ENOENT | libc::EOPNOTSUPP | libc::EPROTONOSUPPORT | libc::EAFNOSUPPORT => failure
                .remedy(
                    "the kernel image lacks what --net user takes (NFT_TPROXY, NFT_QUEUE, \
                     NETFILTER_NETLINK_QUEUE): `default` of this version has it",
                ),
            _ => failure,
        }
    })
}

fn plug_in(kernel: &Kernel, opened: Opened) -> tane::Result<WayOut> {
    let nic = kernel.add_nic(opened.wire, &NicOptions::default())?;
    kernel.link("lo")?.set_up()?;
    for NetAddress(address, bits) in &opened.plug.addresses {
        nic.add_address(*address, *bits)?;
    }
    nic.set_up()?;
    for gateway in &opened.plug.gateways {
        let all: IpAddr = match gateway {
            IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        kernel.add_route(all, 0, *gateway)?;
    }
    Ok(WayOut::Wire(nic, opened.capture))
}
