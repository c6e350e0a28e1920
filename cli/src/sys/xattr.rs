//! Extended attributes: ACLs, capabilities and labels are among them.

use super::errno::{Errno, Result};
use super::Fd;
use std::borrow::Cow;
use std::ffi::{CStr, CString};

/// A file's extended attributes, packed into one buffer:
/// name length (2 bytes, with NUL), value length (4), name, value; repeated.
#[derive(Default, Clone)]
pub struct Xattrs {
    pub packed: Vec<u8>,
}

/// What `skip` is said of in /etc/xattr.conf of libattr 2.5, which is what `cp -a` goes
/// by. XFS has ACLs so inside, and shows them as `system.posix_acl_*` too.
const SKIPPED: [&str; 9] = [
    "trusted.SGI_ACL_DEFAULT",
    "trusted.SGI_ACL_FILE",
    "trusted.SGI_CAP_FILE",
    "trusted.SGI_MAC_FILE",
    "trusted.SGI_DMI_*",
    "xfsroot.*",
    "user.Beagle.*",
    "security.evm", // which only a kernel can write
    "afs.*",
];

/// Whether an attribute belongs to its file system and not to the file.
fn is_internal(name: &CStr) -> bool {
    let matches = |pattern: &str| match pattern.strip_suffix('*') {
        Some(start) => name.to_bytes().starts_with(start.as_bytes()),
        None => name.to_bytes() == pattern.as_bytes(),
    };
    SKIPPED.iter().any(|pattern| matches(pattern))
}

/// Attributes of HFS Plus that are none of Linux's. Linux 6.12 lists them without the
/// last character of their names.
fn is_cut(name: &CStr) -> bool {
    name.to_bytes().starts_with(b"osx.")
}

/// What such a name may have been.
fn uncut(name: &CStr) -> impl Iterator<Item = CString> + '_ {
    let whole = |last: u8| CString::new([name.to_bytes(), &[last]].concat()).ok();
    (b' '..=b'~').filter_map(whole)
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
            // HFS Plus says the second.
            Err(Errno(libc::EOPNOTSUPP | libc::ENODATA)) => return Ok(Xattrs::default()),
            Err(e) => return Err(e),
        };
        let mut result = Xattrs::default();
        let mut value = vec![0; 256];
        let mut add = |name: &CStr| {
            let n = match get(name, &mut value) {
                Err(Errno(libc::ERANGE)) => {
                    value.resize(65536, 0);
                    get(name, &mut value)
                }
                other => other,
            };
            n.map(|n| result.push(name, &value[..n]))
        };
        let mut before = None;
        for name in names.split_inclusive(|&b| b == 0) {
            // Of two that are cut to the same both were found.
            if before.replace(name) == Some(name) {
                continue;
            }
            let Ok(name) = CStr::from_bytes_with_nul(name) else {
                continue;
            };
            match add(name) {
                Ok(()) => {}
                Err(Errno(libc::ENODATA | libc::EOPNOTSUPP)) if is_cut(name) => {
                    let found = uncut(name).filter(|name| add(name).is_ok()).count();
                    if found == 0 {
                        return Err(Errno(libc::EOPNOTSUPP));
                    }
                }
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

    /// Those that a copy gets, packed.
    pub fn portable(&self) -> Cow<'_, [u8]> {
        if !self.iter().any(|(name, _)| is_internal(name)) {
            return Cow::Borrowed(&self.packed);
        }
        let mut kept = Xattrs::default();
        let portable = self.iter().filter(|(name, _)| !is_internal(name));
        portable.for_each(|(name, value)| kept.push(name, value));
        Cow::Owned(kept.packed)
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
    fn what_belongs_to_a_file_system_is_not_copied() {
        let mut x = Xattrs::default();
        let names = [
            c"user.a",
            c"trusted.SGI_ACL_FILE",
            c"trusted.SGI_DMI_X",
            c"trusted.SGI_ACL_FILES",
            c"security.evm",
            c"security.selinux",
        ];
        names.iter().for_each(|name| x.push(name, b"1"));
        let kept = x.portable();
        let kept: Vec<_> = Packed(&kept).map(|(name, _)| name).collect();
        assert_eq!(kept, [names[0], names[3], names[5]]);
    }

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
