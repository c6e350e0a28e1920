//! What differs between two files of one name.

use super::content::{first_difference, Unreadable};
use super::Entry;
use crate::failure::Result;
use crate::names::{self, shown};
use crate::show::{device, utc};
use serde_json::{json, Map, Value};
use std::collections::BTreeMap;
use tane_linux::{Errno, Kind, Packed, Time};

/// What can differ.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Aspect {
    /// File, directory, symlink, ...
    Type,
    /// What files contain
    Content,
    /// What symlinks point to
    Target,
    /// The numbers of device nodes
    Device,
    Mode,
    /// User and group, by number
    Owner,
    /// When it was modified
    Mtime,
    /// When it was read (not unless asked for)
    Atime,
    /// When anything of it changed (not unless asked for)
    Ctime,
    /// Extended attributes, with ACLs and capabilities
    Xattrs,
    /// How many names it has; not of directories
    Links,
    /// What chattr sets (not unless asked for)
    Flags,
}

impl Aspect {
    /// Those that copies keep.
    pub const USUAL: [Aspect; 9] = [
        Aspect::Type,
        Aspect::Content,
        Aspect::Target,
        Aspect::Device,
        Aspect::Mode,
        Aspect::Owner,
        Aspect::Mtime,
        Aspect::Xattrs,
        Aspect::Links,
    ];

    fn word(self) -> &'static str {
        match self {
            Aspect::Type => "type",
            Aspect::Content => "content",
            Aspect::Target => "target",
            Aspect::Device => "device",
            Aspect::Mode => "mode",
            Aspect::Owner => "owner",
            Aspect::Mtime => "mtime",
            Aspect::Atime => "atime",
            Aspect::Ctime => "ctime",
            Aspect::Xattrs => "xattrs",
            Aspect::Links => "links",
            Aspect::Flags => "flags",
        }
    }
}

/// What to look at.
pub struct Aspects {
    pub wanted: Vec<Aspect>,
    /// Files of one size and modification time are taken for the same.
    pub quick: bool,
}

/// What was found: for people, and for JSON.
#[derive(Default)]
pub struct Differences {
    pub what: Vec<&'static str>,
    pub text: Vec<String>,
    pub old: Map<String, Value>,
    pub new: Map<String, Value>,
    /// Regular files on both sides, with different content.
    pub content: bool,
}

impl Differences {
    /// Outer failures end the command, inner ones concern the files.
    pub fn between(
        old: &Entry,
        new: &Entry,
        aspects: &Aspects,
    ) -> Result<std::result::Result<Differences, Unreadable>> {
        let mut found = Differences::default();
        let (a, b) = (&old.stat, &new.stat);
        let wants = |aspect| aspects.wanted.contains(&aspect);
        if a.kind() != b.kind() {
            if wants(Aspect::Type) {
                found.note(Aspect::Type, "type", a.kind().word(), b.kind().word());
            }
            return Ok(Ok(found));
        }
        let kind = a.kind();
        if kind == Kind::File && wants(Aspect::Content) {
            match found.content(old, new, aspects.quick)? {
                Ok(()) => {}
                Err(e) => return Ok(Err(e)),
            }
        }
        if kind == Kind::Symlink && wants(Aspect::Target) {
            if let Err(e) = found.target(old, new) {
                return Ok(Err(e));
            }
        }
        if kind.is_device() && wants(Aspect::Device) && a.rdev != b.rdev {
            let number = |rdev| {
                let (major, minor) = device(rdev);
                json!({"major": major, "minor": minor})
            };
            let text = |rdev| {
                let (major, minor) = device(rdev);
                format!("{major},{minor}")
            };
            let values = (number(a.rdev), number(b.rdev));
            found.add(Aspect::Device, &text(a.rdev), &text(b.rdev));
            found.put("device", values.0, values.1);
        }
        if kind != Kind::Symlink && wants(Aspect::Mode) && a.permissions() != b.permissions() {
            let [a, b] = [a, b].map(|s| format!("{:04o}", s.permissions()));
            found.note(Aspect::Mode, "mode", &a, &b);
        }
        if wants(Aspect::Owner) && (a.uid, a.gid) != (b.uid, b.gid) {
            let [x, y] = [a, b].map(|s| format!("{}:{}", s.uid, s.gid));
            found.add(Aspect::Owner, &x, &y);
            found.put("uid", a.uid.into(), b.uid.into());
            found.put("gid", a.gid.into(), b.gid.into());
        }
        let times = [
            (Aspect::Mtime, a.mtime, b.mtime),
            (Aspect::Atime, a.atime, b.atime),
            (Aspect::Ctime, a.ctime, b.ctime),
        ];
        for (aspect, a, b) in times {
            if wants(aspect) && a != b {
                let [a, b]: [String; 2] = [a, b].map(|t: Time| utc(t));
                found.note(aspect, aspect.word(), &a, &b);
            }
        }
        if kind != Kind::Directory && wants(Aspect::Links) && a.nlink != b.nlink {
            found.add(Aspect::Links, &a.nlink.to_string(), &b.nlink.to_string());
            found.put("links", a.nlink.into(), b.nlink.into());
        }
        if wants(Aspect::Xattrs) {
            if let Err(e) = found.xattrs(old, new) {
                return Ok(Err(e));
            }
        }
        if wants(Aspect::Flags) && matches!(kind, Kind::File | Kind::Directory) {
            if let Err(e) = found.flags(old, new) {
                return Ok(Err(e));
            }
        }
        Ok(Ok(found))
    }

