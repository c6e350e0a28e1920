//! Promises of `tane sh`: many commands, one kernel, images that stay open.

use crate::common::*;
use serde_json::Value;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

pub fn image(s: &Scratch, name: &str) -> PathBuf {
    s.write(&format!("{name}.d/etc/motd"), name.as_bytes());
    s.ext4(name, Some(&s.join(&format!("{name}.d"))), 16)
}

/// The command with a script as its standard input.
pub fn feed(mut command: Command, script: &str) -> std::process::Output {
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("tane");
    let mut stdin = child.stdin.take().expect("stdin");
    stdin.write_all(script.as_bytes()).expect("a script");
    drop(stdin);
    child.wait_with_output().expect("exit")
}

#[test]
fn commands_work_where_the_session_is() {
    let s = Scratch::new();
    s.write("i/etc/motd", b"hello");
    s.write("i/top", b"");
    let run = |script: &str| text(&succeed(s.host().args(["sh", "i", "-c", script])).stdout);
    assert_eq!(run("ls"), "etc\ntop\n");
    assert_eq!(run("cd etc; ls; cat motd"), "motd\nhello");
    assert_eq!(
        run("cd etc; cd ..; ls -d etc; cd /etc; cat ../etc/./motd"),
        "/etc\nhello"
    );
    assert_eq!(run("cd etc; cd /; cd -; ls"), "motd\n");
    assert_eq!(run("echo 'a  b' \"c;d\" # e"), "a  b c;d\n");
    let root = s.join("i").display().to_string();
    assert_eq!(run("cd etc; pwd"), format!("{root}:/etc\n"));
    run("cd etc; mkdir new; touch new/f; mv new/f g; ln -s g soft; cp g new");
    assert!(s.join("i/etc/new/g").exists() && s.join("i/etc/soft").is_symlink());
}

#[test]
fn a_symlinked_directory_is_where_it_points_within_the_image() {
    let s = Scratch::new();
    s.write("i/real/f", b"");
    std::os::unix::fs::symlink("/real", s.join("i/link")).expect("symlink");
    let run = ["sh", "i", "-c", "cd link; ls; pwd"];
    let said = text(&succeed(s.host().args(run)).stdout);
    assert_eq!(said, format!("f\n{}:/real\n", s.join("i").display()));
}

#[test]
fn files_go_to_the_host_and_back() {
    let s = Scratch::new();
    s.write("i/a", b"a");
    s.write("host/b", b"b");
    let script = "lcd host; get a; get a renamed; put b; mkdir d; cp host:b /a d; cp d host:.";
    succeed(s.host().args(["sh", "-e", "i", "-c", script]));
    assert_eq!(s.read("host/a"), b"a");
    assert_eq!(s.read("host/renamed"), b"a");
    assert_eq!(s.read("i/b"), b"b");
    assert_eq!(s.read("host/d/b"), b"b");
    assert_eq!(s.read("host/d/a"), b"a");
}

#[test]
fn the_last_command_gives_the_exit_code_unless_one_fails_under_e() {
    let s = Scratch::new();
    s.write("i/f", b"");
    let run = |args: &[&str], code| {
        let output = exit(s.host().args(["sh", "i"]).args(args), code);
        (text(&output.stdout), text(&output.stderr))
    };
    assert_eq!(run(&["-c", "cat none; echo on"], 0).0, "on\n");
    run(&["-c", "echo on; cat none"], 1);
    run(&["-c", "exit 7; echo on"], 7);
    run(&["-c", "nonsense"], 2);
    let (out, err) = run(&["-ec", "echo a\ncat none\necho b"], 1);
    assert_eq!(out, "a\n");
    assert!(
        err.contains("none: no such file") && err.contains("stopped at line 2"),
        "{err}"
    );
    assert_eq!(run(&["-c", "set -e; cat none; echo b"], 1).0, "");
    assert_eq!(run(&["-ec", "set +e; cat none; echo b"], 0).0, "b\n");
    assert!(run(&["-ec", "echo a | cat"], 2).1.contains("no pipes"));
    exit(s.tane().args(["sh", "none.img", "-c", "ls"]), 3);
}

