//! What `tane edit` does inside the image: reads a file, and replaces it as a whole.

use crate::failure::{Failure, Result, SOME_FAILED};
use crate::names::plain;
use crate::session::Global;
use crate::session::{Access, Session};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use tane::ImagePath;
use tane_linux::{Errno, Fd, Flags, Kind, Packed, Root, Target, Xattrs};

type Done<T> = std::result::Result<T, Errno>;

const PIECE: usize = 1 << 20;
const ACL: &CStr = c"system.posix_acl_access";

/// What a file was when it was read. Inode numbers are left out: not every file system
/// keeps them from mount to mount.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Original(Option<Known>);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Known {
    digest: [u8; 32],
    mode: u32,
    owner: (u32, u32),
    modified: (i64, u32),
}

impl Original {
    /// Whether a file of this digest is another one than it was; of one that was not
    /// there the copy was empty.
    pub fn is_changed(&self, digest: &[u8; 32]) -> bool {
        match &self.0 {
            Some(known) => known.digest != *digest,
            None => *digest != <[u8; 32]>::from(Sha256::digest(b"")),
        }
    }
}

pub fn digest_of_host(file: &File) -> io::Result<[u8; 32]> {
    let mut digest = Sha256::new();
    let mut buffer = vec![0; PIECE];
    let mut at = 0;
    loop {
        match file.read_at(&mut buffer, at)? {
            0 => return Ok(digest.finalize().into()),
            n => {
                digest.update(&buffer[..n]);
                at += n as u64;
            }
        }
    }
}

/// Reads the file, if it is there, into a file of the host.
pub fn fetch(at: &ImagePath, to: &File, name: &[u8], global: &Global) -> Result<Original> {
    let session = Session::open(at, Access::Read, global)?;
    let found = session.root().and_then(|root| {
        let put = |bytes: &[u8], at| {
            let put = to.write_all_at(bytes, at);
            put.map_err(|e| Errno(e.raw_os_error().unwrap_or(libc::EIO)))
        };
        let found = look(&root, &at.path, put).map_err(|e| Failure::file(name, e))?;
        Ok(found.map(|(known, _)| known))
    });
    session.close()?;
    found.map(Original)
}

/// The file that a path means, as it is now, and its content piece by piece. None if its
/// directory has no such file.
fn look<'a>(
    root: &Root<'a>,
    path: &[u8],
    mut put: impl FnMut(&[u8], u64) -> Done<()>,
) -> Done<Option<(Known, Fd<'a>)>> {
    let fd = match root.open(path, libc::O_RDONLY | libc::O_NONBLOCK) {
        Ok(fd) => fd,
        Err(Errno(libc::ENOENT)) => {
            // A symlink to nowhere is there.
            return match root.stat(path, false) {
                Ok(_) => Err(Errno(libc::ENOENT)),
                Err(_) => root.parent(path).map(|_| None),
            };
        }
        Err(e) => return Err(e),
    };
    let sys = root.sys();
    let stat = sys.fstat(&fd)?;
    match stat.kind() {
        Kind::File => {}
        Kind::Directory => return Err(Errno(libc::EISDIR)),
        _ => return Err(Errno(libc::ENXIO)),
    }
    let mut digest = Sha256::new();
    let mut buffer = vec![0; PIECE];
    let mut at = 0;
    loop {
        match sys.pread(&fd, &mut buffer, at)? {
            0 => break,
            n => {
                digest.update(&buffer[..n]);
                put(&buffer[..n], at)?;
                at += n as u64;
            }
        }
    }
    let known = Known {
        digest: digest.finalize().into(),
        mode: stat.mode,
        owner: (stat.uid, stat.gid),
        modified: (stat.mtime.sec, stat.mtime.nsec),
    };
    Ok(Some((known, fd)))
}

/// Puts a file of the host in its place.
pub fn store(
    at: &ImagePath,
    from: &File,
    original: &Original,
    name: &[u8],
    global: &Global,
) -> Result<()> {
    let session = Session::open(at, Access::Write, global)?;
    let done = session
        .root()
        .and_then(|root| replace(&root, &at.path, from, original, name));
    let closed = session.close();
    done.and(closed)
}

