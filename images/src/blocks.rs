//! Containers that keep a disk in blocks: a table says where in the file each
//! block is, and new blocks go to the end of the file. What VMDK, VHD, VHDX and
//! formats that are only read have in common.
//!
//! A new block is used from memory at first. Its entry in the table is written
//! by a flush, after what the block holds is durable: whenever the power fails,
//! the table names no block that is not there.

use crate::backend::{check_range, in_steps, refuse_write, Backend};
use crate::buffers::{buffer, buffer_mut, clear, scatter, slice, total, Buffers};
use crate::crypt::Crypt;
use crate::pages::Pages;
use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// What a run of bytes is read from.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    /// Not in this file: in the one below, or zero.
    Absent,
    Zero,
    /// At this offset of the file.
    At(u64),
    /// From this byte of something unpacked.
    Unpacked(Arc<[u8]>, usize),
}

/// A format's table.
pub(crate) trait Map: Send + Sync {
    /// Of the disk, in bytes.
    fn size(&self) -> u64;

    /// The unit of allocation, in bytes.
    fn block(&self) -> u64;

    /// Where the bytes from `offset` on are, and for how many bytes that holds;
    /// at least one, and not beyond the block. Errors: `WouldBlock` as
    /// [`Pages::get`].
    fn find(&self, pages: &Pages, offset: u64, wait: bool) -> io::Result<(Source, u64)>;

    /// The cipher of what is [`Source::At`] a place of the file.
    fn crypt(&self) -> Option<&Crypt> {
        None
    }

    /// For a file of `end` bytes: where the data of one more block goes, and how
    /// long the file is then.
    fn room(&self, end: u64) -> (u64, u64);

    /// Called before the first change to the file.
    fn begin(&self, _pages: &Pages) -> io::Result<()> {
        Ok(())
    }

    /// Called after the file has become `end` bytes long.
    fn grown(&self, _pages: &Pages, _end: u64) -> io::Result<()> {
        Ok(())
    }

    /// Whether block `index` can have an entry at all.
    fn check(&self, _pages: &Pages, _index: u64) -> io::Result<()> {
        Ok(())
    }

    /// Write the entry of block `index`, all of whose bytes are at `at`.
    fn record(&self, pages: &Pages, index: u64, at: u64) -> io::Result<()>;
}

/// Within an `impl Map` for a format that is only read: what is for those that are
/// written. None of it is called: their [`Blocks`] refuse before.
macro_rules! read_only_map {
    () => {
        fn room(&self, end: u64) -> (u64, u64) {
            (end, end)
        }

        fn record(&self, _: &$crate::pages::Pages, _: u64, _: u64) -> std::io::Result<()> {
            Err($crate::backend::refuse_write())
        }
    };
}
pub(crate) use read_only_map;

#[derive(Default)]
struct State {
    /// Blocks whose entries are not written yet.
    placed: HashMap<u64, u64>,
    begun: bool,
}

pub(crate) struct Blocks<M: Map> {
    map: M,
    pages: Pages,
    below: Option<Arc<dyn Backend>>,
    write: bool,
    state: RwLock<State>,
    flushing: Mutex<()>,
}

impl<M: Map> Blocks<M> {
    pub fn new(
        map: M,
        file: Arc<dyn Backend>,
        below: Option<Arc<dyn Backend>>,
        write: bool,
    ) -> Self {
        Self {
            map,
            pages: Pages::new(file),
            below,
            write,
            state: RwLock::default(),
            flushing: Mutex::default(),
        }
    }

    fn file(&self) -> &dyn Backend {
        &*self.pages.file
    }

    fn state(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(|e| e.into_inner())
    }

    fn state_mut(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(|e| e.into_inner())
    }

    fn find(&self, state: &State, offset: u64, wait: bool) -> io::Result<(Source, u64)> {
        let block = self.map.block();
        let (index, within) = (offset / block, offset % block);
        let (source, len) = match state.placed.get(&index) {
            Some(at) => (Source::At(at + within), block - within),
            None => self.map.find(&self.pages, offset, wait)?,
        };
        Ok((source, len.clamp(1, block - within)))
    }

