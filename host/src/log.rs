//! The kernel's log, as it comes. Bounded: the newest megabyte is kept.

use std::sync::Mutex;

const KEEP: usize = 1 << 20;

type Sink = Box<dyn Fn(&str) + Send + Sync>;

pub struct Log {
    text: Mutex<Vec<u8>>,
    sink: Option<Sink>,
}

impl Log {
    /// `sink` gets every piece as soon as the kernel writes it. It runs inside
    /// the kernel's CPU: it must be quick and must not call the kernel.
    pub fn new(sink: Option<Sink>) -> Self {
        Self {
            text: Mutex::new(Vec::new()),
            sink,
        }
    }

    pub fn write(&self, piece: &[u8]) {
        if let Some(sink) = &self.sink {
            sink(&String::from_utf8_lossy(piece));
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
