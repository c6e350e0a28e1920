//! A driver's side of a split virtqueue, written from the specification alone
//! (virtio 1.2, 2.7) and not from the device's code.

use super::ram::Ram;
use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use tane_devices::QueueLayout;

pub const NEXT: u16 = 1;
pub const WRITE: u16 = 2;
pub const INDIRECT: u16 = 4;

/// What a ring takes of guest memory.
pub const RING_SPAN: u64 = 128 << 10;
const DRIVER: u64 = 8 << 10;
const DEVICE: u64 = 16 << 10;
const TABLES: u64 = 32 << 10;
/// Longest indirect table.
const TABLE: u64 = 16;

/// A piece of a chain.
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    pub pa: u64,
    pub len: u32,
    pub write: bool,
}

pub fn out(pa: u64, len: u32) -> Piece {
    let write = false;
    Piece { pa, len, write }
}

pub fn into(pa: u64, len: u32) -> Piece {
    let write = true;
    Piece { pa, len, write }
}

pub struct Ring {
    pub ram: Arc<Ram>,
    base: u64,
    size: u16,
    event_idx: bool,
    indirect: bool,
    free: Vec<u16>,
    chains: HashMap<u16, Vec<u16>>,
    next_avail: u16,
    last_used: u16,
}

impl Ring {
    pub fn new(ram: &Arc<Ram>, base: u64, size: u16, event_idx: bool, indirect: bool) -> Self {
        Self {
            ram: ram.clone(),
            base,
            size,
            event_idx,
            indirect,
            free: (0..size).rev().collect(),
            chains: HashMap::new(),
            next_avail: 0,
            last_used: 0,
        }
    }

    pub fn layout(&self) -> QueueLayout {
        QueueLayout {
            desc: self.base,
            driver: self.base + DRIVER,
            device: self.base + DEVICE,
            size: self.size,
            event_idx: self.event_idx,
            indirect: self.indirect,
        }
    }

    /// Write a descriptor into a table.
    pub fn describe(&self, table: u64, index: u16, piece: Piece, flags: u16, next: u16) {
        let mut bytes = Vec::new();
        bytes.extend(piece.pa.to_le_bytes());
        bytes.extend(piece.len.to_le_bytes());
        bytes.extend((flags | if piece.write { WRITE } else { 0 }).to_le_bytes());
        bytes.extend(next.to_le_bytes());
        self.ram.write(table + 16 * u64::from(index), &bytes);
    }

    /// Make a chain available, without a notification. `None`: no room.
    pub fn put(&mut self, pieces: &[Piece]) -> Option<u16> {
        let entries = if self.indirect { 1 } else { pieces.len() };
        if self.free.len() < entries {
            return None;
        }
        let taken = self.free.split_off(self.free.len() - entries);
        let head = taken[0];
        let (table, indices) = if self.indirect {
            assert!(pieces.len() as u64 <= TABLE);
            let table = self.base + TABLES + u64::from(head) * TABLE * 16;
            let whole = out(table, 16 * pieces.len() as u32);
            self.describe(self.base, head, whole, INDIRECT, 0);
            (table, (0..pieces.len() as u16).collect())
        } else {
            (self.base, taken.clone())
        };
        for (i, piece) in pieces.iter().enumerate() {
            let next = indices.get(i + 1).copied();
            let flags = if next.is_some() { NEXT } else { 0 };
            self.describe(table, indices[i], *piece, flags, next.unwrap_or(0));
        }
        self.chains.insert(head, taken);
        self.offer(head);
        Some(head)
    }

    /// Put any number into the ring as the head of a chain.
    pub fn offer(&mut self, head: u16) {
        let slot = self.base + DRIVER + 4 + 2 * u64::from(self.next_avail % self.size);
        self.ram.u16(slot).store(head, Ordering::Relaxed);
        self.set_available(self.next_avail.wrapping_add(1));
    }

    pub fn set_available(&mut self, index: u16) {
        self.next_avail = index;
        let at = self.base + DRIVER + 2;
        self.ram.u16(at).store(index, Ordering::Release);
        std::sync::atomic::fence(Ordering::SeqCst);
    }

    /// A chain that the device gave back: its head and the bytes written.
    pub fn take(&mut self) -> Option<(u16, u32)> {
        if self.used_index() == self.last_used {
            return None;
        }
        let at = self.base + DEVICE + 4 + 8 * u64::from(self.last_used % self.size);
        self.last_used = self.last_used.wrapping_add(1);
        let (head, written) = (self.ram.u32(at) as u16, self.ram.u32(at + 4));
        let chain = self.chains.remove(&head).expect("a chain that is not ours");
        self.free.extend(chain);
        Some((head, written))
    }

    pub fn used_index(&self) -> u16 {
        self.ram.u16(self.base + DEVICE + 2).load(Ordering::Acquire)
    }

    /// The index at whose passing the device wants a notification.
    pub fn available_event(&self) -> u16 {
        let at = self.base + DEVICE + 4 + 8 * u64::from(self.size);
        self.ram.u16(at).load(Ordering::Acquire)
    }

    /// Ask for an interrupt when the device has used this index.
    pub fn set_used_event(&self, index: u16) {
        let at = self.base + DRIVER + 4 + 2 * u64::from(self.size);
        self.ram.u16(at).store(index, Ordering::Release);
    }

    /// The flag that means: no interrupts.
    pub fn set_no_interrupt(&self, on: bool) {
        let flags = self.ram.u16(self.base + DRIVER);
        flags.store(on.into(), Ordering::Release);
    }

    pub fn in_flight(&self) -> usize {
        self.chains.len()
    }
}
