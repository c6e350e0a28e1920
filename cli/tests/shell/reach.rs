//! What a session of `tane sh` reaches: its images, what is shared with it, what its script
//! names, and nothing else.

use crate::common::*;
use crate::sh::{feed, image};
use std::io::{Read, Write};
use std::process::Stdio;
use tane_test_support::eventually;
use tane_test_support::http::Server;

#[test]
fn a_session_reaches_its_images_and_what_is_shared_with_it() {
    if !has_kernel() || !has_landlock() {
        return;
    }
    let s = Scratch::new();
    let session = |options: &[&str], script: &str, code| {
        let mut command = s.tane();
        command
            .arg("sh")
            .args(options)
            .args(["a.img", "-c", script]);
        text(&exit(&mut command, code).stderr)
    };
    image(&s, "a.img");
    image(&s, "other.img");
    s.write("shared/in", b"in");
    s.write("kept", b"kept");
    session(
        &["-e", "--share", "shared"],
        "put shared/in; lcd shared; get etc/motd",
        0,
    );
    assert_eq!(s.read("shared/motd"), b"a.img");
    for script in ["get etc/motd kept", "put kept", "fsck a.img"] {
        let said = session(&["--share", "shared"], script, 1);
        assert!(
            said.contains("--share DIR") || said.contains("end the session"),
            "{script}: {said}"
        );
    }
    assert_eq!(s.read("kept"), b"kept");
    session(
        &["-e", "--no-jail"],
        "put kept; ls other.img:/; get etc/motd kept",
        0,
    );
    assert_eq!(s.read("kept"), b"a.img");
}

/// Its threads that no filter holds.
fn unjailed_threads(pid: u32) -> usize {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("its threads");
    let status = |t: std::fs::DirEntry| std::fs::read_to_string(t.path().join("status")).ok();
    let all = tasks.flatten().filter_map(status);
    all.filter(|s| !s.contains("\nSeccomp:\t2\n")).count()
}

#[test]
fn a_session_without_an_image_is_jailed_before_it_opens_its_first() {
    if !has_kernel() || !has_landlock() {
        return;
    }
    let s = Scratch::new();
    image(&s, "a.img");
    image(&s, "other.img");
    s.write("secret", b"secret");
    let mut command = s.tane();
    command.args(["sh", "--rw"]).stdin(Stdio::piped());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("tane");
    let mut stdin = child.stdin.take().expect("stdin");
    stdin
        .write_all(b"cat a.img:/etc/motd; echo\n")
        .expect("a line");
    let mut said = [0; 6];
    let mut stdout = child.stdout.take().expect("stdout");
    stdout.read_exact(&mut said).expect("its answer");
    assert_eq!(&said, b"a.img\n");
    assert_eq!(unjailed_threads(child.id()), 0);
    // Nor does what comes later open more.
    let later = b"cp host:secret a.img:/\nls other.img:/\ncp a.img:/etc/motd host:new\n";
    stdin.write_all(later).expect("lines");
    drop(stdin);
    let output = child.wait_with_output().expect("its end");
    let said = text(&output.stderr);
    assert_eq!(said.matches("--share DIR").count(), 3, "{said}");
    assert!(!s.join("new").exists());
}

#[test]
fn a_script_opens_in_its_jail_what_it_names() {
    if !has_kernel() || !has_landlock() {
        return;
    }
    let s = Scratch::new();
    for name in ["a.img", "b.img", "d/c.img", "over.img", "named"] {
        s.write("d/f", b"");
        image(&s, name);
    }
    let script = "ls a.img:/etc; cp a.img:/etc/motd b.img:/from-a
        lcd d; open --overlay ../o.tane c.img; mv etc/motd etc/moved; lcd ..
        ls named; cat b.img:/from-a; inspect --json over.img";
    s.write("script", script.as_bytes());
    for options in [&["-ec", script][..], &["-e", "-f", "script"]] {
        let output = s.tane().arg("sh").args(options).output().expect("tane");
        let said = text(&output.stderr);
        // In an image, a bare name is one of its files and no image.
        assert!(said.contains("named: no such file"), "{said}");
        let _ = std::fs::remove_file(s.join("o.tane"));
    }
    let script = script.replace("ls named;", "");
    let output = succeed(s.tane().args(["sh", "-ec", &script]));
    let said = text(&output.stdout);
    assert!(said.contains("a.img") && said.contains("ext4"), "{said}");
    // What comes from elsewhere is not known before it is run.
    let mut command = s.tane();
    command.args(["sh", "--rw", "a.img"]);
    let said = text(&feed(command, "put named\n").stderr);
    assert!(said.contains("--share DIR"), "{said}");
}

