//! What code that an archive, or what lies beside it, got to run finds where a new image is
//! made of it.

use crate::common::make::container_images;
use crate::common::*;
use crate::jailed::making::*;
use crate::jailed::*;
use crate::prisoner::*;

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
    sleeping::sleeper(&command.0);
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
