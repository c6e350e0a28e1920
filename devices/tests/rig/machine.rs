//! A guest without a kernel: memory, registers, queues, and a block driver.

use super::ram::Ram;
use super::ring::{into, out, Ring, RING_SPAN};
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tane_devices::{Block, BlockOptions, Device, Interrupt, Slot, Transport};
use tane_host::abi;
use tane_images::Backend;

pub const READ: u32 = 0;
pub const WRITE: u32 = 1;
pub const FLUSH: u32 = 4;
pub const GET_ID: u32 = 8;
pub const DISCARD: u32 = 11;
pub const WRITE_ZEROES: u32 = 13;

pub const OK: u8 = 0;
pub const IOERR: u8 = 1;
pub const UNSUPP: u8 = 2;

pub const NEEDS_RESET: u32 = 64;
pub const F_CONFIG_WCE: u64 = 1 << 11;
const DRIVER_OK: u32 = 4;
const ENTRIES: u16 = 64;
/// Buffers of a queue, after all rings.
const BUFFERS: u64 = 2 << 20;

#[derive(Default)]
pub struct Line {
    pub raised: AtomicUsize,
}

impl Interrupt for Line {
    fn raise(&self, _inside: bool) {
        self.raised.fetch_add(1, Ordering::SeqCst);
    }
}

/// A queue of the driver: its ring, its buffers, its answers.
pub struct Lane {
    pub ring: Ring,
    start: u64,
    next: u64,
    /// Requests in flight by their heads, which are used again; and answers.
    owners: HashMap<u16, u64>,
    answers: HashMap<u64, u32>,
    tickets: u64,
}

/// A request that was put.
#[derive(Clone, Copy, Debug)]
pub struct Pending {
    ticket: u64,
    pub data: u64,
    pub len: u32,
    pub status: u64,
}

/// What the device said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: u8,
    /// Bytes that it says it wrote.
    pub written: u32,
    pub data: Vec<u8>,
}

pub struct Machine {
    pub transport: Transport,
    pub block: Arc<Block>,
    pub line: Arc<Line>,
    pub lanes: Vec<Mutex<Lane>>,
    registers: *mut abi::Virtio,
    pub ram: Arc<Ram>,
}

// SAFETY: registers are accessed by one test thread, or atomically.
unsafe impl Send for Machine {}
unsafe impl Sync for Machine {}

impl Machine {
    pub fn new(backend: Arc<dyn Backend>, options: BlockOptions) -> Self {
        Self::with(backend, options, true, true)
    }

    pub fn with(
        backend: Arc<dyn Backend>,
        options: BlockOptions,
        event_idx: bool,
        indirect: bool,
    ) -> Self {
        let queues = u64::from(options.queues);
        let ram = Arc::new(Ram::new((queues * (RING_SPAN + BUFFERS)) as usize));
        // SAFETY: zero is a value of every field.
        let registers = Box::into_raw(Box::new(unsafe { std::mem::zeroed::<abi::Virtio>() }));
        let line = Arc::new(Line::default());
        let block = Block::new(backend, options);
        // SAFETY: freed after the transport has stopped.
        let slot = Arc::new(unsafe { Slot::new(registers, line.clone()) });
        let transport = Transport::new(block.clone(), slot, ram.memory());
        let lane = |index: u64| {
            let start = queues * RING_SPAN + index * BUFFERS;
            Mutex::new(Lane {
                ring: Ring::new(&ram, index * RING_SPAN, ENTRIES, event_idx, indirect),
                start,
                next: start,
                owners: HashMap::new(),
                answers: HashMap::new(),
                tickets: 0,
            })
        };
        let machine = Self {
            transport,
            block,
            line,
            lanes: (0..queues).map(lane).collect(),
            registers,
            ram,
        };
        let refused = [(indirect, 28), (event_idx, 29)];
        let refused = refused.iter().filter(|(on, _)| !on);
        machine.start(!refused.fold(0, |all, (_, bit)| all | 1u64 << bit));
        machine
    }