#[test]
fn scripts_come_from_files_and_from_standard_input() {
    let s = Scratch::new();
    s.write("i/f", b"data");
    s.write(
        "script",
        b"# a comment\ncat \\\n  f; echo\necho 'two\nlines'",
    );
    let wanted = "data\ntwo\nlines\n";
    let file = succeed(s.host().args(["sh", "i", "-f", "script"]));
    assert_eq!(text(&file.stdout), wanted);
    let mut command = s.host();
    command.args(["sh", "i"]);
    let output = feed(command, &text(&s.read("script")));
    assert_eq!(text(&output.stdout), wanted);
    // What follows a command may be its input.
    let mut command = s.host();
    command.args(["sh", "i"]);
    let output = feed(command, "xattr set user.v --file - f\nthe value");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let value = succeed(s.host().args(["xattr", "get", "user.v", "i:/f"])).stdout;
    assert_eq!(value, b"the value");
}

#[test]
fn odd_names_can_be_typed_as_they_are_shown() {
    let s = Scratch::new();
    s.write("i/plain", b"");
    let script = "mv plain $'new\\n\\377'; ls --json";
    let output = succeed(s.host().args(["sh", "i", "-c", script])).stdout;
    let line: Value = serde_json::from_slice(&output).expect("JSON");
    assert_eq!(line["name_bytes"], "6e65770aff");
}

#[test]
fn help_lists_commands_and_explains_each() {
    let s = Scratch::new();
    std::fs::create_dir(s.join("i")).expect("mkdir");
    let help = |script: &str| text(&succeed(s.host().args(["sh", "i", "-c", script])).stdout);
    let all = help("help");
    for command in ["cd", "lcd", "cp", "du", "sync", "xattr"] {
        assert!(
            all.lines().any(|l| l.trim_start().starts_with(command)),
            "{all}"
        );
    }
    assert!(!all.contains("bench"), "{all}");
    assert!(help("help du").contains("KiB"));
    assert!(help("du --help").contains("KiB"));
}

#[test]
fn one_kernel_serves_all_images() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    let (a, b) = (image(&s, "a.img"), image(&s, "b.img"));
    let script = "cat /etc/motd; cat b.img:/etc/motd; cp /etc/motd b.img:/from-a
        cp b.img:/etc/motd /from-b; cat from-b b.img:/from-a; cd b.img:/etc; ls
        syscall openat -100 /proc/mounts 0 , read _ buf:4000 4000";
    let said = text(&succeed(s.tane().args(["sh", "-e", "a.img", "b.img", "-c", script])).stdout);
    assert!(said.starts_with("a.imgb.imgb.imga.imgmotd\n"), "{said}");
    assert_eq!(said.matches(" ext4 rw").count(), 2, "{said}");
    assert_sound(&a);
    assert_sound(&b);
    let left = succeed(s.tane().args(["cat", "a.img:/from-b", "b.img:/from-a"])).stdout;
    assert_eq!(left, b"b.imga.img");
}

#[test]
fn reading_in_a_session_changes_no_byte_and_writing_is_refused_if_told_so() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    let file = image(&s, "a.img");
    let before = std::fs::read(&file).expect("the image");
    let script = "ls -lR; find; du; tree; df; cat etc/motd; stat etc; xattr list .";
    succeed(
        s.tane()
            .args(["sh", "-e", "--share", ".", "a.img", "-c", script]),
    );
    let refused = exit(s.tane().args(["sh", "-r", "a.img", "-c", "touch f"]), 1);
    assert!(text(&refused.stderr).contains("for reading only"));
    assert!(std::fs::read(&file).expect("the image") == before);
}

#[test]
fn a_session_writes_if_its_commands_are_known_to_before_it_meets_an_image_or_it_is_told_so() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    let file = image(&s, "a.img");
    let before = std::fs::read(&file).expect("the image");
    s.write("script", b"touch f\nxattr set user.v --file - f\nthe value");
    let session = |options: &[&str]| {
        let mut command = s.tane();
        command.args(["sh", "-e"]).args(options).arg("a.img");
        command
    };
    // A pipe tells what comes when it comes.
    let output = feed(session(&[]), "touch f\n");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("tane sh --rw"), "{said}");
    exit(&mut session(&["-r", "-c", "touch f"]), 1);
    exit(&mut session(&["-r", "--rw"]), 2);
    // Nor do such commands have whole images changed.
    let output = feed(session(&["--share", "."]), "trim\n");
    assert!(text(&output.stderr).contains("tane sh --rw"));
    assert!(std::fs::read(&file).expect("the image") == before);
    let writes = |what: &str, output: std::process::Output| {
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{what}: {said}");
        let listed = succeed(s.tane().args(["ls", "a.img:/"])).stdout;
        assert!(text(&listed).lines().any(|name| name == "f"), "{what}");
        succeed(s.tane().args(["rm", "a.img:/f"]));
    };
    writes("a pipe", feed(session(&["--rw"]), "touch f\n"));
    writes("-f -", feed(session(&["-f", "-"]), "touch f\n"));
    let script = std::fs::File::open(s.join("script")).expect("a script");
    let mut redirected = session(&[]);
    redirected.stdin(script);
    writes("a file", redirected.output().expect("tane"));
    // What is written to an overlay is no image's.
    let over = feed(session(&["--overlay", ":memory:"]), "touch f; ls f\n");
    assert_eq!(text(&over.stdout), "/f\n");
}

