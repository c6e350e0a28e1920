//! QEMU's locks: what a program does with a file, and what it wants nobody else to do.
//!
//! Each kind of access has a bit. A program that has a file open holds a shared lock on
//! byte 100 + N for the access N that it has, and on byte 200 + N for the access N that
//! others may not have. It is in somebody's way if an exclusive lock could not be had on
//! the opposite byte. The locks are those of open files (fcntl(2), F_OFD_SETLK), and no
//! other kind: who closes some other descriptor of the file does not lose them.
//!
//! A reader here denies others to write, as QEMU does for formats with metadata; a writer
//! denies them everything, so that nobody reads what is half written.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

const HAS: i64 = 100;
const DENIES: i64 = 200;

const READ: u8 = 1;
const WRITE: u8 = 2;
/// To write what is there already.
const WRITE_UNCHANGED: u8 = 4;
const RESIZE: u8 = 8;
const KINDS: i64 = 4;

/// What is done, and denied to others.
fn claim(exclusive: bool) -> (u8, u8) {
    let change = WRITE | RESIZE;
    match exclusive {
        true => (READ | change, READ | WRITE_UNCHANGED | change),
        false => (READ, change),
    }
}

fn kinds(set: u8) -> impl Iterator<Item = i64> {
    (0..KINDS).filter(move |kind| set & 1 << kind != 0)
}

/// Take them; false: somebody has the file for something that does not go with this.
pub fn take(file: &File, exclusive: bool) -> io::Result<bool> {
    match try_take(file, exclusive) {
        Ok(true) => Ok(true),
        // Kernels before 3.15 have none, nor have some file systems.
        Err(e) if is_unsupported(&e) => Ok(true),
        other => {
            give_back(file);
            other
        }
    }
}

fn is_unsupported(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EINVAL | libc::ENOLCK | libc::EOPNOTSUPP | libc::ENOSYS)
    )
}

fn try_take(file: &File, exclusive: bool) -> io::Result<bool> {
    let (has, denies) = claim(exclusive);
    let own = kinds(has).map(|kind| HAS + kind);
    for at in own.chain(kinds(denies).map(|kind| DENIES + kind)) {
        match control(file, libc::F_OFD_SETLK, libc::F_RDLCK, at, 1) {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            other => other?,
        };
    }
    // Only now: of two that come at once at least one sees the other.
    let theirs = kinds(has).map(|kind| DENIES + kind);
    for at in theirs.chain(kinds(denies).map(|kind| HAS + kind)) {
        let found = control(file, libc::F_OFD_GETLK, libc::F_WRLCK, at, 1)?;
        if found != libc::F_UNLCK {
            return Ok(false);
        }
    }
    Ok(true)
}

/// For all that have the open file.
pub fn give_back(file: &File) {
    let len = DENIES - HAS + KINDS;
    let _ = control(file, libc::F_OFD_SETLK, libc::F_UNLCK, HAS, len);
}

/// The kind of lock that the host answers.
fn control(file: &File, command: i32, kind: i32, at: i64, len: i64) -> io::Result<i32> {
    // SAFETY: flock is plain data.
    let mut lock = unsafe { std::mem::zeroed::<libc::flock>() };
    lock.l_type = kind as i16;
    lock.l_whence = libc::SEEK_SET as i16;
    lock.l_start = at;
    lock.l_len = len;
    // SAFETY: the pointer is to a structure of ours.
    match unsafe { libc::fcntl(file.as_raw_fd(), command, &raw mut lock) } {
        0 => Ok(i32::from(lock.l_type)),
        _ => Err(io::Error::last_os_error()),
    }
}
