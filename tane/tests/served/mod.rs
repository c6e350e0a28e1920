//! What holds of files of a server, whatever protocol they come by.

use std::fs;
use std::os::unix::fs::{symlink, MetadataExt, PermissionsExt};
use std::path::Path;
use tane::Mount;

fn big() -> Vec<u8> {
    (0..3_000_001u32).map(|n| (n * 7 / 3) as u8).collect()
}

fn names() -> Vec<String> {
    let name = |n| format!("d/e/a-name-that-is-long-{n:03}");
    (0..500).map(name).collect()
}

/// Make a tree to be served.
pub fn tree(tree: &Path) {
    fs::create_dir_all(tree.join("d/e")).expect("directories");
    fs::write(tree.join("big"), big()).expect("big");
    fs::write(tree.join("d/empty"), b"").expect("empty");
    for name in &names() {
        fs::write(tree.join(name), name).expect("a file");
    }
    symlink("../big", tree.join("d/link")).expect("a link");
    fs::hard_link(tree.join("big"), tree.join("d/again")).expect("a link");
    fs::set_permissions(tree.join("big"), PermissionsExt::from_mode(0o4751)).expect("a mode");
}

/// That tree is there as the server has it.
pub fn is_as_it_is(mount: &Mount, tree: &Path) {
    let names = names();
    assert!(mount.read("big").expect("big") == big());
    for name in &names {
        assert_eq!(mount.read_to_string(name).expect("it"), **name);
    }
    let listed = mount.read_dir("d/e").expect("a listing");
    assert_eq!(listed.count(), names.len());
    let linked = mount.read_link("d/link").expect("a link");
    assert_eq!(linked.to_str(), Some("../big"));
    for name in ["big", "d", "d/empty", "d/again", "d/link", &names[7]] {
        let ours = mount.symlink_metadata(name).expect("metadata");
        let hosts = fs::symlink_metadata(tree.join(name)).expect("metadata");
        let of_ours = (
            ours.mode(),
            ours.uid(),
            ours.gid(),
            ours.nlink(),
            ours.len(),
        );
        let (uid, gid, nlink) = (hosts.uid(), hosts.gid(), hosts.nlink() as u32);
        assert_eq!(
            of_ours,
            (hosts.mode(), uid, gid, nlink, hosts.len()),
            "{name}"
        );
    }
    assert_eq!(mount.server().and_then(|server| server.lost()), None);
}

/// What [`is_written`] changes.
pub fn tree_to_write(tree: &Path) {
    fs::create_dir(tree).expect("a directory");
    fs::write(tree.join("gone"), b"x").expect("a file");
    fs::write(tree.join("short"), b"a longer text").expect("a file");
}

/// What is written is in the server's tree, once it is unmounted.
pub fn is_written(mount: Mount, tree: &Path) {
    let big: Vec<u8> = (0..2_500_000u32).map(|n| (n * 5 / 3) as u8).collect();
    mount.create_dir("d").expect("a directory");
    mount.write("d/big", &big).expect("written");
    mount.set_permissions("d/big", 0o640).expect("a mode");
    mount.symlink("d/big", "link").expect("a link");
    mount.hard_link("d/big", "again").expect("a link");
    mount.truncate("short", 8).expect("cut");
    mount.remove_file("gone").expect("removed");
    mount.create_dir("old").expect("a directory");
    mount.rename("old", "new").expect("renamed");
    mount.unmount().expect("all is written");
    assert!(fs::read(tree.join("again")).expect("it") == big);
    let found = fs::metadata(tree.join("d/big")).expect("metadata");
    assert_eq!((found.mode() & 0o7777, found.nlink()), (0o640, 2));
    let link = fs::read_link(tree.join("link")).expect("a link");
    assert_eq!(link.to_str(), Some("d/big"));
    assert_eq!(fs::read(tree.join("short")).expect("it"), b"a longer");
    assert!(!tree.join("gone").exists() && !tree.join("old").exists());
    assert!(tree.join("new").is_dir());
}
