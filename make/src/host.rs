//! A directory of the host into a tree. Only names and what stat(2) tells; the
//! rest is read when the file's turn comes to be written.

use super::tree::{Content, Id, Node, Tree, ROOT};
use crate::means::Means;
use std::collections::HashMap;
use std::ffi::CString;
use tane_linux::{Entries, Errno, Fd, Kind, Root, Sys};

/// What could not be read, and why.
pub type Complaints = Vec<(Vec<u8>, Errno)>;

/// Adds what is in the directory, and the directory's own attributes as the
/// root's.
pub fn add(
    tree: &mut Tree,
    sys: Sys,
    source: &[u8],
    means: &dyn Means,
) -> Result<Complaints, Errno> {
    let root = Root::host(sys);
    let top = root.open_dir(source)?;
    let mut scan = Scan {
        tree,
        links: HashMap::new(),
        complaints: Vec::new(),
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
            Err(e) => scan.complaints.push((path, e)),
        }
    }
    Ok(scan.complaints)
}

struct Scan<'t> {
    tree: &'t mut Tree,
    links: HashMap<(u64, u64), Id>,
    complaints: Complaints,
}

impl Scan<'_> {
    /// Adds the entries of one; returns its directories.
    fn directory(&mut self, fd: &Fd, id: Id, path: &[u8]) -> Result<Vec<(Id, Vec<u8>)>, Errno> {
        let sys = fd.sys();
        let mut entries = Entries::read(fd)?;
        entries.sort_by_inode();
        let mut below = Vec::new();
        for entry in &entries.list {
            let name = entries.name(entry);
            let mut at = path.to_vec();
            if !at.is_empty() {
                at.push(b'/');
            }
            at.extend_from_slice(name.to_bytes());
            let stat = match sys.lstat(fd, name) {
                Ok(stat) => stat,
                Err(e) => {
                    self.complaints.push((at, e));
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
                    Err(e) => self.complaints.push((at.clone(), e)),
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
