//! An io_uring whose two rings are memory of the kernel's, mapped into this
//! process: io_uring(7), by its structures and without a library.

use std::io;
use std::sync::atomic::{fence, AtomicU32, Ordering};
use tane::{File, Kernel, Map, MapOptions};

const IORING_OFF_SQ_RING: u64 = 0;
const IORING_OFF_SQES: u64 = 0x1000_0000;
const IORING_FEAT_SINGLE_MMAP: u32 = 1;
const IORING_ENTER_GETEVENTS: u64 = 1;
const IORING_ENTER_SQ_WAKEUP: u64 = 2;
const IORING_SQ_NEED_WAKEUP: u32 = 1;
const IORING_REGISTER_BUFFERS: u64 = 0;
const IORING_REGISTER_FILES: u64 = 2;

/// A thread of the kernel looks for submissions, so that they take no call.
pub const SETUP_SQPOLL: u32 = 2;

/// `fd` is a place in the table of [`Ring::register_files`].
pub const FIXED_FILE: u8 = 1;
/// The next submission starts when this one is done, and not if it fails; a
/// short read is a failure.
pub const IO_LINK: u8 = 4;
/// The next submission starts when this one is done, however that went.
pub const IO_HARDLINK: u8 = 8;

pub const OP_READ_FIXED: u8 = 4;
pub const OP_OPENAT: u8 = 18;
pub const OP_CLOSE: u8 = 19;
pub const OP_STATX: u8 = 21;

/// `struct io_uring_sqe`: what is to be done.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub struct Submission {
    pub opcode: u8,
    pub flags: u8,
    pub ioprio: u16,
    pub fd: i32,
    pub off: u64,
    pub addr: u64,
    pub len: u32,
    pub op_flags: u32,
    pub user_data: u64,
    pub buf_index: u16,
    pub personality: u16,
    pub file_index: u32,
    pub reserved: [u64; 2],
}

/// `struct io_uring_cqe`: what was done. A negative result is an errno.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Completion {
    pub user_data: u64,
    pub result: i32,
    pub flags: u32,
}

/// `struct io_sqring_offsets` and `struct io_cqring_offsets`, whose names these
/// are: bytes from the start of the rings.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct Offsets {
    head: u32,
    tail: u32,
    mask: u32,
    entries: u32,
    /// For submissions "flags", for completions "overflow".
    fifth: u32,
    /// "dropped" and "cqes".
    sixth: u32,
    /// "array" and "flags".
    seventh: u32,
    reserved: u32,
    user_addr: u64,
}

#[derive(Clone, Copy, Default)]
#[repr(C)]
struct Params {
    sq_entries: u32,
    cq_entries: u32,
    flags: u32,
    sq_thread_cpu: u32,
    sq_thread_idle: u32,
    features: u32,
    wq_fd: u32,
    reserved: [u32; 3],
    sq: Offsets,
    cq: Offsets,
}

pub struct Ring {
    file: File,
    rings: Map,
    entries: Map,
    params: Params,
    /// Submissions so far, whether the kernel was told or not.
    tail: u32,
    /// Of these the kernel was told.
    told: u32,
    /// Calls of io_uring_enter(2) so far.
    pub calls: u64,
}

