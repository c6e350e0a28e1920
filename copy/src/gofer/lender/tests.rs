//! A writer that lies: the lender ends, or goes on with the sources that were named. And
//! sources that change while they are read.

use super::super::super::batch::{Op, BATCHES, DATA};
use super::super::super::{Destination, Settings, Tally};
use super::super::wire::{self, Put, HEADER};
use super::super::{said, script, FromGofer};
use super::{serve, Lender, Lent, Loan, Named, Terms, ToLender, Wanted};
use std::fs::File;
use std::io::ErrorKind::{InvalidData, UnexpectedEof};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use tane_linux::{Errno, Host, Root, Sys};
use tane_test_support::{Dice, Scratch};

static HOST: Host = Host;
/// What is in a file that nobody named, and what that is called.
const SECRET: &[u8] = b"to be kept";
const HIDDEN: &[u8] = b"hidden-name";

/// A directory with a source, `tree`, and beside it what nobody named.
struct Rig(Scratch);

impl Rig {
    fn new() -> Rig {
        let rig = Rig(Scratch::new("lender"));
        std::fs::create_dir_all(rig.at("tree/below")).expect("mkdir");
        std::fs::create_dir(rig.at("beside")).expect("mkdir");
        let hidden = Path::new("beside").join(std::ffi::OsStr::from_bytes(HIDDEN));
        std::fs::write(rig.0.join(hidden), SECRET).expect("write");
        std::fs::write(rig.at("tree/file"), b"content").expect("write");
        std::os::unix::fs::symlink("../beside", rig.at("tree/link")).expect("symlink");
        rig
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn named(&self, name: &str) -> Named {
        Named {
            path: self.at(name).as_os_str().as_bytes().to_vec(),
            shown: name.into(),
            follow: false,
        }
    }

    /// Of a command that copies these.
    fn lender(&self, names: &[&str]) -> Peer {
        Peer::new(Terms::Copy(Wanted {
            sources: names.iter().map(|name| self.named(name)).collect(),
            ..Wanted::default()
        }))
    }
}

/// As two processes would, in one.
fn memory() -> (Lent, Lent) {
    let loan = Loan::new().expect("memory");
    loan.both()
}

/// Who talks to a lender.
struct Peer {
    near: UnixStream,
    memory: Lent,
    lender: JoinHandle<std::io::Result<()>>,
}

impl Peer {
    fn new(terms: Terms) -> Peer {
        let (near, far) = UnixStream::pair().expect("a pair");
        let (lent, memory) = memory();
        let lender = std::thread::spawn(move || serve(&OwnedFd::from(far).into(), &lent, terms));
        Peer {
            near,
            memory,
            lender,
        }
    }

    /// False: nobody hears.
    fn say(&mut self, kind: u32, body: &[u8]) -> bool {
        let mut message = Vec::new();
        wire::begin(&mut message, kind);
        message.extend_from_slice(body);
        wire::seal(&mut message);
        self.near.write_all(&message).is_ok()
    }

    fn look(&mut self, number: u32) -> bool {
        self.say(ToLender::Look as u32, &number.to_le_bytes())
    }

    fn open(&mut self, to: &[u8], numbers: &[u32]) -> bool {
        let mut body = Vec::new();
        body.string(to);
        numbers.iter().for_each(|number| body.number(*number));
        self.say(ToLender::Open as u32, &body)
    }

    fn read(&mut self) -> bool {
        self.say(ToLender::Read as u32, &[0])
    }

    fn free(&mut self) -> bool {
        self.say(ToLender::Free as u32, b"")
    }

    fn hear(&mut self) -> (u32, Vec<u8>) {
        let mut header = [0; HEADER];
        self.near.read_exact(&mut header).expect("an answer");
        let (kind, length) = wire::header(header);
        let mut body = vec![0; length];
        self.near.read_exact(&mut body).expect("all of it");
        (kind, body)
    }

    fn heard(&mut self, kind: FromGofer) -> Vec<u8> {
        let (found, body) = self.hear();
        assert_eq!(found, kind as u32);
        body
    }

