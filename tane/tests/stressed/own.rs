//! What a thread does in its own subtree, where it knows every result.

use super::model::{listed, Body, Model, Node};
use crate::medium::Random;
use std::io::Result;
use tane::{File, Mount, OpenOptions};

/// As many names, and as long contents: what all threads have at a time fits.
const MOST_NAMES: usize = 120;
pub const MOST_BYTES: u64 = 160 << 10;

pub struct Own<'a> {
    pub mount: &'a Mount,
    pub model: &'a mut Model,
    pub random: &'a mut Random,
}

/// A deed, which returns false when it found nothing to do it to.
type Deed = fn(&mut Own) -> Result<bool>;

/// Each as often as it stands here.
pub const DEEDS: [(&str, Deed); 28] = [
    ("create", |own| own.create()),
    ("create", |own| own.create()),
    ("create", |own| own.create()),
    ("mkdir", |own| own.mkdir()),
    ("symlink", |own| own.symlink()),
    ("link", |own| own.link()),
    ("copy", |own| own.copy()),
    ("write", |own| own.write()),
    ("write", |own| own.write()),
    ("write", |own| own.write()),
    ("read", |own| own.read()),
    ("read", |own| own.read()),
    ("truncate", |own| own.truncate()),
    ("truncate", |own| own.truncate()),
    ("fallocate", |own| own.fallocate()),
    ("mmap", |own| own.mmap()),
    ("mmap", |own| own.mmap()),
    ("rename", |own| own.rename()),
    ("rename", |own| own.rename()),
    ("rename", |own| own.rename()),
    ("unlink", |own| own.unlink()),
    ("rmdir", |own| own.rmdir()),
    ("orphan", |own| own.orphan()),
    ("setxattr", |own| own.setxattr()),
    ("removexattr", |own| own.removexattr()),
    ("readdir", |own| own.readdir()),
    ("fsync", |own| own.fsync()),
    ("refused", |own| own.refused()),
];

