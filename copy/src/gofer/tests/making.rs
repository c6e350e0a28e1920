//! Files that the reader of a session fills: they get the name that was said first, nothing
//! goes unasked, and a reader that lies has made nothing.

use super::super::wire::Put;
use super::super::{far, Finish, Gofer, Memory, Nobody, Terms, ToGofer};
use super::{Peer, Rig};
use std::fs::Permissions;
use std::io::{ErrorKind, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread::JoinHandle;
use tane_linux::Errno;
use tane_test_support::Dice;

const TERMS: Terms = Terms::Session { mode: 0o640 };

/// Both ends.
fn pair() -> (Gofer, JoinHandle<std::io::Result<()>>) {
    let (near, far) = UnixStream::pair().expect("a pair");
    // No batch is sent: each has one of its own.
    let [own, other] = [(); 2].map(|()| Memory::new().expect("memory"));
    let serve = move || far::serve(&OwnedFd::from(far).into(), other, TERMS, &Nobody);
    let gofer = std::thread::spawn(serve);
    (Gofer::new(near, own, &TERMS).expect("a gofer"), gofer)
}

fn bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}

fn names(rig: &Rig) -> Vec<String> {
    let all = std::fs::read_dir(rig.out()).expect("a listing").flatten();
    let all = all.map(|entry| entry.file_name().into_string().expect("text"));
    let mut all: Vec<_> = all.collect();
    all.sort();
    all
}

#[test]
fn a_file_gets_its_name_when_it_is_complete_and_replaces_none_unasked() {
    let rig = Rig::new();
    let beside = rig.beside();
    let (gofer, _) = pair();
    let at = rig.out().join("new");
    let text = || std::fs::read_to_string(&at).expect("a file");
    let make = |what: &str| {
        let mut file = gofer.make(bytes(&at), true).expect("it is made");
        file.write_all(what.as_bytes()).expect("it is written");
    };
    make("first");
    assert!(!at.exists() && names(&rig).len() == 2);
    gofer.finish(Finish::New).expect("its name");
    assert_eq!(text(), "first");
    let mode = at.metadata().expect("stat").permissions().mode();
    assert_eq!(mode & 0o7777, 0o640);
    make("second");
    assert_eq!(gofer.finish(Finish::New), Err(Errno(libc::EEXIST)));
    assert_eq!((text(), names(&rig).len()), ("first".into(), 2));
    make("third");
    gofer.finish(Finish::Dropped).expect("it goes");
    make("fourth");
    gofer.finish(Finish::Replaces).expect("its name");
    assert_eq!((text(), names(&rig).len()), ("fourth".into(), 2));
    assert_eq!(rig.beside(), beside);
}

#[test]
fn what_is_not_complete_when_nobody_asks_any_more_goes() {
    let rig = Rig::new();
    let (gofer, thread) = pair();
    let _file = gofer.make(bytes(&rig.out().join("new")), true);
    assert_eq!(names(&rig).len(), 2);
    drop(gofer);
    let end = thread.join().expect("no panic").expect_err("its end");
    assert_eq!(end.kind(), ErrorKind::UnexpectedEof);
    assert_eq!(names(&rig), ["link"]);
}

#[test]
fn of_what_is_there_only_files_are_written_and_no_link_is_followed() {
    let rig = Rig::new();
    let out = rig.out();
    std::fs::write(out.join("there"), "what was there").expect("a file");
    std::os::unix::fs::symlink("there", out.join("soft")).expect("a link");
    let (gofer, _) = pair();
    let there = out.join("there");
    let mut file = gofer.make(bytes(&there), false).expect("it is opened");
    file.write_all(b"it").expect("it is written");
    gofer.finish(Finish::Dropped).expect("it stays");
    let text = std::fs::read_to_string(&there).expect("a file");
    assert_eq!(text, "itat was there");
    for (name, errno) in [
        ("soft", libc::EACCES),
        ("link", libc::EACCES),
        (".", libc::EACCES),
        ("none", libc::ENOENT),
        ("none/new", libc::ENOENT),
    ] {
        let found = gofer.make(bytes(&out.join(name)), false).map(drop);
        assert_eq!(found, Err(Errno(errno)), "{name}");
    }
    let found = gofer.make(bytes(&rig.0.join("beside")), false).map(drop);
    assert_eq!(found, Err(Errno(libc::EACCES)));
}

