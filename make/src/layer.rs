//! tar archives into a tree. As layers of a container image they can also take
//! away what is below them: `.wh.NAME` a file, `.wh..wh..opq` all of a directory
//! (OCI image specification, "Representing Changes").

use super::piece::Piece;
use super::tree::{parent_and_name, parts, plain_stat, Content, Node, Tree, ROOT};
use crate::means::Means;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Arc;
use tane::images::{compression, decompressed, most_unpacked, Spool};
use tane_copy::tar::header::kind;
use tane_copy::tar::parse::{Archive, Entry};
use tane_linux::Time;

const WHITEOUT: &[u8] = b".wh.";
const OPAQUE: &[u8] = b".wh..wh..opq";

/// Longest path of an entry, in bytes: four times what a call takes.
const LONGEST: usize = 16 << 10;
/// What names and attributes of all files may take in memory, in bytes.
const MOST: usize = 2 << 30;

/// What archives are read for.
pub struct Layers<'m> {
    pub tree: Tree,
    /// Names that begin with `.wh.` take away.
    pub whiteouts: bool,
    /// Entries that were left out, and why.
    pub complaints: Vec<(Vec<u8>, String)>,
    layer: u32,
    /// Holds the content of what cannot be read twice, and that file once more.
    spool: Option<(Spool, Arc<File>)>,
    /// Bytes that were read of what cannot be.
    packed: Arc<AtomicU64>,
    /// Bytes of names and attributes, as they are in memory.
    described: usize,
    means: &'m dyn Means,
}

/// Counts what is read.
struct Counting<R>(R, Arc<AtomicU64>);

impl<R: Read> Read for Counting<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let n = self.0.read(to)?;
        self.1.fetch_add(n as u64, Relaxed);
        Ok(n)
    }
}

/// Where the bytes of an archive are that is read: a file, and how far.
type Cursor = (Arc<File>, Arc<AtomicU64>);

impl<'m> Layers<'m> {
    pub fn new(whiteouts: bool, means: &'m dyn Means) -> Self {
        Layers {
            tree: Tree::new(),
            whiteouts,
            complaints: Vec::new(),
            layer: 0,
            spool: None,
            packed: Arc::default(),
            described: 0,
            means,
        }
    }

    /// Adds an archive on top of what is there; `-` is standard input.
    pub fn add(&mut self, path: &Path) -> io::Result<()> {
        if path.as_os_str() == "-" {
            return self.stream(Box::new(io::stdin()));
        }
        let file = self.means.open(path)?;
        match file.metadata()?.is_file() {
            true => self.add_piece(&Piece::whole(file)?),
            false => self.stream(Box::new(file)),
        }
    }

    /// The same with one that lies there.
    pub fn add_piece(&mut self, piece: &Piece) -> io::Result<()> {
        let mut head = [0; 8];
        let head = &mut head[..piece.len.min(8) as usize];
        piece.file.read_exact_at(head, piece.start)?;
        if compression(head).is_some() {
            return self.stream(Box::new(piece.reader()));
        }
        self.layer += 1;
        // Where in the file an entry is follows from what was read so far.
        let at = Arc::new(AtomicU64::new(piece.start));
        let input = BufReader::with_capacity(1 << 18, piece.reader());
        let mut input = Counting(input, at.clone());
        self.entries(&mut input, Some((piece.file.clone(), at)))
    }

    /// One that comes from somewhere, on top of what is there.
    pub fn stream(&mut self, input: Box<dyn Read + Send>) -> io::Result<()> {
        self.layer += 1;
        let input = Counting(input, self.packed.clone());
        let mut input = decompressed(BufReader::with_capacity(1 << 18, input))?;
        self.entries(&mut input, None)?;
        if self.means.interrupted() {
            return Ok(());
        }
        // Whoever writes into a pipe wants to be read to the end.
        io::copy(&mut input, &mut io::sink()).map(drop)
    }

    fn entries(&mut self, input: &mut dyn Read, place: Option<Cursor>) -> io::Result<()> {
        let mut archive = Archive::new(input);
        while let Some(entry) = archive.next()? {
            if self.means.interrupted() {
                break;
            }
            let path = entry.path.clone();
            if entry.lost_acl {
                let text = "its access control list makes no sense";
                self.complaints.push((path.clone(), text.into()));
            }
            let content = match (has_content(&entry), &place) {
                (false, _) => Content::None,
                (true, Some((file, at))) => {
                    Content::Parts(file.clone(), map(&entry, at.load(Relaxed)))
                }
                (true, None) => self.spool(&mut archive, &entry)?,
            };
            self.weigh(&entry, &content)?;
            let before = self.tree.count();
            if let Err(text) = self.entry(entry, content) {
                self.described += path.len() + text.len();
                self.complaints.push((path.clone(), text.into()));
            }
            // Each directory above it that is new has a path of its own.
            self.described +=
                (self.tree.count() - before) * (std::mem::size_of::<Node>() + path.len());
        }
        Ok(())
    }

    /// An error if memory would not do.
    fn weigh(&mut self, entry: &Entry, content: &Content) -> io::Result<()> {
        let parts = match content {
            Content::Parts(_, parts) => std::mem::size_of_val(&parts[..]),
            _ => 0,
        };
        let sizes = |(name, value): (&std::ffi::CStr, &[u8])| name.count_bytes() + value.len();
        let attributes: usize = entry.xattrs.iter().map(sizes).sum();
        self.described += parts + attributes + entry.path.len() + entry.target.len();
        match self.described > MOST {
            true => Err(io::Error::other(
                "describes more files than memory can hold",
            )),
            false => Ok(()),
        }
    }

    fn spool(&mut self, archive: &mut Archive, entry: &Entry) -> io::Result<Content> {
        let place = self.means.temporary();
        let fail = |e: io::Error| {
            let text = format!("cannot be unpacked into {}: {e}", place.display());
            io::Error::new(e.kind(), text)
        };
        if self.spool.is_none() {
            let spool = self.means.spool().map_err(fail)?;
            let file = spool.file().try_clone().map_err(fail)?;
            self.spool = Some((spool, Arc::new(file)));
        }
        let Some((spool, file)) = &mut self.spool else {
            return Ok(Content::None);
        };
        let content = Content::Parts(file.clone(), map(entry, spool.len()));
        let mut left = entry
            .map
            .as_ref()
            .map_or(entry.stored, |map| map.iter().map(|(_, len)| len).sum());
        let mut buffer = vec![0; left.min(1 << 16) as usize];
        while left > 0 {
            let n = left.min(buffer.len() as u64) as usize;
            archive.read(&mut buffer[..n])?;
            let most = most_unpacked(self.packed.load(Relaxed));
            spool.append(&buffer[..n], most).map_err(fail)?;
            left -= n as u64;
            if self.means.interrupted() {
                break;
            }
        }
        spool.end().map_err(fail)?;
        Ok(content)
    }

    fn entry(&mut self, entry: Entry, content: Content) -> Result<(), &'static str> {
        const BAD: &str = "its name leads out of the image, or makes no sense";
        let layer = self.layer;
        if entry.path.len() > LONGEST {
            return Err("its name is longer than any path");
        }
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
