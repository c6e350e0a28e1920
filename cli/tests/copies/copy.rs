//! Promises of `tane cp`, kept on directories served by the host's own kernel:
//! the engine is the same for images, and these need none.

use crate::common::*;
use std::os::unix::fs::{symlink, MetadataExt, PermissionsExt};
use std::process::Command;
use tane_test_support::{has_root, skip};

#[test]
fn out_and_in_everything_is_kept() {
    let s = Scratch::new();
    let wanted = manifest(&s.sample("tree", 700), "");
    succeed(
        s.host()
            .args(["cp", "--strict", "--devices", "tree:/.", "out"]),
    );
    assert_same(&wanted, &manifest(&s.join("out"), ""));
    std::fs::create_dir(s.join("in")).expect("mkdir");
    succeed(s.host().args(["cp", "--strict", "tree/.", "in:/"]));
    assert_same(&wanted, &manifest(&s.join("in"), ""));
}

#[test]
fn a_second_copy_over_the_first_changes_nothing() {
    let s = Scratch::new();
    let wanted = manifest(&s.sample("tree", 100), "");
    succeed(
        s.host()
            .args(["cp", "--strict", "--devices", "tree:/.", "out"]),
    );
    succeed(
        s.host()
            .args(["cp", "--strict", "--devices", "tree:/.", "out"]),
    );
    assert_same(&wanted, &manifest(&s.join("out"), ""));
}

#[test]
fn names_follow_docker_cp() {
    let s = Scratch::new();
    s.write("i/dir/file", b"1");
    s.write("i/alone", b"2");
    std::fs::create_dir(s.join("there")).expect("mkdir");
    let cp = |args: &[&str]| succeed(s.host().arg("cp").args(args));
    cp(&["i:/alone", "new"]);
    assert_eq!(s.read("new"), b"2");
    cp(&["i:/alone", "there"]);
    assert_eq!(s.read("there/alone"), b"2");
    cp(&["i:/dir", "there"]);
    assert_eq!(s.read("there/dir/file"), b"1");
    cp(&["i:/dir", "fresh"]);
    assert_eq!(s.read("fresh/file"), b"1");
    cp(&["i:/dir/.", "there"]);
    assert_eq!(s.read("there/file"), b"1");
    cp(&["i:/dir", "-q", "i:/alone", "--owner", "keep", "there"]);
    cp(&["new", "i:/renamed"]);
    assert_eq!(s.read("i/renamed"), b"2");
}

#[test]
fn a_destination_that_makes_no_sense_is_refused() {
    let s = Scratch::new();
    s.write("i/dir/file", b"1");
    s.write("plain", b"2");
    let cp = |args: &[&str]| text(&exit(s.host().arg("cp").args(args), 1).stderr);
    assert!(cp(&["i:/dir/file", "missing/"]).contains("no such directory"));
    assert!(cp(&["i:/dir", "plain"]).contains("not a directory"));
    assert!(
        cp(&["i:/dir/file", "no/where"]).contains("no/: no such file")
            || cp(&["i:/dir/file", "no/where"]).contains("no: no such file")
    );
    assert!(cp(&["i:/dir", "i:/dir/file", "nothing"]).contains("several sources"));
    s.write("j/x", b"3");
    for dest in ["nothing", "j:/nothing"] {
        // They are in two images, and each would be the one that DEST becomes.
        assert!(cp(&["i:/dir/file", "j:/x", dest]).contains("several sources"));
        assert!(!s.join("nothing").exists() && !s.join("j/nothing").exists());
    }
    assert!(cp(&["i:/dir/file", "/dev/null"]).contains("not a regular file"));
    exit(s.host().args(["cp", "plain", "other"]), 2);
}

#[test]
fn a_name_with_a_colon_is_a_host_path() {
    let s = Scratch::new();
    s.write("i/f", b"data");
    succeed(s.host().args(["cp", "i:/f", "a:b"]));
    assert_eq!(s.read("a:b"), b"data");
    succeed(s.host().args(["cp", "./a:b", "i:/from a:b"]));
    assert_eq!(s.read("i/from a:b"), b"data");
}

#[test]
fn a_symlink_in_the_destination_is_never_followed() {
    let s = Scratch::new();
    s.write("i/d/f", b"evil");
    s.write("i/g", b"evil");
    s.write("outside/f", b"precious");
    s.write("precious", b"precious");
    std::fs::create_dir(s.join("out")).expect("mkdir");
    symlink("../outside", s.join("out/d")).expect("symlink");
    symlink("../precious", s.join("out/g")).expect("symlink");
    // The directory is refused, the file replaces the link itself.
    exit(s.host().args(["cp", "i:/.", "out"]), 1);
    assert_eq!(s.read("outside/f"), b"precious");
    assert_eq!(s.read("precious"), b"precious");
    assert_eq!(s.read("out/g"), b"evil");
}

