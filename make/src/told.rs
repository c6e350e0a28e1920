//! A directory of the host into a tree, as another process tells it: this one opens nothing
//! in there by a name, and believes nothing that a directory cannot have.

use super::host::Missing;
use super::tree::{Content, Id, Node, Tree, ROOT};
use crate::error::{Error, Result};
use crate::file::Own;
use crate::means::Means;
use std::collections::HashMap;
use std::ffi::CString;
use std::path::Path;
use tane_linux::{Errno, Flags, Kind, Stat, Xattrs};

/// What is told of an entry. The directory itself comes first, then all that is in it, depth
/// first.
pub struct Entry {
    /// Below the directory, which has 0.
    pub depth: u32,
    /// In its directory.
    pub name: CString,
    /// What stat(2) tells.
    pub stat: Known<Stat>,
    /// Why what is in it is not told, of a directory.
    pub listed: Known<()>,
    /// Of a symlink.
    pub target: Known<Vec<u8>>,
    /// What else it has.
    pub had: Had,
}

/// What is known, or why it is not.
pub type Known<T> = std::result::Result<T, Errno>;

/// What a file has that would be read of it when its turn comes, if it could be opened.
pub struct Had {
    /// Its attributes.
    pub xattrs: Known<Xattrs>,
    /// Of a directory; a file is asked itself.
    pub flags: Flags,
    /// The root of a subvolume of btrfs.
    pub is_subvolume: bool,
}

/// All that is told of one.
pub type Telling<'t> = dyn Iterator<Item = Result<Entry>> + 't;

/// A directory whose entries come.
struct Open {
    id: Id,
    identity: (u64, u64),
    path: Vec<u8>,
}

/// As [`super::host::add`].
pub(crate) fn add(
    tree: &mut Tree,
    source: &Path,
    told: &mut Telling,
    own: Option<&Own>,
    means: &dyn Means,
) -> Result<Missing> {
    let lies = || Error::about(source, &"what is told of it makes no sense", None);
    let mut missing = Missing {
        complaints: Vec::new(),
        left_out: false,
    };
    let mut links = HashMap::new();
    let mut above: Vec<Open> = Vec::new();
    for entry in told {
        if means.interrupted() {
            break;
        }
        let entry = entry?;
        let depth = entry.depth as usize;
        if above.is_empty() {
            let stat = entry.stat.and_then(|stat| entry.listed.map(|()| stat));
            let mut stat = stat.map_err(|e| Error::about(source, &e, Some(e.0)))?;
            if depth != 0 || stat.kind() != Kind::Directory {
                return Err(lies());
            }
            let identity = stat.identity();
            stat.size = 0;
            let node = tree.node_mut(ROOT);
            (node.stat, node.content) = (stat, Content::Told(b".".to_vec(), entry.had.into()));
            above.push(Open {
                id: ROOT,
                identity,
                path: Vec::new(),
            });
            continue;
        }
        let name = entry.name.to_bytes();
        if depth == 0 || depth > above.len() || !is_name(name) {
            return Err(lies());
        }
        above.truncate(depth);
        let dir = &above[depth - 1];
        if own.is_some_and(|own| own.may_be(name) && own.are_in(dir.identity)) {
            missing.left_out = true;
            continue;
        }
        let mut path = dir.path.clone();
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(name);
        let stat = match entry.stat {
            Ok(stat) => stat,
            Err(e) => {
                missing.complaints.push((path, e));
                continue;
            }
        };
        let (kind, identity) = (stat.kind(), stat.identity());
        if let Some(&first) = links.get(&identity).filter(|_| kind != Kind::Directory) {
            tree.link(dir.id, name, first);
            continue;
        }
        let mut node = Node::new(stat);
        if kind == Kind::Symlink {
            match entry.target {
                Ok(target) => node.target = target,
                Err(e) => missing.complaints.push((path.clone(), e)),
            }
        }
        if let Err(e) = entry.listed {
            missing.complaints.push((path.clone(), e));
        }
        node.content = Content::Told(path.clone(), entry.had.into());
        let id = tree.put(dir.id, name, node);
        if stat.nlink > 1 && kind != Kind::Directory {
            links.insert(identity, id);
        }
        if kind == Kind::Directory {
            above.push(Open { id, identity, path });
        }
    }
    match above.is_empty() && !means.interrupted() {
        true => Err(lies()),
        false => Ok(missing),
    }
}

fn is_name(name: &[u8]) -> bool {
    !matches!(name, b"" | b"." | b"..") && !name.contains(&b'/')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::means::Direct;
    use crate::tree::plain_stat;

    fn entry(depth: u32, name: &str, kind: u32) -> Entry {
        Entry {
            depth,
            name: CString::new(name).expect("a name"),
            stat: Ok(plain_stat(kind | 0o755)),
            listed: Ok(()),
            target: Ok(b"to".to_vec()),
            had: Had {
                xattrs: Ok(Xattrs::default()),
                flags: Flags::default(),
                is_subvolume: false,
            },
        }
    }

    fn of(told: Vec<Entry>) -> Result<Vec<String>> {
        let mut tree = Tree::new();
        let mut told = told.into_iter().map(Ok);
        add(&mut tree, Path::new("dir"), &mut told, None, &Direct::new())?;
        let paths = tree.walk().into_iter();
        let paths = paths.map(|(path, _)| String::from_utf8_lossy(&path).into_owned());
        Ok(paths.collect())
    }

    #[test]
    fn what_is_told_depth_first_is_a_tree() {
        let (dir, file) = (libc::S_IFDIR, libc::S_IFREG);
        let told = vec![
            entry(0, ".", dir),
            entry(1, "a", dir),
            entry(2, "b", dir),
            entry(3, "c", file),
            entry(2, "d", file),
            entry(1, "e", libc::S_IFLNK),
        ];
        let found = of(told).expect("a tree");
        assert_eq!(found, ["", "/a", "/a/b", "/a/b/c", "/a/d", "/e"]);
    }

    #[test]
    fn what_no_directory_has_is_an_error() {
        let (dir, file) = (libc::S_IFDIR, libc::S_IFREG);
        let root = || entry(0, ".", dir);
        for told in [
            vec![],
            vec![entry(0, ".", file)],
            vec![entry(1, "a", file)],
            vec![root(), root()],
            vec![root(), entry(2, "a", file)],
            vec![root(), entry(1, "a", file), entry(2, "b", file)],
            vec![root(), entry(1, "..", dir)],
            vec![root(), entry(1, "a/b", file)],
            vec![root(), entry(1, "", file)],
        ] {
            let said: Vec<_> = told.iter().map(|e| (e.depth, e.name.clone())).collect();
            assert!(of(told).is_err(), "{said:?}");
        }
    }
}
