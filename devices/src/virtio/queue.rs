//! The device's side of a split virtqueue (virtio 1.2, 2.7). Everything in the
//! rings is the driver's word: each index, address and length is checked where
//! it is used, and a chain has no more links than the table has entries.

use super::memory::GuestMemory;
use std::fmt;
use std::sync::atomic::{fence, Ordering};
use tane_host::Physical;

const NEXT: u16 = 1;
const WRITE: u16 = 2;
const INDIRECT: u16 = 4;
const AVAIL_NO_INTERRUPT: u16 = 1;
const DESCRIPTOR: u64 = 16;
const MAX_SIZE: u16 = 32768;
/// Most bytes of a chain (2.7.4: no more than fit a length).
const MAX_BYTES: u64 = u32::MAX as u64;

/// Where a driver put a queue, and what was negotiated.
#[derive(Clone, Copy, Debug, Default)]
pub struct QueueLayout {
    /// The descriptor table.
    pub desc: Physical,
    /// The ring of what the driver offers.
    pub driver: Physical,
    /// The ring of what the device has used.
    pub device: Physical,
    /// Entries, a power of two.
    pub size: u16,
    /// VIRTIO_F_EVENT_IDX.
    pub event_idx: bool,
    /// VIRTIO_F_INDIRECT_DESC.
    pub indirect: bool,
}

/// The driver broke the rules; the device must be reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken(pub &'static str);

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Broken {}

/// One request: its buffers, readable ones first, all of them in guest memory.
/// To be used again: its vectors keep their memory.
#[derive(Debug, Default)]
pub struct Chain {
    /// Its first descriptor, by which it is given back.
    pub head: u16,
    /// What the driver wrote for us.
    pub readable: Vec<libc::iovec>,
    /// What we may write.
    pub writable: Vec<libc::iovec>,
}

// SAFETY: pointers into guest memory, which is shared by nature.
unsafe impl Send for Chain {}

/// A queue in use.
#[derive(Clone, Debug)]
pub struct Queue {
    memory: GuestMemory,
    layout: QueueLayout,
    next_avail: u16,
    next_used: u16,
    /// `next_used` when the driver was last interrupted.
    signalled: u16,
    /// Why nothing is popped any more.
    broken: Option<Broken>,
}

struct Descriptor {
    addr: Physical,
    len: u32,
    flags: u16,
    next: u16,
}

impl Queue {
    /// The queue that the driver has put there.
    pub fn new(memory: GuestMemory, layout: QueueLayout) -> Result<Self, Broken> {
        let size = u64::from(layout.size);
        if !layout.size.is_power_of_two() || layout.size > MAX_SIZE {
            return Err(Broken("the queue size is not a power of two"));
        }
        for (address, align, len) in [
            (layout.desc, 16usize, DESCRIPTOR * size),
            (layout.driver, 2, 6 + 2 * size),
            (layout.device, 4, 6 + 8 * size),
        ] {
            let pointer = memory.pointer(address, len);
            if pointer.is_none_or(|p| !(p as usize).is_multiple_of(align)) {
                return Err(Broken("a ring is misaligned or not in memory"));
            }
        }
        Ok(Self {
            memory,
            layout,
            next_avail: 0,
            next_used: 0,
            signalled: 0,
            broken: None,
        })
    }

    fn u16(&self, pa: Physical) -> &std::sync::atomic::AtomicU16 {
        self.memory.u16(pa).expect("rings were checked")
    }

    fn slot(&self, index: u16) -> u64 {
        u64::from(index & (self.layout.size - 1))
    }

    /// Entries.
    pub fn size(&self) -> u16 {
        self.layout.size
    }

    /// Whether a request is not answered yet, or the last answer not seen: with
    /// VIRTIO_F_EVENT_IDX the driver says which it has seen (virtio 1.2, 2.7.10). Of
    /// a queue that is `closed`, only what was popped will be answered.
    pub fn is_busy(&self, closed: bool) -> bool {
        if closed || self.broken.is_some() {
            return self.in_flight() != 0;
        }
        let available = self.u16(self.layout.driver + 2).load(Ordering::SeqCst);
        available != self.next_used || self.is_unseen()
    }