impl Ring {
    /// `entries` submissions fit in at a time; `flags` are of io_uring_setup(2).
    pub fn new(kernel: &Kernel, entries: u32, flags: u32) -> io::Result<Ring> {
        let mut params = Params {
            flags,
            ..Params::default()
        };
        let args = [entries.into(), &raw mut params as u64, 0, 0, 0, 0];
        // SAFETY: the parameters are ours, and the descriptor nobody else's.
        let file = unsafe {
            let fd = kernel.try_syscall(libc::SYS_io_uring_setup, args)?;
            File::from_kernel_fd(kernel, fd as i32)
        };
        if params.features & IORING_FEAT_SINGLE_MMAP == 0 {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let array_end = params.sq.seventh + params.sq_entries * 4;
        let cqes_end = params.cq.sixth + params.cq_entries * size_of::<Completion>() as u32;
        let map = |offset, len| file.map(MapOptions::new().write(true).range(offset, len));
        let submissions = params.sq_entries as usize * size_of::<Submission>();
        Ok(Ring {
            rings: map(IORING_OFF_SQ_RING, array_end.max(cqes_end) as usize)?,
            entries: map(IORING_OFF_SQES, submissions)?,
            file,
            params,
            tail: 0,
            told: 0,
            calls: 0,
        })
    }

    fn word(&self, offset: u32) -> &AtomicU32 {
        assert!(offset as usize + 4 <= self.rings.len());
        // SAFETY: inside the mapping and aligned, by the kernel's own word.
        unsafe { &*self.rings.as_ptr().add(offset as usize).cast() }
    }

    /// Registered buffers have these addresses and lengths; they are pages of the
    /// kernel's and stay where they are as long as the ring.
    pub fn register_buffers(&self, buffers: &[libc::iovec]) -> io::Result<()> {
        self.register(
            IORING_REGISTER_BUFFERS,
            buffers.as_ptr().cast(),
            buffers.len(),
        )
    }

    /// A table of `count` files for [`FIXED_FILE`], all empty.
    pub fn register_files(&self, count: usize) -> io::Result<()> {
        let none = vec![-1i32; count];
        self.register(IORING_REGISTER_FILES, none.as_ptr().cast(), count)
    }

    fn register(&self, what: u64, at: *const u8, count: usize) -> io::Result<()> {
        let fd = self.file.kernel_fd() as u64;
        let args = [fd, what, at as u64, count as u64, 0, 0];
        let kernel = self.file.kernel();
        // SAFETY: arrays of our callers, read during the call.
        unsafe { kernel.try_syscall(libc::SYS_io_uring_register, args) }.map(drop)
    }

    /// How many submissions fit in now.
    pub fn room(&self) -> u32 {
        let head = self.word(self.params.sq.head).load(Ordering::Acquire);
        self.params.sq_entries - self.tail.wrapping_sub(head)
    }

    /// Add one, which starts with the next [`Ring::submit`].
    ///
    /// # Safety
    /// What it points to stays until it has completed.
    pub unsafe fn push(&mut self, submission: Submission) {
        assert!(self.room() > 0, "ask for room first");
        let index = self.tail & self.word(self.params.sq.mask).load(Ordering::Relaxed);
        assert!((index as usize + 1) * size_of::<Submission>() <= self.entries.len());
        let array = self.params.sq.seventh + 4 * index;
        self.word(array).store(index, Ordering::Relaxed);
        let entries = self.entries.as_mut_ptr().expect("writable");
        // SAFETY: in the mapping, as was just looked at; the kernel reads it later.
        unsafe {
            let entry = entries.cast::<Submission>().add(index as usize);
            entry.write(submission);
        }
        self.tail = self.tail.wrapping_add(1);
    }

    /// Let the kernel have what was pushed, and wait until `complete` completions
    /// are there.
    pub fn submit(&mut self, complete: u32) -> io::Result<()> {
        let tail = self.word(self.params.sq.tail);
        tail.store(self.tail, Ordering::Release);
        let polled = self.params.flags & SETUP_SQPOLL != 0;
        loop {
            let mut flags = 0;
            if polled {
                self.told = self.tail;
                // The thread says that it sleeps before it looks once more.
                fence(Ordering::SeqCst);
                let state = self.word(self.params.sq.fifth).load(Ordering::Relaxed);
                if state & IORING_SQ_NEED_WAKEUP != 0 {
                    flags |= IORING_ENTER_SQ_WAKEUP;
                }
            }
            if complete > self.waiting() {
                flags |= IORING_ENTER_GETEVENTS;
            }
            let new = self.tail.wrapping_sub(self.told);
            if new == 0 && flags == 0 {
                return Ok(());
            }
            match self.enter(new, complete, flags) {
                Ok(taken) if !polled => self.told = self.told.wrapping_add(taken),
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn enter(&mut self, new: u32, complete: u32, flags: u64) -> io::Result<u32> {
        self.calls += 1;
        let fd = self.file.kernel_fd() as u64;
        let args = [fd, new.into(), complete.into(), flags, 0, 0];
        let kernel = self.file.kernel();
        // SAFETY: of submissions for which push() has its callers' word.
        unsafe { kernel.try_syscall(libc::SYS_io_uring_enter, args) }.map(|taken| taken as u32)
    }

    /// The kernel's thread that looks for submissions, by what its kernel says of
    /// the ring.
    pub fn poller(&self) -> io::Result<Option<u32>> {
        let fd = self.file.kernel_fd();
        let proc = self.file.kernel().tree("/proc")?;
        let info = proc.read_to_string(format!("self/fdinfo/{fd}"))?;
        let thread = info.lines().find_map(|line| line.strip_prefix("SqThread:"));
        // -1 if it has none.
        Ok(thread.and_then(|thread| thread.trim().parse().ok()))
    }

    /// Completions that nobody has taken yet.
    fn waiting(&self) -> u32 {
        let head = self.word(self.params.cq.head).load(Ordering::Relaxed);
        let tail = self.word(self.params.cq.tail).load(Ordering::Acquire);
        tail.wrapping_sub(head)
    }

    /// Take the oldest completion.
    pub fn next(&mut self) -> Option<Completion> {
        if self.waiting() == 0 {
            return None;
        }
        let head = self.word(self.params.cq.head);
        let at = head.load(Ordering::Relaxed);
        let place = at & self.word(self.params.cq.mask).load(Ordering::Relaxed);
        let offset = self.params.cq.sixth as usize + place as usize * size_of::<Completion>();
        assert!(offset + size_of::<Completion>() <= self.rings.len());
        // SAFETY: in the mapping; the kernel has written it and leaves it alone
        // until the head has passed.
        let completion = unsafe {
            let at = self.rings.as_ptr().add(offset);
            at.cast::<Completion>().read_volatile()
        };
        head.store(at.wrapping_add(1), Ordering::Release);
        Some(completion)
    }

    /// Whether the rings are still the kernel's; [`Map::check`].
    pub fn check(&self) -> tane::Result<()> {
        self.rings.check()?;
        self.entries.check()
    }
}
