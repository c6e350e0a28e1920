//! What a source is, by the rules of `docker cp`: `SRC/.` and roots mean what is in them.

use super::site::resolve;
use super::Source;
use std::ffi::{CStr, CString};
use tane_linux::{base_name, Errno, Kind, Root};

type Result<T> = std::result::Result<T, Errno>;

/// `SRC/.`, `SRC/` and, with `follow`, SRC mean what a symlink points to.
fn real_path(root: &Root, path: &[u8], follow: bool) -> Result<Vec<u8>> {
    match follow || path.ends_with(b"/") || path.ends_with(b"/.") {
        true => resolve(root, path),
        false => Ok(path.to_vec()),
    }
}

/// Whether what a path means as a source is a directory.
pub fn is_directory(root: &Root, path: &[u8], follow: bool) -> Result<bool> {
    let path = real_path(root, path, follow)?;
    Ok(root.stat(&path, false)?.kind() == Kind::Directory)
}

/// What a source is; its copy is called `to`, else as it is. `shown` is for messages.
pub fn source<'a>(
    root: &Root<'a>,
    named: &[u8],
    shown: Vec<u8>,
    to: Option<&CStr>,
    follow: bool,
) -> Result<Source<'a>> {
    let contents = named.ends_with(b"/.") || base_name(named).is_none();
    let path = real_path(root, named, follow)?;
    let name_of = |name: &[u8]| CString::new(name).map_err(|_| Errno(libc::EINVAL));
    if contents || root.stat(&path, false)?.kind() == Kind::Directory {
        // "." of the directory itself: roots have no name in a parent.
        let dir = root.open_dir(&path)?;
        let to = match (to, contents, base_name(named)) {
            (Some(to), _, _) => to.into(),
            (None, false, Some(name)) => name_of(name)?,
            _ => return Ok(Source::Contents { dir, shown }),
        };
        let name = c".".into();
        return Ok(Source::Entry {
            dir,
            name,
            to,
            shown,
        });
    }
    let (dir, name) = root.parent(&path)?;
    let to = match (to, base_name(named)) {
        (Some(to), _) => to.into(),
        (None, Some(base)) => name_of(base)?,
        (None, None) => name.clone(),
    };
    Ok(Source::Entry {
        dir,
        name,
        to,
        shown,
    })
}
