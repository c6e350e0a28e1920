//! A tree with something of everything, made by every way that changes one; what
//! a file system cannot keep is left out.

use super::keeps::{Keeps, Names};
use super::TOP;
use crate::medium::Random;
use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use tane::{OpenOptions, SetTime, SetTimes, Timestamp, Tree};

const LARGE: usize = 5 << 20;
const CHUNK: usize = 64 << 10;
/// Two lie in one page, so that some blocks hold the ends of several.
const SMALL_FILES: u64 = 300;

/// 2001-09-09: every file system knows it.
const EPOCH: i64 = 1_000_000_000;

fn path(name: &str) -> PathBuf {
    Path::new(TOP).join(name)
}

/// Bytes that no two files or offsets share for long.
fn content(seed: u64, len: usize) -> Vec<u8> {
    Random(seed).bytes(len)
}

/// Exact times for everything, so that no clock has a say in the result.
fn settle(tree: &Tree, at: &Path, random: &mut Random) {
    let listing = tree.read_dir(at).expect("lists");
    let mut names: Vec<_> = listing
        .map(|e| e.expect("an entry").into_file_name())
        .collect();
    names.sort();
    for name in names {
        let at = at.join(name);
        let found = tree.symlink_metadata(&at).expect("looks");
        if found.is_dir() {
            settle(tree, &at, random);
        }
        let nanoseconds = random.below(1_000_000_000) as u32;
        let seconds = EPOCH + random.below(500_000_000) as i64;
        let time = Timestamp {
            seconds,
            nanoseconds,
        };
        let times = SetTimes {
            accessed: SetTime::To(time),
            modified: SetTime::To(time),
        };
        let set = tree.set_symlink_times(&at, times);
        set.unwrap_or_else(|e| panic!("{e}"));
    }
}

/// The first session.
pub fn fill(tree: &Tree, keeps: &Keeps) {
    tree.create_dir(TOP).expect("a directory");
    names(tree, keeps);
    directories(tree);
    large(tree);
    small(tree);
    holes(tree);
    punched(tree, keeps);
    replaced(tree);
    if keeps.hard_links {
        hard_links(tree);
    }
    if let Some(most) = keeps.symlinks {
        symlinks(tree, most);
    }
    if let Some(most) = keeps.owners {
        owners(tree, most);
    }
    if let Some(most) = keeps.devices {
        devices(tree, most);
    }
    if let Some(most) = keeps.xattrs {
        attributes(tree, most);
    }
    if keeps.acls {
        acls(tree);
    }
    settle(tree, Path::new(TOP), &mut Random(99));
}

fn odd_names(keeps: &Keeps) -> Vec<Vec<u8>> {
    let mut names: Vec<Vec<u8>> = [
        "A Mixed-Case name.TXT",
        "many.dots.in.it",
        "ümläut 日本",
        "-rf",
        "#=,+[]",
    ]
    .map(|name| name.as_bytes().to_vec())
    .into();
    if keeps.names >= Names::Plane {
        let more = [
            " blank ",
            "end.",
            "a\\b*?<>|\"'",
            "new\nline",
            "a;1",
            "tab\t",
        ];
        names.extend(more.map(|name| name.as_bytes().to_vec()));
    }
    if keeps.names >= Names::Unicode {
        names.push("\u{1f41a}".as_bytes().to_vec());
    }
    if keeps.names >= Names::Bytes {
        names.push(b"\xff\xfe no text \x80".to_vec());
        names.push(b"only\x01control\x1f".to_vec());
        names.push(b"case".to_vec());
        names.push(b"CASE".to_vec());
    }
    names.push(vec![b'n'; keeps.name_max]);
    names.push(vec![b'n'; keeps.name_max - 1]);
    names.retain(|name| name.len() <= keeps.name_max);
    names
}

fn names(tree: &Tree, keeps: &Keeps) {
    let dir = path("names");
    tree.create_dir(&dir).expect("a directory");
    for name in odd_names(keeps) {
        let at = dir.join(OsStr::from_bytes(&name));
        let written = tree.write(&at, &name);
        written.unwrap_or_else(|e| panic!("{e}"));
    }
    let long = dir.join(OsStr::from_bytes(&vec![b'n'; keeps.name_max + 1]));
    assert!(keeps.name_max < 255 || tree.write(long, b"").is_err());
}

fn directories(tree: &Tree) {
    let deep = (0..20).fold(path("deep"), |at, i| at.join(format!("level {i}")));
    tree.create_dir_all(&deep).expect("directories");
    tree.write(deep.join("bottom"), b"reached").expect("writes");
    tree.create_dir_all(path("moved/inner/more"))
        .expect("directories");
    tree.write(path("moved/inner/f"), content(5, 3000))
        .expect("writes");
    // Into another directory, whose ".." changes, and onto an empty one.
    tree.rename(path("moved/inner"), path("deep/inner"))
        .expect("renames");
    tree.create_dir(path("taken")).expect("a directory");
    tree.rename(path("moved"), path("taken")).expect("renames");
    tree.create_dir(path("removed")).expect("a directory");
    tree.remove_dir(path("removed")).expect("removes");
}

