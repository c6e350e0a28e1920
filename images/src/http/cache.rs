//! What was read from a server, in blocks, and what to read with it.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;

/// In bytes. A request takes as long as this much does on a slow line.
pub(super) const BLOCK: u64 = 64 << 10;
/// Most blocks kept: 64 MiB.
const KEPT: usize = 1024;
/// Most blocks read ahead: 4 MiB.
const AHEAD: u64 = 64;
/// Most readers of consecutive blocks that are told apart.
const STREAMS: usize = 8;

enum Slot {
    /// Somebody is reading it.
    Coming,
    Here(Arc<[u8]>, u64),
}

/// A reader that went on where it was.
struct Stream {
    next: u64,
    ahead: u64,
}

#[derive(Default)]
pub(super) struct Cache {
    slots: HashMap<u64, Slot>,
    /// By the time of their last use.
    order: BTreeMap<u64, u64>,
    clock: u64,
    /// The newest last.
    streams: Vec<Stream>,
}

impl Cache {
    pub fn get(&mut self, block: u64) -> Option<Arc<[u8]>> {
        self.clock += 1;
        match self.slots.get_mut(&block)? {
            Slot::Coming => None,
            Slot::Here(bytes, used) => {
                self.order.remove(used);
                *used = self.clock;
                self.order.insert(self.clock, block);
                Some(bytes.clone())
            }
        }
    }

    pub fn is_coming(&self, block: u64) -> bool {
        matches!(self.slots.get(&block), Some(Slot::Coming))
    }

    pub fn put(&mut self, block: u64, bytes: Arc<[u8]>) {
        while self.order.len() >= KEPT {
            let Some((_, oldest)) = self.order.pop_first() else {
                break;
            };
            self.slots.remove(&oldest);
        }
        self.clock += 1;
        self.order.insert(self.clock, block);
        self.slots.insert(block, Slot::Here(bytes, self.clock));
    }

    /// It could not be read.
    pub fn failed(&mut self, block: u64) {
        if self.is_coming(block) {
            self.slots.remove(&block);
        }
    }

    /// The runs of blocks that are to be read for somebody who wants `wanted` of
    /// a file of `end` blocks; they count as coming from now on.
    pub fn missing(&mut self, wanted: Range<u64>, end: u64) -> Vec<Range<u64>> {
        let absent = |cache: &Self, block: &u64| !cache.slots.contains_key(block);
        let mut blocks: Vec<u64> = wanted.clone().filter(|b| absent(self, b)).collect();
        let Some(first) = blocks.first() else {
            return Vec::new();
        };
        // The first block behind what was read before: it will go on so.
        let stream = self.streams.iter().position(|s| s.next == *first);
        let mut stream = stream.map_or(Stream { next: 0, ahead: 1 }, |i| self.streams.remove(i));
        let mut next = wanted.end;
        if stream.next > 0 {
            stream.ahead = (stream.ahead * 2).min(AHEAD);
            let ahead = wanted.end..end.min(wanted.end + stream.ahead);
            for block in ahead.take_while(|b| absent(self, b)) {
                blocks.push(block);
                next = block + 1;
            }
        }
        stream.next = next;
        if self.streams.len() == STREAMS {
            self.streams.remove(0);
        }
        self.streams.push(stream);
        let mut runs: Vec<Range<u64>> = Vec::new();
        for block in blocks {
            self.slots.insert(block, Slot::Coming);
            match runs.last_mut().filter(|run| run.end == block) {
                Some(run) => run.end += 1,
                None => runs.push(block..block + 1),
            }
        }
        runs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_reads_on_gets_more_each_time_and_who_jumps_does_not() {
        let mut cache = Cache::default();
        let mut at = 100;
        let mut lengths = Vec::new();
        for _ in 0..8 {
            let runs = cache.missing(at..at + 1, 10_000);
            assert_eq!(runs.len(), 1);
            lengths.push(runs[0].end - runs[0].start);
            at = runs[0].end;
            // Somebody else reads here and there.
            assert_eq!(cache.missing(at * 7..at * 7 + 1, 10_000).len(), 1);
        }
        assert_eq!(lengths, [1, 3, 5, 9, 17, 33, 65, 65]);
    }

    #[test]
    fn it_keeps_what_was_used_last() {
        let mut cache = Cache::default();
        for block in 0..KEPT as u64 {
            cache.put(block, Arc::new([1]));
        }
        assert!(cache.get(0).is_some());
        cache.put(KEPT as u64, Arc::new([1]));
        assert!(cache.get(0).is_some());
        assert!(cache.get(1).is_none());
    }

    #[test]
    fn what_is_coming_is_not_asked_for_again_until_it_failed() {
        let mut cache = Cache::default();
        assert_eq!(cache.missing(3..5, 9), [3..5]);
        assert_eq!(cache.missing(2..6, 9), [2..3, 5..6]);
        cache.failed(4);
        assert_eq!(cache.missing(3..5, 9), [4..5]);
    }
}