#[test]
fn a_directory_that_nothing_can_be_made_in_is_an_error() {
    let rig = Rig::new();
    let (gofer, _) = pair();
    let long = rig.out().join("n".repeat(255));
    let found = gofer.make(bytes(&long), true).map(drop);
    assert_eq!(found, Err(Errno(libc::ENAMETOOLONG)));
    std::fs::set_permissions(rig.out(), Permissions::from_mode(0o700)).expect("chmod");
    gofer
        .make(bytes(&rig.out().join("new")), true)
        .expect("it goes on");
}

fn make(peer: &mut Peer, path: &[u8], is_new: u8) -> bool {
    let mut body = Vec::new();
    body.string(path);
    body.byte(is_new);
    peer.say(ToGofer::Make as u32, &body)
}

#[test]
fn a_reader_that_says_what_none_does_has_made_nothing() {
    type Lie = fn(&mut Peer, &Path);
    let lies: [Lie; 7] = [
        // Nothing was made.
        |peer, _| {
            peer.say(ToGofer::Finish as u32, &[1]);
        },
        // Twice.
        |peer, at| {
            make(peer, bytes(at), 1);
            make(peer, bytes(at), 1);
        },
        |peer, at| {
            make(peer, bytes(at), 1);
            peer.say(ToGofer::Finish as u32, &[3]);
        },
        |peer, at| {
            make(peer, bytes(at), 1);
            peer.say(ToGofer::Finish as u32, &[1, 1]);
        },
        |peer, _| {
            make(peer, b"relative", 1);
        },
        |peer, at| {
            make(peer, bytes(at), 2);
        },
        |peer, at| {
            make(peer, bytes(at), 1);
            peer.batch(b"");
        },
    ];
    for (number, lie) in lies.into_iter().enumerate() {
        let rig = Rig::new();
        let mut peer = rig.with_terms(TERMS);
        lie(&mut peer, &rig.out().join("new"));
        assert_eq!(peer.ends().1, ErrorKind::InvalidData, "{number}");
        assert_eq!(names(&rig), ["link"], "{number}");
    }
    // A command's gofer makes none.
    let rig = Rig::new();
    let mut peer = rig.gofer(&rig.out());
    make(&mut peer, bytes(&rig.out().join("new")), 1);
    assert_eq!(peer.ends().1, ErrorKind::InvalidData);
    assert_eq!(names(&rig), ["link"]);
}

#[test]
fn whatever_a_reader_says_what_has_no_name_goes() {
    let mut dice = Dice(0x5eed_0011);
    for round in 0..200 {
        let rig = Rig::new();
        let mut peer = rig.with_terms(TERMS);
        for _ in 0..dice.roll(8) {
            let mut body = Vec::new();
            match dice.roll(3) {
                0 => drop(peer.say(ToGofer::Finish as u32, &[dice.roll(4) as u8])),
                _ => {
                    body.string(bytes(
                        &rig.out().join(["new", "other", "link"][dice.roll(3)]),
                    ));
                    body.byte(dice.roll(2) as u8);
                    let at = dice.roll(body.len());
                    if dice.roll(3) == 0 {
                        body[at] = dice.roll(256) as u8;
                    }
                    peer.say(ToGofer::Make as u32, &body);
                }
            }
        }
        peer.ends();
        let left = names(&rig);
        assert!(
            left.iter().all(|name| !name.contains(".tane-")),
            "{round}: {left:?}"
        );
        let precious = std::fs::read(rig.0.join("beside/precious")).expect("it is there");
        assert_eq!(precious, b"precious");
    }
}