    /// Whether the driver has not seen the last answer, as far as it says so.
    pub fn is_unseen(&self) -> bool {
        let seen = self.layout.driver + 4 + 2 * u64::from(self.layout.size);
        self.layout.event_idx && self.u16(seen).load(Ordering::SeqCst) != self.next_used
    }

    /// Popped and not yet pushed.
    pub fn in_flight(&self) -> u16 {
        self.next_avail.wrapping_sub(self.next_used)
    }

    /// The next request, into `chain`; `false` when there is none. After an
    /// error every call fails: the rings make no sense any more. Chains that
    /// were popped before may still be pushed.
    pub fn pop(&mut self, chain: &mut Chain) -> Result<bool, Broken> {
        if let Some(broken) = self.broken {
            return Err(broken);
        }
        let result = self.pop_checked(chain);
        self.broken = result.err();
        result
    }

    fn pop_checked(&mut self, chain: &mut Chain) -> Result<bool, Broken> {
        let index = self.u16(self.layout.driver + 2).load(Ordering::Acquire);
        let waiting = index.wrapping_sub(self.next_avail);
        if waiting == 0 {
            return Ok(false);
        }
        if waiting > self.layout.size {
            return Err(Broken("more requests than the queue has entries"));
        }
        // Each chain in flight has a descriptor of its own. This also bounds what
        // a driver can make us remember.
        if self.in_flight() >= self.layout.size {
            return Err(Broken("more requests in flight than the queue has entries"));
        }
        let entry = self.layout.driver + 4 + 2 * self.slot(self.next_avail);
        let head = self.u16(entry).load(Ordering::Relaxed);
        self.collect(head, chain)?;
        self.next_avail = self.next_avail.wrapping_add(1);
        Ok(true)
    }

    /// Ask to be notified of requests after the last one popped; `true` if one
    /// came in the meantime and must be popped first.
    pub fn enable_notification(&mut self) -> bool {
        self.notify_when(1)
    }

    /// Ask to be notified when `count` requests can be popped; `true` if they can be.
    /// A driver that knows no VIRTIO_F_EVENT_IDX notifies of each.
    pub fn notify_when(&mut self, count: u16) -> bool {
        if self.layout.event_idx {
            let event = self.layout.device + 4 + 8 * u64::from(self.layout.size);
            let last = self.next_avail.wrapping_add(count.max(1) - 1);
            self.u16(event).store(last, Ordering::Relaxed);
        }
        fence(Ordering::SeqCst);
        let index = self.u16(self.layout.driver + 2).load(Ordering::Acquire);
        index.wrapping_sub(self.next_avail) >= count.max(1)
    }

    /// Read once, in two words: the driver may change it while we look.
    fn descriptor(&self, table: Physical, index: u16) -> Result<Descriptor, Broken> {
        let missing = Broken("a descriptor table is misaligned or not in memory");
        let at = DESCRIPTOR
            .checked_mul(index.into())
            .and_then(|offset| table.checked_add(offset))
            .ok_or(missing)?;
        let addr = self.memory.u64(at).ok_or(missing)?;
        let rest = at.checked_add(8).and_then(|at| self.memory.u64(at));
        let rest = rest.ok_or(missing)?.load(Ordering::Relaxed);
        let rest = u64::from_le(rest);
        Ok(Descriptor {
            addr: Physical(u64::from_le(addr.load(Ordering::Relaxed))),
            len: rest as u32,
            flags: (rest >> 32) as u16,
            next: (rest >> 48) as u16,
        })
    }

