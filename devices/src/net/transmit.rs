//! The queue of what is sent (virtio 1.2, 5.1.6.2).
//!
//! What the wire puts off stays in the queue, and the driver's network slows down as it
//! does before any full queue. But a peer that takes nothing for a while is one that
//! is not there: what waits for it is dropped, as a switch would.

use super::counters::{count, NetCounters};
use crate::virtio::{Broken, Chain, Queue, Slot};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Arc;
use tane_buffers::{gather, slice_into, total};
use tane_net::{Header, Packet, Sent, Wire};

pub struct Transmit {
    queue: Queue,
    slot: Arc<Slot>,
    chain: Chain,
    frame: Vec<libc::iovec>,
    /// `chain` was put off by the wire.
    waiting: bool,
    /// Counts the packets that went, also those that were lost: what waits at the same
    /// count has waited all along.
    progress: u64,
    /// The peer stands still: nothing waits for it.
    given_up: bool,
    closed: bool,
}

// SAFETY: pointers into guest memory, see `Chain`.
unsafe impl Send for Transmit {}

/// What else there is to do, when the queue is not held any more.
#[derive(Default)]
pub struct After {
    pub interrupt: Option<Arc<Slot>>,
    pub broken: Option<(Arc<Slot>, Broken)>,
    /// Something was put off: how many packets had gone by then.
    pub watch: Option<u64>,
    /// Something is left that nobody will notify of.
    pub more: bool,
}

impl Transmit {
    pub fn new(queue: Queue, slot: Arc<Slot>) -> Self {
        Self {
            queue,
            slot,
            chain: Chain::default(),
            frame: Vec::new(),
            waiting: false,
            progress: 0,
            given_up: false,
            closed: false,
        }
    }

    /// Whether something is to be sent.
    pub fn is_busy(&self) -> bool {
        !self.closed && (self.waiting || self.queue.available() > 0)
    }

    /// There may be room: who stood still moves again.
    pub fn room(&mut self) {
        self.given_up = false;
    }

    /// If nothing was taken since: the peer stands still.
    pub fn give_up(&mut self, progress: u64) {
        self.given_up = self.waiting && self.progress == progress;
    }

    /// How many packets were taken, if another one waits.
    pub fn stalled(&self) -> Option<u64> {
        (self.waiting && !self.closed).then_some(self.progress)
    }

    /// Send all there is, as far as the wire takes it. Ends, however fast the driver
    /// adds more: after twice a queue it leaves the rest to another call ([`After::more`]).
    pub fn send(&mut self, wire: &dyn Wire, counters: &NetCounters) -> After {
        let mut after = After::default();
        if self.closed {
            return after;
        }
        let result = self.send_all(wire, counters);
        after.watch = (self.waiting && !self.given_up).then_some(self.progress);
        if self.queue.wants_interrupt() {
            after.interrupt = Some(self.slot.clone());
        }
        match result {
            Ok(more) => after.more = more,
            Err(broken) => {
                self.closed = true;
                count(&counters.malformed);
                after.broken = Some((self.slot.clone(), broken));
            }
        }
        after
    }

    /// Whether there may be more.
    fn send_all(&mut self, wire: &dyn Wire, counters: &NetCounters) -> Result<bool, Broken> {
        for _ in 0..2 * u32::from(self.queue.size()) {
            if !self.waiting && !self.queue.pop(&mut self.chain)? {
                if self.queue.enable_notification() {
                    continue;
                }
                return Ok(false);
            }
            self.waiting = false;
            match self.offer(wire, counters) {
                Sent::Later if !self.given_up => {
                    count(&counters.put_off);
                    self.waiting = true;
                    return Ok(false);
                }
                Sent::Done => {
                    self.given_up = false;
                    count(&counters.sent);
                }
                Sent::Later | Sent::Dropped => count(&counters.lost),
            }
            self.progress += 1;
            self.queue.push(self.chain.head, 0);
        }
        Ok(true)
    }

