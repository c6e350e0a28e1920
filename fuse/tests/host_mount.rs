//! Promises about mounts that a program shows to the host without the command, with the
//! host's kernel and e2fsprogs as judges.

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use tane::{ImageOptions, Kernel, Mount, MountOptions};
use tane_fuse::{HostMount, HostMountOptions};
use tane_test_support::tool;

/// A directory that goes away with this, and whatever is still mounted on `mnt` in it.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let name = format!("tane-fuse-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(path.join("mnt")).expect("a directory");
        Scratch(path)
    }

    fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn point(&self) -> PathBuf {
        self.join("mnt")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = tane_fuse::unmount(&self.point(), true);
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// False, and the test is skipped, where nothing can be mounted by FUSE.
#[track_caller]
fn has_fuse() -> bool {
    let image = tane_test_support::has_kernel(tane::default_image());
    image.is_some() && tane_test_support::has_fuse()
}

/// An ext4 with what is in this directory.
#[track_caller]
fn ext4(s: &Scratch, name: &str, tree: &Path) -> Option<PathBuf> {
    let image = s.join(name);
    let file = fs::File::create(&image).expect("a file");
    file.set_len(64 << 20).expect("its size");
    let mut mkfs = tool("e2fsprogs", "mkfs.ext4")?;
    run(mkfs.args(["-q", "-F", "-d"]).arg(tree).arg(&image));
    Some(image)
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

fn mount(image: &Path, write: bool) -> Mount {
    let mut options = ImageOptions::new();
    options.write = write;
    let image = options.open(image, |_| Kernel::boot()).expect("an image");
    image
        .mount(None, &MountOptions::new())
        .expect("a file system")
}

fn show(s: &Scratch, mount: Mount) -> HostMount {
    let shown = HostMountOptions::new().mount(mount, s.point());
    shown.expect("it is mounted")
}

/// Waits until nobody is shown it any more, and unmounts it here.
#[track_caller]
fn ended(shown: HostMount) {
    let mount = shown.wait().expect("the mount");
    mount.unmount().expect("all is in the image");
}

fn sample(s: &Scratch) -> PathBuf {
    let tree = s.join("tree");
    fs::create_dir_all(tree.join("a/b")).expect("directories");
    for number in 0..200 {
        let data = vec![number as u8; number * 97];
        fs::write(tree.join(format!("a/file {number}")), data).expect("a file");
    }
    fs::write(tree.join("a/b/large"), vec![7; 3 << 20]).expect("a file");
    std::os::unix::fs::symlink("../a", tree.join("a/link")).expect("a link");
    let mode = fs::Permissions::from_mode(0o2750);
    fs::set_permissions(tree.join("a/b"), mode).expect("its mode");
    tree
}

#[test]
fn the_hosts_programs_see_what_is_in_the_image_and_the_mount_comes_back() {
    if !has_fuse() {
        return;
    }
    let s = Scratch::new("see");
    let tree = sample(&s);
    let Some(image) = ext4(&s, "disk.img", &tree) else {
        return;
    };
    let shown = show(&s, mount(&image, false));
    assert_eq!(shown.point(), s.point());
    run(Command::new("diff")
        .args(["-r", "--no-dereference", "-x", "lost+found"])
        .arg(&tree)
        .arg(shown.point()));
    let here = fs::metadata(shown.point().join("a/b")).expect("a directory");
    assert_eq!(here.mode() & 0o7777, 0o2750);
    let error = fs::write(shown.point().join("new"), "").expect_err("read-only");
    assert_eq!(error.raw_os_error(), Some(libc::EROFS));
    shown.unmount().expect("unmounted");
    let mount = shown.wait().expect("the mount");
    assert!(fs::read_dir(s.point()).expect("empty").next().is_none());
    // It is as it was, for this process.
    let data = mount.read("/a/file 9").expect("a file");
    assert_eq!(data, vec![9; 9 * 97]);
    mount.unmount().expect("unmounted");
}

#[test]
fn what_the_hosts_programs_write_is_in_the_image() {
    if !has_fuse() {
        return;
    }
    let s = Scratch::new("write");
    let tree = sample(&s);
    fs::create_dir(s.join("empty")).expect("a directory");
    let Some(image) = ext4(&s, "disk.img", &s.join("empty")) else {
        return;
    };
    let shown = show(&s, mount(&image, true));
    run(Command::new("cp").arg("-a").arg(&tree).arg(shown.point()));
    let path = shown.point().join("owned");
    fs::write(&path, "x").expect("a file");
    std::os::unix::fs::chown(&path, Some(1234), Some(56)).expect("its owner");
    shown.unmount().expect("unmounted");
    ended(shown);

    let Some(mut check) = tool("e2fsprogs", "e2fsck") else {
        return;
    };
    run(check.arg("-fn").arg(&image));
    let Some(mut debugfs) = tool("e2fsprogs", "debugfs") else {
        return;
    };
    let rdump = format!("rdump /tree {}", s.join("empty").display());
    run(debugfs.args(["-R", &rdump]).arg(&image));
    run(Command::new("diff")
        .args(["-r", "--no-dereference"])
        .arg(&tree)
        .arg(s.join("empty/tree")));
    let mut debugfs = tool("e2fsprogs", "debugfs").expect("as before");
    let said = run(debugfs.args(["-R", "stat /owned"]).arg(&image));
    let words: Vec<_> = said.split_whitespace().collect();
    let after = |word: &str| {
        let at = words.iter().position(|w| *w == word);
        at.map(|at| words[at + 1])
    };
    assert_eq!(
        (after("User:"), after("Group:")),
        (Some("1234"), Some("56"))
    );
}

#[test]
fn a_mount_that_is_in_use_stays_and_works_on() {
    if !has_fuse() {
        return;
    }
    let s = Scratch::new("busy");
    let Some(image) = ext4(&s, "disk.img", &sample(&s)) else {
        return;
    };
    let shown = show(&s, mount(&image, false));
    let file = fs::File::open(shown.point().join("a/b/large")).expect("a file");
    let error = shown.unmount().expect_err("in use");
    assert_eq!(error.errno(), libc::EBUSY);
    let text = error.to_string();
    assert!(
        text.starts_with(s.point().to_str().expect("UTF-8")),
        "{text}"
    );
    let mut byte = [0];
    file.read_exact_at(&mut byte, 2 << 20).expect("a byte");
    assert_eq!(byte, [7]);
    drop(file);
    shown.unmount().expect("unmounted");
    ended(shown);
}

#[test]
fn who_waits_hears_that_somebody_else_has_unmounted_it() {
    if !has_fuse() {
        return;
    }
    let s = Scratch::new("other");
    let Some(image) = ext4(&s, "disk.img", &sample(&s)) else {
        return;
    };
    let shown = show(&s, mount(&image, false));
    run(Command::new("umount").arg(s.point()));
    shown.unmount().expect("it is no error that it was faster");
    ended(shown);
}

#[test]
fn what_somebody_else_has_mounted_there_since_stays() {
    if !has_fuse() {
        return;
    }
    let s = Scratch::new("since");
    let Some(image) = ext4(&s, "disk.img", &sample(&s)) else {
        return;
    };
    // Told to end, waited for, and dropped.
    let ends: [fn(HostMount); 3] = [
        |shown| {
            shown.unmount().expect("it is gone already");
            ended(shown);
        },
        ended,
        drop,
    ];
    for end in ends {
        let shown = show(&s, mount(&image, false));
        run(Command::new("umount").arg(s.point()));
        let mut tmpfs = Command::new("mount");
        tmpfs.args(["-t", "tmpfs", "none"]).arg(s.point());
        run(&mut tmpfs);
        fs::write(s.point().join("theirs"), "data").expect("a file");
        end(shown);
        let data = fs::read(s.point().join("theirs")).expect("it is mounted");
        assert_eq!(data, b"data");
        run(Command::new("umount").arg(s.point()));
    }
}

#[test]
fn a_directory_can_be_shown_and_what_cannot_is_named() {
    if !has_fuse() {
        return;
    }
    let s = Scratch::new("directory");
    let Some(image) = ext4(&s, "disk.img", &sample(&s)) else {
        return;
    };
    let mut options = HostMountOptions::new();
    let error = options
        .directory("/none")
        .mount(mount(&image, false), s.point())
        .expect_err("no such directory");
    assert_eq!(error.errno(), libc::ENOENT);
    assert!(error.to_string().starts_with("/none: "), "{error}");
    let file = s.join("disk.img");
    let error = options
        .mount(mount(&image, false), &file)
        .expect_err("no directory of the host");
    assert_eq!(error.errno(), libc::ENOTDIR);
    let shown = options
        .directory("/a/b")
        .source("of a test")
        .mount(mount(&image, false), s.point())
        .expect("it is mounted");
    let names: Vec<_> = fs::read_dir(s.point()).expect("a listing").collect();
    assert_eq!(names.len(), 1);
    let mounts = fs::read_to_string("/proc/self/mountinfo").expect("mounts");
    let point = s.point();
    let line = mounts
        .lines()
        .find(|line| line.split(' ').nth(4) == point.to_str())
        .expect("it is listed");
    assert!(line.contains(" fuse.tane of\\040a\\040test "), "{line}");
    drop(shown);
    assert!(fs::read_dir(s.point()).expect("empty").next().is_none());
}

#[test]
fn two_images_of_one_process_are_served_side_by_side() {
    if !has_fuse() {
        return;
    }
    let (one, other) = (Scratch::new("one"), Scratch::new("other one"));
    let mut shown = Vec::new();
    for s in [&one, &other] {
        fs::create_dir(s.join("empty")).expect("a directory");
        let Some(image) = ext4(s, "disk.img", &s.join("empty")) else {
            return;
        };
        shown.push(show(s, mount(&image, true)));
    }
    std::thread::scope(|scope| {
        for (number, shown) in shown.iter().enumerate() {
            scope.spawn(move || {
                for file in 0..100 {
                    let path = shown.point().join(format!("{file}"));
                    fs::write(&path, format!("{number} {file}")).expect("written");
                    let mode = 0o600 + number as u32;
                    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("chmod");
                }
            });
        }
    });
    for (number, shown) in shown.into_iter().enumerate() {
        shown.unmount().expect("unmounted");
        let mount = shown.wait().expect("the mount");
        for file in 0..100 {
            let data = mount.read(format!("/{file}")).expect("a file");
            assert_eq!(data, format!("{number} {file}").into_bytes());
            let metadata = mount.metadata(format!("/{file}")).expect("a file");
            assert_eq!(metadata.permissions() & 0o777, 0o600 + number as u32);
        }
        mount.unmount().expect("unmounted");
    }
}
