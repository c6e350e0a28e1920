//! What code that an image or an archive got to run finds where a new image is made: the
//! file that it writes, and no name beside it.

use crate::common::make::container_images;
use crate::common::*;
use crate::jailed::*;
use crate::prisoner::*;
use std::process::Stdio;

/// `out` holds what somebody would like to replace.
fn beside(s: &Scratch) {
    s.write("out/.profile", b"the user's own");
}

/// None of the names in `out` can be had by this thread, neither new ones nor those there.
fn reaches_no_name(thread: &mut Prisoner, s: &Scratch) {
    let join = |name: &str| path(&s.join(name));
    let makes = libc::O_CREAT | libc::O_WRONLY;
    for name in ["out/new", "out/.profile"] {
        assert_eq!(thread.open(&join(name), makes), DENIED, "{name}");
    }
    let there = path(&s.join("out/.profile"));
    assert_eq!(thread.open(&there, libc::O_RDONLY), DENIED);
    let regular = u64::from(libc::S_IFREG | 0o600);
    for (from, to) in [("out/.profile", "out/x"), ("out/x", "out/.profile")] {
        let (from, to) = (thread.text(&join(from)), thread.second(&join(to)));
        let calls: [(i64, &[u64]); 7] = [
            (libc::SYS_renameat2, &[HERE, from, HERE, to, 0]),
            (libc::SYS_rename, &[from, to]),
            (libc::SYS_linkat, &[HERE, from, HERE, to, 0]),
            (libc::SYS_symlinkat, &[from, HERE, to]),
            (libc::SYS_mknodat, &[HERE, to, regular, 0]),
            (libc::SYS_mkdirat, &[HERE, to, 0o700]),
            (libc::SYS_unlinkat, &[HERE, to, 0]),
        ];
        for (call, arguments) in calls {
            refused(&thread.call(call, arguments));
        }
    }
    assert_eq!(s.read("out/.profile"), b"the user's own");
}

fn names(s: &Scratch) -> Vec<String> {
    let names = std::fs::read_dir(s.join("out")).expect("a listing");
    let names = names.map(|name| name.expect("a name").file_name());
    names
        .map(|name| name.into_string().expect("UTF-8"))
        .collect()
}

/// A `tane make-image` of out/disk.img whose mke2fs sleeps.
fn making(s: &Scratch) -> Running {
    s.write("tree/file", b"a file");
    making_of(s, "tree")
}

