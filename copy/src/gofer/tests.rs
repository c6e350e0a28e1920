//! A reader that lies: the gofer ends, and nothing beside its destination has changed.

use super::super::batch::{Batch, Head, Op, Sender};
use super::super::room::Room;
use super::super::Settings;
use super::wire::{self, Malformed, Put, HEADER};
use super::{far, files, script, FromGofer, Memory, Nobody, Terms, ToGofer};
use std::ffi::CStr;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{channel, sync_channel};
use std::sync::Arc;
use std::thread::JoinHandle;
use tane_linux::{Stat, Xattrs};
use tane_test_support::{Dice, Scratch};

pub mod answers;
mod making;
mod sequences;

fn settings() -> Settings {
    Settings {
        no_umask: true,
        ..Settings::default()
    }
}

/// A directory with a destination, `out`, and what must stay as it is beside it.
struct Rig(Scratch);

impl Rig {
    fn new() -> Rig {
        let rig = Rig(Scratch::new("gofer"));
        std::fs::create_dir(rig.0.join("beside")).expect("mkdir");
        std::fs::create_dir(rig.out()).expect("mkdir");
        std::fs::write(rig.0.join("beside/precious"), b"precious").expect("write");
        std::os::unix::fs::symlink("../beside", rig.out().join("link")).expect("symlink");
        rig
    }

    fn out(&self) -> PathBuf {
        self.0.join("out")
    }

    /// All that is beside the destination: names, modes, owners, times.
    fn beside(&self) -> Vec<String> {
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

    fn gofer(&self, place: &Path) -> Peer {
        self.with_terms(Terms::Copy {
            place: place.as_os_str().as_bytes().to_vec(),
            settings: settings(),
            names: None,
            adopts: true,
        })
    }

    fn with_terms(&self, terms: Terms) -> Peer {
        let (near, far) = UnixStream::pair().expect("a pair");
        let memory = Memory::new().expect("memory");
        let gofer = std::thread::spawn(move || {
            far::serve(&OwnedFd::from(far).into(), memory, terms, &Nobody)
        });
        Peer { near, gofer }
    }
}

/// Who talks to a gofer.
struct Peer {
    near: UnixStream,
    gofer: JoinHandle<std::io::Result<()>>,
}

impl Peer {
    /// False: nobody hears.
    fn say(&mut self, kind: u32, body: &[u8]) -> bool {
        let mut message = Vec::new();
        wire::begin(&mut message, kind);
        message.extend_from_slice(body);
        wire::seal(&mut message);
        self.near.write_all(&message).is_ok()
    }

    fn look(&mut self, path: &Path) -> bool {
        let mut body = Vec::new();
        body.string(path.as_os_str().as_bytes());
        self.say(ToGofer::Look as u32, &body)
    }

    fn open(&mut self) -> bool {
        let mut body = Vec::new();
        body.string(b"out");
        body.byte(1);
        body.number(0);
        body.number(0);
        body.extend([0; 4]);
        self.say(ToGofer::Open as u32, &body)
    }

    fn batch(&mut self, script: &[u8]) -> bool {
        self.say(ToGofer::Batch as u32, &[&[0; 4], script].concat())
    }

