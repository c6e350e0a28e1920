//! Archives: GNU tar and bsdtar's Python cousin read what we make, and we read
//! what GNU tar makes in each of its formats.

use crate::common::*;
use std::path::Path;
use std::process::{Command, Stdio};

/// GNU tar with all that it can keep.
fn gnu_tar(words: &[&str], dir: &Path) {
    let mut tar = Command::new("tar");
    tar.args([
        "--acls",
        "--xattrs",
        "--xattrs-include=*",
        "--numeric-owner",
        "-p",
    ]);
    succeed(tar.args(words).current_dir(dir));
}

fn remove_sockets(dir: &Path) {
    let mut find = Command::new("find");
    succeed(find.arg(dir).args(["-type", "s", "-delete"]));
}

/// An image that holds the sample tree, and what that is.
fn sample_image(s: &Scratch, files: u32) -> Vec<String> {
    let tree = s.sample("tree", files);
    remove_sockets(&tree);
    s.ext4("disk.img", None, 256);
    succeed(s.tane().args(["cp", "--strict", "tree/.", "disk.img:/"]));
    manifest(&tree, "")
}

#[test]
fn a_tree_goes_through_an_archive_into_another_image_unchanged() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    let wanted = sample_image(&s, 800);
    succeed(
        s.tane()
            .args(["tar", "create", "--strict", "all.tar", "disk.img:/"]),
    );
    let new = s.ext4("new.img", None, 256);
    succeed(
        s.tane()
            .args(["tar", "extract", "--strict", "all.tar", "new.img:/"]),
    );
    assert_sound(&new);
    succeed(
        s.tane()
            .args(["cp", "--strict", "--devices", "new.img:/.", "out"]),
    );
    assert_same(&wanted, &manifest(&s.join("out"), ""));
}

#[test]
fn gnu_tar_unpacks_what_we_make() {
    if !has_kernel() || !tane_test_support::is_root() {
        return;
    }
    let s = Scratch::new();
    sample_image(&s, 300);
    succeed(s.tane().args(["tar", "create", "all.tar", "disk.img:/"]));
    std::fs::create_dir(s.join("out")).expect("a directory");
    gnu_tar(&["-xf", "../all.tar"], &s.join("out"));
    succeed(
        s.tane()
            .args(["cp", "--strict", "--devices", "disk.img:/.", "direct"]),
    );
    // It does not restore access times.
    let without = "atime";
    assert_same(
        &manifest(&s.join("direct"), without),
        &manifest(&s.join("out"), without),
    );
}

#[test]
fn archives_of_gnu_tar_are_unpacked_in_each_of_its_formats() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    let tree = s.sample("tree", 200);
    remove_sockets(&tree);
    for (format, options, without) in [
        ("posix", &["--sparse", "--sparse-version=1.0"][..], "atime"),
        ("posix", &["--sparse", "--sparse-version=0.1"], "atime"),
        ("posix", &["--sparse", "--sparse-version=0.0"], "atime"),
        ("gnu", &["--sparse"], "atime,mtime,xattrs"),
    ] {
        let mut words = vec!["-cf", "../all.tar"];
        let format = format!("--format={format}");
        words.extend([format.as_str()].iter().chain(options));
        words.push(".");
        if format == "--format=gnu" {
            succeed(
                Command::new("tar")
                    .args(&words)
                    .arg("--numeric-owner")
                    .current_dir(&tree),
            );
        } else {
            gnu_tar(&words, &tree);
        }
        let image = s.ext4("new.img", None, 256);
        let input = std::fs::File::open(s.join("all.tar")).expect("the archive");
        succeed(
            s.tane()
                .args(["tar", "extract", "-", "new.img"])
                .stdin(input),
        );
        assert_sound(&image);
        let out = s.join("out");
        succeed(s.tane().args(["cp", "--devices", "new.img:/.", "out"]));
        assert_same(&manifest(&tree, without), &manifest(&out, without));
        succeed(Command::new("rm").arg("-rf").arg(&out).arg(&image));
    }
}

