//! One memfd is a kernel's RAM, but for what is never shown at a second place: the
//! image and RAM's end. One reservation of the address space holds every place
//! where the kernel shows it.
//!
//! ```text
//! base           RAM: the image at its start, physical address 0
//! area           what host and kernel share beside RAM (area.rs)
//! vmalloc        window for the kernel's own mappings
//! user           window for mmap()
//! ```

use crate::address::{Physical, Virtual};
use crate::barrier::forget_instructions;
use crate::frames::Frames;
use crate::lend::{Lent, Window};
use crate::provisions::MemoryFile;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;

pub const PAGE: u64 = 4096;
const GUARD: u64 = 2 << 20;
/// Where `nokaslr` puts the image when the place is free; else at the next of its size.
/// ThreadSanitizer leaves us only what is below 512 GiB: five kernels have room there,
/// one beside the other.
const FIXED_BASE: u64 = match cfg!(tane_tsan) {
    false => 0x1000_0000_0000,
    true => 64 << 30,
};

/// The reserved part of the address space. Unmapped when dropped.
pub struct Memory {
    fd: MemoryFile,
    /// Where physical address 0 is.
    pub base: Virtual,
    /// In bytes.
    pub ram_size: u64,
    pub vmalloc: Range<Virtual>,
    pub user: Range<Virtual>,
    /// Where programs are, below `base`; empty if there is no room for any.
    pub program: Range<Virtual>,
    /// The frames that can be shown in a window. Before and behind them, what the
    /// kernel sees in RAM is not the memfd's.
    pub shown: Range<Physical>,
    /// Those that were, since a checkpoint.
    pub frames: Frames,
    /// What of the user window is shown elsewhere.
    pub lent: Lent,
    pub randomised: bool,
}

/// In bytes.
pub struct Sizes {
    pub ram: u64,
    pub area: u64,
    pub vmalloc: u64,
    pub user: u64,
    /// Whether to reserve the addresses of programs.
    pub programs: bool,
    /// Whether forks of this process are going to use it.
    pub shared: bool,
}

impl Memory {
    pub fn new(sizes: &Sizes, randomise: bool) -> io::Result<Self> {
        let fd = match sizes.shared {
            true => MemoryFile::alone(sizes.ram + sizes.area)?,
            false => MemoryFile::new(sizes.ram + sizes.area)?,
        };
        let vmalloc = sizes.ram + sizes.area + GUARD;
        let user = vmalloc + sizes.vmalloc + GUARD;
        let total = user + sizes.user + GUARD;
        let program = match sizes.programs {
            true => reserve_programs()?,
            false => Virtual(0)..Virtual(0),
        };
        let base = reserve(total, randomise, program.end)?;
        let memory = Self {
            fd,
            base,
            ram_size: sizes.ram,
            vmalloc: base + vmalloc..base + vmalloc + sizes.vmalloc,
            user: base + user..base + user + sizes.user,
            program,
            shown: Physical(0)..Physical(sizes.ram),
            frames: Frames::default(),
            lent: Lent::default(),
            randomised: randomise,
        };
        let prot = libc::PROT_READ | libc::PROT_WRITE;
        memory.show(base, Physical(0), sizes.ram + sizes.area, prot)?;
        Ok(memory)
    }

    /// The shared area, behind RAM.
    pub fn area(&self) -> *mut u8 {
        (self.base + self.ram_size).pointer()
    }

    /// Show `len` bytes of the memfd from `pa` on at `va`.
    fn show(&self, va: Virtual, pa: Physical, len: u64, prot: i32) -> io::Result<()> {
        self.show_by(va, pa, len, prot, 0)
    }

