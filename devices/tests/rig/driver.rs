//! A block driver over the test rings. Its threads may use a queue each.

use super::memory::{Line, Ram, Registers};
use super::ring::{Part, Ring};
use std::sync::{Arc, Mutex, MutexGuard};
use tane_devices::{Block, BlockOptions, Transport};
use tane_host::abi;
use tane_images::Backend;

pub const IN: u32 = 0;
pub const OUT: u32 = 1;
pub const FLUSH: u32 = 4;
pub const GET_ID: u32 = 8;
pub const DISCARD: u32 = 11;
pub const WRITE_ZEROES: u32 = 13;

pub const OK: u8 = 0;
pub const IOERR: u8 = 1;
pub const UNSUPP: u8 = 2;
/// What the status byte holds before the device writes it.
pub const UNANSWERED: u8 = 0xee;

pub const F_FLUSH: u64 = 1 << 9;
pub const F_CONFIG_WCE: u64 = 1 << 11;
const F_INDIRECT: u64 = 1 << 28;
const F_EVENT_IDX: u64 = 1 << 29;
pub const NEEDS_RESET: u32 = 64;

/// How the driver goes about it.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    pub size: u16,
    pub event_idx: bool,
    pub indirect: bool,
    /// Without these features.
    pub refuse: u64,
}

impl Default for Style {
    fn default() -> Self {
        Self {
            size: 64,
            event_idx: true,
            indirect: true,
            refuse: 0,
        }
    }
}

/// A request under way.
pub struct Request {
    pub queue: usize,
    pub head: u16,
    status: u64,
    data: u64,
    len: usize,
}

/// A guest with one disk.
pub struct Guest {
    // The device goes first, then what it works on.
    pub transport: Transport,
    pub block: Arc<Block>,
    rings: Vec<Mutex<Ring>>,
    pub line: Arc<Line>,
    pub registers: Registers,
    pub ram: Arc<Ram>,
    style: Style,
}

impl Guest {
    pub fn new(backend: Arc<dyn Backend>) -> Self {
        Self::with(backend, BlockOptions::default(), Style::default())
    }

    pub fn with(backend: Arc<dyn Backend>, options: BlockOptions, style: Style) -> Self {
        let ram = Arc::new(Ram::new(if cfg!(miri) { 1 << 18 } else { 16 << 20 }));
        let (line, registers) = (Arc::new(Line::default()), Registers::default());
        let block = Block::new(backend, options);
        let slot = registers.slot(line.clone());
        let transport = Transport::new(block.clone(), slot, ram.guest());
        let mut guest = Self {
            transport,
            block,
            rings: Vec::new(),
            line,
            registers,
            ram,
            style,
        };
        guest.start();
        guest
    }

    /// As the driver does: rings, features, DRIVER_OK.
    pub fn start(&mut self) {
        let r = self.registers.pointer();
        // SAFETY: the registers are ours; the device looks at DRIVER_OK.
        unsafe {
            let mut features = (*r).device_features & !self.style.refuse;
            if !self.style.event_idx {
                features &= !F_EVENT_IDX;
            }
            if !self.style.indirect {
                features &= !F_INDIRECT;
            }
            (*r).driver_features = features;
            self.rings.clear();
            for index in 0..(*r).nr_queues as usize {
                let size = self.style.size.min((*r).queues[index].size_max);
                let ring = Ring::new(
                    self.ram.clone(),
                    size,
                    self.style.event_idx,
                    self.style.indirect,
                );
                let queue = &mut (*r).queues[index];
                *queue = abi::VirtioQueue {
                    desc: ring.layout.desc.0.into(),
                    driver: ring.layout.driver.0.into(),
                    device: ring.layout.device.0.into(),
                    size,
                    size_max: queue.size_max,
                    ready: 1,
                    pad: [0; 3],
                };
                self.rings.push(Mutex::new(ring));
            }
        }
        self.set_status(15);
    }

