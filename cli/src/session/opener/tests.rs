//! A session that lies to who opens images for it, as one does that an image has taken over;
//! and one that is lied to.

use super::{ask, hand, pair, receive, serve, understood, FLAGS, LONGEST};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::thread::JoinHandle;
use tane::jail::Jail;
use tane_test_support::{Dice, Scratch};

/// Who opens, in a thread, by these rules; Landlock is not there.
struct Pair {
    near: File,
    opener: JoinHandle<io::Result<()>>,
}

impl Pair {
    fn new(rules: Jail) -> Pair {
        let (near, far) = pair().expect("a pair");
        Pair {
            near,
            opener: std::thread::spawn(move || serve(&far, &rules)),
        }
    }

    fn ask(&self, path: &Path, write: bool) -> Result<String, i32> {
        let file = ask(&self.near, path, write, 0);
        let mut file = file.map_err(|e| e.raw_os_error().unwrap_or(0))?;
        let mut text = String::new();
        file.read_to_string(&mut text).expect("a file");
        if write {
            file.write_all(b"+").expect("may be written");
        } else {
            file.write_all(b"+").expect_err("read only");
        }
        Ok(text)
    }

    /// Whether it goes on after this request.
    fn survives(mut self, request: &[u8]) -> bool {
        // Who has ended already hears nothing.
        let _ = self.near.write(request);
        let mut answer = [0; 8];
        let got = self.near.read(&mut answer).unwrap_or(0);
        drop(self.near);
        self.opener.join().expect("no panic").expect("no error");
        got > 0
    }
}

fn setting() -> (Scratch, Jail) {
    let s = Scratch::new("opener");
    for name in [
        "image",
        "written",
        "shared/file",
        "beside",
        "shared-not/file",
    ] {
        let path = s.join(name);
        fs::create_dir_all(path.parent().expect("a directory")).expect("made");
        fs::write(path, name).expect("a file");
    }
    let mut rules = Jail::new();
    rules.read(s.join("image")).write(s.join("written"));
    rules.read(s.join("shared"));
    (s, rules)
}

#[test]
fn what_was_named_is_opened_as_it_was_named_and_nothing_else() {
    let (s, rules) = setting();
    for (link, to) in [("to-image", "image"), ("shared/out", "beside")] {
        std::os::unix::fs::symlink(s.join(to), s.join(link)).expect("a link");
    }
    let pair = Pair::new(rules);
    let text = |name: &str, write| pair.ask(&s.join(name), write);
    assert_eq!(text("image", false).as_deref(), Ok("image"));
    assert_eq!(text("to-image", false).as_deref(), Ok("image"));
    assert_eq!(text("shared/file", false).as_deref(), Ok("shared/file"));
    assert_eq!(text("written", true).as_deref(), Ok("written"));
    assert_eq!(text("written", false).as_deref(), Ok("written+"));
    for (name, write) in [
        ("image", true),
        ("shared/file", true),
        ("beside", false),
        ("shared-not/file", false),
        ("shared/out", false),
        ("shared/../beside", false),
        ("shared", false),
    ] {
        assert_eq!(text(name, write), Err(libc::EACCES), "{name} {write}");
    }
    assert_eq!(text("shared/none", false), Err(libc::ENOENT));
    assert_eq!(pair.ask(Path::new("/etc/passwd"), false), Err(libc::EACCES));
}

