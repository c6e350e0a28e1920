//! tar archives into a tree. As layers of a container image they can also take
//! away what is below them: `.wh.NAME` a file, `.wh..wh..opq` all of a directory
//! (OCI image specification, "Representing Changes").

use super::tree::{parent_and_name, parts, plain_stat, Content, Node, Tree, ROOT};
use crate::copy::tar::header::kind;
use crate::copy::tar::parse::{Archive, Entry};
use crate::interrupt;
use crate::session::temporary_place;
use crate::sys::Time;
use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, Write};
use std::path::Path;
use std::sync::Arc;

const WHITEOUT: &[u8] = b".wh.";
const OPAQUE: &[u8] = b".wh..wh..opq";

/// What archives are read for.
pub struct Layers<'t> {
    pub tree: &'t mut Tree,
    /// Names that begin with `.wh.` take away.
    pub whiteouts: bool,
    /// Entries that were left out, and why.
    pub complaints: Vec<(Vec<u8>, String)>,
    layer: u32,
    /// Holds the content of what cannot be read twice.
    spool: Option<Arc<File>>,
    spooled: u64,
}

/// Counts what is read, which tells where in the archive's file an entry is.
struct Counting<R>(R, std::rc::Rc<Cell<u64>>);

impl<R: Read> Read for Counting<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let n = self.0.read(to)?;
        self.1.set(self.1.get() + n as u64);
        Ok(n)
    }
}

impl<'t> Layers<'t> {
    pub fn new(tree: &'t mut Tree, whiteouts: bool) -> Self {
        Layers {
            tree,
            whiteouts,
            complaints: Vec::new(),
            layer: 0,
            spool: None,
            spooled: 0,
        }
    }

    /// Adds an archive on top of what is there; `-` is standard input.
    pub fn add(&mut self, path: &Path) -> io::Result<()> {
        self.layer += 1;
        if path.as_os_str() == "-" {
            return self.stream(Box::new(io::stdin()));
        }
        let mut file = File::open(path)?;
        let mut magic = [0; 6];
        let mut got = 0;
        while got < magic.len() {
            match file.read(&mut magic[got..])? {
                0 => break,
                n => got += n,
            }
        }
        if !file.metadata()?.is_file() {
            let start = io::Cursor::new(magic[..got].to_vec());
            return self.stream(Box::new(start.chain(file)));
        }
        file.rewind()?;
        let packed: [&[u8]; 4] = [b"\x1f\x8b", b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd", b"BZh"];
        if packed.iter().any(|start| magic.starts_with(start)) {
            return self.stream(Box::new(file));
        }
        let at = std::rc::Rc::new(Cell::new(0));
        let same = Arc::new(file.try_clone()?);
        let mut input = Counting(BufReader::with_capacity(1 << 18, file), at.clone());
        self.entries(&mut input, Some((at, same)))
    }

    /// One that comes from somewhere, on top of what is there.
    pub fn stream(&mut self, input: Box<dyn Read + Send>) -> io::Result<()> {
        let input = BufReader::with_capacity(1 << 18, input);
        let mut input = tane::images::decompressed(input)?;
        self.entries(&mut input, None)?;
        // Whoever writes into a pipe wants to be read to the end.
        io::copy(&mut input, &mut io::sink()).map(drop)
    }

    /// `place`: how far the archive was read, and the file that holds it as it is.
    fn entries(
        &mut self,
        input: &mut dyn Read,
        place: Option<(std::rc::Rc<Cell<u64>>, Arc<File>)>,
    ) -> io::Result<()> {
        let mut archive = Archive::new(input);
        while let Some(entry) = archive.next()? {
            if interrupt::requested() {
                break;
            }
            let path = entry.path.clone();
            if entry.lost_acl {
                let text = "its access control list makes no sense";
                self.complaints.push((path.clone(), text.into()));
            }
            let content = match (has_content(&entry), &place) {
                (false, _) => Content::None,
                (true, Some((at, file))) => Content::Parts(file.clone(), map(&entry, at.get())),
                (true, None) => self.spool(&mut archive, &entry)?,
            };
            if let Err(text) = self.entry(entry, content) {
                self.complaints.push((path, text.into()));
            }
        }
        Ok(())
    }

    fn spool(&mut self, archive: &mut Archive, entry: &Entry) -> io::Result<Content> {
        let file = match &self.spool {
            Some(file) => file.clone(),
            None => self.spool.insert(Arc::new(unnamed_file()?)).clone(),
        };
        let content = Content::Parts(file.clone(), map(entry, self.spooled));
        let mut left = entry
            .map
            .as_ref()
            .map_or(entry.stored, |map| map.iter().map(|(_, len)| len).sum());
        self.spooled += left;
        let mut buffer = vec![0; left.min(1 << 18) as usize];
        while left > 0 {
            let n = left.min(buffer.len() as u64) as usize;
            archive.read(&mut buffer[..n])?;
            (&*file).write_all(&buffer[..n])?;
            left -= n as u64;
        }
        Ok(content)
    }

    fn entry(&mut self, entry: Entry, content: Content) -> Result<(), &'static str> {
        const BAD: &str = "its name leads out of the image, or makes no sense";
        let layer = self.layer;
        if parts(&entry.path).ok_or(BAD)?.is_empty() {
            if entry.kind == kind::DIRECTORY {
                let names = std::mem::take(&mut self.tree.node_mut(ROOT).names);
                let mut node = node_of(&entry, content, layer)?;
                (node.names, node.links) = (names, 1);
                *self.tree.node_mut(ROOT) = node;
            }
            return Ok(());
        }
        let (above, name) = parent_and_name(&entry.path).map_err(|_| BAD)?;
        if self.whiteouts && name.starts_with(WHITEOUT) {
            let dir = self.tree.directory(&above, layer);
            match name {
                OPAQUE => self.tree.remove_lower(dir, layer),
                _ => self
                    .tree
                    .remove_lower_name(dir, &name[WHITEOUT.len()..], layer),
            }
            return Ok(());
        }
        if entry.kind == kind::LINK {
            let to = self.tree.find(&entry.target);
            let to = to.filter(|to| !self.tree.node(*to).is_dir());
            let to = to.ok_or("is a link to what is not there")?;
            self.tree.node_mut(to).layer = layer;
            let dir = self.tree.directory(&above, layer);
            self.tree.link(dir, name, to);
            return Ok(());
        }
        let node = node_of(&entry, content, layer)?;
        let dir = self.tree.directory(&above, layer);
        self.tree.put(dir, name, node);
        Ok(())
    }
}

