//! A tree of files as it should be, and random operations on it and on a mount.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tane::{Kernel, Mount, OpenOptions};
use tane_test_support::Dice;

#[derive(Clone, Debug, PartialEq)]
pub enum Node {
    Dir,
    File(Vec<u8>),
    Link(PathBuf),
}

/// What the tree should hold, by path.
pub type Model = BTreeMap<PathBuf, Node>;

fn below(model: &Model, dir: &Path) -> bool {
    model
        .keys()
        .any(|path| path != dir && path.starts_with(dir))
}

/// One operation, on both.
pub fn operate(mount: &Mount, model: &mut Model, dice: &mut Dice) {
    let dir = PathBuf::from(format!("d{}", dice.roll(3)));
    let path = match dice.roll(4) {
        0 => PathBuf::from(format!("f{}", dice.roll(4))),
        _ => dir.join(format!("f{}", dice.roll(5))),
    };
    let has_parent = path.components().count() == 1 || model.contains_key(&dir);
    match dice.roll(12) {
        0 | 1 => match model.get(&dir) {
            None => {
                mount.create_dir(&dir).expect("makes a directory");
                model.insert(dir, Node::Dir);
            }
            Some(_) if !below(model, &dir) => {
                mount.remove_dir(&dir).expect("removes a directory");
                model.remove(&dir);
            }
            Some(_) => {}
        },
        2..=5 if has_parent && !matches!(model.get(&path), Some(Node::Link(_))) => {
            let len = dice.roll(50_000);
            let content = vec![dice.roll(255) as u8 + 1; len];
            mount.write(&path, &content).expect("writes");
            model.insert(path, Node::File(content));
        }
        6 | 7 if model.contains_key(&path) => {
            mount.remove_file(&path).expect("removes");
            model.remove(&path);
        }
        8 => {
            let new = PathBuf::from(format!("f{}", dice.roll(4)));
            if let Some(node) = model.remove(&path) {
                mount.rename(&path, &new).expect("renames");
                model.insert(new, node);
            }
        }
        9 if has_parent && !model.contains_key(&path) => {
            let target = PathBuf::from(format!("nowhere/{}", dice.roll(1000)));
            mount.symlink(&target, &path).expect("links");
            model.insert(path, Node::Link(target));
        }
        10 => {
            if let Some(Node::File(content)) = model.get_mut(&path) {
                let len = dice.roll(60_000);
                mount.truncate(&path, len as u64).expect("truncates");
                content.resize(len, 0);
            }
        }
        11 if dice.roll(3) == 0 => mount.sync().expect("syncs"),
        _ => {}
    }
}

fn found(mount: &Mount, at: &Path, into: &mut Model) {
    for entry in mount.read_dir(Path::new("/").join(at)).expect("lists") {
        let name = entry.expect("an entry").into_file_name();
        let path = at.join(name);
        let metadata = mount.symlink_metadata(&path).expect("looks");
        let node = match metadata.file_type() {
            tane::FileType::Dir => Node::Dir,
            tane::FileType::Symlink => Node::Link(mount.read_link(&path).expect("reads")),
            _ => Node::File(mount.read(&path).expect("reads")),
        };
        let is_dir = node == Node::Dir;
        // Made by mkfs.
        if path != Path::new("lost+found") {
            into.insert(path.clone(), node);
        }
        if is_dir {
            found(mount, &path, into);
        }
    }
}

/// What is read next comes from the disk, but for what was never written there.
pub fn drop_caches(kernel: &Kernel) {
    let proc = kernel.tree("/proc").expect("/proc");
    let file = OpenOptions::new()
        .write(true)
        .open(&proc, "sys/vm/drop_caches");
    let file = file.expect("opens");
    file.write_all_at(b"3", 0).expect("drops caches");
}

#[track_caller]
pub fn same(mount: &Mount, model: &Model) {
    let mut tree = Model::new();
    found(mount, Path::new(""), &mut tree);
    let (names, wanted): (Vec<_>, Vec<_>) = (tree.keys().collect(), model.keys().collect());
    assert_eq!(names, wanted);
    for (path, node) in &tree {
        assert!(*node == model[path], "{}", path.display());
    }
}
