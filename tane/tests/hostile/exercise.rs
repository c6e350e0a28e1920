//! Using an image as a program would that trusts it.

use super::foreign::Foreign;
use super::kinds::Kind;
use std::io::Write;
use std::path::Path;
use tane::{Disk, Kernel, Mount, MountOptions, OpenOptions, Tree, VolumeOptions};

/// Look at everything in a tree, within limits.
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
        if metadata.is_dir() && depth < 8 {
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

/// What an image is taken for.
#[derive(Clone, Copy)]
pub enum As<'a> {
    Kind(&'a Kind),
    /// Whatever it seems to be.
    Foreign(&'a Foreign),
}

impl As<'_> {
    pub fn name(&self) -> &str {
        match self {
            Self::Kind(kind) => kind.name,
            Self::Foreign(foreign) => &foreign.name,
        }
    }
}

/// How many calls failed; an error if it cannot be mounted, or not unmounted.
pub fn exercise(kernel: &Kernel, disk: &Disk, what: As, write: bool) -> tane::Result<u32> {
    let found = disk.probe();
    let mut options = MountOptions::new();
    match what {
        As::Kind(kind) => {
            options.fstype(kind.fstype).options(kind.options);
        }
        As::Foreign(_) => {
            // Members of sets and groups are mostly alone.
            let volumes = kernel.volumes(&[disk], &VolumeOptions::new());
            drop(volumes);
            let found = found?.map(|found| found.fstype);
            // Not to panic on errors, which a superblock may ask for.
            if found.is_some_and(|fstype| fstype.starts_with("ext")) {
                options.options("errors=continue");
            }
        }
    }
    let mount = options.read_only(!write).mount(kernel, disk.device())?;
    let mut walk = Walk {
        tree: &mount,
        left: 1000,
        errors: 0,
    };
    walk.directory(Path::new("/"), 0);
    let mut errors = walk.errors;
    errors += u32::from(mount.statfs().is_err());
    if write {
        errors += change(&mount);
    }
    mount.unmount()?;
    Ok(errors)
}

fn change(mount: &Mount) -> u32 {
    let mut errors = 0;
    if let Ok(mut file) = mount.create("created") {
        errors += u32::from(file.write_all(&[1; 100_000]).is_err());
        errors += u32::from(file.sync_all().is_err());
    }
    let append = OpenOptions::new().append(true).open(mount, "late");
    let append = append
        .map_err(drop)
        .and_then(|mut file| file.write_all(&[2; 3000]).map_err(drop));
    errors += u32::from(append.is_err());
    let attempts = [
        mount.create_dir("dir/created"),
        mount.write("dir/created/small", [3; 10]),
        mount.hard_link("holes", "dir/another"),
        mount.symlink("somewhere", "dir/link"),
        mount.rename("late", "dir/late"),
        mount.truncate("holes", 100_000),
        mount.set_xattr("dir", "user.more", &[1; 200], 0),
        mount.remove_file("dir/hard"),
        mount.remove_dir_all("dir/sub"),
        mount.sync(),
    ];
    errors + attempts.iter().filter(|a| a.is_err()).count() as u32
}