    /// Accept the device's features but for those that are not in `mask`.
    pub fn start(&self, mask: u64) {
        // SAFETY: ours; the device looks at it in `status`.
        let r = unsafe { &mut *self.registers };
        r.driver_features = r.device_features & mask;
        for (queue, lane) in r.queues.iter_mut().zip(&self.lanes) {
            let layout = lane.lock().unwrap().ring.layout();
            queue.desc.store(layout.desc, Ordering::Relaxed);
            queue.driver.store(layout.driver, Ordering::Relaxed);
            queue.device.store(layout.device, Ordering::Relaxed);
            (queue.size, queue.ready) = (layout.size, 1);
        }
        r.status.store(DRIVER_OK, Ordering::Release);
        self.transport.status();
    }

    /// Reset the device, as a driver does.
    pub fn reset(&self) {
        // SAFETY: ours.
        unsafe { &(*self.registers).status }.store(0, Ordering::Release);
        self.transport.status();
    }

    pub fn status(&self) -> u32 {
        // SAFETY: ours.
        unsafe { &(*self.registers).status }.load(Ordering::Acquire)
    }

    pub fn set_config(&self, at: usize, byte: u8) {
        // SAFETY: ours.
        unsafe { (*self.registers).config[at] = byte };
    }

    /// Put a request with `out` bytes for the device and `room` for its answer.
    pub fn put(&self, lane: usize, kind: u32, sector: u64, from: &[u8], room: u32) -> Pending {
        let mut lane = self.lanes[lane].lock().unwrap();
        let data_len = from.len() as u64 + u64::from(room);
        let header = lane.allocate(32 + data_len);
        let (status, data) = (header + 16, header + 32);
        let mut bytes = kind.to_le_bytes().to_vec();
        bytes.extend([0; 4]);
        bytes.extend(sector.to_le_bytes());
        self.ram.write(header, &bytes);
        self.ram.write(status, &[0xee]);
        self.ram.write(data, from);
        let mut pieces = vec![out(header, 16)];
        // In two parts, one of them not a sector.
        let cut = from.len() as u32 / 3;
        if cut > 0 {
            pieces.push(out(data, cut));
        }
        if !from.is_empty() {
            pieces.push(out(data + u64::from(cut), from.len() as u32 - cut));
        }
        let data = data + from.len() as u64;
        if room > 0 {
            pieces.push(into(data, room / 3));
            pieces.push(into(data + u64::from(room / 3), room - room / 3));
        }
        pieces.push(into(status, 1));
        let head = lane.ring.put(&pieces).expect("room in the ring");
        lane.tickets += 1;
        let ticket = lane.tickets;
        lane.owners.insert(head, ticket);
        Pending {
            ticket,
            data,
            len: room,
            status,
        }
    }

    pub fn notify(&self, lane: usize) {
        self.transport.notify(lane as u32);
    }

    /// Wait for the answer; not for ever.
    pub fn wait(&self, lane: usize, request: Pending) -> Answer {
        let start = Instant::now();
        loop {
            let mut lane = self.lanes[lane].lock().unwrap();
            while let Some((head, written)) = lane.ring.take() {
                let ticket = lane.owners.remove(&head).unwrap();
                lane.answers.insert(ticket, written);
            }
            if let Some(written) = lane.answers.remove(&request.ticket) {
                return Answer {
                    status: self.ram.read(request.status, 1)[0],
                    written,
                    data: self.ram.read(request.data, request.len as usize),
                };
            }
            drop(lane);
            assert!(start.elapsed() < Duration::from_secs(20), "no answer");
            std::thread::sleep(Duration::from_micros(50));
        }
    }

    /// Put, notify, wait, on the first queue.
    pub fn ask(&self, kind: u32, sector: u64, from: &[u8], room: u32) -> Answer {
        let request = self.put(0, kind, sector, from, room);
        self.notify(0);
        self.wait(0, request)
    }

    pub fn read(&self, sector: u64, len: u32) -> Answer {
        self.ask(READ, sector, &[], len)
    }

    pub fn write(&self, sector: u64, data: &[u8]) -> Answer {
        self.ask(WRITE, sector, data, 0)
    }
}

impl Lane {
    fn allocate(&mut self, len: u64) -> u64 {
        if self.ring.in_flight() == 0 && self.answers.is_empty() {
            self.next = self.start;
        }
        let at = self.next;
        self.next = (at + len).next_multiple_of(16);
        assert!(self.next <= self.start + BUFFERS, "too much in flight");
        at
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.transport.stop();
        self.block.stop();
        // SAFETY: nobody uses them after a stop.
        drop(unsafe { Box::from_raw(self.registers) });
    }
}