    fn offer(&mut self, wire: &dyn Wire, counters: &NetCounters) -> Sent {
        let mut header = [0; Header::SIZE];
        let from = &self.chain.readable;
        let Some(len) = total(from).checked_sub(Header::SIZE) else {
            count(&counters.malformed);
            return Sent::Dropped;
        };
        slice_into(from, Header::SIZE, len, &mut self.frame);
        // SAFETY: guest memory.
        let packet = unsafe {
            gather(from, &mut header);
            Packet::new(Header::decode(&header), &self.frame)
        };
        let Ok(packet) = packet else {
            count(&counters.malformed);
            return Sent::Dropped;
        };
        // A wire may be the program's code: if it panics its packet is lost, and
        // neither the kernel nor the thread is.
        let sent = catch_unwind(AssertUnwindSafe(|| wire.send(&packet)));
        sent.unwrap_or(Sent::Dropped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::virtio::{GuestMemory, Interrupt, QueueLayout};
    use std::sync::{Mutex, Weak};
    use tane_host::{abi, Physical};
    use tane_net::Port;

    struct Nobody;

    impl Interrupt for Nobody {
        fn raise(&self, _inside: bool) {}
    }

    /// Answers as it is told.
    struct Told(Mutex<Vec<Sent>>);

    impl Wire for Told {
        fn connect(&self, _port: Weak<dyn Port>) -> std::io::Result<()> {
            Ok(())
        }
        fn disconnect(&self) {}
        fn send(&self, _packet: &Packet) -> Sent {
            self.0.lock().unwrap().remove(0)
        }
        fn room(&self) {}
    }

    #[test]
    fn a_packet_has_not_waited_for_as_long_as_a_lost_one_before_it() {
        const FRAME: u16 = Header::SIZE as u16 + 60;
        let mut ram = vec![0u64; 512];
        // Four descriptors, of which two are offered; all of the same bytes.
        for n in 0..2 {
            ram[2 * n] = 2048;
            ram[2 * n + 1] = FRAME.into();
        }
        ram[8] = 2 << 16 | 1 << 48;
        let base = ram.as_mut_ptr().cast::<u8>();
        // Rings are aligned to 16, which a vector of words need not be.
        let room = base.align_offset(16);
        // SAFETY: inside the vector, which is only used through the queue from now on.
        let memory = unsafe {
            base.copy_to(base.add(room), 3072);
            GuestMemory::new(base.add(room), 3072)
        };
        let layout = QueueLayout {
            desc: Physical(0),
            driver: Physical(64),
            device: Physical(128),
            size: 4,
            ..QueueLayout::default()
        };
        // SAFETY: zeros are an empty slot, which is there as long as the test.
        let mut registers: Box<abi::Virtio> = unsafe { Box::new(std::mem::zeroed()) };
        // SAFETY: as said.
        let slot = Arc::new(unsafe { Slot::new(&raw mut *registers, Arc::new(Nobody)) });
        let mut transmit = Transmit::new(Queue::new(memory, layout).unwrap(), slot);
        let counters = NetCounters::default();
        let send = |transmit: &mut Transmit, answers: &[Sent]| {
            let wire = Told(Mutex::new(answers.to_vec()));
            transmit.send(&wire, &counters);
            assert!(wire.0.lock().unwrap().is_empty(), "all of {answers:?}");
        };
        send(&mut transmit, &[Sent::Later]);
        let first = transmit.stalled().expect("one waits");
        transmit.room();
        send(&mut transmit, &[Sent::Dropped, Sent::Later]);
        assert_ne!(transmit.stalled(), Some(first));
        // Whoever watched the first is late.
        transmit.give_up(first);
        send(&mut transmit, &[Sent::Later]);
        assert!(transmit.is_busy());
        send(&mut transmit, &[Sent::Done]);
        assert!(!transmit.is_busy());
    }
}
