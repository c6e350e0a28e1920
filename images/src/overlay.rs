//! Writes kept in memory over another backend, which never changes: reading an
//! image whose journal is dirty replays it here.

use crate::backend::{check_range, Backend, HostRange};
use crate::buffers::{buffer_mut, clear, gather, scatter, slice, total, Buffers};
use crate::undo::{Undo, UndoLog};
use std::collections::hash_map::{Entry, HashMap};
use std::io;
use std::sync::{Arc, Mutex, RwLock};

/// What is copied on the first write to any of it, in bytes.
const CHUNK: u64 = 16 << 10;

/// What the overlay has instead of a chunk of the backend below.
#[derive(Clone)]
enum Chunk {
    /// Takes no memory: discarded, or written with zeros.
    Zero,
    Data(Box<[u8]>),
}

type Chunks = HashMap<u64, Chunk>;

/// A writable view of a backend that stays as it is.
pub struct Overlay {
    below: Arc<dyn Backend>,
    /// Locked for memory work only, never while something is read from below.
    chunks: RwLock<Chunks>,
    /// One writer at a time; it may read from below.
    writing: Mutex<()>,
    /// None: it had nothing for that chunk.
    undo: UndoLog<Option<Chunk>>,
}

/// A chunk's share of a transfer.
struct Part {
    chunk: u64,
    /// Where in the chunk.
    at: usize,
    /// Where in the transfer.
    start: usize,
    len: usize,
}

impl Part {
    fn whole(&self) -> bool {
        self.len == CHUNK as usize
    }
}

fn parts(offset: u64, len: u64) -> impl Iterator<Item = Part> {
    let mut done = 0;
    std::iter::from_fn(move || {
        if done == len {
            return None;
        }
        let position = offset + done;
        let at = position % CHUNK;
        let part = Part {
            chunk: position / CHUNK,
            at: at as usize,
            start: done as usize,
            len: (CHUNK - at).min(len - done) as usize,
        };
        done += part.len as u64;
        Some(part)
    })
}

fn touched(chunks: &Chunks, offset: u64, len: u64) -> bool {
    !chunks.is_empty() && parts(offset, len).any(|p| chunks.contains_key(&p.chunk))
}

/// As [`touched`], for a range that may have more chunks than the overlay.
fn touched_by_any(chunks: &Chunks, offset: u64, len: u64) -> bool {
    if len / CHUNK <= chunks.len() as u64 {
        return touched(chunks, offset, len);
    }
    let range = offset / CHUNK..(offset + len).div_ceil(CHUNK);
    chunks.keys().any(|chunk| range.contains(chunk))
}

fn copy_out(chunk: &Chunk, part: &Part, to: Buffers) {
    // SAFETY: guest memory, see `Buffers`.
    unsafe {
        match chunk {
            Chunk::Zero => clear(to),
            Chunk::Data(bytes) => scatter(&bytes[part.at..part.at + part.len], to),
        }
    }
}

impl Overlay {
    /// Nothing but reads will reach `below`.
    pub fn new(below: Arc<dyn Backend>) -> Self {
        Self {
            below,
            chunks: RwLock::default(),
            writing: Mutex::default(),
            undo: UndoLog::default(),
        }
    }

    /// Bytes of memory that writes have taken so far.
    pub fn resident(&self) -> u64 {
        let chunks = self.chunks.read().unwrap_or_else(|e| e.into_inner());
        let data = chunks.values().filter(|c| matches!(c, Chunk::Data(_)));
        data.count() as u64 * CHUNK
    }

    /// The chunk as it is below.
    fn fetch(&self, index: u64) -> io::Result<Box<[u8]>> {
        let mut bytes = vec![0u8; CHUNK as usize].into_boxed_slice();
        let start = index * CHUNK;
        let len = CHUNK.min(self.below.size().saturating_sub(start)) as usize;
        if len > 0 {
            self.below.read(&[buffer_mut(&mut bytes[..len])], start)?;
        }
        Ok(bytes)
    }

    /// Change a part by `f`; the rest of its chunk stays as it reads now.
    fn change(&self, part: &Part, f: impl FnOnce(&mut [u8])) -> io::Result<()> {
        let known = || {
            let chunks = self.chunks.read().unwrap_or_else(|e| e.into_inner());
            chunks.contains_key(&part.chunk)
        };
        // Read before the lock is taken; `writing` keeps others from doing it too.
        let fetched = match part.whole() || known() {
            true => None,
            false => Some(self.fetch(part.chunk)?),
        };
        let fresh = || Chunk::Data(vec![0; CHUNK as usize].into_boxed_slice());
        let mut chunks = self.chunks.write().unwrap_or_else(|e| e.into_inner());
        self.keep(&chunks, part.chunk)?;
        let chunk = match chunks.entry(part.chunk) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert(fetched.map_or_else(fresh, Chunk::Data)),
        };
        if let Chunk::Zero = chunk {
            *chunk = fresh();
        }
        if let Chunk::Data(bytes) = chunk {
            f(&mut bytes[part.at..part.at + part.len]);
        }
        Ok(())
    }

    /// It is about to change.
    fn keep(&self, chunks: &Chunks, chunk: u64) -> io::Result<()> {
        self.undo.keep(chunk, || Ok(chunks.get(&chunk).cloned()))
    }

    fn one_writer(&self) -> std::sync::MutexGuard<'_, ()> {
        self.writing.lock().unwrap_or_else(|e| e.into_inner())
    }
}

impl Backend for Overlay {
    fn size(&self) -> u64 {
        self.below.size()
    }

