//! Extended attributes: ACLs, capabilities and labels are among them.

use super::errno::{Errno, Result};
use super::Fd;
use std::ffi::{CStr, CString};

/// A file's extended attributes, packed into one buffer:
/// name length (2 bytes, with NUL), value length (4), name, value; repeated.
#[derive(Default, Clone)]
pub struct Xattrs {
    pub packed: Vec<u8>,
}

impl Xattrs {
    /// Reads the attributes of an open file.
    pub fn of(fd: &Fd) -> Result<Xattrs> {
        let sys = fd.sys();
        let list = |buffer: &mut [u8]| sys.flistxattr(fd, buffer);
        let get = |name: &CStr, buffer: &mut [u8]| sys.fgetxattr(fd, name, buffer);
        Self::collect(list, get)
    }

    /// Reads the attributes of a file that cannot be opened, such as a symlink.
    pub fn of_entry(dir: &Fd, name: &CStr) -> Result<Xattrs> {
        let sys = dir.sys();
        let path = sys.path_of_entry(dir, name);
        let list = |buffer: &mut [u8]| sys.llistxattr(&path, buffer);
        let get = |name: &CStr, buffer: &mut [u8]| sys.lgetxattr(&path, name, buffer);
        Self::collect(list, get)
    }

    fn collect(
        list: impl Fn(&mut [u8]) -> Result<usize>,
        get: impl Fn(&CStr, &mut [u8]) -> Result<usize>,
    ) -> Result<Xattrs> {
        let mut stack = [0u8; 512];
        let mut heap = Vec::new();
        let names = match list(&mut stack) {
            Ok(0) => return Ok(Xattrs::default()),
            Ok(n) => &stack[..n],
            Err(Errno(libc::ERANGE)) => {
                heap.resize(65536, 0);
                let n = list(&mut heap)?;
                &heap[..n]
            }
            Err(Errno(libc::EOPNOTSUPP)) => return Ok(Xattrs::default()),
            Err(e) => return Err(e),
        };
        let mut result = Xattrs::default();
        let mut value = vec![0; 256];
        for name in names.split_inclusive(|&b| b == 0) {
            let Ok(name) = CStr::from_bytes_with_nul(name) else {
                continue;
            };
            let n = match get(name, &mut value) {
                Err(Errno(libc::ERANGE)) => {
                    value.resize(65536, 0);
                    get(name, &mut value)
                }
                other => other,
            };
            match n {
                Ok(n) => result.push(name, &value[..n]),
                Err(Errno(libc::ENODATA)) => {} // removed meanwhile
                Err(e) => return Err(e),
            }
        }
        Ok(result)
    }

    pub fn push(&mut self, name: &CStr, value: &[u8]) {
        let name = name.to_bytes_with_nul();
        self.packed
            .extend_from_slice(&(name.len() as u16).to_ne_bytes());
        self.packed
            .extend_from_slice(&(value.len() as u32).to_ne_bytes());
        self.packed.extend_from_slice(name);
        self.packed.extend_from_slice(value);
    }

    pub fn iter(&self) -> Packed<'_> {
        Packed(&self.packed)
    }
}

/// Walks over packed attributes.
pub struct Packed<'a>(pub &'a [u8]);

impl<'a> Iterator for Packed<'a> {
    type Item = (&'a CStr, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (head, rest) = self.0.split_at_checked(6)?;
        let name = usize::from(u16::from_ne_bytes([head[0], head[1]]));
        let value = u32::from_ne_bytes([head[2], head[3], head[4], head[5]]) as usize;
        let (name, rest) = rest.split_at_checked(name)?;
        let (value, rest) = rest.split_at_checked(value)?;
        self.0 = rest;
        Some((CStr::from_bytes_with_nul(name).ok()?, value))
    }
}

/// Where to set attributes: an open file, or an entry that is not opened.
pub enum Target<'f, 'a> {
    Open(&'f Fd<'a>),
    Entry(&'f Fd<'a>, CString),
}

impl Target<'_, '_> {
    pub fn set(&self, name: &CStr, value: &[u8]) -> Result<()> {
        match self {
            Target::Open(fd) => fd.sys().fsetxattr(fd, name, value),
            Target::Entry(dir, path) => dir.sys().lsetxattr(path, name, value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packing_keeps_names_and_values() {
        let mut x = Xattrs::default();
        x.push(c"user.a", b"");
        x.push(c"security.capability", b"\0\x01\xff");
        let all: Vec<_> = x.iter().collect();
        assert_eq!(
            all,
            [
                (c"user.a", &b""[..]),
                (c"security.capability", &b"\0\x01\xff"[..])
            ]
        );
    }
}
