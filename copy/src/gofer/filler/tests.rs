//! A writer that lies: the reader ends with an error, or goes on, and nothing that is said
//! leads anywhere. And a reader that says what none does.

use super::super::super::source::source;
use super::super::super::{read, Destination, Settings, SparseMode, Tally, What};
use super::super::lender::{Lent, Loan};
use super::super::tests::answers::lie;
use super::super::wire::{self, Put};
use super::super::{FromGofer, ToGofer};
use super::{Filler, Filling, Refusal};
use crate::patterns::Excludes;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use tane_linux::{Host, Root, Sys};
use tane_test_support::{Dice, Scratch};

static HOST: Host = Host;

struct Rig(Scratch);

impl Rig {
    /// A tree of more than is under way at once, and an empty directory.
    fn new() -> Rig {
        let rig = Rig(Scratch::new("filler"));
        std::fs::create_dir_all(rig.at("tree/below")).expect("mkdir");
        std::fs::create_dir(rig.at("out")).expect("mkdir");
        for (name, size) in [("small", 10), ("below/large", 9 << 20), ("empty", 0)] {
            let content: Vec<u8> = (0..size).map(|i: u32| (i / 7) as u8).collect();
            std::fs::write(rig.at("tree").join(name), content).expect("write");
        }
        rig
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Fills by whoever has the other end.
    fn fill(&self, filler: Filler, tally: &Tally) -> Result<(), Refusal> {
        let tree = self.at("tree");
        let root = Root::host(Sys(&HOST));
        let path = tree.as_os_str().as_bytes();
        let from = source(&root, path, b"tree".to_vec(), None, false);
        let excludes = Excludes::new(&[]);
        let what = What {
            sources: vec![from.expect("a directory")],
            excludes: &excludes,
            host_blocks: None,
        };
        filler.fill(b"the order", tally, |out| {
            read(what, out, None, false, SparseMode::Auto, tally);
        })
    }
}

/// Both ends, as two processes would have them.
fn ends() -> (Filler, File, Lent) {
    let (near, far) = UnixStream::pair().expect("a pair");
    let (lent, borrowed) = Loan::new().expect("memory").both();
    let filler = Filler::new(near, lent).expect("a socket");
    (filler, OwnedFd::from(far).into(), borrowed)
}

fn write(rig: &Rig, socket: &File, memory: &Lent) -> io::Result<Vec<u8>> {
    let mut filling = Filling::new(socket, memory);
    let order = filling.order()?;
    let out = rig.at("out");
    let dir = Root::host(Sys(&HOST)).open_dir(out.as_os_str().as_bytes());
    let to = Destination {
        dir: dir.expect("a directory"),
        shown: Vec::new(),
        avoid: None,
    };
    let settings = Settings {
        no_umask: true,
        ..Settings::default()
    };
    filling.write(to, settings, false)?;
    filling.end(Ok(()))?;
    Ok(order)
}

#[test]
fn what_is_read_is_written_by_the_other_process() {
    let rig = Rig::new();
    let (filler, socket, memory) = ends();
    let tally = Tally::default();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| write(&rig, &socket, &memory));
        assert_eq!(rig.fill(filler, &tally), Ok(()));
        let order = writer.join().expect("no panic");
        assert_eq!(order.expect("told"), b"the order");
    });
    assert!(tally.failures().is_empty());
    for name in ["small", "below/large", "empty"] {
        let [from, to] = ["tree", "out/tree"].map(|dir| rig.at(dir).join(name));
        let [from, to] = [from, to].map(|path| std::fs::read(path).expect("a file"));
        assert!(from == to, "{name}");
    }
}

#[test]
fn why_nothing_is_written_is_told_and_so_is_the_death_of_who_writes() {
    let rig = Rig::new();
    let (filler, socket, memory) = ends();
    let refusal = Refusal {
        code: 3,
        text: "no memory".into(),
    };
    let told = Filling::new(&socket, &memory).end(Err(refusal.clone()));
    told.expect("room in the socket");
    assert_eq!(rig.fill(filler, &Tally::default()), Err(refusal));

    let (filler, socket, _memory) = ends();
    drop(socket);
    let dead = rig.fill(filler, &Tally::default()).expect_err("nobody");
    assert!(dead.code == 0 && dead.text.contains("has died"), "{dead:?}");
}

/// What a writer would say, and what none does.
fn lies(socket: File, dice: &mut Dice) {
    let mut ended = Vec::new();
    ended.extend_from_slice(&[0, 1]);
    ended.string(b"failed");
    let mut said = vec![5];
    said.string(b"a/name");
    said.number(5);
    let talk: [(FromGofer, &[u8]); 6] = [
        (FromGofer::Opened, b""),
        (FromGofer::Done, b""),
        (FromGofer::Said, &said),
        (FromGofer::Done, b""),
        (FromGofer::Seen, &[0; 9]),
        (FromGofer::Ended, &ended),
    ];
    lie(socket, dice, &talk);
}

#[test]
fn a_writer_that_lies_ends_the_copy_or_says_what_failed() {
    let rig = Rig::new();
    let mut dice = Dice(0x5eed_0004);
    let mut failed = 0;
    for _ in 0..400 {
        let (filler, socket, memory) = ends();
        let tally = Tally::default();
        let mut own = Dice(dice.roll(1 << 31) as u64 + 1);
        let done = std::thread::scope(|scope| {
            scope.spawn(move || {
                memory.words_are(own.roll(256) as u32);
                lies(socket, &mut own);
            });
            rig.fill(filler, &tally)
        });
        failed += u32::from(done.is_err());
        for failure in tally.failures() {
            assert!(failure.path.len() < 4096);
        }
    }
    // By chance one or the other says that all is well.
    assert!(failed > 200, "{failed}");
    // Nothing became of it.
    let mut names = std::fs::read_dir(rig.at("out")).expect("a listing");
    assert!(names.next().is_none());
}

#[test]
fn a_message_longer_than_any_is_not_waited_for() {
    let rig = Rig::new();
    let (filler, mut socket, _memory) = ends();
    let mut header = (FromGofer::Said as u32).to_le_bytes().to_vec();
    header.extend_from_slice(&u32::MAX.to_le_bytes());
    socket.write_all(&header).expect("room in the socket");
    // The socket stays open: nobody ends this but who reads.
    assert!(rig.fill(filler, &Tally::default()).is_err());
}

#[test]
fn what_no_reader_says_ends_the_writer() {
    let rig = Rig::new();
    let open = (ToGofer::Open as u32, Vec::new());
    let end = (ToGofer::End as u32, Vec::new());
    let batch = |body: &[u8]| (ToGofer::Batch as u32, body.to_vec());
    let talks = [
        vec![end.clone()],
        vec![batch(&[0; 4])],
        vec![(99, Vec::new())],
        vec![open.clone(), open.clone()],
        vec![open.clone(), batch(&[])],
        vec![open.clone(), batch(&[0xff; 4])],
        vec![open.clone(), batch(&[0, 0, 0, 0, 99])],
        vec![open.clone(), (ToGofer::File as u32, vec![0; 4])],
    ];
    for talk in talks {
        let (filler, socket, memory) = ends();
        let mut line = filler.line;
        for (kind, body) in &talk {
            let mut message = Vec::new();
            wire::begin(&mut message, *kind);
            message.extend_from_slice(body);
            line.say(&mut message, None, || {}).expect("room");
        }
        let done = write(&rig, &socket, &memory);
        let kind = done.expect_err("ended").kind();
        assert_eq!(kind, io::ErrorKind::InvalidData, "{talk:?}");
    }
}
