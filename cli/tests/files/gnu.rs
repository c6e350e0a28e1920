//! Promises of find, stat and ls: what is pasted from other lines means the same, with GNU's
//! programs as the judges, on directories served by the host's own kernel.

use crate::common::*;
use std::os::unix::fs::symlink;

#[test]
fn find_means_what_gnu_find_means() {
    let s = Scratch::new();
    for (name, size) in [("a", 0), ("b", 1), ("c", 512), ("d", 513), ("e", 5000)] {
        s.write(&format!("i/dir/{name}"), &vec![1; size]);
    }
    std::fs::create_dir_all(s.join("i/bare/deep")).expect("mkdir");
    succeed(s.tool("cp").args(["/etc/passwd", "/etc/group", "i/dir"]));
    succeed(s.tool("mkdir").arg("i/etc"));
    succeed(s.tool("cp").args(["/etc/passwd", "/etc/group", "i/etc"]));
    succeed(s.tool("ln").args(["i/dir/b", "i/other"]));
    for (name, ago) in [
        ("a", "90 seconds"),
        ("b", "30 minutes"),
        ("c", "23 hours"),
        ("d", "25 hours"),
        ("e", "10 days"),
    ] {
        let date = format!("{ago} ago");
        let file = format!("i/dir/{name}");
        succeed(s.tool("touch").args(["-d", &date, &file]));
    }
    for (name, mode) in [
        ("a", "4755"),
        ("b", "640"),
        ("c", "600"),
        ("d", "0"),
        ("e", "666"),
    ] {
        succeed(s.tool("chmod").args([mode, &format!("i/dir/{name}")]));
    }
    // Nobody has this number.
    let is_root = succeed(s.tool("chown").arg("--version")).status.success()
        && s.tool("chown")
            .args(["54321:54321", "i/dir/c"])
            .output()
            .expect("chown")
            .status
            .success();
    for test in [
        "-mtime 0",
        "-mtime 1",
        "-mtime -1",
        "-mtime +0",
        "-mtime +5",
        "-mtime -10.5",
        "-mmin 2",
        "-mmin -2",
        "-mmin +2",
        "-mmin +29",
        "-mmin -31",
        "-atime -1",
        "-amin -5",
        "-ctime 0",
        "-cmin -5",
        "-perm 640",
        "-perm -600",
        "-perm /6000",
        "-perm /022",
        "-perm -u=rw",
        "-perm u=rw,g=r",
        "-perm /u+s,g+s",
        "-perm 0",
        "-perm /0",
        "-user root",
        "-user 0",
        "-group root",
        "-uid 0",
        "-uid +1000",
        "-gid -5",
        "-nouser",
        "-nogroup",
        "-empty",
        "-empty -type d",
        "-size 0",
        "-size 1",
        "-size 2",
        "-size -2",
        "-size +1",
        "-size 513c",
        "-size -1k",
        "-size +1k",
        "-size 1M",
        "-size +4096c",
        "-links 2",
        "-links +1 -type f",
        "-links -2",
        "-newer i/dir/c",
        "-mindepth 2 -maxdepth 2",
        "-name *s* -print",
        "-type f -mtime -1 -size -2 -perm -400",
    ] {
        let mut theirs = s.tool("find");
        theirs
            .arg("i")
            .args(test.split(' '))
            .args(["-printf", "/%P\\n"]);
        if test.ends_with("-print") {
            theirs = s.tool("find");
            theirs.args(["i", "-name", "*s*", "-printf", "/%P\\n"]);
        }
        let test = test.replace("i/dir/c", "i:/dir/c");
        let ours = succeed(s.host().args(["find", "i"]).args(test.split(' '))).stdout;
        let sorted = |bytes: &[u8]| {
            let mut lines: Vec<_> = text(bytes).lines().map(String::from).collect();
            lines.sort();
            lines
        };
        let (ours, theirs) = (sorted(&ours), sorted(&succeed(&mut theirs).stdout));
        assert_eq!(ours, theirs, "{test}");
        let none = [
            "-size 1M",
            "-mtime -10.5",
            "-nouser",
            "-nogroup",
            "-perm 0",
            "-uid +1000",
        ];
        assert!(
            !ours.is_empty() || none.contains(&&*test) || !is_root,
            "{test}: tests nothing"
        );
    }
    for wrong in [
        "-mtime x",
        "-perm 9",
        "-size 1x",
        "-user nobody-there",
        "-links",
        "-exec true",
    ] {
        let mut find = s.host();
        exit(find.args(["find", "i"]).args(wrong.split(' ')), 2);
    }
}