    fn collect(&self, head: u16, chain: &mut Chain) -> Result<(), Broken> {
        chain.head = head;
        chain.readable.clear();
        chain.writable.clear();
        let (mut table, mut entries) = (self.layout.desc, self.layout.size);
        let (mut index, mut links, mut indirect) = (head, 0u32, false);
        let mut bytes = 0u64;
        loop {
            if index >= entries {
                return Err(Broken("a descriptor index is beyond its table"));
            }
            // A chain with more links than entries is a loop.
            links += 1;
            if links > u32::from(entries) {
                return Err(Broken("a chain of descriptors loops"));
            }
            let d = self.descriptor(table, index)?;
            if d.flags & INDIRECT != 0 {
                if indirect || !self.layout.indirect || d.flags & NEXT != 0 {
                    return Err(Broken("an indirect descriptor where none may be"));
                }
                // No word of alignment in 2.7.5.3; Linux allocates them to 8.
                if d.len == 0 || u64::from(d.len) % DESCRIPTOR != 0 {
                    return Err(Broken("an indirect table of a wrong size"));
                }
                let count = u64::from(d.len) / DESCRIPTOR;
                if count > u64::from(MAX_SIZE) {
                    return Err(Broken("an indirect table of a wrong size"));
                }
                (table, entries, index, links) = (d.addr, count as u16, 0, 0);
                indirect = true;
                continue;
            }
            bytes += u64::from(d.len);
            if bytes > MAX_BYTES {
                return Err(Broken("a chain of more bytes than a length can say"));
            }
            self.buffer(&d, chain)?;
            if d.flags & NEXT == 0 {
                return Ok(());
            }
            index = d.next;
        }
    }

    fn buffer(&self, d: &Descriptor, chain: &mut Chain) -> Result<(), Broken> {
        let pointer = self
            .memory
            .pointer(d.addr, d.len.into())
            .ok_or(Broken("a buffer is not in memory"))?;
        let buffer = libc::iovec {
            iov_base: pointer.cast(),
            iov_len: d.len as usize,
        };
        let writable = d.flags & WRITE != 0;
        if !writable && !chain.writable.is_empty() {
            return Err(Broken("a readable buffer after a writable one"));
        }
        // An empty buffer is not worth handing on, but keeps its place above.
        if writable {
            chain.writable.push(buffer);
        } else if d.len > 0 {
            chain.readable.push(buffer);
        }
        Ok(())
    }

    /// Give a popped chain back, `written` bytes of its writable buffers filled.
    pub fn push(&mut self, head: u16, written: u32) {
        self.push_all([(head, written)]);
    }

    /// Give chains back, each with how much was written: the driver sees them at once.
    pub fn push_all(&mut self, chains: impl IntoIterator<Item = (u16, u32)>) {
        for (head, written) in chains {
            let at = self.layout.device + 4 + 8 * self.slot(self.next_used);
            let word = |pa| self.memory.u32(pa).expect("rings were checked");
            word(at).store(head.into(), Ordering::Relaxed);
            word(at + 4).store(written, Ordering::Relaxed);
            self.next_used = self.next_used.wrapping_add(1);
        }
        self.u16(self.layout.device + 2)
            .store(self.next_used, Ordering::Release);
    }

    /// How many chains wait to be popped; 0 of a queue that makes no sense.
    pub fn available(&self) -> u16 {
        let index = self.u16(self.layout.driver + 2).load(Ordering::Acquire);
        let waiting = index.wrapping_sub(self.next_avail);
        match self.broken {
            None if waiting <= self.layout.size => waiting,
            _ => 0,
        }
    }

    /// Whether the driver wants an interrupt for what was pushed since the last
    /// time this said yes.
    pub fn wants_interrupt(&mut self) -> bool {
        fence(Ordering::SeqCst);
        let (old, new) = (self.signalled, self.next_used);
        if old == new {
            return false;
        }
        let wanted = if self.layout.event_idx {
            let at = self.layout.driver + 4 + 2 * u64::from(self.layout.size);
            let event = self.u16(at).load(Ordering::Relaxed);
            // virtio 1.2, 2.7.10: did the index pass the event?
            new.wrapping_sub(event).wrapping_sub(1) < new.wrapping_sub(old)
        } else {
            let flags = self.u16(self.layout.driver).load(Ordering::Relaxed);
            flags & AVAIL_NO_INTERRUPT == 0
        };
        self.signalled = new;
        wanted
    }
}
