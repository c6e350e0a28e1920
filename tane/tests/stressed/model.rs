//! What one thread's subtree must look like: names, contents, links, attributes,
//! and which of them a sync has promised to keep.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use tane::Tree;

/// A file, which may have several names.
#[derive(Clone, Debug, Default)]
pub struct Body {
    pub content: Vec<u8>,
    pub xattrs: BTreeMap<String, Vec<u8>>,
    pub names: u32,
    /// As it is, it was synced.
    pub kept: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Node {
    Directory,
    Symlink(String),
    File(u64),
}

#[derive(Clone, Debug)]
pub struct Name {
    pub node: Node,
    /// A sync has put it there and nothing has touched it or what it is below.
    pub kept: bool,
    /// A directory above moved, which syncing the file does not write.
    pub moved: bool,
}

/// Paths are those of the mounted tree, below `root`.
pub struct Model {
    pub root: String,
    pub names: BTreeMap<String, Name>,
    pub bodies: BTreeMap<u64, Body>,
    next: u64,
}

fn is_below(path: &str, directory: &str) -> bool {
    path.strip_prefix(directory)
        .is_some_and(|rest| rest.starts_with('/'))
}

impl Model {
    pub fn new(root: &str) -> Model {
        Model {
            root: root.to_owned(),
            names: BTreeMap::new(),
            bodies: BTreeMap::new(),
            next: 0,
        }
    }

    pub fn add(&mut self, path: &str, node: Node) {
        if let Node::File(id) = node {
            self.bodies.get_mut(&id).expect("a body").names += 1;
        }
        let name = Name {
            node,
            kept: false,
            moved: false,
        };
        assert!(self.names.insert(path.to_owned(), name).is_none(), "{path}");
    }

    pub fn add_file(&mut self, path: &str, content: Vec<u8>) -> u64 {
        self.next += 1;
        let body = Body {
            content,
            ..Body::default()
        };
        self.bodies.insert(self.next, body);
        self.add(path, Node::File(self.next));
        self.next
    }

    /// A name goes, and with the last one its file.
    pub fn remove(&mut self, path: &str) {
        let name = self.names.remove(path).expect("a name");
        if let Node::File(id) = name.node {
            let body = self.bodies.get_mut(&id).expect("a body");
            body.names -= 1;
            body.kept = false;
            if body.names == 0 {
                self.bodies.remove(&id);
            }
        }
    }

    /// A name goes elsewhere, over what is there, with all that is below it.
    pub fn rename(&mut self, from: &str, to: &str) {
        if self.names.contains_key(to) {
            self.remove(to);
        }
        let mut name = self.names.remove(from).expect("a name");
        name.moved = name.node == Node::Directory;
        self.names.insert(to.to_owned(), name);
        for old in self.below(from) {
            let mut name = self.names.remove(&old).expect("a name");
            name.moved = true;
            self.names
                .insert(format!("{to}{}", &old[from.len()..]), name);
        }
    }

    pub fn below(&self, directory: &str) -> Vec<String> {
        let all = self.names.keys();
        all.filter(|path| is_below(path, directory))
            .cloned()
            .collect()
    }

    /// About to change a name and its file: until the next sync nothing is
    /// promised of either, nor of what is below.
    pub fn disturb(&mut self, path: &str) {
        for (known, name) in &mut self.names {
            if known == path || is_below(known, path) {
                name.kept = false;
                if let Node::File(id) = name.node {
                    self.bodies.get_mut(&id).expect("a body").kept = false;
                }
            }
        }
    }

    /// The file system was synced.
    pub fn keep_all(&mut self) {
        for name in self.names.values_mut() {
            (name.kept, name.moved) = (true, false);
        }
        for body in self.bodies.values_mut() {
            body.kept = true;
        }
    }

    /// A file was synced, and with it its names.
    pub fn keep(&mut self, id: u64) {
        self.bodies.get_mut(&id).expect("a body").kept = true;
        for name in self.names.values_mut() {
            if name.node == Node::File(id) && !name.moved {
                name.kept = true;
            }
        }
    }

    /// The names in a directory, the root or one of ours, sorted.
    pub fn children(&self, directory: &str) -> Vec<String> {
        let inside = |path: &String| {
            let rest = path.strip_prefix(directory)?.strip_prefix('/')?;
            (!rest.contains('/')).then(|| rest.to_owned())
        };
        self.names.keys().filter_map(inside).collect()
    }

    pub fn directories(&self) -> Vec<String> {
        let mut found = vec![self.root.clone()];
        let all = self.names.iter();
        found.extend(
            all.filter(|(_, name)| name.node == Node::Directory)
                .map(|(path, _)| path.clone()),
        );
        found
    }