#[test]
fn a_symlink_in_the_image_cannot_lead_out_of_it() {
    let s = Scratch::new();
    s.write("secret", b"of the host");
    s.write("i/secret", b"of the image");
    symlink("../../../../secret", s.join("i/up")).expect("symlink");
    symlink("/secret", s.join("i/absolute")).expect("symlink");
    for link in ["up", "absolute"] {
        let path = format!("i:/{link}");
        assert_eq!(
            succeed(s.host().args(["cat", &path])).stdout,
            b"of the image"
        );
        succeed(s.host().args(["cp", "-L", &path, "got"]));
        assert_eq!(s.read("got"), b"of the image");
    }
    assert_eq!(
        succeed(s.host().args(["cat", "i:/../../secret"])).stdout,
        b"of the image"
    );
}

#[test]
fn no_clobber_leaves_what_is_there() {
    let s = Scratch::new();
    s.write("i/old", b"new");
    s.write("i/fresh", b"new");
    s.write("out/old", b"old");
    let output = succeed(s.host().args(["cp", "--json", "-n", "i:/.", "out"]));
    assert_eq!(s.read("out/old"), b"old");
    assert_eq!(s.read("out/fresh"), b"new");
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(json["skipped"], 1);
}

#[test]
fn nothing_is_left_of_a_file_that_does_not_fit() {
    if !has_root() {
        return;
    }
    let s = Scratch::new();
    s.write("i/d/small", b"x");
    s.write("i/d/too large", &vec![1; 3 << 20]);
    std::fs::create_dir(s.join("tiny")).expect("mkdir");
    let mut mount = sbin("mount");
    mount
        .args(["-t", "tmpfs", "-o", "size=2m", "none"])
        .arg(s.join("tiny"));
    let mounted = mount.output().expect("mount");
    if !mounted.status.success() {
        return skip(text(&mounted.stderr).trim());
    }
    let output = s
        .host()
        .args(["cp", "i:/d", "tiny"])
        .output()
        .expect("tane");
    let left = std::fs::read_dir(s.join("tiny/d"))
        .expect("the directory")
        .flatten();
    let left: Vec<_> = left
        .map(|e| e.file_name())
        .filter(|n| n != "small")
        .collect();
    // Lazily: a program that another test is starting may hold it for a moment.
    succeed(sbin("umount").arg("-l").arg(s.join("tiny")));
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("no space left on device"));
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn what_is_left_behind_is_one_warning_and_an_error_if_strict() {
    if !has_root() {
        return;
    }
    let s = Scratch::new();
    if !others_come_to(s.path()) {
        return skip("others may not come to where it is");
    }
    s.write("i/f", b"x");
    std::os::unix::fs::chown(s.join("i/f"), Some(1234), Some(1234)).expect("chown");
    std::fs::set_permissions(s.join("i"), PermissionsExt::from_mode(0o755)).expect("chmod");
    std::fs::create_dir(s.join("out")).expect("mkdir");
    std::os::unix::fs::chown(s.join("out"), Some(65534), Some(65534)).expect("chown");
    let run = |strict: &[&str]| {
        use std::os::unix::process::CommandExt;
        let mut command = s.host();
        command
            .args(["cp", "i:/f", "out"])
            .args(strict)
            .uid(65534)
            .gid(65534);
        command.output().expect("tane")
    };
    let output = run(&[]);
    if output.status.code() == Some(3) || text(&output.stderr).contains("permission denied") {
        return skip("others may not run the command where it is");
    }
    let warnings = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{warnings}");
    assert_eq!(warnings.matches("warning").count(), 1, "{warnings}");
    assert!(
        warnings.contains("out/f: owner 1234:1234 not kept"),
        "{warnings}"
    );
    assert_eq!(run(&["--strict"]).status.code(), Some(1));
    let output = run(&["--strict", "--owner=65534:65534"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}

#[test]
fn owner_chooses_whose_the_copies_are() {
    if !has_root() {
        return;
    }
    let s = Scratch::new();
    s.write("i/d/f", b"x");
    std::os::unix::fs::chown(s.join("i/d/f"), Some(5), Some(6)).expect("chown");
    let owner = |name: &str| {
        let m = s.join(name).metadata().expect("a copy");
        (m.uid(), m.gid())
    };
    succeed(s.host().args(["cp", "i:/d", "keep"]));
    assert_eq!(owner("keep/f"), (5, 6));
    succeed(s.host().args(["cp", "--owner=root", "i:/d", "root"]));
    assert_eq!(owner("root/f"), (0, 0));
    succeed(s.host().args(["cp", "--owner=77:88", "i:/d", "numbers"]));
    assert_eq!((owner("numbers/f"), owner("numbers")), ((77, 88), (77, 88)));
}

#[test]
fn sparse_chooses_what_becomes_of_holes() {
    let s = Scratch::new();
    let file = std::fs::File::create(s.write("i/hole", b"")).expect("file");
    file.set_len(1 << 20).expect("truncate");
    s.write("i/zeroes", &vec![0; 1 << 20]);
    let blocks = |name: &str| s.join(name).metadata().expect("a copy").blocks();
    succeed(s.host().args(["cp", "i:/.", "auto"]));
    assert_eq!(blocks("auto/hole"), 0);
    assert!(blocks("auto/zeroes") >= 2048);
    succeed(s.host().args(["cp", "--sparse=always", "i:/.", "always"]));
    assert_eq!((blocks("always/hole"), blocks("always/zeroes")), (0, 0));
    succeed(s.host().args(["cp", "--sparse=never", "i:/.", "never"]));
    assert!(blocks("never/hole") >= 2048);
}

#[test]
fn a_directory_is_not_copied_into_itself() {
    let s = Scratch::new();
    s.write("i/a/f", b"x");
    std::fs::create_dir(s.join("i/a/b")).expect("mkdir");
    let output = exit(s.host().args(["cp", "i:/a", "i:/a/b"]), 1);
    assert!(text(&output.stderr).contains("into itself"));
    assert!(!s.join("i/a/b/a/b").exists());
}

#[test]
fn an_unreadable_file_costs_only_itself() {
    let s = Scratch::new();
    s.write("i/d/a", b"1");
    s.write("i/d/z", b"2");
    // A name that the destination has as a directory cannot be replaced.
    std::fs::create_dir_all(s.join("out/d/a")).expect("mkdir");
    let output = exit(s.host().args(["cp", "i:/d", "out"]), 1);
    assert!(
        text(&output.stderr).contains("out/d/a: "),
        "{}",
        text(&output.stderr)
    );
    assert_eq!(s.read("out/d/z"), b"2");
}

#[test]
fn progress_as_json_counts_to_the_end() {
    let s = Scratch::new();
    s.write("i/f", &[7; 1000]);
    s.write("i/g", &[7; 24]);
    let output = succeed(s.host().args(["cp", "--progress=json", "i:/.", "out"]));
    let last = text(&output.stderr)
        .lines()
        .last()
        .map(String::from)
        .expect("a line");
    let json: serde_json::Value = serde_json::from_str(&last).expect("JSON");
    assert_eq!(
        (&json["done"], &json["bytes"], &json["total_bytes"]),
        (&true.into(), &1024.into(), &1024.into())
    );
    assert_eq!(json["files"], json["total_files"]);
}

#[test]
fn what_is_excluded_is_left_out_by_name_or_path() {
    let s = Scratch::new();
    for name in [
        "a.o",
        "b.c",
        "d/a.o",
        "d/b.c",
        "build/x",
        "d/build/x",
        "e/cache/x",
    ] {
        s.write(&format!("i/{name}"), b"1");
    }
    let excludes = ["--exclude=*.o", "--exclude=/build", "--exclude", "cache/"];
    let names = |dir: &str| {
        let mut find = Command::new("find");
        let found = succeed(find.current_dir(s.join(dir)).args([".", "-type", "f"]));
        let mut names: Vec<_> = text(&found.stdout).lines().map(String::from).collect();
        names.sort();
        names
    };
    let wanted = ["./b.c", "./d/b.c", "./d/build/x"];
    let output = succeed(
        s.host()
            .args(["cp", "-ap", "--progress=json"])
            .args(excludes)
            .args(["i:/.", "out"]),
    );
    assert_eq!(names("out"), wanted);
    assert!(!s.join("out/e/cache").exists() && s.join("out/e").exists());
    assert!(text(&output.stderr).contains("\"total_files\":3"));
    succeed(s.host().args(["diff"]).args(excludes).args(["i", "out"]));
    succeed(
        s.host()
            .args(["tar", "create"])
            .args(excludes)
            .args(["a.tar", "i:/."]),
    );
    std::fs::create_dir(s.join("untar")).expect("mkdir");
    succeed(&mut s.command("tar", "-xf a.tar -C untar"));
    assert_eq!(names("untar"), wanted);
    succeed(&mut s.command("tar", "-cf b.tar -C i ."));
    std::fs::create_dir(s.join("in")).expect("mkdir");
    succeed(
        s.host()
            .args(["tar", "extract"])
            .args(excludes)
            .args(["b.tar", "in"]),
    );
    assert_eq!(names("in"), wanted);
}