#[test]
fn a_script_without_an_end_is_refused() {
    let s = Scratch::new();
    s.write("i/f", b"");
    let endless = ["sh", "i", "-f", "/dev/zero"];
    let said = text(&exit(s.host().args(endless), 1).stderr);
    assert!(said.contains("/dev/zero: is no script"), "{said}");
}

#[test]
fn what_was_written_is_in_the_image_after_sync() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    let file = image(&s, "a.img");
    s.write("new", &vec![5; 100_000]);
    let mut command = s.tane();
    command.args(["sh", "-e", "--rw", "--share", ".", "a.img"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("tane");
    let mut stdin = child.stdin.take().expect("stdin");
    stdin
        .write_all(b"put new\nsync\necho synced\n")
        .expect("a script");
    let mut said = [0; 7];
    let mut stdout = child.stdout.take().expect("stdout");
    stdout.read_exact(&mut said).expect("a word");
    // As after a power cut: a copy, its journal replayed, has the file whole.
    child.kill().expect("SIGKILL");
    child.wait().expect("exit");
    let data = succeed(s.tane().args(["cat", "a.img:/new"])).stdout;
    assert!(data == s.read("new"));
    let _ = sbin("e2fsck").arg("-fy").arg(&file).output();
    assert_sound(&file);
    let read = succeed(sbin("debugfs").args(["-R", "cat /new"]).arg(&file)).stdout;
    assert!(read == s.read("new"));
}

#[test]
fn a_copy_of_an_open_image_is_not_taken_for_it() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    let a = image(&s, "a.img");
    let b = s.join("b.img");
    std::fs::copy(&a, &b).expect("a copy, with the same UUID");
    let script = "touch /in-a; touch b.img:/in-b; diff --compare type,content . b.img:/";
    let output = exit(
        s.tane().args(["sh", "--share", ".", "a.img", "-c", script]),
        1,
    );
    let said = text(&output.stdout);
    assert_eq!(said, "removed: in-a (file)\nadded: in-b (file)\n");
    assert_sound(&a);
    assert_sound(&b);
}

#[test]
fn verbs_of_whole_images_and_closing_work_in_a_session() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    image(&s, "a.img");
    image(&s, "b.img");
    let script = "touch f; images; inspect --json a.img; ls f; trim; close; ls b.img:/etc
        cd b.img:/; images --json";
    let output = succeed(
        s.tane()
            .args(["sh", "-e", "--share", ".", "a.img", "-c", script]),
    );
    let said = text(&output.stdout);
    let a = s.join("a.img").canonicalize().expect("a path");
    assert!(
        said.starts_with(&format!("{}  read and written\n", a.display())),
        "{said}"
    );
    assert!(
        said.contains("\"fs\":\"ext4\"") && said.contains("/f\n"),
        "{said}"
    );
    assert!(said.ends_with("\"writable\":false}\n"), "{said}");
}

#[test]
fn a_script_that_is_interrupted_leaves_a_sound_image() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    let file = image(&s, "a.img");
    let mut command = s.tane();
    command
        .args(["sh", "--rw", "a.img"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    heeds_ctrl_c(&mut command);
    let mut child = command.spawn().expect("tane");
    let mut stdin = child.stdin.take().expect("stdin");
    stdin
        .write_all(b"touch made\necho done\n")
        .expect("a script");
    let mut said = [0; 5];
    child
        .stdout
        .take()
        .expect("stdout")
        .read_exact(&mut said)
        .expect("a word");
    // It waits for its next line now, or soon.
    // SAFETY: a signal to our own child.
    assert_eq!(unsafe { libc::kill(child.id() as i32, libc::SIGINT) }, 0);
    assert_eq!(child.wait().expect("exit").code(), Some(130));
    drop(stdin);
    assert_sound(&file);
    succeed(s.tane().args(["ls", "a.img:/made"]));
}
