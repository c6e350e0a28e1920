//! Who opens files for another process: one without Linux, with the rights that the other
//! was given when it began. That one names a file, and gets a descriptor. It is started for
//! sessions, whose images it opens, and for who takes container images apart.

use super::child::{self, keep_only, End};
use super::jail;
use crate::failure::{Failure, Result};
use crate::passing;
use crate::session::Global;
use std::ffi::{CStr, CString, OsStr};
use std::fs::{File, Metadata};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use tane::jail::Jail;

#[cfg(test)]
mod tests;

/// Longest request: flags of open(2) in four bytes, and a path (PATH_MAX, with its NUL).
const LONGEST: usize = 4 + 4095;
/// What may be asked for beside reading, or reading and writing. Nothing makes files.
const FLAGS: i32 =
    libc::O_RDWR | libc::O_DIRECT | libc::O_EXCL | libc::O_NOFOLLOW | libc::O_NOATIME;
/// Never waited for, whether somebody asks for that or not: a fifo, a lease.
const ALWAYS: i32 = libc::O_NONBLOCK | libc::O_CLOEXEC | libc::O_NOCTTY;

/// A line to it. One request at a time, each with its answer.
pub struct Opener(Mutex<File>);

/// Start it, with what this jail lets it open, files beneath `written`, which it may write to,
/// and `read`. Before the session's own is entered.
pub fn start(
    mut own: Jail,
    written: &[PathBuf],
    read: &[PathBuf],
    global: &Global,
) -> Result<Opener> {
    let fail = |e: io::Error| Failure::image(format!("the process that opens files: {e}"));
    let (near, far) = pair().map_err(fail)?;
    for path in written.iter().filter(|path| path.exists()) {
        own.write(path);
    }
    for path in read.iter().filter(|path| path.exists()) {
        own.read(path);
    }
    own.hands(true);
    jail::limit_memory(&mut own, global);
    let work = || confine(&far, &own).and_then(|()| serve(&far, &own));
    child::start(End::Killed, work).map_err(fail)?;
    Ok(Opener(Mutex::new(near)))
}

impl Opener {
    /// What it opens; flags as open(2) has them.
    pub fn open(&self, path: &Path, write: bool, flags: i32) -> io::Result<File> {
        let line = self.0.lock().unwrap_or_else(|e| e.into_inner());
        ask(&line, path, write, flags)
    }
}

/// Two ends of a line of messages.
fn pair() -> io::Result<(File, File)> {
    let mut ends = [-1; 2];
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    // SAFETY: room for two descriptors, which are ours.
    unsafe {
        match libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) {
            0 => Ok(ends.map(|fd| File::from_raw_fd(fd)).into()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

fn confine(line: &File, own: &Jail) -> io::Result<()> {
    // SAFETY: no memory involved. It has no terminal.
    unsafe { libc::setsid() };
    keep_only(vec![line.as_raw_fd()])?;
    own.enter().map(drop).map_err(io::Error::other)
}

/// In the child, until nobody asks any more, or somebody asks for what no session does.
fn serve(mut line: &File, own: &Jail) -> io::Result<()> {
    let mut request = [0; LONGEST + 1];
    loop {
        let got = line.read(&mut request)?;
        let Some((flags, path)) = understood(&request[..got]) else {
            return Ok(());
        };
        match open(&path, flags, own) {
            Ok(file) => hand(line, &file)?,
            Err(e) => {
                let errno = e.raw_os_error().unwrap_or(libc::EIO);
                line.write_all(&errno.to_le_bytes())?;
            }
        }
    }
}

/// None: no request that makes sense.
fn understood(request: &[u8]) -> Option<(i32, CString)> {
    let (flags, path) = request.split_first_chunk()?;
    let flags = i32::from_le_bytes(*flags);
    let makes_sense = flags & !FLAGS == 0 && path.first() == Some(&b'/') && path.len() < 4096;
    let path = CString::new(path).ok()?;
    makes_sense.then_some((flags, path))
}

/// An image's file: nothing whose opening does something, and no directory.
fn open(path: &CStr, flags: i32, own: &Jail) -> io::Result<File> {
    // Where there is no Landlock, this alone says no.
    let named = Path::new(OsStr::from_bytes(path.to_bytes())).canonicalize()?;
    if !own.names(&named, flags & libc::O_ACCMODE != libc::O_RDONLY) {
        return Err(io::Error::from_raw_os_error(libc::EACCES));
    }
    // Before, as opening may do something, and after, as it may be another one by then.
    check(&named.metadata()?)?;
    // SAFETY: a string that lives; the descriptor is nobody's yet.
    let file = unsafe {
        match libc::open(path.as_ptr(), flags | ALWAYS) {
            -1 => return Err(io::Error::last_os_error()),
            fd => File::from_raw_fd(fd),
        }
    };
    check(&file.metadata()?)?;
    // SAFETY: no memory involved. Whoever has it waits for its data.
    unsafe {
        let now = libc::fcntl(file.as_raw_fd(), libc::F_GETFL);
        libc::fcntl(file.as_raw_fd(), libc::F_SETFL, now & !libc::O_NONBLOCK);
    }
    Ok(file)
}

fn check(found: &Metadata) -> io::Result<()> {
    let kind = found.file_type();
    match kind.is_file() || kind.is_block_device() {
        true => Ok(()),
        false => Err(io::Error::from_raw_os_error(libc::EACCES)),
    }
}

/// The answer to one of its requests.
fn ask(mut line: &File, path: &Path, write: bool, flags: i32) -> io::Result<File> {
    let access = if write { libc::O_RDWR } else { libc::O_RDONLY };
    // Where this process is (lcd), the other one does not know.
    let path = std::path::absolute(path)?;
    let path = path.as_os_str().as_bytes();
    if path.len() > LONGEST - 4 {
        return Err(io::Error::from_raw_os_error(libc::ENAMETOOLONG));
    }
    let flags = (flags | access) & FLAGS;
    let request = [&flags.to_le_bytes()[..], path].concat();
    line.write_all(&request)?;
    receive(line)
}

/// No error, and the file.
fn hand(line: &File, file: &File) -> io::Result<()> {
    passing::send(line, &[0; 4], &[file.as_raw_fd()]).map(drop)
}

/// The file, or why there is none.
fn receive(line: &File) -> io::Result<File> {
    let mut errno = [0; 4];
    let (got, mut files) = passing::receive(line, &mut errno)?;
    match (got, i32::from_le_bytes(errno), files.pop()) {
        (4, 0, Some(file)) => Ok(file.into()),
        (4, errno @ 1..=4095, None) => Err(io::Error::from_raw_os_error(errno)),
        _ => Err(io::Error::other("the process that opens files has died")),
    }
}