#[test]
fn python_reads_names_links_and_data_of_what_we_stream() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    let long = "n".repeat(200);
    s.write(&format!("tree/a/{long}"), b"long");
    s.write("tree/a/one", b"data");
    std::fs::hard_link(s.join("tree/a/one"), s.join("tree/a/two")).expect("a link");
    std::os::unix::fs::symlink("l".repeat(150), s.join("tree/soft")).expect("a symlink");
    s.ext4("disk.img", None, 32);
    succeed(s.tane().args(["cp", "tree/.", "disk.img:/"]));
    let mut tane = s.tane();
    tane.args(["tar", "create", "-", "disk.img:/a", "disk.img:/soft"]);
    let mut tane = tane.stdout(Stdio::piped()).spawn().expect("tane");
    let script = "import sys,tarfile\nt=tarfile.open(fileobj=sys.stdin.buffer,mode='r|')\n\
        for m in t: print(m.name, m.type.decode(), m.linkname, \
        t.extractfile(m).read().decode() if m.isreg() else '')";
    let mut python = Command::new("python3");
    let output = succeed(
        python
            .args(["-c", script])
            .stdin(tane.stdout.take().expect("a pipe")),
    );
    assert!(tane.wait().expect("an end").success());
    let mut lines: Vec<_> = text(&output.stdout)
        .lines()
        .map(|l| l.trim_end().to_owned())
        .collect();
    lines.sort();
    let (first, second) = match lines.iter().any(|l| l == "a/one 0  data") {
        true => ("one", "two"),
        false => ("two", "one"),
    };
    let mut wanted = vec![
        "a 5".to_owned(),
        format!("a/{long} 0  long"),
        format!("a/{first} 0  data"),
        format!("a/{second} 1 a/{first}"),
        format!("soft 2 {}", "l".repeat(150)),
    ];
    wanted.sort();
    assert_eq!(lines, wanted);
}

#[test]
fn nothing_is_made_outside_of_the_destination() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    let image = s.ext4("disk.img", None, 16);
    succeed(
        s.tane()
            .args(["mkdir", "disk.img:/dest", "disk.img:/other"]),
    );
    let script = "import sys,tarfile,io\nt=tarfile.open('bad.tar','w')\n\
        def add(name, **k):\n m=tarfile.TarInfo(name)\n for a in k: setattr(m,a,k[a])\n \
        d=b'x' if not k.get('type') else b''\n m.size=len(d)\n t.addfile(m,io.BytesIO(d))\n\
        add('../other/up')\nadd('/other/absolute')\nadd('a/../../other/dots')\n\
        add('link',type=tarfile.SYMTYPE,linkname='../other')\nadd('link/through')\n\
        add('hard',type=tarfile.LNKTYPE,linkname='../other/f')\nadd('good')\nt.close()";
    succeed(
        Command::new("python3")
            .args(["-c", script])
            .current_dir(s.join(".")),
    );
    s.write("f", b"other's");
    succeed(s.tane().args(["cp", "f", "disk.img:/other/f"]));
    let output = exit(
        s.tane()
            .args(["tar", "extract", "bad.tar", "disk.img:/dest"]),
        1,
    );
    let said = text(&output.stderr);
    for name in ["../other/up", "a/../../other/dots", "hard"] {
        assert!(said.contains(name), "{name}: {said}");
    }
    let found = text(&succeed(s.tane().args(["find", "disk.img"])).stdout);
    let mut found: Vec<_> = found
        .lines()
        .filter(|l| !l.contains("lost+found"))
        .collect();
    found.sort();
    let wanted = [
        "/",
        "/dest",
        "/dest/good",
        "/dest/link",
        "/dest/other",
        "/dest/other/absolute",
        "/other",
        "/other/f",
    ];
    assert_eq!(found, wanted, "{said}");
    assert_sound(&image);
}

#[test]
fn compressed_archives_come_through_a_pipe_and_damaged_ones_are_told() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    let data: Vec<u8> = (0..300_000u32).map(|i| ((i * 7) >> 5) as u8).collect();
    s.write("tree/f", &data);
    succeed(
        Command::new("tar")
            .args(["-cf", "a.tar", "-C", "tree", "f"])
            .current_dir(s.join(".")),
    );
    for program in ["gzip", "xz", "zstd", "bzip2"] {
        let packed = succeed(Command::new(program).arg("-c").arg(s.join("a.tar"))).stdout;
        s.write("packed", &packed);
        let _ = std::fs::remove_file(s.join("disk.img"));
        s.ext4("disk.img", None, 16);
        let input = std::fs::File::open(s.join("packed")).expect("the archive");
        succeed(
            s.tane()
                .args(["tar", "extract", "-", "disk.img"])
                .stdin(input),
        );
        assert!(succeed(s.tane().args(["cat", "disk.img:/f"])).stdout == data);
        s.write("packed", &packed[..packed.len() / 2]);
        let said = text(&exit(s.tane().args(["tar", "extract", "packed", "disk.img"]), 1).stderr);
        assert!(said.contains("packed: "), "{said}");
    }
    let whole = s.read("a.tar");
    s.write("short.tar", &whole[..100_000]);
    let said = text(
        &exit(
            s.tane().args(["tar", "extract", "short.tar", "disk.img"]),
            1,
        )
        .stderr,
    );
    assert!(said.contains("cut short"), "{said}");
    s.write("noise.tar", &[0x5a; 2048]);
    let said = text(
        &exit(
            s.tane().args(["tar", "extract", "noise.tar", "disk.img"]),
            1,
        )
        .stderr,
    );
    assert!(said.contains("no tar archive"), "{said}");
}

