//! A command that lies to who runs programs for it, as one does that an image has taken
//! over; and one that is lied to.

use super::{answer, receive, send, serve, understood, Terms, FED, LONGEST, MOST, RUN, STOP};
use crate::programs::execute::{execute, Input, Request};
use crate::programs::KNOWN;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::thread::JoinHandle;
use tane_test_support::{tool, Dice};

fn strings(all: &[&[u8]]) -> Vec<Vec<u8>> {
    all.iter().map(|string| string.to_vec()).collect()
}

/// What `send` says.
fn bytes_of(said: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = (said.len() as u32).to_le_bytes().to_vec();
    for string in said {
        bytes.extend((string.len() as u32).to_le_bytes());
        bytes.extend(string);
    }
    bytes
}

/// What comes of these bytes, with nothing behind them.
fn received(bytes: &[u8]) -> io::Result<Vec<Vec<u8>>> {
    let (mut near, far) = UnixStream::pair()?;
    let bytes = bytes.to_vec();
    let said = std::thread::spawn(move || drop(near.write_all(&bytes)));
    let heard = receive(&OwnedFd::from(far).into());
    said.join().expect("no panic");
    heard
}

/// What would be run.
fn request(bytes: &[u8]) -> Option<Request> {
    understood(received(bytes).ok()?, false, &mut Terms::default())?.ok()
}

const HONEST: [&[u8]; 7] = [
    b"e2fsck",
    b"input",
    b"LC_ALL=C",
    b"TZ=UTC",
    b"",
    b"-f",
    b"disk.img",
];

/// That it is one that a command may make: a program that is known, wherever it is
/// installed, and of its environment what is not its libraries' to heed.
fn check(request: &Request) {
    let name = request.program.file_name();
    let is_known = KNOWN
        .iter()
        .any(|tool| Some(OsStr::new(tool.program)) == name);
    assert!(
        is_known && request.program.is_absolute(),
        "{:?}",
        request.program
    );
    for (name, _) in &request.environment {
        let name = name.as_bytes();
        assert!(super::ENVIRONMENT.contains(&name), "{name:?}");
        assert!(!name.starts_with(b"LD_") && name != b"PATH");
    }
}

#[test]
fn a_program_that_is_none_of_those_known_is_not_run() {
    if tool("e2fsprogs", "e2fsck").is_none() {
        return;
    }
    let with = |program: &[u8]| {
        let mut said = strings(&HONEST);
        said[0] = program.to_vec();
        request(&bytes_of(&said))
    };
    check(&with(b"e2fsck").expect("an honest one"));
    let others: [&[u8]; 11] = [
        b"",
        b"sh",
        b"/bin/sh",
        b"../../bin/sh",
        b"e2fsck/../sh",
        b"/usr/sbin/e2fsck",
        b"E2FSCK",
        b"e2fsck ",
        b"e2fsck\0",
        b"e2fsck\xff",
        b"e2fsck\nsh",
    ];
    for program in others {
        assert!(with(program).is_none(), "{program:?}");
    }
}

#[test]
fn who_is_there_for_one_program_runs_no_other_that_is_known() {
    if tool("e2fsprogs", "e2fsck").is_none() {
        return;
    }
    let with = |only| {
        let mut terms = Terms {
            only: Some(only),
            ..Terms::default()
        };
        understood(strings(&HONEST), false, &mut terms).is_some()
    };
    assert!(with("e2fsck") && !with("mkfs.erofs"));
}

#[test]
fn the_environment_of_programs_names_no_code_and_no_other_settings() {
    let with = |pair: &[u8]| {
        let mut said = strings(&HONEST);
        said[2] = pair.to_vec();
        understood(said, false, &mut Terms::default()).is_some()
    };
    assert!(with(b"LC_ALL=C") && with(b"SOURCE_DATE_EPOCH=1") && with(b"TZ="));
    let others: [&[u8]; 10] = [
        b"LD_PRELOAD=/tmp/code.so",
        b"LD_LIBRARY_PATH=/tmp",
        b"LD_AUDIT=/tmp/code.so",
        b"GCONV_PATH=/tmp",
        b"PATH=/tmp",
        b"=LD_PRELOAD",
        b"LC_ALL",
        b"LC_ALL\0=C",
        b"\xff=C",
        b"E2FSCK_CONFIG=/tmp/settings",
    ];
    for pair in others {
        assert!(!with(pair), "{pair:?}");
    }
}

