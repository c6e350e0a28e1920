//! What code that an image got to run finds in a session: nothing that it opens itself, and
//! who opens images for it, whom it can ask for those alone.

use crate::common::*;
use crate::jailed::opener::Line;
use crate::jailed::*;
use crate::prisoner::*;
use std::io::{Read, Write};
use std::process::Stdio;

#[test]
fn a_session_reaches_the_files_that_an_image_consists_of_and_none_beside_them() {
    if !has_prisoners() || !has_landlock() {
        return;
    }
    let s = Scratch::new();
    image(&s, 0);
    s.write("neighbour", b"a neighbour");
    s.write("below/neighbour", b"a neighbour");
    let words = "create -q -f qcow2 -b disk.img -F raw top.qcow2";
    succeed(&mut s.command("qemu-img", words));
    let mut command = s.tane();
    command.args(["sh", "-c", "cat /big; rm /big", "top.qcow2"]);
    command.stdout(Stdio::piped()).stderr(Stdio::inherit());
    let command = Running(command.spawn().expect("tane"));
    let mut thread = Prisoner::writing_to(&command.0, STDOUT);
    let opener = Line::of(command.0.id());
    let asked = |name: &str, flags| opener.open(&s.join(name), flags);
    assert_eq!(asked("top.qcow2", libc::O_RDWR), Ok(libc::O_RDWR));
    assert_eq!(asked("disk.img", libc::O_RDONLY), Ok(libc::O_RDONLY));
    assert_eq!(asked("disk.img", libc::O_RDWR), Err(libc::EACCES));
    for name in [
        "neighbour",
        "below/neighbour",
        "tree/big",
        "none",
        "",
        "/proc/self/mem",
    ] {
        for flags in [libc::O_RDONLY, libc::O_RDWR] {
            let found = asked(name, flags);
            assert!(found.is_err(), "{name}: {found:?}");
        }
    }
    // By itself it opens nothing at all.
    let join = |name: &str| path(&s.join(name));
    for name in ["top.qcow2", "disk.img", "neighbour"] {
        for flags in [libc::O_RDONLY, libc::O_RDWR, libc::O_PATH] {
            assert_eq!(thread.open(&join(name), flags), DENIED, "{name}");
        }
    }
    let new = libc::O_CREAT | libc::O_WRONLY;
    assert_eq!(thread.open(&join("new"), new), DENIED);
}

#[test]
fn a_session_opens_nothing_of_what_is_copied_or_shared() {
    if !has_prisoners() || !has_landlock() {
        return;
    }
    let s = Scratch::new();
    image(&s, 0);
    s.write("out/neighbour", b"a neighbour");
    std::fs::copy(s.join("disk.img"), s.join("out/other.img")).expect("a copy");
    let cannot = Err(libc::EACCES);
    let (read, written) = (Ok(libc::O_RDONLY), Ok(libc::O_RDWR));
    // How who opens images has what lies in `out`.
    for (options, line, how) in [
        (&[][..], "cat /big; get /big out", [cannot, cannot]),
        // Some command of it would have files of the host told, where it may.
        (
            &[],
            "cat /big; diff /big host:x; get /big out",
            [cannot, cannot],
        ),
        (
            &["--share", "out"],
            "cat /big; tar create - /big; dmesg; get /big out",
            [read, cannot],
        ),
        (
            &["--share", "out"],
            "cat /big; tar extract out/a.tar /; xattr set user.a --file out/a /big",
            [read, written],
        ),
        (
            &["--share", "out"],
            "cat /big; get /big out",
            [read, cannot],
        ),
        (
            &["--share", "out"],
            "cat /big; put out/neighbour",
            [read, written],
        ),
        (
            &["--share", "out"],
            "cat /big; diff / host:out; tar create out/a.tar /; ls host:out/*",
            [read, cannot],
        ),
        // It writes, and may write any image that is shared.
        (
            &["--share", "out"],
            "cat /big; convert disk.img out/b.qcow2; convert --force disk.img out/other.img",
            [read, written],
        ),
    ] {
        let mut command = s.tane();
        command
            .arg("sh")
            .args(options)
            .args(["-c", line, "disk.img"]);
        command.stdout(Stdio::piped()).stderr(Stdio::inherit());
        let command = Running(command.spawn().expect("tane"));
        let mut thread = Prisoner::writing_to(&command.0, STDOUT);
        let makes = libc::O_CREAT | libc::O_WRONLY;
        for (name, flags) in [
            ("out", libc::O_RDONLY),
            ("out/neighbour", libc::O_RDONLY),
            ("out/neighbour", libc::O_WRONLY),
            ("out/other.img", libc::O_RDWR),
            ("out/new", makes),
        ] {
            let outcome = thread.open(&path(&s.join(name)), flags);
            assert_eq!(outcome, DENIED, "{line}: {name}");
        }
        let to = thread.text(&path(&s.join("out/neighbour")));
        refused(&thread.call(libc::SYS_unlinkat, &[HERE, to, 0]));
        let opener = Line::of(command.0.id());
        for (flags, wanted) in [libc::O_RDONLY, libc::O_RDWR].into_iter().zip(how) {
            for name in ["out/neighbour", "out/other.img"] {
                let found = opener.open(&s.join(name), flags);
                assert_eq!(found, wanted, "{options:?} {line}: {name}");
            }
        }
    }
}