#[test]
fn get_of_a_line_that_comes_later_writes_nothing_and_names_the_remedy() {
    if !has_kernel() || !has_landlock() {
        return;
    }
    let s = Scratch::new();
    image(&s, "a.img");
    let run = |options: &[&str]| {
        let mut command = s.tane();
        command.args(["sh", "a.img"]).args(options);
        text(&feed(command, "get /etc/motd\n").stderr)
    };
    let said = run(&[]);
    assert!(said.contains("--share DIR"), "{said}");
    assert!(!s.join("motd").exists());
    assert_eq!(run(&["--share", "."]), "");
    assert_eq!(s.read("motd"), b"a.img");
}

#[test]
fn get_and_put_of_a_script_go_to_the_directories_where_it_is() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    image(&s, "a.img");
    s.write("work/local", b"local");
    s.write("work/down/f", b"");
    let run = |script: &str, code| {
        let mut command = s.tane();
        command.current_dir(s.join("work"));
        exit(command.args(["sh", "../a.img", "-ec", script]), code)
    };
    run(
        "get etc/motd; cd etc; put local; lcd down; get motd; get motd ../named",
        0,
    );
    for name in ["work/motd", "work/down/motd", "work/named"] {
        assert_eq!(s.read(name), b"a.img", "{name}");
    }
    let there = succeed(s.tane().args(["cat", "a.img:/etc/local"])).stdout;
    assert_eq!(there, b"local");
    if has_landlock() {
        // What no get or put names is none of the session's.
        run("put local; cp host:../a.img.d/etc/motd x", 1);
    }
}

#[test]
fn a_session_reads_from_servers_what_was_named_before_its_jail_closed() {
    if !has_kernel() || !has_landlock() {
        return;
    }
    let s = Scratch::new();
    image(&s, "a.img");
    let server = Server::of(s.read("a.img"));
    let url = server.url("a.img");
    let script = format!("cat {url}:/etc/motd; open {url}; ls; ls a.img:/etc");
    let output = succeed(s.tane().args(["sh", "-ec", &script]));
    let said = text(&output.stdout);
    assert_eq!(said, "a.imgetc\nlost+found\nmotd\n");
    let mut command = s.tane();
    command.args(["sh", "a.img"]);
    let output = feed(command, &format!("ls {url}:/\ncat etc/motd\n"));
    let said = text(&output.stderr);
    assert!(said.contains("give it to tane sh as an image"), "{said}");
    assert_eq!(text(&output.stdout), "a.img");
}

#[test]
fn archives_and_values_of_attributes_are_read_of_what_is_shared_and_no_other_file() {
    if !has_kernel() || !has_landlock() {
        return;
    }
    let s = Scratch::new();
    image(&s, "a.img");
    s.write("tree/packed", b"packed");
    succeed(s.command("tar", "-cf kept.tar tree").current_dir(s.path()));
    s.write("shared/value", b"a value");
    std::fs::copy(s.join("kept.tar"), s.join("shared/a.tar")).expect("a copy");
    let session = |script: &str, code| {
        let mut command = s.tane();
        command.args(["sh", "-e", "--share", "shared", "a.img", "-c", script]);
        exit(&mut command, code)
    };
    let script = "tar extract shared/a.tar /; xattr set user.v --file shared/value /tree/packed;
        cat /tree/packed; xattr get user.v /tree/packed";
    assert_eq!(text(&session(script, 0).stdout), "packeda value");
    for script in [
        "tar extract kept.tar /",
        "xattr set user.v --file kept.tar /tree/packed",
    ] {
        let said = text(&session(script, 1).stderr);
        assert!(said.contains("kept.tar: Permission denied"), "{said}");
    }
}

#[test]
fn options_of_open_are_for_what_comes_after_it() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    image(&s, "a.img");
    let before = s.read("a.img");
    let script = "cat etc/motd; open --overlay over a.img; rm etc/motd; ls etc";
    let output = succeed(s.tane().args(["sh", "-e", "a.img", "-c", script]));
    assert_eq!(text(&output.stdout), "a.img");
    assert!(s.read("a.img") == before && s.join("over").exists());
    let output = succeed(s.tane().args(["--overlay", "over", "ls", "a.img:/etc"]));
    assert_eq!(text(&output.stdout), "");
    // What the session itself was begun with is for what comes before.
    let script = "touch new; open --overlay other a.img; ls new";
    let begun = ["--overlay", "over", "sh", "-c", script, "a.img"];
    let said = text(&exit(s.tane().args(begun), 1).stderr);
    assert!(said.contains("new: no such file"), "{said}");
    succeed(s.tane().args(["--overlay", "over", "ls", "a.img:/new"]));
    assert!(s.read("a.img") == before);
}

#[test]
fn a_first_command_with_a_pattern_opens_all_images_that_it_names() {
    if !has_kernel() || !has_landlock() {
        return;
    }
    let s = Scratch::new();
    image(&s, "a.img");
    image(&s, "b.img");
    let mut command = s.tane();
    command.args(["sh", "--rw"]);
    let output = feed(command, "cp a.img:/etc/m* b.img:/\ncat b.img:/motd\n");
    assert_eq!(text(&output.stderr), "");
    assert_eq!(text(&output.stdout), "a.img");
}

