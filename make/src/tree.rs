//! The files of an image to be, before there is an image.

use super::told::Had;
use std::collections::BTreeMap;
use std::fs::File;
use std::sync::Arc;
use tane_linux::{Flags, Kind, Stat, Time, Xattrs};

pub type Id = usize;

/// Of names in one directory, sorted by their bytes: the order of everything.
pub type Names = BTreeMap<Vec<u8>, Id>;

/// Where a file's bytes are.
pub enum Content {
    None,
    /// In the file of that name below the source directory. What else it has
    /// (attributes, flags) is read together with them.
    Host(Vec<u8>),
    /// The same, of a directory that is not opened here: what else it has was told.
    Told(Vec<u8>, Box<Had>),
    /// In parts of a file: where they go, where they are, how long they are.
    Parts(Arc<File>, Vec<(u64, u64, u64)>),
}

pub struct Node {
    pub stat: Stat,
    pub xattrs: Xattrs,
    pub target: Vec<u8>,
    pub content: Content,
    /// A directory's.
    pub names: Names,
    /// The layer that it came with last.
    pub layer: u32,
    /// How many names it has.
    pub links: u32,
}

pub struct Tree {
    nodes: Vec<Node>,
}

/// A path that is no path of a file in an image, or leads through what is no
/// directory.
#[derive(Debug, PartialEq, Eq)]
pub struct BadPath;

pub const ROOT: Id = 0;

/// What a file is if nobody says: root's, and as old as the hills.
pub fn plain_stat(mode: u32) -> Stat {
    Stat {
        dev: 0,
        ino: 0,
        mode,
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        size: 0,
        block_size: 4096,
        blocks: 0,
        atime: Time::default(),
        mtime: Time::default(),
        ctime: Time::default(),
        flags: Flags::default(),
    }
}

impl Node {
    pub fn new(stat: Stat) -> Node {
        Node {
            stat,
            xattrs: Xattrs::default(),
            target: Vec::new(),
            content: Content::None,
            names: Names::new(),
            layer: 0,
            links: 0,
        }
    }

    pub fn is_dir(&self) -> bool {
        self.stat.kind() == Kind::Directory
    }

    /// Gives it an attribute in place of any of that name.
    pub fn set_xattr(&mut self, name: &std::ffi::CStr, value: &[u8]) {
        let mut all = Xattrs::default();
        for (have, value) in self.xattrs.iter().filter(|(have, _)| *have != name) {
            all.push(have, value);
        }
        all.push(name, value);
        self.xattrs = all;
    }
}

impl Tree {
    pub fn new() -> Tree {
        let mut root = Node::new(plain_stat(libc::S_IFDIR | 0o755));
        root.links = 1;
        Tree { nodes: vec![root] }
    }

    /// Of all that ever were in it.
    pub fn count(&self) -> usize {
        self.nodes.len()
    }

    pub fn node(&self, id: Id) -> &Node {
        &self.nodes[id]
    }

    pub fn node_mut(&mut self, id: Id) -> &mut Node {
        &mut self.nodes[id]
    }

    pub fn find(&self, path: &[u8]) -> Option<Id> {
        let mut at = ROOT;
        for part in parts(path)? {
            at = *self.node(at).names.get(part)?;
        }
        Some(at)
    }

    /// The directory of that path. What is missing of it is made, and what is no
    /// directory gives way.
    pub fn directory(&mut self, parts: &[&[u8]], layer: u32) -> Id {
        let mut at = ROOT;
        for part in parts {
            at = match self.node(at).names.get(*part) {
                Some(&id) if self.node(id).is_dir() => id,
                _ => {
                    let mut node = Node::new(plain_stat(libc::S_IFDIR | 0o755));
                    node.layer = layer;
                    self.put(at, part, node)
                }
            };
        }
        at
    }

    /// Puts a file into a directory. A directory keeps what is in it if it is one
    /// again; anything else is replaced.
    pub fn put(&mut self, dir: Id, name: &[u8], mut node: Node) -> Id {
        if let Some(&old) = self.node(dir).names.get(name) {
            if self.node(old).is_dir() && node.is_dir() {
                node.names = std::mem::take(&mut self.nodes[old].names);
                node.links = 1;
                self.nodes[old] = node;
                return old;
            }
            self.remove(dir, name);
        }
        node.links = 1;
        self.nodes.push(node);
        let id = self.nodes.len() - 1;
        self.nodes[dir].names.insert(name.to_vec(), id);
        id
    }

    /// A further name of a file.
    pub fn link(&mut self, dir: Id, name: &[u8], to: Id) {
        if self.node(dir).names.get(name) != Some(&to) {
            self.remove(dir, name);
            self.nodes[to].links += 1;
            self.nodes[dir].names.insert(name.to_vec(), to);
        }
    }