#[test]
fn a_session_reaches_neither_the_directory_of_its_overlay_nor_that_of_temporary_files() {
    if !has_prisoners() || !has_landlock() {
        return;
    }
    let s = Scratch::new();
    image(&s, 0);
    succeed(s.tool("gzip").args(["-1", "disk.img"]));
    s.write("over/neighbour", b"a neighbour");
    s.write("tmp/neighbour", b"a neighbour");
    let mut command = s.tane();
    command.env("TMPDIR", s.join("tmp"));
    command.args(["sh", "--overlay=over/new.qcow2"]);
    command.args(["-c", "touch /new; cat /big", "disk.img.gz"]);
    command.stdout(Stdio::piped()).stderr(Stdio::inherit());
    let mut command = Running(command.spawn().expect("tane"));
    {
        let mut thread = Prisoner::writing_to(&command.0, STDOUT);
        let join = |name: &str| path(&s.join(name));
        let opener = Line::of(command.0.id());
        let over = opener.open(&s.join("over/new.qcow2"), libc::O_RDWR);
        assert_eq!(over, Ok(libc::O_RDWR));
        let new = libc::O_CREAT | libc::O_WRONLY;
        for dir in ["over", "tmp"] {
            let neighbour = s.join(&format!("{dir}/neighbour"));
            for flags in [libc::O_RDONLY, libc::O_RDWR] {
                assert_eq!(opener.open(&neighbour, flags), Err(libc::EACCES), "{dir}");
                assert_eq!(thread.open(&path(&neighbour), flags), DENIED, "{dir}");
            }
            assert_eq!(thread.open(&join(&format!("{dir}/new")), new), DENIED);
            let unnamed = libc::O_TMPFILE | libc::O_RDWR;
            assert_eq!(thread.open(&join(dir), unnamed), DENIED);
        }
    }
    // And what it is there for, works.
    let mut all = Vec::new();
    let mut stdout = command.0.stdout.take().expect("its output");
    stdout.read_to_end(&mut all).expect("the file");
    assert_eq!(all.len(), SIZE);
    assert!(command.0.wait().expect("it ends").success());
    let listed = ["--overlay=over/new.qcow2", "ls", "disk.img.gz:/new"];
    succeed(s.tane().args(listed));
}

