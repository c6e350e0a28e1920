//! Images, mounts and files of a worker.

use crate::area::{BESIDE, BULK};
use crate::call::{Answer, Call, Wants};
use crate::client::Worker;
use crate::failure::{Failure, Result};
use crate::listing::Dir;
use crate::objects::lock;
use crate::operations::special;
use crate::read_ahead::{ReadAhead, Window, SMALL};
use crate::records::MountHow;
use crate::wire::{Reader, Wire};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// Files that one message asks for: none has room for many more of an ordinary size.
const FILES: usize = 512;
const _: () = assert!(FILES * 8 <= BESIDE);

/// An image that a worker serves. Cheap to clone; any thread may use it. The worker
/// ends with the last handle that belongs to it.
#[derive(Clone)]
pub struct Image {
    pub(crate) worker: Arc<Worker>,
    pub(crate) held: tane::jail::Files,
    pub(crate) write: bool,
}

impl Image {
    pub(crate) fn call(&self, operation: u32) -> Result<Call<'_>> {
        self.worker.call(operation, 0)
    }

    /// The process that serves it.
    pub fn pid(&self) -> u32 {
        self.worker.pid()
    }

    /// How far the host keeps it from files: see [`tane::jail::Held`].
    pub fn held(&self) -> tane::jail::Files {
        self.held
    }

    /// Mount the file system that a selector means, or the only one: as
    /// [`tane::Image::mount`], with its errors.
    pub fn mount(&self, selector: Option<&str>, how: &MountHow) -> Result<Mount> {
        let mut call = self.call(special::MOUNT)?;
        selector.put(&mut call.arguments())?;
        how.put(&mut call.arguments())?;
        let answer = call.wait()?;
        let bytes = answer.copy()?;
        let mut from = Reader::new(&bytes);
        Ok(Mount {
            handle: u32::get(&mut from)?,
            place: PathBuf::get(&mut from)?,
            root: i32::get(&mut from)?,
            worker: self.worker.clone(),
            write: self.write,
            ended: false,
        })
    }
}

/// A file system that a worker has mounted. Any thread may use it.
pub struct Mount {
    worker: Arc<Worker>,
    handle: u32,
    place: PathBuf,
    root: i32,
    write: bool,
    ended: bool,
}

