//! The driver's side of a split virtqueue (virtio 1.2, 2.7), written from the
//! specification alone: it is what the device is tested against.

use super::memory::Ram;
use std::sync::atomic::{fence, Ordering::*};
use std::sync::Arc;
use tane_devices::QueueLayout;

const NEXT: u16 = 1;
const WRITE: u16 = 2;
const INDIRECT: u16 = 4;

/// A buffer of a request.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    pub pa: u64,
    pub len: u32,
    /// By the device.
    pub writable: bool,
}

pub struct Ring {
    pub ram: Arc<Ram>,
    pub layout: QueueLayout,
    /// Descriptors that are in no request.
    free: Vec<u16>,
    /// What each head holds.
    held: Vec<Vec<u16>>,
    next_avail: u16,
    last_used: u16,
    /// The available index when the device was last notified.
    notified: u16,
}

impl Ring {
    pub fn new(ram: Arc<Ram>, size: u16, event_idx: bool, indirect: bool) -> Self {
        let n = usize::from(size);
        let layout = QueueLayout {
            desc: ram.allocate(16 * n, 16),
            driver: ram.allocate(6 + 2 * n, 2),
            device: ram.allocate(6 + 8 * n, 4),
            size,
            event_idx,
            indirect,
        };
        Self {
            ram,
            layout,
            free: (0..size).rev().collect(),
            held: vec![Vec::new(); n],
            next_avail: 0,
            last_used: 0,
            notified: 0,
        }
    }

    pub fn free(&self) -> usize {
        self.free.len()
    }

    fn describe(&self, at: u64, part: (u64, u32), flags: u16, next: u16) {
        self.ram.u64(at).store(part.0, Relaxed);
        // One word, as the device reads it.
        let rest = u64::from(part.1) | u64::from(flags) << 32 | u64::from(next) << 48;
        self.ram.u64(at + 8).store(rest, Relaxed);
    }

    /// Make a request available; returns its head.
    pub fn add(&mut self, parts: &[Part]) -> u16 {
        let write = |part: &Part| if part.writable { WRITE } else { 0 };
        let mut taken = Vec::new();
        if self.layout.indirect && parts.len() > 1 {
            let table = self.ram.allocate(16 * parts.len(), 8);
            for (i, part) in parts.iter().enumerate() {
                let next = if i + 1 < parts.len() { NEXT } else { 0 };
                let at = table + 16 * i as u64;
                self.describe(at, (part.pa, part.len), write(part) | next, i as u16 + 1);
            }
            let head = self.free.pop().expect("a free descriptor");
            let at = self.layout.desc + 16 * u64::from(head);
            self.describe(at, (table, 16 * parts.len() as u32), INDIRECT, 0);
            taken.push(head);
        } else {
            for _ in parts {
                taken.push(self.free.pop().expect("a free descriptor"));
            }
            for (i, part) in parts.iter().enumerate() {
                let next = taken.get(i + 1).copied();
                let flags = write(part) | if next.is_some() { NEXT } else { 0 };
                let at = self.layout.desc + 16 * u64::from(taken[i]);
                self.describe(at, (part.pa, part.len), flags, next.unwrap_or(0));
            }
        }
        let head = taken[0];
        self.held[usize::from(head)] = taken;
        self.offer(head);
        head
    }

    /// Put a head into the available ring.
    pub fn offer(&mut self, head: u16) {
        let slot = u64::from(self.next_avail % self.layout.size);
        let at = self.layout.driver + 4 + 2 * slot;
        self.ram.u16(at).store(head, Relaxed);
        self.next_avail = self.next_avail.wrapping_add(1);
        let index = self.ram.u16(self.layout.driver + 2);
        index.store(self.next_avail, Release);
    }

    /// Whether the device wants to be notified of what was added since the last
    /// time (2.7.10).
    pub fn must_notify(&mut self) -> bool {
        fence(SeqCst);
        let (old, new) = (self.notified, self.next_avail);
        self.notified = new;
        if self.layout.event_idx {
            let at = self.layout.device + 4 + 8 * u64::from(self.layout.size);
            let event = self.ram.u16(at).load(Relaxed);
            new.wrapping_sub(event).wrapping_sub(1) < new.wrapping_sub(old)
        } else {
            old != new && self.ram.u16(self.layout.device).load(Relaxed) & 1 == 0
        }
    }

    /// Take a used request: its head and how many bytes were written.
    pub fn take(&mut self) -> Option<(u16, u32)> {
        let index = self.ram.u16(self.layout.device + 2).load(Acquire);
        let waiting = index.wrapping_sub(self.last_used);
        assert!(waiting <= self.layout.size, "more used than asked");
        if waiting == 0 {
            return None;
        }
        let slot = u64::from(self.last_used % self.layout.size);
        let at = self.layout.device + 4 + 8 * slot;
        let head = self.ram.u32(at).load(Relaxed) as u16;
        let written = self.ram.u32(at + 4).load(Relaxed);
        self.last_used = self.last_used.wrapping_add(1);
        let taken = std::mem::take(&mut self.held[usize::from(head)]);
        assert!(!taken.is_empty(), "{head} was answered but not asked");
        self.free.extend(taken);
        Some((head, written))
    }

    /// Ask for an interrupt when `after` more requests are used; `true` if they
    /// are already.
    pub fn want_interrupt(&mut self, after: u16) -> bool {
        if self.layout.event_idx {
            let at = self.layout.driver + 4 + 2 * u64::from(self.layout.size);
            let event = self.last_used.wrapping_add(after - 1);
            self.ram.u16(at).store(event, Relaxed);
        } else {
            self.ram.u16(self.layout.driver).store(0, Relaxed);
        }
        fence(SeqCst);
        let index = self.ram.u16(self.layout.device + 2).load(Acquire);
        index.wrapping_sub(self.last_used) >= after
    }

    /// No interrupts, please (without event indices).
    pub fn no_interrupts(&mut self) {
        self.ram.u16(self.layout.driver).store(1, Relaxed);
    }
}
