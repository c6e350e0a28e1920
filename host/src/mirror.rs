//! A kernel's memory as it was at its newest checkpoint, and what the older ones need
//! beside that: the kernel goes on in its own memory, and what it has changed is copied
//! back. Nothing is mapped anew, so no place where a frame is shown a second time has to
//! be thought of.

use crate::address::{Physical, Virtual};
use crate::memory::{Memory, PAGE};
use crate::written::Watch;
use std::collections::HashMap;
use std::io;
use std::ops::Range;

/// Pages by number, with what was in them.
pub type Pages = HashMap<u64, Box<[u8; PAGE as usize]>>;

pub struct Mirror {
    /// As large as RAM; what was never copied is zeros here, as it was there.
    at: *mut u8,
    ram: Range<u64>,
    /// None: the host cannot tell what was written, so all is compared.
    watch: Option<Watch>,
    /// What can change: all behind the code.
    changes: Range<u64>,
}

// SAFETY: memory of its own, and a kernel's, which whoever calls sees to.
unsafe impl Send for Mirror {}

impl Mirror {
    /// A copy of all there is. Nobody is inside the kernel.
    ///
    /// `compare`: do without the host's help.
    pub fn new(memory: &Memory, text_end: u64, compare: bool) -> io::Result<Self> {
        let prot = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let len = memory.ram_size as usize;
        // SAFETY: a new mapping.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), len, prot, flags, -1, 0) };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the mapping just made. Forks have no use for it. Huge pages are not asked
        // for: where none are free the host makes some by moving others, for 50 ms and more.
        unsafe { libc::madvise(at, len, libc::MADV_DONTFORK) };
        let base = memory.base.0;
        let mut mirror = Self {
            at: at.cast(),
            ram: base..base + memory.ram_size,
            watch: None,
            changes: text_end..memory.ram_size,
        };
        let mut ranges = Vec::new();
        mirror.existing(memory, |range| ranges.push(range))?;
        for range in ranges {
            mirror.take(&range);
        }
        if !compare {
            let watched = Virtual(base + text_end)..Virtual(base + memory.ram_size);
            mirror.watch = Watch::new(watched).ok();
        }
        Ok(mirror)
    }

    /// The parts of RAM that have memory behind them.
    fn existing(&self, memory: &Memory, mut found: impl FnMut(Range<u64>)) -> io::Result<()> {
        let Range { start, end } = memory.shown;
        found(self.changes.start..start.0);
        memory.data(start..end, &mut found)?;
        found(end.0..self.changes.end);
        Ok(())
    }

    /// The parts of RAM that may differ from this, in order, whole pages. Nobody is inside.
    pub fn changed(&self, memory: &Memory) -> io::Result<Vec<Range<u64>>> {
        let mut ranges = Vec::new();
        let base = self.ram.start;
        match &self.watch {
            Some(watch) => {
                watch.written(|found| ranges.push(found.start - base..found.end - base))?;
                let mut unknown = Vec::new();
                watch.unknown(|found| {
                    let start = (found.start - base).max(memory.shown.start.0);
                    let end = (found.end - base).min(memory.shown.end.0);
                    if start < end {
                        unknown.push(Physical(start)..Physical(end));
                    }
                })?;
                for range in unknown {
                    memory.data(range, |found| self.differing(found, &mut ranges))?;
                }
            }
            None => self.existing(memory, |found| self.differing(found, &mut ranges))?,
        }
        memory.frames.each(|found| ranges.push(found));
        ranges.sort_unstable_by_key(|range| range.start);
        let mut joined: Vec<Range<u64>> = Vec::with_capacity(ranges.len());
        for range in ranges {
            match joined.last_mut() {
                Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
                _ => joined.push(range),
            }
        }
        Ok(joined)
    }

    /// The pages of a range that are not as they are here.
    fn differing(&self, range: Range<u64>, found: &mut Vec<Range<u64>>) {
        for at in range.step_by(PAGE as usize) {
            // SAFETY: a page of RAM, and one of ours.
            let equal = unsafe {
                let live = (self.ram.start + at) as *const libc::c_void;
                let kept = self.at.add(at as usize).cast();
                libc::memcmp(live, kept, PAGE as usize) == 0
            };
            if !equal {
                found.push(at..at + PAGE);
            }
        }
    }

    /// Have here what is there.
    fn take(&mut self, range: &Range<u64>) {
        const MADV_POPULATE_WRITE: i32 = 23;
        let len = (range.end - range.start) as usize;
        // SAFETY: a part of RAM, in which nobody is, and as much of ours. All pages at once
        // cost less than a fault for each, which is what becomes of it on older hosts.
        unsafe {
            let live = (self.ram.start + range.start) as *const u8;
            let kept = self.at.add(range.start as usize);
            libc::madvise(kept.cast(), len, MADV_POPULATE_WRITE);
            kept.copy_from_nonoverlapping(live, len);
        }
    }

    /// Here is from now on what is there. What was here goes to `older`.
    pub fn advance(
        &mut self,
        ranges: &[Range<u64>],
        mut older: Option<&mut Pages>,
    ) -> io::Result<()> {
        for range in ranges {
            if let Some(older) = &mut older {
                for at in range.clone().step_by(PAGE as usize) {
                    let mut page = Box::new([0; PAGE as usize]);
                    // SAFETY: a page of ours.
                    unsafe {
                        let kept = self.at.add(at as usize).cast_const();
                        page.as_mut_ptr()
                            .copy_from_nonoverlapping(kept, PAGE as usize);
                    }
                    older.entry(at / PAGE).or_insert(page);
                }
            }
            self.take(range);
        }
        self.settle()
    }

    /// There is from now on what is here. Nobody is inside.
    pub fn restore(&self, ranges: &[Range<u64>]) {
        for range in ranges {
            let len = (range.end - range.start) as usize;
            // SAFETY: a part of RAM, in which nobody is, and as much of ours.
            unsafe {
                let live = (self.ram.start + range.start) as *mut u8;
                live.copy_from_nonoverlapping(self.at.add(range.start as usize), len);
            }
        }
    }

    /// Here and there is from now on what these pages hold. Nobody is inside.
    pub fn put(&mut self, pages: &Pages) {
        for (number, page) in pages {
            let at = number * PAGE;
            // SAFETY: a page of RAM, in which nobody is, and one of ours.
            unsafe {
                let live = (self.ram.start + at) as *mut u8;
                live.copy_from_nonoverlapping(page.as_ptr(), PAGE as usize);
                self.at
                    .add(at as usize)
                    .copy_from_nonoverlapping(page.as_ptr(), PAGE as usize);
            }
        }
    }

    /// Both are equal now.
    pub fn settle(&self) -> io::Result<()> {
        self.watch.as_ref().map_or(Ok(()), Watch::forget)
    }
}

impl Drop for Mirror {
    fn drop(&mut self) {
        // SAFETY: ours alone.
        unsafe { libc::munmap(self.at.cast(), (self.ram.end - self.ram.start) as usize) };
    }
}
