//! Files' pages that are lent to a module: what it sees of a kernel's cache, in its window.
//!
//! Nothing is copied, and nothing pinned. A view can only be read; what its file has no more,
//! since somebody has made it shorter, cannot be accessed either.

use crate::Import;
use std::io;
use std::ptr::NonNull;
use tane_checked::{PAGE, TEXT};
use tane_host::{Loan, Program, Virtual};

const PAGE64: u64 = PAGE as u64;
/// Of an instance: how many views, and of how many bytes.
const MOST: usize = 64;
const MOST_BYTES: u64 = 1 << 30;
/// Inaccessible: below the views, where the module's memory ends, and behind each.
const GAP: u64 = 16 * PAGE64;

struct View {
    /// Offsets in the window; whole pages.
    start: u64,
    end: u64,
    /// Where the file's bytes begin that were asked for.
    at: u64,
    /// None: of nothing, at the end of a file.
    loan: Option<Loan>,
}

/// Those of one instance.
pub struct Views {
    window: NonNull<u8>,
    /// Where they may be.
    from: u64,
    to: u64,
    views: Vec<View>,
    program: Option<Program>,
}

/// Bytes of a file.
pub struct Piece {
    pub fd: i32,
    pub at: u64,
    pub bytes: u64,
}

fn errno(error: io::Error) -> i32 {
    error.raw_os_error().unwrap_or(libc::ENOMEM)
}

impl Views {
    /// Of the window above this offset.
    pub fn new(window: NonNull<u8>, above: u64) -> Views {
        Views {
            window,
            from: (above + GAP).next_multiple_of(GAP),
            to: (1 << 32) - GAP,
            views: Vec::new(),
            program: None,
        }
    }

    /// Who opens files, and who reads them.
    pub fn set_program(&mut self, program: Option<Program>) {
        self.give_all_back();
        self.program = program;
    }

    pub fn program(&mut self) -> Option<&mut Program> {
        self.program.as_mut()
    }

    /// Where this is, if all of it is in one view.
    pub fn at(&self, offset: u64, bytes: u64) -> Option<*mut u8> {
        let end = offset.checked_add(bytes)?;
        let within = |view: &View| (view.start..view.end).contains(&offset) && end <= view.end;
        let found = self.views.iter().any(within);
        // SAFETY: in the window.
        found.then(|| unsafe { self.window.as_ptr().add(offset as usize) })
    }

    fn number(&mut self, nr: i64, args: [u64; 3]) -> Result<u64, i32> {
        let program = self.program.as_mut().ok_or(libc::ENOSYS)?;
        let [a, b, c] = args;
        // SAFETY: calls that take numbers.
        let ret = unsafe { program.syscall(nr, [a, b, c, 0, 0, 0]) };
        u64::try_from(ret).map_err(|_| -ret as i32)
    }

    /// How long an open file is: where its end is, without staying there.
    fn length(&mut self, fd: i32) -> Result<u64, i32> {
        let mut seek =
            |to, whence: i32| self.number(libc::SYS_lseek, [fd as u64, to, whence as u64]);
        let here = seek(0, libc::SEEK_CUR)?;
        let end = seek(0, libc::SEEK_END);
        seek(here, libc::SEEK_SET)?;
        end
    }

    /// Room for so many bytes, and some that stay inaccessible.
    fn room(&self, bytes: u64) -> Result<u64, i32> {
        let lent: u64 = self.views.iter().map(|view| view.end - view.start).sum();
        if self.views.len() == MOST || lent + bytes > MOST_BYTES {
            return Err(libc::ENOMEM);
        }
        let mut at = self.from;
        // By their places.
        for view in &self.views {
            if at + bytes + GAP <= view.start {
                break;
            }
            at = (view.end + GAP).next_multiple_of(PAGE64);
        }
        match at + bytes <= self.to {
            true => Ok(at),
            false => Err(libc::ENOMEM),
        }
    }

    /// Lends what the file has of this piece: where it is, and how much. Nothing at its end.
    /// `ahead` bytes before it are room as well.
    fn lend(&mut self, piece: &Piece, ahead: u64) -> Result<[u64; 2], i32> {
        i64::try_from(piece.at).map_err(|_| libc::EINVAL)?;
        let end = self.length(piece.fd)?;
        let bytes = piece.bytes.min(end.saturating_sub(piece.at));
        if bytes == 0 && ahead == 0 {
            return Ok([0, 0]);
        }
        let within = piece.at % PAGE64;
        let len = (within + bytes).next_multiple_of(PAGE64);
        let start = self.room(ahead + len)?;
        let to = Virtual(self.window.as_ptr() as u64 + start + ahead);
        let program = self.program.as_mut().ok_or(libc::ENOSYS)?;
        // SAFETY: in the window, where nothing is yet.
        let lend = |len| unsafe { program.lend(piece.fd, piece.at - within, len, to) };
        let loan = (len > 0).then_some(len).map(lend).transpose()?;
        let view = View {
            start,
            end: start + ahead + len,
            at: start + ahead + within,
            loan,
        };
        let at = view.at;
        let after = self.views.partition_point(|other| other.start < start);
        self.views.insert(after, view);
        Ok([at, bytes])
    }

