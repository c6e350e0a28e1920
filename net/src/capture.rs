//! Writes down what passes a wire, in pcapng (draft-ietf-opsawg-pcapng), which tcpdump
//! and Wireshark read. Large segments and open checksums are as the device has them.

use crate::header::Offloads;
use crate::packet::Packet;
use crate::wire::{Port, Sent, Wire};
use std::io::{self, BufWriter, Write};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::SystemTime;
use tane_buffers::gather;

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const PACKET: u32 = 6;
const LINKTYPE_ETHERNET: u16 = 1;
const IF_NAME: u16 = 2;
const IF_TSRESOL: u16 = 9;
const EPB_FLAGS: u16 = 2;

/// From the device's side.
#[derive(Clone, Copy)]
enum Direction {
    In = 1,
    Out = 2,
}

/// A wire that passes everything on to another one.
///
/// The file is written by who sends and by who receives, through a buffer that
/// [`Self::flush`] and the last handle's drop empty. When it cannot be written the
/// network goes on: [`Self::error`] has the reason.
pub struct Capture {
    inner: Arc<dyn Wire>,
    tape: Arc<Tape>,
    /// What the inner wire has for a port.
    ear: Mutex<Option<Arc<Ear>>>,
}

struct Tape(Mutex<Writer>);

/// Says what time it is, in ns since 1970.
type Clock = Box<dyn Fn() -> u64 + Send + Sync>;

struct Writer {
    to: BufWriter<Box<dyn Write + Send>>,
    clock: Clock,
    block: Vec<u8>,
    error: Option<Arc<io::Error>>,
}

impl Capture {
    /// Write what passes `wire` to `to`, as the traffic of an interface of this name.
    pub fn new(
        wire: Arc<dyn Wire>,
        to: impl Write + Send + 'static,
        name: &str,
    ) -> io::Result<Arc<Capture>> {
        Self::by_clock(wire, to, name, host_time)
    }

    /// The same, of kernels whose time is not the host's: `clock` says what time it is, in ns
    /// since 1970, and is asked whenever something passes.
    pub fn by_clock(
        wire: Arc<dyn Wire>,
        to: impl Write + Send + 'static,
        name: &str,
        clock: impl Fn() -> u64 + Send + Sync + 'static,
    ) -> io::Result<Arc<Capture>> {
        let mut writer = Writer {
            to: BufWriter::with_capacity(256 << 10, Box::new(to)),
            clock: Box::new(clock),
            block: Vec::new(),
            error: None,
        };
        writer.start(name)?;
        Ok(Arc::new(Capture {
            inner: wire,
            tape: Arc::new(Tape(Mutex::new(writer))),
            ear: Mutex::default(),
        }))
    }

    /// Write what is in the buffer.
    pub fn flush(&self) -> io::Result<()> {
        let mut writer = self.tape.writer();
        if let Some(error) = &writer.error {
            return Err(io::Error::new(error.kind(), error.to_string()));
        }
        writer.to.flush()
    }

    /// Why nothing is written any more.
    pub fn error(&self) -> Option<Arc<io::Error>> {
        self.tape.writer().error.clone()
    }
}

fn host_time() -> u64 {
    let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    time.map_or(0, |time| time.as_nanos() as u64)
}

impl Tape {
    fn writer(&self) -> MutexGuard<'_, Writer> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn record(&self, packet: &Packet, direction: Direction) {
        let mut writer = self.writer();
        if writer.error.is_none() {
            if let Err(error) = writer.packet(packet, direction) {
                writer.error = Some(Arc::new(error));
            }
        }
    }
}