#[test]
fn a_session_opens_no_image_for_writing_that_it_was_not_asked_to_write() {
    if !has_prisoners() || !has_landlock() {
        return;
    }
    let s = Scratch::new();
    image(&s, 0);
    for (line, writes) in [("cat /big", false), ("cat /big; rm /big", true)] {
        let mut command = s.tane();
        command.args(["sh", "-c", line, "disk.img"]);
        command.stdout(Stdio::piped()).stderr(Stdio::inherit());
        let command = Running(command.spawn().expect("tane"));
        let mut thread = Prisoner::writing_to(&command.0, STDOUT);
        let opener = Line::of(command.0.id());
        let image = s.join("disk.img");
        assert_eq!(opener.open(&image, libc::O_RDONLY), Ok(libc::O_RDONLY));
        let writing = opener.open(&image, libc::O_RDWR);
        assert_eq!(writing.is_ok(), writes, "{line}");
        for flags in [libc::O_RDONLY, libc::O_RDWR] {
            assert_eq!(thread.open(&path(&image), flags), DENIED, "{line}");
        }
    }
    // Nor does one whose commands nobody knows, unless it is told so, whatever is typed.
    for (options, writes) in [
        (&["disk.img"][..], Err(libc::EACCES)),
        (&["--read-only", "disk.img"], Err(libc::EACCES)),
        (&["--rw", "disk.img"], Ok(libc::O_RDWR)),
    ] {
        let mut command = s.tane();
        command.arg("sh").args(options).stdin(Stdio::piped());
        command.stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut command = Running(command.spawn().expect("tane"));
        let mut stdin = command.0.stdin.take().expect("its input");
        stdin.write_all(b"cat /big\nrm /big\n").expect("a line");
        let _thread = Prisoner::writing_to(&command.0, STDOUT);
        let opener = Line::of(command.0.id());
        let writing = opener.open(&s.join("disk.img"), libc::O_RDWR);
        assert_eq!(writing, writes, "{options:?}");
    }
}

#[test]
fn a_session_opens_for_writing_what_its_commands_write_to_and_no_other_image() {
    if !has_prisoners() || !has_landlock() {
        return;
    }
    let s = Scratch::new();
    image(&s, 0);
    for name in ["golden.img", "new.img"] {
        std::fs::copy(s.join("disk.img"), s.join(name)).expect("a copy");
    }
    for line in [
        "cat /big; cp /big new.img:/x; ls golden.img:/",
        "cat /big; ls golden.img:/; cd new.img:/; rm big",
        "cat /big; open --overlay over golden.img; rm big; rm new.img:/big",
    ] {
        let mut command = s.tane();
        command.args(["sh", "-c", line, "disk.img", "golden.img"]);
        command.stdout(Stdio::piped()).stderr(Stdio::inherit());
        let command = Running(command.spawn().expect("tane"));
        let _thread = Prisoner::writing_to(&command.0, STDOUT);
        let opener = Line::of(command.0.id());
        for name in ["disk.img", "golden.img"] {
            let asked = |flags| opener.open(&s.join(name), flags);
            assert_eq!(asked(libc::O_RDONLY), Ok(libc::O_RDONLY), "{line}: {name}");
            assert_eq!(asked(libc::O_RDWR), Err(libc::EACCES), "{line}: {name}");
        }
        let new = opener.open(&s.join("new.img"), libc::O_RDWR);
        assert_eq!(new, Ok(libc::O_RDWR), "{line}");
    }
}