    /// Call `each` for the runs of a range, with where they start in it.
    fn runs(
        &self,
        state: &State,
        offset: u64,
        len: u64,
        wait: bool,
        mut each: impl FnMut(Source, usize, usize) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut done = 0;
        while done < len {
            let (source, run) = self.find(state, offset + done, wait)?;
            let run = run.min(len - done);
            each(source, done as usize, run as usize)?;
            done += run;
        }
        Ok(())
    }

    fn read_source(&self, source: Source, to: Buffers, offset: u64) -> io::Result<()> {
        let len = total(to);
        // SAFETY (of both): guest memory, see `Buffers`.
        match source {
            Source::At(at) => {
                check_range(self.file().size(), at, len as u64)
                    .map_err(|_| crate::pages::invalid("a block is behind the end of the file"))?;
                let read = |to: Buffers, at| self.file().read(to, at).map(|()| true);
                return self.read_at(to, (at, offset), read).map(drop);
            }
            Source::Unpacked(bytes, from) => match bytes.get(from..from + len) {
                Some(part) => unsafe { scatter(part, to) },
                None => return Err(crate::pages::invalid("a packed block is too short")),
            },
            Source::Zero => unsafe { clear(to) },
            Source::Absent => match &self.below {
                None => unsafe { clear(to) },
                Some(below) => return read_padded(&**below, to, offset),
            },
        }
        Ok(())
    }

    /// What is at a place of the file, and belongs at that offset of the disk, by `read`.
    fn read_at(
        &self,
        to: Buffers,
        (at, offset): (u64, u64),
        read: impl FnOnce(Buffers, u64) -> io::Result<bool>,
    ) -> io::Result<bool> {
        match self.map.crypt() {
            Some(crypt) => crypt.read(self.file(), to, (at, offset), read),
            None => read(to, at),
        }
    }

    /// The block's place in the file, of all its bytes; made if need be.
    fn home(&self, index: u64) -> io::Result<u64> {
        let start = index * self.map.block();
        let len = self.map.block().min(self.map.size() - start);
        // Where the first byte that is in the file puts the block.
        let look = |state: &State| -> io::Result<(Option<u64>, bool)> {
            let (mut home, mut whole) = (None, true);
            self.runs(state, start, len, true, |source, from, _| {
                match source {
                    Source::At(at) => home = home.or(at.checked_sub(from as u64)),
                    Source::Unpacked(..) => return Err(refuse_write()),
                    _ => whole = false,
                }
                Ok(())
            })?;
            Ok((home, whole))
        };
        if let (Some(home), true) = look(&self.state())? {
            return Ok(home);
        }
        let mut state = self.state_mut();
        let (home, whole) = look(&state)?;
        if let (Some(home), true) = (home, whole) {
            return Ok(home);
        }
        self.map.check(&self.pages, index)?;
        let at = match home {
            Some(at) => at,
            None => {
                let (at, end) = self.map.room(self.file().size());
                self.file().grow(end)?;
                self.map.grown(&self.pages, end)?;
                at
            }
        };
        self.fill(&state, start, len, at, home.is_some())?;
        state.placed.insert(index, at);
        Ok(at)
    }

    /// Give the parts of a block that are not in the file their content there.
    /// `old`: the room was used before, and need not be zero.
    fn fill(&self, state: &State, start: u64, len: u64, at: u64, old: bool) -> io::Result<()> {
        self.runs(state, start, len, true, |source, from, n| {
            let to = at + from as u64;
            match source {
                Source::Absent if self.below.is_some() => {
                    let mut bytes = vec![0; n];
                    self.read_source(source, &[buffer_mut(&mut bytes)], start + from as u64)?;
                    self.file().write(&[buffer(&bytes)], to)
                }
                Source::Absent | Source::Zero if old => {
                    self.file().write_zeroes(to, n as u64, true)
                }
                _ => Ok(()),
            }
        })
    }

    fn begin(&self, offset: u64, len: u64) -> io::Result<()> {
        if !self.write {
            return Err(refuse_write());
        }
        check_range(self.map.size(), offset, len)?;
        if self.state().begun {
            return Ok(());
        }
        let mut state = self.state_mut();
        if !state.begun {
            self.map.begin(&self.pages)?;
            state.begun = true;
        }
        Ok(())
    }

