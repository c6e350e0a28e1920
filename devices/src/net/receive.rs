//! The queue of what comes (virtio 1.2, 5.1.6.3, 5.1.6.4).

use super::config::{guest_offloads, Mac, F_MRG_RXBUF};
use super::counters::{count, NetCounters};
use super::filter::Filter;
use crate::virtio::{Broken, Chain, Queue, Slot};
use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use tane_buffers::{buffer, copy, gather, slice_into, total};
use tane_net::{adapt, Header, Offloads, Packet, Scratch, Sent};

pub struct Receive {
    queue: Queue,
    slot: Arc<Slot>,
    mergeable: bool,
    takes: Offloads,
    pub filter: Filter,
    buffers: Supply,
    scratch: Scratch,
    /// Nothing is put there any more: a reset, or a driver that broke the rules.
    closed: bool,
    /// Whoever had a packet was told to wait for buffers.
    starving: bool,
}

/// Chains of the driver's that wait for a packet.
#[derive(Default)]
struct Supply {
    chains: VecDeque<Chain>,
    /// Bytes of theirs.
    bytes: usize,
    /// To be used again.
    free: Vec<Chain>,
    used: Vec<(u16, u32)>,
    rest: Vec<libc::iovec>,
}

// SAFETY: pointers into guest memory, see `Chain`.
unsafe impl Send for Supply {}

/// What came of one packet.
enum Put {
    Done,
    /// More buffers are needed.
    NoBuffers,
    /// It fits no buffer.
    TooLarge,
}

impl Receive {
    pub fn new(queue: Queue, slot: Arc<Slot>, features: u64, mac: Mac) -> Self {
        Self {
            queue,
            slot,
            mergeable: features & F_MRG_RXBUF != 0,
            takes: guest_offloads(features),
            filter: Filter::new(mac),
            buffers: Supply::default(),
            scratch: Scratch::default(),
            closed: false,
            starving: false,
        }
    }

    pub fn set_offloads(&mut self, bits: u64) {
        self.takes = guest_offloads(bits);
    }

    pub fn is_busy(&self) -> bool {
        !self.closed && self.queue.is_unseen()
    }

    /// The driver has put new buffers there: whether somebody waits for them.
    pub fn refilled(&mut self) -> bool {
        std::mem::take(&mut self.starving)
    }

    /// Give the driver a packet, as it is or as what it is made of.
    pub fn deliver(&mut self, packet: &Packet, counters: &NetCounters) -> Sent {
        if self.closed {
            return Sent::Dropped;
        }
        let mut to = [0; 6];
        // SAFETY: a packet's buffers are readable.
        unsafe { gather(packet.frame(), &mut to) };
        if !self.filter.takes(Mac(to)) {
            count(&counters.filtered);
            return Sent::Done;
        }
        let result = self.deliver_all(packet, counters);
        if self.queue.wants_interrupt() {
            self.slot.used(false);
        }
        result.unwrap_or_else(|_| {
            self.closed = true;
            count(&counters.malformed);
            self.slot.needs_reset(false);
            Sent::Dropped
        })
    }

    fn deliver_all(&mut self, packet: &Packet, counters: &NetCounters) -> Result<Sent, Broken> {
        if self.takes.take(&packet.header()) {
            return match self.put(packet, counters)? {
                Put::Done => Ok(Sent::Done),
                Put::TooLarge => Ok(Sent::Dropped),
                Put::NoBuffers => Ok(Sent::Later),
            };
        }
        // Half of the frames is worse than none: begin when there seems to be room.
        // A driver need not fill its queue to the last entry before these are used.
        let frames = tane_net::count(packet, self.takes);
        let frames = frames.min(usize::from(self.queue.size()) / 2);
        if self.ready() < frames && self.starve(frames) {
            return Ok(Sent::Later);
        }
        count(&counters.worked_on);
        let mut scratch = std::mem::take(&mut self.scratch);
        let mut result = Ok(Put::Done);
        let mut first = true;
        let whole = adapt(packet, self.takes, &mut scratch, |frame| {
            result = self.put(frame, counters);
            if matches!(result, Ok(Put::NoBuffers)) && !first {
                // The sender cannot be asked for the rest alone.
                count(&counters.no_room);
                result = Ok(Put::TooLarge);
            }
            first = false;
            matches!(result, Ok(Put::Done))
        });
        self.scratch = scratch;
        Ok(match result? {
            Put::Done if whole => Sent::Done,
            Put::Done => {
                count(&counters.malformed);
                Sent::Dropped
            }
            Put::TooLarge => Sent::Dropped,
            Put::NoBuffers => Sent::Later,
        })
    }