impl Own<'_> {
    pub fn pick<T: Clone>(&mut self, from: &[T]) -> Option<T> {
        let count = from.len() as u64;
        (count != 0).then(|| from[self.random.below(count) as usize].clone())
    }

    fn a_name(&mut self, wanted: impl Fn(&Node) -> bool) -> Option<String> {
        let names = self.model.names.iter();
        let known: Vec<_> = names
            .filter(|(_, name)| wanted(&name.node))
            .map(|(path, _)| path.clone())
            .collect();
        self.pick(&known)
    }

    pub fn a_file(&mut self) -> Option<(String, u64)> {
        let path = self.a_name(|node| matches!(node, Node::File(_)))?;
        match self.model.names[&path].node {
            Node::File(id) => Some((path, id)),
            _ => None,
        }
    }

    pub fn body(&mut self, id: u64) -> &mut Body {
        self.model.bodies.get_mut(&id).expect("a body")
    }

    /// A path that is free, or now and then one that is not.
    fn a_place(&mut self) -> String {
        let directory = self.model.directories();
        let directory = self.pick(&directory).expect("the root");
        let n = self.random.below(200);
        // Long names fill directory blocks.
        let fill = "x".repeat(self.random.below(4) as usize * 40);
        format!("{directory}/n{n}{fill}")
    }

    fn is_full(&self) -> bool {
        self.model.names.len() >= MOST_NAMES
    }

    pub fn content(&mut self) -> Vec<u8> {
        let most = [64, 5000, MOST_BYTES][self.random.below(3) as usize];
        let len = self.random.below(most + 1) as usize;
        bytes(self.random, len)
    }

    pub fn open(&self, path: &str) -> Result<File> {
        let mut options = OpenOptions::new();
        Ok(options.read(true).write(true).open(self.mount, path)?)
    }

    fn create(&mut self) -> Result<bool> {
        let (path, content) = (self.a_place(), self.content());
        if self.is_full() {
            return Ok(false);
        }
        let mut options = OpenOptions::new();
        let made = options.write(true).create_new(true).open(self.mount, &path);
        if self.model.names.contains_key(&path) {
            expect(made, libc::EEXIST, &path)?;
            return Ok(true);
        }
        let file = made?;
        let id = self.model.add_file(&path, Vec::new());
        // In pieces, so that a file is seen growing.
        let piece = 1 + self.random.below(50_000) as usize;
        for (i, bytes) in content.chunks(piece).enumerate() {
            file.write_all_at(bytes, (i * piece) as u64)?;
        }
        self.body(id).content = content;
        Ok(true)
    }

    fn mkdir(&mut self) -> Result<bool> {
        let path = self.a_place();
        if self.is_full() || path.matches('/').count() > 6 {
            return Ok(false);
        }
        let made = self.mount.create_dir(&path);
        if self.model.names.contains_key(&path) {
            expect(made, libc::EEXIST, &path)?;
            return Ok(true);
        }
        made?;
        self.model.add(&path, Node::Directory);
        Ok(true)
    }

    fn symlink(&mut self) -> Result<bool> {
        let path = self.a_place();
        if self.is_full() {
            return Ok(false);
        }
        // Short ones are in the inode, long ones have a block.
        let target = "to/".repeat(1 + self.random.below(300) as usize);
        let made = self.mount.symlink(&target, &path);
        if self.model.names.contains_key(&path) {
            expect(made, libc::EEXIST, &path)?;
            return Ok(true);
        }
        made?;
        self.model.add(&path, Node::Symlink(target));
        Ok(true)
    }

    fn link(&mut self) -> Result<bool> {
        let to = self.a_place();
        let Some((path, id)) = self.a_file().filter(|_| !self.is_full()) else {
            return Ok(false);
        };
        self.model.disturb(&path);
        let made = self.mount.hard_link(&path, &to);
        if self.model.names.contains_key(&to) {
            expect(made, libc::EEXIST, &to)?;
            return Ok(true);
        }
        made?;
        self.model.add(&to, Node::File(id));
        Ok(true)
    }

    fn copy(&mut self) -> Result<bool> {
        let to = self.a_place();
        let Some((path, id)) = self.a_file() else {
            return Ok(false);
        };
        if self.is_full() || self.model.names.contains_key(&to) {
            return Ok(false);
        }
        let content = self.body(id).content.clone();
        let copied = self.mount.copy(&path, &to)?;
        assert_eq!(copied, content.len() as u64, "{path} to {to}");
        self.model.add_file(&to, content);
        Ok(true)
    }

    fn rename(&mut self) -> Result<bool> {
        let Some(from) = self.a_name(|_| true) else {
            return Ok(false);
        };
        let mut to = self.a_place();
        if self.random.below(3) == 0 {
            to = self.a_name(|_| true).unwrap_or(to);
        }
        let node = |path: &String| self.model.names.get(path).map(|name| name.node.clone());
        let (source, target) = (node(&from), node(&to));
        let is_directory = source == Some(Node::Directory);
        let below = to.strip_prefix(&from).is_some_and(|r| r.starts_with('/'));
        let above = from.strip_prefix(&to).is_some_and(|r| r.starts_with('/'));
        let refused = match &target {
            _ if below => Some(libc::EINVAL),
            _ if from == to => None,
            _ if above => Some(libc::ENOTEMPTY),
            Some(Node::Directory) if !is_directory => Some(libc::EISDIR),
            Some(Node::Directory) if !self.model.children(&to).is_empty() => Some(libc::ENOTEMPTY),
            Some(Node::Directory) | None => None,
            Some(_) if is_directory => Some(libc::ENOTDIR),
            Some(_) => None,
        };
        for path in [&from, &to] {
            self.model.disturb(path);
        }
        let renamed = self.mount.rename(&from, &to);
        if let Some(errno) = refused {
            expect(renamed, errno, &format!("{from} to {to}"))?;
            return Ok(true);
        }
        renamed?;
        // Two names of one file: nothing happens.
        let same = matches!(source, Some(Node::File(_))) && source == target;
        if from != to && !same {
            self.model.rename(&from, &to);
        }
        Ok(true)
    }

    fn unlink(&mut self) -> Result<bool> {
        let full = self.is_full() || self.random.below(2) == 0;
        let Some(path) = self
            .a_name(|node| *node != Node::Directory)
            .filter(|_| full)
        else {
            return Ok(false);
        };
        self.model.disturb(&path);
        self.mount.remove_file(&path)?;
        self.model.remove(&path);
        Ok(true)
    }

    fn rmdir(&mut self) -> Result<bool> {
        let Some(path) = self.a_name(|node| *node == Node::Directory) else {
            return Ok(false);
        };
        if self.model.children(&path).is_empty() {
            self.model.disturb(&path);
            self.mount.remove_dir(&path)?;
            self.model.remove(&path);
        } else {
            expect(self.mount.remove_dir(&path), libc::ENOTEMPTY, &path)?;
        }
        Ok(true)
    }

    fn readdir(&mut self) -> Result<bool> {
        let directories = self.model.directories();
        let path = self.pick(&directories).expect("the root");
        let is = listed(self.mount, &path)?;
        assert_eq!(is, self.model.children(&path), "{path}");
        Ok(true)
    }

    /// What is not there is told so.
    fn refused(&mut self) -> Result<bool> {
        let path = self.a_place();
        if self.model.names.contains_key(&path) {
            return Ok(false);
        }
        expect(self.mount.open(&path), libc::ENOENT, &path)?;
        expect(self.mount.remove_file(&path), libc::ENOENT, &path)?;
        expect(self.mount.truncate(&path, 0), libc::ENOENT, &path)?;
        Ok(true)
    }
}

/// Quicker than one at a time.
pub fn bytes(random: &mut Random, len: usize) -> Vec<u8> {
    let words = (0..len.div_ceil(8)).flat_map(|_| random.next().to_le_bytes());
    let mut bytes: Vec<u8> = words.collect();
    bytes.truncate(len);
    bytes
}

/// It must fail like this; any other error is the caller's.
fn expect<T>(result: tane::Result<T>, errno: i32, what: &str) -> Result<()> {
    match result {
        Err(error) if error.errno() == errno => Ok(()),
        Err(error) => Err(error.into()),
        Ok(_) => panic!("{what}: no error {errno}"),
    }
}
