//! Patterns in paths: the files that they stand for, in the order of names.

use crate::failure::{Failure, SOME_FAILED};
use crate::interrupt;
use crate::names::plain;
use crate::walk::{walk, Next, Visit, Visitor};
use std::convert::Infallible;
use tane::ImagePath;
use tane_copy::patterns::{glob, has_wildcards, unescaped};
use tane_linux::{Entries, Errno, Kind, Root};

/// What does not say that something cannot be read, but that there is nothing.
const NOTHING: [i32; 3] = [libc::ENOENT, libc::ENOTDIR, libc::ELOOP];

/// What a path of the command line stands for, from the root on.
#[derive(Debug, PartialEq, Eq)]
pub enum Meant {
    /// Itself, whether it is there or not.
    One(Vec<u8>),
    /// It is a pattern.
    These(Vec<Vec<u8>>),
}

/// What is there under the very name is that. Else `*`, `?` and `[...]` make a pattern,
/// unless there is a \ before them.
pub fn meant(root: &Root, path: &[u8]) -> Result<Meant, Errno> {
    if !path.iter().any(|b| b"*?[".contains(b)) || exists(root, path)? {
        return Ok(Meant::One(path.to_vec()));
    }
    match path.split(|b| *b == b'/').any(has_wildcards) {
        true => matches(root, b"/", path).map(Meant::These),
        false => Ok(Meant::One(unescaped(path))),
    }
}

/// The same of a source of a copy, which has to be there. In a session it is what it is: its
/// shell has looked for patterns before.
pub fn sources(root: &Root, at: &ImagePath, in_session: bool) -> Result<Vec<ImagePath>, Failure> {
    let shown = || [at.prefix(), at.path.clone()].concat();
    if in_session {
        return Ok(vec![at.clone()]);
    }
    let paths = match meant(root, &at.path).map_err(|e| Failure::file(&shown(), e))? {
        Meant::One(path) => vec![path],
        Meant::These(paths) if paths.is_empty() => {
            let text = format!("{}: no file matches", plain(&shown()));
            return Err(Failure::new(SOME_FAILED, text));
        }
        Meant::These(paths) => paths,
    };
    let with = |path| ImagePath { path, ..at.clone() };
    Ok(paths.into_iter().map(with).collect())
}

/// Names in a directory, and what they are as far as that is known.
pub type Names = Vec<(Vec<u8>, Option<Kind>)>;

/// What patterns are looked for in.
pub trait Tree {
    /// What is at a path, of a symlink itself unless it is followed.
    fn kind(&self, path: &[u8], follow: bool) -> Result<Kind, Errno>;

    /// In order.
    fn list(&self, dir: &[u8]) -> Result<Names, Errno>;

    /// A directory that is called `path` and those below it; with `last` all that is below it.
    /// Nothing whose name begins with a dot.
    fn all_below(&self, dir: &[u8], path: &[u8], last: bool) -> Result<Vec<Vec<u8>>, Errno>;
}

impl Tree for Root<'_> {
    fn kind(&self, path: &[u8], follow: bool) -> Result<Kind, Errno> {
        self.stat(path, follow).map(|stat| stat.kind())
    }

    fn list(&self, dir: &[u8]) -> Result<Names, Errno> {
        let mut entries = Entries::read(&self.open_dir(dir)?)?;
        entries.sort_by_name();
        let all = entries.list.iter();
        let all = all.map(|entry| (entries.name(entry).to_bytes().to_vec(), entry.kind));
        Ok(all.collect())
    }

    fn all_below(&self, dir: &[u8], path: &[u8], last: bool) -> Result<Vec<Vec<u8>>, Errno> {
        let mut all = All {
            last,
            found: Vec::new(),
            error: None,
        };
        let Ok(()) = walk(&self.open_dir(dir)?, c".", path, &mut all);
        all.error.map_or(Ok(all.found), Err)
    }
}