impl Writer {
    fn start(&mut self, name: &str) -> io::Result<()> {
        // Byte order, version 1.0, a section of unknown length.
        self.begin(SECTION);
        self.put(&0x1a2b_3c4du32.to_le_bytes());
        self.put(&[1, 0, 0, 0]);
        self.put(&u64::MAX.to_le_bytes());
        self.end()?;
        self.begin(INTERFACE);
        self.put(&LINKTYPE_ETHERNET.to_le_bytes());
        // Reserved, and packets whole.
        self.put(&[0; 6]);
        let name = &name.as_bytes()[..name.len().min(255)];
        self.option(IF_NAME, name);
        // Nanoseconds.
        self.option(IF_TSRESOL, &[9]);
        self.option(0, &[]);
        self.end()
    }

    fn packet(&mut self, packet: &Packet, direction: Direction) -> io::Result<()> {
        let time = (self.clock)();
        let len = packet.len() as u32;
        self.begin(PACKET);
        self.put(&0u32.to_le_bytes());
        self.put(&((time >> 32) as u32).to_le_bytes());
        self.put(&(time as u32).to_le_bytes());
        self.put(&len.to_le_bytes());
        self.put(&len.to_le_bytes());
        let start = self.block.len();
        self.block.resize(start + packet.len(), 0);
        // SAFETY: a packet's buffers are readable.
        unsafe { gather(packet.frame(), &mut self.block[start..]) };
        self.pad();
        self.option(EPB_FLAGS, &(direction as u32).to_le_bytes());
        self.option(0, &[]);
        self.end()
    }

    /// A block: type, length, body, length again.
    fn begin(&mut self, kind: u32) {
        self.block.clear();
        self.put(&kind.to_le_bytes());
        self.put(&[0; 4]);
    }

    fn put(&mut self, bytes: &[u8]) {
        self.block.extend_from_slice(bytes);
    }

    fn pad(&mut self) {
        self.block.resize(self.block.len().next_multiple_of(4), 0);
    }

    fn option(&mut self, code: u16, value: &[u8]) {
        self.put(&code.to_le_bytes());
        self.put(&(value.len() as u16).to_le_bytes());
        self.put(value);
        self.pad();
    }

    fn end(&mut self) -> io::Result<()> {
        let len = (self.block.len() + 4) as u32;
        self.block[4..8].copy_from_slice(&len.to_le_bytes());
        self.put(&len.to_le_bytes());
        self.to.write_all(&self.block)
    }
}

/// Listens to what the inner wire delivers.
struct Ear {
    port: Weak<dyn Port>,
    tape: Arc<Tape>,
}

impl Port for Ear {
    fn deliver(&self, packet: &Packet) -> Sent {
        let port = self.port.upgrade();
        let sent = port.map_or(Sent::Dropped, |port| port.deliver(packet));
        // What is offered again is written once.
        if sent != Sent::Later {
            self.tape.record(packet, Direction::In);
        }
        sent
    }

    fn room(&self) {
        if let Some(port) = self.port.upgrade() {
            port.room();
        }
    }

    fn link(&self, up: bool) {
        if let Some(port) = self.port.upgrade() {
            port.link(up);
        }
    }
}

impl Wire for Capture {
    fn connect(&self, port: Weak<dyn Port>) -> io::Result<()> {
        let tape = self.tape.clone();
        let ear = Arc::new(Ear { port, tape });
        let weak: Weak<dyn Port> = Arc::downgrade(&(ear.clone() as Arc<dyn Port>));
        let before = self
            .ear
            .lock()
            .unwrap_or_else(|e| e.into_inner())
            .replace(ear);
        let result = self.inner.connect(weak);
        if result.is_err() {
            *self.ear.lock().unwrap_or_else(|e| e.into_inner()) = before;
        }
        result
    }

    fn disconnect(&self) {
        self.inner.disconnect();
        *self.ear.lock().unwrap_or_else(|e| e.into_inner()) = None;
    }

    fn send(&self, packet: &Packet) -> Sent {
        let sent = self.inner.send(packet);
        if sent != Sent::Later {
            self.tape.record(packet, Direction::Out);
        }
        sent
    }

    fn room(&self) {
        self.inner.room();
    }

    fn offloads(&self) -> Offloads {
        self.inner.offloads()
    }
}