/// Written in no order, overwritten within, appended to.
fn large(tree: &Tree) {
    let data = content(1, LARGE);
    let file = tree.create(path("large")).expect("a file");
    let chunks = LARGE / CHUNK;
    for i in 0..chunks {
        let at = i * 37 % chunks * CHUNK;
        let written = file.write_all_at(&data[at..at + CHUNK], at as u64);
        written.expect("writes");
    }
    file.sync_all().expect("syncs");
    file.write_all_at(&content(2, 10_000), 1_234_567)
        .expect("writes");
    append(tree, "large", &content(3, 100_001));
    for i in 0..40 {
        append(tree, "appended", &content(100 + i, 777));
    }
}

fn append(tree: &Tree, name: &str, data: &[u8]) {
    let mut options = OpenOptions::new();
    let file = options.append(true).create(true).open(tree, path(name));
    let written = file.expect("opens").write_all(data);
    written.expect("appends");
}

fn small(tree: &Tree) {
    tree.create_dir(path("many")).expect("a directory");
    for i in 0..SMALL_FILES {
        let len = (i * i % 3001) as usize;
        let name = path("many").join(format!("small file {i}"));
        tree.write(name, content(1000 + i, len)).expect("writes");
    }
    for i in (0..SMALL_FILES).step_by(7) {
        let name = path("many").join(format!("small file {i}"));
        tree.remove_file(name).expect("removes");
    }
}

fn holes(tree: &Tree) {
    let file = tree.create(path("holes")).expect("a file");
    for at in [0, 1 << 20, (3 << 20) + 5] {
        file.write_all_at(&content(at, 5000), at).expect("writes");
    }
}

fn punched(tree: &Tree, keeps: &Keeps) {
    let punched = tree.create(path("punched")).expect("a file");
    punched
        .write_all_at(&content(8, 1 << 20), 0)
        .expect("writes");
    punched.sync_all().expect("syncs");
    let (start, len) = (100_000, 800_000);
    if keeps.punches {
        punched.punch_hole(start, len).expect("punches");
    } else {
        let zeros = vec![0; len as usize];
        punched.write_all_at(&zeros, start).expect("writes");
    }
    append(tree, "punched", &content(9, 600_000));
    // What was cut off must not come back.
    let extended = tree.create(path("extended")).expect("a file");
    extended
        .write_all_at(&content(10, 500_000), 0)
        .expect("writes");
    extended.sync_all().expect("syncs");
    extended.set_len(400_001).expect("cuts");
    extended.set_len(450_000).expect("makes longer");
    let data = content(11, 100_001);
    if keeps.appends_to_holes {
        append(tree, "extended", &data);
    } else {
        extended.write_all_at(&data, 450_000).expect("writes");
    }
}

/// One file in another's place, and one that is removed while it is written.
fn replaced(tree: &Tree) {
    tree.write(path("old"), content(20, 9000)).expect("writes");
    tree.write(path("new"), content(21, 100)).expect("writes");
    tree.rename(path("new"), path("old")).expect("renames");
    let file = tree.create(path("gone")).expect("a file");
    file.write_all_at(&content(22, 50_000), 0).expect("writes");
    tree.remove_file(path("gone")).expect("removes");
    file.write_all_at(&content(23, 50_000), 50_000)
        .expect("writes");
}

fn hard_links(tree: &Tree) {
    tree.write(path("linked"), content(30, 2000))
        .expect("writes");
    for i in 0..10 {
        let name = path("deep").join(format!("link {i}"));
        tree.hard_link(path("linked"), name).expect("links");
    }
    tree.remove_file(path("deep/link 3")).expect("removes");
    append(tree, "deep/link 4", b"seen through all of them");
}

fn symlinks(tree: &Tree, most: usize) {
    let long = "../".repeat((most - 1) / 3) + "x";
    for (name, target) in [
        ("short", "large"),
        ("to a directory", "deep"),
        ("absolute", "/dev/null"),
        (
            "of sixty bytes",
            "sixty-sixty-sixty-sixty-sixty-sixty-sixty-sixty-sixty-sixty-",
        ),
        ("long", long.as_str()),
    ] {
        let made = tree.symlink(target, path(name));
        made.unwrap_or_else(|e| panic!("{e}"));
    }
}