#[test]
fn new_files_directories_and_patterns_of_the_host_are_those_of_what_is_shared() {
    if !has_kernel() || !has_landlock() {
        return;
    }
    let s = Scratch::new();
    image(&s, "a.img");
    s.write("shared/etc/motd", b"another");
    s.write("shared/one.txt", b"1");
    s.write("shared/two.txt", b"2");
    s.write("shared/.hidden.txt", b"3");
    s.write("kept/one.txt", b"1");
    // The same whether the commands are known or not.
    let long = b"what was there, which is long".repeat(1 << 12);
    for typed in [false, true] {
        s.write("shared/old.tar", &long);
        let session = |script: &str| {
            let mut command = s.tane();
            command.args(["sh", "--rw", "--share", "shared", "a.img"]);
            match typed {
                true => feed(command, script),
                false => command.args(["-c", script]).output().expect("tane"),
            }
        };
        let script = "tar create shared/new.tar etc
            tar create shared/old.tar etc
            convert a.img shared/new.qcow2
            convert --force a.img shared/new.qcow2
            diff --compare type,content /etc host:shared/etc
            diff --compare type,content host:shared host:shared/etc
            cp host:shared/*.txt /
            lcd shared
            cp host:**/m* /from-host
            ls /";
        let output = session(script);
        assert_eq!(text(&output.stderr), "");
        let said = text(&output.stdout);
        for wanted in [
            "changed: motd (content",
            "removed: one.txt (file)",
            "added: motd (file)",
            "from-host",
            "one.txt",
            "two.txt",
        ] {
            assert!(said.contains(wanted), "{wanted}: {said}");
        }
        assert!(!said.contains(".hidden.txt\n"), "{said}");
        for name in ["new.tar", "old.tar"] {
            let archive = format!("-tf shared/{name}");
            let listed = succeed(s.command("tar", &archive).current_dir(s.path()));
            assert_eq!(text(&listed.stdout), "etc/\netc/motd\n", "{name}");
        }
        let copy = succeed(s.tane().args(["cat", "shared/new.qcow2:/etc/motd"]));
        assert_eq!(text(&copy.stdout), "a.img");
        let mode = |name: &str| {
            let found = s.join(name).metadata().expect("stat");
            std::os::unix::fs::PermissionsExt::mode(&found.permissions())
        };
        assert_eq!(mode("shared/new.tar"), mode("shared/one.txt"));
        for command in [
            "tar create kept/new.tar etc",
            "tar create kept/one.txt etc",
            "convert a.img kept/new.img",
            "diff /etc host:kept",
            "ls host:kept/*.txt",
        ] {
            let said = text(&session(command).stderr);
            assert!(said.contains("--share DIR"), "{command}: {said}");
        }
        s.write("tree/f", b"");
        for command in [
            "make-image tree shared/n.img",
            "mkfs --size 9M shared/n.img",
        ] {
            let said = text(&session(command).stderr);
            assert!(said.contains("end the session"), "{command}: {said}");
        }
        let said = text(&session("convert a.img shared/new.qcow2").stderr);
        assert!(said.contains("exists already: --force"), "{said}");
        assert_eq!(s.read("kept/one.txt"), b"1");
        let names = std::fs::read_dir(s.join("kept")).expect("a listing");
        assert_eq!(names.count(), 1);
        for name in std::fs::read_dir(s.join("shared")).expect("a listing") {
            let name = name.expect("a name").file_name();
            let name = name.to_str().expect("text");
            assert!(!name.contains(".tane-"), "{name}");
        }
        std::fs::remove_file(s.join("shared/new.tar")).expect("it was made");
        std::fs::remove_file(s.join("shared/new.qcow2")).expect("it was made");
        succeed(s.tane().args(["rm", "a.img:/from-host"]));
    }
}

#[test]
fn a_new_archive_of_a_session_that_is_killed_goes() {
    if !has_kernel() || !has_landlock() {
        return;
    }
    let s = Scratch::new();
    s.write("tree/big", &vec![7; 8 << 20]);
    s.ext4("a.img", Some(&s.join("tree")), 64);
    s.write("shared/f", b"");
    let parts = || {
        let names = std::fs::read_dir(s.join("shared")).expect("a listing");
        let names = names.flatten().map(|name| name.file_name());
        let parts = names.filter(|name| name.to_str().is_some_and(|n| n.contains(".tane-")));
        parts.count()
    };
    let mut command = s.tane();
    let script = "tar create --compression xz shared/a.tar.xz /.; tar create shared/a.tar /.";
    command.args(["sh", "--share", "shared", "a.img", "-c", script]);
    let mut child = command.spawn().expect("tane");
    eventually("it is being made", || parts() == 1);
    child.kill().expect("it is killed");
    child.wait().expect("its end");
    eventually("it goes", || parts() == 0);
    assert!(!s.join("shared/a.tar.xz").exists());
}