impl Mount {
    pub(crate) fn call(&self, operation: u32) -> Result<Call<'_>> {
        self.worker.call(operation, self.handle)
    }

    /// A call whose answer is wanted as long as the worker lives, or by this caller's leave.
    pub(crate) fn call_of(&self, operation: u32, wants: Wants) -> Result<Call<'_>> {
        self.worker.call_of(operation, self.handle, wants)
    }

    /// A descriptor inside the kernel is to be closed, now or later.
    pub(crate) fn end_descriptor(&self, fd: u32) {
        self.worker.end_descriptor(fd);
    }

    /// Close a descriptor inside the kernel, with one of the next calls: no message of its
    /// own, and no answer.
    pub fn close_later(&self, fd: i32) {
        self.worker.close_later(fd as u32, Wants::Until);
    }

    pub(crate) fn close_for_others(&self, fd: u32) {
        self.worker.close_later(fd, Wants::Always);
    }

    /// Where it is inside the kernel.
    pub fn mount_point(&self) -> &Path {
        &self.place
    }

    /// A descriptor of its root, inside the kernel.
    pub fn root_fd(&self) -> i32 {
        self.root
    }

    /// Write everything back and unmount: as [`tane::Mount::unmount`].
    pub fn unmount(mut self) -> Result<()> {
        self.worker.settle()?;
        self.ended = true;
        self.call(special::UNMOUNT)?.answer()
    }

    /// Open a file by O_ flags; `mode`: the exact permissions of one that is made.
    pub fn open_file(&self, path: &OsStr, flags: i32, mode: u32) -> Result<File> {
        let mut call = self.call(special::OPEN_FILE)?;
        path.put(&mut call.arguments())?;
        flags.put(&mut call.arguments())?;
        mode.put(&mut call.arguments())?;
        let bytes = call.wait()?.copy()?;
        let mut from = Reader::new(&bytes);
        Ok(File {
            handle: u32::get(&mut from)?,
            fd: i32::get(&mut from)?,
            worker: self.worker.clone(),
            ahead: (!self.write && flags & libc::O_ACCMODE == libc::O_RDONLY)
                .then(Default::default),
        })
    }

    /// List a directory; `flags` of [`list`](crate::Listing): 1 for what stat(2) says
    /// of each entry, 2 for all below as well.
    pub fn list(&self, path: &OsStr, flags: u32) -> Result<Dir> {
        Dir::new(&self.worker, self.handle, path, flags)
    }

    /// Read files, whole, one behind the other into `to`; `each` is told the length
    /// or errno of one after the other. How many that was done for: all, or as many
    /// as there was room for.
    pub fn read_files<'p>(
        &self,
        paths: impl Fn(usize) -> Option<Result<&'p OsStr>>,
        mut to: &mut [u8],
        mut each: impl FnMut(usize, std::result::Result<usize, i32>),
    ) -> Result<usize> {
        let mut done = 0;
        while let Some(first) = paths(done) {
            let first = first?;
            let mut call = self.call(special::READ_FILES)?;
            let room = to.len().min(BULK);
            let mut arguments = call.arguments();
            arguments.int(room as u64)?;
            let mut asked = 0;
            while asked < FILES {
                let Some(path) = paths(done + asked) else {
                    break;
                };
                let path = path?;
                if arguments.left() < 8 + path.len() {
                    break;
                }
                path.put(&mut arguments)?;
                asked += 1;
            }
            drop(arguments);
            let answer = call.wait()?;
            let got = answer.count(asked)?;
            let mut lengths = [0; FILES * 8];
            let lengths = &mut lengths[..got * 8];
            answer.data(0, lengths)?;
            let mut lengths = Reader::new(lengths);
            let (mut total, mut fared) = (0, Vec::with_capacity(got));
            for _ in 0..got {
                fared.push(match i64::get(&mut lengths)? {
                    errno @ -4095..0 => Err(-errno as i32),
                    length @ 0.. if length as usize <= room - total => {
                        total += length as usize;
                        Ok(length as usize)
                    }
                    _ => return lengths.malformed(),
                });
            }
            let (these, rest) = to.split_at_mut(total);
            answer.data(asked * 8, these)?;
            drop(answer);
            to = rest;
            for (at, one) in fared.into_iter().enumerate() {
                each(done + at, one);
            }
            done += got;
            if got == 0 {
                if to.len() <= BULK {
                    break;
                }
                match self.read_large(first, to)? {
                    None => break,
                    Some(Ok(n)) => {
                        to = &mut to[n..];
                        each(done, Ok(n));
                    }
                    Some(Err(errno)) => each(done, Err(errno)),
                }
                done += 1;
            }
        }
        Ok(done)
    }

    /// A file that takes several messages. None: it is longer, or may be.
    fn read_large(
        &self,
        path: &OsStr,
        to: &mut [u8],
    ) -> Result<Option<std::result::Result<usize, i32>>> {
        let flags = libc::O_RDONLY | libc::O_NONBLOCK;
        let read = self.open_file(path, flags, 0).and_then(|f| f.pread(to, 0));
        match read {
            Ok(n) if n < to.len() => Ok(Some(Ok(n))),
            Ok(_) => Ok(None),
            Err(failure) if is_of_the_worker(&failure) => Err(failure),
            Err(failure) => Ok(Some(Err(failure.errno))),
        }
    }
}

/// Whether the worker has not answered.
fn is_of_the_worker(failure: &Failure) -> bool {
    [libc::ESHUTDOWN, libc::EINTR].contains(&failure.errno)
}

impl Drop for Mount {
    fn drop(&mut self) {
        if !self.ended {
            self.worker.end(self.handle);
        }
    }
}

/// A file that a worker has open. Any thread may use it; threads that share it share
/// its position.
pub struct File {
    worker: Arc<Worker>,
    handle: u32,
    fd: i32,
    /// Where nothing changes.
    ahead: Option<(Mutex<ReadAhead>, Window)>,
}