#[test]
fn a_lie_in_any_field_asks_for_nothing_else() {
    let honest = bytes_of(&strings(&HONEST));
    for at in 0..honest.len() {
        assert!(received(&honest[..at]).is_err(), "cut at {at}");
        for lie in (0..8).map(|bit| honest[at] ^ 1 << bit).chain([0, 0xff]) {
            let mut said = honest.clone();
            said[at] = lie;
            request(&said).iter().for_each(check);
        }
    }
    let mut dice = Dice(0x5eed);
    for _ in 0..2000 {
        let mut said = honest.clone();
        for _ in 0..=dice.roll(4) {
            let at = dice.roll(said.len());
            said[at] = dice.roll(256) as u8;
        }
        request(&said).iter().for_each(check);
    }
}

#[test]
fn numbers_and_lengths_that_no_message_has_are_not_waited_for() {
    let refused = |bytes: &[u8]| {
        // The other end stays open: whoever waited for more would wait for ever.
        let (mut near, far) = UnixStream::pair().expect("a pair");
        near.write_all(bytes).expect("a socket");
        let heard = receive(&OwnedFd::from(far).into());
        drop(near);
        heard.expect_err("no message").kind()
    };
    let word = |number: usize| (number as u32).to_le_bytes();
    for (count, length) in [
        (MOST + 1, 0),
        (u32::MAX as usize, 0),
        (1, LONGEST + 1),
        (1, u32::MAX as usize),
        (u32::MAX as usize, u32::MAX as usize),
    ] {
        let said = [word(count), word(length)].concat();
        assert_eq!(refused(&said), ErrorKind::InvalidData, "{count} {length}");
    }
    // Each is short enough, and both together are not.
    let mut said = [word(2), word(1 << 10)].concat();
    said.extend(vec![0; 1 << 10]);
    said.extend(word(LONGEST - (1 << 10) + 1));
    assert_eq!(refused(&said), ErrorKind::InvalidData);
    let most = vec![Vec::new(); MOST];
    assert_eq!(received(&bytes_of(&most)).expect("just short enough"), most);
    assert_eq!(received(&word(0)).expect("none"), strings(&[]));
    assert!(understood(Vec::new(), false, &mut Terms::default()).is_none());
    assert!(understood(Vec::new(), true, &mut Terms::default()).is_none());
}

#[test]
fn only_mksquashfs_reads_from_a_pipe_and_each_pipe_is_read_once() {
    if tool("squashfs-tools", "mksquashfs").is_none() {
        return;
    }
    let null = || File::open("/dev/null").expect("it is there");
    let mut terms = Terms {
        pipes: vec![null()],
        ..Terms::default()
    };
    let owner = [1000_u32, 100].map(u32::to_le_bytes).concat();
    let mut asked = |owner: &[u8], program: &[u8]| {
        let said = strings(&[owner, program, b"", b"LC_ALL=C", b"", b"-", b"file"]);
        understood(said, true, &mut terms)
    };
    assert!(asked(&owner, b"e2fsck").is_none());
    for wrong in [&owner[..7], &[&owner[..], &[0]].concat(), &[0]] {
        assert!(asked(wrong, b"mksquashfs").is_none(), "{wrong:?}");
    }
    let request = asked(&owner, b"mksquashfs").expect("it makes sense");
    let request = request.expect("it is installed");
    assert_eq!(request.owner, Some((1000, 100)));
    assert!(matches!(request.input, Input::Pipe(_)));
    assert!(asked(&[], b"mksquashfs").is_none(), "there is none left");
}