fn replace(root: &Root, path: &[u8], from: &File, original: &Original, name: &[u8]) -> Result<()> {
    let refuse = |text: &str| {
        let text = format!("{}: nothing was written: {text}", plain(name));
        Failure::new(SOME_FAILED, text).about(name)
    };
    let fail = |e: Errno| refuse(&e.to_string()).errno(Some(e));
    let found = look(root, path, |_, _| Ok(())).map_err(fail)?;
    if found.as_ref().map(|(known, _)| known) != original.0.as_ref() {
        return Err(refuse("it was changed in the image meanwhile"));
    }
    let old = found.map(|(_, fd)| fd);
    let place = match &old {
        Some(fd) => real_path(root, fd).map_err(fail)?,
        None => path.to_vec(),
    };
    let sys = root.sys();
    let stat = old.as_ref().map(|fd| sys.fstat(fd)).transpose();
    let names = stat.map_err(fail)?.map_or(1, |stat| stat.nlink);
    if names > 1 {
        return Err(refuse(&format!(
            "it has {names} names (hard links), and would be replaced under one of them"
        )));
    }
    let (dir, base) = root.parent(&place).map_err(fail)?;
    let temporary = format!(".tane-{}-1.part", std::process::id());
    let temporary = CString::new(temporary).map_err(|_| fail(Errno(libc::EINVAL)))?;
    let made = make(&dir, &temporary, from, old.as_ref());
    let moved = made.and_then(|()| sys.rename(&dir, &temporary, &dir, &base, 0));
    moved.map_err(|e| {
        let _ = sys.unlink(&dir, &temporary, 0);
        fail(e)
    })
}

/// A new file with the content of one of the host's and all that `like` has beside it.
fn make(dir: &Fd, name: &CStr, from: &File, like: Option<&Fd>) -> Done<()> {
    let sys = dir.sys();
    let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW;
    let mode = if like.is_some() { 0o600 } else { 0o644 };
    let new = sys.openat(dir, name, flags, mode)?;
    let kept = like.map_or(Flags::default(), Flags::of);
    kept.early().add_bits(&new).map_err(|(_, e)| e)?;
    let mut buffer = vec![0; PIECE];
    let mut at = 0;
    loop {
        let read = from.read_at(&mut buffer, at);
        match read.map_err(|e| Errno(e.raw_os_error().unwrap_or(libc::EIO)))? {
            0 => break,
            n => {
                sys.pwrite_all(&new, &buffer[..n], at)?;
                at += n as u64;
            }
        }
    }
    if let Some(old) = like {
        dress(&new, old)?;
        if kept.project != 0 {
            kept.set_project(&new)?;
        }
        kept.without(kept.early())
            .add_bits(&new)
            .map_err(|(_, e)| e)?;
    }
    // The name comes when the content is there.
    sys.syncfs(&new)
}

/// Owner, mode and attributes; the owner first, who takes some of the others away.
fn dress(new: &Fd, old: &Fd) -> Done<()> {
    let sys = new.sys();
    let (wanted, now) = (sys.fstat(old)?, sys.fstat(new)?);
    if (wanted.uid, wanted.gid) != (now.uid, now.gid) {
        sys.fchown(new, wanted.uid, wanted.gid)?;
    }
    let attributes = Xattrs::of(old)?;
    let attributes = attributes.portable();
    // One that the directory has for new files.
    let has_acl = |list: &[u8]| Packed(list).any(|(name, _)| name == ACL);
    if has_acl(&Xattrs::of(new)?.portable()) && !has_acl(&attributes) {
        Target::Open(new).remove(ACL)?;
    }
    for (name, value) in Packed(&attributes) {
        Target::Open(new).set(name, value)?;
    }
    if sys.fstat(new)?.permissions() != wanted.permissions() {
        sys.fchmod(new, wanted.permissions())?;
    }
    Ok(())
}

/// Where an open file is, from the root, through no symlink.
fn real_path(root: &Root, fd: &Fd) -> Done<Vec<u8>> {
    let sys = root.sys();
    let name = |fd: &Fd| {
        let link = CString::new(format!("/proc/self/fd/{}", fd.raw()));
        sys.readlink(fd, &link.map_err(|_| Errno(libc::EINVAL))?)
    };
    let (top, place) = (name(&root.open_dir(b"/")?)?, name(fd)?);
    let below = place.strip_prefix(&top[..]).filter(|_| top != b"/");
    Ok(below.unwrap_or(&place).to_vec())
}
