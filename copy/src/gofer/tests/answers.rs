//! Who answers lies: whatever it says, whoever asked ends, and reads and writes no more than
//! it was to.

use super::super::super::source::source;
use super::super::super::{read, Destination, SparseMode, Tally, What};
use super::super::lender::{self, Lender, Loan, Named, Wanted};
use super::super::wire::{self, Put, HEADER};
use super::super::{FromGofer, Gofer, Memory, Terms, Wish};
use super::{settings, Rig};
use crate::patterns::Excludes;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;
use tane_linux::{Host, Root, Sys};
use tane_test_support::Dice;

static HOST: Host = Host;

/// Changes a message, or does not.
fn damage(kind: &mut u32, body: &mut Vec<u8>, dice: &mut Dice) {
    if dice.roll(20) == 0 {
        *kind = dice.roll(12) as u32;
    }
    for _ in 0..dice.roll(4) {
        if !body.is_empty() {
            let at = dice.roll(body.len().min(200));
            body[at] = match dice.roll(4) {
                0 => b'/',
                1 => b'.',
                2 => 0xff,
                _ => dice.roll(256) as u8,
            };
        }
    }
    if dice.roll(20) == 0 {
        body.truncate(dice.roll(body.len() + 1));
    }
}

fn message(kind: u32, body: &[u8]) -> Vec<u8> {
    let mut message = Vec::new();
    wire::begin(&mut message, kind);
    message.extend_from_slice(body);
    wire::seal(&mut message);
    message
}

/// Says some of this, and what it never means, and takes what it is sent, as far as it
/// likes; the first is mostly what is waited for first.
pub fn lie(socket: File, dice: &mut Dice, talk: &[(FromGofer, &[u8])]) {
    let mut socket = UnixStream::from(OwnedFd::from(socket));
    // Two that wait for each other would be for whoever set a time limit.
    socket.set_nonblocking(true).expect("a socket");
    for round in 0..dice.roll(60) {
        let (kind, body) = match talk.get(round) {
            Some(next) if dice.roll(4) > 0 => *next,
            _ => talk[dice.roll(talk.len())],
        };
        let (mut kind, mut body) = (kind as u32, body.to_vec());
        if dice.roll(2) == 0 {
            damage(&mut kind, &mut body, dice);
        }
        let mut message = message(kind, &body);
        if dice.roll(30) == 0 {
            // A length that never comes.
            message[4..HEADER].copy_from_slice(&(dice.roll(1 << 31) as u32).to_le_bytes());
        }
        if socket.write_all(&message).is_err() {
            return;
        }
        if dice.roll(2) == 0 {
            let _ = socket.read(&mut [0; 4096]);
        }
    }
}

/// Passes on what both say, and changes some of what the one says, until either is gone or
/// that one has nothing to say for a while.
fn distort(mut liar: UnixStream, honest: UnixStream, dice: &mut Dice) {
    const SILENCE: Duration = Duration::from_millis(300);
    liar.set_read_timeout(Some(SILENCE)).expect("a socket");
    let mut words = honest.try_clone().expect("a socket");
    let mut ear = liar.try_clone().expect("a socket");
    let honest = &honest;
    let mut pass = |dice: &mut Dice| -> io::Result<()> {
        let mut header = [0; HEADER];
        liar.read_exact(&mut header)?;
        let (mut kind, length) = wire::header(header);
        let mut body = vec![0; length];
        liar.read_exact(&mut body)?;
        if dice.roll(3) == 0 {
            damage(&mut kind, &mut body, dice);
        }
        { honest }.write_all(&message(kind, &body))
    };
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let _ = io::copy(&mut words, &mut ear);
            let _ = ear.shutdown(Shutdown::Both);
        });
        while pass(dice).is_ok() {}
        let _ = honest.shutdown(Shutdown::Both);
    });
}

/// What is copied, of which nothing is in the destination's place.
fn tree(rig: &Rig) {
    let tree = rig.0.join("tree");
    std::fs::create_dir_all(tree.join("below/deep")).expect("mkdir");
    for name in ["first", "below/second", "below/deep/third"] {
        std::fs::write(tree.join(name), name.repeat(500)).expect("write");
    }
    std::os::unix::fs::symlink("../beside/precious", tree.join("link")).expect("symlink");
    std::fs::hard_link(tree.join("first"), tree.join("again")).expect("link");
}

