//! Promises about images that a program makes without the command, with e2fsprogs and the
//! other kinds' own programs as judges.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use tane_copy::{Owner, Tally};
use tane_make::{image, Direct, Made, Spec, Terms};
use tane_test_support::tool;

/// A directory that goes away with this.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let name = format!("tane-make-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).expect("a directory");
        Scratch(path)
    }

    fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Some files in a directory `tree`.
    fn tree(&self) -> PathBuf {
        let tree = self.join("tree");
        fs::create_dir_all(tree.join("a/b")).expect("directories");
        for number in 0..50 {
            let data = vec![number as u8; number * 131];
            fs::write(tree.join(format!("a/{number}")), data).expect("a file");
        }
        fs::write(tree.join("a/b/large"), vec![7; 3 << 20]).expect("a file");
        fs::hard_link(tree.join("a/9"), tree.join("a/b/nine")).expect("a link");
        std::os::unix::fs::symlink("../a", tree.join("a/link")).expect("a link");
        let mode = fs::Permissions::from_mode(0o4750);
        fs::set_permissions(tree.join("a/1"), mode).expect("its mode");
        tree
    }

    /// No file of an image that is not finished.
    fn assert_only(&self, names: &[&str]) {
        let entries = fs::read_dir(&self.0).expect("a listing");
        let mut found: Vec<_> = entries
            .map(|entry| entry.expect("an entry").file_name().into_string())
            .map(|name| name.expect("UTF-8"))
            .collect();
        found.sort();
        assert_eq!(found, names);
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[track_caller]
fn has_kernel() -> bool {
    tane_test_support::has_kernel(tane::default_image()).is_some()
}

/// What a program says that must succeed.
#[track_caller]
fn run(command: &mut Command) -> String {
    let output = command.output().expect("a program");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}{errors}");
    said
}

#[track_caller]
fn made(spec: &Spec, kind: &str) -> Made {
    let tally = Tally::default();
    let made = image(
        spec,
        Some(kind),
        Terms::default(),
        &tally,
        &Direct::new(),
        |_, _| {},
    );
    let made = made.unwrap_or_else(|e| panic!("{kind}: {e}"));
    assert!(tally.losses().is_empty(), "{:?}", tally.losses());
    assert_eq!(
        spec.image.metadata().expect("the image").len(),
        made.size,
        "{kind}"
    );
    made
}

fn differences(one: &Path, other: &Path) {
    run(Command::new("diff")
        .args(["-r", "--no-dereference", "-x", "lost+found"])
        .args([one, other]));
}

#[test]
fn an_image_has_all_files_and_is_the_same_each_time() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new("ext4");
    let tree = s.tree();
    let spec = |name: &str| Spec {
        owner: Owner::Fixed { uid: 12, gid: 34 },
        label: Some("made".into()),
        epoch: Some(1_700_000_000),
        ..Spec::new(&tree, s.join(name))
    };
    let mut told = (0, 0);
    let tally = Tally::default();
    let terms = Terms::default();
    let begin = |files, bytes| told = (files, bytes);
    let first = image(&spec("one.img"), None, terms, &tally, &Direct::new(), begin);
    let first = first.expect("an image");
    // With one name of two: files as they are in it.
    assert_eq!(told.0, 51);
    assert!(told.1 > 3 << 20, "{told:?}");
    assert_eq!(first.time, 1_700_000_000);
    assert_eq!(made(&spec("two.img"), "ext4"), first);
    assert!(
        fs::read(s.join("one.img")).expect("read") == fs::read(s.join("two.img")).expect("read")
    );
    s.assert_only(&["one.img", "tree", "two.img"]);

    let Some(mut check) = tool("e2fsprogs", "e2fsck") else {
        return;
    };
    run(check.arg("-fn").arg(s.join("one.img")));
    let Some(mut debugfs) = tool("e2fsprogs", "debugfs") else {
        return;
    };
    fs::create_dir(s.join("out")).expect("a directory");
    let rdump = format!("rdump /a {}", s.join("out").display());
    run(debugfs.args(["-R", &rdump]).arg(s.join("one.img")));
    differences(&tree.join("a"), &s.join("out/a"));
    let mut debugfs = tool("e2fsprogs", "debugfs").expect("as before");
    let said = run(debugfs.args(["-R", "stat /a/1"]).arg(s.join("one.img")));
    for words in ["User:    12", "Group:    34", "Mode:  04750"] {
        assert!(said.contains(words), "{words}: {said}");
    }
}