    /// `how`: flags of mmap(2).
    fn show_by(&self, va: Virtual, pa: Physical, len: u64, prot: i32, how: i32) -> io::Result<()> {
        // SAFETY: the range lies in our reservation, as every caller checks, or in one
        // that is there for it (program.rs).
        let at = unsafe {
            libc::mmap(
                va.pointer(),
                len as usize,
                prot,
                libc::MAP_SHARED | libc::MAP_FIXED | how,
                self.fd.as_raw_fd(),
                pa.0 as libc::off_t,
            )
        };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }

    /// Show a page of the area at a second place.
    pub fn show_area(&self, at: Virtual, page: *const u8) -> io::Result<()> {
        let prot = libc::PROT_READ | libc::PROT_WRITE;
        self.show(at, Physical(page as u64 - self.base.0), PAGE, prot)
    }

    /// Get the memory behind a part of RAM that will surely be used, at once:
    /// a fault for each page costs three times as much.
    pub fn populate(&self, pa: Physical, len: u64) {
        const MADV_POPULATE_WRITE: i32 = 23;
        let (start, end) = (pa.0 & !(PAGE - 1), (pa.0 + len).min(self.ram_size));
        // SAFETY: only touches pages; a host before 5.14 refuses, and they
        // come one by one.
        unsafe {
            libc::madvise(
                (self.base + start).pointer(),
                (end - start) as usize,
                MADV_POPULATE_WRITE,
            );
        }
    }

    /// RAM's last `len` bytes, where Linux keeps its struct pages, and what is left
    /// before them of a huge page, which Linux fills with tables of its own or not at
    /// all. They are never shown at a second place, so they need not be in the memfd,
    /// and ordinary memory may come in huge pages: a few faults instead of a
    /// thousand, and fewer TLB misses ever after. The kernel keeps all frames from
    /// `shown.end` on: else one would be a page in RAM and another in a mapping of it.
    ///
    /// `shared`: with other processes, so they are the memfd's after all.
    pub fn populate_tail(&mut self, len: u64, shared: bool) -> io::Result<()> {
        const HUGE: u64 = 2 << 20;
        /// The part of RAM that may be lost to it.
        const LOST: u64 = 32;
        let first = (self.ram_size - len) & !(PAGE - 1);
        let start = match first % HUGE <= self.ram_size / LOST {
            true => first / HUGE * HUGE,
            false => first,
        };
        let at = (self.base + start).pointer();
        let len = self.ram_size - start;
        if !shared {
            let prot = libc::PROT_READ | libc::PROT_WRITE;
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
            // SAFETY: RAM of a kernel that does not run yet, all zeros as before.
            unsafe {
                if libc::mmap(at, len as usize, prot, flags, -1, 0) == libc::MAP_FAILED {
                    return Err(io::Error::last_os_error());
                }
                libc::madvise(at, len as usize, libc::MADV_HUGEPAGE);
            }
        }
        self.shown.end = Physical(start);
        self.populate(self.shown.end, len);
        Ok(())
    }

    fn in_ram(&self, pa: Physical, len: u64) -> bool {
        pa.checked_add(len)
            .is_some_and(|end| end.0 <= self.ram_size)
    }

    fn in_window(&self, va: Virtual, len: u64) -> bool {
        let Some(end) = va.checked_add(len) else {
            return false;
        };
        [&self.vmalloc, &self.user, &self.program]
            .iter()
            .any(|window| va >= window.start && end <= window.end)
    }

