//! The host's files for patterns of a session: its jail lets it look at what a name means, and
//! a process without Linux tells what is in directories.

use super::teller::{list, told};
use crate::compare::told::Wanted;
use crate::expand::{below, Names, Tree};
use std::ffi::OsStr;
use std::fs::Metadata;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use tane_linux::{Errno, Kind};

/// All that may be listed.
pub struct Listed;

/// What a name of the host means.
pub fn kind_of(path: &[u8], follow: bool) -> Result<Kind, Errno> {
    let path = Path::new(OsStr::from_bytes(path));
    let found: io::Result<Metadata> = match follow {
        true => path.metadata(),
        false => path.symlink_metadata(),
    };
    let fail = |e: io::Error| Errno(e.raw_os_error().unwrap_or(libc::EIO));
    Ok(Kind::from_mode(found.map_err(fail)?.mode()))
}

impl Tree for Listed {
    fn kind(&self, path: &[u8], follow: bool) -> Result<Kind, Errno> {
        kind_of(path, follow)
    }

    fn list(&self, dir: &[u8]) -> Result<Names, Errno> {
        let all = list(Path::new(OsStr::from_bytes(dir)))?.into_iter();
        Ok(all.map(|(name, kind)| (name, Some(kind))).collect())
    }

    fn all_below(&self, dir: &[u8], path: &[u8], last: bool) -> Result<Vec<Vec<u8>>, Errno> {
        let wanted = Wanted {
            // Nobody looks into these; "." is the directory itself.
            excludes: vec![".?*".into()],
            ..Wanted::names(usize::MAX)
        };
        let mut told = told(&Path::new(OsStr::from_bytes(dir)).join(""), &wanted)?;
        let (mut found, mut above): (_, Vec<Vec<u8>>) = (Vec::new(), Vec::new());
        while let Some(entry) = told.next().map_err(|_| Errno(libc::EPIPE))? {
            let (kind, name) = (entry.stat?.kind(), entry.name.to_bytes());
            let depth = entry.depth as usize;
            above.truncate(depth);
            let path = match above.last() {
                None => path.to_vec(),
                Some(above) => below(above, name),
            };
            if depth > 0 && name.starts_with(b".") {
                continue;
            }
            entry.listed?;
            if kind == Kind::Directory && !last || last && depth > 0 {
                found.push(path.clone());
            }
            above.push(path);
        }
        Ok(found)
    }
}
