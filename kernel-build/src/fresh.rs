// SPDX-License-Identifier: GPL-2.0-only
//! A file that gets its name once it is whole: an interrupted run leaves the old one. Until
//! then it has a name beside that, which nobody's file had.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::Result;

/// Not there any more when dropped, unless it got its name.
pub struct Fresh {
    path: PathBuf,
    to: PathBuf,
}

impl Fresh {
    /// An empty one, that is to be called `to`.
    pub fn of(to: &Path) -> Result<Fresh> {
        for number in 0u32.. {
            let mut name = to.to_path_buf().into_os_string();
            name.push(format!(".{}-{number}.new", std::process::id()));
            let path = PathBuf::from(name);
            match File::create_new(&path) {
                Ok(_) => {
                    let to = to.to_path_buf();
                    return Ok(Fresh { path, to });
                }
                Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
                Err(e) => return Err(format!("{}: {e}", path.display())),
            }
        }
        unreachable!("somebody has four thousand million files there")
    }

    /// What it is called until then.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// With this text.
    pub fn with(self, text: &str) -> Result<Fresh> {
        fs::write(&self.path, text).map_err(|e| self.failed(&e))?;
        Ok(self)
    }

    /// With what this one has.
    pub fn copy_of(self, other: &Path) -> Result<Fresh> {
        fs::copy(other, &self.path).map_err(|e| self.failed(&e))?;
        Ok(self)
    }

    /// The same file as this one, or its copy.
    pub fn same_as(self, other: &Path) -> Result<Fresh> {
        let linked = fs::remove_file(&self.path).and_then(|()| fs::hard_link(other, &self.path));
        linked
            .or_else(|_| fs::copy(other, &self.path).map(drop))
            .map_err(|e| self.failed(&e))?;
        Ok(self)
    }

    /// It is whole.
    pub fn put(self) -> Result<()> {
        fs::rename(&self.path, &self.to).map_err(|e| self.failed(&e))
    }

    fn failed(&self, error: &std::io::Error) -> String {
        format!("{}: {error}", self.to.display())
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        // Renamed to another name of the same file, it has kept this one, too.
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scratch(name: &str) -> PathBuf {
        let name = format!("tane-fresh-{name}-{}", std::process::id());
        let dir = std::env::temp_dir().join(name);
        fs::create_dir_all(&dir).unwrap();
        dir
    }

    fn names(dir: &Path) -> Vec<String> {
        let entries = fs::read_dir(dir).unwrap().flatten();
        let mut names: Vec<_> = entries
            .map(|entry| entry.file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_of_the_name_that_it_would_have_until_then_stays() {
        let dir = scratch("other");
        let to = dir.join("x.elf");
        let other = dir.join(format!("x.elf.{}-0.new", std::process::id()));
        fs::write(&other, "of somebody").unwrap();
        Fresh::of(&to).unwrap().with("ours").unwrap().put().unwrap();
        assert_eq!(fs::read(&other).unwrap(), b"of somebody");
        assert_eq!(fs::read(&to).unwrap(), b"ours");
        assert_eq!(names(&dir).len(), 2);
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn nothing_is_left_of_one_that_got_no_name_or_a_name_of_the_same_file() {
        let dir = scratch("left");
        fs::write(dir.join("vmlinux"), "linked").unwrap();
        let to = dir.join("x.debug");
        for _ in 0..2 {
            let fresh = Fresh::of(&to).unwrap();
            fresh.same_as(&dir.join("vmlinux")).unwrap().put().unwrap();
        }
        drop(Fresh::of(&to).unwrap().with("half").unwrap());
        assert_eq!(names(&dir), ["vmlinux", "x.debug"]);
        assert_eq!(fs::read(&to).unwrap(), b"linked");
        fs::remove_dir_all(&dir).unwrap();
    }
}