    /// The kernel's `map`: `prot` is of `PROT_READ`…
    pub fn map(&self, va: Virtual, pa: Physical, len: u64, prot: i32) -> io::Result<()> {
        if !self.in_ram(pa, len) {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        if va == self.base + pa.0 {
            return self.protect(va, len, prot);
        }
        if !self.in_window(va, len) || pa < self.shown.start || pa + len > self.shown.end {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        self.frames.note(pa.0, len, prot & libc::PROT_WRITE != 0);
        match self.lent.is_empty() {
            true => self.show_by(va, pa, len, prot, self.at_once(va, len, prot)),
            false => self.lent.map(self, va.0, pa.0, len, prot),
        }
    }

    /// Several pages that a program may write are those that it used, or is about to, and
    /// each would take a fault of the host's. Of those that it may only read one fault has many.
    fn at_once(&self, va: Virtual, len: u64, prot: i32) -> i32 {
        let is_programs = va >= self.program.start && va < self.program.end;
        match is_programs && len > PAGE && prot & libc::PROT_WRITE != 0 {
            true => libc::MAP_POPULATE,
            false => 0,
        }
    }

    /// Of code it is asked for when some was changed, or is about to be.
    fn protect(&self, va: Virtual, len: u64, prot: i32) -> io::Result<()> {
        // SAFETY: the kernel's own RAM, whose protection is its own matter.
        if unsafe { libc::mprotect(va.pointer(), len as usize, prot) } != 0 {
            return Err(io::Error::last_os_error());
        }
        match prot & libc::PROT_EXEC {
            0 => Ok(()),
            _ => {
                self.frames.code_changes();
                forget_instructions()
            }
        }
    }

    /// The kernel's `unmap`: back to reserved.
    pub fn unmap(&self, va: Virtual, len: u64) -> io::Result<()> {
        if !self.in_window(va, len) {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        match self.lent.is_empty() {
            true => self.hide(va, len),
            false => self.lent.unmap(self, va.0, len),
        }
    }

    /// Everything that is shown in the vmalloc window: it comes back by faults.
    pub fn hide_vmalloc(&self) -> io::Result<()> {
        self.unmap(
            self.vmalloc.start,
            self.vmalloc.end.0 - self.vmalloc.start.0,
        )
    }

    /// Everything that is shown anywhere: it comes back by faults, of the kernel and of
    /// the program.
    pub fn hide_all(&self) -> io::Result<()> {
        for window in [&self.vmalloc, &self.user, &self.program] {
            if !window.is_empty() {
                self.unmap(window.start, window.end.0 - window.start.0)?;
            }
        }
        Ok(())
    }

    /// The parts of these frames that have memory behind them, whole pages.
    pub fn data(
        &self,
        frames: Range<Physical>,
        mut found: impl FnMut(Range<u64>),
    ) -> io::Result<()> {
        let seek = |at: u64, whence| {
            // SAFETY: only moves the file's position, which nothing uses.
            let to = unsafe { libc::lseek(self.fd.as_raw_fd(), at as libc::off_t, whence) };
            match u64::try_from(to) {
                Ok(to) => Ok(Some(to)),
                Err(_) => match io::Error::last_os_error() {
                    // Nothing but holes up to its end.
                    error if error.raw_os_error() == Some(libc::ENXIO) => Ok(None),
                    error => Err(error),
                },
            }
        };
        let (mut at, end) = (frames.start.0, frames.end.0);
        while let Some(start) = seek(at, libc::SEEK_DATA)?.filter(|start| *start < end) {
            at = seek(start, libc::SEEK_HOLE)?.unwrap_or(end).min(end);
            found(start & !(PAGE - 1)..at.next_multiple_of(PAGE));
            if at >= end {
                break;
            }
        }
        Ok(())
    }

    /// The kernel's `discard`: the frames become holes of the memfd.
    pub fn discard(&self, pa: Physical, len: u64) -> io::Result<()> {
        if !self.in_ram(pa, len) {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        self.frames.note(pa.0, len, true);
        let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        // SAFETY: only frees memory that the kernel gave up.
        let done = unsafe {
            libc::fallocate(
                self.fd.as_raw_fd(),
                mode,
                pa.0 as libc::off_t,
                len as libc::off_t,
            )
        };
        if done < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }

    fn size(&self) -> u64 {
        self.user.end.0 + GUARD - self.base.0
    }
}

/// Ranges of our reservation, or of one that is there for a loan.
impl Window for Memory {
    fn show(&self, va: Virtual, pa: Physical, len: u64, prot: i32) -> io::Result<()> {
        Memory::show(self, va, pa, len, prot)
    }

    fn hide(&self, va: Virtual, len: u64) -> io::Result<()> {
        // SAFETY: as above.
        let hidden = unsafe { reserve_at(va, len, libc::MAP_FIXED) };
        hidden.map(drop).or_else(|error| {
            // Where the host has no mapping left, as this may take one more: what is there
            // already need not become another.
            // SAFETY: as above.
            match unsafe { libc::mprotect(va.pointer(), len as usize, libc::PROT_NONE) } {
                0 => Ok(()),
                _ => Err(error),
            }
        })
    }

    fn touch(&self, va: Virtual, len: u64) {
        const MADV_POPULATE_READ: i32 = 22;
        // SAFETY: it only reads; a host before 5.14 refuses, and they come one by one.
        unsafe { libc::madvise(va.pointer(), len as usize, MADV_POPULATE_READ) };
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: nobody uses the kernel's memory any more.
        unsafe {
            libc::munmap(self.base.pointer(), self.size() as usize);
            if !self.program.is_empty() {
                let len = self.program.end.0 - self.program.start.0;
                libc::munmap(self.program.start.pointer(), len as usize);
            }
        }
    }
}

/// Programs expect the lowest addresses, but for those that a host gives to nobody,
/// and room for what is thinly used. Hosts put their own programs and libraries above.
fn reserve_programs() -> io::Result<Range<Virtual>> {
    const START: Virtual = Virtual(64 << 10);
    const END: Virtual = Virtual(64 << 40);
    // SAFETY: NOREPLACE touches no existing mapping.
    let at = unsafe { reserve_at(START, END.0 - START.0, libc::MAP_FIXED_NOREPLACE)? };
    if at != START {
        // SAFETY: we have just mapped it.
        unsafe { libc::munmap(at.pointer(), (END.0 - START.0) as usize) };
        return Err(io::Error::from_raw_os_error(libc::EEXIST));
    }
    Ok(START..END)
}

/// Reserve address space without memory behind it.
///
/// # Safety
/// As mmap(2): with `MAP_FIXED`, nobody uses what is mapped there.
unsafe fn reserve_at(va: Virtual, len: u64, flags: i32) -> io::Result<Virtual> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | flags;
    // SAFETY: as the caller promises.
    let at = unsafe { libc::mmap(va.pointer(), len as usize, libc::PROT_NONE, flags, -1, 0) };
    if at == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    Ok(Virtual(at as u64))
}

/// From `above` on, 0 if it may be anywhere.
fn reserve(len: u64, randomise: bool, above: Virtual) -> io::Result<Virtual> {
    let (first, span) = match above.0 {
        0 => (1 << 40, 95 << 40),
        end => (end + (1 << 40), 16 << 40),
    };
    let fixed = FIXED_BASE.max(above.0);
    for attempt in 0..64 {
        let hint = if randomise && !cfg!(tane_tsan) {
            let mut bits = 0u64;
            // SAFETY: fills eight bytes of ours.
            unsafe { libc::getrandom((&raw mut bits).cast(), 8, 0) };
            // 2 MiB steps anywhere in 1 TiB .. 96 TiB, or between the programs and what
            // the host has above 85 TiB.
            first + (bits % (span >> 21)) * (2 << 20)
        } else {
            fixed + attempt * len.next_multiple_of(1 << 30)
        };
        let hint = Virtual(hint);
        // SAFETY: NOREPLACE touches no existing mapping.
        match unsafe { reserve_at(hint, len, libc::MAP_FIXED_NOREPLACE) } {
            Ok(at) if at == hint => return Ok(at),
            Ok(at) => {
                // A host before 4.17 ignores the flag.
                // SAFETY: we have just mapped it.
                unsafe { libc::munmap(at.pointer(), len as usize) };
            }
            Err(error) if error.raw_os_error() == Some(libc::EEXIST) => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other("no free range of the address space"))
}