    /// All that it says until it ends, and how it ends.
    fn ends(self) -> (Vec<u8>, std::io::ErrorKind) {
        let Peer { mut near, gofer } = self;
        near.shutdown(std::net::Shutdown::Write).expect("a socket");
        let mut said = Vec::new();
        let _ = near.read_to_end(&mut said);
        let end = gofer.join().expect("no panic");
        (said, end.expect_err("until the end").kind())
    }
}

fn stat(mode: u32) -> Stat {
    Stat {
        mode,
        size: 3,
        blocks: 8,
        ..Stat::default()
    }
}

fn head(sender: &mut Sender, name: &CStr, mode: u32, link: Option<u32>) -> Head {
    let mut xattrs = Xattrs::default();
    xattrs.push(c"user.a", b"1");
    sender.head(name, stat(mode), &xattrs, link)
}

fn enter(sender: &mut Sender, name: &CStr) {
    let head = head(sender, name, libc::S_IFDIR | 0o755, None);
    sender.push(Op::Enter(head));
}

fn begin(sender: &mut Sender, name: &CStr) {
    let head = head(sender, name, libc::S_IFREG | 0o644, None);
    sender.push(Op::Begin(head));
}

fn adopt(sender: &mut Sender) {
    let head = head(sender, c".", libc::S_IFDIR | 0o4711, None);
    sender.push(Op::Adopt(head));
}

/// A batch of these operations.
fn batch(fill: impl FnOnce(&mut Sender)) -> Batch {
    let (full, batches) = sync_channel(1);
    let mut sender = Sender::new(full, channel().1);
    fill(&mut sender);
    assert!(sender.flush().is_ok());
    batches.recv().expect("a batch")
}

fn told(fill: impl FnOnce(&mut Sender)) -> Vec<u8> {
    let mut script = Vec::new();
    assert!(script::write(&batch(fill), &mut script, |_| 0));
    script
}

/// A batch of all kinds of operations, as a reader would send it.
fn honest() -> Vec<u8> {
    told(all_kinds)
}

fn all_kinds(sender: &mut Sender) {
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

fn understood(script: Vec<u8>) -> wire::Result<Batch> {
    let memory = Memory::new().expect("memory");
    script::read(script, Vec::new(), memory.slot(0), |_| None)
}

#[test]
fn a_batch_is_understood_as_it_was_meant() {
    let batch = understood(honest()).expect("a batch");
    assert_eq!(batch.ops.len(), 9);
    let Op::Enter(head) = &batch.ops[0] else {
        panic!("a directory comes first");
    };
    assert_eq!(batch.name(head.name), c"d");
    let Op::File(head, data) = &batch.ops[1] else {
        panic!("then a file");
    };
    assert_eq!((head.link, head.stat.size, data.size()), (Some(0), 3, 3));
}

#[test]
fn names_that_are_none_of_an_entry_are_not_understood() {
    for name in [
        &b"..\0"[..],
        b".\0",
        b"\0",
        b"",
        b"a/b\0",
        b"/\0",
        b"a\0b\0",
        b"a",
    ] {
        let mut script = vec![6]; // Omit
        script.string(name);
        assert!(understood(script).is_err(), "{name:?}");
    }
}

#[test]
fn places_and_lengths_that_are_nowhere_are_not_understood() {
    let piece = |at: u64, start: u32, size: u32| {
        let mut script = vec![9];
        script.long(at);
        script.number(start);
        script.number(size);
        understood(script)
    };
    assert!(piece(0, 0, 10).is_ok());
    let most = i64::MAX as u64;
    for (at, start, size) in [
        (most, 0, 1),
        (u64::MAX, 0, 0),
        (0, u32::MAX, 1),
        (0, 1, u32::MAX),
        (0, 2 << 20, 0),
    ] {
        assert_eq!(piece(at, start, size).err(), Some(Malformed));
    }
    // A file that was never handed over.
    let mut range = vec![10];
    range.extend([0; 28]);
    assert!(understood(range).is_err());
    // A list that says it is longer than the message.
    let mut shares = vec![8];
    shares.number(0);
    shares.number(u32::MAX);
    assert!(understood(shares).is_err());
}

#[test]
fn a_reader_that_lies_ends_the_gofer_and_changes_nothing_beside_the_destination() {
    let honest = honest();
    let mut dice = Dice(0x5eed_0001);
    for _ in 0..300 {
        let rig = Rig::new();
        let before = rig.beside();
        let mut peer = rig.gofer(&rig.out());
        peer.look(&rig.out());
        peer.open();
        for _ in 0..4 {
            let mut script = honest.clone();
            for _ in 0..dice.roll(6) {
                let at = dice.roll(script.len());
                script[at] = match dice.roll(4) {
                    0 => b'/',
                    1 => b'.',
                    2 => 0xff,
                    _ => dice.roll(256) as u8,
                };
            }
            if dice.roll(5) == 0 {
                script.truncate(dice.roll(script.len()));
            }
            // Nothing of its mistakes is to fill the disk, or to stay for good.
            if !understood(script.clone()).is_ok_and(|batch| is_harmless(&batch)) {
                peer.say(dice.roll(7) as u32, &script[..script.len().min(64)]);
                continue;
            }
            peer.batch(&script);
        }
        let (_, end) = peer.ends();
        use std::io::ErrorKind::{BrokenPipe, ConnectionReset, InvalidData, UnexpectedEof};
        let ends = [BrokenPipe, ConnectionReset, InvalidData, UnexpectedEof];
        assert!(ends.contains(&end), "{end:?}");
        assert_eq!(rig.beside(), before);
    }
}

fn is_harmless(batch: &Batch) -> bool {
    batch.ops.iter().all(|op| match op {
        Op::Enter(head) | Op::Begin(head) | Op::File(head, _) => {
            head.stat.size < 1 << 20 && head.stat.flags.is_empty()
        }
        Op::Piece(at, _) => *at < 1 << 20,
        _ => true,
    })
}

#[test]
fn noise_ends_the_gofer() {
    let mut dice = Dice(0x5eed_0002);
    for _ in 0..200 {
        let rig = Rig::new();
        let before = rig.beside();
        let mut peer = rig.gofer(&rig.out());
        let noise: Vec<u8> = (0..dice.roll(200)).map(|_| dice.roll(256) as u8).collect();
        let _ = peer.near.write_all(&noise);
        peer.ends();
        assert_eq!(rig.beside(), before);
    }
}

#[test]
fn another_place_than_that_of_the_command_is_none() {
    let rig = Rig::new();
    let mut peer = rig.gofer(&rig.out());
    peer.look(&rig.0.join("beside"));
    let (said, end) = peer.ends();
    assert_eq!(
        (&said[..], end),
        (&b""[..], std::io::ErrorKind::InvalidData)
    );
}

#[test]
fn beside_a_new_destination_nothing_is_made_or_changed() {
    let rig = Rig::new();
    let new = rig.0.join("new");
    let before = rig.beside();
    let mut peer = rig.gofer(&new);
    peer.look(&new);
    peer.open();
    // Its names are others than `new`.
    peer.batch(&honest());
    // For the directory that the destination is in.
    peer.batch(&told(adopt));
    peer.say(ToGofer::End as u32, b"");
    peer.ends();
    assert_eq!(rig.beside(), before);
}

#[test]
fn links_in_the_destination_are_not_followed() {
    let rig = Rig::new();
    let before = rig.beside();
    let mut peer = rig.gofer(&rig.out());
    peer.look(&rig.out());
    peer.open();
    let script = honest();
    // The directory is called as the symlink that is there.
    let mut renamed = vec![script[0]];
    renamed.string(b"link\0");
    renamed.extend(&script[1 + 4 + 2..]);
    assert!(peer.batch(&renamed));
    assert!(peer.say(ToGofer::End as u32, b""));
    let (said, end) = peer.ends();
    assert_eq!(end, std::io::ErrorKind::UnexpectedEof);
    let kinds = kinds(&said);
    assert_eq!(kinds.last(), Some(&(FromGofer::Ended as u32)), "{kinds:?}");
    assert_eq!(rig.beside(), before);
    let listed = std::fs::read_dir(rig.out()).expect("a listing").count();
    assert_eq!(listed, 1);
}

fn kinds(mut said: &[u8]) -> Vec<u32> {
    let mut kinds = Vec::new();
    while let Some(header) = said.first_chunk::<HEADER>() {
        let (kind, length) = wire::header(*header);
        kinds.push(kind);
        said = &said[HEADER + length..];
    }
    kinds
}

#[test]
fn only_files_and_disks_are_taken_to_copy_from() {
    let rig = Rig::new();
    let file = File::open(rig.0.join("beside/precious")).expect("a file");
    let directory = File::open(&rig.0).expect("a directory");
    let null = File::open("/dev/null").expect("a device");
    for (handed, end) in [
        (&file, std::io::ErrorKind::UnexpectedEof),
        (&directory, std::io::ErrorKind::InvalidData),
        (&null, std::io::ErrorKind::InvalidData),
    ] {
        let peer = rig.gofer(&rig.out());
        let mut message = Vec::new();
        wire::begin(&mut message, ToGofer::File as u32);
        message.number(7);
        wire::seal(&mut message);
        let sent = files::send(&peer.near, &message, handed).expect("sent");
        assert_eq!(sent, message.len());
        assert_eq!(peer.ends().1, end, "{handed:?}");
    }
}

#[test]
fn a_file_keeps_its_number_until_others_need_it() {
    let mut numbers = files::Numbers::default();
    let open = || Arc::new(File::open("/dev/null").expect("a file"));
    let first = open();
    numbers.begin();
    assert_eq!(numbers.of(&first), 0);
    assert_eq!(numbers.unsent().len(), 1);
    numbers.begin();
    assert_eq!(numbers.of(&first), 0);
    assert_eq!(numbers.unsent().len(), 0);
    // As many as a batch may have, beside one that it has not.
    numbers.begin();
    let all: Vec<_> = (0..super::FILES).map(|_| open()).collect();
    let mut given: Vec<_> = all.iter().map(|file| numbers.of(file)).collect();
    given.sort_unstable();
    given.dedup();
    assert_eq!(given.len(), super::FILES);
    assert_eq!(numbers.unsent().len(), super::FILES);
    assert_eq!(numbers.of(&all[3]), numbers.of(&all[3].clone()));
}

#[test]
fn memory_that_is_another_ones_is_not_filled() {
    let memory = Memory::new().expect("memory");
    assert!(Room::Theirs(memory.slot(0)).bytes().is_empty());
}
