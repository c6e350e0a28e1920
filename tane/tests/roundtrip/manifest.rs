//! What a tree holds, as far as a file system keeps it.

use super::keeps::Keeps;
use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use tane::{FileType, Metadata, Tree};

#[derive(Debug, PartialEq)]
pub struct Entry {
    pub kind: FileType,
    mode: Option<u32>,
    owner: Option<(u32, u32)>,
    /// In nanoseconds, rounded down to what is kept.
    modified: i128,
    rdev: Option<u64>,
    /// Under which name it comes first.
    first: Option<PathBuf>,
    links: Option<u32>,
    sparse: Option<bool>,
    xattrs: Option<BTreeMap<OsString, Vec<u8>>>,
    target: Option<PathBuf>,
    pub content: Option<Vec<u8>>,
}

/// By path below the top.
pub type Manifest = BTreeMap<PathBuf, Entry>;

/// Slack for a file system's own blocks in a file.
const SLACK: u64 = 256 << 10;

struct Maker<'a> {
    tree: &'a Tree,
    keeps: &'a Keeps,
    manifest: Manifest,
    inodes: HashMap<u64, PathBuf>,
}

pub fn manifest(tree: &Tree, top: &str, keeps: &Keeps) -> Manifest {
    let mut maker = Maker {
        tree,
        keeps,
        manifest: Manifest::new(),
        inodes: HashMap::new(),
    };
    maker.directory(Path::new(top), Path::new(""));
    maker.manifest
}

impl Maker<'_> {
    fn directory(&mut self, at: &Path, name: &Path) {
        let listing = self.tree.read_dir(at).expect("lists");
        let names = listing.map(|entry| entry.expect("an entry").into_file_name());
        let mut names: Vec<OsString> = names.collect();
        names.sort();
        for entry in names {
            self.entry(&at.join(&entry), &name.join(&entry));
        }
    }

    fn entry(&mut self, at: &Path, name: &Path) {
        let found = self.tree.symlink_metadata(at);
        let found = found.unwrap_or_else(|e| panic!("{e}"));
        let entry = self.describe(&found, at, name);
        self.manifest.insert(name.to_owned(), entry);
        if found.is_dir() {
            self.directory(at, name);
        }
    }

    fn describe(&mut self, found: &Metadata, at: &Path, name: &Path) -> Entry {
        let keeps = self.keeps;
        let linked = keeps.hard_links && !found.is_dir();
        let first = self.inodes.entry(found.ino()).or_insert(name.to_owned());
        let modified = found.mtime();
        let nanoseconds =
            i128::from(modified.seconds) * 1_000_000_000 + i128::from(modified.nanoseconds);
        let granularity = i128::from(keeps.times);
        let owned = keeps.owners.is_some();
        Entry {
            kind: found.file_type(),
            mode: (owned && !found.is_symlink()).then(|| found.permissions()),
            owner: owned.then(|| (found.uid(), found.gid())),
            modified: nanoseconds.div_euclid(granularity),
            rdev: keeps.device_numbers.then(|| found.rdev()),
            first: linked.then(|| first.clone()),
            links: (linked && keeps.link_counts).then(|| found.nlink()),
            sparse: (keeps.holes && found.is_file())
                .then(|| found.blocks() * 512 + SLACK < found.len()),
            xattrs: keeps.xattrs.is_some().then(|| self.attributes(at)),
            target: found
                .is_symlink()
                .then(|| self.tree.read_link(at).expect("a target")),
            content: found.is_file().then(|| {
                let content = self.tree.read(at);
                content.unwrap_or_else(|e| panic!("{e}"))
            }),
        }
    }

    fn attributes(&self, at: &Path) -> BTreeMap<OsString, Vec<u8>> {
        let keys = self.tree.symlink_xattrs(at).expect("lists attributes");
        let keys = keys.into_iter().filter(|key| {
            let key = key.to_string_lossy();
            // What else there is are the file system's own.
            ["user.", "trusted.t", "system.posix_acl"]
                .iter()
                .any(|p| key.starts_with(p))
        });
        keys.map(|key| {
            let value = self.tree.symlink_xattr(at, &key).expect("reads");
            (key, value.expect("a value"))
        })
        .collect()
    }
}

impl Entry {
    /// For people: nobody reads megabytes.
    fn brief(&self) -> String {
        let text = format!(
            "{:?}",
            Entry {
                content: None,
                xattrs: None,
                target: None,
                first: None,
                ..*self
            }
        );
        let content = self
            .content
            .as_ref()
            .map(|c| (c.len(), &c[..c.len().min(16)]));
        let xattrs = self.xattrs.iter().flatten();
        let xattrs: Vec<_> = xattrs.map(|(key, value)| (key, value.len())).collect();
        format!(
            "{text} {:?} {content:?} {xattrs:?} {:?}",
            self.target, self.first
        )
    }
}

fn first_difference(a: &Entry, b: &Entry) -> String {
    let (Some(a), Some(b)) = (&a.content, &b.content) else {
        return String::new();
    };
    let differ: Vec<usize> = (0..a.len().min(b.len()))
        .filter(|&i| a[i] != b[i])
        .collect();
    match differ[..] {
        [] => String::new(),
        [first, .., last] => {
            let zeros = differ.iter().all(|&i| b[i] == 0);
            let count = differ.len();
            format!(" {count} bytes from {first} to {last}, all zero: {zeros}")
        }
        [only] => format!(" the byte at {only}"),
    }
}

/// What differs, entry by entry; nothing if the two are equal.
#[track_caller]
pub fn assert_same(wanted: &Manifest, found: &Manifest) {
    assert!(!wanted.is_empty());
    let mut differences = Vec::new();
    for (path, entry) in wanted {
        match found.get(path) {
            None => differences.push(format!("{path:?} is missing")),
            Some(other) if other != entry => {
                let place = first_difference(entry, other);
                let (entry, other) = (entry.brief(), other.brief());
                differences.push(format!(
                    "{path:?}:{place}\n  wanted {entry}\n  found  {other}"
                ));
            }
            Some(_) => {}
        }
    }
    let extra = found.keys().filter(|path| !wanted.contains_key(*path));
    differences.extend(extra.map(|path| format!("{path:?} should not be")));
    let count = differences.len();
    differences.truncate(12);
    assert!(count == 0, "{count} differ:\n{}", differences.join("\n"));
}
