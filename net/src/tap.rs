//! A tap interface of the host's (Documentation/networking/tuntap.rst): its kernel's
//! own network is at the other end. It takes large segments and open checksums as they
//! are (IFF_VNET_HDR).

use crate::header::{Header, Offloads, GSO_UDP_L4};
use crate::packet::{Packet, MAX_FRAME};
use crate::pump::{Pump, Source};
use crate::segment::{adapt, Scratch};
use crate::wire::{Port, Sent, Wire};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::{Arc, Mutex, Weak};
use tane_buffers::buffer;

const TUNSETIFF: u64 = 0x4004_54ca;
const TUNGETIFF: u64 = 0x8004_54d2;
const TUNSETOFFLOAD: u64 = 0x4004_54d0;
const TUNSETVNETHDRSZ: u64 = 0x4004_54d8;
const IFF_TAP: i16 = 2;
const IFF_NO_PI: i16 = 0x1000;
const IFF_VNET_HDR: i16 = 0x4000;
const TUN_F_CSUM: u64 = 1;
const TUN_F_TSO4: u64 = 2;
const TUN_F_TSO6: u64 = 4;
const TUN_F_TSO_ECN: u64 = 8;
const TUN_F_USO4: u64 = 0x20;
const TUN_F_USO6: u64 = 0x40;

/// Buffers of a frame that need no memory of their own: what one of Linux has.
const FEW: usize = 20;

/// A tap interface. The device's at the end of it is the process's alone; the host has
/// the interface that was named.
pub struct Tap {
    queue: Arc<Queue>,
    pump: Pump,
    name: String,
    scratch: Mutex<Scratch>,
}

struct Queue {
    fd: OwnedFd,
    takes: Offloads,
}

/// `struct ifreq`, as these calls use it.
#[repr(C)]
struct Request {
    name: [u8; 16],
    flags: i16,
    rest: [u8; 22],
}

