//! What a directory has is told as it is; and who lies about one, as code that got into the
//! teller by a file system of the host's might, is an error.

use super::{answer, ask, receive, tell, Told, Wanted, HEADER, LONGEST};
use crate::passing::{self, MOST};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use tane_linux::{Kind, Time};
use tane_test_support::{Dice, Scratch};

fn pair() -> (File, File) {
    let (near, far) = UnixStream::pair().expect("a pair");
    (OwnedFd::from(near).into(), OwnedFd::from(far).into())
}

fn wanted(excludes: &[&str]) -> Wanted {
    Wanted {
        content: true,
        targets: true,
        xattrs: true,
        flags: true,
        excludes: excludes.iter().map(Into::into).collect(),
        depth: usize::MAX,
    }
}

fn tree() -> Scratch {
    let s = Scratch::new("told");
    for (name, text) in [
        ("a/b/deep", "1"),
        ("a/z", "22"),
        ("b", "333"),
        ("left/out", "4"),
    ] {
        let path = s.join(name);
        fs::create_dir_all(path.parent().expect("a directory")).expect("made");
        fs::write(path, text).expect("a file");
    }
    std::os::unix::fs::symlink("a/z", s.join("link")).expect("a link");
    s
}

#[test]
fn all_that_is_in_a_directory_is_told_in_the_order_of_names() {
    let s = tree();
    let (near, far) = pair();
    tell(&far, &s, &wanted(&["left"]), || Ok(true)).expect("it is told");
    let mut told = Told::new(near);
    let mut all = Vec::new();
    while let Some(entry) = told.next().expect("it is heard") {
        let name = String::from_utf8_lossy(entry.name.as_bytes()).into_owned();
        let stat = entry.stat.expect("it is there");
        let mut text = String::new();
        if let Ok(content) = &entry.content {
            let mut bytes = vec![0; stat.size as usize];
            content
                .sys()
                .pread_all(content, &mut bytes, 0)
                .expect("reads");
            text = String::from_utf8(bytes).expect("text");
        }
        assert_eq!(stat.kind() == Kind::File, entry.content.is_ok(), "{name}");
        assert_ne!(stat.mtime, Time::default(), "{name}");
        if stat.kind() == Kind::Symlink {
            text = String::from_utf8(entry.target.clone().expect("a target")).expect("text");
        }
        all.push((entry.depth, name, text));
    }
    all.remove(0);
    let found: Vec<_> = all.iter().map(|(d, n, t)| (*d, &n[..], &t[..])).collect();
    let expected = [
        (1, "a", ""),
        (2, "b", ""),
        (3, "deep", "1"),
        (2, "z", "22"),
        (1, "b", "333"),
        (1, "left", ""),
        (1, "link", "a/z"),
    ];
    assert_eq!(found, expected);
}

#[test]
fn what_is_deeper_than_what_is_asked_for_is_passed_over() {
    let s = tree();
    let (near, far) = pair();
    tell(&far, &s, &wanted(&[]), || Ok(true)).expect("it is told");
    let mut told = Told::new(near);
    told.next()
        .expect("it is heard")
        .expect("the directory itself");
    let mut names = Vec::new();
    while let Some(name) = told.name_at(1).expect("it is heard") {
        names.push(name.into_string().expect("text"));
        told.next().expect("it is heard").expect("the same");
    }
    assert_eq!(names, ["a", "b", "left", "link"]);
    assert!(told.next().expect("it is over").is_none());
}

#[test]
fn more_files_than_go_with_one_message_arrive_and_are_closed() {
    let s = Scratch::new("told");
    let count = 3 * MOST + 5;
    for number in 0..count {
        fs::write(s.join(format!("{number:04}")), number.to_string()).expect("a file");
    }
    let (near, far) = pair();
    let path = s.to_path_buf();
    let teller = std::thread::spawn(move || tell(&far, &path, &wanted(&[]), || Ok(true)));
    let mut told = Told::new(near);
    told.next()
        .expect("it is heard")
        .expect("the directory itself");
    for number in 0..count {
        let entry = told.next().expect("it is heard").expect("a file");
        let content = entry.content.as_ref().expect("its content");
        let mut bytes = vec![0; 8];
        let n = content
            .sys()
            .pread_all(content, &mut bytes, 0)
            .expect("reads");
        assert_eq!(bytes[..n], *number.to_string().as_bytes());
    }
    assert!(told.next().expect("it is over").is_none());
    teller.join().expect("no panic").expect("no error");
}

#[test]
fn who_dies_before_the_end_is_an_error() {
    let (near, far) = pair();
    drop(far);
    assert!(Told::new(near).next().is_err());
}

/// Two messages, as they go over the line.
fn honest() -> Vec<u8> {
    let s = tree();
    let (mut near, far) = pair();
    let without = Wanted {
        content: false,
        ..wanted(&[])
    };
    tell(&far, &s, &without, || Ok(true)).expect("it is told");
    drop(far);
    let mut bytes = Vec::new();
    near.read_to_end(&mut bytes).expect("it is heard");
    bytes
}

