//! A directory of the host into a tree. Only names and what stat(2) tells; the
//! rest is read when the file's turn comes to be written.

use super::tree::{Content, Id, Node, Tree, ROOT};
use crate::file::Own;
use crate::means::Means;
use std::collections::HashMap;
use std::ffi::{CStr, CString};
use tane_linux::{Entries, Errno, Fd, Kind, Root, Sys};

/// What is not in the tree.
pub struct Missing {
    /// What could not be read, and why.
    pub complaints: Vec<(Vec<u8>, Errno)>,
    /// The image that is made, or what it is made in.
    pub left_out: bool,
}

/// Adds what is in the directory, and the directory's own attributes as the
/// root's; but not these files.
pub fn add(
    tree: &mut Tree,
    sys: Sys,
    source: &[u8],
    own: Option<&Own>,
    means: &dyn Means,
) -> Result<Missing, Errno> {
    let root = Root::host(sys);
    let top = root.open_dir(source)?;
    let mut scan = Scan {
        tree,
        own,
        links: HashMap::new(),
        missing: Missing {
            complaints: Vec::new(),
            left_out: false,
        },
    };
    let mut stat = sys.fstat(&top)?;
    stat.size = 0;
    let node = scan.tree.node_mut(ROOT);
    node.stat = stat;
    node.content = Content::Host(b".".to_vec());
    let mut todo = scan.directory(&top, ROOT, &[])?;
    // Directories are opened anew by path: their number is not limited by that
    // of descriptors.
    while let Some((id, path)) = todo.pop() {
        if means.interrupted() {
            break;
        }
        let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW;
        let below = CString::new(path.clone())
            .map_err(|_| Errno(libc::EINVAL))
            .and_then(|name| sys.openat(&top, &name, flags, 0))
            .and_then(|fd| scan.directory(&fd, id, &path));
        match below {
            Ok(below) => todo.extend(below),
            Err(e) => scan.missing.complaints.push((path, e)),
        }
    }
    Ok(scan.missing)
}

struct Scan<'t> {
    tree: &'t mut Tree,
    own: Option<&'t Own>,
    links: HashMap<(u64, u64), Id>,
    missing: Missing,
}

impl Scan<'_> {
    fn is_own(&self, dir: &Fd, name: &CStr) -> Result<bool, Errno> {
        match self.own.filter(|own| own.may_be(name.to_bytes())) {
            Some(own) => Ok(own.are_in(dir.sys().fstat(dir)?.identity())),
            None => Ok(false),
        }
    }

    /// Adds the entries of one; returns its directories.
    fn directory(&mut self, fd: &Fd, id: Id, path: &[u8]) -> Result<Vec<(Id, Vec<u8>)>, Errno> {
        let sys = fd.sys();
        let mut entries = Entries::read(fd)?;
        entries.sort_by_inode();
        let mut below = Vec::new();
        for entry in &entries.list {
            let name = entries.name(entry);
            if self.is_own(fd, name)? {
                self.missing.left_out = true;
                continue;
            }
            let mut at = path.to_vec();
            if !at.is_empty() {
                at.push(b'/');
            }
            at.extend_from_slice(name.to_bytes());
            let stat = match sys.lstat(fd, name) {
                Ok(stat) => stat,
                Err(e) => {
                    self.missing.complaints.push((at, e));
                    continue;
                }
            };
            let known = self.links.get(&stat.identity());
            if let Some(&first) = known.filter(|_| stat.kind() != Kind::Directory) {
                self.tree.link(id, name.to_bytes(), first);
                continue;
            }
            let mut node = Node::new(stat);
            if stat.kind() == Kind::Symlink {
                match sys.readlink(fd, name) {
                    Ok(target) => node.target = target,
                    Err(e) => self.missing.complaints.push((at.clone(), e)),
                }
            }
            node.content = Content::Host(at.clone());
            let new = self.tree.put(id, name.to_bytes(), node);
            if stat.nlink > 1 && stat.kind() != Kind::Directory {
                self.links.insert(stat.identity(), new);
            }
            if stat.kind() == Kind::Directory {
                below.push((new, at));
            }
        }
        Ok(below)
    }
}