    /// `tane_lend`: where they are, and how many.
    pub fn lend_bytes(&mut self, piece: &Piece) -> Result<[u64; 2], i32> {
        self.lend(piece, 0)
    }

    /// `tane_view`: the same as an object of the class of texts, whose class and length are
    /// right before its bytes.
    pub fn lend_text(&mut self, piece: &Piece) -> Result<u64, i32> {
        if !piece.at.is_multiple_of(PAGE64) {
            return Err(libc::EINVAL);
        }
        let [at, bytes] = self.lend(piece, PAGE64)?;
        match self.write_head(at - 16, bytes) {
            Ok(()) => Ok(at - 16),
            Err(errno) => self.give_back(at).and(Err(errno)),
        }
    }

    fn write_head(&self, at: u64, bytes: u64) -> Result<(), i32> {
        let page = (at - at % PAGE64) as usize;
        // SAFETY: a page of the view's own, in front of what is lent.
        unsafe {
            let page = self.window.as_ptr().add(page).cast();
            let protect = |how| match libc::mprotect(page, PAGE as usize, how) {
                0 => Ok(()),
                _ => Err(errno(io::Error::last_os_error())),
            };
            protect(libc::PROT_READ | libc::PROT_WRITE)?;
            let head = [u64::from(TEXT), bytes];
            self.window
                .as_ptr()
                .add(at as usize)
                .cast::<[u64; 2]>()
                .write(head);
            protect(libc::PROT_READ)
        }
    }

    /// `tane_release`: of the view whose bytes begin there.
    pub fn give_back(&mut self, at: u64) -> Result<(), i32> {
        let found = self.views.iter().position(|view| view.at == at);
        let view = self.views.remove(found.ok_or(libc::EINVAL)?);
        self.end(view);
        Ok(())
    }

    /// Nothing of it is this process's to give back.
    pub fn forget(&mut self) {
        std::mem::forget(std::mem::take(&mut self.views));
    }

    pub fn give_all_back(&mut self) {
        for view in std::mem::take(&mut self.views) {
            self.end(view);
        }
    }

    fn end(&mut self, view: View) {
        let head = (view.at - view.at % PAGE64).saturating_sub(view.start);
        if let (Some(program), Some(loan)) = (&mut self.program, view.loan) {
            program.give_back(loan);
        }
        if head > 0 {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
            // SAFETY: a page of the view's own: back to reserved.
            unsafe {
                let at = self.window.as_ptr().add(view.start as usize).cast();
                let flags = flags | libc::MAP_FIXED;
                libc::mmap(at, head as usize, libc::PROT_NONE, flags, -1, 0);
            }
        }
    }
}

/// The call that has to be allowed for them: they read what that reads.
pub const AS: &str = "read";

/// What a module may import of this: `checked-build/src/module.h` has two of them, and typed
/// modules the third.
pub fn import(name: &str) -> Option<Import> {
    Some(match name {
        "tane_lend" => Box::new(|[fd, to, bytes, at, ..], memory| {
            let to = to & u64::from(u32::MAX);
            if !memory.write(to, &[0; 8]) {
                return negative(libc::EFAULT);
            }
            let fd = fd as i32;
            let lent = memory
                .views
                .borrow_mut()
                .lend_bytes(&Piece { fd, at, bytes });
            lent.map_or_else(negative, |[at, bytes]| {
                memory.write(to, &at.to_le_bytes());
                bytes
            })
        }),
        "tane_release" => Box::new(|[at, ..], memory| {
            let given = memory
                .views
                .borrow_mut()
                .give_back(at & u64::from(u32::MAX));
            given.map_or_else(negative, |()| 0)
        }),
        "tane_view" => Box::new(|[fd, bytes, at, ..], memory| {
            let fd = fd as i32;
            let lent = memory
                .views
                .borrow_mut()
                .lend_text(&Piece { fd, at, bytes });
            // What is at 0 cannot be accessed.
            lent.unwrap_or(0)
        }),
        _ => return None,
    })
}

fn negative(errno: i32) -> u64 {
    -i64::from(errno) as u64
}
