//! The driver's side of a split virtqueue (virtio 1.2, 2.7), written from the
//! specification alone: it is what the device is tested against.

use super::memory::Ram;
use std::sync::atomic::{fence, Ordering::*};
use std::sync::Arc;
use tane_devices::QueueLayout;
use tane_host::Physical;

pub const NEXT: u16 = 1;
pub const WRITE: u16 = 2;
pub const INDIRECT: u16 = 4;

/// A buffer of a request.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    pub pa: u64,
    pub len: u32,
    /// By the device.
    pub writable: bool,
}

/// Which the device reads.
pub fn out(pa: u64, len: u32) -> Part {
    let writable = false;
    Part { pa, len, writable }
}

/// Which the device writes.
pub fn into(pa: u64, len: u32) -> Part {
    let writable = true;
    Part { pa, len, writable }
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
            desc: Physical(ram.allocate(16 * n, 16)),
            driver: Physical(ram.allocate(6 + 2 * n, 2)),
            device: Physical(ram.allocate(6 + 8 * n, 4)),
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

    /// Write a descriptor into a table, right or wrong.
    pub fn describe(&self, table: impl Into<u64>, index: u16, part: Part, flags: u16, next: u16) {
        let at = table.into() + 16 * u64::from(index);
        let flags = flags | if part.writable { WRITE } else { 0 };
        self.ram.u64(at).store(part.pa, Relaxed);
        // One word, as the device reads it.
        let rest = u64::from(part.len) | u64::from(flags) << 32 | u64::from(next) << 48;
        self.ram.u64(at + 8).store(rest, Relaxed);
    }

    /// Make a request available; returns its head.
    pub fn add(&mut self, parts: &[Part]) -> u16 {
        let mut taken = Vec::new();
        if self.layout.indirect && parts.len() > 1 {
            let table = self.ram.allocate(16 * parts.len(), 8);
            for (i, part) in parts.iter().enumerate() {
                let next = if i + 1 < parts.len() { NEXT } else { 0 };
                self.describe(table, i as u16, *part, next, i as u16 + 1);
            }
            let head = self.free.pop().expect("a free descriptor");
            let whole = out(table, 16 * parts.len() as u32);
            self.describe(self.layout.desc, head, whole, INDIRECT, 0);
            taken.push(head);
        } else {
            for _ in parts {
                taken.push(self.free.pop().expect("a free descriptor"));
            }
            for (i, part) in parts.iter().enumerate() {
                let next = taken.get(i + 1).copied();
                let flags = if next.is_some() { NEXT } else { 0 };
                self.describe(self.layout.desc, taken[i], *part, flags, next.unwrap_or(0));
            }
        }
        let head = taken[0];
        self.held[usize::from(head)] = taken;
        self.offer(head);
        head
    }

    /// Put a head into the available ring, right or wrong.
    pub fn offer(&mut self, head: u16) {
        let slot = u64::from(self.next_avail % self.layout.size);
        let at = self.layout.driver + 4 + 2 * slot;
        self.ram.u16(at).store(head, Relaxed);
        self.set_available(self.next_avail.wrapping_add(1));
    }

    pub fn set_available(&mut self, index: u16) {
        self.next_avail = index;
        self.ram.u16(self.layout.driver + 2).store(index, Release);
        fence(SeqCst);
    }

    /// The index at whose passing the device wants a notification.
    pub fn available_event(&self) -> u16 {
        let at = self.layout.device + 4 + 8 * u64::from(self.layout.size);
        self.ram.u16(at).load(Relaxed)
    }

    pub fn used_index(&self) -> u16 {
        self.ram.u16(self.layout.device + 2).load(Acquire)
    }

    /// Whether the device wants to be notified of what was added since the last
    /// time (2.7.10).
    pub fn must_notify(&mut self) -> bool {
        fence(SeqCst);
        let (old, new) = (self.notified, self.next_avail);
        self.notified = new;
        if self.layout.event_idx {
            let event = self.available_event();
            new.wrapping_sub(event).wrapping_sub(1) < new.wrapping_sub(old)
        } else {
            old != new && self.ram.u16(self.layout.device).load(Relaxed) & 1 == 0
        }
    }

    /// Take a used request: its head and how many bytes were written.
    pub fn take(&mut self) -> Option<(u16, u32)> {
        let waiting = self.used_index().wrapping_sub(self.last_used);
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
            self.set_used_event(self.last_used.wrapping_add(after - 1));
        }
        fence(SeqCst);
        self.used_index().wrapping_sub(self.last_used) >= after
    }

    /// Ask for an interrupt when the device has used this index.
    pub fn set_used_event(&self, index: u16) {
        let at = self.layout.driver + 4 + 2 * u64::from(self.layout.size);
        self.ram.u16(at).store(index, Relaxed);
    }

    /// No interrupts, please; or some again (without event indices).
    pub fn set_no_interrupt(&self, on: bool) {
        self.ram.u16(self.layout.driver).store(on.into(), Relaxed);
    }
}