/// The paths that match a pattern below `base`, as it has them. As in a shell, what
/// begins with a dot does not match by chance.
pub fn matches(root: &dyn Tree, base: &[u8], pattern: &[u8]) -> Result<Vec<Vec<u8>>, Errno> {
    let top: &[u8] = if pattern.starts_with(b"/") { b"/" } else { b"" };
    let parts = pattern
        .split(|b| *b == b'/')
        .filter(|part| !part.is_empty());
    let parts: Vec<_> = parts.collect();
    let place = Place { root, base };
    let mut found = vec![top.to_vec()];
    for (i, part) in parts.iter().enumerate() {
        let last = i + 1 == parts.len();
        let mut next = Vec::new();
        for path in found {
            if interrupt::requested() {
                return Ok(Vec::new());
            }
            match *part {
                b"**" => place.all_below(path, last, &mut next)?,
                part if has_wildcards(part) => place.matching(&path, part, last, &mut next)?,
                part => next.push(below(&path, &unescaped(part))),
            }
        }
        if *part == b"**" {
            // Two of them come to the same in many ways.
            next.sort();
            next.dedup();
        }
        found = next;
    }
    let only_directories = pattern.ends_with(b"/");
    let mut there = Vec::new();
    for mut path in found {
        if only_directories {
            path.push(b'/');
        }
        if exists(root, &place.whole(&path))? {
            there.push(path);
        }
    }
    Ok(there)
}

/// A path below another.
pub fn below(path: &[u8], name: &[u8]) -> Vec<u8> {
    let slash: &[u8] = match path {
        [] | [.., b'/'] => b"",
        _ => b"/",
    };
    [path, slash, name].concat()
}

fn exists(root: &dyn Tree, path: &[u8]) -> Result<bool, Errno> {
    match root.kind(path, path.ends_with(b"/")) {
        Ok(kind) => Ok(!path.ends_with(b"/") || kind == Kind::Directory),
        Err(Errno(e)) if NOTHING.contains(&e) || e == libc::ENAMETOOLONG => Ok(false),
        Err(e) => Err(e),
    }
}

/// Where paths begin that do not begin at the root.
struct Place<'r> {
    root: &'r dyn Tree,
    base: &'r [u8],
}

impl Place<'_> {
    fn whole(&self, path: &[u8]) -> Vec<u8> {
        match path {
            [b'/', ..] => path.to_vec(),
            [] => self.base.to_vec(),
            _ => below(self.base, path),
        }
    }

    /// Adds what matches in a directory.
    fn matching(
        &self,
        path: &[u8],
        part: &[u8],
        last: bool,
        to: &mut Vec<Vec<u8>>,
    ) -> Result<(), Errno> {
        let entries = match self.root.list(&self.whole(path)) {
            Err(Errno(e)) if NOTHING.contains(&e) => return Ok(()),
            other => other?,
        };
        let leads_on = |kind| matches!(kind, None | Some(Kind::Directory | Kind::Symlink));
        for (name, _) in entries.iter().filter(|(_, kind)| last || leads_on(*kind)) {
            let hidden = name.starts_with(b".") && !unescaped(part).starts_with(b".");
            if !hidden && glob(part, name) {
                to.push(below(path, name));
            }
        }
        Ok(())
    }

    /// Adds a directory and those below it; with `last` all that is below it.
    fn all_below(&self, path: Vec<u8>, last: bool, to: &mut Vec<Vec<u8>>) -> Result<(), Errno> {
        match self.root.all_below(&self.whole(&path), &path, last) {
            Err(Errno(e)) if NOTHING.contains(&e) => {}
            found => to.extend(found?),
        }
        Ok(())
    }
}

struct All {
    last: bool,
    found: Vec<Vec<u8>>,
    error: Option<Errno>,
}

impl Visitor for All {
    type Error = Infallible;

    fn visit(&mut self, visit: &Visit) -> Result<Next, Infallible> {
        let hidden = visit.depth > 0 && visit.name.to_bytes().starts_with(b".");
        if visit.after || hidden {
            return Ok(Next::Past);
        }
        let is_dir = visit.stat.kind() == Kind::Directory;
        if is_dir && !self.last || self.last && visit.depth > 0 {
            self.found.push(visit.path.to_vec());
        }
        Ok(Next::Into)
    }