    /// Whether the tree has what was promised: everything and nothing else, or
    /// at least what was synced.
    pub fn compare(&self, tree: &Tree, only_kept: bool) -> Result<u64, String> {
        let mut compared = 0;
        for (path, name) in &self.names {
            if !only_kept || name.kept {
                self.compare_name(tree, path, name, only_kept)
                    .map_err(|e| format!("{path}: {e}"))?;
                compared += 1;
            }
        }
        if !only_kept {
            for directory in self.directories() {
                let is = listed(tree, &directory).map_err(|e| e.to_string())?;
                let should = self.children(&directory);
                if is != should {
                    return Err(format!("{directory} has {is:?} and not {should:?}"));
                }
            }
        }
        Ok(compared)
    }

    fn compare_name(
        &self,
        tree: &Tree,
        path: &str,
        name: &Name,
        only_kept: bool,
    ) -> Result<(), String> {
        let found = tree.symlink_metadata(path).map_err(|e| e.to_string())?;
        match &name.node {
            Node::Directory if found.is_dir() => Ok(()),
            Node::Symlink(target) if found.is_symlink() => {
                let is = tree.read_link(path).map_err(|e| e.to_string())?;
                let same = is == Path::new(target);
                same.then_some(())
                    .ok_or_else(|| format!("leads to {}", is.display()))
            }
            Node::File(id) if found.is_file() => {
                let body = &self.bodies[id];
                if only_kept && !body.kept {
                    return Ok(());
                }
                if found.nlink() != body.names {
                    return Err(format!("{} names, not {}", found.nlink(), body.names));
                }
                body.compare(tree, path)
            }
            other => Err(format!("is not {other:?}")),
        }
    }

    /// What is there now becomes what must be.
    pub fn adopt(&mut self, tree: &Tree) {
        (self.names, self.bodies) = (BTreeMap::new(), BTreeMap::new());
        let mut files: BTreeMap<u64, u64> = BTreeMap::new();
        let mut todo = vec![self.root.clone()];
        while let Some(directory) = todo.pop() {
            for name in listed(tree, &directory).expect("a listing") {
                let path = format!("{directory}/{name}");
                let found = tree.symlink_metadata(&path).expect(&path);
                if found.is_dir() {
                    self.add(&path, Node::Directory);
                    todo.push(path);
                } else if found.is_symlink() {
                    let target = tree.read_link(&path).expect(&path);
                    let target = target.to_str().expect("ours").to_owned();
                    self.add(&path, Node::Symlink(target));
                } else if let Some(&id) = files.get(&found.ino()) {
                    self.add(&path, Node::File(id));
                } else {
                    let id = self.add_file(&path, tree.read(&path).expect(&path));
                    let body = self.bodies.get_mut(&id).expect("a body");
                    body.xattrs = attributes(tree, &path).expect(&path);
                    files.insert(found.ino(), id);
                }
            }
        }
    }
}

impl Body {
    fn compare(&self, tree: &Tree, path: &str) -> Result<(), String> {
        let is = tree.read(path).map_err(|e| e.to_string())?;
        differ(&is, &self.content)?;
        let is = attributes(tree, path).map_err(|e| e.to_string())?;
        let same = is == self.xattrs;
        same.then_some(()).ok_or_else(|| {
            let keys: Vec<_> = self.xattrs.keys().collect();
            format!("attributes {:?}, not {keys:?}", is.keys())
        })
    }
}

/// Where two contents part.
pub fn differ(is: &[u8], should: &[u8]) -> Result<(), String> {
    if is == should {
        return Ok(());
    }
    let at = is.iter().zip(should).position(|(a, b)| a != b);
    let at = at.unwrap_or(is.len().min(should.len()));
    let end = |bytes: &[u8]| (at + 16).min(bytes.len());
    Err(format!(
        "{} bytes, not {}; from {at} on {:x?}, not {:x?}",
        is.len(),
        should.len(),
        &is[at..end(is)],
        &should[at..end(should)]
    ))
}

pub fn attributes(tree: &Tree, path: &str) -> io::Result<BTreeMap<String, Vec<u8>>> {
    let mut found = BTreeMap::new();
    for key in tree.xattrs(path)? {
        let key = key.to_str().expect("ours").to_owned();
        let value = tree.xattr(path, &key)?;
        found.insert(key, value.unwrap_or_else(|| panic!("{path}: only listed")));
    }
    Ok(found)
}

pub fn listed(tree: &Tree, directory: &str) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in tree.read_dir(directory)? {
        names.push(entry?.file_name().to_str().expect("ours").to_owned());
    }
    names.sort();
    Ok(names)
}
