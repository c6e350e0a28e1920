//! What is at a destination.

use std::ffi::CString;
use tane_linux::{split, Errno, Kind, Root};

/// A destination that was looked at.
pub struct Site {
    /// The path without symlinks at its end.
    pub target: Vec<u8>,
    /// None: nothing is there.
    pub there: Option<Kind>,
}

impl Site {
    /// What is at this path.
    pub fn of(root: &Root, path: &[u8]) -> std::result::Result<Site, Errno> {
        let target = resolve(root, path)?;
        let there = match root.stat(&target, true) {
            Ok(stat) => Some(stat.kind()),
            Err(Errno(libc::ENOENT)) => None,
            Err(e) => return Err(e),
        };
        Ok(Site { target, there })
    }

    /// The directory that copies go into, and the name there of the only one if they do
    /// not go into the destination itself.
    pub fn aim(&self) -> std::result::Result<(&[u8], Option<CString>), Errno> {
        match self.there {
            Some(Kind::Directory) => return Ok((&self.target, None)),
            Some(Kind::File | Kind::Symlink) | None => {}
            Some(_) => return Err(Errno(libc::EINVAL)),
        }
        let (parent, name) = split(&self.target).ok_or(Errno(libc::EINVAL))?;
        let name = CString::new(name).map_err(|_| Errno(libc::EINVAL))?;
        Ok((parent, Some(name)))
    }
}

/// Follows the symlinks a path ends in; the rest is the kernel's business.
pub fn resolve(root: &Root, path: &[u8]) -> std::result::Result<Vec<u8>, Errno> {
    let mut path = path.to_vec();
    for _ in 0..40 {
        let Some((parent, name)) = split(&path) else {
            return Ok(path);
        };
        let target = match root.stat(&join(parent, name), false) {
            Ok(stat) if stat.kind() == Kind::Symlink => {
                let (dir, name) = root.parent(&path)?;
                root.sys().readlink(&dir, &name)?
            }
            _ => return Ok(path),
        };
        path = if target.starts_with(b"/") {
            target
        } else {
            join(parent, &target)
        };
    }
    Err(Errno(libc::ELOOP))
}

fn join(parent: &[u8], name: &[u8]) -> Vec<u8> {
    [parent, b"/", name].concat()
}