fn bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}

#[test]
fn a_lender_that_lies_has_nothing_written_but_where_the_copy_goes() {
    let rig = Rig::new();
    tree(&rig);
    let before = rig.beside();
    let mut dice = Dice(0x5eed_0005);
    let wanted = Wanted {
        sources: vec![Named {
            path: bytes(&rig.0.join("tree")).to_vec(),
            shown: b"tree".to_vec(),
            follow: false,
        }],
        ..Wanted::default()
    };
    let (mut well, mut failed) = (0, 0);
    for _ in 0..300 {
        let terms = lender::Terms::Copy(wanted.clone());
        let (near, honest) = UnixStream::pair().expect("a pair");
        let (liar, far) = UnixStream::pair().expect("a pair");
        let (lent, borrowed) = Loan::new().expect("memory").both();
        let tally = Tally::default();
        let mut own = Dice(dice.roll(1 << 31) as u64 + 1);
        std::thread::scope(|scope| {
            let lender = Lender::new(near, borrowed, &terms).expect("a socket");
            scope.spawn(move || lender::serve(&OwnedFd::from(far).into(), &lent, terms));
            scope.spawn(move || distort(liar, honest, &mut own));
            // Its socket goes when this ends, and so do the others.
            let mut chosen = lender.choose(&wanted, 0).expect("chosen");
            if chosen.open(None).is_ok() {
                let to = Destination {
                    dir: Root::host(Sys(&HOST))
                        .open_dir(bytes(&rig.out()))
                        .expect("a directory"),
                    shown: Vec::new(),
                    avoid: None,
                };
                chosen.write(to, settings(), &tally);
            }
        });
        match tally.failures().is_empty() {
            true => well += 1,
            false => failed += 1,
        }
        assert_eq!(rig.beside(), before);
    }
    // By chance nothing mattered, too.
    assert!(well > 0 && failed > 50, "{well} {failed}");
}

#[test]
fn a_gofer_that_lies_ends_the_copy() {
    let rig = Rig::new();
    tree(&rig);
    let out = rig.out();
    let before = rig.beside();
    let mut seen = vec![0; 4];
    seen.byte(2);
    seen.string(bytes(&out));
    let mut said = vec![5];
    said.string(b"a/name");
    said.number(5);
    let talk: [(FromGofer, &[u8]); 7] = [
        (FromGofer::Seen, &seen),
        (FromGofer::Opened, &[0, 0, 0, 0, 1]),
        (FromGofer::Done, b""),
        (FromGofer::Said, &said),
        (FromGofer::Ended, b""),
        (FromGofer::Said, b""),
        (FromGofer::Counted, &[0; 16]),
    ];
    let terms = Terms::Copy {
        place: bytes(&out).to_vec(),
        settings: settings(),
        names: None,
        adopts: true,
    };
    let mut dice = Dice(0x5eed_0006);
    let mut begun = 0;
    // On a busy machine fewer come so far: the liar may have gone before it was asked.
    for round in 0..4000 {
        if round >= 400 && begun > 20 {
            break;
        }
        let (near, far) = UnixStream::pair().expect("a pair");
        let memory = Memory::new().expect("memory");
        let gofer = Gofer::new(near, memory, &terms).expect("a socket");
        let mut own = Dice(dice.roll(1 << 31) as u64 + 1);
        std::thread::scope(|scope| {
            scope.spawn(move || lie(OwnedFd::from(far).into(), &mut own, &talk));
            let wish = Wish {
                gofer: &gofer,
                settings: settings(),
                guarded: false,
                verbose: true,
            };
            if wish.look(bytes(&out)).is_err() {
                return;
            }
            let Ok(opened) = wish.open(b"out") else {
                return;
            };
            begun += 1;
            let tally = Tally::default();
            let root = Root::host(Sys(&HOST));
            let from = source(
                &root,
                bytes(&rig.0.join("tree")),
                b"tree".to_vec(),
                None,
                false,
            );
            let excludes = Excludes::new(&[]);
            let what = What {
                sources: vec![from.expect("a directory")],
                excludes: &excludes,
                host_blocks: None,
            };
            let sender = super::super::super::SenderBy::carrier(opened.carrier(&tally));
            read(what, sender, None, false, SparseMode::Auto, &tally);
        });
    }
    assert!(begun > 20, "{begun}");
    assert_eq!(rig.beside(), before);
}
