//! A gofer, the directory that it works in, and who talks to it.

use super::super::super::batch::{Batch, Head, Op, Sender};
use super::super::super::Settings;
use super::super::wire::{self, Put};
use super::super::{far, script, Memory, Nobody, Terms, ToGofer};
use std::ffi::CStr;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{channel, sync_channel};
use std::thread::JoinHandle;
use tane_linux::{Stat, Xattrs};
use tane_test_support::Scratch;

pub fn settings() -> Settings {
    Settings {
        no_umask: true,
        ..Settings::default()
    }
}

/// A directory with a destination, `out`, and what must stay as it is beside it.
pub struct Rig(pub Scratch);

impl Rig {
    pub fn new() -> Rig {
        let rig = Rig(Scratch::new("gofer"));
        std::fs::create_dir(rig.0.join("beside")).expect("mkdir");
        std::fs::create_dir(rig.out()).expect("mkdir");
        std::fs::write(rig.0.join("beside/precious"), b"precious").expect("write");
        std::os::unix::fs::symlink("../beside", rig.out().join("link")).expect("symlink");
        rig
    }

    pub fn out(&self) -> PathBuf {
        self.0.join("out")
    }

    /// All that is beside the destination: names, modes, owners, times.
    pub fn beside(&self) -> Vec<String> {
        let own = self.0.metadata().expect("stat");
        let mut all = vec![format!("{:o} {} {}", own.mode(), own.uid(), own.gid())];
        let mut dirs = vec![self.0.to_path_buf()];
        while let Some(dir) = dirs.pop() {
            for entry in std::fs::read_dir(dir).expect("a listing").flatten() {
                let (path, stat) = (entry.path(), entry.metadata().expect("lstat"));
                if path == self.out() {
                    all.push(format!("{path:?}"));
                    continue;
                }
                let (mode, owner, links) = (stat.mode(), (stat.uid(), stat.gid()), stat.nlink());
                let times = (stat.mtime(), stat.mtime_nsec(), stat.ctime_nsec());
                let is_dir = stat.is_dir();
                all.push(format!("{path:?} {mode:o} {owner:?} {links} {times:?}"));
                if is_dir {
                    dirs.push(path);
                }
            }
        }
        all.sort();
        all
    }

    pub fn gofer(&self, place: &Path) -> Peer {
        self.with_terms(Terms::Copy {
            place: place.as_os_str().as_bytes().to_vec(),
            settings: settings(),
            names: None,
            adopts: true,
        })
    }

    pub fn with_terms(&self, terms: Terms) -> Peer {
        let (near, far) = UnixStream::pair().expect("a pair");
        let memory = Memory::new().expect("memory");
        let gofer = std::thread::spawn(move || {
            far::serve(&OwnedFd::from(far).into(), memory, terms, &Nobody)
        });
        Peer { near, gofer }
    }
}

/// Who talks to a gofer.
pub struct Peer {
    pub near: UnixStream,
    pub gofer: JoinHandle<std::io::Result<()>>,
}

impl Peer {
    /// False: nobody hears.
    pub fn say(&mut self, kind: u32, body: &[u8]) -> bool {
        let mut message = Vec::new();
        wire::begin(&mut message, kind);
        message.extend_from_slice(body);
        wire::seal(&mut message);
        self.near.write_all(&message).is_ok()
    }

    pub fn look(&mut self, path: &Path) -> bool {
        let mut body = Vec::new();
        body.string(path.as_os_str().as_bytes());
        self.say(ToGofer::Look as u32, &body)
    }

    pub fn open(&mut self) -> bool {
        let mut body = Vec::new();
        body.string(b"out");
        body.byte(1);
        body.number(0);
        body.number(0);
        body.extend([0; 4]);
        self.say(ToGofer::Open as u32, &body)
    }

    pub fn batch(&mut self, script: &[u8]) -> bool {
        self.say(ToGofer::Batch as u32, &[&[0; 4], script].concat())
    }

    /// All that it says until it ends, and how it ends.
    pub fn ends(self) -> (Vec<u8>, std::io::ErrorKind) {
        let Peer { mut near, gofer } = self;
        near.shutdown(std::net::Shutdown::Write).expect("a socket");
        let mut said = Vec::new();
        let _ = near.read_to_end(&mut said);
        let end = gofer.join().expect("no panic");
        (said, end.expect_err("until the end").kind())
    }
}

pub fn stat(mode: u32) -> Stat {
    Stat {
        mode,
        size: 3,
        blocks: 8,
        ..Stat::default()
    }
}

pub fn head(sender: &mut Sender, name: &CStr, mode: u32, link: Option<u32>) -> Head {
    let mut xattrs = Xattrs::default();
    xattrs.push(c"user.a", b"1");
    sender.head(name, stat(mode), &xattrs, link)
}

pub fn enter(sender: &mut Sender, name: &CStr) {
    let head = head(sender, name, libc::S_IFDIR | 0o755, None);
    sender.push(Op::Enter(head));
}

pub fn begin(sender: &mut Sender, name: &CStr) {
    let head = head(sender, name, libc::S_IFREG | 0o644, None);
    sender.push(Op::Begin(head));
}

pub fn adopt(sender: &mut Sender) {
    let head = head(sender, c".", libc::S_IFDIR | 0o4711, None);
    sender.push(Op::Adopt(head));
}

/// A batch of these operations.
pub fn batch(fill: impl FnOnce(&mut Sender)) -> Batch {
    let (full, batches) = sync_channel(1);
    let mut sender = Sender::new(full, channel().1);
    fill(&mut sender);
    assert!(sender.flush().is_ok());
    batches.recv().expect("a batch")
}

pub fn told(fill: impl FnOnce(&mut Sender)) -> Vec<u8> {
    let mut script = Vec::new();
    assert!(script::write(&batch(fill), &mut script, |_| 0));
    script
}

/// A batch of all kinds of operations, as a reader would send it.
pub fn honest() -> Vec<u8> {
    told(all_kinds)
}

pub fn all_kinds(sender: &mut Sender) {
    let directory = head(sender, c"d", libc::S_IFDIR | 0o755, None);
    sender.push(Op::Enter(directory));
    sender.space(3).copy_from_slice(b"abc");
    let data = sender.take(3);
    let file = head(sender, c"f", libc::S_IFREG | 0o644, Some(0));
    sender.push(Op::File(file, data));
    let name = sender.put(b"again\0");
    sender.push(Op::Link(name, 0));
    let symlink = head(sender, c"l", libc::S_IFLNK | 0o777, None);
    let target = sender.put(b"../../beside\0");
    sender.push(Op::Symlink(symlink, target));
    let device = head(sender, c"n", libc::S_IFCHR | 0o666, None);
    sender.push(Op::Node(device));
    let large = head(sender, c"p", libc::S_IFREG | 0o4755, None);
    sender.push(Op::Begin(large));
    sender.push(Op::Piece(0, data));
    sender.push(Op::End);
    sender.push(Op::Leave);
}

pub fn understood(script: Vec<u8>) -> wire::Result<Batch> {
    let memory = Memory::new().expect("memory");
    script::read(script, Vec::new(), memory.slot(0), |_| None)
}
