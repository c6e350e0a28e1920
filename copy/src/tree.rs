//! One file or tree, from a path to a path: what the library's languages copy with.

use crate::patterns::Excludes;
use crate::{copy, totals, Destination, Settings, Source, Tally, To, What};
use std::cell::Cell;
use std::ffi::{CStr, CString};
use tane::HostBlocks;
use tane_linux::{base_name, split, Errno, Fd, Host, Kind, Linux, Result, Root, Sys};

static HOST: Host = Host;

/// After so many entries that were counted somebody is asked whether to go on.
const LOOK: u64 = 1024;

/// Where a copy comes from, or goes to.
pub struct End<'a> {
    root: Root<'a>,
    host_blocks: Option<&'a HostBlocks>,
    /// What tells mounts apart; None: the host.
    mount: Option<usize>,
}

impl<'a> End<'a> {
    /// The host's files, by paths as this process understands them.
    pub fn host() -> End<'static> {
        End {
            root: Root::host(Sys(&HOST)),
            host_blocks: None,
            mount: None,
        }
    }

    /// The files of a mount, by a descriptor of its root, which no path leaves.
    /// `host_blocks`: where the host has their bytes.
    pub fn mount(
        linux: &'a dyn Linux,
        root: i32,
        host_blocks: Option<&'a HostBlocks>,
    ) -> Result<End<'a>> {
        let flags = libc::O_RDONLY | libc::O_DIRECTORY;
        let dir = Sys(linux).openat_raw(root, c".", flags, 0)?;
        Ok(End {
            root: Root::image(dir),
            host_blocks,
            mount: Some(std::ptr::from_ref(linux).cast::<()>() as usize),
        })
    }

    fn is_same(&self, other: &End) -> bool {
        self.mount.is_some() && self.mount == other.mount
    }

    /// A source whose copy is called `to`, or all that is in it. A symlink is copied
    /// itself.
    fn source(&self, path: &[u8], to: Option<&CStr>) -> Result<Source<'a>> {
        let shown = to.map_or(Vec::new(), |to| to.to_bytes().to_vec());
        let is_dir = self.root.stat(path, false)?.kind() == Kind::Directory;
        match to {
            // "." of the directory itself: roots have no name in a parent.
            Some(to) if is_dir => Ok(Source::Entry {
                dir: self.root.open_dir(path)?,
                name: c".".into(),
                to: to.into(),
                shown,
            }),
            Some(to) => {
                let (dir, name) = self.root.parent(path)?;
                let to = to.into();
                Ok(Source::Entry {
                    dir,
                    name,
                    to,
                    shown,
                })
            }
            None if is_dir => Ok(Source::Contents {
                dir: self.root.open_dir(path)?,
                shown,
            }),
            None => Err(Errno(libc::EISDIR)),
        }
    }

    /// The directory that a copy goes into, and its name there; without one its contents
    /// go into the root.
    fn target(&self, path: &[u8]) -> Result<(Fd<'a>, Option<CString>)> {
        if base_name(path).is_none() {
            return match self.mount {
                Some(_) => Ok((self.root.open_dir(b"/")?, None)),
                None => Err(Errno(libc::EINVAL)),
            };
        }
        let (parent, name) = split(path).ok_or(Errno(libc::EINVAL))?;
        let name = CString::new(name).map_err(|_| Errno(libc::EINVAL))?;
        Ok((self.root.open_dir(parent)?, Some(name)))
    }

    fn write_back(&self) -> Result<()> {
        let dir = self.root.open_dir(b"/")?;
        dir.sys().syncfs(&dir)
    }
}

/// Copies what is at `source` to `target`, which is what its copy is called: the
/// directory it goes into must be there. A directory that is there is added to, a file is
/// replaced when its copy is complete, and no symlink of the target is followed but above
/// it. All that could not be kept or copied is in the tally afterwards, by its path below
/// the target. A copy into an image is written back. `begin` is told how many files and
/// bytes there will be, if somebody wants to know.
///
/// Errors: ECANCELED once somebody wanted the copy to end, whenever that was and whatever
/// else is in the tally; else there was nothing to begin with, or no place for it.
pub fn tree(
    (from, source): (&End, &[u8]),
    (to, target): (&End, &[u8]),
    settings: Settings,
    tally: &Tally,
    begin: Option<&mut dyn FnMut(u64, u64)>,
) -> Result<()> {
    let (dir, name) = to.target(target)?;
    let sources = vec![from.source(source, name.as_deref())?];
    let excludes = Excludes::default();
    if let Some(begin) = begin {
        let seen = Cell::new(0u64);
        let look = || {
            // Who would end it is asked while there is nothing to tell yet, too.
            if seen.replace(seen.get() + 1) % LOOK == LOOK - 1 {
                tally.tell();
            }
            tally.is_cancelled()
        };
        let (files, bytes) = totals(&sources, &excludes, look);
        begin(files, bytes);
    }
    let avoid = from
        .is_same(to)
        .then(|| dir.sys().fstat(&dir).map(|stat| stat.identity()));
    let what = What {
        sources,
        excludes: &excludes,
        host_blocks: from.host_blocks,
    };
    let destination = Destination {
        avoid: avoid.transpose()?,
        dir,
        shown: Vec::new(),
    };
    // Whose kernel runs in this process was entered by this thread.
    let write_here = to.mount.is_some();
    copy(what, To::Here(destination), settings, tally, write_here);
    if to.mount.is_some() {
        to.write_back()?;
    }
    match tally.is_cancelled() {
        true => Err(Errno(libc::ECANCELED)),
        false => Ok(()),
    }
}
