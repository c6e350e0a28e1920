//! A stream as the source of a copy: standard input, or another descriptor that the
//! command has. It has bytes and nothing else.

use super::batch::{Op, Sender, DATA};
use super::observer::Observer;
use super::{receive, Destination, Settings};
use std::ffi::{CStr, OsStr};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use tane_linux::{Errno, Fd, Flags, Kind, Packed, Stat, Time, Xattrs};

const CAPABILITY: &[u8] = b"security.capability";

/// The descriptor that an argument names: `-` is the one that is given.
pub fn descriptor(argument: &OsStr, dash: i32) -> Option<i32> {
    let number = |text: &[u8]| std::str::from_utf8(text).ok()?.parse().ok();
    match argument.as_bytes() {
        b"-" => Some(dash),
        b"/dev/stdin" => Some(0),
        b"/dev/stdout" => Some(1),
        bytes => {
            let below = ["/dev/fd/", "/proc/self/fd/"];
            let mut found = below.iter().map(|dir| bytes.strip_prefix(dir.as_bytes()));
            found.find_map(|name| name.and_then(number))
        }
    }
}

/// A descriptor, to be read. It has to be there before an image is opened: no other
/// gets its number then.
pub fn open(number: i32) -> io::Result<File> {
    let fd = match number {
        // SAFETY: what is no descriptor is an error; it is borrowed for this call.
        0.. => unsafe { BorrowedFd::borrow_raw(number) },
        _ => return Err(io::Error::from_raw_os_error(libc::EBADF)),
    };
    fd.try_clone_to_owned().map(File::from)
}

/// Writes what comes into a file. One that is there before keeps its mode, owner and
/// attributes, but for what lends rights; a new one is root's, as by `tane touch`.
pub fn copy(input: File, to: Destination, name: &CStr, settings: Settings, report: &dyn Observer) {
    let (stat, xattrs) = attributes(&to.dir, name);
    let read = |sender: Sender| send(sender, input, name, stat, &xattrs, report);
    receive(read, to, settings, report);
}

fn attributes(dir: &Fd, name: &CStr) -> (Stat, Xattrs) {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now = now.map_or(Time::default(), |now| Time {
        sec: now.as_secs() as i64,
        nsec: now.subsec_nanos(),
    });
    let new = Stat {
        dev: 0,
        ino: 0,
        mode: libc::S_IFREG | 0o644,
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        size: 0,
        block_size: 4096,
        blocks: 0,
        atime: now,
        mtime: now,
        ctime: now,
        flags: Flags::default(),
    };
    let before = dir.sys().lstat(dir, name).ok();
    let Some(before) = before.filter(|stat| stat.kind() == Kind::File) else {
        return (new, Xattrs::default());
    };
    let mut kept = Xattrs::default();
    let found = Xattrs::of_entry(dir, name).unwrap_or_default();
    for (name, value) in Packed(&found.packed) {
        if name.to_bytes() != CAPABILITY {
            kept.push(name, value);
        }
    }
    let stat = Stat {
        mode: before.mode & !0o6000,
        uid: before.uid,
        gid: before.gid,
        ..new
    };
    (stat, kept)
}

fn send(
    mut out: Sender,
    mut input: File,
    name: &CStr,
    stat: Stat,
    xattrs: &Xattrs,
    report: &dyn Observer,
) {
    let _ = (|| {
        out.reserve(Sender::head_size(name, xattrs))?;
        let head = out.head(name, stat, xattrs, None);
        out.push(Op::Begin(head));
        let mut at = 0;
        let end = loop {
            if report.interrupted() {
                break Op::Abort;
            }
            out.reserve(DATA)?;
            match input.read(out.space(DATA)) {
                // Whoever wrote it may have been interrupted with us.
                Ok(0) if report.interrupted() => break Op::Abort,
                Ok(0) => break Op::End,
                Ok(n) => {
                    let data = out.take(n);
                    out.push(Op::Piece(at, data));
                    at += n as u64;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => {
                    let errno = Errno(e.raw_os_error().unwrap_or(libc::EIO));
                    report.error(b"standard input", errno);
                    break Op::Abort;
                }
            }
            if out.is_given_up(report) {
                break Op::Abort;
            }
        };
        out.reserve(0)?;
        out.push(Op::Length(at));
        out.push(end);
        out.flush()
    })();
}