#[test]
fn what_linux_does_not_write_is_made_by_its_own_program() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new("readonly");
    let tree = s.tree();
    let packer = tool("squashfs-tools", "mksquashfs");
    if let (Some(_), Some(mut unpack)) = (packer, tool("squashfs-tools", "unsquashfs")) {
        // It keeps whole seconds.
        let whole = Spec {
            epoch: Some(1_700_000_000),
            all_times: true,
            ..Spec::new(&tree, s.join("squashfs.img"))
        };
        made(&whole, "squashfs");
        let out = s.join("out");
        run(unpack.arg("-d").arg(&out).arg(s.join("squashfs.img")));
        differences(&tree, &out);
    }
    // The files of erofs are shown to its program by FUSE, from this process.
    if tool("erofs-utils", "mkfs.erofs").is_none() || !tane_test_support::has_fuse() {
        return;
    }
    made(&Spec::new(&tree, s.join("erofs.img")), "erofs");
    let opened = tane::Image::open(s.join("erofs.img")).expect("an image");
    let mount = opened.mount(None, &tane::MountOptions::new());
    let mount = mount.expect("a file system");
    assert_eq!(mount.fstype(), "erofs");
    for file in ["a/49", "a/b/large", "a/b/nine"] {
        let there = fs::read(tree.join(file)).expect("a file");
        assert!(mount.read(file).expect("a file") == there, "{file}");
    }
}

#[test]
fn a_partition_table_and_a_container_go_around_it() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new("around");
    let spec = Spec {
        partition_table: Some(tane_make::table::Table::Gpt),
        ..Spec::new(s.tree(), s.join("disk.qcow2"))
    };
    let tally = Tally::default();
    let terms = Terms::default();
    let made = image(&spec, None, terms, &tally, &Direct::new(), |_, _| {});
    let made = made.expect("an image");
    let opened = tane::Image::open(&spec.image).expect("an image");
    assert_eq!(opened.disk().size().expect("a size"), made.size);
    let one = tane::Selector::parse("1").expect("a partition");
    let mount = opened.mount(Some(&one), &tane::MountOptions::new());
    let data = mount.expect("a file system").read("/a/7").expect("a file");
    assert_eq!(data, vec![7; 7 * 131]);
}

#[test]
fn a_file_that_describes_a_disk_is_a_source_as_for_the_command() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new("layout");
    s.tree();
    let layout = "[[partition]]\ntype = 'esp'\nfs = 'vfat'\nsize = '40M'\n\
                  [[partition]]\nfs = 'ext4'\nsource = 'tree'\nlabel = 'root'\n";
    fs::write(s.join("disk.toml"), layout).expect("a file");
    let spec = Spec::new(s.join("disk.toml"), s.join("disk.img"));
    let (tally, terms, direct) = (Tally::default(), Terms::default(), Direct::new());
    let error = image(&spec, Some("xfs"), terms, &tally, &direct, |_, _| {});
    let error = error.expect_err("an error");
    assert!(error.to_string().contains("of each partition"), "{error}");
    let mut told = (0, 0);
    let begin = |files, bytes| told = (files, bytes);
    let made = image(&spec, None, terms, &tally, &direct, begin).expect("an image");
    assert_eq!(told.0, 51);
    s.assert_only(&["disk.img", "disk.toml", "tree"]);
    let [esp, root] = &made.partitions[..] else {
        panic!("{made:?}");
    };
    assert_eq!((esp.start, esp.size), (1 << 20, 40 << 20));
    assert_eq!(
        (root.start, root.label.as_deref()),
        (41 << 20, Some("root"))
    );
    let Some(mut blkid) = tool("util-linux", "blkid") else {
        return;
    };
    let told = run(blkid
        .args(["-p", "-o", "value", "-s", "PTUUID"])
        .arg(&spec.image));
    assert_eq!(told.trim(), made.uuid);
    let mut blkid = tool("util-linux", "blkid").expect("as before");
    let offset = format!("--offset={}", root.start);
    let told = run(blkid
        .args(["-p", "-o", "value", "-s", "UUID", &offset])
        .arg(&spec.image));
    assert_eq!(Some(told.trim()), root.uuid.as_deref());
    let opened = tane::Image::open(&spec.image).expect("an image");
    let two = tane::Selector::parse("2").expect("a partition");
    let mount = opened.mount(Some(&two), &tane::MountOptions::new());
    let data = mount.expect("a file system").read("/a/7").expect("a file");
    assert_eq!(data, vec![7; 7 * 131]);
}