    /// Call `each` with the places in the file of a range that is to be written.
    fn homes(
        &self,
        offset: u64,
        len: u64,
        mut each: impl FnMut(u64, usize, usize) -> io::Result<()>,
    ) -> io::Result<()> {
        let block = self.map.block();
        let mut done = 0;
        while done < len {
            let position = offset + done;
            let n = (block - position % block).min(len - done);
            let home = self.home(position / block)?;
            let at = home.saturating_add(position % block);
            each(at, done as usize, n as usize)?;
            done += n;
        }
        Ok(())
    }
}

/// Read with zeros behind the end.
pub(crate) fn read_padded(from: &dyn Backend, to: Buffers, offset: u64) -> io::Result<()> {
    let len = total(to);
    let inside = from.size().saturating_sub(offset).min(len as u64) as usize;
    if inside > 0 {
        from.read(&slice(to, 0, inside), offset)?;
    }
    // SAFETY: guest memory, see `Buffers`.
    unsafe { clear(&slice(to, inside, len - inside)) };
    Ok(())
}

impl<M: Map> Backend for Blocks<M> {
    fn size(&self) -> u64 {
        self.map.size()
    }

    fn read_only(&self) -> bool {
        !self.write
    }

    fn read(&self, to: Buffers, offset: u64) -> io::Result<()> {
        let len = total(to) as u64;
        check_range(self.map.size(), offset, len)?;
        self.runs(&self.state(), offset, len, true, |source, from, n| {
            self.read_source(source, &slice(to, from, n), offset + from as u64)
        })
    }

    fn write(&self, from: Buffers, offset: u64) -> io::Result<()> {
        let len = total(from) as u64;
        self.begin(offset, len)?;
        self.homes(offset, len, |at, start, n| {
            self.file().write(&slice(from, start, n), at)
        })
    }

    fn flush(&self) -> io::Result<()> {
        if !self.write {
            return Ok(());
        }
        let _one = self.flushing.lock().unwrap_or_else(|e| e.into_inner());
        let placed: Vec<_> = self
            .state()
            .placed
            .iter()
            .map(|(i, at)| (*i, *at))
            .collect();
        self.file().flush()?;
        if placed.is_empty() {
            return Ok(());
        }
        for (index, at) in &placed {
            self.map.record(&self.pages, *index, *at)?;
        }
        self.file().flush()?;
        let mut state = self.state_mut();
        placed.iter().for_each(|(index, _)| {
            state.placed.remove(index);
        });
        Ok(())
    }

    fn discard(&self, offset: u64, len: u64) -> io::Result<()> {
        self.begin(offset, len)?;
        let state = self.state();
        self.runs(&state, offset, len, true, |source, _, n| match source {
            Source::At(at) => self.file().discard(at, n as u64),
            _ => Ok(()),
        })
    }

    fn write_zeroes(&self, offset: u64, len: u64, may_unmap: bool) -> io::Result<()> {
        self.begin(offset, len)?;
        in_steps(offset, len, self.map.block(), |at, n| {
            let mut zero = self.below.is_none();
            self.runs(&self.state(), at, n as u64, true, |source, _, _| {
                zero &= matches!(source, Source::Absent | Source::Zero);
                Ok(())
            })?;
            if zero {
                return Ok(());
            }
            self.homes(at, n as u64, |at, _, n| {
                self.file().write_zeroes(at, n as u64, may_unmap)
            })
        })
    }

    fn try_read(&self, to: Buffers, offset: u64) -> io::Result<bool> {
        let len = total(to) as u64;
        check_range(self.map.size(), offset, len)?;
        let Ok(state) = self.state.try_read() else {
            return Ok(false);
        };
        let would_block = || io::Error::from(io::ErrorKind::WouldBlock);
        let done = self.runs(&state, offset, len, false, |source, from, n| {
            let to = slice(to, from, n);
            let at = offset + from as u64;
            let done = match (&source, &self.below) {
                (Source::At(place), _) => self.read_at(&to, (*place, at), |to, place| {
                    self.file().try_read(to, place)
                })?,
                (Source::Absent, Some(below)) => {
                    at + n as u64 <= below.size() && below.try_read(&to, at)?
                }
                _ => self.read_source(source, &to, at).map(|()| true)?,
            };
            done.then_some(()).ok_or_else(would_block)
        });
        match done {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(false),
            done => done.map(|()| true),
        }
    }
}

impl<M: Map> Drop for Blocks<M> {
    fn drop(&mut self) {
        // Some file systems are unmounted without a flush. Whoever needs to know
        // whether this succeeds flushes before.
        let _ = self.flush();
    }
}