#[test]
fn the_last_of_several_entries_of_one_name_counts() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    s.ext4("disk.img", None, 16);
    for (turn, words) in [(1, "-cf"), (2, "-rf")] {
        s.write("tree/d/f", format!("turn {turn}").as_bytes());
        succeed(
            Command::new("tar")
                .args([words, "a.tar", "tree"])
                .current_dir(s.join(".")),
        );
    }
    succeed(s.tane().args(["tar", "extract", "a.tar", "disk.img"]));
    assert_eq!(
        succeed(s.tane().args(["cat", "disk.img:/tree/d/f"])).stdout,
        b"turn 2"
    );
    s.write("tree/d/f", b"on the host");
    succeed(
        Command::new("tar")
            .args(["-cf", "b.tar", "tree"])
            .current_dir(s.join(".")),
    );
    succeed(s.tane().args(["tar", "extract", "-n", "b.tar", "disk.img"]));
    assert_eq!(
        succeed(s.tane().args(["cat", "disk.img:/tree/d/f"])).stdout,
        b"turn 2"
    );
}

#[test]
fn an_archive_too_large_for_the_image_is_an_error_and_ends() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    let image = s.ext4("disk.img", None, 16);
    s.write("tree/big", &vec![7; 40 << 20]);
    succeed(
        Command::new("tar")
            .args(["-cf", "a.tar", "tree"])
            .current_dir(s.join(".")),
    );
    let said = text(&exit(s.tane().args(["tar", "extract", "a.tar", "disk.img"]), 1).stderr);
    assert!(said.contains("no space left"), "{said}");
    assert_sound(&image);
}

#[test]
fn an_archive_replaces_no_file_that_it_is_made_of() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    s.write("tree/f", b"data");
    s.ext4("disk.img", Some(&s.join("tree")), 16);
    let words = "create -q -f qcow2 -b disk.img -F raw top.qcow2";
    succeed(&mut s.command("qemu-img", words));
    std::os::unix::fs::symlink("disk.img", s.join("link.tar")).expect("a link");
    let before = s.read("disk.img");
    for (archive, source) in [
        ("disk.img", "disk.img:/."),
        ("link.tar", "disk.img:/."),
        ("disk.img", "top.qcow2:/."),
        ("top.qcow2", "top.qcow2:/f"),
    ] {
        let options = ["--force", "--compression=none"];
        let mut tar = s.tane();
        tar.args(["tar", "create"])
            .args(options)
            .args([archive, source]);
        let said = text(&exit(&mut tar, 1).stderr);
        assert!(said.contains("is a part of SOURCE itself"), "{said}");
        assert!(s.read("disk.img") == before, "{archive} {source}");
    }
    // Others it does, where they lie.
    s.write("old.tar", b"an older one");
    succeed(s.tane().args(["tar", "create", "old.tar", "disk.img:/f"]));
    let listed = succeed(&mut s.command("tar", "-tf old.tar")).stdout;
    assert_eq!(text(&listed), "f\n");
}

#[test]
fn nothing_is_left_of_an_archive_that_could_not_be_made() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    s.write("no.img", &[7; 1 << 20]);
    exit(s.tane().args(["tar", "create", "new.tar", "no.img:/."]), 3);
    s.write("tree/f", b"data");
    s.ext4("disk.img", Some(&s.join("tree")), 16);
    exit(
        s.tane()
            .args(["tar", "create", "new.tar", "disk.img:/none"]),
        1,
    );
    let names = std::fs::read_dir(s.path()).expect("a listing");
    let names = names.map(|name| name.expect("a name").file_name());
    let names: Vec<_> = names.filter_map(|name| name.into_string().ok()).collect();
    assert!(
        !names.iter().any(|name| name.contains("new.tar")),
        "{names:?}"
    );
    succeed(s.tane().args(["tar", "create", "new.tar", "disk.img:/f"]));
    let listed = succeed(&mut s.command("tar", "-tf new.tar")).stdout;
    assert_eq!(text(&listed), "f\n");
}