fn has_content(entry: &Entry) -> bool {
    let kinds = [kind::FILE, kind::CONTIGUOUS, kind::GNU_SPARSE, 0];
    kinds.contains(&entry.kind) && entry.stored > 0
}

/// Where the parts of a file go, where they are from `start` on, and their length.
fn map(entry: &Entry, start: u64) -> Vec<(u64, u64, u64)> {
    let whole = [(0, entry.size)];
    let parts = entry.map.as_deref().unwrap_or(&whole).iter();
    let place = |from: &mut u64, (at, len): (u64, u64)| {
        let here = *from;
        *from += len;
        Some((at, here, len))
    };
    parts.copied().scan(start, place).collect()
}

fn node_of(entry: &Entry, content: Content, layer: u32) -> Result<Node, &'static str> {
    let slash = entry.path.ends_with(b"/");
    let kind = match entry.kind {
        kind::SYMLINK => libc::S_IFLNK,
        kind::CHAR => libc::S_IFCHR,
        kind::BLOCK => libc::S_IFBLK,
        kind::DIRECTORY => libc::S_IFDIR,
        // A directory in old archives is a file with a slash.
        kind::FILE if slash => libc::S_IFDIR,
        kind::FIFO => libc::S_IFIFO,
        kind::FILE | kind::CONTIGUOUS | kind::GNU_SPARSE | 0 => libc::S_IFREG,
        _ => return Err("is of a kind that no file system has"),
    };
    let mut stat = plain_stat(kind | entry.mode);
    (stat.uid, stat.gid) = (entry.uid, entry.gid);
    (stat.mtime, stat.flags) = (entry.mtime, entry.flags);
    stat.rdev = libc::makedev(entry.device.0, entry.device.1);
    stat.ctime = Time::default();
    if kind == libc::S_IFREG {
        stat.size = entry.size;
        stat.blocks = entry.stored.div_ceil(512);
    }
    let mut node = Node::new(stat);
    node.xattrs = entry.xattrs.clone();
    node.target = entry.target.clone();
    node.content = content;
    node.layer = layer;
    Ok(node)
}

/// A file that nobody else sees and that goes with its last handle.
fn unnamed_file() -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    File::options()
        .read(true)
        .write(true)
        .mode(0o600)
        .custom_flags(libc::O_TMPFILE)
        .open(temporary_place())
}
