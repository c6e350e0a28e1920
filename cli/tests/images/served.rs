//! What holds of files of a server, whatever protocol they come by.

use crate::common::*;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::{Command, Stdio};

/// The tree that is served, whose file `big` has so many bytes.
pub fn tree(s: &Scratch, big: usize) {
    s.write("tree/f", b"data\n");
    s.write("tree/d/e/g", b"deeper\n");
    s.write("tree/big", &vec![7; big]);
    std::os::unix::fs::symlink("../f", s.join("tree/d/link")).expect("a link");
    set_mode(s, "tree/big", 0o751);
}

fn set_mode(s: &Scratch, file: &str, mode: u32) {
    let mode = PermissionsExt::from_mode(mode);
    std::fs::set_permissions(s.join(file), mode).expect("a mode");
}

fn mode(s: &Scratch, file: &str) -> u32 {
    std::fs::metadata(s.join(file)).expect("it").mode() & 0o7777
}

pub fn said(command: &mut Command) -> (String, String) {
    let output = succeed(command);
    (text(&output.stdout), text(&output.stderr))
}

/// Verbs read files of a server as those of an image.
pub fn is_read(s: &Scratch, url: &str) {
    let tane = |words: &[&str]| said(s.tane().args(words));
    let at = |path: &str| format!("{url}:{path}");
    let none = String::new();
    assert_eq!(tane(&["cat", &at("/f")]), ("data\n".into(), none.clone()));
    assert_eq!(tane(&["ls", url]).0, "big\nd\nf\n");
    let all = tane(&["find", url]).0;
    assert_eq!(all, "/\n/big\n/d\n/d/e\n/d/e/g\n/d/link\n/f\n");
    assert!(tane(&["stat", &at("/big")]).0.contains("0751"));
    assert_eq!(tane(&["diff", &at("/"), "tree"]), (none.clone(), none));
    tane(&["cp", &at("/"), "out"]);
    succeed(
        s.command("diff", "-r --no-dereference tree out")
            .current_dir(s.path()),
    );
    assert_eq!(mode(s, "out/big"), 0o751);
    let archive = succeed(s.tane().args(["tar", "create", "-", &at("/d")])).stdout;
    assert!(archive.windows(7).any(|bytes| bytes == b"deeper\n"));
    let (out, _) = tane(&["sh", url, "-c", "cd d; cat e/g; cat /f"]);
    assert_eq!(out, "deeper\ndata\n");
}

/// Verbs write files of a server, and images get copies of them.
pub fn is_written(s: &Scratch, url: &str) {
    let at = |path: &str| format!("{url}:{path}");
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
    assert_eq!(mode(s, "tree/big"), 0o600);
    tane(&["sh", "--rw", url, "-c", "cp again third; rm again"]);
    assert_eq!(s.read("tree/third"), b"data\n");
    // Each has a kernel of its own.
    s.ext4("disk.img", None, 16);
    tane(&["cp", &at("/m"), "disk.img:/"]);
    tane(&["cp", "disk.img:/m/d/e/g", &at("/back")]);
    assert_eq!(s.read("tree/back"), b"deeper\n");
    assert_sound(&s.join("disk.img"));
}

/// The server, which root runs, is told who comes, and decides what that one may. `url`: for
/// each who comes.
pub fn is_told_who_comes(s: &Scratch, url: impl Fn() -> String) {
    set_mode(s, "tree/f", 0o600);
    let own = format!("{}:/f", url());
    assert_eq!(said(s.tane().args(["cat", &own])).0, "data\n");
    let others = format!("{}:/f", url().replacen("://", "://nobody@", 1));
    let output = exit(s.tane().args(["cat", &others]), 1);
    assert!(text(&output.stderr).contains("ermission denied"));
}

/// What is read is not written.
pub fn is_not_written(s: &Scratch, url: &str) {
    let script = ["sh", "--read-only", url, "-c", "rm f"];
    let output = s.tane().args(script).output().expect("tane");
    assert!(!output.status.success());
    assert_eq!(s.read("tree/f"), b"data\n");
}

/// A server that is killed while this file of so many bytes is read is an error with these
/// words.
pub fn dies_in_the_middle(s: &Scratch, file: &str, len: usize, words: &str, kill: impl FnOnce()) {
    let mut tane = s.tane();
    tane.arg("cat").arg(file);
    tane.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = tane.spawn().expect("tane");
    // More than its pipe has room for, and Linux reads ahead, is still to come.
    let mut first = [0; 1000];
    let mut out = child.stdout.take().expect("a pipe");
    out.read_exact(&mut first).expect("the first bytes");
    kill();
    let mut rest = Vec::new();
    out.read_to_end(&mut rest).expect("what there is");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(1));
    let err = text(&output.stderr);
    assert!(err.contains(words), "{err}");
    assert!(first.len() + rest.len() < len);
}

/// Each of these is refused, and says so.
pub fn are_refused(s: &Scratch, commands: &[(&[&str], &str)]) {
    for (words, wanted) in commands {
        let output = s.tane().args(*words).output().expect("tane");
        assert!(!output.status.success(), "{words:?}");
        let err = text(&output.stderr);
        assert!(err.contains(wanted), "{words:?}: {err}");
    }
}
