//! A tree, many files at a time. A file takes one request for its size, then
//! three in a chain: open, read, close; a large file more reads between.

use crate::cksum::Cksum;
use crate::ring::{self, Completion, Ring, Submission};
use std::ffi::{CStr, CString, OsStr};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::rc::Rc;
use tane::{Buffer, Dir, FileType, Kernel};

/// Files under way at a time. Each has a chain of at most three requests, so
/// that the ring has room for all.
const SLOTS: usize = 32;
const ENTRIES: u32 = 128;
/// What one read gets.
const CHUNK: usize = 128 << 10;

#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Step {
    Size,
    Open,
    Read,
    Close,
}

/// A directory and what leads there.
struct Place {
    dir: Dir,
    path: PathBuf,
}

/// A file under way.
struct Slot {
    place: Rc<Place>,
    name: CString,
    /// The kernel writes the answer here.
    stat: Box<libc::statx>,
    sum: Cksum,
    /// Requests that have not completed.
    pending: u32,
    error: Option<(&'static str, i32)>,
    closed: bool,
}

#[derive(Clone, Copy, Default)]
pub struct Totals {
    pub files: u64,
    pub bytes: u64,
    pub requests: u64,
    pub calls: u64,
    pub failed: u64,
}

pub struct Walk {
    ring: Ring,
    /// One chunk per slot, registered with the ring: freed after it.
    buffer: Buffer,
    slots: Vec<Option<Slot>>,
    totals: Totals,
    out: io::BufWriter<io::Stdout>,
}

impl Walk {
    pub fn new(kernel: &Kernel, flags: u32) -> io::Result<Walk> {
        let ring = Ring::new(kernel, ENTRIES, flags)?;
        let mut buffer = kernel.buffer(SLOTS * CHUNK)?;
        let chunks: Vec<_> = buffer
            .chunks_mut(CHUNK)
            .map(|chunk| libc::iovec {
                iov_base: chunk.as_mut_ptr().cast(),
                iov_len: CHUNK,
            })
            .collect();
        ring.register_buffers(&chunks)?;
        ring.register_files(SLOTS)?;
        Ok(Walk {
            ring,
            buffer,
            slots: (0..SLOTS).map(|_| None).collect(),
            totals: Totals::default(),
            out: io::BufWriter::new(io::stdout()),
        })
    }

    pub fn poller(&self) -> io::Result<Option<u32>> {
        self.ring.poller()
    }

    pub fn totals(&self) -> Totals {
        Totals {
            calls: self.ring.calls,
            ..self.totals
        }
    }

    /// Everything below a directory.
    pub fn tree(&mut self, root: Dir) -> io::Result<()> {
        let path = PathBuf::new();
        let mut places = vec![Rc::new(Place { dir: root, path })];
        while let Some(place) = places.pop() {
            let mut entries = place.dir.read_dir()?;
            while let Some(entry) = entries.next_entry()? {
                let kind = match entry.file_type() {
                    Some(kind) => kind,
                    None => place.dir.metadata(entry.file_name())?.file_type(),
                };
                match kind {
                    FileType::Dir => places.push(Rc::new(Place {
                        dir: place.dir.open_dir(entry.file_name())?,
                        path: place.path.join(entry.file_name()),
                    })),
                    FileType::File => self.start(&place, entry.c_name())?,
                    _ => {}
                }
            }
        }
        while self.slots.iter().any(Option::is_some) {
            self.wait()?;
        }
        self.ring.check()?;
        self.out.flush()
    }

    fn start(&mut self, place: &Rc<Place>, name: &CStr) -> io::Result<()> {
        let index = loop {
            match self.slots.iter().position(Option::is_none) {
                Some(index) => break index,
                None => self.wait()?,
            }
        };
        self.slots[index] = Some(Slot {
            place: place.clone(),
            name: name.to_owned(),
            // SAFETY: zeroes are a valid statx.
            stat: Box::new(unsafe { std::mem::zeroed() }),
            sum: Cksum::default(),
            pending: 0,
            error: None,
            closed: true,
        });
        self.request(index, Step::Size, 0);
        Ok(())
    }

