//! Unix sockets in QEMU's framing (`-netdev stream` and `-netdev dgram`), as passt,
//! gvproxy and QEMU itself speak it: plain frames, on a stream each behind its length
//! in four bytes, network order.

use crate::header::{Header, Offloads};
use crate::packet::{Packet, MAX_FRAME};
use crate::pump::{Pump, Source};
use crate::segment::{adapt, Scratch};
use crate::wire::{Port, Sent, Wire};
use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use tane_buffers::{buffer, gather};

const LENGTH: usize = 4;

/// A peer behind a stream socket.
pub struct Stream {
    line: Arc<StreamLine>,
    pump: Arc<Pump>,
}

struct StreamLine {
    socket: UnixStream,
    out: Mutex<Out>,
    /// What was read: bytes of frames from `.1` on. Of the pump's thread.
    read: Mutex<(Vec<u8>, usize)>,
}

/// What the socket has not taken yet: of one packet, after which none is accepted.
#[derive(Default)]
struct Out {
    bytes: Vec<u8>,
    sent: usize,
    scratch: Scratch,
}

impl Stream {
    /// A socket that is connected, such as one end of a pair of which passt has the
    /// other (`--fd`).
    pub fn new(socket: UnixStream) -> io::Result<Arc<Stream>> {
        socket.set_nonblocking(true)?;
        Ok(Arc::new(Stream {
            line: Arc::new(StreamLine {
                socket,
                out: Mutex::default(),
                read: Mutex::default(),
            }),
            pump: Arc::new(Pump::new()?),
        }))
    }

    /// Connect to who listens there.
    pub fn connect_to(path: impl AsRef<Path>) -> io::Result<Arc<Stream>> {
        Self::new(UnixStream::connect(path)?)
    }

    /// Why nothing comes any more: the peer ended, or sent what makes no sense.
    pub fn error(&self) -> Option<Arc<io::Error>> {
        self.pump.error()
    }
}

