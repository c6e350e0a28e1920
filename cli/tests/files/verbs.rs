//! Promises of the small verbs, kept on directories served by the host's own
//! kernel: the code is the same for images.

use crate::common::*;
use serde_json::Value;
use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{symlink, MetadataExt};
use std::process::Stdio;
use tane_test_support::has_root;

fn json_lines(bytes: &[u8]) -> Vec<Value> {
    text(bytes)
        .lines()
        .map(|l| serde_json::from_str(l).expect(l))
        .collect()
}

#[test]
fn ls_sorts_by_name_and_hides_dots() {
    let s = Scratch::new();
    for name in ["b", "a", ".c"] {
        s.write(&format!("i/{name}"), b"");
    }
    assert_eq!(succeed(s.host().args(["ls", "i"])).stdout, b"a\nb\n");
    assert_eq!(
        succeed(s.host().args(["ls", "-a", "i:/"])).stdout,
        b".c\na\nb\n"
    );
    assert_eq!(
        succeed(s.host().args(["ls", "-r", "--zero", "i:/"])).stdout,
        b"b\0a\0"
    );
}

#[test]
fn ls_prints_odd_names_raw_to_a_pipe_and_whole_as_json() {
    let s = Scratch::new();
    std::fs::create_dir(s.join("i")).expect("mkdir");
    let name = OsStr::from_bytes(b"a\n\xff");
    std::fs::write(s.join("i").join(name), b"").expect("a file");
    assert_eq!(succeed(s.host().args(["ls", "i"])).stdout, b"a\n\xff\n");
    let lines = json_lines(&succeed(s.host().args(["ls", "--json", "i"])).stdout);
    assert_eq!(lines[0]["name_bytes"], "610aff");
    assert_eq!(lines[0]["type"], "file");
}

#[test]
fn ls_names_owners_as_the_image_does() {
    if !has_root() {
        return;
    }
    let s = Scratch::new();
    s.write("i/etc/passwd", b"somebody:x:0:0::/:/bin/sh\n");
    s.write("i/etc/group", b"some:x:0:\n");
    s.write("i/file", b"12345");
    let long = text(&succeed(s.host().args(["ls", "-l", "i:/file"])).stdout);
    assert!(long.starts_with("-rw-r--r-- 1 somebody some 5 "), "{long}");
}

#[test]
fn cat_is_exact_and_joins_files() {
    let s = Scratch::new();
    let data: Vec<u8> = (0..3_000_000u32).map(|i| ((i * 7) >> 3) as u8).collect();
    s.write("i/a", &data);
    s.write("i/b", b"\0\n\xff");
    let output = succeed(s.host().args(["cat", "i:/a", "i:/b"]));
    assert_eq!(output.stdout, [&data[..], b"\0\n\xff"].concat());
}

