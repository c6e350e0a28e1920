//! Two devices of this process, in two kernels or in one, joined by a wire. A packet is
//! copied once, from the one kernel's memory to the other's, by the thread that sends.

use crate::packet::Packet;
use crate::wire::{Port, Sent, Wire};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, Weak};

type Ends = [Option<Weak<dyn Port>>; 2];

/// One end of such a wire.
pub struct Pair {
    ends: Arc<Mutex<Ends>>,
    here: usize,
}

impl Pair {
    /// The two ends.
    pub fn new() -> (Arc<Pair>, Arc<Pair>) {
        let ends = Arc::new(Mutex::default());
        let end = |here| {
            let ends = Arc::clone(&ends);
            Arc::new(Pair { ends, here })
        };
        (end(0), end(1))
    }

    fn ends(&self) -> MutexGuard<'_, Ends> {
        self.ends.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// The device at the other end. Not under the lock, so that it may go meanwhile.
    fn other(&self) -> Option<Arc<dyn Port>> {
        let other = self.ends()[1 - self.here].clone();
        other.and_then(|port| port.upgrade())
    }

    fn say_who_is_there(&self) {
        let ends = self.ends().clone();
        let ends = ends.map(|end| end.and_then(|port| port.upgrade()));
        let both = ends.iter().all(Option::is_some);
        for port in ends.into_iter().flatten() {
            port.link(both);
        }
    }
}

impl Wire for Pair {
    fn connect(&self, port: Weak<dyn Port>) -> io::Result<()> {
        {
            let mut ends = self.ends();
            let here = &mut ends[self.here];
            if here.as_ref().is_some_and(|port| port.strong_count() > 0) {
                return Err(io::Error::from_raw_os_error(libc::EBUSY));
            }
            *here = Some(port);
        }
        self.say_who_is_there();
        Ok(())
    }

    fn disconnect(&self) {
        self.ends()[self.here] = None;
        self.say_who_is_there();
        // What the other end had put off is lost.
        self.room();
    }

    fn send(&self, packet: &Packet) -> Sent {
        let other = self.other();
        other.map_or(Sent::Dropped, |port| port.deliver(packet))
    }

    fn room(&self) {
        if let Some(port) = self.other() {
            port.room();
        }
    }
}
