//! What a program does that cares about its data, and what it was promised.

use crate::medium::Random;
use std::io::Write;
use tane::images::Fault;
use tane::{Mount, OpenOptions};

/// What a file system keeps beside what is in files.
#[derive(Clone, Copy, Debug)]
pub struct Gives {
    /// One file takes another's name as a whole.
    pub replaces: bool,
    pub links: bool,
    pub xattrs: bool,
    /// A new file's name is there when the file has been synced; else when the
    /// directory has.
    pub names: bool,
}

impl Gives {
    pub const ALL: Gives = Gives {
        replaces: true,
        links: true,
        xattrs: true,
        names: true,
    };
}

#[derive(Debug)]
pub enum State {
    Content(Vec<u8>),
    /// As `Content`, in a file with this many names.
    Linked(Vec<u8>, u32),
    Attribute(&'static str, Vec<u8>),
    Directory,
    Absent,
}

/// What must be there if the power fails with `from..=until` events done.
#[derive(Debug)]
pub struct Promise {
    path: &'static str,
    state: State,
    pub from: usize,
    pub until: usize,
}

impl Promise {
    /// Whether that is what is there.
    pub fn holds(&self, mount: &Mount) -> Result<(), String> {
        let path = self.path;
        let read = || mount.read(path).map_err(|e| e.to_string());
        let kept = match &self.state {
            State::Content(wanted) => read()? == *wanted,
            State::Linked(wanted, names) => {
                let metadata = mount.metadata(path).map_err(|e| e.to_string())?;
                read()? == *wanted && metadata.nlink() == *names
            }
            State::Attribute(key, wanted) => {
                mount.xattr(path, key).map_err(|e| e.to_string())?.as_ref() == Some(wanted)
            }
            State::Directory => mount.metadata(path).is_ok_and(|m| m.is_dir()),
            State::Absent => !mount.exists(path).map_err(|e| e.to_string())?,
        };
        match kept {
            true => Ok(()),
            false => Err(format!("{path}: not as promised")),
        }
    }
}

/// A workload that writes down what it was promised.
pub struct Workload<'a> {
    disk: &'a Fault,
    mount: &'a Mount,
    gives: Gives,
    promises: Vec<Promise>,
}

impl Workload<'_> {
    fn now(&self) -> usize {
        self.disk.log().len()
    }

    /// The path is about to change: what was promised about it ends.
    fn change(&mut self, path: &str) {
        let now = self.now();
        for promise in &mut self.promises {
            if promise.path == path {
                promise.until = promise.until.min(now);
            }
        }
    }

    /// A sync has returned.
    fn promised(&mut self, path: &'static str, state: State) {
        self.promises.push(Promise {
            path,
            state,
            from: self.now(),
            until: usize::MAX,
        });
    }

    fn write(&mut self, path: &'static str, data: &[u8]) {
        self.change(path);
        let mut file = self.mount.create(path).expect("create");
        file.write_all(data).expect("write");
        file.sync_all().expect("fsync");
        drop(file);
        if !self.gives.names {
            self.sync_dir(path.rsplit_once('/').map_or("/", |(dir, _)| dir));
        }
        self.promised(path, State::Content(data.to_vec()));
    }

    fn sync_dir(&self, path: &str) {
        let dir = self.mount.open_dir(path).expect("the directory");
        dir.sync().expect("fsync");
    }

    /// On this disk, which is mounted there.
    pub fn run(disk: &Fault, mount: &Mount, gives: Gives) -> Vec<Promise> {
        let mut workload = Workload {
            disk,
            mount,
            gives,
            promises: Vec::new(),
        };
        workload.all();
        workload.promises
    }

    fn all(&mut self) {
        let mut random = Random(1);
        let mount = self.mount;
        self.write("a", &random.bytes(100));
        self.write("b", &random.bytes(70_000));
        mount.create_dir("d").expect("mkdir");
        self.sync_dir("/");
        self.promised("d", State::Directory);
        // Never synced: may be there or not, and may be any length.
        mount.write("loose", random.bytes(50_000)).expect("write");

        let newer = random.bytes(9_000);
        if self.gives.replaces {
            self.replace(&newer);
        }
        if self.gives.links {
            self.change("a");
            mount.hard_link("a", "d/a").expect("link");
            self.sync_dir("d");
            self.promised("a", State::Linked(newer.clone(), 2));
            self.promised("d/a", State::Linked(newer.clone(), 2));
        }
        self.cut_and_patch();
        if self.gives.xattrs {
            let value = random.bytes(300);
            mount.set_xattr("a", "user.key", &value, 0).expect("xattr");
            mount.open("a").expect("a").sync_all().expect("fsync");
            self.promised("a", State::Attribute("user.key", value));
        }
        for name in ["d/1", "d/2", "d/3", "d/4", "d/5", "d/6"] {
            self.write(name, &random.bytes(1_000));
        }
        self.remove(&["d/2", "d/4"]);
        if self.gives.links {
            self.change("a");
            self.remove(&["d/a"]);
            self.promised("a", State::Linked(newer, 1));
        }
        mount.sync().expect("syncfs");
        self.write("d/7", &random.bytes(600_000));
        self.change("d/7");
        mount.remove_file("d/7").expect("unlink");
        if !self.gives.names {
            self.sync_dir("d");
        }
        self.write("last", b"end");
    }

    /// The way editors save: the old or the new, and after the sync the new.
    fn replace(&mut self, newer: &[u8]) {
        let mount = self.mount;
        self.change("a");
        let mut file = mount.create("a.new").expect("create");
        file.write_all(newer).expect("write");
        file.sync_all().expect("fsync");
        drop(file);
        mount.rename("a.new", "a").expect("rename");
        self.sync_dir("/");
        self.promised("a", State::Content(newer.to_vec()));
        self.promised("a.new", State::Absent);
    }

    fn cut_and_patch(&mut self) {
        let mount = self.mount;
        self.change("b");
        let file = OpenOptions::new().write(true).open(mount, "b").expect("b");
        file.set_len(5).expect("truncate");
        file.write_all_at(b"rest", 40_000).expect("write");
        file.sync_all().expect("fsync");
        let mut content = mount.read("b").expect("b");
        self.promised("b", State::Content(content.clone()));
        // In place, the data alone.
        self.change("b");
        file.write_all_at(b"patch", 20_000).expect("write");
        file.sync_data().expect("fdatasync");
        content[20_000..20_005].copy_from_slice(b"patch");
        self.promised("b", State::Content(content));
    }

    fn remove(&mut self, names: &[&'static str]) {
        for name in names {
            self.change(name);
            self.mount.remove_file(name).expect("unlink");
        }
        self.sync_dir("d");
        for name in names {
            self.promised(name, State::Absent);
        }
    }
}