    fn block_sizes(&self) -> (u32, u32) {
        self.below.block_sizes()
    }

    fn read(&self, to: Buffers, offset: u64) -> io::Result<()> {
        let len = total(to) as u64;
        check_range(self.size(), offset, len)?;
        let below: Vec<Part> = {
            let chunks = self.chunks.read().unwrap_or_else(|e| e.into_inner());
            if !touched(&chunks, offset, len) {
                drop(chunks);
                return self.below.read(to, offset);
            }
            parts(offset, len)
                .filter(|part| match chunks.get(&part.chunk) {
                    Some(chunk) => {
                        copy_out(chunk, part, &slice(to, part.start, part.len));
                        false
                    }
                    None => true,
                })
                .collect()
        };
        for part in below {
            let to = slice(to, part.start, part.len);
            self.below.read(&to, part.chunk * CHUNK + part.at as u64)?;
        }
        Ok(())
    }

    fn write(&self, from: Buffers, offset: u64) -> io::Result<()> {
        let len = total(from) as u64;
        check_range(self.size(), offset, len)?;
        let _one = self.one_writer();
        for part in parts(offset, len) {
            let from = slice(from, part.start, part.len);
            // SAFETY: guest memory, see `Buffers`.
            self.change(&part, |bytes| unsafe { gather(&from, bytes) })?;
        }
        Ok(())
    }

    /// There is nothing to make durable: the overlay ends with the process.
    fn flush(&self) -> io::Result<()> {
        Ok(())
    }

    /// Chunks that were written give their memory back and read as zero; others
    /// stay as they are below, or trimming a large disk would take memory.
    fn discard(&self, offset: u64, len: u64) -> io::Result<()> {
        check_range(self.size(), offset, len)?;
        let _one = self.one_writer();
        let whole = offset.div_ceil(CHUNK)..(offset + len) / CHUNK;
        let mut chunks = self.chunks.write().unwrap_or_else(|e| e.into_inner());
        let is_whole = |(index, _): &(&u64, &mut Chunk)| whole.contains(index);
        for (index, chunk) in chunks.iter_mut().filter(is_whole) {
            let was = std::mem::replace(chunk, Chunk::Zero);
            self.undo.keep(*index, || Ok(Some(was)))?;
        }
        Ok(())
    }

    fn write_zeroes(&self, offset: u64, len: u64, _may_unmap: bool) -> io::Result<()> {
        check_range(self.size(), offset, len)?;
        let _one = self.one_writer();
        for part in parts(offset, len) {
            if part.whole() {
                let mut chunks = self.chunks.write().unwrap_or_else(|e| e.into_inner());
                self.keep(&chunks, part.chunk)?;
                chunks.insert(part.chunk, Chunk::Zero);
            } else {
                self.change(&part, |bytes| bytes.fill(0))?;
            }
        }
        Ok(())
    }

    fn try_read(&self, to: Buffers, offset: u64) -> io::Result<bool> {
        let len = total(to) as u64;
        check_range(self.size(), offset, len)?;
        let Ok(chunks) = self.chunks.try_read() else {
            return Ok(false);
        };
        if !touched(&chunks, offset, len) {
            drop(chunks);
            return self.below.try_read(to, offset);
        }
        if !parts(offset, len).all(|part| chunks.contains_key(&part.chunk)) {
            return Ok(false);
        }
        for part in parts(offset, len) {
            if let Some(chunk) = chunks.get(&part.chunk) {
                copy_out(chunk, &part, &slice(to, part.start, part.len));
            }
        }
        Ok(true)
    }

    /// Only where every chunk is in memory, or is replaced as a whole.
    fn try_write(&self, from: Buffers, offset: u64) -> io::Result<bool> {
        let len = total(from) as u64;
        check_range(self.size(), offset, len)?;
        let Ok(_one) = self.writing.try_lock() else {
            return Ok(false);
        };
        {
            let Ok(chunks) = self.chunks.try_read() else {
                return Ok(false);
            };
            if !parts(offset, len).all(|p| p.whole() || chunks.contains_key(&p.chunk)) {
                return Ok(false);
            }
        }
        for part in parts(offset, len) {
            let from = slice(from, part.start, part.len);
            // SAFETY: guest memory, see `Buffers`.
            self.change(&part, |bytes| unsafe { gather(&from, bytes) })?;
        }
        Ok(true)
    }

    /// From below, if nothing of the range is above.
    fn host_range(&self, offset: u64, len: u64) -> Option<HostRange> {
        check_range(self.size(), offset, len).ok()?;
        let chunks = self.chunks.read().unwrap_or_else(|e| e.into_inner());
        if touched_by_any(&chunks, offset, len) {
            return None;
        }
        self.below.host_range(offset, len)
    }

    fn remember(self: Arc<Self>) -> io::Result<Box<dyn Undo>> {
        let id = self.undo.begin();
        Ok(Box::new(Remembered { overlay: self, id }))
    }
}

struct Remembered {
    overlay: Arc<Overlay>,
    id: u64,
}

impl Undo for Remembered {
    fn undo(&self) -> io::Result<()> {
        let _one = self.overlay.one_writer();
        let chunks = self.overlay.chunks.write();
        let mut chunks = chunks.unwrap_or_else(|e| e.into_inner());
        self.overlay.undo.go_back(self.id, |index, old| {
            match old {
                Some(chunk) => chunks.insert(index, chunk),
                None => chunks.remove(&index),
            };
            Ok(())
        })
    }
}

impl Drop for Remembered {
    fn drop(&mut self) {
        self.overlay.undo.end(self.id);
    }
}