    /// Chains that can be filled.
    fn ready(&self) -> usize {
        self.buffers.chains.len() + usize::from(self.queue.available())
    }

    /// Have the driver say when there are `wanted` buffers: whether there still are not.
    fn starve(&mut self, wanted: usize) -> bool {
        let more = wanted.saturating_sub(self.buffers.chains.len());
        self.starving = !self.queue.notify_when(more as u16);
        self.starving
    }

    fn put(&mut self, packet: &Packet, counters: &NetCounters) -> Result<Put, Broken> {
        let needed = Header::SIZE + packet.len();
        let Self { queue, buffers, .. } = self;
        let enough = |buffers: &Supply| match self.mergeable {
            true => buffers.bytes >= needed,
            false => !buffers.chains.is_empty(),
        };
        while !enough(buffers) {
            if buffers.take(queue)? {
                continue;
            }
            if buffers.chains.len() >= usize::from(queue.size()) {
                // All there can ever be is not enough.
                count(&counters.no_room);
                return Ok(Put::TooLarge);
            }
            if !queue.enable_notification() {
                self.starving = true;
                return Ok(Put::NoBuffers);
            }
        }
        if !self.mergeable && total(&buffers.chains[0].writable) < needed {
            count(&counters.no_room);
            return Ok(Put::TooLarge);
        }
        buffers.fill(queue, packet);
        counters.received.fetch_add(1, Ordering::Relaxed);
        Ok(Put::Done)
    }
}

impl Supply {
    /// Pop a chain; `false` if there is none.
    fn take(&mut self, queue: &mut Queue) -> Result<bool, Broken> {
        let mut chain = self.free.pop().unwrap_or_default();
        if !queue.pop(&mut chain)? {
            self.free.push(chain);
            return Ok(false);
        }
        let bytes = total(&chain.writable);
        if bytes < Header::SIZE {
            return Err(Broken("a buffer for packets without room for a header"));
        }
        self.bytes += bytes;
        self.chains.push_back(chain);
        Ok(true)
    }

    /// Put header and frame into as many chains as they need, which are there.
    fn fill(&mut self, queue: &mut Queue, packet: &Packet) {
        let mut left = Header::SIZE + packet.len();
        let mut chains = 0u16;
        for chain in &self.chains {
            left = left.saturating_sub(total(&chain.writable));
            chains += 1;
            if left == 0 {
                break;
            }
        }
        let header = packet.header().encode(chains);
        self.used.clear();
        let (mut place, len) = (0, Header::SIZE + packet.len());
        for number in 0..chains {
            let chain = self.chains.pop_front().expect("they were counted");
            let room = total(&chain.writable);
            self.bytes -= room;
            let here = room.min(len - place);
            // SAFETY: the guests' memory, and a header of ours.
            unsafe {
                if number == 0 {
                    copy(&[buffer(&header)], &chain.writable);
                    slice_into(
                        &chain.writable,
                        Header::SIZE,
                        here - Header::SIZE,
                        &mut self.rest,
                    );
                    copy(packet.frame(), &self.rest);
                } else {
                    slice_into(packet.frame(), place - Header::SIZE, here, &mut self.rest);
                    copy(&self.rest, &chain.writable);
                }
            }
            place += here;
            self.used.push((chain.head, here as u32));
            self.free.push(chain);
        }
        queue.push_all(self.used.iter().copied());
    }
}
