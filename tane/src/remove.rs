//! Removing a whole tree.

use crate::dir::Dir;
use crate::error::Result;
use std::ffi::{OsStr, OsString};

/// Remove an entry, whatever it is. Works through open directories only, so
/// that nothing a link points to is touched, and without recursion, so that a
/// deep tree does not use up the stack. Needs one descriptor per level.
pub(crate) fn remove_all(dir: &Dir, name: &OsStr) -> Result<()> {
    if !dir.metadata(name)?.is_dir() {
        return dir.remove_file(name);
    }
    let mut open: Vec<(Dir, OsString)> = vec![(dir.open_dir(name)?, name.to_owned())];
    while let Some((inner, _)) = open.last() {
        match empty(inner)? {
            Some((deeper, name)) => open.push((deeper, name)),
            None => {
                let Some((inner, name)) = open.pop() else {
                    break;
                };
                drop(inner);
                let parent = open.last().map_or(dir, |(parent, _)| parent);
                parent.remove_dir(&name)?;
            }
        }
    }
    Ok(())
}

/// Remove entries until there is a directory that is not empty; open that one.
fn empty(dir: &Dir) -> Result<Option<(Dir, OsString)>> {
    let mut entries = dir.read_dir()?;
    while let Some(entry) = entries.next_entry()? {
        let name = entry.file_name();
        let is_dir = match entry.file_type() {
            Some(kind) => kind.is_dir(),
            None => dir.metadata(name)?.is_dir(),
        };
        if !is_dir {
            dir.remove_file(name)?;
        } else if let Err(error) = dir.remove_dir(name) {
            match error.errno() {
                libc::ENOTEMPTY | libc::EEXIST => {
                    return Ok(Some((dir.open_dir(name)?, name.to_owned())));
                }
                _ => return Err(error),
            }
        }
    }
    Ok(None)
}
