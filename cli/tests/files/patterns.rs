//! Promises about patterns in paths: of the command line, and of sessions.

use crate::common::*;

/// A directory served by the host's kernel, with names of all sorts.
fn tree(s: &Scratch) {
    for name in [
        "a.conf",
        "b.conf",
        ".hidden.conf",
        "x[1]",
        "x1",
        "d/c.conf",
        "d/e",
    ] {
        s.write(&format!("i/etc/{name}"), name.as_bytes());
    }
}

fn said(s: &Scratch, args: &[&str]) -> String {
    text(&succeed(s.host().args(args)).stdout)
}

#[test]
fn patterns_stand_for_files_of_the_image() {
    let s = Scratch::new();
    tree(&s);
    assert_eq!(
        said(&s, &["ls", "i:/etc/*.conf"]),
        "/etc/a.conf\n/etc/b.conf\n"
    );
    assert_eq!(said(&s, &["cat", "i:/etc/[ab].conf"]), "a.confb.conf");
    assert_eq!(said(&s, &["cat", "i:/*/d/?.conf"]), "d/c.conf");
    let found = said(&s, &["find", "i:/**/*.conf", "-type", "f"]);
    assert_eq!(found, "/etc/a.conf\n/etc/b.conf\n/etc/d/c.conf\n");
    // What is there under the very name is that; \ asks for nothing else.
    assert_eq!(said(&s, &["cat", "i:/etc/x[1]"]), "x[1]");
    assert_eq!(said(&s, &["cat", "i:/etc/x[12]"]), "x1");
    succeed(s.host().args(["cp", "i:/etc/*.conf", "i:/etc/d", "."]));
    assert_eq!(s.read("b.conf"), b"b.conf");
    assert_eq!(s.read("d/e"), b"d/e");
    assert!(!s.join(".hidden.conf").exists());
    succeed(s.host().args(["tar", "create", "a.tar", "i:/etc/?.conf"]));
    let listed = succeed(&mut s.command("tar", "-tf a.tar"));
    assert_eq!(text(&listed.stdout), "a.conf\nb.conf\n");
    succeed(s.host().args(["chmod", "600", "i:/etc/*.conf"]));
    succeed(s.host().args(["mv", "i:/etc/x*", "/etc/d"]));
    assert!(s.join("i/etc/d/x1").exists() && s.join("i/etc/d/x[1]").exists());
    succeed(s.host().args(["rm", "-r", "i:/etc/[bd]*"]));
    assert!(!s.join("i/etc/d").exists() && s.join("i/etc/a.conf").exists());
}

#[test]
fn a_pattern_that_nothing_matches_is_an_error_that_names_it() {
    let s = Scratch::new();
    tree(&s);
    let at = "i:/etc/*.none";
    let wanted = "i:/etc/*.none: no file matches";
    for verb in ["ls", "cat", "stat", "rm", "touch", "du", "find"] {
        let output = exit(s.host().args([verb, at, "i:/etc/a.conf"]), 1);
        assert!(text(&output.stderr).contains(wanted), "{verb}");
        s.write("i/etc/a.conf", b"again");
    }
    for command in [["cp", at, "out"], ["mv", at, "/etc/d"]] {
        let output = exit(s.host().args(command), 1);
        assert!(text(&output.stderr).contains(wanted), "{command:?}");
    }
    exit(s.host().args(["truncate", "-s", "0", at]), 1);
    assert!(!s.join("i/etc/*.none").exists());
    succeed(s.host().args(["rm", "-f", at]));
    // What is yet to be made is no pattern, and with a \ neither is anything else.
    succeed(s.host().args(["mkdir", "i:/new*"]));
    succeed(s.host().args(["touch", "i:/new\\?"]));
    assert!(s.join("i/new*").is_dir() && s.join("i/new?").is_file());
}

#[test]
fn patterns_work_on_a_real_image() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    tree(&s);
    let image = s.ext4("disk.img", Some(&s.join("i")), 16);
    let cat = succeed(s.tane().args(["cat", "disk.img:/e*/[ab].conf"])).stdout;
    assert_eq!(cat, b"a.confb.conf");
    succeed(s.tane().args(["rm", "disk.img:/etc/*.conf"]));
    assert_sound(&image);
    let left = succeed(s.tane().args(["ls", "disk.img:/etc"])).stdout;
    assert_eq!(text(&left), "d\nx1\nx[1]\n");
}

#[test]
fn in_a_session_patterns_that_are_not_quoted_stand_for_files() {
    let s = Scratch::new();
    tree(&s);
    s.write("host/one.txt", b"1");
    s.write("host/two.txt", b"2");
    let run = |script: &str| said(&s, &["sh", "i", "-ec", script]);
    assert_eq!(
        run("cd etc; echo *.conf d/*"),
        "a.conf b.conf d/c.conf d/e\n"
    );
    assert_eq!(
        run("echo /etc/?.conf '*.conf' \\* \"?\""),
        "/etc/a.conf /etc/b.conf *.conf * ?\n"
    );
    assert_eq!(
        run("cd etc; cat [ab].conf; cat x[1] x[12]"),
        "a.confb.confx[1]x1"
    );
    assert_eq!(run("find /etc -name '*.conf'").lines().count(), 4);
    run("lcd host; cp host:*.txt /; cp /*.txt /etc/a* host:.");
    assert_eq!(s.read("i/two.txt"), b"2");
    assert_eq!(s.read("host/a.conf"), b"a.conf");
    // A quoted one is a name, also for what would take patterns elsewhere.
    let fail = |script: &str, code: i32| {
        let output = exit(s.host().args(["sh", "i", "-c", script]), code);
        text(&output.stderr)
    };
    assert!(fail("rm '/etc/*.conf'", 1).contains("/etc/*.conf: no such file"));
    assert!(fail("rm /etc/*.none", 1).contains("/etc/*.none: no file matches"));
    assert!(fail("get /etc/*.conf", 2).contains("get: /etc/*.conf stands for 2 files"));
    assert!(s.join("i/etc/a.conf").exists());
    run("rm /etc/*.conf");
    assert!(!s.join("i/etc/a.conf").exists() && s.join("i/etc/d/c.conf").exists());
}