#[test]
fn what_is_not_made_leaves_nothing_and_says_why() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new("refused");
    let tree = s.tree();
    fs::write(s.join("there.img"), "data").expect("a file");
    fs::write(s.join("bad.mtree"), "a type=none\n").expect("a file");
    let fails = |spec: &Spec, kind: &str, means: &Direct| {
        let tally = Tally::default();
        let terms = Terms::default();
        let made = image(spec, Some(kind), terms, &tally, means, |_, _| {});
        made.expect_err("an error")
    };
    let direct = Direct::new();
    let spec = Spec::new(&tree, s.join("there.img"));
    let error = fails(&spec, "ext4", &direct);
    assert_eq!(error.errno(), libc::EEXIST);
    assert!(error.to_string().contains("there.img: exists"), "{error}");
    assert_eq!(fs::read(s.join("there.img")).expect("a file"), b"data");

    // One that appears while it is made, and a link that leads nowhere.
    let spec = Spec::new(&tree, s.join("late.img"));
    let tally = Tally::default();
    let appears = |_, _| fs::write(&spec.image, "late").expect("a file");
    let made = image(&spec, None, Terms::default(), &tally, &direct, appears);
    let error = made.expect_err("an error");
    assert_eq!(error.errno(), libc::EEXIST);
    assert!(error.to_string().contains("late.img: exists"), "{error}");
    assert_eq!(fs::read(s.join("late.img")).expect("a file"), b"late");
    std::os::unix::fs::symlink("nowhere", s.join("link.img")).expect("a link");
    let error = fails(&Spec::new(&tree, s.join("link.img")), "ext4", &direct);
    assert_eq!(error.errno(), libc::EEXIST);
    assert!(s.join("link.img").is_symlink());

    let spec = Spec::new(&tree, s.join("new.img"));
    let error = fails(&spec, "zfs", &direct);
    assert_eq!(error.errno(), libc::EINVAL);
    assert!(error.to_string().starts_with("zfs is not"), "{error}");
    let none = Spec::new(s.join("none"), s.join("new.img"));
    let error = fails(&none, "ext4", &direct);
    assert!(error.to_string().contains("none: "), "{error}");
    let bad = Spec {
        metadata: vec![s.join("bad.mtree")],
        ..spec.clone()
    };
    let error = fails(&bad, "ext4", &direct);
    assert!(error.to_string().contains("bad.mtree: "), "{error}");
    let asked = AtomicBool::new(false);
    let stopping = Direct::stopping(|| {
        asked.store(true, Relaxed);
        true
    });
    let error = fails(&spec, "ext4", &stopping);
    assert_eq!(error.errno(), libc::EINTR);
    assert!(asked.load(Relaxed));
    s.assert_only(&["bad.mtree", "late.img", "link.img", "there.img", "tree"]);
}

fn forced(spec: &Spec) -> tane_make::Result<Made> {
    let terms = Terms {
        force: true,
        ..Terms::default()
    };
    image(
        spec,
        None,
        terms,
        &Tally::default(),
        &Direct::new(),
        |_, _| {},
    )
}

