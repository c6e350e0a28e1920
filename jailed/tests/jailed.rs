//! Promises of the crate: what a program has that does as README.md says.

#[path = "../../cli/tests/prisoner/mod.rs"]
mod prisoner;

use prisoner::{Outcome, Prisoner};
use std::ffi::CString;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use tane_jailed::{
    direct, FileType, Image, ImageOptions, Mount, MountOptions, OpenOptions, Options, Selector,
    Tree, VolumeKind,
};
use tane_test_support::{tool, Scratch};

/// On a disk.
fn scratch() -> Scratch {
    Scratch::within(Path::new(env!("CARGO_TARGET_TMPDIR")), "jailed")
}

const LONG: usize = 3 << 20;

fn pattern() -> Vec<u8> {
    (0..LONG).map(|i| (i / 251 + i) as u8).collect()
}

/// An ext4; None where nothing is to be run.
#[track_caller]
fn image(s: &Scratch) -> Option<PathBuf> {
    tane_test_support::has_kernel(direct::default_image())?;
    let tree = s.join("tree");
    std::fs::create_dir_all(tree.join("etc/empty")).expect("a directory");
    std::fs::write(tree.join("etc/os-release"), b"ID=seed\n").expect("a file");
    std::fs::write(tree.join("long"), pattern()).expect("a file");
    std::os::unix::fs::symlink("/etc/os-release", tree.join("link")).expect("a link");
    let image = s.join("disk.img");
    let mut mke2fs = tool("e2fsprogs", "mke2fs")?;
    mke2fs
        .args(["-qF", "-t", "ext4", "-d"])
        .args([&tree, &image]);
    assert!(mke2fs.arg("64M").status().expect("mke2fs").success());
    Some(image)
}

/// Cargo builds no programs of other crates for tests.
fn worker() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let test = std::env::current_exe().expect("this program");
        let place = test.ancestors().nth(2).expect("target/PROFILE").to_owned();
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "-q", "-p", "tane-worker", "--target-dir"]);
        cargo.arg(place.parent().expect("target"));
        if place.ends_with("release") {
            cargo.arg("--release");
        }
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
        assert!(cargo
            .current_dir(manifest)
            .status()
            .expect("cargo")
            .success());
        place.join("tane-worker")
    })
}

fn open(disk: &Path, write: bool) -> (Image, Mount) {
    let mut options = Options::new();
    options.program(worker()).image(ImageOptions {
        write,
        ..ImageOptions::new()
    });
    let image = Image::open_with(disk, &options).expect("an image");
    let mount = image.mount(None, &MountOptions::new()).expect("a mount");
    (image, mount)
}

fn status(pid: u32, name: &str) -> String {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("its status");
    let mut lines = text.lines();
    let found = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    found.expect("a line").trim().to_owned()
}

fn has_a_kernel(pid: u32) -> bool {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).expect("its memory");
    maps.contains("/tane-") && maps.contains(".elf")
}

#[test]
fn linux_runs_in_another_process_which_is_jailed_and_this_one_is_not() {
    let s = scratch();
    let Some(disk) = image(&s) else { return };
    // As README.md has it, which names nothing.
    std::env::set_var("TANE_WORKER", worker());
    let image = Image::open(&disk).expect("an image");
    let mount = image.mount(None, &MountOptions::new()).expect("a mount");
    assert_eq!(mount.read("etc/os-release").expect("a file"), b"ID=seed\n");
    let (here, there) = (std::process::id(), image.pid());
    assert_ne!(here, there);
    assert!(has_a_kernel(there) && !has_a_kernel(here));
    // 2: a filter.
    assert_eq!(
        (
            status(there, "Seccomp").as_str(),
            status(there, "NoNewPrivs").as_str()
        ),
        ("2", "1")
    );
    let free = std::fs::read_to_string("/proc/1/status").is_ok();
    assert!(free, "this process opens what it likes");
    let mut thread = Prisoner::waiting_in(there, libc::SYS_poll, None);
    let disk = CString::new(disk.as_os_str().as_bytes()).expect("no NUL");
    for file in [c"/etc/passwd", &disk] {
        let outcome = thread.open(file, libc::O_RDONLY);
        assert_eq!(
            outcome,
            Outcome::Returned(-(libc::EACCES as i64)),
            "{file:?}"
        );
    }
    drop(thread);
    assert_eq!(mount.read("etc/os-release").expect("a file"), b"ID=seed\n");
}

#[test]
fn who_is_killed_is_an_error_that_says_so() {
    let s = scratch();
    let Some(disk) = image(&s) else { return };
    let (image, mount) = open(&disk, false);
    assert!(mount.kernel().is_alive());
    // SAFETY: a child of this process.
    unsafe { libc::kill(image.pid() as i32, libc::SIGKILL) };
    let error = loop {
        // Until the signal has arrived.
        if let Err(error) = mount.metadata("long") {
            break error;
        }
    };
    assert_eq!(error.errno(), libc::ESHUTDOWN);
    assert!(!mount.kernel().is_alive());
    let why = mount.kernel().last_words();
    assert!(why.contains("signal 9") || why.contains("killed"), "{why}");
}

