//! Extended attributes: ACLs, capabilities and labels are among them.

use crate::errno::{Errno, Result};
use crate::{Fd, Linux, Sys, XattrOf};
use std::borrow::Cow;
use std::ffi::{CStr, CString};
use std::io::Write;

/// Largest value and largest list Linux allows, in bytes.
const MAX: usize = 64 * 1024;
/// Longest name, in bytes: XATTR_NAME_MAX.
const LONGEST: usize = 255;

/// A file's extended attributes, packed into one buffer:
/// name length (2 bytes, with NUL), value length (4), name, value; repeated.
#[derive(Default, Clone)]
pub struct Xattrs {
    /// All of them.
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

/// "/proc/self/fd/N", or with a name "/proc/self/fd/N/name": until Linux 6.13 the calls
/// about attributes take no directory.
pub fn with_proc_path<T>(
    fd: i32,
    name: Option<&CStr>,
    f: impl FnOnce(&CStr) -> Result<T>,
) -> Result<T> {
    let mut path = [0u8; 320];
    let mut rest = &mut path[..];
    let written = match name {
        None => write!(rest, "/proc/self/fd/{fd}\0"),
        Some(name) => write!(rest, "/proc/self/fd/{fd}/")
            .and_then(|()| rest.write_all(name.to_bytes_with_nul())),
    };
    match (written, CStr::from_bytes_until_nul(&path)) {
        (Ok(()), Ok(path)) => f(path),
        _ => Err(Errno(libc::ENAMETOOLONG)),
    }
}

/// A small buffer first, the largest when it is too small.
pub fn grow(mut get: impl FnMut(&mut [u8]) -> Result<usize>) -> Result<Vec<u8>> {
    let mut small = [0; 512];
    match get(&mut small) {
        Ok(n) => Ok(small[..n].to_vec()),
        Err(Errno(libc::ERANGE)) => {
            let mut large = vec![0; MAX];
            let n = get(&mut large)?;
            large.truncate(n);
            Ok(large)
        }
        Err(errno) => Err(errno),
    }
}

/// What is listed: names, each with a NUL. None where there are none at all.
fn list<L: Linux + ?Sized>(sys: Sys<L>, of: XattrOf) -> Result<Vec<u8>> {
    match grow(|to| sys.listxattr(of, to)) {
        // HFS Plus says the second.
        Err(Errno(libc::EOPNOTSUPP | libc::ENODATA)) => Ok(Vec::new()),
        listed => listed,
    }
}

/// The names in a list, as they are there; of two that are cut to the same both are
/// found by one.
fn listed(list: &[u8]) -> impl Iterator<Item = &CStr> {
    let mut before = None;
    let names = list.split_inclusive(|&b| b == 0);
    names
        .filter(move |name| before.replace(*name) != Some(name))
        .filter_map(|name| CStr::from_bytes_with_nul(name).ok())
        .filter(|name| !name.is_empty())
}

/// EIO if it has what is no name: then it is not known what else the file has.
fn check(list: &[u8]) -> Result<()> {
    let is_name = |name: &[u8]| name.ends_with(b"\0") && (2..=LONGEST + 1).contains(&name.len());
    match list.split_inclusive(|&b| b == 0).all(is_name) {
        true => Ok(()),
        false => Err(Errno(libc::EIO)),
    }
}

/// The names of all attributes; none where the file system has none. What is listed cut
/// is looked for, and told as it is if nothing is found.
pub fn names<L: Linux + ?Sized>(sys: Sys<L>, of: XattrOf) -> Result<Vec<CString>> {
    let is_there = |name: &CStr| sys.getxattr(of, name, &mut []).is_ok();
    let mut names = Vec::new();
    for name in listed(&list(sys, of)?) {
        let before = names.len();
        if is_cut(name) && !is_there(name) {
            names.extend(uncut(name).filter(|name| is_there(name)));
        }
        if names.len() == before {
            names.push(name.to_owned());
        }
    }
    Ok(names)
}

impl Xattrs {
    /// Reads the attributes of an open file.
    pub fn of(fd: &Fd) -> Result<Xattrs> {
        Self::collect(fd.sys(), XattrOf::Open(fd.raw()))
    }

    /// Reads the attributes of a file that cannot be opened, such as a symlink.
    pub fn of_entry(dir: &Fd, name: &CStr) -> Result<Xattrs> {
        with_proc_path(dir.raw(), Some(name), |path| {
            Self::collect(dir.sys(), XattrOf::Link(path))
        })
    }

    fn collect(sys: Sys, of: XattrOf) -> Result<Xattrs> {
        let list = list(sys, of)?;
        let mut result = Xattrs::default();
        if list.is_empty() {
            return Ok(result);
        }
        check(&list)?;
        let mut value = vec![0; 256];
        let mut add = |name: &CStr| {
            let n = match sys.getxattr(of, name, &mut value) {
                Err(Errno(libc::ERANGE)) => {
                    value.resize(MAX, 0);
                    sys.getxattr(of, name, &mut value)
                }
                other => other,
            };
            n.map(|n| result.push(name, &value[..n]))
        };
        for name in listed(&list) {
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

    /// Adds one, whose name is none longer than Linux allows.
    pub fn push(&mut self, name: &CStr, value: &[u8]) {
        let name = name.to_bytes_with_nul();
        self.packed
            .extend_from_slice(&(name.len() as u16).to_ne_bytes());
        self.packed
            .extend_from_slice(&(value.len() as u32).to_ne_bytes());
        self.packed.extend_from_slice(name);
        self.packed.extend_from_slice(value);
    }

    /// Names and values.
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
    /// It itself.
    Open(&'f Fd<'a>),
    /// In an open directory.
    Entry(&'f Fd<'a>, &'f CStr),
}

impl Target<'_, '_> {
    /// Gives an attribute a value.
    pub fn set(&self, name: &CStr, value: &[u8]) -> Result<()> {
        self.with(|sys, of| sys.setxattr(of, name, value, 0))
    }

    /// Removes an attribute.
    pub fn remove(&self, name: &CStr) -> Result<()> {
        self.with(|sys, of| sys.removexattr(of, name))
    }

    /// Reads a value: its length.
    pub fn get(&self, name: &CStr, to: &mut [u8]) -> Result<usize> {
        self.with(|sys, of| sys.getxattr(of, name, to))
    }

    /// The names as Linux lists them, each with a NUL.
    pub fn list(&self, to: &mut [u8]) -> Result<usize> {
        self.with(|sys, of| sys.listxattr(of, to))
    }

    fn with<T>(&self, f: impl FnOnce(Sys, XattrOf) -> Result<T>) -> Result<T> {
        match self {
            Target::Open(fd) => f(fd.sys(), XattrOf::Open(fd.raw())),
            Target::Entry(dir, name) => with_proc_path(dir.raw(), Some(name), |path| {
                f(dir.sys(), XattrOf::Link(path))
            }),
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
    fn what_is_no_name_makes_a_list_wrong() {
        let long = |len: usize| [&vec![b'x'; len][..], b"\0"].concat();
        for list in [&b""[..], b"user.a\0", b"user.a\0user.b\0", &long(255)] {
            assert_eq!(check(list), Ok(()), "{list:?}");
        }
        for list in [
            &b"\0"[..],
            b"user.a",
            b"user.a\0\0user.b\0",
            b"user.a\0user.b",
            &long(256),
            &long(65535),
        ] {
            assert_eq!(check(list), Err(Errno(libc::EIO)), "{list:?}");
        }
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