    pub fn ring(&self, queue: usize) -> MutexGuard<'_, Ring> {
        self.rings[queue].lock().unwrap()
    }

    pub fn set_status(&self, status: u32) {
        self.registers.set_status(status);
        self.transport.status();
    }

    pub fn reset(&self) {
        self.set_status(0);
    }

    /// Make a request available without telling the device. `data` is what the
    /// device reads, `room` how much it may write.
    pub fn put(&self, queue: usize, kind: u32, sector: u64, data: &[u8], room: usize) -> Request {
        let mut header = Vec::from(kind.to_le_bytes());
        header.extend(0u32.to_le_bytes());
        header.extend(sector.to_le_bytes());
        let place = |bytes: &[u8]| {
            let pa = self.ram.allocate(bytes.len(), 16);
            self.ram.write(pa, bytes);
            pa
        };
        let (header, status) = (place(&header), place(&[UNANSWERED]));
        // At once: another thread may put a request of its own.
        let len = room.max(data.len());
        let data_at = self.ram.allocate(len, 16);
        self.ram.write(data_at, data);
        let part = |pa, len: usize, writable| Part {
            pa,
            len: len as u32,
            writable,
        };
        let mut parts = vec![part(header, 16, false)];
        if len > 1 {
            // In two pieces of odd lengths.
            let cut = (len / 3) | 1;
            parts.push(part(data_at, cut, room > 0));
            parts.push(part(data_at + cut as u64, len - cut, room > 0));
        }
        parts.push(part(status, 1, true));
        let head = self.ring(queue).add(&parts);
        Request {
            queue,
            head,
            status,
            data: data_at,
            len,
        }
    }

    /// Tell the device about new requests, if it wants to know.
    pub fn kick(&self, queue: usize) {
        let wanted = self.ring(queue).must_notify();
        if wanted {
            self.transport.notify(queue as u32);
        }
    }

    /// Wait until a request is used; returns its head and length. Sleeps as a
    /// real driver does: an interrupt that is missing is a test that fails.
    pub fn wait(&self, queue: usize) -> (u16, u32) {
        loop {
            let before = self.line.counts().0;
            let mut ring = self.ring(queue);
            if let Some(used) = ring.take() {
                return used;
            }
            if ring.want_interrupt(1) {
                continue;
            }
            drop(ring);
            assert!(self.line.wait(before), "no interrupt for a used request");
        }
    }

    /// The answer to a request that is used.
    pub fn answer(&self, request: &Request) -> (u8, Vec<u8>) {
        let status = self.ram.read(request.status, 1)[0];
        (status, self.ram.read(request.data, request.len))
    }

    /// One request from beginning to end; returns status, data and length.
    pub fn ask(&self, kind: u32, sector: u64, data: &[u8], room: usize) -> (u8, Vec<u8>, u32) {
        let request = self.put(0, kind, sector, data, room);
        self.kick(0);
        let (head, written) = self.wait(0);
        assert_eq!(head, request.head);
        let (status, data) = self.answer(&request);
        (status, data, written)
    }

    pub fn read(&self, sector: u64, len: usize) -> (u8, Vec<u8>) {
        let (status, data, _) = self.ask(IN, sector, &[], len);
        (status, data)
    }

    pub fn write(&self, sector: u64, data: &[u8]) -> u8 {
        self.ask(OUT, sector, data, 0).0
    }

    pub fn flush(&self) -> u8 {
        self.ask(FLUSH, 0, &[], 0).0
    }

    /// Discard or write zeroes: sector, count, flags.
    pub fn ranges(&self, kind: u32, ranges: &[(u64, u32, u32)]) -> u8 {
        let mut data = Vec::new();
        for (sector, count, flags) in ranges {
            data.extend(sector.to_le_bytes());
            data.extend(count.to_le_bytes());
            data.extend(flags.to_le_bytes());
        }
        self.ask(kind, 0, &data, 0).0
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        // Threads must not outlive the memory.
        self.transport.stop();
    }
}