#[test]
fn a_typed_session_opens_makes_and_removes_nothing_of_what_is_shared_by_itself() {
    if !has_prisoners() || !has_landlock() {
        return;
    }
    let s = Scratch::new();
    image(&s, 0);
    s.write("out/neighbour", b"a neighbour");
    let mut command = s.tane();
    command.args(["sh", "--share", "out", "--rw", "disk.img"]);
    command.stdin(Stdio::piped());
    command.stdout(Stdio::piped()).stderr(Stdio::inherit());
    let mut command = Running(command.spawn().expect("tane"));
    let mut stdin = command.0.stdin.take().expect("its input");
    let script = b"cat /big\ndiff / host:out\ntar create out/a.tar tree\n";
    stdin.write_all(script).expect("lines");
    let mut thread = Prisoner::writing_to(&command.0, STDOUT);
    let neighbour = path(&s.join("out/neighbour"));
    let new = path(&s.join("out/new"));
    for (name, flags) in [
        (&neighbour, libc::O_RDONLY),
        (&neighbour, libc::O_RDWR),
        (&neighbour, libc::O_PATH),
        (&path(&s.join("out")), libc::O_RDONLY | libc::O_DIRECTORY),
        (&new, libc::O_CREAT | libc::O_WRONLY),
        (&path(&s.join("out")), libc::O_TMPFILE | libc::O_RDWR),
    ] {
        assert_eq!(thread.open(name, flags), DENIED, "{name:?}");
    }
    let (at, to) = (thread.text(&neighbour), thread.text(&new));
    for (call, arguments) in [
        (libc::SYS_unlinkat, &[HERE, at, 0][..]),
        (libc::SYS_rename, &[at, to]),
        (libc::SYS_renameat2, &[HERE, at, HERE, to, 0]),
        (libc::SYS_linkat, &[HERE, at, HERE, to, 0]),
        (libc::SYS_symlinkat, &[at, HERE, to]),
        (libc::SYS_mkdirat, &[HERE, to, 0o777]),
        (libc::SYS_mknodat, &[HERE, to, 0o100_666, 0]),
        (libc::SYS_fchmodat, &[HERE, at, 0o777]),
    ] {
        refused(&thread.call(call, arguments));
    }
    assert_eq!(s.read("out/neighbour"), b"a neighbour");
    let names = std::fs::read_dir(s.join("out")).expect("a listing");
    assert_eq!(names.count(), 1);
}

#[test]
fn who_writes_for_a_session_writes_where_that_shares_and_who_tells_only_reads_there() {
    if !has_prisoners() || !has_landlock() {
        return;
    }
    let s = Scratch::new();
    image(&s, 0);
    s.write("out/neighbour", b"a neighbour");
    s.write("outside", b"a secret");
    let mut command = s.tane();
    command.args(["sh", "--share", "out", "-c", "cat /big; diff / host:out"]);
    command.arg("disk.img");
    command.stdout(Stdio::piped()).stderr(Stdio::inherit());
    let command = Running(command.spawn().expect("tane"));
    let _thread = Prisoner::writing_to(&command.0, STDOUT);
    let [inside, new, outside, beside] =
        ["out/neighbour", "out/new", "outside", "beside"].map(|name| path(&s.join(name)));
    let makes = libc::O_CREAT | libc::O_EXCL | libc::O_RDWR;
    // Its guard, its gofer, its lender, who opens images, who tells: two.
    let mut gofer = Prisoner::waiting_in(child(command.0.id(), 1), libc::SYS_recvmsg, None);
    done(&gofer.open(&new, makes));
    for (name, flags) in [
        (&outside, libc::O_RDONLY),
        (&outside, libc::O_RDWR),
        (&beside, makes),
        (&path(&s.join("disk.img")), libc::O_RDWR),
        (&c"/etc/passwd".to_owned(), libc::O_RDONLY),
    ] {
        assert_eq!(gofer.open(name, flags), DENIED, "{name:?}");
    }
    let (from, to) = (gofer.text(&new), gofer.text(&beside));
    refused(&gofer.call(libc::SYS_renameat2, &[HERE, from, HERE, to, 0]));
    for number in [4, 5] {
        let mut teller = Prisoner::waiting_in(child(command.0.id(), number), libc::SYS_read, None);
        done(&teller.open(&inside, libc::O_RDONLY));
        for (name, flags) in [
            (&inside, libc::O_RDWR),
            (&outside, libc::O_RDONLY),
            (&path(&s.join("out/other")), makes),
        ] {
            assert_eq!(teller.open(name, flags), DENIED, "{name:?}");
        }
        let at = teller.text(&inside);
        refused(&teller.call(libc::SYS_unlinkat, &[HERE, at, 0]));
    }
}
