//! Images made by tane make-image: trees of all sorts, and the same one twice.

use super::*;
use std::os::unix::fs::PermissionsExt;

pub const EPOCH: &str = "1700000000";

/// A tree with something of most kinds, its entries made in this order or the
/// other way round.
pub fn tree(scratch: &Scratch, name: &str, backwards: bool) -> PathBuf {
    let mut entries: Vec<u32> = (0..300).collect();
    if backwards {
        entries.reverse();
    }
    for n in entries {
        let data = vec![n as u8; 37 * n as usize];
        scratch.write(&format!("{name}/dir{}/file{n}", n % 7), &data);
    }
    let mut large = vec![0; 3 << 20];
    large[1 << 20..][..100_000].fill(7);
    scratch.write(&format!("{name}/large"), &large);
    let dir = scratch.join(name);
    std::os::unix::fs::symlink("dir1/file1", dir.join("symlink")).expect("a symlink");
    std::fs::hard_link(dir.join("dir1/file1"), dir.join("dir2/hard")).expect("a link");
    let ours = |mode| std::fs::Permissions::from_mode(mode);
    std::fs::set_permissions(dir.join("dir3"), ours(0o1777)).expect("chmod");
    std::fs::set_permissions(dir.join("dir1/file8"), ours(0o4755)).expect("chmod");
    // The same times as in another such tree, all before EPOCH.
    succeed(Command::new("find").arg(&dir).args([
        "-exec",
        "touch",
        "-h",
        "-d",
        "@1600000000",
        "{}",
        "+",
    ]));
    dir
}

/// The command as somebody without any rights; as who runs the tests where nobody else
/// can come to it, as below root's home.
pub fn as_nobody(scratch: &Scratch) -> Command {
    let tane = scratch.tane();
    if !tane_test_support::is_root() || !others_come_to(Path::new(tane.get_program())) {
        return tane;
    }
    let open = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(scratch.path(), open).expect("chmod");
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(tane.get_program())
        .current_dir(scratch.path());
    command
}

pub fn assert_equal(a: &Path, b: &Path) {
    let same = Command::new("cmp").arg(a).arg(b).output().expect("cmp");
    assert!(same.status.success(), "{}", text(&same.stdout));
}

/// Two images of equal trees, made as differently as can be.
pub fn make_twice(fs: &str) -> Option<(Scratch, PathBuf, PathBuf)> {
    make_twice_of(fs, 0, &[])
}

/// The same with so many bytes more in one file, and with further arguments.
pub fn make_twice_of(
    fs: &str,
    more: usize,
    further: &[&str],
) -> Option<(Scratch, PathBuf, PathBuf)> {
    if !has_kernel() {
        return None;
    }
    let scratch = Scratch::new();
    let noise: Vec<u8> = (0..more as u32).map(|i| (i >> 8 ^ i) as u8 | 1).collect();
    for name in ["one", "two"] {
        if more > 0 {
            scratch.write(&format!("{name}/noise"), &noise);
        }
        tree(&scratch, name, name == "two");
    }
    std::fs::create_dir(scratch.join("tmp")).expect("mkdir");
    let args = ["make-image", "--fs", fs, "--owner=root"];
    succeed(
        scratch
            .tane()
            .args(args)
            .args(further)
            .args(["one", "a.img"])
            .env("SOURCE_DATE_EPOCH", EPOCH)
            .env("TZ", "Asia/Tokyo"),
    );
    // Another second on everybody's clock.
    std::thread::sleep(std::time::Duration::from_millis(1100));
    succeed(
        as_nobody(&scratch)
            .args(args)
            .args(further)
            .args(["two", "b.img", "--cpus=4"])
            .env("SOURCE_DATE_EPOCH", EPOCH)
            .env("TMPDIR", scratch.join("tmp"))
            .env("MKE2FS_CONFIG", "/nonexistent")
            .env("TZ", "America/Lima"),
    );
    let (a, b) = (scratch.join("a.img"), scratch.join("b.img"));
    Some((scratch, a, b))
}

pub fn python(scratch: &Scratch, script: &str) {
    let mut python = Command::new("python3");
    succeed(python.arg("-c").arg(script).current_dir(scratch.path()));
}

/// Runs a script that has what container_images/make.py has.
pub fn container_images(scratch: &Scratch, script: &str) {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/container_images");
    let mut python = scratch.tool("python3");
    python
        .env("PYTHONPATH", path)
        .env("PYTHONDONTWRITEBYTECODE", "1");
    let script = format!("from make import *\n{script}");
    succeed(python.arg("-c").arg(script));
}
