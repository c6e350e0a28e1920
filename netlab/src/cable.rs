//! What a frame takes from one card to the other.
//!
//! A cable hands nothing over by itself: a card's packets are put on the way, and the world
//! delivers them when it is their time. So no kernel runs while another one does.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use tane::net::{Header, Offloads, Packet, Port, Sent, Wire};

/// What a bit takes through 200 m of cable, in ns. Without it time would stand still while
/// two kernels answer each other.
const LENGTH: u64 = 1000;

/// The time that all share, in ns since the kernels were made.
#[derive(Clone, Debug, Default)]
pub struct Clock(Arc<AtomicU64>);

impl Clock {
    pub fn now(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    pub fn set(&self, time: u64) {
        self.0.store(time, Ordering::SeqCst);
    }
}

/// A frame that is under way.
pub struct Frame {
    cable: Arc<Cable>,
    /// The side that gets it.
    side: usize,
    header: Header,
    bytes: Vec<u8>,
}

impl Frame {
    /// The member of the world that gets it.
    pub fn member(&self) -> usize {
        self.cable.members[self.side]
    }

    /// Put it into the card. Called while nobody is inside its kernel.
    pub fn deliver(&self) {
        let buffer = libc::iovec {
            iov_base: self.bytes.as_ptr().cast_mut().cast(),
            iov_len: self.bytes.len(),
        };
        let buffers = [buffer];
        // SAFETY: readable as long as this exists, and nobody changes it.
        let packet = unsafe { Packet::new(self.header, &buffers) };
        let sent = match (packet, self.cable.port(self.side)) {
            (Ok(packet), Some(port)) if self.cable.is_whole() => port.deliver(&packet),
            _ => Sent::Dropped,
        };
        let counts = &self.cable.counts[1 - self.side];
        let counter = match sent {
            Sent::Done => &counts.delivered,
            // A card without a free buffer drops, as one of metal does.
            Sent::Later | Sent::Dropped => &counts.dropped,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// The frames of all cables, by when they arrive, and then in the order in which they were sent.
#[derive(Default)]
pub struct Frames(Mutex<BTreeMap<(u64, u64), Frame>>, AtomicU64);

impl Frames {
    fn all(&self) -> MutexGuard<'_, BTreeMap<(u64, u64), Frame>> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn put(&self, arrives: u64, frame: Frame) {
        let number = self.1.fetch_add(1, Ordering::Relaxed);
        self.all().insert((arrives, number), frame);
    }

    /// When the next one arrives.
    pub fn next(&self) -> Option<u64> {
        self.all().keys().next().map(|(arrives, _)| *arrives)
    }

    /// The next one, if it is there by then.
    pub fn take(&self, now: u64) -> Option<Frame> {
        let mut all = self.all();
        let first = all.first_entry()?;
        (first.key().0 <= now).then(|| first.remove())
    }

    /// How many were ever sent.
    pub fn count(&self) -> u64 {
        self.1.load(Ordering::Relaxed)
    }
}

/// What one end has sent, in frames.
#[derive(Debug, Default)]
pub struct Counts {
    pub delivered: AtomicU64,
    /// Nobody took it: the cable was cut, or the other card had no buffer.
    pub dropped: AtomicU64,
    pub bytes: AtomicU64,
}

/// A cable between two members of the world.
pub struct Cable {
    members: [usize; 2],
    ports: Mutex<[Option<Weak<dyn Port>>; 2]>,
    whole: AtomicBool,
    counts: [Counts; 2],
    /// The world's, which have the cable while a frame is under way.
    frames: Weak<Frames>,
    clock: Clock,
}

impl Cable {
    /// The cable, which is cut at first, and what its cards have for a wire.
    pub fn new(
        members: [usize; 2],
        frames: &Arc<Frames>,
        clock: &Clock,
    ) -> (Arc<Cable>, [Arc<dyn Wire>; 2]) {
        let cable = Arc::new(Cable {
            members,
            ports: Mutex::default(),
            whole: AtomicBool::new(false),
            counts: Default::default(),
            frames: Arc::downgrade(frames),
            clock: clock.clone(),
        });
        let end = |side| -> Arc<dyn Wire> {
            let cable = cable.clone();
            Arc::new(CableEnd { cable, side })
        };
        let ends = [end(0), end(1)];
        (cable, ends)
    }

    /// What this side has sent.
    pub fn counts(&self, side: usize) -> &Counts {
        &self.counts[side]
    }

    /// Cut it, or mend it: both cards see that. What is under way is lost.
    pub fn cut(&self, yes: bool) {
        self.whole.store(!yes, Ordering::SeqCst);
        self.say_who_is_there();
    }

    fn is_whole(&self) -> bool {
        self.whole.load(Ordering::SeqCst)
    }

    fn ports(&self) -> MutexGuard<'_, [Option<Weak<dyn Port>>; 2]> {
        self.ports.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Not under the lock, so that it may go meanwhile.
    fn port(&self, side: usize) -> Option<Arc<dyn Port>> {
        let port = self.ports()[side].clone();
        port.and_then(|port| port.upgrade())
    }

    fn say_who_is_there(&self) {
        let ports = [self.port(0), self.port(1)];
        let both = ports.iter().all(Option::is_some) && self.is_whole();
        for port in ports.into_iter().flatten() {
            port.link(both);
        }
    }
}

struct CableEnd {
    cable: Arc<Cable>,
    side: usize,
}

impl Wire for CableEnd {
    fn connect(&self, port: Weak<dyn Port>) -> io::Result<()> {
        {
            let here = &mut self.cable.ports()[self.side];
            if here.as_ref().is_some_and(|port| port.strong_count() > 0) {
                return Err(io::Error::from_raw_os_error(libc::EBUSY));
            }
            *here = Some(port);
        }
        self.cable.say_who_is_there();
        Ok(())
    }

    fn disconnect(&self) {
        self.cable.ports()[self.side] = None;
        self.cable.say_who_is_there();
    }

    fn send(&self, packet: &Packet) -> Sent {
        let cable = &self.cable;
        let counts = &cable.counts[self.side];
        let frames = cable.frames.upgrade().filter(|_| cable.is_whole());
        let Some(frames) = frames else {
            counts.dropped.fetch_add(1, Ordering::Relaxed);
            return Sent::Dropped;
        };
        let mut bytes = vec![0u8; packet.len()];
        let mut at = 0;
        for part in packet.frame() {
            // SAFETY: a packet's buffers are readable, and as long as it says in all.
            unsafe {
                let to = bytes.as_mut_ptr().add(at);
                std::ptr::copy(part.iov_base.cast::<u8>(), to, part.iov_len);
            }
            at += part.iov_len;
        }
        counts
            .bytes
            .fetch_add(bytes.len() as u64, Ordering::Relaxed);
        let frame = Frame {
            cable: cable.clone(),
            side: 1 - self.side,
            header: packet.header(),
            bytes,
        };
        frames.put(cable.clock.now() + LENGTH, frame);
        Sent::Done
    }

    fn room(&self) {}

    /// Frames as they are on a wire: each one is lost, delayed and captured by itself.
    fn offloads(&self) -> Offloads {
        Offloads::NONE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_that_are_under_way_keep_nothing_when_the_world_is_gone() {
        let frames = Arc::default();
        let (cable, [end, _]) = Cable::new([0, 1], &frames, &Clock::default());
        let bytes = [0u8; 60];
        let buffers = [libc::iovec {
            iov_base: bytes.as_ptr().cast_mut().cast(),
            iov_len: bytes.len(),
        }];
        cable.cut(false);
        // SAFETY: readable, and nobody changes it.
        let packet = unsafe { Packet::new(Header::default(), &buffers) }.expect("a packet");
        assert!(matches!(end.send(&packet), Sent::Done));
        assert!(frames.next().is_some());
        let seen = Arc::downgrade(&cable);
        drop((cable, end, frames));
        assert!(seen.upgrade().is_none());
    }
}