#[test]
fn nothing_whose_opening_waits_or_does_something_is_handed_over() {
    let s = Scratch::new("opener");
    let fifo = s.join("fifo");
    let name = std::ffi::CString::new(fifo.as_os_str().as_bytes()).expect("a name");
    // SAFETY: a string that outlives the call.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    let mut rules = Jail::new();
    rules.write(&*s).write("/dev/null");
    let pair = Pair::new(rules);
    for write in [false, true] {
        assert_eq!(pair.ask(&fifo, write), Err(libc::EACCES));
        assert_eq!(pair.ask(Path::new("/dev/null"), write), Err(libc::EACCES));
    }
    // Not even opened: who waits to write into it still waits.
    let waits = || {
        File::options()
            .write(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(&fifo)
    };
    let asks = std::thread::scope(|scope| {
        let asks = scope.spawn(|| (0..1000).all(|_| pair.ask(&fifo, false).is_err()));
        while !asks.is_finished() {
            let met = waits();
            assert!(met.is_err(), "somebody reads");
        }
        asks.join().expect("no panic")
    });
    assert!(asks);
    // What it hands over waits for its data, as what was opened here.
    fs::write(s.join("file"), "").expect("a file");
    let file = ask(&pair.near, &s.join("file"), true, 0).expect("a file");
    // SAFETY: no memory involved.
    let flags = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETFL) };
    assert_eq!(flags & (libc::O_NONBLOCK | libc::O_ACCMODE), libc::O_RDWR);
}

#[test]
fn a_request_that_makes_no_sense_ends_who_opens() {
    let (s, _) = setting();
    let honest = |flags: i32, path: &[u8]| [&flags.to_le_bytes()[..], path].concat();
    let file = s.join("beside");
    let path = file.as_os_str().as_bytes();
    let mut rules = Jail::new();
    rules.write(&*s);
    assert!(Pair::new(rules.clone()).survives(&honest(libc::O_RDWR, path)));
    let making = [
        libc::O_CREAT,
        libc::O_TRUNC,
        libc::O_APPEND,
        libc::O_TMPFILE,
        libc::O_PATH,
        libc::O_WRONLY,
        libc::O_ASYNC,
        -1,
    ];
    let mut lies: Vec<_> = making.map(|flags| honest(flags, path)).to_vec();
    lies.extend([
        Vec::new(),
        vec![0],
        vec![0; 4],
        honest(0, b"relative"),
        honest(0, b"/a\0/b"),
        honest(0, &[b'/'; 4096]),
        honest(0, &[b'/'; 5000]),
        vec![0xff; LONGEST + 2],
    ]);
    for lie in lies {
        let begin = &lie[..lie.len().min(8)];
        assert!(!Pair::new(rules.clone()).survives(&lie), "{begin:?}");
    }
    assert_eq!(fs::read(&file).expect("it"), b"beside");
}

#[test]
fn a_lie_in_any_field_asks_for_nothing_but_reading_and_writing_of_what_is_there() {
    let honest = [&0i32.to_le_bytes()[..], b"/srv/disk.img"].concat();
    let check = |said: &[u8]| {
        if let Some((flags, path)) = understood(said) {
            assert_eq!(flags & !FLAGS, 0, "{said:?}");
            assert_eq!(flags & (libc::O_CREAT | libc::O_TRUNC), 0, "{said:?}");
            assert_eq!(path.to_bytes()[0], b'/', "{said:?}");
        }
    };
    for at in 0..honest.len() {
        check(&honest[..at]);
        for lie in 0..=255 {
            let mut said = honest.clone();
            said[at] = lie;
            check(&said);
        }
    }
    let mut dice = Dice(0x5eed);
    for _ in 0..5000 {
        let mut said = honest.clone();
        for _ in 0..=dice.roll(4) {
            let at = dice.roll(said.len());
            said[at] = dice.roll(256) as u8;
        }
        check(&said);
    }
}

#[test]
fn an_answer_that_makes_no_sense_is_an_error_and_leaves_nothing_open() {
    let answers: [&[u8]; 6] = [
        b"",
        b"\x02",
        &0i32.to_le_bytes(),
        &(-2i32).to_le_bytes(),
        &i32::MAX.to_le_bytes(),
        b"\x02\0\0\0 and more",
    ];
    for answer in answers {
        let (near, mut far) = pair().expect("a pair");
        far.write_all(answer).expect("a line");
        drop(far);
        let heard = receive(&near).expect_err("no file");
        // The last one is cut, and says what it says.
        let known = heard.raw_os_error() == Some(libc::ENOENT);
        assert_eq!(known, answer.len() > 4, "{answer:?}: {heard}");
    }
    let (near, far) = pair().expect("a pair");
    hand(&far, &File::open("/dev/null").expect("it")).expect("a line");
    assert!(receive(&near).is_ok());
}