#[test]
fn cat_ends_quietly_when_its_reader_leaves() {
    let s = Scratch::new();
    s.write("i/a", &vec![1; 8 << 20]);
    let mut command = s.host();
    command
        .args(["cat", "i:/a"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("tane");
    drop(child.stdout.take());
    let mut said = String::new();
    child
        .stderr
        .take()
        .expect("stderr")
        .read_to_string(&mut said)
        .expect("stderr");
    assert_eq!(child.wait().expect("exit").code(), Some(0));
    assert_eq!(said, "");
}

#[test]
fn cat_goes_on_after_a_file_it_cannot_read() {
    let s = Scratch::new();
    s.write("i/b", b"b");
    succeed(std::process::Command::new("mkfifo").arg(s.join("i/fifo")));
    let output = exit(s.host().args(["cat", "i:/a", "i:/fifo", "i:/", "i:/b"]), 1);
    assert_eq!(output.stdout, b"b");
    assert!(text(&output.stderr).contains("tane: i:/a: no such file or directory"));
}

#[test]
fn stat_tells_times_to_the_nanosecond_and_attributes() {
    let s = Scratch::new();
    s.write("i/f", b"123");
    succeed(
        s.host()
            .args(["touch", "-d", "2001-02-03T04:05:06.123456789Z", "i:/f"]),
    );
    let stat = json_lines(&succeed(s.host().args(["stat", "--json", "i:/f"])).stdout);
    assert_eq!(stat[0]["mtime"], "2001-02-03T04:05:06.123456789Z");
    assert_eq!(stat[0]["size"], 3);
    assert_eq!(stat[0]["xattrs"], Value::Array(vec![]));
}

#[test]
fn find_combines_its_tests() {
    let s = Scratch::new();
    s.write("i/a/x.conf", &[0; 2000]);
    s.write("i/a/y.CONF", b"");
    s.write("i/a/deep/z.conf", b"");
    symlink("x.conf", s.join("i/a/l.conf")).expect("symlink");
    let find = |args: &[&str]| text(&succeed(s.host().args(["find", "i"]).args(args)).stdout);
    assert_eq!(
        find(&["--name", "*.conf", "--type", "f"]),
        "/a/deep/z.conf\n/a/x.conf\n"
    );
    assert_eq!(
        find(&["-iname", "*.conf", "-maxdepth", "2", "-type", "f"]),
        "/a/x.conf\n/a/y.CONF\n"
    );
    assert_eq!(find(&["-size", "+1K", "-type", "f"]), "/a/x.conf\n");
    assert_eq!(find(&["-type", "l", "-print0"]), "/a/l.conf\0");
    succeed(s.host().args(["touch", "-d", "@5", "i:/a/x.conf"]));
    succeed(s.host().args(["touch", "-d", "@4", "i:/a/y.CONF"]));
    let newer = find(&["--newer", "i:/a/x.conf", "-type", "f"]);
    assert_eq!(newer, "/a/deep/z.conf\n");
}

#[test]
fn what_comes_in_the_wrong_order_is_told_which_comes_first() {
    let s = Scratch::new();
    s.write("i/f", b"");
    let before = s.join("i/f").metadata().expect("a file").mode();
    for words in [["chmod", "i:/f", "755"], ["chown", "i:/f", "root"]] {
        let said = text(&exit(s.host().args(words), 2).stderr);
        assert!(said.contains("comes first, the files behind it"), "{said}");
    }
    assert_eq!(s.join("i/f").metadata().expect("a file").mode(), before);
}

#[test]
fn mkdir_makes_parents_and_sets_modes() {
    let s = Scratch::new();
    std::fs::create_dir(s.join("i")).expect("mkdir");
    exit(s.host().args(["mkdir", "i:/a/b"]), 1);
    succeed(s.host().args(["mkdir", "-p", "-m", "2750", "i:/a/b/c"]));
    let mode = |name: &str| s.join(name).metadata().expect("a directory").mode() & 0o7777;
    assert_eq!((mode("i/a/b"), mode("i/a/b/c")), (0o755, 0o2750));
    succeed(s.host().args(["mkdir", "-p", "i:/a/b/c"]));
    exit(s.host().args(["mkdir", "i:/a"]), 1);
}

#[test]
fn rm_removes_trees_but_not_through_links() {
    let s = Scratch::new();
    s.write("i/keep/f", b"");
    s.write("i/d/e/f", b"");
    symlink("../keep", s.join("i/d/link")).expect("symlink");
    exit(s.host().args(["rm", "i:/d"]), 1);
    succeed(s.host().args(["rm", "-r", "i:/d"]));
    assert!(!s.join("i/d").exists());
    assert!(s.join("i/keep/f").exists());
    exit(s.host().args(["rm", "i:/none"]), 1);
    succeed(s.host().args(["rm", "-f", "i:/none", "i:/no/such"]));
    exit(s.host().args(["rm", "-rf", "i:/"]), 1);
    assert!(s.join("i/keep/f").exists());
}

#[test]
fn mv_renames_and_moves_into_directories() {
    let s = Scratch::new();
    s.write("i/a", b"a");
    s.write("i/d/x", b"x");
    succeed(s.host().args(["mv", "i:/a", "i:/b"]));
    succeed(s.host().args(["mv", "i:/b", "/d"]));
    assert_eq!(s.read("i/d/b"), b"a");
    std::fs::create_dir(s.join("j")).expect("mkdir");
    exit(s.host().args(["mv", "i:/d", "j:/"]), 2);
    succeed(s.host().args(["mv", "-n", "i:/d/b", "i:/d/x"]));
    assert_eq!(s.read("i/d/x"), b"x");
}

#[test]
fn ln_makes_both_kinds_of_links() {
    let s = Scratch::new();
    s.write("i/a", b"a");
    succeed(s.host().args(["ln", "/a", "i:/hard"]));
    assert_eq!(s.join("i/a").metadata().expect("a").nlink(), 2);
    succeed(s.host().args(["ln", "-s", "any text", "i:/soft"]));
    assert_eq!(
        std::fs::read_link(s.join("i/soft")).expect("a link"),
        OsStr::new("any text")
    );
    exit(s.host().args(["ln", "-s", "other", "i:/soft"]), 1);
    succeed(s.host().args(["ln", "-sf", "other", "i:/soft"]));
    assert_eq!(
        std::fs::read_link(s.join("i/soft")).expect("a link"),
        OsStr::new("other")
    );
    succeed(s.host().args(["ln", "-f", "/a", "i:/hard"]));
    assert_eq!(std::fs::read_dir(s.join("i")).expect("i").count(), 3);
}

#[test]
fn chmod_changes_trees() {
    let s = Scratch::new();
    s.write("i/d/f", b"");
    succeed(s.host().args(["chmod", "-R", "u=rwX,go=", "i:/d"]));
    let stat = |name: &str| s.join(name).metadata().expect("a file");
    assert_eq!(stat("i/d").mode() & 0o7777, 0o700);
    assert_eq!(stat("i/d/f").mode() & 0o7777, 0o600);
}

#[test]
fn chown_refuses_who_is_not_in_the_image() {
    let s = Scratch::new();
    s.write("i/d/f", b"");
    exit(s.host().args(["chown", "nobody-here", "i:/d"]), 2);
}

#[test]
fn chown_changes_trees_to_whom_the_image_knows() {
    if !has_root() {
        return;
    }
    let s = Scratch::new();
    s.write("i/d/f", b"");
    s.write("i/etc/passwd", b"me:x:1234:0::/:\n");
    s.write("i/etc/group", b"us:x:4321:\n");
    let owner = |name: &str| {
        let m = s.join(name).metadata().expect("a file");
        (m.uid(), m.gid())
    };
    succeed(s.host().args(["chown", "-R", "me:us", "i:/d"]));
    assert_eq!((owner("i/d"), owner("i/d/f")), ((1234, 4321), (1234, 4321)));
    succeed(s.host().args(["chown", ":0", "i:/d/f"]));
    assert_eq!(owner("i/d/f"), (1234, 0));
}

#[test]
fn touch_creates_unless_told_not_to() {
    let s = Scratch::new();
    std::fs::create_dir(s.join("i")).expect("mkdir");
    succeed(s.host().args(["touch", "-c", "i:/a"]));
    assert!(!s.join("i/a").exists());
    succeed(s.host().args(["touch", "-d", "@1.000000001", "i:/a"]));
    let m = s.join("i/a").metadata().expect("a");
    assert_eq!((m.mtime(), m.mtime_nsec()), (1, 1));
    succeed(s.host().args(["touch", "-r", "i/a", "i:/b"]));
    assert_eq!(s.join("i/b").metadata().expect("b").mtime(), 1);
}

#[test]
fn df_counts_the_file_system() {
    let s = Scratch::new();
    std::fs::create_dir(s.join("i")).expect("mkdir");
    let df = json_lines(&succeed(s.host().args(["df", "--json", "i"])).stdout);
    assert!(
        df[0]["size"].as_u64().expect("size") > df[0]["available"].as_u64().expect("available")
    );
}

#[test]
fn errors_name_the_thing_and_have_their_exit_codes() {
    let s = Scratch::new();
    s.write("empty.img", b"");
    let fail = |args: &[&str], code| text(&exit(s.tane().args(args), code).stderr);
    assert_eq!(
        fail(&["ls", "none.img"], 3),
        "tane: none.img: no such file\n"
    );
    assert_eq!(
        fail(&["cat", "none.img:/x"], 3),
        "tane: none.img: no such file\n"
    );
    assert!(fail(&["ls", "empty.img"], 3).contains("empty.img: is empty"));
    assert!(fail(&["ls", "."], 3).contains("is a directory, not an image"));
    assert!(fail(&["ls", "empty.img@x:/"], 2).contains("not a selector"));
    fail(&["no-such-verb"], 2);
    fail(&["cp", "one"], 2);
}

#[test]
fn manual_pages_and_completions_are_generated() {
    let s = Scratch::new();
    succeed(s.tane().args(["generate", "gen"]));
    for name in [
        "tane.1",
        "tane-cp.1",
        "tane-bench.1",
        "tane.bash",
        "tane-bench.bash",
        "_tane",
        "tane.fish",
    ] {
        assert!(s.join("gen").join(name).is_file(), "{name}");
    }
}

#[test]
fn names_of_images_that_are_no_text_are_exact_in_json() {
    use std::os::unix::ffi::OsStrExt;
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    let odd = |bytes| std::ffi::OsStr::from_bytes(bytes);
    s.write("tree/f", b"data");
    let words = |text: &'static str| text.split(' ');
    for (args, name, more) in [
        ("--fs=ext4 mkfs --size=32M", odd(b"odd\xff"), None),
        ("fsck", odd(b"odd\xff"), None),
        ("resize", odd(b"odd\xff"), Some("40M")),
        ("make-image tree", odd(b"new\xff"), None),
        ("df", odd(b"new\xff"), None),
    ] {
        let mut tane = s.tane();
        tane.arg("--json").args(words(args)).arg(name).args(more);
        let said = succeed(&mut tane).stdout;
        let json: serde_json::Value = serde_json::from_slice(&said).expect("JSON");
        let bytes = json["image_bytes"]
            .as_str()
            .unwrap_or_else(|| panic!("{args}: {json}"));
        let wanted: String = name.as_bytes().iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(bytes, wanted, "{args}");
    }
}
