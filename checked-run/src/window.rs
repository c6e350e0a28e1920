//! The window of 4 GiB, and the stack of return addresses.

use std::io;
use std::ptr::NonNull;
use tane_checked::{Module, EMPTY, IMPORT, PAGE};
use tane_host::BELOW;

const GIB4: usize = 1 << 32;
/// Inaccessible, above the window.
const ABOVE: usize = 1 << 16;
const RETURNS: usize = 1 << 18;
/// Inaccessible, below the stack: whoever runs over it meets this before the heap, unless
/// one function's own variables are more.
pub const GUARD: usize = 1 << 16;
/// The most that is a stack, of what a module gets.
const STACK: u64 = 8 << 20;
/// Bytes of code that one import's way out takes at most.
const THUNK: usize = crate::calls::MOST;

/// Memory from mmap.
struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

impl Mapping {
    /// Of nothing that can be accessed.
    fn reserve(bytes: usize) -> io::Result<Mapping> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new mapping, anywhere.
        let start =
            unsafe { libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_NONE, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or_else(io::Error::last_os_error)?;
        Ok(Mapping { start, bytes })
    }

    fn protect(&self, at: usize, bytes: usize, how: i32) -> io::Result<()> {
        assert!(at + bytes <= self.bytes);
        // SAFETY: ours, and nobody holds a reference into it.
        match unsafe { libc::mprotect(self.start.add(at).as_ptr().cast(), bytes, how) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn copy(&self, at: usize, from: &[u8]) {
        assert!(at + from.len() <= self.bytes);
        // SAFETY: ours, and writable where the caller made it so.
        unsafe {
            self.start
                .add(at)
                .as_ptr()
                .copy_from_nonoverlapping(from.as_ptr(), from.len())
        };
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: nobody is inside, since calls borrow what holds this.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

pub struct Window {
    all: Mapping,
    /// The window's first byte in `all`.
    offset: usize,
    returns: Mapping,
    thunks: Mapping,
    table: usize,
    slots: usize,
    end: u64,
    stack: u64,
    pub code: [usize; 2],
}

fn pages(bytes: usize) -> usize {
    bytes.next_multiple_of(PAGE as usize)
}

impl Window {
    pub fn new(module: &Module<'_>, heap: u64) -> io::Result<Window> {
        use libc::{PROT_EXEC, PROT_READ, PROT_WRITE};
        // Right below the window is what the kernel finds by the same GS base.
        let all = Mapping::reserve(BELOW + 2 * GIB4 + ABOVE)?;
        let start = all.start.as_ptr() as usize;
        let offset = (start + BELOW).next_multiple_of(GIB4) - start;
        let layout = &module.layout;
        // As much as a window is too much already, and does not overflow.
        let heap = heap.min(1 << 32).next_multiple_of(PAGE.into());
        let end = u64::from(layout.end) + heap;
        if end > 1 << 32 {
            return Err(io::Error::other("more heap than the window has room for"));
        }
        let part = |at: u32, bytes: &[u8], how| {
            let at = offset + at as usize;
            all.protect(at, pages(bytes.len()), PROT_READ | PROT_WRITE)?;
            all.copy(at, bytes);
            all.protect(at, pages(bytes.len()), how)
        };
        part(layout.code, module.code, PROT_READ | PROT_EXEC)?;
        part(layout.read_only, module.read_only, PROT_READ)?;
        part(layout.data, module.data, PROT_READ | PROT_WRITE)?;
        let data = layout.data as usize;
        all.protect(offset + data, end as usize - data, PROT_READ | PROT_WRITE)?;
        // A quarter; of what is too little for a guard, heap and stack share all.
        let given = end - u64::from(layout.end);
        let stack = (given / 4).min(STACK).next_multiple_of(PAGE.into());
        let stack = match stack > GUARD as u64 {
            true => end - stack,
            false => layout.end.into(),
        };
        if stack > layout.end.into() {
            all.protect(offset + stack as usize - GUARD, GUARD, libc::PROT_NONE)?;
        }
        let returns = Mapping::reserve(RETURNS + 2 * PAGE as usize)?;
        returns.protect(PAGE as usize, RETURNS, PROT_READ | PROT_WRITE)?;
        let thunks = Mapping::reserve(pages((module.imports.len() * THUNK).max(1)))?;
        let code = start + offset + layout.code as usize;
        Ok(Window {
            offset,
            returns,
            thunks,
            table: offset + layout.table as usize,
            slots: layout.slots as usize,
            end,
            stack,
            code: [code, code + module.code.len()],
            all,
        })
    }

    pub fn start(&self) -> NonNull<u8> {
        // SAFETY: within the mapping.
        unsafe { self.all.start.add(self.offset) }
    }

    /// The first offset that is no memory of the module's any more; the stack's end.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// The lowest offset of the stack. What is below, down to the module's data, is heap but
    /// for [`GUARD`] bytes, or has no guard and begins here, too.
    pub fn stack(&self) -> u64 {
        self.stack
    }

    /// The table: its address, and its slots.
    pub fn table(&self) -> (usize, usize) {
        (self.all.start.as_ptr() as usize + self.table, self.slots)
    }

    /// The address of an offset.
    pub fn address(&self, offset: u32) -> usize {
        self.start().as_ptr() as usize + offset as usize
    }

    /// The stack of return addresses: its lowest and the byte behind its highest.
    pub fn returns(&self) -> [usize; 2] {
        let low = self.returns.start.as_ptr() as usize + PAGE as usize;
        [low, low + RETURNS]
    }

    /// The code of the ways out: its first byte and the one behind its last.
    pub fn thunks(&self) -> [usize; 2] {
        let start = self.thunks.start.as_ptr() as usize;
        [start, start + self.thunks.bytes]
    }

    /// Puts functions and ways out to imports into the table.
    pub fn fill_table(&mut self, module: &Module<'_>, thunks: &[Vec<u8>]) -> io::Result<()> {
        use libc::{PROT_EXEC, PROT_READ, PROT_WRITE};
        self.thunks
            .protect(0, self.thunks.bytes, PROT_READ | PROT_WRITE)?;
        for (i, thunk) in thunks.iter().enumerate() {
            assert!(thunk.len() <= THUNK);
            self.thunks.copy(i * THUNK, thunk);
        }
        self.thunks
            .protect(0, self.thunks.bytes, PROT_READ | PROT_EXEC)?;
        let bytes = pages(self.slots * 8);
        self.all
            .protect(self.table, bytes, PROT_READ | PROT_WRITE)?;
        for slot in 0..self.slots {
            let address = match module.table.get(slot).copied().unwrap_or(EMPTY) {
                EMPTY => self.address(0),
                entry if entry & IMPORT != 0 => {
                    self.thunks.start.as_ptr() as usize + (entry & !IMPORT) as usize * THUNK
                }
                entry => self.code[0] + entry as usize,
            };
            self.all.copy(self.table + slot * 8, &address.to_le_bytes());
        }
        self.all.protect(self.table, bytes, PROT_READ)
    }
}