fn making_of(s: &Scratch, source: &str) -> Running {
    let program = s.write("bin/mke2fs", b"#!/bin/sh\nexec sleep 100000\n");
    succeed(s.tool("chmod").arg("+x").arg(program));
    let places = std::env::var("PATH").expect("PATH");
    let mut command = s.tane();
    command.env("PATH", format!("{}:{places}", s.join("bin").display()));
    command.args(["make-image", source, "out/disk.img"]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    Running(command.spawn().expect("tane"))
}

/// Whether a child's child of this process is sleep(1).
fn sleeps_below(pid: u32) -> bool {
    let children = |pid: &str| {
        let path = format!("/proc/{pid}/task/{pid}/children");
        let children = std::fs::read_to_string(path).unwrap_or_default();
        children
            .split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let below = children(&pid.to_string());
    let mut below = below.iter().flat_map(|child| children(child));
    below.any(|pid| {
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm"));
        name.is_ok_and(|name| name == "sleep\n")
    })
}

#[test]
fn whoever_converts_an_image_reaches_no_name_beside_the_new_one() {
    if !has_prisoners() || !has_landlock() {
        return;
    }
    let s = Scratch::new();
    image(&s, 0);
    beside(&s);
    let mut command = s.tane();
    command.args(["--json", "convert", "disk.img", "out/new.qcow2"]);
    // What it says in the end, nobody takes.
    command.stdout(full_pipe(&s)).stderr(Stdio::inherit());
    let command = Running(command.spawn().expect("tane"));
    let mut thread = Prisoner::behind(command.0.id(), 2);
    reaches_no_name(&mut thread, &s);
}

/// The end of a fifo that holds as much as it can.
fn full_pipe(s: &Scratch) -> std::fs::File {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    succeed(s.tool("mkfifo").arg(s.join("fifo")));
    let mut options = std::fs::File::options();
    let both = options.read(true).write(true);
    let held = both.open(s.join("fifo")).expect("a fifo");
    let filling = both.custom_flags(libc::O_NONBLOCK).open(s.join("fifo"));
    let mut filling = filling.expect("a fifo");
    while filling.write(&[0; 4096]).is_ok() {}
    held
}

#[test]
fn whoever_makes_an_image_reaches_no_name_beside_it() {
    if !has_prisoners() || !has_landlock() {
        return;
    }
    let s = Scratch::new();
    beside(&s);
    let command = making(&s);
    let mut thread = Prisoner::behind(command.0.id(), 1);
    reaches_no_name(&mut thread, &s);
}

#[test]
fn nothing_is_left_of_an_image_whose_making_was_killed() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    beside(&s);
    let mut command = making(&s);
    // Its first child is the one that gives names.
    let pid = command.0.id();
    let children = format!("/proc/{pid}/task/{pid}/children");
    tane_test_support::eventually("it is begun", || {
        names(&s).len() == 2 && std::fs::read_to_string(&children).is_ok_and(|c| !c.is_empty())
    });
    // By whatever kills it: it is not asked.
    command.0.kill().expect("a process that lives");
    command.0.wait().expect("its end");
    tane_test_support::eventually("it is gone", || names(&s) == [".profile"]);
}

/// The process of a command in which Linux runs, once its last jail has closed.
fn linux(pid: u32) -> u32 {
    let mut found = None;
    tane_test_support::eventually("its Linux runs", || {
        let path = format!("/proc/{pid}/task/{pid}/children");
        let children = std::fs::read_to_string(path).expect("its children");
        let is_it = |child: &&str| {
            let status = std::fs::read_to_string(format!("/proc/{child}/status"));
            status.is_ok_and(|status| status.contains("\nSeccomp_filters:\t2\n"))
        };
        found = children.split_whitespace().find(is_it).map(str::to_owned);
        found.is_some()
    });
    found.expect("just found").parse().expect("a number")
}

#[test]
fn the_linux_that_fills_an_image_opens_neither_its_source_nor_anything_else() {
    if !has_prisoners() || !has_landlock() {
        return;
    }
    let s = Scratch::new();
    beside(&s);
    for i in 0..MANY {
        s.write(&format!("tree/a-rather-long-name-{i:060}"), b"a file");
    }
    s.write("secret", b"a secret");
    let mut command = s.tane();
    command.args(["-v", "make-image", "tree", "out/disk.img"]);
    command.env("LINUX_SHOULD_NOT", "see this");
    // Names that nobody takes: who reads waits, and with it who writes.
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let command = Running(command.spawn().expect("tane"));
    let pid = linux(command.0.id());
    let mut thread = Prisoner::behind(pid, 2);
    reaches_no_name(&mut thread, &s);
    let part = names(&s).into_iter().find(|name| name.ends_with(".part"));
    let part = format!("out/{}", part.expect("the new image"));
    let name = format!("tree/a-rather-long-name-{:060}", 0);
    for name in ["tree", &name, "secret", "out", &part] {
        for how in [libc::O_RDONLY, libc::O_WRONLY, libc::O_PATH] {
            let outcome = thread.open(&path(&s.join(name)), how);
            assert_eq!(outcome, DENIED, "{name}");
        }
    }
    // Of files it has the new image and what it was booted with, and of sockets one.
    let open = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("its files");
    let open = open.filter_map(|fd| std::fs::read_link(fd.ok()?.path()).ok());
    let open: Vec<_> = open.map(|to| to.to_string_lossy().into_owned()).collect();
    let (sockets, files): (Vec<_>, Vec<_>) = open.iter().partition(|to| to.starts_with("socket:"));
    assert_eq!(sockets.len(), 1, "{open:?}");
    let new = path(&s.join(&part)).into_string().expect("UTF-8");
    for file in files {
        let is_known = *file == new
            || file == "/dev/null"
            || file.starts_with("anon_inode:")
            || file.starts_with("/memfd:")
            || file.ends_with(".elf");
        assert!(is_known, "{file}");
    }
    // And its system calls are those of `cat`.
    let found = listed::differences(&filter::Filters::of(&thread), pid, 'L');
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn an_image_whose_linux_dies_is_not_made_and_the_command_says_why() {
    use std::io::Read;
    if !has_prisoners() {
        return;
    }
    let s = Scratch::new();
    beside(&s);
    for i in 0..MANY {
        s.write(&format!("tree/a-rather-long-name-{i:060}"), b"a file");
    }
    let mut command = s.tane();
    command.args(["-v", "make-image", "tree", "out/disk.img"]);
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut command = Running(command.spawn().expect("tane"));
    let pid = linux(command.0.id());
    // SAFETY: a signal to a process that is there.
    assert_eq!(unsafe { libc::kill(pid as i32, libc::SIGKILL) }, 0);
    let mut said = String::new();
    let stderr = command.0.stderr.as_mut().expect("a pipe");
    stderr.read_to_string(&mut said).expect("UTF-8");
    let end = &said[said.len().saturating_sub(500)..];
    let why = "the process in which Linux writes the image has died";
    assert!(said.contains(why), "{end}");
    assert_eq!(command.0.wait().expect("exit").code(), Some(3));
    assert_eq!(names(&s), [".profile"]);
}

#[test]
fn whoever_takes_an_archive_apart_opens_nothing_not_even_the_archive() {
    if !has_prisoners() || !has_landlock() {
        return;
    }
    let s = Scratch::new();
    beside(&s);
    s.write("tree/file", b"a file");
    for (archive, how) in [("tree.tar", "-cf"), ("tree.tar.gz", "-czf")] {
        let words = format!("{how} {archive} tree");
        succeed(s.command("tar", &words).current_dir(s.path()));
    }
    let layout = "l = Layout()\nl.add('app:a', l.image([LOWER, UPPER]))\nl.write('oci')\n\
                  write('saved.tar', legacy([('app:a', [LOWER, UPPER])]))";
    container_images(&s, layout);
    std::fs::create_dir(s.join("saved")).expect("mkdir");
    succeed(&mut s.command("tar", "-C saved -xf saved.tar"));
    s.write(
        "tree-too/manifest.json",
        b"[{\"name\": \"a program's own\"}]",
    );
    succeed(s.tool("mkfifo").arg(s.join("pipe")));
    s.write(
        "disk.toml",
        b"[[partition]]\nfs = 'ext4'\nsource = 'oci'\nlayer = ['tree.tar']\n\
          [[partition]]\ncopy-blocks = 'tree.tar.gz'\n",
    );
    s.write(
        "beside.toml",
        b"[[partition]]\nfs = 'ext4'\nsource = 'tree'\n\
          [[partition]]\nfs = 'ext4'\nsource = 'tree.tar'\n",
    );
    for source in [
        "tree.tar",
        "tree.tar.gz",
        "oci",
        "saved",
        "pipe",
        "disk.toml",
        "beside.toml",
    ] {
        let command = making_of(&s, source);
        if source == "pipe" {
            std::fs::copy(s.join("tree.tar"), s.join("pipe")).expect("a reader");
        }
        let mut thread = Prisoner::behind(command.0.id(), 1);
        reaches_no_name(&mut thread, &s);
        let temporary = std::env::var("TMPDIR").unwrap_or("/var/tmp".into());
        for name in [
            &s.join("tree.tar"),
            &s.join("tree"),
            &s.join("tree/file"),
            &s.join("oci"),
            &s.join("oci/index.json"),
            &s.join("saved"),
            &s.join("saved/manifest.json"),
            std::path::Path::new(&temporary),
        ] {
            for how in [libc::O_RDONLY, libc::O_PATH] {
                let outcome = thread.open(&path(name), how);
                assert_eq!(outcome, DENIED, "{source}: {name:?}");
            }
        }
    }
    // A directory alone that is none of container images is read by who opens it.
    let command = making_of(&s, "tree-too");
    let mut thread = Prisoner::behind(command.0.id(), 1);
    let own = path(&s.join("tree-too/manifest.json"));
    done(&thread.open(&own, libc::O_RDONLY));
}

#[test]
fn whoever_opens_the_files_of_a_container_image_opens_none_beside_them() {
    if !has_prisoners() || !has_landlock() {
        return;
    }
    let s = Scratch::new();
    beside(&s);
    s.write("oci-not/file", b"a neighbour");
    let layout = "l = Layout()\nl.add('app:a', l.image([LOWER, UPPER]))\nl.write('oci')";
    container_images(&s, layout);
    std::os::unix::fs::symlink("../oci-not/file", s.join("oci/leads-out")).expect("a link");
    let command = making_of(&s, "oci");
    // All is read, and nothing on the line.
    tane_test_support::eventually("mke2fs runs", || sleeps_below(command.0.id()));
    let _thread = Prisoner::behind(command.0.id(), 1);
    let line = opener::Line::of(command.0.id());
    let asked = |name: &str, flags| line.open(&s.join(name), flags);
    assert_eq!(asked("oci/index.json", libc::O_RDONLY), Ok(libc::O_RDONLY));
    for (name, flags) in [
        ("oci/index.json", libc::O_RDWR),
        ("oci", libc::O_RDONLY),
        ("oci/leads-out", libc::O_RDONLY),
        ("oci/../oci-not/file", libc::O_RDONLY),
        ("oci-not/file", libc::O_RDONLY),
        ("out/.profile", libc::O_RDONLY),
        ("none", libc::O_RDONLY),
    ] {
        assert!(asked(name, flags).is_err(), "{name}");
    }
}

#[test]
fn a_directory_that_another_process_tells_becomes_the_same_image() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    beside(&s);
    s.write("tree/a/small", b"a file");
    s.write("tree/a/large", &vec![7; 3 << 20]);
    s.write("tree/gone", b"what the layer removes");
    s.write("tree/z/last", b"at the end");
    std::fs::hard_link(s.join("tree/a/small"), s.join("tree/second")).expect("a link");
    std::os::unix::fs::symlink("a/small", s.join("tree/symlink")).expect("a link");
    succeed(s.tool("mkfifo").arg(s.join("tree/fifo")));
    for name in ["tree/a", "tree/a/large"] {
        let mut set = s.tool("setfattr");
        set.args(["-n", "user.kept", "-v", "kept"])
            .arg(s.join(name));
        succeed(&mut set);
    }
    s.write("layer/.wh.gone", b"");
    s.write("layer/b/new", b"of the layer");
    succeed(&mut s.command("tar", "-C layer -cf layer.tar ."));
    std::os::unix::fs::symlink("tree", s.join("leads")).expect("a link");
    let make = |image: &str, source: &str, jail: &[&str]| {
        let mut command = s.tane();
        command
            .args(jail)
            .args(["make-image", "--epoch=1700000000"]);
        command.args([source, image, "--layer=layer.tar"]);
        succeed(&mut command);
        s.read(image)
    };
    let told = make("out/told.img", "tree", &[]);
    assert!(told == make("out/read.img", "tree", &["--no-jail"]));
    assert!(told == make("out/led.img", "leads", &[]));
    let has = |path: &str| {
        let mut command = s.tane();
        succeed(command.args(["cat", &format!("out/told.img:{path}")])).stdout
    };
    assert_eq!(has("/second"), b"a file");
    assert_eq!(has("/b/new"), b"of the layer");
    let mut command = s.tane();
    command.args(["xattr", "get", "user.kept", "out/told.img:/a"]);
    assert_eq!(succeed(&mut command).stdout, b"kept");
}

#[test]
fn what_cannot_be_read_beside_an_archive_is_named() {
    // SAFETY: no memory involved.
    if !has_kernel() || unsafe { libc::geteuid() } == 0 {
        eprintln!("skipped: root reads everything");
        return;
    }
    let s = Scratch::new();
    beside(&s);
    s.write("tree/closed/file", b"a file");
    s.write("layer/new", b"of the layer");
    succeed(&mut s.command("tar", "-C layer -cf layer.tar ."));
    succeed(s.tool("chmod").arg("0").arg(s.join("tree/closed")));
    let mut command = s.tane();
    command.args(["make-image", "tree", "out/new.img", "--layer=layer.tar"]);
    let output = command.output().expect("tane");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("closed"), "{said}");
}
