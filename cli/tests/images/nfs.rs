//! Files of servers of NFS, through the command: Ganesha serves them.

use crate::common::*;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::{Command, Stdio};
use tane_test_support::nfs::{serve, Served};

/// A tree, served; None where nothing is to be run.
#[track_caller]
fn served(s: &Scratch) -> Option<Served> {
    if !has_kernel() {
        return None;
    }
    s.write("tree/f", b"data\n");
    s.write("tree/d/e/g", b"deeper\n");
    s.write("tree/big", &[7; 9_000_000]);
    std::os::unix::fs::symlink("../f", s.join("tree/d/link")).expect("a link");
    let mode = PermissionsExt::from_mode(0o751);
    std::fs::set_permissions(s.join("tree/big"), mode).expect("a mode");
    serve(s.path(), &s.join("tree"), "0,1,2")
}

fn said(command: &mut Command) -> (String, String) {
    let output = succeed(command);
    (text(&output.stdout), text(&output.stderr))
}

#[test]
fn verbs_read_files_of_a_server_as_those_of_an_image() {
    let s = Scratch::new();
    let Some(server) = served(&s) else { return };
    let url = server.url();
    let tane = |words: &[&str]| said(s.tane().args(words));
    let at = |path: &str| format!("{url}:{path}");
    let none = String::new();
    assert_eq!(tane(&["cat", &at("/f")]), ("data\n".into(), none.clone()));
    assert_eq!(tane(&["ls", &url]).0, "big\nd\nf\n");
    // From the root that the server shows.
    let root = url.replace("/tree", "");
    assert_eq!(tane(&["cat", &format!("{root}:/tree/d/link")]).0, "data\n");
    let all = tane(&["find", &url]).0;
    assert_eq!(all, "/\n/big\n/d\n/d/e\n/d/e/g\n/d/link\n/f\n");
    assert!(tane(&["stat", &at("/big")]).0.contains("0751"));
    assert_eq!(tane(&["diff", &at("/"), "tree"]), (none.clone(), none));
    tane(&["cp", &at("/"), "out"]);
    succeed(
        s.command("diff", "-r --no-dereference tree out")
            .current_dir(s.path()),
    );
    let mode = std::fs::metadata(s.join("out/big")).expect("it").mode();
    assert_eq!(mode & 0o7777, 0o751);
    let archive = succeed(s.tane().args(["tar", "create", "-", &at("/d")])).stdout;
    assert!(archive.windows(7).any(|bytes| bytes == b"deeper\n"));
    let (out, _) = tane(&["sh", &url, "-c", "cd d; cat e/g; cat /f"]);
    assert_eq!(out, "deeper\ndata\n");
}

#[test]
fn verbs_write_files_of_a_server_and_images_get_copies_of_them() {
    let s = Scratch::new();
    let Some(server) = served(&s) else { return };
    let at = |path: &str| format!("{}:{path}", server.url());
    let tane = |words: &[&str]| said(s.tane().arg("-q").args(words));
    s.write("new", &[9; 2_000_000]);
    tane(&["cp", "new", &at("/new")]);
    assert!(s.read("tree/new") == [9; 2_000_000]);
    tane(&["cp", &at("/f"), &at("/again")]);
    tane(&["mkdir", &at("/m")]);
    tane(&["mv", &at("/d"), &at("/m/d")]);
    tane(&["rm", &at("/f")]);
    tane(&["chmod", "0600", &at("/big")]);
    assert_eq!(s.read("tree/again"), b"data\n");
    assert_eq!(s.read("tree/m/d/e/g"), b"deeper\n");
    assert!(!s.join("tree/f").exists());
    let mode = std::fs::metadata(s.join("tree/big")).expect("it").mode();
    assert_eq!(mode & 0o7777, 0o600);
    let script = "cp again third; rm again";
    tane(&["sh", "--rw", &server.url(), "-c", script]);
    assert_eq!(s.read("tree/third"), b"data\n");
    // Each has a kernel of its own.
    s.ext4("disk.img", None, 16);
    tane(&["cp", &at("/m"), "disk.img:/"]);
    tane(&["cp", "disk.img:/m/d/e/g", &at("/back")]);
    assert_eq!(s.read("tree/back"), b"deeper\n");
    assert_sound(&s.join("disk.img"));
}

#[test]
fn the_server_is_told_who_comes_and_decides_what_that_one_may() {
    let s = Scratch::new();
    let Some(server) = served(&s) else { return };
    let mode = PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(s.join("tree/f"), mode).expect("a mode");
    let own = format!("{}:/f", server.url());
    assert_eq!(said(s.tane().args(["cat", &own])).0, "data\n");
    let others = own.replace("nfs://", "nfs://nobody@");
    let output = exit(s.tane().args(["cat", &others]), 1);
    assert!(text(&output.stderr).contains("ermission denied"));
}

#[test]
fn what_is_read_is_not_written() {
    let s = Scratch::new();
    let Some(server) = served(&s) else { return };
    let script = ["sh", "--read-only", &server.url(), "-c", "rm f"];
    let output = s.tane().args(script).output().expect("tane");
    assert!(!output.status.success());
    assert_eq!(s.read("tree/f"), b"data\n");
}

#[test]
fn a_server_that_dies_in_the_middle_is_an_error_that_names_it() {
    let s = Scratch::new();
    let Some(mut server) = served(&s) else { return };
    let mut tane = s.tane();
    tane.arg("cat").arg(format!("{}:/big", server.url()));
    tane.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = tane.spawn().expect("tane");
    // More than its pipe has room for, and Linux reads ahead, is still to come.
    let mut first = [0; 1000];
    let mut out = child.stdout.take().expect("a pipe");
    out.read_exact(&mut first).expect("the first bytes");
    server.kill();
    let mut rest = Vec::new();
    out.read_to_end(&mut rest).expect("what there is");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(1));
    let err = text(&output.stderr);
    let named = format!("{}: the server has", server.url());
    assert!(err.contains(&named), "{err}");
    assert!(first.len() + rest.len() < 9_000_000);
}

#[test]
fn what_cannot_be_is_said() {
    let s = Scratch::new();
    let Some(server) = served(&s) else { return };
    let url = server.url();
    for (words, wanted) in [
        (&["fsck", &url][..], "there is no disk"),
        (&["mkfs", "--fs", "ext4", &url], "there is no disk"),
        (&["--kernel", "tiny", "ls", &url], "leave --kernel out"),
        (&["--options", "port=1", "ls", &url], "the option port"),
        (&["ls", &url.replace("/tree", "/none")], "no such export"),
        (&["ls", "nfs://127.0.0.1:1/x"], "refused"),
        (&["ls", "nfs://no-such-user@127.0.0.1/x"], "no user"),
        (&["ls", "nfs://h/x?vers=3"], "?vers=3"),
    ] {
        let output = s.tane().args(words).output().expect("tane");
        assert!(!output.status.success(), "{words:?}");
        let err = text(&output.stderr);
        assert!(err.contains(wanted), "{words:?}: {err}");
    }
}