impl File {
    pub(crate) fn call(&self, operation: u32) -> Result<Call<'_>> {
        self.worker.call(operation, self.handle)
    }

    /// The descriptor inside the kernel.
    pub fn kernel_fd(&self) -> i32 {
        self.fd
    }

    /// Read at the position; fewer bytes only at the end of the file, and where read(2)
    /// gives fewer.
    pub fn read(&self, to: &mut [u8]) -> Result<usize> {
        let Some((ahead, _)) = &self.ahead else {
            return self.read_with(special::READ, to, 0);
        };
        let mut ahead = lock(ahead);
        let given = ahead.give(to);
        let rest = &mut to[given..];
        if rest.is_empty() {
            return Ok(given);
        }
        if rest.len() >= SMALL {
            return match self.read_with(special::READ, rest, 0) {
                Ok(n) => Ok(given + n),
                Err(failure) if given > 0 && failure.errno != libc::EINTR => Ok(given),
                Err(failure) => Err(failure),
            };
        }
        if given > 0 {
            // As read(2) may; the next one asks again.
            return Ok(given);
        }
        ahead.fill(|room| self.read_with(special::READ, room, 0))?;
        Ok(ahead.give(rest))
    }

    /// Move the position; lseek(2).
    pub fn lseek(&self, offset: i64, whence: i32) -> Result<i64> {
        let mut ahead = self.ahead.as_ref().map(|(ahead, _)| lock(ahead));
        let left = ahead.as_ref().map_or(0, |ahead| ahead.left());
        let offset = match whence {
            libc::SEEK_CUR => offset.checked_sub(left as i64),
            _ => Some(offset),
        };
        let overflow = || Failure::of_errno(libc::EOVERFLOW, "seek");
        let mut call = self.call(special::LSEEK)?;
        offset.ok_or_else(overflow)?.put(&mut call.arguments())?;
        whence.put(&mut call.arguments())?;
        let at = call.wait()?.count(i64::MAX as usize)?;
        if let Some(ahead) = &mut ahead {
            ahead.skip();
        }
        Ok(at as i64)
    }

    /// Read at an offset.
    pub fn pread(&self, to: &mut [u8], offset: u64) -> Result<usize> {
        check_offset(offset, "read")?;
        let read = |to: &mut [u8], offset| self.read_with(special::PREAD, to, offset);
        match &self.ahead {
            Some((_, window)) if to.len() < SMALL => window.read(to, offset, read),
            _ => read(to, offset),
        }
    }

    fn read_with(&self, operation: u32, to: &mut [u8], offset: u64) -> Result<usize> {
        let mut done = 0;
        loop {
            let want = (to.len() - done).min(BULK);
            let piece = || -> Result<(usize, Answer)> {
                let mut call = self.call(operation)?;
                let mut arguments = call.arguments();
                arguments.int(want as u64)?;
                arguments.int(offset + done as u64)?;
                drop(arguments);
                let answer = call.wait()?;
                Ok((answer.count(want)?, answer))
            };
            let n = match piece() {
                Ok((n, answer)) => {
                    answer.data(0, &mut to[done..done + n])?;
                    n
                }
                // What was read is told first.
                Err(failure) if done > 0 && failure.errno != libc::EINTR => return Ok(done),
                Err(failure) => return Err(failure),
            };
            done += n;
            if n < want || done == to.len() {
                return Ok(done);
            }
        }
    }

    /// Write at the position, or at the end if it was opened so.
    pub fn write(&self, from: &[u8]) -> Result<usize> {
        self.write_with(special::WRITE, from, 0)
    }

    /// Write at an offset.
    pub fn pwrite(&self, from: &[u8], offset: u64) -> Result<usize> {
        check_offset(offset, "write")?;
        self.write_with(special::PWRITE, from, offset)
    }

    fn write_with(&self, operation: u32, from: &[u8], offset: u64) -> Result<usize> {
        let mut done = 0;
        loop {
            let piece = &from[done..][..(from.len() - done).min(BULK)];
            let write = || -> Result<usize> {
                let mut call = self.call(operation)?;
                let mut arguments = call.arguments();
                arguments.int(offset + done as u64)?;
                arguments.bytes(piece)?;
                drop(arguments);
                call.wait()?.count(piece.len())
            };
            let n = match write() {
                Ok(n) => n,
                Err(failure) if done > 0 && failure.errno != libc::EINTR => return Ok(done),
                Err(failure) => return Err(failure),
            };
            done += n;
            if n < piece.len() || done == from.len() {
                return Ok(done);
            }
        }
    }
}

/// As the kernel does, so that what the worker says was read or written adds up.
fn check_offset(offset: u64, action: &str) -> Result<()> {
    match i64::try_from(offset) {
        Ok(_) => Ok(()),
        Err(_) => Err(Failure::of_errno(libc::EINVAL, action)),
    }
}

impl Drop for File {
    fn drop(&mut self) {
        self.worker.end(self.handle);
    }
}

macro_rules! shown {
    ($($type:ident),*) => { $(
        impl std::fmt::Debug for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "{} of worker {}", stringify!($type), self.worker.pid())
            }
        }
    )* };
}

shown!(Image, Mount, File);