    pub fn remove(&mut self, dir: Id, name: &[u8]) {
        let mut gone: Vec<Id> = self.nodes[dir].names.remove(name).into_iter().collect();
        while let Some(id) = gone.pop() {
            let node = &mut self.nodes[id];
            node.links -= 1;
            if node.links == 0 {
                node.content = Content::None;
                gone.extend(std::mem::take(&mut node.names).into_values());
            }
        }
    }

    /// Removes what is below a directory and did not come with this layer.
    pub fn remove_lower(&mut self, dir: Id, layer: u32) {
        let names: Vec<_> = self.nodes[dir].names.keys().cloned().collect();
        for name in names {
            self.remove_lower_name(dir, &name, layer);
        }
    }

    /// The same for one name in a directory.
    pub fn remove_lower_name(&mut self, dir: Id, name: &[u8], layer: u32) {
        let Some(&id) = self.node(dir).names.get(name) else {
            return;
        };
        if self.node(id).is_dir() {
            self.remove_lower(id, layer);
        }
        if self.node(id).layer != layer && self.node(id).names.is_empty() {
            self.remove(dir, name);
        }
    }

    /// Every file once, with its first path, in the order of paths.
    pub fn walk(&self) -> Vec<(Vec<u8>, Id)> {
        let mut seen = vec![false; self.nodes.len()];
        let mut all = Vec::with_capacity(self.nodes.len());
        let mut todo = vec![(Vec::new(), ROOT)];
        while let Some((path, id)) = todo.pop() {
            if std::mem::replace(&mut seen[id], true) {
                continue;
            }
            let below = self.node(id).names.iter().rev();
            todo.extend(below.map(|(name, id)| ([&path[..], b"/", name].concat(), *id)));
            all.push((path, id));
        }
        all
    }
}

/// The names in a path; None if it leads out, or a name cannot be one.
pub fn parts(path: &[u8]) -> Option<Vec<&[u8]>> {
    let parts = path.split(|b| *b == b'/');
    let parts = parts.filter(|part| !part.is_empty() && *part != b".");
    parts
        .map(|part| (part != b".." && !part.contains(&0)).then_some(part))
        .collect()
}

/// As [`parts`], of something in the root.
pub fn parent_and_name(path: &[u8]) -> Result<(Vec<&[u8]>, &[u8]), BadPath> {
    let mut parts = parts(path).ok_or(BadPath)?;
    let name = parts.pop().ok_or(BadPath)?;
    Ok((parts, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(layer: u32) -> Node {
        let mut node = Node::new(plain_stat(libc::S_IFREG | 0o644));
        node.layer = layer;
        node
    }

    fn paths(tree: &Tree) -> Vec<String> {
        let paths = tree.walk().into_iter();
        let paths = paths.map(|(path, _)| String::from_utf8_lossy(&path).into_owned());
        paths.collect()
    }

    #[test]
    fn a_walk_is_in_the_order_of_names_whatever_order_they_came_in() {
        let mut tree = Tree::new();
        for path in ["b/z", "a", "b/c/d", "b-", "b/a"] {
            let (above, name) = parent_and_name(path.as_bytes()).expect("a path");
            let dir = tree.directory(&above, 0);
            tree.put(dir, name, file(0));
        }
        let wanted = ["", "/a", "/b", "/b/a", "/b/c", "/b/c/d", "/b/z", "/b-"];
        assert_eq!(paths(&tree), wanted);
    }

    #[test]
    fn what_is_removed_below_a_layer_leaves_what_the_layer_brought() {
        let mut tree = Tree::new();
        let dir = tree.directory(&[b"d"], 0);
        tree.put(dir, b"old", file(0));
        tree.put(dir, b"new", file(1));
        let sub = tree.directory(&[b"d", b"sub"], 0);
        tree.put(sub, b"old", file(0));
        tree.put(sub, b"new", file(1));
        tree.remove_lower(dir, 1);
        assert_eq!(paths(&tree), ["", "/d", "/d/new", "/d/sub", "/d/sub/new"]);
    }

    #[test]
    fn a_file_lives_as_long_as_its_last_name() {
        let mut tree = Tree::new();
        let id = tree.put(ROOT, b"a", file(0));
        tree.link(ROOT, b"b", id);
        assert_eq!(tree.node(id).links, 2);
        tree.remove(ROOT, b"a");
        assert_eq!(tree.node(id).links, 1);
        assert_eq!(tree.find(b"/b"), Some(id));
    }

    #[test]
    fn paths_that_lead_out_are_none() {
        assert!(parts(b"a/../../b").is_none());
        assert_eq!(parent_and_name(b"./"), Err(BadPath));
        assert_eq!(
            parent_and_name(b"./a//b/"),
            Ok((vec![&b"a"[..]], &b"b"[..]))
        );
    }
}
