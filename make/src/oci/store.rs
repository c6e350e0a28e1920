//! The files of a layout: those of a directory, or of an archive that was read.

use super::{layout, saved};
use crate::means::Means;
use crate::piece::Piece;
use crate::tree::{Id, Tree, ROOT};
use serde_json::Value;
use std::path::Path;
use tane_linux::Kind;

/// Longest file that is read as JSON, in bytes: what registries take of a manifest
/// ("OCI Distribution Specification").
const LONGEST: u64 = 4 << 20;
/// Symlinks on the way to a file.
const MOST_LINKS: u32 = 40;

pub enum Store<'a> {
    Directory(&'a Path, &'a dyn Means),
    Archive(&'a Tree),
}

impl<'a> Store<'a> {
    /// The directory, if it is one of container images.
    pub fn directory(dir: &'a Path, means: &'a dyn Means) -> Option<Self> {
        Some(Store::Directory(dir, means)).filter(Store::is_one)
    }

    /// The files of the archive, if it is one of container images.
    pub fn archive(tree: &'a Tree) -> Option<Self> {
        Some(Store::Archive(tree)).filter(Store::is_one)
    }

    fn is_one(&self) -> bool {
        let known = match self {
            Store::Directory(dir, means) => means.is_saved(dir),
            Store::Archive(_) => None,
        };
        self.has(layout::MARK) && self.has(layout::INDEX)
            || known.unwrap_or_else(|| saved::is_one(self))
    }

    pub fn has(&self, name: &str) -> bool {
        self.piece(name).is_ok()
    }

    /// The regular file of that name, which is not empty in an archive.
    pub fn piece(&self, name: &str) -> Result<Piece, String> {
        let fail = |e: &dyn std::fmt::Display| format!("{name}: {e}");
        match self {
            Store::Directory(dir, means) => {
                let path = below(name).ok_or_else(|| fail(&"leads out of the layout"))?;
                let file = means.open_in(dir, path).map_err(|e| fail(&e))?;
                Piece::whole(file).map_err(|e| fail(&e))
            }
            Store::Archive(tree) => {
                let id = find(tree, name.as_bytes()).map_err(|e| fail(&e))?;
                Piece::of(tree.node(id)).map_err(|e| fail(&e))
            }
        }
    }

    /// What the file of that name says.
    pub fn json(&self, name: &str) -> Result<Value, String> {
        parse(&self.piece(name)?, name)
    }
}

/// What a file says, as JSON.
pub fn parse(piece: &Piece, name: &str) -> Result<Value, String> {
    let bytes = piece.bytes(LONGEST).map_err(|e| format!("{name}: {e}"))?;
    serde_json::from_slice(&bytes).map_err(|e| format!("{name}: {e}"))
}

/// A path that stays below where it begins.
fn below(name: &str) -> Option<&Path> {
    use std::path::Component::{CurDir, Normal};
    let path = Path::new(name);
    let stays = |part| matches!(part, Normal(_) | CurDir);
    path.components().all(stays).then_some(path)
}

/// As the archive would be found when it is unpacked: programs write a layer that two
/// images have as a symlink to where it is.
fn find(tree: &Tree, path: &[u8]) -> Result<Id, &'static str> {
    const GONE: &str = "is not there";
    let split = |path: &[u8]| -> Vec<Vec<u8>> {
        let parts = path.split(|b| *b == b'/').rev();
        let parts = parts.filter(|part| !part.is_empty() && *part != b".");
        parts.map(<[u8]>::to_vec).collect()
    };
    let mut todo = split(path);
    let mut at = vec![ROOT];
    let mut links = 0;
    while let Some(part) = todo.pop() {
        if part == b".." {
            at.pop();
            if at.is_empty() {
                return Err("leads out of the archive");
            }
            continue;
        }
        let dir = at.last().copied().unwrap_or(ROOT);
        let id = *tree.node(dir).names.get(&part).ok_or(GONE)?;
        let node = tree.node(id);
        if node.stat.kind() != Kind::Symlink {
            at.push(id);
            continue;
        }
        links += 1;
        if links > MOST_LINKS {
            return Err("is a symlink that leads nowhere");
        }
        if node.target.starts_with(b"/") {
            return Err("leads out of the archive");
        }
        todo.extend(split(&node.target));
    }
    at.last().copied().ok_or(GONE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::{parent_and_name, plain_stat, Node};

    fn link(tree: &mut Tree, path: &str, target: &str) {
        let (above, name) = parent_and_name(path.as_bytes()).expect("a path");
        let dir = tree.directory(&above, 0);
        let mut node = Node::new(plain_stat(libc::S_IFLNK | 0o777));
        node.target = target.into();
        tree.put(dir, name, node);
    }

    #[test]
    fn symlinks_are_followed_within_the_archive_and_no_further() {
        let mut tree = Tree::new();
        let dir = tree.directory(&[b"a"], 0);
        let file = Node::new(plain_stat(libc::S_IFREG | 0o644));
        let file = tree.put(dir, b"layer.tar", file);
        link(&mut tree, "b/layer.tar", "../a/layer.tar");
        link(&mut tree, "c", "b");
        link(&mut tree, "loop", "loop");
        link(&mut tree, "up", "../../etc/passwd");
        link(&mut tree, "root", "/a/layer.tar");
        assert_eq!(find(&tree, b"a/layer.tar"), Ok(file));
        assert_eq!(find(&tree, b"./c//layer.tar"), Ok(file));
        for name in ["loop", "up", "root", "../a/layer.tar", "none", "a/none"] {
            assert!(find(&tree, name.as_bytes()).is_err(), "{name}");
        }
    }

    #[test]
    fn names_in_a_directory_do_not_lead_out_of_it() {
        assert!(below("blobs/sha256/00").is_some());
        for name in ["/etc/passwd", "../x", "a/../../x"] {
            assert!(below(name).is_none(), "{name}");
        }
    }
}
