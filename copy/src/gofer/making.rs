//! Files that the reader of a session fills by itself, at the end of its gofer: it has no
//! right to any name. One is made under a name of its own beside where it will be, handed
//! over open, and gets its name when it is complete; what has got none goes, however the
//! session ends.

use super::wire::{self, Malformed, Put, Take};
use super::{files, FromGofer, Terms};
use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::FromRawFd;
use tane_linux::{Errno, Fd, Host, Kind, Root, Sys};

static HOST: Host = Host;

/// Between a file's name and what tells those that are not complete from each other, as
/// `tane-make` has it.
const MARK: &str = ".tane-";
/// So many names are tried.
const MOST: u32 = 10_000;

/// What becomes of such a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Finish {
    /// It goes, if it was made; what was there stays.
    Dropped,
    /// It gets its name, which nothing has: else EEXIST, and it goes.
    New,
    /// It gets its name, whatever has it.
    Replaces,
}

/// One that is being filled.
pub(super) struct Made {
    dir: Fd<'static>,
    name: CString,
    /// What it is called meanwhile; None: it was there before.
    part: Option<CString>,
}

impl Drop for Made {
    fn drop(&mut self) {
        if let Some(part) = self.part.take() {
            let _ = self.dir.sys().unlink(&self.dir, &part, 0);
        }
    }
}

/// Answers a reader that wants one.
pub(super) fn make(socket: &File, message: &[u8], terms: &Terms) -> io::Result<Option<Made>> {
    let Terms::Session { mode } = terms else {
        return Err(Malformed.into());
    };
    let mut take = Take::new(message);
    let (path, is_new) = (take.string()?, take.flag()?);
    take.end()?;
    if !path.starts_with(b"/") {
        return Err(Malformed.into());
    }
    let found = || {
        let (dir, name) = Root::host(Sys(&HOST)).parent(path)?;
        match is_new {
            true => new(dir, name, *mode),
            false => there(dir, name),
        }
    };
    match found() {
        Ok((made, file)) => {
            hand(socket, file)?;
            Ok(Some(made))
        }
        Err(Errno(errno)) => {
            answer(socket, FromGofer::Made, errno)?;
            Ok(None)
        }
    }
}

/// Answers a reader that has done with it.
pub(super) fn finish(socket: &File, message: &[u8], made: Option<Made>) -> io::Result<()> {
    let mut take = Take::new(message);
    let how = match take.byte()? {
        0 => Finish::Dropped,
        1 => Finish::New,
        2 => Finish::Replaces,
        _ => return Err(Malformed.into()),
    };
    take.end()?;
    let mut made = made.ok_or(Malformed)?;
    let done = match how {
        Finish::Dropped => Ok(()),
        Finish::New => made.named(libc::RENAME_NOREPLACE),
        Finish::Replaces => made.named(0),
    };
    drop(made);
    let errno = done.map_or_else(|Errno(errno)| errno, |()| 0);
    answer(socket, FromGofer::Finished, errno)
}

impl Made {
    fn named(&mut self, flags: u32) -> Result<(), Errno> {
        // What was there has its name.
        let part = self.part.take().ok_or(Errno(libc::EINVAL))?;
        let (sys, dir, name) = (self.dir.sys(), &self.dir, &self.name);
        let done = match sys.rename(dir, &part, dir, name, flags) {
            // Not every file system knows that it is not to replace.
            Err(Errno(libc::EINVAL)) if flags != 0 => match sys.lstat(dir, name) {
                Ok(_) => Err(Errno(libc::EEXIST)),
                Err(_) => sys.rename(dir, &part, dir, name, 0),
            },
            done => done,
        };
        if done.is_err() {
            // It goes.
            self.part = Some(part);
        }
        done
    }
}

/// Empty, under a name that nothing had.
fn new(dir: Fd<'static>, name: CString, mode: u32) -> Result<(Made, Fd<'static>), Errno> {
    let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW;
    let mut number = 0;
    loop {
        let part = part_of(&name, number)?;
        match dir.sys().openat(&dir, &part, flags, mode & 0o666) {
            Ok(file) => {
                let part = Some(part);
                return Ok((Made { dir, name, part }, file));
            }
            Err(Errno(libc::EEXIST)) if number < MOST => number += 1,
            Err(e) => return Err(e),
        }
    }
}

fn part_of(name: &CStr, number: u32) -> Result<CString, Errno> {
    let end = format!("{MARK}{}-{number}.part", std::process::id());
    let whole = [name.to_bytes(), end.as_bytes()].concat();
    CString::new(whole).map_err(|_| Errno(libc::EINVAL))
}

/// As it is: nothing whose opening does something.
fn there(dir: Fd<'static>, name: CString) -> Result<(Made, Fd<'static>), Errno> {
    let flags = libc::O_WRONLY | libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
    let sys = dir.sys();
    if sys.lstat(&dir, &name)?.kind() != Kind::File {
        return Err(Errno(libc::EACCES));
    }
    let file = sys.openat(&dir, &name, flags, 0)?;
    // It may be another one by now.
    if sys.fstat(&file)?.kind() != Kind::File {
        return Err(Errno(libc::EACCES));
    }
    let part = None;
    Ok((Made { dir, name, part }, file))
}

fn answer(socket: &File, kind: FromGofer, errno: i32) -> io::Result<()> {
    wire::send(socket, kind as u32, |m| m.number(errno as u32))
}

/// No error, and the file.
fn hand(mut socket: &File, file: Fd) -> io::Result<()> {
    let mut message = Vec::new();
    wire::begin(&mut message, FromGofer::Made as u32);
    message.number(0);
    wire::seal(&mut message);
    // SAFETY: the host's, and nobody else's.
    let file = unsafe { File::from_raw_fd(file.into_raw()) };
    let sent = files::send(socket, &message, &file)?;
    socket.write_all(&message[sent..])
}