#[test]
fn a_lie_in_any_field_is_an_error_or_another_directory_and_never_waited_for() {
    let honest = honest();
    let hear = |bytes: &[u8]| {
        let (near, mut far) = pair();
        far.write_all(bytes).expect("room");
        drop(far);
        let mut told = Told::new(near);
        let mut count = 0;
        while let Ok(Some(_)) = told.next() {
            count += 1;
        }
        count
    };
    assert_eq!(hear(&honest), 9);
    for at in 0..honest.len() {
        hear(&honest[..at]);
        for lie in [0, 1, 0x7f, 0x80, 0xff, !honest[at]] {
            let mut said = honest.clone();
            said[at] = lie;
            hear(&said);
        }
    }
    let mut dice = Dice(0x5eed);
    for _ in 0..1000 {
        let mut said = honest.clone();
        for _ in 0..=dice.roll(6) {
            let at = dice.roll(said.len());
            said[at] = dice.roll(256) as u8;
        }
        hear(&said);
    }
}

#[test]
fn lengths_and_descriptors_that_no_message_has_are_refused_at_once() {
    // The other end stays open: whoever waited for more would wait for ever.
    let refused = |length: usize, count: u32, fds: &[i32]| {
        let (near, far) = pair();
        let header = [(length as u32).to_le_bytes(), count.to_le_bytes()].concat();
        assert_eq!(passing::send(&far, &header, fds).expect("room"), HEADER);
        receive(&near).is_err()
    };
    let null = File::open("/dev/null").expect("it");
    assert!(refused(LONGEST + 1, 0, &[]));
    assert!(refused(u32::MAX as usize, 0, &[]));
    assert!(refused(0, 1, &[]));
    assert!(refused(0, 0, &[null.as_raw_fd()]));
    assert!(!refused(0, 0, &[]));
}

/// A session's teller, which may tell what lies in `place`.
fn teller(place: &std::path::Path) -> (File, std::thread::JoinHandle<std::io::Result<()>>) {
    let (near, far) = pair();
    let place = place.to_path_buf();
    let may = move |path: &std::path::Path| match path.starts_with(&place) {
        true => Ok(()),
        false => Err(std::io::Error::from_raw_os_error(libc::EACCES)),
    };
    (near, std::thread::spawn(move || answer(&far, may)))
}

static BACK: std::sync::Mutex<Vec<File>> = std::sync::Mutex::new(Vec::new());

fn back(line: File) {
    BACK.lock().expect("nobody panics").push(line);
}

#[test]
fn a_session_asks_for_one_directory_after_the_other_and_for_no_more_than_it_likes() {
    let s = tree();
    for number in 0..2000 {
        fs::write(s.join(format!("left/{number:080}")), "").expect("a file");
    }
    let (mut line, thread) = teller(&s);
    let plain = Wanted::names(usize::MAX);
    for (name, wanted, most, count) in [
        ("a", &plain, usize::MAX, 4),
        ("left", &plain, usize::MAX, 2002),
        // Nobody wants the rest.
        ("left", &plain, 1, 1),
        ("left", &plain, 500, 500),
        ("", &plain, 0, 0),
        // There is no rest.
        ("a", &plain, 1, 1),
        ("a", &plain, 4, 4),
        (".", &Wanted::names(1), usize::MAX, 5),
        ("a", &Wanted::names(0), usize::MAX, 1),
        ("b", &wanted(&[]), usize::MAX, 1),
    ] {
        ask(&line, &s.join(name), wanted).expect("it is asked");
        let mut told = Told::asked(line, back);
        let mut heard = 0;
        while heard < most && told.next().expect("it is heard").is_some() {
            heard += 1;
        }
        assert_eq!(heard, count, "{name}");
        drop(told);
        let kept = BACK.lock().expect("nobody panics").pop();
        line = kept.expect("the line goes on");
    }
    // What is not its to tell is no end.
    for _ in 0..2 {
        ask(&line, std::path::Path::new("/etc"), &plain).expect("it is asked");
        let mut told = Told::asked(line, back);
        let entry = told.next().expect("it is heard").expect("an entry");
        assert_eq!(entry.stat.map(drop), Err(tane_linux::Errno(libc::EACCES)));
        assert!(told.next().expect("it is over").is_none());
        drop(told);
        let kept = BACK.lock().expect("nobody panics").pop();
        line = kept.expect("the line goes on");
    }
    drop(line);
    thread.join().expect("no panic").expect_err("nobody asks");
}

#[test]
fn whatever_a_session_says_its_teller_ends_and_waits_for_nobody() {
    let s = tree();
    let mut honest = Vec::new();
    {
        let (mut near, far) = pair();
        ask(&far, &s.join("a"), &wanted(&["left"])).expect("room");
        drop(far);
        near.read_to_end(&mut honest).expect("it is heard");
    }
    let mut dice = Dice(0x5eed_0012);
    for _ in 0..500 {
        let mut said = honest.clone();
        for _ in 0..dice.roll(5) {
            let at = dice.roll(said.len());
            said[at] = dice.roll(256) as u8;
        }
        said.truncate(said.len() - dice.roll(said.len() / 2));
        let (near, thread) = teller(&s);
        let _ = (&near).write_all(&said);
        // SAFETY: a descriptor of ours.
        unsafe { libc::shutdown(near.as_raw_fd(), libc::SHUT_WR) };
        thread.join().expect("no panic").expect_err("its end");
    }
}