impl Tap {
    /// The interface of this name, which is made if it is not there; `None`: a new one,
    /// which the host names.
    ///
    /// Errors: EPERM the interface is not there or another user's, and this process has
    /// not CAP_NET_ADMIN in its network namespace; EBUSY another program has it.
    pub fn open(name: Option<&str>) -> io::Result<Arc<Tap>> {
        let name = name.unwrap_or_default();
        if name.len() > 15 || name.contains('\0') {
            let text = format!("{name:?}: an interface's name has at most 15 bytes");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let flags = libc::O_RDWR | libc::O_CLOEXEC | libc::O_NONBLOCK;
        // SAFETY: a path of ours; the descriptor is nobody else's.
        let fd = unsafe {
            match libc::open(c"/dev/net/tun".as_ptr(), flags) {
                -1 => return Err(io::Error::last_os_error()),
                fd => OwnedFd::from_raw_fd(fd),
            }
        };
        let mut request = Request {
            name: [0; 16],
            flags: IFF_TAP | IFF_NO_PI | IFF_VNET_HDR,
            rest: [0; 22],
        };
        request.name[..name.len()].copy_from_slice(name.as_bytes());
        control(&fd, TUNSETIFF, &mut request)?;
        Self::from_fd(fd)
    }

    /// A descriptor of a tap interface that somebody else opened, with IFF_NO_PI and
    /// IFF_VNET_HDR.
    ///
    /// Errors: EBADFD it is none; EINVAL it is without these flags.
    pub fn from_fd(fd: OwnedFd) -> io::Result<Arc<Tap>> {
        let mut request = Request {
            name: [0; 16],
            flags: 0,
            rest: [0; 22],
        };
        control(&fd, TUNGETIFF, &mut request)?;
        let wanted = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR;
        if request.flags & wanted != wanted {
            let text = "a tap interface without IFF_NO_PI and IFF_VNET_HDR";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        // SAFETY: flags of a descriptor of ours.
        unsafe {
            let flags = libc::fcntl(fd.as_raw_fd(), libc::F_GETFL);
            libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, flags | libc::O_NONBLOCK);
        }
        control(&fd, TUNSETVNETHDRSZ, &mut (Header::SIZE as libc::c_int))?;
        let takes = set_offloads(&fd)?;
        let end = request.name.iter().position(|b| *b == 0).unwrap_or(16);
        let name = String::from_utf8_lossy(&request.name[..end]).into_owned();
        Ok(Arc::new(Tap {
            queue: Arc::new(Queue { fd, takes }),
            pump: Pump::new()?,
            name,
            scratch: Mutex::default(),
        }))
    }

    /// The host's name for it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Why nothing comes any more: ENODEV the interface was deleted.
    pub fn error(&self) -> Option<Arc<io::Error>> {
        self.pump.error()
    }
}

fn control<T>(fd: &OwnedFd, request: u64, argument: &mut T) -> io::Result<()> {
    // SAFETY: each request is called with the structure that it reads or writes.
    match unsafe { libc::ioctl(fd.as_raw_fd(), request, std::ptr::from_mut(argument)) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Have the host leave us the work on what it sends; what it can leave. Hosts before
/// Linux 6.2 know nothing of UDP.
fn set_offloads(fd: &OwnedFd) -> io::Result<Offloads> {
    let tcp = TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6 | TUN_F_TSO_ECN;
    let set = |flags: u64| {
        // SAFETY: the argument is a number.
        match unsafe { libc::ioctl(fd.as_raw_fd(), TUNSETOFFLOAD, flags) } {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    };
    let uso = set(tcp | TUN_F_USO4 | TUN_F_USO6).is_ok();
    if !uso {
        set(tcp)?;
    }
    Ok(Offloads {
        uso,
        ..Offloads::ALL
    })
}

impl Queue {
    fn write(&self, packet: &Packet) -> Sent {
        let header = packet.header().encode(0);
        let mut few = [buffer(&[]); FEW];
        let mut many = Vec::new();
        let count = packet.frame().len() + 1;
        let buffers = if count <= FEW {
            &mut few[..count]
        } else {
            many.resize(count, buffer(&[]));
            &mut many[..]
        };
        buffers[0] = buffer(&header);
        buffers[1..].copy_from_slice(packet.frame());
        // SAFETY: buffers that a packet has are readable. More than the host allows is
        // an error like others.
        let n = unsafe { libc::writev(self.fd.as_raw_fd(), buffers.as_ptr(), count as i32) };
        // Down, gone, out of memory, or a frame that it does not like: lost.
        if n < 0 {
            Sent::Dropped
        } else {
            Sent::Done
        }
    }
}

impl Source for Queue {
    fn fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    fn next(&self, frame: &mut Vec<u8>) -> io::Result<Option<Header>> {
        frame.resize(MAX_FRAME, 0);
        let mut header = [0; Header::SIZE];
        let buffers = [
            tane_buffers::buffer_mut(&mut header),
            tane_buffers::buffer_mut(frame),
        ];
        loop {
            // SAFETY: memory of ours.
            let n = unsafe { libc::readv(self.fd.as_raw_fd(), buffers.as_ptr(), 2) };
            if n < 0 {
                let error = io::Error::last_os_error();
                match error.raw_os_error() {
                    Some(libc::EAGAIN) => return Ok(None),
                    Some(libc::EINTR) => continue,
                    _ => return Err(error),
                }
            }
            let Some(len) = (n as usize).checked_sub(Header::SIZE) else {
                continue;
            };
            frame.truncate(len);
            return Ok(Some(Header::decode(&header)));
        }
    }
}

impl Wire for Tap {
    fn connect(&self, port: Weak<dyn Port>) -> io::Result<()> {
        self.pump.start(self.queue.clone(), port.clone())?;
        if let Some(port) = port.upgrade() {
            port.link(self.pump.error().is_none());
        }
        Ok(())
    }

    fn disconnect(&self) {
        self.pump.stop();
    }

    fn send(&self, packet: &Packet) -> Sent {
        if packet.header().kind() != GSO_UDP_L4 || self.queue.takes.uso {
            return self.queue.write(packet);
        }
        let mut scratch = self.scratch.lock().unwrap_or_else(|e| e.into_inner());
        let takes = self.queue.takes;
        match adapt(packet, takes, &mut scratch, |frame| {
            self.queue.write(frame) == Sent::Done
        }) {
            true => Sent::Done,
            false => Sent::Dropped,
        }
    }

    fn room(&self) {
        self.pump.room();
    }
}
