//! What the thread that served a request does before it takes the next one, unless
//! that has come: to be asked less.

use crate::served::Served;
use crate::turns::Turn;
use std::time::{Duration, Instant};

/// How long it looks for attributes at a time.
const A_WHILE: Duration = Duration::from_micros(250);

/// A request under way, and what comes after it.
pub struct Serving<'s> {
    served: &'s Served,
    _turn: Turn<'s>,
}

impl Drop for Serving<'_> {
    fn drop(&mut self) {
        self.served.use_spare_time();
    }
}

impl Served {
    pub(crate) fn turn(&self) -> Serving<'_> {
        Serving {
            _turn: self.turns.take(),
            served: self,
        }
    }

    /// A file's first bytes were asked for.
    pub(crate) fn was_read(&self, id: u64) {
        if let Ok(node) = self.table.get(id) {
            self.prefetch.was_read(&self.table, &node);
        }
    }

    fn use_spare_time(&self) {
        let read = |id, to: &mut [u8]| self.read(id, 0, to).ok();
        let mut since = None;
        loop {
            if !self.prefetch.has_more() && !self.bare.is_looking() {
                return;
            }
            if self.turns.is_wanted() {
                return;
            }
            if self.prefetch.store(&self.table, read) {
                continue;
            }
            let since = since.get_or_insert_with(Instant::now);
            if since.elapsed() > A_WHILE || !self.bare.look() {
                return;
            }
        }
    }
}