    /// All that it says until it ends, with what is in the memory, and how it ends.
    fn ends(self) -> (Vec<u8>, ErrorKind) {
        let Peer {
            mut near,
            memory,
            lender,
        } = self;
        near.shutdown(std::net::Shutdown::Write).expect("a socket");
        let mut said = Vec::new();
        let _ = near.read_to_end(&mut said);
        let end = lender.join().expect("no panic");
        for slot in 0..BATCHES {
            // Of files that are small.
            said.extend_from_slice(&memory.borrowed(slot)[..4096]);
        }
        (said, end.expect_err("until the end").kind())
    }
}

fn has(said: &[u8], what: &[u8]) -> bool {
    said.windows(what.len()).any(|part| part == what)
}

#[track_caller]
fn is_refused(say: impl FnOnce(&mut Peer) -> bool) {
    let rig = Rig::new();
    let mut peer = rig.lender(&["tree"]);
    say(&mut peer);
    assert_eq!(peer.ends().1, InvalidData);
}

#[test]
fn what_no_writer_says_ends_the_lender() {
    // Numbers of nothing.
    is_refused(|peer| peer.look(1));
    is_refused(|peer| peer.look(u32::MAX));
    is_refused(|peer| peer.open(b"", &[0, 1]));
    // Names that are none of an entry.
    for name in [&b".."[..], b".", b"a/b", b"/", b"a\0b"] {
        is_refused(|peer| peer.open(name, &[0]));
    }
    // What was not opened, or is not under way.
    is_refused(|peer| peer.read());
    is_refused(|peer| peer.free());
    is_refused(|peer| peer.say(ToLender::Count as u32, b""));
    is_refused(|peer| peer.open(b"", &[0]) && peer.read() && peer.read());
    is_refused(|peer| peer.open(b"", &[0]) && peer.say(ToLender::Read as u32, &[2]));
    is_refused(|peer| peer.say(0, b""));
    is_refused(|peer| peer.say(7, b""));
}

#[test]
fn a_command_has_the_sources_that_its_user_named() {
    let rig = Rig::new();
    let mut peer = rig.lender(&["tree"]);
    let mut body = vec![0];
    body.number(0);
    body.string(rig.at("beside").as_os_str().as_bytes());
    body.string(b"");
    body.byte(0);
    peer.say(ToLender::Wanted as u32, &body);
    let (said, end) = peer.ends();
    assert_eq!(end, InvalidData);
    assert!(!has(&said, HIDDEN) && !has(&said, SECRET));
}

#[test]
fn a_session_reads_what_it_was_given_and_nothing_else() {
    let rig = Rig::new();
    let given = rig.at("tree");
    let inside = given.join("below");
    let paths = [
        (given.join("file"), true),
        (inside.join("../file"), true),
        // The symlink itself, and what it points to.
        (given.join("link"), true),
        (given.join("link/"), false),
        (given.join("link/."), false),
        (given.join("link/hidden-name"), false),
        (given.join(".."), false),
        (given.join("../beside"), false),
        (rig.at("beside/hidden-name"), false),
        (PathBuf::from("tree"), false),
        (PathBuf::from(""), false),
        (PathBuf::from("/"), false),
    ];
    for follow in [false, true] {
        let mut peer = Peer::new(Terms::Session(vec![given.clone()]));
        for (path, is_given) in &paths {
            let mut body = vec![0];
            body.number(0);
            body.string(path.as_os_str().as_bytes());
            body.string(b"shown");
            body.byte(follow.into());
            assert!(peer.say(ToLender::Wanted as u32, &body) && peer.open(b"", &[0]));
            let opened = peer.heard(FromGofer::Opened);
            let error = u32::from_le_bytes(*opened.first_chunk().expect("a number"));
            let is_given = *is_given && !(follow && path.ends_with("link"));
            assert_eq!(error == 0, is_given, "{path:?} {follow}");
        }
        assert_eq!(peer.ends().1, UnexpectedEof);
    }
}

#[test]
fn a_writer_that_lies_learns_nothing_but_the_sources() {
    let rig = Rig::new();
    let mut opening = Vec::new();
    opening.string(b"to");
    opening.number(0);
    let talk: [(ToLender, &[u8]); 5] = [
        (ToLender::Look, &[0; 4]),
        (ToLender::Open, &opening),
        (ToLender::Count, b""),
        (ToLender::Read, &[0]),
        (ToLender::Free, b""),
    ];
    let mut dice = Dice(0x5eed_0003);
    for round in 0..400 {
        // In a session it says names, too.
        let mut peer = match round % 2 {
            0 => rig.lender(&["tree"]),
            _ => Peer::new(Terms::Session(vec![rig.at("tree")])),
        };
        let mut naming = vec![0];
        naming.number(1);
        naming.string(b"*.o");
        naming.string(rig.at("tree").as_os_str().as_bytes());
        naming.string(b"tree");
        naming.byte(0);
        let named = [(ToLender::Wanted, &naming[..])];
        let said = named.iter().filter(|_| round % 2 == 1).chain(&talk);
        for (kind, body) in said {
            let (mut kind, mut body) = (*kind as u32, body.to_vec());
            if dice.roll(8) == 0 {
                kind = dice.roll(9) as u32;
            }
            for _ in 0..dice.roll(3) {
                if !body.is_empty() {
                    let at = dice.roll(body.len());
                    body[at] = match dice.roll(4) {
                        0 => b'/',
                        1 => b'.',
                        2 => 0xff,
                        _ => dice.roll(256) as u8,
                    };
                }
            }
            if dice.roll(6) == 0 {
                body.truncate(dice.roll(body.len() + 1));
            }
            peer.memory.words_are(dice.roll(256) as u32);
            peer.say(kind, &body);
        }
        let (said, end) = peer.ends();
        let ends = [
            ErrorKind::BrokenPipe,
            ErrorKind::ConnectionReset,
            InvalidData,
            UnexpectedEof,
        ];
        assert!(ends.contains(&end), "{end:?}");
        assert!(!has(&said, HIDDEN) && !has(&said, SECRET));
    }
    // To who says what is true it is sent.
    let mut peer = rig.lender(&["tree"]);
    let honest = talk.iter().all(|(kind, body)| peer.say(*kind as u32, body));
    assert!(honest && has(&peer.ends().0, b"content"));
}

#[test]
fn data_is_not_to_be_written_by_who_borrows_it() {
    let (lent, borrowed) = memory();
    let (ours, theirs) = (lent.slot(0), borrowed.slot(0));
    // SAFETY: memory of this test alone.
    unsafe {
        ours.at.write(7);
        assert_eq!(theirs.at.read(), 7);
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        assert_eq!(libc::mprotect(theirs.at.cast(), 4096, rights), -1);
    }
    assert_eq!(
        std::io::Error::last_os_error().raw_os_error(),
        Some(libc::EACCES)
    );
}

#[test]
fn files_that_change_or_go_while_others_are_read_are_told() {
    let rig = Rig::new();
    let names = ["first", "gone", "shorter", "longer", "last"];
    let many = (BATCHES + 2) * DATA;
    for name in names {
        let size = if name == "first" { many } else { 100 };
        std::fs::write(rig.at(name), vec![1; size]).expect("write");
    }
    let mut peer = rig.lender(&names);
    assert!(peer.open(b"", &[0, 1, 2, 3, 4]) && peer.read());
    peer.heard(FromGofer::Opened);
    // So many are sent before it waits.
    let mut batches: Vec<_> = (0..BATCHES).map(|_| peer.heard(FromGofer::Batch)).collect();
    let cut = (BATCHES + 1) * DATA + 5;
    let first = File::options().write(true).open(rig.at("first"));
    first.expect("a file").set_len(cut as u64).expect("shorter");
    std::fs::remove_file(rig.at("gone")).expect("gone");
    std::fs::write(rig.at("shorter"), [2; 7]).expect("shorter");
    std::fs::write(rig.at("longer"), vec![3; 3 << 20]).expect("longer");
    let tally = Tally::default();
    let (mut bytes, mut files) = (0, 0);
    loop {
        let batch = match batches.is_empty() {
            false => batches.remove(0),
            true => match peer.hear() {
                (kind, said) if kind == FromGofer::Said as u32 => {
                    said::tell(&said, &tally).expect("understood");
                    continue;
                }
                (kind, batch) if kind == FromGofer::Batch as u32 => batch,
                (kind, _) => break assert_eq!(kind, FromGofer::Ended as u32),
            },
        };
        let slot = u32::from_le_bytes(*batch.first_chunk().expect("a number")) as usize;
        let data = peer.memory.slot(slot);
        let batch = script::read(batch[4..].to_vec(), Vec::new(), data, |_| None);
        for op in batch.expect("understood").ops {
            files += u32::from(matches!(op, Op::File(..) | Op::End));
            if let Op::File(_, part) | Op::Piece(_, part) = op {
                bytes += part.size();
            }
        }
        assert!(peer.free());
    }
    assert_eq!(files, 4);
    assert_eq!(bytes, cut + 7 + (3 << 20) + 100);
    let failures = tally.failures();
    let failed: Vec<_> = failures.iter().map(|f| (&f.path[..], f.error)).collect();
    assert_eq!(failed, [(&b"gone"[..], Some(Errno(libc::ENOENT)))]);
}

#[test]
fn a_lender_that_dies_is_an_error() {
    let rig = Rig::new();
    let (near, far) = UnixStream::pair().expect("a pair");
    let (_lent, borrowed) = memory();
    let wanted = Wanted {
        sources: vec![rig.named("tree")],
        ..Wanted::default()
    };
    let lender = Lender::new(near, borrowed, &Terms::Copy(wanted.clone())).expect("a socket");
    let chosen = lender.choose(&wanted, 0).expect("chosen");
    drop(far);
    let out = Root::host(Sys(&HOST)).open_dir(rig.at("beside").as_os_str().as_bytes());
    let to = Destination {
        dir: out.expect("a directory"),
        shown: Vec::new(),
        avoid: None,
    };
    let settings = Settings {
        no_umask: true,
        ..Settings::default()
    };
    let tally = Tally::default();
    chosen.write(to, settings, &tally);
    let failures = tally.failures();
    assert_eq!(failures.len(), 1);
    assert!(failures[0].why.contains("has died"), "{}", failures[0].why);
}