    pub fn is_empty(&self) -> bool {
        self.what.is_empty()
    }

    fn add(&mut self, aspect: Aspect, old: &str, new: &str) {
        self.what.push(aspect.word());
        self.text.push(format!("{} {old} -> {new}", aspect.word()));
    }

    fn put(&mut self, key: &str, old: Value, new: Value) {
        self.old.insert(key.into(), old);
        self.new.insert(key.into(), new);
    }

    fn note(&mut self, aspect: Aspect, key: &str, old: &str, new: &str) {
        self.add(aspect, old, new);
        self.put(key, old.into(), new.into());
    }

    fn content(
        &mut self,
        old: &Entry,
        new: &Entry,
        quick: bool,
    ) -> Result<std::result::Result<(), Unreadable>> {
        let (a, b) = (&old.stat, &new.stat);
        if a.size != b.size {
            self.content = true;
            self.what.push(Aspect::Content.word());
            let (a, b) = (a.size, b.size);
            self.text.push(format!("content ({a} -> {b} bytes)"));
            self.put("size", a.into(), b.into());
            return Ok(Ok(()));
        }
        if quick && a.mtime == b.mtime {
            return Ok(Ok(()));
        }
        Ok(first_difference(old, new)?.map(|at| {
            let Some(at) = at else {
                return;
            };
            self.content = true;
            self.what.push(Aspect::Content.word());
            self.text.push(format!("content (from byte {at})"));
            self.put("differs_at", at.into(), at.into());
        }))
    }

    fn target(&mut self, old: &Entry, new: &Entry) -> std::result::Result<(), Unreadable> {
        let read = |e: &Entry, is_new| e.target().map_err(|e| (is_new, e));
        let (a, b) = (read(old, false)?, read(new, true)?);
        if a != b {
            self.add(Aspect::Target, &shown(&a), &shown(&b));
            names::put(&mut self.old, "target", &a);
            names::put(&mut self.new, "target", &b);
        }
        Ok(())
    }

    fn xattrs(&mut self, old: &Entry, new: &Entry) -> std::result::Result<(), Unreadable> {
        let read = |e: &Entry, is_new| {
            let found = e.xattrs().map_err(|e| (is_new, e))?;
            let pairs = Packed(&found);
            let own = pairs.map(|(name, value)| (name.to_bytes().to_vec(), value.to_vec()));
            Ok(own.collect::<BTreeMap<_, _>>())
        };
        let (a, b) = (read(old, false)?, read(new, true)?);
        if a == b {
            return Ok(());
        }
        self.what.push(Aspect::Xattrs.word());
        let mut lists = [Vec::new(), Vec::new()];
        let all: std::collections::BTreeSet<_> = a.keys().chain(b.keys()).collect();
        for name in all {
            let values = [a.get(name), b.get(name)];
            if values[0] == values[1] {
                continue;
            }
            let word = match values {
                [None, _] => "added",
                [_, None] => "removed",
                _ => "changed",
            };
            self.text.push(format!("xattr {} {word}", shown(name)));
            for (list, value) in lists.iter_mut().zip(values) {
                if let Some(value) = value {
                    let mut x = Map::new();
                    names::put(&mut x, "name", name);
                    x.insert("value_hex".into(), names::hex(value).into());
                    list.push(Value::from(x));
                }
            }
        }
        let [old, new] = lists;
        self.put("xattrs", old.into(), new.into());
        Ok(())
    }

    fn flags(&mut self, old: &Entry, new: &Entry) -> std::result::Result<(), Unreadable> {
        let read = |e: &Entry, is_new| {
            let letters = e.flags().map_err(|e: Errno| (is_new, e))?;
            Ok(String::from_utf8_lossy(&letters).into_owned())
        };
        let (a, b) = (read(old, false)?, read(new, true)?);
        if a != b {
            let text = |f: &str| {
                if f.is_empty() {
                    "none".into()
                } else {
                    f.to_owned()
                }
            };
            self.add(Aspect::Flags, &text(&a), &text(&b));
            self.put("flags", a.into(), b.into());
        }
        Ok(())
    }
}