    /// Add one request of a slot. Its chain goes on if `link` is not 0.
    fn request(&mut self, index: usize, step: Step, link: u8) {
        let slot = self.slots[index].as_mut().expect("a file under way");
        let mut entry = Submission {
            flags: link,
            user_data: (index as u64) << 8 | step as u64,
            ..Submission::default()
        };
        match step {
            Step::Size => {
                entry.opcode = ring::OP_STATX;
                entry.fd = slot.place.dir.kernel_fd();
                entry.addr = slot.name.as_ptr() as u64;
                entry.off = &raw mut *slot.stat as u64;
                entry.len = libc::STATX_SIZE;
                entry.op_flags = libc::AT_SYMLINK_NOFOLLOW as u32;
            }
            Step::Open => {
                entry.opcode = ring::OP_OPENAT;
                entry.fd = slot.place.dir.kernel_fd();
                entry.addr = slot.name.as_ptr() as u64;
                entry.op_flags = (libc::O_RDONLY | libc::O_NOFOLLOW) as u32;
                entry.file_index = index as u32 + 1;
            }
            Step::Read => {
                entry.opcode = ring::OP_READ_FIXED;
                entry.flags |= ring::FIXED_FILE;
                entry.fd = index as i32;
                entry.off = slot.sum.len();
                entry.addr = self.buffer[index * CHUNK..].as_ptr() as u64;
                entry.len = CHUNK as u32;
                entry.buf_index = index as u16;
            }
            Step::Close => {
                entry.opcode = ring::OP_CLOSE;
                entry.file_index = index as u32 + 1;
            }
        }
        slot.pending += 1;
        self.totals.requests += 1;
        // SAFETY: name, answer and buffer stay with the slot, which stays until
        // nothing of it is pending.
        unsafe { self.ring.push(entry) };
    }

    /// Read the next chunk and, if it is the last, close.
    fn read(&mut self, index: usize) {
        let slot = self.slots[index].as_ref().expect("a file under way");
        let rest = slot.stat.stx_size.saturating_sub(slot.sum.len());
        if rest <= CHUNK as u64 {
            // At the end of the file a read is short, and the file is closed.
            self.request(index, Step::Read, ring::IO_HARDLINK);
            self.request(index, Step::Close, 0);
        } else {
            self.request(index, Step::Read, 0);
        }
    }

    /// Submit, and take at least one completion.
    fn wait(&mut self) -> io::Result<()> {
        self.ring.submit(1)?;
        while let Some(completion) = self.ring.next() {
            self.completed(completion)?;
        }
        Ok(())
    }

    fn completed(&mut self, completion: Completion) -> io::Result<()> {
        let index = (completion.user_data >> 8) as usize;
        let step = match completion.user_data as u8 {
            step if step == Step::Size as u8 => Step::Size,
            step if step == Step::Open as u8 => Step::Open,
            step if step == Step::Read as u8 => Step::Read,
            _ => Step::Close,
        };
        let slot = self.slots[index].as_mut().expect("a file under way");
        slot.pending -= 1;
        let result = completion.result;
        // The rest of a chain that failed is cancelled: the first one tells why.
        if result < 0 && slot.error.is_none() {
            let action = match step {
                Step::Size => "statx",
                Step::Open => "open",
                Step::Read => "read",
                Step::Close => "close",
            };
            slot.error = Some((action, -result));
        }
        match (step, result) {
            (Step::Open, 0..) => slot.closed = false,
            (Step::Close, 0..) => slot.closed = true,
            (Step::Read, 0..) => {
                let start = index * CHUNK;
                let bytes = &self.buffer[start..start + result as usize];
                slot.sum.add(bytes);
            }
            _ => {}
        }
        if slot.pending == 0 {
            self.next(index, step, result)?;
        }
        Ok(())
    }

    /// What a file needs now that nothing of it is pending.
    fn next(&mut self, index: usize, step: Step, result: i32) -> io::Result<()> {
        let slot = self.slots[index].as_mut().expect("a file under way");
        let whole = slot.sum.len() >= slot.stat.stx_size;
        if slot.error.is_none() && step == Step::Size {
            self.request(index, Step::Open, ring::IO_LINK);
            self.read(index);
        } else if slot.error.is_none() && !slot.closed && !whole && result != 0 {
            self.read(index);
        } else if !slot.closed && step != Step::Close {
            self.request(index, Step::Close, 0);
        } else {
            if slot.error.is_none() && !whole {
                slot.error = Some(("read to the end", libc::EIO));
            }
            self.finish(index)?;
        }
        Ok(())
    }

    fn finish(&mut self, index: usize) -> io::Result<()> {
        let slot = self.slots[index].take().expect("a file under way");
        let path = slot
            .place
            .path
            .join(OsStr::from_bytes(slot.name.to_bytes()));
        if let Some((action, errno)) = slot.error {
            let error = io::Error::from_raw_os_error(errno);
            eprintln!("uring: {action} {}: {error}", path.display());
            self.totals.failed += 1;
            return Ok(());
        }
        self.totals.files += 1;
        self.totals.bytes += slot.sum.len();
        write!(self.out, "{} {} ", slot.sum.finish(), slot.sum.len())?;
        self.out.write_all(path.as_os_str().as_bytes())?;
        self.out.write_all(b"\n")
    }
}

impl Drop for Walk {
    fn drop(&mut self) {
        // After an error requests may be under way, which write to the slots
        // whenever they complete.
        if self.slots.iter().any(Option::is_some) {
            std::mem::forget(std::mem::take(&mut self.slots));
        }
    }
}
