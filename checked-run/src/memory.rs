//! A module's memory, as the host sees it: by copies that are checked.

use crate::views::Views;
use crate::window::GUARD;
use crate::Import;
use std::cell::{Cell, RefCell};
use std::io;
use std::ptr::NonNull;
use std::rc::Rc;
use tane_checked::{Layout, PAGE};

/// The module's data, heap and stack, as those who were called by it see them.
#[derive(Clone)]
pub struct Memory {
    pub(crate) window: NonNull<u8>,
    pub(crate) layout: Layout,
    /// The stack's lowest byte, and the one behind its highest.
    pub(crate) stack: u64,
    pub(crate) end: u64,
    /// Where the heap that can be accessed ends.
    pub(crate) limit: Rc<Cell<u64>>,
    /// What the call under way is to end with, once the import that asked for it is over.
    pub(crate) ended: Rc<Cell<Option<i32>>>,
    pub(crate) views: Rc<RefCell<Views>>,
}

impl Memory {
    fn at(&self, offset: u64, bytes: usize, from: u32) -> Option<*mut u8> {
        let last = offset.checked_add(bytes as u64)?;
        let heap = self.heap_end();
        let inside = offset >= u64::from(from) && last <= self.end;
        let inside = inside && (last <= heap || offset >= self.stack);
        // What it cannot access, neither can the host.
        let limit = self.limit.get();
        let inside = inside && (limit == heap || last <= limit || offset >= heap);
        // SAFETY: within what is mapped.
        inside.then(|| unsafe { self.window.as_ptr().add(offset as usize) })
    }

    /// Where the process has this offset of the window, whatever is there.
    pub(crate) fn address(&self, offset: u64) -> u64 {
        self.window.as_ptr() as u64 + offset
    }

    /// The first byte behind the module's data: its heap, up to [`Memory::heap_end`].
    pub fn heap(&self) -> u64 {
        self.layout.end.into()
    }

    /// The first byte behind the heap.
    pub fn heap_end(&self) -> u64 {
        match self.guard() {
            [low, high] if low == high => self.end,
            [low, _] => low,
        }
    }

    /// What lies between heap and stack: nothing, if there is no room for it.
    pub(crate) fn guard(&self) -> [u64; 2] {
        match self.stack > self.layout.end.into() {
            true => [self.stack - GUARD as u64, self.stack],
            false => [self.stack; 2],
        }
    }

    /// Copies out of the window; none if the module could not read it all. Of a view what the
    /// file does not have any more is zeroes.
    pub fn read(&self, offset: u64, bytes: usize) -> Option<Vec<u8>> {
        let own = self.at(offset, bytes, self.layout.read_only);
        let from = own.or_else(|| self.views.borrow().at(offset, bytes as u64))?;
        let mut copy = vec![0; bytes];
        // SAFETY: readable, and the module waits.
        unsafe { std::ptr::copy_nonoverlapping(from, copy.as_mut_ptr(), bytes) };
        Some(copy)
    }

    /// Copies into the window; false if the module could not write it all.
    pub fn write(&self, offset: u64, bytes: &[u8]) -> bool {
        let Some(to) = self.at(offset, bytes.len(), self.layout.data) else {
            return false;
        };
        // SAFETY: writable, and the module waits.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
        true
    }
    /// For an import: once it is over its module does not go on, and the call ends with
    /// [`Trap::Exit`](crate::Trap::Exit), as by `tane_exit`.
    pub fn exit(&self, code: i32) {
        self.ended.set(Some(code));
    }

    /// From now on the heap can be accessed below this offset only, a multiple of a page's
    /// size. What is above is given back, and is zeroes when it can be accessed again.
    pub fn limit_heap(&self, to: u64) -> io::Result<()> {
        let (from, end) = (self.heap(), self.heap_end());
        if to < from || to > end || !to.is_multiple_of(PAGE.into()) {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        let now = self.limit.get();
        // SAFETY: in the window, of heap, which nobody holds a reference into.
        let done = unsafe {
            let at = |offset: u64| self.window.as_ptr().add(offset as usize).cast();
            match to >= now {
                true => {
                    let how = libc::PROT_READ | libc::PROT_WRITE;
                    libc::mprotect(at(now), (to - now) as usize, how)
                }
                false => {
                    let bytes = (now - to) as usize;
                    match libc::mprotect(at(to), bytes, libc::PROT_NONE) {
                        0 => libc::madvise(at(to), bytes, libc::MADV_DONTNEED),
                        failed => failed,
                    }
                }
            }
        };
        if done != 0 {
            return Err(io::Error::last_os_error());
        }
        self.limit.set(to);
        Ok(())
    }
}

/// What every module may import of its heap.
pub fn import(name: &str) -> Option<Import> {
    match name {
        "tane_heap" => Some(Box::new(|_, memory| memory.heap())),
        "tane_heap_end" => Some(Box::new(|_, memory| memory.heap_end())),
        "tane_heap_limit" => Some(Box::new(|[to, ..], memory| {
            let done = memory.limit_heap(to & u64::from(u32::MAX));
            done.map_or(-i64::from(libc::EINVAL) as u64, |()| 0)
        })),
        _ => None,
    }
}