/// Who runs programs, in a thread, and who asks.
struct Pair {
    near: File,
    runner: JoinHandle<()>,
}

impl Pair {
    fn new() -> Pair {
        let (near, far) = UnixStream::pair().expect("a pair");
        let far = File::from(OwnedFd::from(far));
        Pair {
            near: OwnedFd::from(near).into(),
            runner: std::thread::spawn(move || serve(far, Terms::default(), execute)),
        }
    }

    /// All that it answers until it ends. It does, without a panic.
    fn end(mut self) -> Vec<u8> {
        let mut said = Vec::new();
        // What nobody read is an error of a socket.
        let _ = self.near.read_to_end(&mut said);
        self.runner.join().expect("no panic");
        said
    }
}

#[test]
fn who_runs_programs_ends_with_the_first_word_that_makes_no_sense() {
    let mut unknown = strings(&HONEST);
    unknown[0] = b"sh".to_vec();
    let unknown = bytes_of(&unknown);
    let lies: [&[u8]; 7] = [
        b"x",
        &[STOP, STOP, 0],
        &[RUN, 0, 0, 0, 0],
        &[RUN, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0],
        &[&[RUN], &unknown[..]].concat(),
        &[&[FED], &bytes_of(&strings(&HONEST))[..]].concat(),
        &[&[STOP, RUN], &unknown[..]].concat(),
    ];
    for lie in lies {
        let mut pair = Pair::new();
        pair.near.write_all(lie).expect("a socket");
        assert_eq!(pair.end(), b"", "{lie:?}");
    }
}

#[test]
fn what_a_program_cannot_be_given_is_an_error_and_the_next_one_is_run() {
    if tool("e2fsprogs", "e2fsck").is_none() {
        return;
    }
    let pair = Pair::new();
    let asked = |said: &[&[u8]]| {
        send(&pair.near, &[STOP, RUN], &strings(said)).expect("a socket");
        answer(receive(&pair.near).expect("an answer"))
    };
    // An argument ends with its first zero.
    assert!(asked(&[b"e2fsck", b"", b"", b"-V\0"]).is_err());
    assert!(asked(&[b"e2fsck", b"", b"TZ=\0", b"", b"-V"]).is_err());
    // More than a pipe holds would have to be waited for.
    assert!(asked(&[b"e2fsck", &vec![0; 4 << 20], b"", b"-V"]).is_err());
    let output = asked(&[b"e2fsck", b"", b"LC_ALL=C", b"", b"-V"]).expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("e2fsck"), "{said}");
    let Pair { near, runner } = pair;
    drop(near);
    runner.join().expect("no panic");
}

#[test]
fn a_program_ends_when_its_command_says_what_makes_no_sense_meanwhile() {
    if tool("e2fsprogs", "e2fsck").is_none() {
        return;
    }
    // It would wait for a fifo that nobody writes.
    let dir = tane_test_support::Scratch::new("runner");
    let fifo = dir.join("fifo");
    let name = std::ffi::CString::new(fifo.as_os_str().as_bytes()).expect("a name");
    // SAFETY: a string that outlives the call.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    let mut pair = Pair::new();
    let said = strings(&[b"e2fsck", b"", b"", b"-n", fifo.as_os_str().as_bytes()]);
    send(&pair.near, &[RUN], &said).expect("a socket");
    pair.near.write_all(&[RUN]).expect("a socket");
    assert_eq!(pair.end(), b"");
}

#[test]
fn an_answer_that_makes_no_sense_is_an_error() {
    let status: &[u8] = &0i32.to_le_bytes();
    assert!(answer(strings(&[status, b"out", b"err"])).is_ok());
    let lies: [&[&[u8]]; 6] = [
        &[],
        &[b"why"],
        &[status, b"out"],
        &[status, b"out", b"err", b"more"],
        &[b"", b"out", b"err"],
        &[b"12345", b"out", b"err"],
    ];
    for lie in lies {
        assert!(answer(strings(lie)).is_err(), "{lie:?}");
    }
}