impl StreamLine {
    fn out(&self) -> MutexGuard<'_, Out> {
        self.out.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// `Ok(true)`: nothing is left.
    fn push(&self, out: &mut Out) -> io::Result<bool> {
        while out.sent < out.bytes.len() {
            let buffers = [buffer(&out.bytes[out.sent..])];
            match send(self.socket.as_raw_fd(), &buffers) {
                Ok(n) => out.sent += n,
                Err(error) if is_full(&error) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        out.bytes.clear();
        out.sent = 0;
        Ok(true)
    }
}

/// Send what can be sent now.
fn send(fd: RawFd, buffers: &[libc::iovec]) -> io::Result<usize> {
    loop {
        // SAFETY: a plain structure, and buffers that are readable.
        let n = unsafe {
            let mut message: libc::msghdr = std::mem::zeroed();
            message.msg_iov = buffers.as_ptr().cast_mut();
            message.msg_iovlen = buffers.len();
            libc::sendmsg(
                fd,
                &raw const message,
                libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT,
            )
        };
        if n >= 0 {
            return Ok(n as usize);
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EINTR) => {}
            // A jail of a kernel does not let it, as it takes addresses and descriptors.
            Some(libc::ENOSYS) => return write(fd, buffers),
            _ => return Err(error),
        }
    }
}

/// The same by writev(2): a peer that has gone is a signal then, SIGPIPE, unless that is
/// ignored, as it is in programs of Rust's.
fn write(fd: RawFd, buffers: &[libc::iovec]) -> io::Result<usize> {
    loop {
        // SAFETY: buffers that are readable.
        let n = unsafe { libc::writev(fd, buffers.as_ptr(), buffers.len() as i32) };
        if n >= 0 {
            return Ok(n as usize);
        }
        let error = io::Error::last_os_error();
        if error.kind() != ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// What has come, by read(2): std's own are recvfrom(2), which no jail of a kernel lets.
fn receive(fd: RawFd, to: &mut [u8]) -> io::Result<usize> {
    // SAFETY: writes into these bytes.
    match unsafe { libc::read(fd, to.as_mut_ptr().cast(), to.len()) } {
        -1 => Err(io::Error::last_os_error()),
        n => Ok(n as usize),
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::ENOBUFS))
}

impl Source for StreamLine {
    fn fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    fn next(&self, frame: &mut Vec<u8>) -> io::Result<Option<Header>> {
        let mut read = self.read.lock().unwrap_or_else(|e| e.into_inner());
        let (bytes, start) = &mut *read;
        loop {
            let there = &bytes[*start..];
            if let Some((length, rest)) = there.split_first_chunk::<LENGTH>() {
                let len = u32::from_be_bytes(*length) as usize;
                if len > MAX_FRAME {
                    let text = format!("the peer announced a frame of {len} bytes");
                    return Err(io::Error::new(ErrorKind::InvalidData, text));
                }
                if let Some(whole) = rest.get(..len) {
                    frame.clear();
                    frame.extend_from_slice(whole);
                    *start += LENGTH + len;
                    // One that is too short too: the pump counts it, and drops it.
                    return Ok(Some(Header::default()));
                }
            }
            bytes.drain(..*start);
            *start = 0;
            let had = bytes.len();
            // Room for a whole frame and more, so that many small ones take one call.
            bytes.resize(had + 2 * MAX_FRAME, 0);
            let n = receive(self.socket.as_raw_fd(), &mut bytes[had..]);
            bytes.truncate(had + *n.as_ref().unwrap_or(&0));
            match n {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }

    fn flush(&self) -> io::Result<bool> {
        self.push(&mut self.out())
    }
}

impl Wire for Stream {
    fn connect(&self, port: Weak<dyn Port>) -> io::Result<()> {
        start(&self.pump, self.line.clone(), port)
    }

    fn disconnect(&self) {
        self.pump.stop();
    }

    fn send(&self, packet: &Packet) -> Sent {
        if self.pump.error().is_some() {
            return Sent::Dropped;
        }
        let mut out = self.line.out();
        if !out.bytes.is_empty() {
            self.pump.wait_for_room();
            return Sent::Later;
        }
        let Out { bytes, scratch, .. } = &mut *out;
        let whole = adapt(packet, Offloads::NONE, scratch, |frame| {
            bytes.extend_from_slice(&(frame.len() as u32).to_be_bytes());
            let start = bytes.len();
            bytes.resize(start + frame.len(), 0);
            // SAFETY: a packet's buffers are readable.
            unsafe { gather(frame.frame(), &mut bytes[start..]) };
            true
        });
        match self.line.push(&mut out) {
            // A packet that is half on its way is as good as sent.
            Ok(all) => {
                if !all {
                    self.pump.wait_for_room();
                }
                if whole {
                    Sent::Done
                } else {
                    Sent::Dropped
                }
            }
            Err(error) => {
                self.pump.fail(error);
                Sent::Dropped
            }
        }
    }

    fn room(&self) {
        self.pump.room();
    }
}

fn start(pump: &Pump, source: Arc<dyn Source>, port: Weak<dyn Port>) -> io::Result<()> {
    pump.start(source, port.clone())?;
    if let Some(port) = port.upgrade() {
        port.link(pump.error().is_none());
    }
    Ok(())
}

/// A peer behind a datagram socket: a datagram is a frame.
pub struct Datagram {
    line: Arc<DatagramLine>,
    pump: Pump,
    scratch: Mutex<Scratch>,
}

struct DatagramLine(UnixDatagram);

impl Datagram {
    /// A socket that is connected.
    pub fn new(socket: UnixDatagram) -> io::Result<Arc<Datagram>> {
        socket.set_nonblocking(true)?;
        Ok(Arc::new(Datagram {
            line: Arc::new(DatagramLine(socket)),
            pump: Pump::new()?,
            scratch: Mutex::default(),
        }))
    }

    /// Why nothing comes any more.
    pub fn error(&self) -> Option<Arc<io::Error>> {
        self.pump.error()
    }
}

impl Source for DatagramLine {
    fn fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    fn next(&self, frame: &mut Vec<u8>) -> io::Result<Option<Header>> {
        loop {
            // A byte more, to know what was cut off.
            frame.resize(MAX_FRAME + 1, 0);
            match receive(self.0.as_raw_fd(), frame) {
                // One that is too short or too long too: the pump counts it, and drops it.
                Ok(len) => {
                    frame.truncate(len);
                    return Ok(Some(Header::default()));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl Wire for Datagram {
    fn connect(&self, port: Weak<dyn Port>) -> io::Result<()> {
        start(&self.pump, self.line.clone(), port)
    }

    fn disconnect(&self) {
        self.pump.stop();
    }

    fn send(&self, packet: &Packet) -> Sent {
        if self.pump.error().is_some() {
            return Sent::Dropped;
        }
        let mut scratch = self.scratch.lock().unwrap_or_else(|e| e.into_inner());
        let (mut sent, mut result) = (0, Sent::Done);
        let whole = adapt(packet, Offloads::NONE, &mut scratch, |frame| {
            match send(self.line.0.as_raw_fd(), frame.frame()) {
                Ok(_) => sent += 1,
                // Of a packet that is several frames the rest is lost; what sent it
                // knows what to do.
                Err(error) if is_full(&error) && sent == 0 => result = Sent::Later,
                Err(error) if is_full(&error) || is_theirs(&error) => result = Sent::Dropped,
                Err(error) => {
                    self.pump.fail(error);
                    result = Sent::Dropped;
                }
            }
            result == Sent::Done
        });
        if result == Sent::Later {
            self.pump.wait_for_room();
        }
        if result == Sent::Done && !whole {
            return Sent::Dropped;
        }
        result
    }

    fn room(&self) {
        self.pump.room();
    }
}

/// Errors of one datagram, after which others may succeed.
fn is_theirs(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EMSGSIZE | libc::EINVAL | libc::ENOMEM)
    )
}
