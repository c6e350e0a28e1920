//! What a disk was at a checkpoint of its kernel.

use super::device::{Active, Inner};
use std::io;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use tane_host::Saved;
use tane_images::Undo;

/// What a disk was: where it is in its queues, and what it held.
pub struct SavedBlock {
    inner: Arc<Inner>,
    /// None of one that is only read.
    content: Option<Box<dyn Undo>>,
    lines: Vec<Option<Active>>,
    write_cache: bool,
}

impl SavedBlock {
    /// What it is now: every request is answered.
    pub fn of(inner: &Arc<Inner>) -> io::Result<Box<dyn Saved>> {
        let lines = 0..inner.lines.len();
        Ok(Box::new(Self {
            inner: inner.clone(),
            content: match inner.options.read_only {
                true => None,
                false => Some(inner.backend.clone().remember()?),
            },
            lines: lines
                .map(|index| inner.line(index).active.clone())
                .collect(),
            write_cache: inner.write_cache.load(Ordering::Relaxed),
        }))
    }
}

impl Saved for SavedBlock {
    fn roll_back(&self) -> io::Result<()> {
        if let Some(content) = &self.content {
            content.undo()?;
        }
        for (index, active) in self.lines.iter().enumerate() {
            self.inner.line(index).active = active.clone();
        }
        let cache = self.write_cache;
        self.inner.write_cache.store(cache, Ordering::Relaxed);
        Ok(())
    }
}