/// What a tree answers, whoever serves it.
fn reads(tree: &Tree) {
    assert_eq!(tree.read_to_string("link").expect("a file"), "ID=seed\n");
    assert_eq!(
        tree.read_link("link").expect("a link"),
        Path::new("/etc/os-release")
    );
    assert_eq!(tree.metadata("long").expect("a file").len(), LONG as u64);
    assert!(tree.symlink_metadata("link").expect("a link").is_symlink());
    assert!(!tree.exists("none").expect("an answer"));
    let error = tree.read("etc/none").expect_err("there is none");
    assert_eq!((error.errno(), error.action()), (libc::ENOENT, "open"));
    assert_eq!(error.path(), Some(Path::new("etc/none")));
    let mut found: Vec<_> = tree
        .read_dir("etc")
        .expect("a listing")
        .map(|entry| {
            let entry = entry.expect("an entry");
            let len = entry.metadata().expect("about it").len();
            (
                entry.path(),
                entry.file_type().expect("its type"),
                (len == 8),
            )
        })
        .collect();
    found.sort_by(|a, b| a.0.cmp(&b.0));
    let expected = [
        ("etc/empty", FileType::Dir, false),
        ("etc/os-release", FileType::File, true),
    ];
    assert_eq!(
        found,
        expected.map(|(path, kind, is)| (path.into(), kind, is))
    );
    let mut file = tree.open("long").expect("a file");
    let mut part = [0; 1000];
    file.seek(SeekFrom::End(-1000)).expect("seeks");
    file.read_exact(&mut part).expect("reads");
    assert_eq!(part, pattern()[LONG - 1000..]);
    file.read_exact_at(&mut part, 70_000).expect("reads");
    assert_eq!(part, pattern()[70_000..71_000]);
    assert_eq!(tree.read("long").expect("a file"), pattern());
}

fn writes(tree: &Tree) {
    tree.create_dir_all("new/dir").expect("directories");
    tree.write("new/dir/f", "one\n").expect("writes");
    let mut file = OpenOptions::new()
        .append(true)
        .open(tree, "new/dir/f")
        .expect("opens");
    file.write_all(b"two\n").expect("writes");
    file.sync_all().expect("syncs");
    drop(file);
    assert_eq!(tree.copy("new/dir/f", "copy").expect("copies"), 8);
    tree.set_permissions("copy", 0o600).expect("a mode");
    tree.lchown("copy", Some(7), Some(8)).expect("an owner");
    tree.set_xattr("copy", "user.a", b"b", 0)
        .expect("an attribute");
    tree.hard_link("copy", "second").expect("a link");
    tree.symlink("copy", "third").expect("a link");
    tree.rename("new/dir/f", "new/g").expect("renames");
    tree.remove_dir("new/dir").expect("removes");
    tree.write("long", pattern()).expect("writes");
    tree.create_dir("gone").expect("a directory");
    tree.write("gone/f", "").expect("writes");
    tree.remove_dir_all("gone").expect("removes");
}

fn written(tree: &Tree) {
    assert_eq!(tree.read("third").expect("a file"), b"one\ntwo\n");
    let found = tree.metadata("copy").expect("about it");
    assert_eq!(
        (found.permissions(), found.uid(), found.gid(), found.nlink()),
        (0o600, 7, 8, 2)
    );
    assert_eq!(
        tree.xattr("copy", "user.a").expect("an answer"),
        Some(b"b".to_vec())
    );
    assert_eq!(tree.read_to_string("new/g").expect("a file"), "one\ntwo\n");
    assert!(
        !tree.exists("new/dir").expect("an answer") && !tree.exists("gone").expect("an answer")
    );
    assert_eq!(tree.read("long").expect("a file"), pattern());
}