#[test]
fn stat_has_the_formats_of_gnu_stat() {
    let s = Scratch::new();
    s.write("i/f", b"content");
    s.write("i/none", b"");
    s.write("i/it's", b"x");
    succeed(s.tool("mkdir").arg("i/etc"));
    succeed(s.tool("cp").args(["/etc/passwd", "/etc/group", "i/etc"]));
    succeed(s.tool("chmod").args(["4751", "i/f"]));
    succeed(
        s.tool("touch")
            .args(["-d", "2001-02-03 04:05:06.123456789Z", "i/f"]),
    );
    succeed(
        s.tool("touch")
            .args(["-d", "1969-12-31 23:59:58.25Z", "i/none"]),
    );
    symlink("f", s.join("i/link")).expect("symlink");
    succeed(s.tool("mkfifo").arg("i/fifo"));
    let host = |args: &[&str]| succeed(s.tool("stat").args(args)).stdout;
    let ours = |args: &[&str]| succeed(s.host().arg("stat").args(args)).stdout;
    for format in [
        "%a %A %b %B %d %D %f %F %g %G %h %i %o %s %t %T %u %U",
        "%w|%W|%x|%X|%y|%Y|%z|%Z",
        "%.X %.3Y %.0Z %.9W %20.2Y| %-20.2Y|",
        "[%10s] [%-10s] [%010s] [%#a] [%#f] [%5a] [%05a] [%.3A] [%-15F] [%15U] [%.5s] [%+Y]",
        "100%% of %s\\n",
    ] {
        for file in ["f", "none", "link", "fifo", "etc"] {
            let (theirs, mine) = (format!("i/{file}"), format!("i:/{file}"));
            let wanted = text(&host(&["-c", format, &theirs]));
            assert_eq!(text(&ours(&["-c", format, &mine])), wanted, "{file}");
            let wanted = text(&host(&["--printf", format, &theirs]));
            assert_eq!(text(&ours(&["--printf", format, &mine])), wanted, "{file}");
        }
    }
    assert_eq!(
        ours(&["-c", "%n %N %m", "i:/link"]),
        b"i:/link 'i:/link' -> 'f' /\n"
    );
    assert_eq!(ours(&["-c", "%N", "i:/it's"]), b"\"i:/it's\"\n");
    let escapes = r"%s\t\101\x41\0\\";
    assert_eq!(
        ours(&["--printf", escapes, "i:/f"]),
        host(&["--printf", escapes, "i/f"])
    );
    for (wrong, named) in [("%Q", "%Q"), ("%", "%%"), ("%99999s", "4096")] {
        let said = text(&exit(s.host().args(["stat", "-c", wrong, "i:/f"]), 2).stderr);
        assert!(said.contains(named), "{said}");
    }
}

#[test]
fn ls_takes_the_options_that_hands_know() {
    let s = Scratch::new();
    s.write("i/a", &[0; 10]);
    s.write("i/b", &[0; 3000]);
    s.write("i/.c", b"");
    succeed(s.host().args(["touch", "-d", "@5", "i:/b"]));
    let ls = |options: &str| text(&succeed(s.host().args(["ls", options, "i"])).stdout);
    assert_eq!(ls("-1"), "a\nb\n");
    assert_eq!(ls("-1a"), ".c\na\nb\n");
    assert_eq!(ls("-1S"), "b\na\n");
    assert_eq!(ls("-1tr"), "b\na\n");
    assert_eq!(ls("-1d"), "/\n");
    assert!(ls("-lh").contains(" 3.0K "), "{}", ls("-lh"));
    let inode = std::os::unix::fs::MetadataExt::ino(&s.join("i/a").metadata().expect("a"));
    assert!(ls("-1i").contains(&format!("{inode} a\n")));
}