    fn unreadable(&mut self, _path: &[u8], error: Errno) {
        self.error = Some(error);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;
    use tane_linux::{Host, Root, Sys};

    static HOST: Host = Host;

    struct Tree(PathBuf);

    impl Drop for Tree {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn tree(name: &str, files: &[&str]) -> (Tree, Root<'static>) {
        let name = format!("tane-expand-{}-{name}", std::process::id());
        let top = Tree(std::env::temp_dir().join(name));
        for file in files {
            let path = top.0.join(file);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("mkdir");
            std::fs::write(path, "").expect("a file");
        }
        let host = Root::host(Sys(&HOST));
        let dir = host.open_dir(top.0.as_os_str().as_encoded_bytes());
        let root = Root::image(dir.expect("the tree"));
        (top, root)
    }

    fn found(root: &Root, base: &str, pattern: &str) -> Vec<String> {
        let found = matches(root, base.as_bytes(), pattern.as_bytes()).expect(pattern);
        let text = |path: Vec<u8>| String::from_utf8(path).expect("UTF-8");
        found.into_iter().map(text).collect()
    }

    #[test]
    fn patterns_stand_for_what_a_shell_would_find() {
        let files = [
            "etc/b.conf",
            "etc/a.conf",
            "etc/.c.conf",
            "etc/d/e.conf",
            "f[1]",
            "f1",
        ];
        let (top, root) = tree("shell", &files);
        std::os::unix::fs::symlink("etc", top.0.join("link")).expect("a symlink");
        assert_eq!(
            found(&root, "/", "/etc/*.conf"),
            ["/etc/a.conf", "/etc/b.conf"]
        );
        assert_eq!(
            found(&root, "/", "/link/[ab].conf"),
            ["/link/a.conf", "/link/b.conf"]
        );
        assert_eq!(found(&root, "/", "/etc/.*"), ["/etc/.c.conf"]);
        assert_eq!(
            found(&root, "/", "/*/*/*.conf"),
            ["/etc/d/e.conf", "/link/d/e.conf"]
        );
        assert_eq!(found(&root, "/etc", "?.conf"), ["a.conf", "b.conf"]);
        assert_eq!(found(&root, "/etc", "d/*"), ["d/e.conf"]);
        assert_eq!(found(&root, "/", "/etc/*/"), ["/etc/d/"]);
        assert_eq!(
            found(&root, "/", "/*/d/e.conf"),
            ["/etc/d/e.conf", "/link/d/e.conf"]
        );
        assert_eq!(
            found(&root, "/", "/**/*.conf"),
            ["/etc/a.conf", "/etc/b.conf", "/etc/d/e.conf"]
        );
        assert_eq!(found(&root, "/", "/etc/d/**"), ["/etc/d/e.conf"]);
        assert_eq!(found(&root, "/", "/none/*"), [""; 0]);
        assert_eq!(found(&root, "/", "/f\\[*"), ["/f[1]"]);
    }

    #[test]
    fn a_name_that_is_there_is_no_pattern() {
        let (_top, root) = tree("literal", &["f[1]", "f1", "x*"]);
        let one = |path: &str| Meant::One(path.as_bytes().to_vec());
        let meant = |path: &str| meant(&root, path.as_bytes()).expect(path);
        assert_eq!(meant("/f[1]"), one("/f[1]"));
        assert_eq!(meant("/f[12]"), Meant::These(vec![b"/f1".to_vec()]));
        assert_eq!(meant("/x*"), one("/x*"));
        assert_eq!(meant("/new\\*"), one("/new*"));
        assert_eq!(meant("/new\\"), one("/new\\"));
        assert_eq!(meant("/no*"), Meant::These(Vec::new()));
        assert_eq!(meant("/a[b"), one("/a[b"));
    }
}
