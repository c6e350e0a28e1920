//! The kernel's log, as it comes. Bounded: the newest megabyte is kept.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicU8, Ordering};
use std::sync::Mutex;

const KEEP: usize = 1 << 20;

/// The log of a kernel that processes share, in memory of all of them: the newest pieces.
#[repr(C)]
pub struct Ring {
    /// Bytes that were ever written. The kernel writes one piece at a time.
    written: AtomicU64,
    bytes: [AtomicU8; KEEP / 4],
}

impl Ring {
    fn write(&self, piece: &[u8]) {
        let at = self.written.load(Ordering::Acquire);
        for (n, byte) in (at..).zip(piece) {
            self.bytes[n as usize % self.bytes.len()].store(*byte, Ordering::Relaxed);
        }
        self.written
            .store(at + piece.len() as u64, Ordering::Release);
    }

    fn read(&self) -> Vec<u8> {
        let end = self.written.load(Ordering::Acquire);
        let start = end.saturating_sub(self.bytes.len() as u64);
        let byte = |n| self.bytes[n as usize % self.bytes.len()].load(Ordering::Relaxed);
        (start..end).map(byte).collect()
    }
}

type Sink = Box<dyn Fn(&str) + Send + Sync>;

pub struct Log {
    text: Mutex<Vec<u8>>,
    sink: Option<Sink>,
    muted: AtomicBool,
    ring: Option<*const Ring>,
}

// SAFETY: the ring is all atomics.
unsafe impl Send for Log {}
// SAFETY: the same.
unsafe impl Sync for Log {}

impl Log {
    /// `sink` gets every piece as soon as the kernel writes it. It runs inside
    /// the kernel's CPU: it must be quick and must not call the kernel. The `ring` of a
    /// kernel that is shared outlives this.
    pub fn new(sink: Option<Sink>, ring: Option<*const Ring>) -> Self {
        Self {
            text: Mutex::new(Vec::new()),
            sink,
            muted: AtomicBool::new(false),
            ring,
        }
    }

    /// The sink gets no more: what it locks may be locked for good.
    pub fn mute(&self) {
        self.muted.store(true, Ordering::Relaxed);
    }

    fn ring(&self) -> Option<&Ring> {
        // SAFETY: as `new` was promised.
        self.ring.map(|ring| unsafe { &*ring })
    }

    pub fn write(&self, piece: &[u8]) {
        let muted = self.muted.load(Ordering::Relaxed);
        if let Some(sink) = self.sink.as_ref().filter(|_| !muted) {
            sink(&String::from_utf8_lossy(piece));
        }
        if let Some(ring) = self.ring() {
            return ring.write(piece);
        }
        let mut text = self.text.lock().unwrap_or_else(|e| e.into_inner());
        if text.len() + piece.len() > KEEP {
            let cut = text.len() / 2;
            let line = text[cut..].iter().position(|&b| b == b'\n');
            text.drain(..line.map_or(cut, |at| cut + at + 1));
        }
        text.extend_from_slice(piece);
    }

    pub fn text(&self) -> String {
        if let Some(ring) = self.ring() {
            return String::from_utf8_lossy(&ring.read()).into_owned();
        }
        let text = self.text.lock().unwrap_or_else(|e| e.into_inner());
        String::from_utf8_lossy(&text).into_owned()
    }

    /// The last oops or panic, from its first line on.
    pub fn oops(&self) -> Option<String> {
        let text = self.text();
        let at = ["Oops:", "BUG: ", "Kernel panic"]
            .iter()
            .filter_map(|mark| text.rfind(mark))
            .min()?;
        let line = text[..at].rfind('\n').map_or(0, |n| n + 1);
        Some(text[line..].trim_end().to_owned())
    }
}