fn checked(disk: &Path) {
    let mut e2fsck = tool("e2fsprogs", "e2fsck").expect("e2fsck");
    let output = e2fsck.arg("-fn").arg(disk).output().expect("runs");
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn a_tree_is_the_same_whoever_serves_it() {
    for write in [false, true] {
        let s = scratch();
        let Some(disk) = image(&s) else { return };
        let (image, mount) = open(&disk, write);
        reads(&mount);
        if !write {
            let error = mount.write("f", "x").expect_err("it is for reading");
            assert_eq!(error.errno(), libc::EROFS);
            continue;
        }
        writes(&mount);
        mount.unmount().expect("unmounts");
        drop(image);
        checked(&disk);
        let how = ImageOptions {
            write: true,
            ..ImageOptions::new()
        };
        let image = how
            .open(&disk, |_| direct::Kernel::boot())
            .expect("an image");
        let mount = image.mount(None, &MountOptions::new()).expect("a mount");
        written(&mount);
        mount.remove_dir_all("new").expect("removes");
        reads(&mount);
        for name in ["copy", "second", "third"] {
            mount.remove_file(name).expect("removes");
        }
        writes(&mount);
        mount.unmount().expect("unmounts");
        drop(image);
        written(&open(&disk, false).1);
    }
}

#[test]
fn a_file_that_is_open_keeps_the_mount_and_what_was_written_is_there() {
    let s = scratch();
    let Some(disk) = image(&s) else { return };
    let (image, mount) = open(&disk, true);
    let mut file = mount.create("f").expect("a file");
    file.write_all(b"early").expect("writes");
    let error = mount.unmount().expect_err("it is busy");
    assert_eq!(error.errno(), libc::EBUSY);
    assert!(
        error.to_string().contains("files of it are still open"),
        "{error}"
    );
    file.write_all(b", late").expect("writes");
    file.sync_all().expect("syncs");
    drop((file, image));
    assert_eq!(
        open(&disk, false).1.read("f").expect("a file"),
        b"early, late"
    );
}

#[test]
fn what_cannot_cross_is_an_error_and_memory_stays_as_it_is() {
    let s = scratch();
    let Some(disk) = image(&s) else { return };
    let (image, mount) = open(&disk, false);
    let file = mount.open("long").expect("a file");
    let error = file
        .map(&direct::MapOptions::new())
        .expect_err("no memory is shared");
    assert_eq!(error.errno(), libc::ENOSYS);
    let error = mount.kernel().buffer(4096).expect_err("the same");
    assert_eq!(error.raw_os_error(), Some(libc::ENOSYS));
    let mut commas = MountOptions::new();
    commas.option("a", "b,ro");
    let error = image.mount(None, &commas).expect_err("a comma");
    assert_eq!(error.errno(), libc::EINVAL);
    let error = Image::open_with(s.join("none"), Options::new().program(worker()));
    let error = error.expect_err("there is none");
    assert_eq!(error.errno(), libc::ENOENT);
    let said = error.to_string().to_lowercase();
    assert_eq!(said.matches("no such file").count(), 1, "{error}");
}

#[test]
fn volumes_are_told_and_mounted_by_their_selectors() {
    let s = scratch();
    let Some(disk) = image(&s) else { return };
    let (image, _mount) = open(&disk, false);
    let volumes = image.volumes().expect("volumes");
    let [volume] = &volumes[..] else {
        panic!("{volumes:?}")
    };
    assert_eq!(
        (&volume.kind, volume.fstype.as_deref()),
        (&VolumeKind::Disk, Some("ext4"))
    );
    assert!(volume.is_mountable() && !volume.locked && volume.size == 64 << 20);
    let uuid = volume.uuid.clone().expect("a UUID");
    let selector = Selector::parse(&format!("uuid={uuid}")).expect("a selector");
    let mount = image
        .mount(Some(&selector), &MountOptions::new())
        .expect("a mount");
    assert_eq!(mount.read("etc/os-release").expect("a file"), b"ID=seed\n");
}

#[test]
fn trees_are_copied_to_the_host_and_back_by_the_engine_of_the_command() {
    use tane_copy::{tree, End, Settings, Tally};
    let s = scratch();
    let Some(disk) = image(&s) else { return };
    let (_image, mount) = open(&disk, true);
    let out = s.join("out");
    let host = End::host();
    let there = End::mount(mount.kernel(), mount.root_fd(), None).expect("its root");
    let tally = Tally::telling(|_, _| true);
    let settings = Settings::default();
    let (from, to) = ((&there, &b"/etc"[..]), (&host, out.as_os_str().as_bytes()));
    tree(from, to, settings, &tally, None).expect("copies");
    let text = std::fs::read(out.join("os-release")).expect("a file");
    assert_eq!(text, b"ID=seed\n");
    std::fs::write(out.join("os-release"), "ID=new\n").expect("writes");
    let (from, to) = (
        (&host, out.as_os_str().as_bytes()),
        (&there, &b"/again"[..]),
    );
    tree(from, to, settings, &tally, None).expect("copies");
    assert!(tally.failures().is_empty());
    assert_eq!(mount.read("again/os-release").expect("a file"), b"ID=new\n");
}

#[test]
fn a_mount_is_shown_to_the_hosts_programs_while_its_linux_stays_jailed() {
    if !tane_test_support::has_fuse() {
        return;
    }
    let s = scratch();
    let Some(disk) = image(&s) else { return };
    let (image, mount) = open(&disk, true);
    let point = s.join("mnt");
    std::fs::create_dir(&point).expect("a directory");
    let shown = tane_fuse::HostMountOptions::new().mount(mount, &point);
    let shown = shown.expect("it is mounted");
    assert!(!has_a_kernel(std::process::id()));
    let same = Command::new("diff")
        .args(["-r", "-x", "lost+found"])
        .args([&s.join("tree"), &point])
        .status();
    assert!(same.expect("diff").success());
    let copied = Command::new("cp")
        .arg("-a")
        .args([s.join("tree"), point.join("copy")])
        .status();
    assert!(copied.expect("cp").success());
    shown.unmount().expect("unmounted");
    let mount = shown.wait().expect("the mount");
    assert_eq!(mount.read("copy/long").expect("a file"), pattern());
    mount.unmount().expect("all is in the image");
    drop(image);
    let mut fsck = tool("e2fsprogs", "e2fsck").expect("mke2fs was there");
    assert!(fsck
        .arg("-fn")
        .arg(&disk)
        .status()
        .expect("e2fsck")
        .success());
}
