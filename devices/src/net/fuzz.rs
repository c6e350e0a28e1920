//! What the fuzzer calls, and a test with random bytes: drivers that lost their minds,
//! at both ends of a wire.

use super::config::{Mac, F_GUEST_CSUM, F_MRG_RXBUF};
use super::control;
use super::counters::NetCounters;
use super::filter::Filter;
use super::receive::Receive;
use super::transmit::Transmit;
use crate::virtio::{Chain, GuestMemory, Interrupt, Queue, QueueLayout, Slot};
use std::sync::{Arc, Mutex, Weak};
use tane_host::{abi, Physical};
use tane_net::{Packet, Port, Sent, Wire};

/// Bytes of guest memory. Small, so that random addresses often lie in it.
const MEMORY: usize = 64 << 10;
/// Bytes at the start of the input that say how the queues lie.
const HEAD: usize = 8;

struct Nobody;

impl Interrupt for Nobody {
    fn raise(&self, _inside: bool) {}
}

/// What is sent comes back.
struct Loop(Mutex<Receive>, NetCounters);

impl Wire for Loop {
    fn connect(&self, _port: Weak<dyn Port>) -> std::io::Result<()> {
        Ok(())
    }

    fn disconnect(&self) {}

    fn send(&self, packet: &Packet) -> Sent {
        let mut receive = self.0.lock().expect("nobody panics");
        receive.deliver(packet, &self.1)
    }

    fn room(&self) {}
}

/// Guest memory is the input; three queues lie somewhere in it, and whatever is sent is
/// received again.
#[doc(hidden)]
pub fn fuzz_net(data: &[u8]) {
    let Some((head, rest)) = data.split_first_chunk::<HEAD>() else {
        return;
    };
    let mut ram = vec![0u64; MEMORY / 8 + 1];
    let base = ram.as_mut_ptr().cast::<u8>();
    // Rings are aligned to 16, which a vector of words need not be.
    let base = base.wrapping_add(base.align_offset(16));
    let len = (MEMORY - 16) as u64;
    for (at, byte) in rest.iter().take(len as usize).enumerate() {
        // SAFETY: inside `ram`.
        unsafe { base.add(at).write(*byte) };
    }
    // SAFETY: `ram` outlives the queues and is only used through them.
    let memory = unsafe { GuestMemory::new(base, len) };
    let queue = |place: u8| {
        let layout = QueueLayout {
            desc: Physical(u64::from(place) * 16),
            driver: Physical(u64::from(head[1]) * 64),
            device: Physical(u64::from(head[2]) * 128),
            size: 1 << (head[3] % 9),
            event_idx: head[4] & 1 != 0,
            indirect: head[4] & 2 != 0,
        };
        Queue::new(memory, layout).ok()
    };
    // SAFETY: zeros are an empty slot.
    let mut registers: Box<abi::Virtio> = unsafe { Box::new(std::mem::zeroed()) };
    // SAFETY: the registers outlive the slot.
    let slot = Arc::new(unsafe { Slot::new(&raw mut *registers, Arc::new(Nobody)) });
    let (Some(rx), Some(tx), Some(mut commands)) = (queue(head[5]), queue(head[0]), queue(head[6]))
    else {
        return;
    };
    let mut features = 0;
    if head[4] & 4 != 0 {
        features |= F_MRG_RXBUF;
    }
    if head[4] & 8 != 0 {
        features |= F_GUEST_CSUM;
    }
    let counters = NetCounters::default();
    let receive = Receive::new(rx, slot.clone(), features, Mac([2; 6]));
    let wire = Loop(Mutex::new(receive), NetCounters::default());
    let mut transmit = Transmit::new(tx, slot);
    for turn in 0..3 {
        transmit.send(&wire, &counters);
        if let Some(progress) = transmit.stalled() {
            transmit.give_up(progress + turn % 2);
        }
    }
    let mut filter = Filter::new(Mac([2; 6]));
    control::serve(
        &mut commands,
        &mut Chain::default(),
        |command| matches!(command, control::Command::Tables(bytes) if filter.set_tables(bytes)),
    )
    .ok();
}
