//! What is in a directory, as the host's kernel is told.

use crate::attr::{attr, file_type};
use crate::node::locked;
use crate::served::{Result, Served};
use fuser::{Generation, INodeNo, ReplyDirectory, ReplyDirectoryPlus};
use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use tane_linux::{is_safe_name, Kind, Stat};

/// An entry of a directory.
struct Listed {
    id: u64,
    kind: Kind,
    /// The position behind it.
    next: u64,
    name: CString,
    stat: Option<Stat>,
}

impl Listed {
    fn name(&self) -> &OsStr {
        OsStr::from_bytes(self.name.to_bytes())
    }
}

impl Served {
    pub(crate) fn list_names(
        &self,
        id: u64,
        position: u64,
        reply: &mut ReplyDirectory,
    ) -> Result<()> {
        self.list(id, position, false, |e| {
            !reply.add(INodeNo(e.id), e.next, file_type(e.kind), e.name())
        })
    }

    /// With what each is.
    pub(crate) fn list_files(
        &self,
        id: u64,
        position: u64,
        reply: &mut ReplyDirectoryPlus,
    ) -> Result<()> {
        let remembered = self.remembered(id);
        self.list(id, position, true, |e| {
            // "." and "..", of which the number and the kind are all that counts.
            let stat = e.stat.unwrap_or(Stat {
                mode: libc::S_IFDIR,
                ..Default::default()
            });
            let (attr, id) = (attr(e.id, &stat), INodeNo(e.id));
            !reply.add(id, e.next, e.name(), &remembered, &attr, Generation(0))
        })
    }

    /// Gives entries from a position on to `add`, until it has no room for one.
    /// `told`: with what each is, of which the host's kernel then knows.
    fn list(
        &self,
        id: u64,
        position: u64,
        told: bool,
        mut add: impl FnMut(&Listed) -> bool,
    ) -> Result<()> {
        let node = self.table.get(id)?;
        let open = self.table.open(&node)?;
        let mut listing = locked(&open.listing);
        listing.seek(&open.fd, position)?;
        loop {
            let Some(entry) = listing.peek(&open.fd)? else {
                return Ok(());
            };
            let name: CString = entry.name.into();
            let mut listed = Listed {
                id: entry.ino,
                kind: Kind::from_dirent(entry.d_type).unwrap_or(Kind::File),
                next: entry.next,
                name,
                stat: None,
            };
            let name = listed.name.to_bytes();
            let is_dot = name == b"." || name == b"..";
            if is_dot {
                listed.kind = Kind::Directory;
            }
            let mut room = true;
            if is_dot || (!told && is_safe_name(name)) {
                room = add(&listed);
            } else if is_safe_name(name) {
                // Gone since it was listed: it is left out.
                if let Ok(stat) = self.sys.lstat(&open.fd, &listed.name) {
                    let found = self.told(&node, &stat, listed.name.clone())?;
                    (listed.id, listed.stat) = (found.id, Some(stat));
                    room = add(&listed);
                    if !room {
                        self.table.forget(found.id, 1);
                    }
                }
            }
            if !room {
                return Ok(());
            }
            listing.take(listed.next, listed.name.to_bytes());
        }
    }
}
