//! Everything in a tree, looked at as a program would that trusts it.

use std::path::Path;
use tane::{OpenOptions, Tree};

/// How deep, and how many entries in all.
const DEPTH: u32 = 8;

/// Look at no more than `most` entries; how many calls failed.
pub fn everything(tree: &Tree, most: u32) -> u32 {
    let mut walk = Walk {
        tree,
        left: most,
        errors: 0,
    };
    walk.directory(Path::new("/"), 0);
    walk.errors
}

struct Walk<'a> {
    tree: &'a Tree,
    left: u32,
    errors: u32,
}

impl Walk<'_> {
    fn directory(&mut self, path: &Path, depth: u32) {
        let Ok(listing) = self.tree.read_dir(path) else {
            self.errors += 1;
            return;
        };
        for entry in listing {
            if self.left == 0 {
                return;
            }
            self.left -= 1;
            match entry {
                Ok(entry) => self.entry(&path.join(entry.file_name()), depth),
                Err(_) => {
                    self.errors += 1;
                    return;
                }
            }
        }
    }

    fn entry(&mut self, path: &Path, depth: u32) {
        let Ok(metadata) = self.tree.symlink_metadata(path) else {
            self.errors += 1;
            return;
        };
        for key in self.tree.symlink_xattrs(path).unwrap_or_default() {
            let value = self.tree.symlink_xattr(path, key);
            self.errors += u32::from(value.is_err());
        }
        if metadata.is_dir() && depth < DEPTH {
            self.directory(path, depth + 1);
        } else if metadata.is_file() {
            self.file(path, metadata.len());
        } else {
            let _ = self.tree.read_link(path);
        }
    }

    fn file(&mut self, path: &Path, len: u64) {
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(libc::O_NONBLOCK);
        let Ok(file) = options.open(self.tree, path) else {
            self.errors += 1;
            return;
        };
        let mut buffer = vec![0; 64 << 10];
        let starts = [0, 64 << 10, 1 << 20, len / 2, len.saturating_sub(1000)];
        for start in starts {
            self.errors += u32::from(file.read_at(&mut buffer, start).is_err());
        }
        let _ = file.seek_data(len / 3);
    }
}