fn opened(image: &Path) -> tane::Mount {
    let opened = tane::Image::open(image).expect("an image");
    let mount = opened.mount(None, &tane::MountOptions::new());
    mount.expect("a file system")
}

#[test]
fn what_replaces_an_image_goes_through_links_and_replaces_no_device() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new("replaced");
    let tree = s.tree();
    fs::create_dir(s.join("there")).expect("a directory");
    fs::write(s.join("there/old.img"), "old").expect("a file");
    let link = |to: &str, name: &str| {
        std::os::unix::fs::symlink(to, s.join(name)).expect("a link");
        Spec::new(&tree, s.join(name))
    };
    let spec = link("there/old.img", "link.img");
    let made = forced(&spec).expect("an image");
    assert!(spec.image.is_symlink());
    let found = s.join("there/old.img").metadata().expect("the image");
    assert_eq!(found.len(), made.size);

    for (to, errno) in [
        ("/dev/null", libc::EINVAL),
        ("there", libc::EINVAL),
        ("nowhere", libc::ENOENT),
    ] {
        let spec = link(to, &format!("to-{}", to.replace('/', "")));
        let error = forced(&spec).expect_err("it is no file");
        assert_eq!(error.errno(), errno, "{error}");
        assert!(spec.image.is_symlink(), "{to}");
    }
    use std::os::unix::fs::FileTypeExt;
    let null = fs::metadata("/dev/null").expect("a device");
    assert!(null.file_type().is_char_device());
}

#[test]
fn an_image_in_its_own_source_is_not_in_itself() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new("inside");
    let tree = s.tree();
    // Another directory's file of that name is a file like others.
    fs::write(tree.join("a/x.img"), "data").expect("a file");
    let spec = Spec::new(&tree, tree.join("x.img"));
    made(&spec, "ext4");
    let first = spec.image.metadata().expect("the image").len();
    let made = forced(&spec).expect("another image");
    assert_eq!(made.size, first);
    let mount = opened(&spec.image);
    assert_eq!(mount.read("/a/x.img").expect("a file"), b"data");
    let entries = mount.read_dir("/").expect("a directory");
    let mut names: Vec<_> = entries
        .map(|entry| entry.expect("an entry").file_name().to_owned())
        .collect();
    names.sort();
    assert_eq!(names, ["a", "lost+found"]);
}

#[test]
fn what_a_killed_process_of_the_same_number_has_left_is_in_nobodys_way() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new("stale");
    let spec = Spec::new(s.tree(), s.join("x.img"));
    let stale = format!("x.img.tane-{}.part", std::process::id());
    fs::write(s.join(&stale), "left").expect("a file");
    made(&spec, "ext4");
    assert_eq!(fs::read(s.join(&stale)).expect("a file"), b"left");
    s.assert_only(&["tree", "x.img", &stale]);
}

#[test]
fn layers_need_no_source_below_them() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new("layers");
    let mut tar = Command::new("tar");
    run(tar
        .arg("-cf")
        .arg(s.join("layer.tar"))
        .arg("-C")
        .arg(s.tree())
        .arg("."));
    let spec = Spec {
        layer: vec![s.join("layer.tar")],
        ..Spec::new("", s.join("x.img"))
    };
    made(&spec, "ext4");
    let data = opened(&spec.image).read("/a/7").expect("a file");
    assert_eq!(data, vec![7; 7 * 131]);
}

#[test]
fn a_time_that_no_clock_of_linux_has_is_refused() {
    let s = Scratch::new("time");
    let spec = Spec {
        epoch: Some(u64::MAX),
        ..Spec::new(s.tree(), s.join("x.img"))
    };
    let error = forced(&spec).expect_err("it is too late");
    assert_eq!(error.errno(), libc::EINVAL);
    assert!(error.to_string().contains("--epoch"), "{error}");
    s.assert_only(&["tree"]);
}