fn owners(tree: &Tree, most: u32) {
    tree.create_dir(path("owners")).expect("a directory");
    for (i, mode) in [0, 0o400, 0o644, 0o755, 0o1777, 0o2755, 0o4711, 0o7777]
        .into_iter()
        .enumerate()
    {
        let name = path("owners").join(format!("{mode:o}"));
        let text = format!("of mode {mode:o}");
        tree.write(&name, text).expect("writes");
        let [user, group] = [1000 * i as u32, 70_000 * i as u32].map(|id| id.min(most - 1));
        tree.chown(&name, Some(user), Some(group)).expect("chown");
        tree.set_permissions(&name, mode).expect("chmod");
        let name = path("owners").join(format!("directory {mode:o}"));
        tree.create_dir_with(&name, mode).expect("a directory");
        tree.set_permissions(&name, mode).expect("chmod"); // whatever the umask
    }
}

fn devices(tree: &Tree, most: u32) {
    tree.mknod(path("pipe"), libc::S_IFIFO | 0o600, 0)
        .expect("a pipe");
    tree.mknod(path("socket"), libc::S_IFSOCK | 0o644, 0)
        .expect("a socket");
    let device = |major, minor: u32| libc::makedev(major, minor.min(most));
    tree.mknod(path("null"), libc::S_IFCHR | 0o666, device(1, 3))
        .expect("a device");
    let major = if most > 255 { 259 } else { 8 };
    tree.mknod(path("disk"), libc::S_IFBLK | 0o660, device(major, 77_777))
        .expect("a device");
    // Whatever the umask.
    for (name, mode) in [
        ("pipe", 0o600),
        ("socket", 0o644),
        ("null", 0o666),
        ("disk", 0o660),
    ] {
        tree.set_permissions(path(name), mode).expect("chmod");
    }
}

/// None has a shorter name than one that sorts before it: hfsplus of Linux 6.12
/// lists such as errors, for it does not end the shorter one (copy_name()).
fn attributes(tree: &Tree, most: usize) {
    tree.write(path("attributes"), content(40, 100))
        .expect("writes");
    let large = content(41, most);
    for name in [path("attributes"), path("deep")] {
        for (key, value) in [
            ("user.empty", &[][..]),
            ("user.small", b"some\0bytes"),
            ("user.large", &large),
            ("trusted.t", b"for root"),
            ("user.removed", b"gone"),
        ] {
            let set = tree.set_xattr(&name, key, value, 0);
            set.unwrap_or_else(|e| panic!("{key}: {e}"));
        }
        tree.remove_xattr(&name, "user.removed").expect("removes");
    }
    for i in 0..15 {
        let key = format!("user.number {i:02}");
        tree.set_xattr(path("many"), key, &[i; 10], 0)
            .expect("sets");
    }
}

/// linux/posix_acl_xattr.h: version 2, then tag, permissions and id of each.
fn acl(entries: &[(u16, u16, u32)]) -> Vec<u8> {
    let mut bytes = 2u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in entries {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(permissions.to_le_bytes());
        bytes.extend(id.to_le_bytes());
    }
    bytes
}

fn acls(tree: &Tree) {
    const NOBODY: u32 = u32::MAX;
    let value = acl(&[
        (1, 6, NOBODY),
        (2, 4, 1000),
        (2, 6, 70_000),
        (4, 4, NOBODY),
        (8, 7, 50),
        (0x10, 6, NOBODY),
        (0x20, 0, NOBODY),
    ]);
    tree.write(path("with acl"), b"guarded").expect("writes");
    let set = |name: &str, key| tree.set_xattr(path(name), key, &value, 0);
    set("with acl", "system.posix_acl_access").expect("an ACL");
    tree.create_dir(path("default acl")).expect("a directory");
    set("default acl", "system.posix_acl_default").expect("an ACL");
    tree.write(path("default acl/heir"), b"inherits")
        .expect("writes");
}

/// The second session: on what was read from the image again.
pub fn change(tree: &Tree, keeps: &Keeps) {
    append(tree, "large", &content(50, 33_333));
    tree.truncate(path("holes"), 2 << 20).expect("cuts");
    tree.truncate(path("old"), 10).expect("cuts");
    tree.truncate(path("old"), 60_000).expect("makes longer");
    for i in (1..SMALL_FILES).step_by(7) {
        let name = path("many").join(format!("small file {i}"));
        tree.remove_file(name).expect("removes");
        let name = path("many").join(format!("another {i}"));
        tree.write(name, content(2000 + i, 500)).expect("writes");
    }
    tree.rename(path("many"), path("deep/many"))
        .expect("renames");
    tree.remove_dir_all(path("taken")).expect("removes");
    if keeps.hard_links {
        tree.remove_file(path("linked")).expect("removes");
        tree.rename(path("deep/link 5"), path("linked"))
            .expect("renames");
    }
    if keeps.symlinks.is_some() {
        tree.remove_file(path("long")).expect("removes");
        tree.rename(path("short"), path("deep/short"))
            .expect("renames");
    }
    if keeps.xattrs.is_some() {
        let name = path("attributes");
        tree.remove_xattr(&name, "user.large").expect("removes");
        tree.set_xattr(&name, "user.small", b"longer than before", 0)
            .expect("sets");
    }
    settle(tree, Path::new(TOP), &mut Random(77));
}
